//! The pages that are written by hand: every configuration loads, every transcript is what a client gets, and every
//! command runs and prints what the page shows. What does not run here is in one of the lists below, with its reason.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tests::apache::{self, have_apache};
use tests::binary::Server;
use tests::manual::Document;
use tests::node::{Node, have_node};
use tests::page::{self, Block, Page, move_below};
use tests::php::{Php, have_php};
use tests::python::{Uwsgi, have_django, have_uwsgi};
use tests::site::{Running, Site};
use tests::tls::{Kind, certificate};

/// Blocks that are no configuration of Fulmar and no command, by the word after the fence.
const OTHER_KINDS: [(&str, &str); 8] = [
    ("", "messages and diagrams"),
    ("text", "messages and diagrams"),
    ("caddy", "the language of Caddy; the configuration after it is loaded"),
    ("vcl", "the language of Varnish; the configuration after it is loaded"),
    ("ini", "units of systemd; packaging::the_unit checks the one of the package"),
    (
        "php",
        "the plugin of WordPress, which wordpress::pages_are_kept_until_a_plugin_says_that_they_changed runs",
    ),
    ("sh", "makes input for a measurement"),
    ("yaml", "configurations of Prometheus and of container engines"),
];

/// Commands that another test runs: how they begin, and the function.
const RUN_ELSEWHERE: [(&str, &str); 17] = [
    ("fulmar status", "status_says_whether_the_server_serves"),
    ("sudo sed -i", "logs_of_nginx_are_rotated_by_its_own_file"),
    ("echo CONFIGURATION=", "the_unit"),
    ("sudo fulmar -c /etc/nginx/nginx.conf", "every_stock_configuration_is_judged_and_serves"),
    ("fulmar serve", "serve"),
    ("fulmar proxy", "proxy"),
    ("fulmar cache", "responses_are_listed_and_removed_by_the_program"),
    ("fulmar certificates", "ten_names_get_certificates_from_an_empty_state"),
    ("fulmar completions", "bash_completes_flags_and_commands"),
    ("certbot certonly", "links_that_lead_to_other_files_are_noticed"),
    ("certbot --nginx", "certbot_installs_and_renews_a_certificate"),
    ("ln -s fulmar.conf /etc/fulmar/nginx.conf", "certbot_installs_and_renews_a_certificate"),
    ("ab -q", "soak_reloads_lose_nothing"),
    ("fulmar -p demo", "soak_reloads_lose_nothing"),
    ("podman build", "the_image"),
    ("podman run", "the_image"),
    ("htpasswd", "files_of_openssl"),
];

/// Commands that no test runs, and why.
const NOT_RUN: [(&str, &str); 5] = [
    ("sudo systemctl", "needs a machine with systemd"),
    ("sudo apt install", "changes the machine"),
    ("fulmar-lab", "starts every server of the machine; the lab has its own tests"),
    ("docker", "needs a container engine"),
    ("sudo certbot", "needs a name of the internet"),
];

/// Findings of `fulmar lint` that a page wants: the page, the rule and why.
const FINDINGS: [(&str, &str, &str); 3] = [
    ("README.md", "add-header-lost", "the example of fulmar lint"),
    ("from-caddy.md", "no-default-server", "a part of a configuration, as the Caddyfile before it"),
    ("htaccess.md", "unverified-user", "a line for a server with htaccess on"),
];

/// A page on the stage that its blocks run on.
struct Stage {
    name: String,
    page: Page,
    directory: TempDir,
    /// What applications of the page were started.
    backends: Backends,
}

/// Applications in place of those that a page names; they end with the page.
#[derive(Default)]
struct Backends {
    php: Option<Php>,
    node: Option<Node>,
    django: Option<Uwsgi>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_path_buf()
}

