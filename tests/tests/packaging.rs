//! What is shipped next to the program: the package's files, its scripts, the unit, the image.

mod release;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::TempDir;
use tests::binary::Server;
use tests::parts;
use tests::site::Site;
use tests::wait;
use toml::Value;

/// Where files of the package come from and go to, below the root: all but the manual's.
const LAYOUT: [&str; 18] = [
    "etc/fulmar/fastcgi.conf",
    "etc/fulmar/fastcgi_params",
    "etc/fulmar/fulmar.conf",
    "etc/fulmar/mime.types",
    "etc/fulmar/proxy_params",
    "etc/fulmar/scgi_params",
    "etc/fulmar/sites-available/default",
    "etc/fulmar/snippets/fastcgi-php.conf",
    "etc/fulmar/uwsgi_params",
    "etc/logrotate.d/fulmar",
    "usr/sbin/fulmar",
    "usr/share/fulmar/html/index.html",
    "usr/share/man/man5/fulmar.conf.5",
    "usr/share/man/man8/fulmar.8",
    "usr/share/bash-completion/completions/fulmar",
    "usr/share/zsh/vendor-completions/_fulmar",
    "usr/share/fish/vendor_completions.d/fulmar.fish",
    "usr/share/doc/fulmar/installing.md",
];

/// The most that `systemd-analyze security` may find the service exposed, in tenths.
const EXPOSURE_MAX: u32 = 35;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_path_buf()
}

/// The package as its manifest describes it.
fn package() -> Value {
    let text = fs::read_to_string(root().join("crates/fulmar/Cargo.toml")).expect("manifest");
    let manifest: Value = toml::from_str(&text).expect("TOML");
    manifest["package"]["metadata"]["deb"].clone()
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|word| word.as_str().expect("a text").to_owned()).collect()
}

/// Each file's source, from the root, and its destination below the root.
fn files() -> Vec<(PathBuf, String)> {
    let assets = package()["assets"].clone();
    let mut files = Vec::new();
    for asset in assets.as_array().expect("assets") {
        let [source, destination, mode] = &words(asset)[..] else { panic!("{asset:?}") };
        assert_eq!(mode == "755", source.starts_with("target/release/"), "{source}");
        let source = match source.strip_prefix("../../") {
            Some(source) => source.to_owned(),
            None if source.starts_with("target/") => source.clone(),
            None => format!("crates/fulmar/{source}"),
        };
        let pattern = root().join(&source).display().to_string();
        let found: Vec<PathBuf> = match source.starts_with("target/") {
            true => vec![PathBuf::from(&pattern)],
            false => glob::glob(&pattern).expect("a pattern").map(|path| path.expect("a file")).collect(),
        };
        assert!(!found.is_empty(), "{source} does not exist");
        for path in found {
            let name = path.file_name().expect("a name").display().to_string();
            let destination =
                if destination.ends_with('/') { destination.clone() + &name } else { destination.clone() };
            files.push((path, destination));
        }
    }
    files
}

/// A library that is linked in or not, as the machine has it or not, makes different programs of the same sources.
#[test]
fn the_program_needs_the_c_library_only() {
    const NEEDED: [&str; 5] = ["linux-vdso.", "libc.", "libm.", "libgcc_s.", "ld-linux"];
    let output = Command::new("ldd").arg(Server::Fulmar.path()).output().expect("ldd");
    let text = String::from_utf8_lossy(&output.stdout);
    let libraries: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(libraries.iter().any(|path| path.starts_with("libc.so")), "{text}");
    for path in libraries {
        let name = path.rsplit('/').next().expect("a name");
        assert!(NEEDED.iter().any(|start| name.starts_with(start)), "{path} in\n{text}");
    }
}