/// README and the pages of `docs`, but for those that `cargo xtask docs` makes from what is tested already.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("docs")
        .map(|entry| entry.expect("a page").path())
        .filter(|path| path.extension().is_some_and(|end| end == "md") && !path.ends_with("lint.md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

#[test]
fn blocks_of_pages_are_true() {
    let only = std::env::var("PAGE").unwrap_or_default();
    let mut wrong = Vec::new();
    for path in pages().into_iter().filter(|path| path.to_string_lossy().contains(&only)) {
        wrong.extend(try_page(&path));
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Tests the blocks of a page; what was not as written.
fn try_page(path: &Path) -> Vec<String> {
    let name = path.file_name().expect("a name").display().to_string();
    let page = match page::parse(&fs::read_to_string(path).expect("a page")) {
        Ok(page) => page,
        Err(message) => return vec![format!("{name}: {message}")],
    };
    let mut stage = Stage::new(name, page);
    let mut wrong = Vec::new();
    let blocks = stage.page.blocks.clone();
    let mut at = 0;
    while let Some(block) = blocks.get(at) {
        let transcripts: Vec<&Block> =
            blocks[at + 1..].iter().take_while(|next| next.kind == "http").collect();
        let result = match block.kind.as_str() {
            "nginx" => stage.serve(block, &transcripts),
            "console" => stage.commands(block),
            "apache" => stage.htaccess(block),
            "httpd" => stage.httpd(block),
            kind if OTHER_KINDS.iter().any(|(known, _)| *known == kind) => Ok(()),
            kind => Err(format!("no test for a block of the kind {kind:?}")),
        };
        if let Err(message) = result {
            wrong.push(format!("{}:{}: {message}", stage.name, block.line));
        }
        at += 1 + transcripts.len();
    }
    wrong
}

impl Stage {
    fn new(name: String, page: Page) -> Stage {
        let directory = TempDir::with_prefix("page-").expect("a directory");
        let stage = Stage { name, page, directory, backends: Backends::default() };
        let bin = stage.directory.path().join("bin");
        fs::create_dir(&bin).expect("bin");
        symlink(Server::Fulmar.path(), bin.join("fulmar")).expect("link");
        fs::write(bin.join(".curlrc"), "silent\n").expect("settings");
        fs::write(bin.join("sudo"), "#!/bin/sh\nexec \"$@\"\n").expect("script");
        fs::set_permissions(bin.join("sudo"), fs::Permissions::from_mode(0o755)).expect("mode");
        stage
    }

    fn path(&self) -> String {
        self.directory.path().canonicalize().expect("a path").display().to_string()
    }

    /// Writes the files of the page before a line, and the directories that configurations name, below a directory.
    fn write_files(&self, below: &str, line: usize) {
        for directory in ["srv", "run", "etc", "var/log/fulmar", "var/cache/fulmar"] {
            fs::create_dir_all(Path::new(below).join(directory)).expect("directory");
        }
        for (_, path, content) in self.page.files.iter().filter(|(at, ..)| *at < line) {
            let path = format!("{below}{path}");
            fs::create_dir_all(Path::new(&path).parent().expect("a directory")).expect("directory");
            fs::write(path, move_below(below, content)).expect("file");
        }
    }

    /// The site of a configuration, with what it includes.
    fn site(&mut self, line: usize, configuration: &str) -> Site {
        let backend = self.backends.replace(self.directory.path(), configuration);
        let mut document = Document::default();
        document.add("conf", backend).expect("a configuration");
        let params = include_str!("../../../packaging/conf/fastcgi_params");
        let site = document
            .site(&document.examples[0], &[])
            .in_prefix("fastcgi_params", params)
            .in_prefix("uwsgi_params", include_str!("../../../packaging/conf/uwsgi_params"))
            .in_prefix("mime.types", include_str!("../../stock/debian/mime.types"));
        self.write_files(&site.prefix().display().to_string(), line);
        write_certificates(&site.prefix(), configuration);
        site
    }

    /// Loads a configuration, and where there are transcripts serves it.
    fn serve(&mut self, block: &Block, transcripts: &[&Block]) -> Result<(), String> {
        let mut errors = Vec::new();
        for configuration in self.levels(&block.content) {
            let site = self.site(block.line, &configuration);
            if let Err(text) = site.test(Server::Fulmar) {
                errors.push(format!("{text}\n{configuration}"));
                continue;
            }
            self.lint(&site, &configuration)?;
            if transcripts.is_empty() || !self.backends.are_there(&block.content) {
                return Ok(());
            }
            let mut document = Document::default();
            document.add("conf", configuration)?;
            for transcript in transcripts {
                document.add("http", transcript.content.clone())?;
            }
            let running = site.try_start(Server::Fulmar)?;
            let wrong = document.examples[0].run(&running);
            running.stop();
            return if wrong.is_empty() { Ok(()) } else { Err(wrong) };
        }
        Err(errors.join("\n"))
    }

    /// Fails if `fulmar lint` finds anything in a configuration of the page that `FINDINGS` does not list: readers copy it.
    fn lint(&self, site: &Site, configuration: &str) -> Result<(), String> {
        let mut command = Command::new(Server::Fulmar.path());
        command.args(["lint", "-c", "fulmar.conf", "--deny", "nothing"]).current_dir(site.prefix());
        let output = command.output().expect("run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_wanted = |line: &&str| {
            FINDINGS.iter().any(|(page, rule, _)| *page == self.name && line.contains(&format!("({rule})")))
        };
        let found: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("fulmar: ["))
            .filter(|line| !is_wanted(line))
            .collect();
        let is_judged = output.status.success();
        let told = String::from_utf8_lossy(&output.stderr);
        if is_judged && found.is_empty() { Ok(()) } else { Err(format!("{text}{told}\n{configuration}")) }
    }

    /// What a block can be: the content of `http {}`, or of a server; with the directives around it that the page has, or
    /// without them where it has its own.
    fn levels(&self, content: &str) -> Vec<String> {
        let content = move_below("%%DIR%%", content);
        if content.lines().any(|line| line.starts_with("http {")) {
            return vec![content];
        }
        let http = move_below("%%DIR%%", &self.page.http);
        let mut levels = Vec::new();
        for around in [http.as_str(), ""] {
            if content.lines().any(|line| line.starts_with("server {")) {
                levels.push(format!("{around}{content}"));
            } else {
                levels.push(format!("{around}{content}\nserver {{ }}\n"));
                levels.push(format!("{around}server {{\nlisten 80;\nroot %%ROOT%%;\n{content}\n}}\n"));
            }
        }
        levels
    }

    /// Loads a `.htaccess` file: no line of it may be a mistake.
    fn htaccess(&mut self, block: &Block) -> Result<(), String> {
        let site = self.site(
            block.line,
            "server {\nlisten 80;\nroot %%ROOT%%;\nhtaccess on;\nhtaccess_user_files %%DIR%%/srv;\n}\n",
        );
        let prefix = site.prefix().display().to_string();
        let site = site.file(".htaccess", move_below(&prefix, &block.content));
        let mut command = site.command(Server::Fulmar);
        site.test(Server::Fulmar)?;
        let output = command.arg("-t").output().expect("run");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("[warn]") { Err(text) } else { Ok(()) }
    }

    /// Has Apache load a part of its main configuration.
    fn httpd(&mut self, block: &Block) -> Result<(), String> {
        if !have_apache() {
            return Ok(());
        }
        let site = self.site(block.line, "server {\n}\n");
        let prefix = site.prefix();
        for directory in self.page.files.iter().filter_map(|(_, path, _)| Path::new(path).parent()) {
            let below = directory.strip_prefix("/").expect("an absolute path");
            fs::create_dir_all(prefix.join(below)).expect("directory");
        }
        let text = block.content.replace("*:80", "*:8080").replace("*:443", "*:8443");
        apache::loads(&site, &move_below(&prefix.display().to_string(), &text))
    }

    /// Runs the commands of a block, and compares what they print.
    fn commands(&self, block: &Block) -> Result<(), String> {
        self.write_files(&self.path(), block.line);
        let mut commands: Vec<(String, String)> = Vec::new();
        for line in block.content.lines() {
            let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            let is_plain =
                line.starts_with("make ") && commands.iter().all(|(command, _)| command.starts_with("make "));
            match command.or(is_plain.then_some(line)) {
                Some(command) => commands.push((command.to_owned(), String::new())),
                None => match commands.last_mut() {
                    Some((_, expected)) => *expected += &format!("{line}\n"),
                    None => return Err("a block begins with a command".to_owned()),
                },
            }
        }
        let demonstration = block.content.contains("curl ").then(demonstration);
        let results = commands
            .iter()
            .map(|(command, expected)| self.command(command, expected, demonstration.as_ref()));
        let wrong: Vec<String> = results.filter_map(Result::err).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn command(&self, command: &str, expected: &str, demonstration: Option<&Running>) -> Result<(), String> {
        if let Some(target) = command.strip_prefix("make ") {
            return target_exists(target);
        }
        if let Some((_, function)) = RUN_ELSEWHERE.iter().find(|(start, _)| command.starts_with(start)) {
            return test_exists(function);
        }
        if NOT_RUN.iter().any(|(start, _)| command.starts_with(start)) {
            return Ok(());
        }
        let path = self.path();
        let port = demonstration.map(|running| format!(":{}", running.address().port())).unwrap_or_default();
        let script = move_below(&path, &command.replace("target/demo/", ""))
            .replace(":8080", if port.is_empty() { ":8080" } else { &port });
        let search = format!("{path}/bin:{}", std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {script}\n}} 2>&1")])
            .current_dir(format!("{path}/srv"))
            .env("PATH", search)
            .env("CURL_HOME", format!("{path}/bin"))
            .stdin(Stdio::null())
            .output()
            .expect("sh");
        let printed = String::from_utf8_lossy(&output.stdout).replace(&path, "");
        let is_good = match expected.trim_end() {
            "" => output.status.success(),
            expected => as_shown(&format!("{expected}\n"), &format!("{}\n", printed.trim_end())),
        };
        if is_good { Ok(()) } else { Err(format!("{command}\nprinted\n{printed}\nand not\n{expected}")) }
    }
}

/// Whether a command printed what a page shows. A line `…` stands for any lines.
fn as_shown(expected: &str, printed: &str) -> bool {
    match expected.split_once("…\n") {
        Some((first, rest)) => printed.strip_prefix(first).is_some_and(|printed| {
            printed.match_indices('\n').any(|(at, _)| as_shown(rest, &printed[at + 1..]))
        }),
        None => expected == printed,
    }
}

/// The site of `make serve`.
fn demonstration() -> Running {
    let text = fs::read_to_string(root().join("demo/fulmar.conf")).expect("configuration");
    let site = root().join("demo/site").display().to_string();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let text = text
        .replace("user nobody;", user)
        .replace("/tmp/fulmar-demo-8080.pid", "%%LOGS%%/pid")
        .replace("8080", "%%PORT%%")
        .replace("root site;", &format!("root {site};"));
    Site::whole(&text).start(Server::Fulmar)
}

fn target_exists(command: &str) -> Result<(), String> {
    let target = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
    let makefile = fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let exists = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    if exists { Ok(()) } else { Err(format!("`make {target}` is no target")) }
}

/// Whether the end-to-end tests have this function.
fn test_exists(name: &str) -> Result<(), String> {
    let pattern = root().join("tests/tests/**/*.rs").display().to_string();
    let mut sources =
        glob::glob(&pattern).expect("a pattern").filter_map(|path| fs::read_to_string(path.ok()?).ok());
    let text = format!("fn {name}");
    if sources.any(|source| source.contains(&text)) { Ok(()) } else { Err(format!("no test {name}")) }
}

/// Makes the certificates that a configuration names.
fn write_certificates(prefix: &Path, configuration: &str) {
    let made = certificate("example.org", Kind::Ecdsa);
    for (directive, content) in [
        ("ssl_certificate ", &made.pem),
        ("ssl_certificate_key ", &made.key),
        ("ssl_trusted_certificate ", &made.pem),
        ("ssl_client_certificate ", &made.pem),
    ] {
        for value in configuration.split(directive).skip(1).filter_map(|rest| rest.split(';').next()) {
            let path = value.trim().replace("%%DIR%%", &prefix.display().to_string());
            if path.starts_with('/') {
                fs::create_dir_all(Path::new(&path).parent().expect("a directory")).expect("directory");
                fs::write(path, content).expect("a file");
            }
        }
    }
}

impl Backends {
    /// Starts the applications that a configuration names, where they are installed, and puts in their addresses.
    fn replace(&mut self, directory: &Path, configuration: &str) -> String {
        let mut text = configuration.to_owned();
        if text.contains(PHP) && have_php() {
            let php = self.php.get_or_insert_with(|| Php::start(directory));
            text = text.replace(PHP, &format!("unix:{}", php.socket().display()));
        }
        if text.contains(NODE) && have_node() {
            let node = self.node.get_or_insert_with(Node::start);
            text = text.replace(NODE, &node.address().to_string());
        }
        if text.contains(DJANGO) && have_uwsgi() && have_django() {
            let django = self.django.get_or_insert_with(|| Uwsgi::start_django(directory));
            text = text.replace(DJANGO, &format!("unix:{}", django.socket().display()));
        }
        text
    }

    /// Whether everything that a configuration passes requests to was started.
    fn are_there(&self, configuration: &str) -> bool {
        (self.php.is_some() || !configuration.contains(PHP_SOCKET))
            && (self.node.is_some() || !configuration.contains(NODE))
            && (self.django.is_some() || !configuration.contains(DJANGO_SOCKET))
    }
}

/// How pages name PHP-FPM, an application in Node.js, and Django with uWSGI.
const PHP: &str = "unix:%%DIR%%/run/php/php-fpm.sock";
const PHP_SOCKET: &str = "/run/php/php-fpm.sock";
const NODE: &str = "127.0.0.1:3000";
const DJANGO: &str = "unix:%%DIR%%/run/uwsgi/django.sock";
const DJANGO_SOCKET: &str = "/run/uwsgi/django.sock";