/// Debian's tools take the address for one, and it can be nobody else's: names below `localhost` are reserved (RFC 6761).
#[test]
fn the_maintainers_address() {
    let package = package();
    let maintainer = package["maintainer"].as_str().expect("a maintainer");
    let (name, address) = maintainer.split_once(" <").expect("a name and an address");
    let (user, host) = address.strip_suffix('>').and_then(|text| text.split_once('@')).expect("an address");
    assert!(!name.is_empty() && !user.is_empty() && host.ends_with(".localhost"), "{maintainer}");
    let changelog = fs::read_to_string(root().join("packaging/debian/changelog")).expect("changelog");
    assert!(changelog.contains(&format!("\n -- {maintainer}  ")), "{changelog}");
}

#[test]
fn files_of_the_package() {
    let destinations: BTreeSet<String> = files().into_iter().map(|(_, destination)| destination).collect();
    let is_manual = |path: &&String| path.starts_with("usr/share/doc/");
    for expected in LAYOUT {
        assert!(destinations.contains(expected), "{expected} is missing");
    }
    for destination in destinations.iter().filter(|path| !is_manual(path)) {
        assert!(LAYOUT.contains(&destination.as_str()), "{destination} is not expected");
    }
    let settings: BTreeSet<String> =
        destinations.iter().filter(|path| path.starts_with("etc/")).map(|path| format!("/{path}")).collect();
    let kept: BTreeSet<String> = words(&package()["conf-files"]).into_iter().collect();
    assert_eq!(kept, settings, "an administrator's changes to these are kept");
}

/// What the manual points to is in the package, too.
#[test]
fn links_of_the_manual() {
    let manual = |path: &str| path.strip_prefix("usr/share/doc/fulmar/").map(PathBuf::from);
    let pages: Vec<(PathBuf, PathBuf)> =
        files().into_iter().filter_map(|(source, path)| Some((source, manual(&path)?))).collect();
    let below = |page: &Path, target: &str| match target.strip_prefix("../") {
        Some(target) => PathBuf::from(target),
        None => page.parent().expect("a directory").join(target),
    };
    let mut links = 0;
    for (source, page) in pages.iter().filter(|(_, page)| page.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(source).expect("page");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| target.ends_with(".md") && !target.contains("://")) {
            let there = below(page, target);
            assert!(pages.iter().any(|(_, path)| *path == there), "{}: {target}", page.display());
            links += 1;
        }
    }
    assert!(links > 10);
}

/// A site whose prefix is what `/etc/fulmar` is after the installation, with this main file.
fn installed(main: &str) -> Site {
    let site = Site::whole(main);
    let etc = site.prefix();
    for (source, destination) in files() {
        if let Some(path) = destination.strip_prefix("etc/fulmar/").map(|path| etc.join(path)) {
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::copy(source, path).expect("file");
        }
    }
    fs::create_dir(etc.join("sites-enabled")).expect("directory");
    std::os::unix::fs::symlink("../sites-available/default", etc.join("sites-enabled/default"))
        .expect("link");
    site
}

/// The words of each `listen` in a text.
fn listens(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix("listen ")?.strip_suffix(';')).collect()
}

/// After the installation a page is served, to this machine, and no port is taken that other servers want.
#[test]
fn the_first_site() {
    let main = fs::read_to_string(root().join("packaging/conf/fulmar.conf")).expect("configuration");
    assert_eq!(listens(&main), Vec::<&str>::new());
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let probe = "server { listen 127.0.0.1:%%PORT%%; location / { return 200 probe; } }";
    let main = main
        .replace("user www-data;", &format!("daemon off; {user}"))
        .replace("/run/fulmar.pid", "%%LOGS%%/pid")
        .replace("/var/log/fulmar", "%%LOGS%%")
        .replace("http {", &format!("http {{ {probe}"));
    let site = installed(&main);
    let path = site.prefix().join("sites-available/default");
    let shipped = fs::read_to_string(&path).expect("site");
    assert_eq!(listens(&shipped), ["127.0.0.1:8080 default_server"]);
    let socket = site.prefix().join("socket");
    let text = shipped
        .replace("127.0.0.1:8080", &format!("unix:{}", socket.display()))
        .replace("/usr/share/fulmar/html", &root().join("packaging/html").display().to_string());
    fs::write(&path, text).expect("site");
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /\nConnection: close").last().text(), "probe");
    let answer = ask_unix(&socket, "GET / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("Content-Type: text/html"), "{answer}");
    assert!(answer.contains("Fulmar is running"), "{answer}");
    let status = ask_unix(&socket, "GET /status HTTP/1.0\r\n\r\n");
    assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    running.stop();
}

fn ask_unix(path: &Path, request: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path).expect("connect");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("timeout");
    stream.write_all(request.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answer");
    answer
}

/// The snippets that sites include are good ones, with PHP and with another server.
#[test]
fn snippets() {
    let site = installed(
        r#"
        error_log stderr;
        pid %%LOGS%%/pid;
        http {
            access_log off;
            server {
                listen 127.0.0.1:%%PORT%%;
                location ~ \.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/none; }
                location / { include proxy_params; proxy_pass http://127.0.0.1:9; }
            }
        }
        "#,
    );
    site.test(Server::Fulmar).unwrap_or_else(|text| panic!("{text}"));
}

/// A maintainer script with the system's directories in a directory of this test.
fn run_script(name: &str, directory: &TempDir, arguments: &[&str]) {
    let below = |path: &str| format!("{}{path}", directory.path().display());
    let script = fs::read_to_string(root().join("packaging/debian").join(name)).expect("script");
    let script = ["/etc/fulmar", "/etc/nginx", "/var/log/fulmar"]
        .iter()
        .fold(script, |script, path| script.replace(path, &below(path)))
        .replace("chown ", ": chown ");
    let path = directory.path().join(name);
    fs::write(&path, script).expect("script");
    let output = Command::new("/bin/sh").arg(&path).args(arguments).output().expect("run");
    assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
}

#[test]
fn an_administrators_choice_outlives_upgrades() {
    let directory = TempDir::new().expect("directory");
    let etc = directory.path().join("etc/fulmar");
    for below in ["sites-available", "snippets"] {
        fs::create_dir_all(etc.join(below)).expect("directory");
    }
    fs::write(etc.join("sites-available/default"), "").expect("site");
    fs::create_dir_all(directory.path().join("var/log")).expect("directory");
    let link = etc.join("sites-enabled/default");
    run_script("postinst", &directory, &["configure", ""]);
    assert!(link.exists() && etc.join("conf.d").is_dir());
    let log = directory.path().join("var/log/fulmar/access.log");
    let mode = fs::metadata(&log).expect("log").permissions().mode() & 0o777;
    assert_eq!(mode, 0o640, "as logrotate makes it");
    fs::write(&log, "a line\n").expect("log");
    run_script("postinst", &directory, &["configure", "0.1.0-1"]);
    fs::remove_file(&link).expect("link");
    run_script("postinst", &directory, &["configure", "0.1.0-1"]);
    assert!(!link.exists(), "the link is back");
    assert_eq!(fs::read_to_string(&log).expect("log"), "a line\n");

    fs::write(etc.join("conf.d/mine.conf"), "").expect("file");
    run_script("postrm", &directory, &["remove"]);
    assert!(directory.path().join("var/log/fulmar").exists(), "only a purge takes logs");
    fs::remove_file(etc.join("sites-available/default")).expect("what dpkg removes");
    run_script("postrm", &directory, &["purge"]);
    assert!(!directory.path().join("var/log/fulmar").exists() && !etc.join("sites-available").exists());
    assert!(etc.join("conf.d/mine.conf").exists(), "a file that is not the package's");
    fs::remove_file(etc.join("conf.d/mine.conf")).expect("file");
    run_script("postrm", &directory, &["purge"]);
    assert!(!etc.exists());
}

/// Logs are opened anew by Fulmar, and a number that a killed one left behind ends nobody.
#[test]
fn rotation() {
    if !parts::is_present("start-stop-daemon", parts::program(&["start-stop-daemon"]).is_some()) {
        return;
    }
    let text = fs::read_to_string(root().join("packaging/fulmar.logrotate")).expect("text");
    let script =
        text.split("postrotate\n").nth(1).and_then(|rest| rest.split("endscript").next()).expect("script");
    let rotate = |pid_path: &Path| {
        let script = script.replace("/run/fulmar.pid", &pid_path.display().to_string());
        let output = Command::new("sh").args(["-e", "-c", &script]).output().expect("sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let running = site.start(Server::Fulmar);
    let log = running.log_path("error.log");
    fs::rename(&log, running.log_path("rotated.log")).expect("rotate");
    rotate(&running.pid_path());
    assert!(wait::until(Duration::from_secs(20), || log.exists()), "{}", running.all_logs());
    running.stop();

    let left = site.prefix().join("left.pid");
    rotate(&left);
    let mut stranger = Command::new("sleep").arg("60").spawn().expect("sleep");
    fs::write(&left, format!("{}\n", stranger.id())).expect("pid");
    rotate(&left);
    let ended = stranger.try_wait().expect("wait");
    drop(stranger.kill());
    drop(stranger.wait());
    assert_eq!(ended, None);
}

/// The page "From nginx" changes logrotate's file of Debian's nginx by one command, and takes it back by another.
#[test]
fn logs_of_nginx_are_rotated_by_its_own_file() {
    let debian = Path::new("/etc/logrotate.d/nginx");
    if !parts::is_present("logrotate's file of nginx", debian.exists()) {
        return;
    }
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let running = site.start(Server::Fulmar);
    let own = format!("{} -p {} -c fulmar.conf", Server::Fulmar.path().display(), site.prefix().display());
    let file = site.prefix().join("logrotate");
    fs::copy(debian, &file).expect("copy");
    let page = fs::read_to_string(root().join("docs/from-nginx.md")).expect("page");
    let commands: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ sudo sed -i "))
        .map(|line| line.replace("/etc/logrotate.d/nginx", &file.display().to_string()))
        .collect();
    let [there, back] = commands.as_slice() else { panic!("two commands: {commands:?}") };
    let sh = |command: &str| {
        let output = Command::new("sh").args(["-e", "-c", command]).output().expect("sh");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    };
    sh(&format!("sed -i {there}"));
    let changed = fs::read_to_string(&file).expect("file");
    let script =
        changed.split("postrotate\n").nth(1).and_then(|rest| rest.split("endscript").next()).expect("script");
    let log = running.log_path("error.log");
    fs::rename(&log, running.log_path("rotated.log")).expect("rotate");
    sh(&script.replace("fulmar -c /etc/nginx/nginx.conf", &own));
    assert!(wait::until(Duration::from_secs(20), || log.exists()), "{script}: {}", running.all_logs());
    running.stop();

    sh(&format!("sed -i {back}"));
    assert_eq!(fs::read_to_string(&file).expect("file"), fs::read_to_string(debian).expect("file"));
}

#[test]
fn the_unit() {
    let text = fs::read_to_string(root().join("packaging/fulmar.service")).expect("unit");
    for line in
        ["Type=notify", "KillSignal=SIGQUIT", "ExecReload=/usr/sbin/fulmar -c ${CONFIGURATION} -s reload"]
    {
        assert!(text.lines().any(|own| own == line), "{line}");
    }
    let analyzes = Command::new("systemd-analyze").arg("--version").output();
    if !parts::is_present("systemd-analyze", analyzes.is_ok_and(|output| output.status.success())) {
        return;
    }
    let directory = TempDir::new().expect("directory");
    let path = directory.path().join("fulmar.service");
    let own = Server::Fulmar.path().canonicalize().expect("path").display().to_string();
    fs::write(&path, text.replace("/usr/sbin/fulmar", &own)).expect("unit");
    let run = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&path).output().expect("run");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), text.concat())
    };
    let (good, told) = run(&["verify", "--man=no"]);
    assert!(good && told.is_empty(), "{told}");
    let limit = format!("--threshold={EXPOSURE_MAX}");
    let (good, told) = run(&["security", "--offline=true", "--no-pager", &limit]);
    assert!(good, "{told}");
}

#[test]
fn the_image() {
    let text = fs::read_to_string(root().join("packaging/Containerfile")).expect("text");
    for line in [
        "USER www-data",
        "STOPSIGNAL SIGQUIT",
        "CMD [\"-g\", \"daemon off;\"]",
        "HEALTHCHECK CMD [\"/usr/sbin/fulmar\", \"status\"]",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}");
    }
    for line in text.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let (_, sources) = words.split_last().expect("sources");
        assert!(sources.iter().all(|source| root().join(source).exists()), "{line}");
    }
    let conf = fs::read_to_string(root().join("packaging/container.conf")).expect("text");
    assert_eq!(listens(&conf), ["8080 default_server"]);
    let html = root().join("packaging/html");
    let conf = conf
        .replace("pid /tmp/fulmar.pid", "daemon off; pid %%LOGS%%/pid")
        .replace("listen 8080", "listen 127.0.0.1:%%PORT%%")
        .replace("/usr/share/fulmar/html", &html.display().to_string())
        .replace("include mime.types;", "types { text/html html; }");
    // The image's user is no superuser; this one would become nobody, who cannot see the files.
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let running = Site::whole(&format!("{user} {conf}")).start(Server::Fulmar);
    assert!(running.ask("GET /\nConnection: close").last().text().contains("Fulmar is running"));
    running.stop_and(|running| {
        assert!(running.log("console").contains("GET / HTTP/1.1"), "{}", running.all_logs())
    });
}

/// Without the package, `include mime.types;` and the other names find their files next to the configuration.
#[test]
fn the_folder_of_the_configuration_has_what_it_includes() {
    let folder = root().join("packaging/conf");
    let text = fs::read_to_string(folder.join("fulmar.conf")).expect("text");
    let named = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("include "))
        .map(|rest| rest.trim_end_matches(';'));
    let missing: Vec<&str> =
        named.filter(|name| !name.contains(['*', '/']) && !folder.join(name).is_file()).collect();
    assert!(text.contains("include mime.types;") && missing.is_empty(), "{missing:?}");
}

/// The manual page has every flag of the help.
#[test]
fn the_manual_page() {
    let page = fs::read_to_string(root().join("packaging/fulmar.8")).expect("page").replace('\\', "");
    let output = Command::new(Server::Fulmar.path()).arg("-h").output().expect("run");
    let help = String::from_utf8_lossy(&output.stderr).into_owned();
    let flags: BTreeSet<&str> = help
        .split(|c: char| c.is_whitespace() || c == ',' || c == '[')
        .filter(|word| word.starts_with('-') && word.len() == 2)
        .collect();
    assert!(flags.len() > 10, "{help}");
    for flag in flags {
        assert!(page.lines().any(|line| line.starts_with(".B") && line.contains(flag)), "{flag}");
    }
}

/// What bash offers for a line, with the script of `fulmar completions bash`.
#[track_caller]
fn offered(line: &str) -> BTreeSet<String> {
    let program = Server::Fulmar.path();
    let script = format!(
        "eval \"$('{}' completions bash)\"; COMP_WORDS=({line} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _fulmar fulmar '' fulmar; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        program.display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_flags_and_commands() {
    let first = offered("fulmar");
    for word in ["-t", "-s", "serve", "explain", "completions"] {
        assert!(first.contains(word), "{word} in {first:?}");
    }
    assert!(offered("fulmar fmt").contains("--check"));
    assert!(offered("fulmar completions").contains("zsh"));
}
