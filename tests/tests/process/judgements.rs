//! What `-t` says of a configuration, for people: all refusals at once, and each thing once.

use std::fs::{self, File, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;
use tests::binary::{Server, have_nginx};
use tests::client::{self, Client};
use tests::site::Site;
use tests::wait;

use crate::process::command_line::Guard;

const PATIENCE: Duration = Duration::from_secs(10);

/// Whether `-t` takes this file, and what it prints.
fn judged(configuration: &str) -> (bool, String) {
    let site = Site::whole("");
    site.write_configuration(Server::Fulmar, configuration);
    let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
    let path = site.prefix().join("fulmar.conf").display().to_string();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).replace(&path, "CONF"))
}

fn headlines<'a>(printed: &'a str, level: &str) -> Vec<&'a str> {
    let start = format!("fulmar: [{level}] ");
    printed.lines().filter_map(|line| line.strip_prefix(&start)).collect()
}

/// The quoted name that a headline begins with.
fn subject(headline: &str) -> &str {
    headline.split('"').nth(1).unwrap_or_default()
}

const REFUSED: &str = "events {}
mail { }
http {
    access_log off;
    server {
        ssl_ech_file ech.pem;
        location / { perl x; echo hi; }
        location /b { content_by_lua_block { ngx.say(\"}\") if { } } }
    }
    server { ssl_ech_file ech.pem; location / { echo x; } }
    server { MORE; }
}
";

#[test]
fn all_refusals_are_told_at_once() {
    let (good, printed) = judged(REFUSED);
    let told = headlines(&printed, "emerg");
    let subjects: Vec<_> = told.iter().map(|line| subject(line)).collect();
    let refused = ["mail", "ssl_ech_file", "perl", "echo", "content_by_lua_block"];
    assert_eq!(subjects, [&refused[..], &["MORE"]].concat(), "{printed}");
    assert!(!good && told[1].ends_with(" in CONF:6"), "{printed}");
    assert!(printed.contains("\n  also in CONF:10\n  hint: "), "{printed}");

    let (good, printed) = judged(&REFUSED.replace("MORE;", ""));
    assert_eq!((good, headlines(&printed, "emerg").len()), (false, refused.len()), "{printed}");
}

/// Parameters, values and variables are refused as directives are, and hide nothing.
#[test]
fn refused_parameters_hide_nothing() {
    let text = "load_module modules/mine.so;
        error_log memory:32m;
        events { use kqueue; }
        http {
            access_log off;
            upstream u { server no.such.host.invalid:80 slow_start=1s; server 127.0.0.1:2 slow_start=1s; }
            server {
                listen 127.0.0.1:8080 spdy setfib=1;
                ssl_certificate $ssl_server_name.pem;
                ssl_ech_file ech.pem;
                location / { proxy_pass https://127.0.0.1:3; proxy_ssl_conf_command Options x; }
                location /b { return 200 $geoip_country_code$geoip_city; }
                LAST
            }
        }
    ";
    let (good, printed) = judged(&text.replace("LAST", ""));
    let told = headlines(&printed, "emerg");
    let expected = [
        "\"error_log\" to a buffer in memory",
        "parameter \"kqueue\" of \"use\"",
        "parameter \"slow_start\" of \"server\"",
        "parameter \"spdy\" of \"listen\"",
        "parameter \"setfib\" of \"listen\"",
        "\"ssl_ech_file\"",
        "\"proxy_ssl_conf_command\"",
        "variable \"geoip_country_code\"",
        "variable \"geoip_city\"",
    ];
    assert!(!good && told.len() == expected.len(), "{printed}");
    assert!(told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected)), "{printed}");

    // After an error of another kind nobody knows which variables would have been defined.
    let (_, printed) = judged(&text.replace("LAST", "lisen 80;"));
    let told = headlines(&printed, "emerg");
    assert!(told.len() == expected.len() - 1 && !printed.contains("geoip"), "{printed}");
    assert!(told.last().is_some_and(|told| told.starts_with("unknown directive \"lisen\"")), "{printed}");
}

#[test]
fn what_is_no_refusal_ends_the_reading() {
    let (_, printed) = judged("events {} http { server { root a; root b; lisen 1; } } stream { }");
    assert_eq!(headlines(&printed, "emerg"), ["\"root\" directive is duplicate in CONF:1"], "{printed}");
}

/// Distributions ship such files: nginx loads them, and what is not known has no effect.
#[test]
fn what_has_no_effect_is_a_warning() {
    for (configuration, warning) in [
        (
            "load_module modules/mine.so; events {}",
            "\"load_module\" has no effect (no module is known in \"modules/mine.so\")",
        ),
        ("events {} http { access_log off; proxy_set_header X $no_such; }", "unknown \"no_such\" variable"),
        (
            "events {} http { access_log off; # A comment\n fastcgi_param X \"a;$no_such\"; }",
            "unknown \"no_such\" variable",
        ),
    ] {
        let (good, printed) = judged(configuration);
        let told = headlines(&printed, "warn");
        assert!(good && told.iter().any(|told| told.starts_with(warning)), "{printed}");
    }
    let served =
        "events {} http { access_log off; proxy_set_header X $no_such; server { listen 127.0.0.1:1; } }";
    let (good, printed) = judged(served);
    assert!(
        !good && headlines(&printed, "emerg")[0].starts_with("unknown \"no_such\" variable"),
        "{printed}"
    );
    let also_elsewhere =
        "events {} http { access_log off; proxy_set_header X $no_such; log_format a $no_such; }";
    let (good, printed) = judged(also_elsewhere);
    assert!(!good && headlines(&printed, "emerg")[0].starts_with("unknown \"no_such\""), "{printed}");
    // `stream` has no ready format of this name.
    let format =
        "log_format combined '$remote_addr'; server { listen 127.0.0.1:1; return x; access_log a combined; }";
    for (block, is_good) in [("stream", true), ("http", false)] {
        let format = if is_good { format } else { "log_format combined '$remote_addr';" };
        let (good, printed) = judged(&format!("events {{}} {block} {{ {format} }}"));
        assert_eq!(good, is_good, "{printed}");
    }
}

/// The directory of the service is made and checked; the system's is checked only.
#[test]
fn a_directory_for_temporary_files_that_cannot_be_used_is_a_warning() {
    let site = Site::whole("");
    site.write_configuration(
        Server::Fulmar,
        "events {} http { access_log off; server { listen 127.0.0.1:8080; } }",
    );
    let judge = |variable: &str, path: &Path| {
        let mut command = site.command(Server::Fulmar);
        let output = command.arg("-t").env_remove("CACHE_DIRECTORY").env(variable, path).output().unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8(output.stderr).unwrap();
        headlines(&printed, "warn")
            .iter()
            .any(|told| told.starts_with("no temporary files can be written to"))
    };
    let file = site.prefix().join("file");
    fs::write(&file, "").unwrap();
    assert!(judge("TMPDIR", &site.prefix().join("none")));
    assert!(judge("TMPDIR", &file));
    // The worker is another user if root starts the server.
    let open = site.prefix().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    assert!(!judge("TMPDIR", &open));
    assert!(judge("CACHE_DIRECTORY", &site.prefix().join("none/temp")));
    assert!(!judge("CACHE_DIRECTORY", &site.prefix().join("temp")));
    assert!(!site.prefix().join("temp").exists(), "-t makes nothing");
}

#[test]
fn very_many_refusals_are_counted() {
    let lines: String = (0..25).map(|number| format!("lua_{number} a;\n")).collect();
    let (good, printed) = judged(&format!("events {{}} http {{\n{lines}}}"));
    let told = headlines(&printed, "emerg");
    assert_eq!((good, told.len()), (false, 21), "{printed}");
    assert_eq!(told[20], "5 more directives are refused");
}

/// A command that runs the server on a site's configuration, with the packaged places for logs.
fn packaged(site: &Site) -> Command {
    let mut command = Command::new(Server::Fulmar.path());
    command.arg("-c").arg(site.prefix().join("fulmar.conf"));
    command
}

fn has_packaged_logs() -> bool {
    Path::new("/var/log/fulmar").exists()
}

#[test]
fn a_default_log_that_cannot_be_opened_is_a_warning() {
    if has_packaged_logs() {
        return;
    }
    let site = Site::whole("");
    let judge = |configuration: &str, arguments: &[&str]| {
        site.write_configuration(Server::Fulmar, configuration);
        let output = packaged(&site).arg("-t").args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for configuration in
        ["events {} http { server { listen 127.0.0.1:8080; } }", "server { listen 127.0.0.1:8080; }"]
    {
        let (good, printed) = judge(configuration, &[]);
        let told = headlines(&printed, "warn");
        let start =
            |file: &str| format!("open() \"/var/log/fulmar/{file}\" failed (2: No such file or directory), ");
        assert!(good && told.len() == 2, "{printed}");
        assert!(
            told[0].starts_with(&start("error.log")) && told[1].starts_with(&start("access.log")),
            "{printed}"
        );
        assert_eq!(printed.matches("\n  hint: this is the default place: ").count(), 2, "{printed}");
    }
    // The same paths are not defaults if a directive names them.
    for (directive, arguments, path) in [
        ("", &["-e", "/none/e"][..], "/none/e"),
        ("", &["-e", "/var/log/fulmar/error.log"], "/var/log/fulmar/error.log"),
        ("error_log /var/log/fulmar/error.log;", &[], "/var/log/fulmar/error.log"),
    ] {
        let (good, printed) =
            judge(&format!("{directive} events {{}} http {{ access_log off; server {{ }} }}"), arguments);
        let expected = format!("open() \"{path}\" failed (2: No such file or directory)");
        assert!(!good && headlines(&printed, "emerg") == [expected], "{printed}");
    }
}

#[test]
fn without_default_logs_a_server_writes_to_its_error_stream() {
    if has_packaged_logs() {
        return;
    }
    let site = Site::whole("");
    let configuration = "daemon off; USER pid %%LOGS%%/pid; events { }
        http { server { listen 127.0.0.1:%%PORT%%; return 200 TEXT; } }";
    let configuration = configuration.replace("USER", if geteuid().is_root() { "user root;" } else { "" });
    let ports = site.write_configuration(Server::Fulmar, &configuration.replace("TEXT", "first"));
    let console = site.prefix().join("console");
    let command = packaged(&site).stderr(File::create(&console).unwrap()).spawn().unwrap();
    let server = Guard(command);
    let printed = || fs::read_to_string(&console).unwrap_or_default();
    let address = SocketAddr::from(([127, 0, 0, 1], ports[&0]));
    assert!(wait::until(PATIENCE, || Client::try_connect(address).is_ok()), "{}", printed());
    for target in ["/started", "/reloaded"] {
        assert_eq!(client::ask(address, &format!("GET {target}\nConnection: close")).statuses(), [200]);
        assert!(
            wait::until(PATIENCE, || printed().contains(&format!("\"GET {target} HTTP"))),
            "{}",
            printed()
        );
        for order in ["reload", "reopen"] {
            let told = packaged(&site).args(["-s", order]).output().unwrap();
            assert!(told.status.success(), "{order}: {told:?} {}", printed());
        }
    }
    let (told, warned) = (printed(), "failed (2: No such file or directory), requests are logged to ");
    assert!(told.contains(warned) && !told.contains("[emerg]"), "{told}");
    assert!(!told.contains("worker process"), "no worker complains of what is known: {told}");
    drop(server);
}

/// Everything below a directory: paths with their kinds, contents and times of change.
fn inventory(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.push(format!(
            "{path:?} {:?} {:?} {content:?}",
            metadata.file_type(),
            metadata.modified().unwrap()
        ));
        if metadata.is_dir() {
            found.extend(inventory(&path));
        }
    }
    found.sort();
    found
}

#[test]
fn a_test_creates_and_changes_nothing() {
    let site = Site::whole("").in_prefix("here.log", "a line\n").dir("logs");
    site.write_configuration(
        Server::Fulmar,
        "pid pid; error_log new-error.log; events {}
        http {
            access_log here.log; access_log new-access.log; client_body_temp_path bodies; proxy_temp_path proxied 1 2;
            fastcgi_temp_path answers;
            server { listen unix:%%DIR%%/socket; listen 127.0.0.1:%%PORT%%; location / { proxy_pass http://[::1]:1; } }
        }",
    );
    let before = inventory(&site.prefix());
    for arguments in
        [&["-t"][..], &["-T", "-q"], &["-t", "-e", "another.log"], &["-t", "-g", "lock_file lock;"]]
    {
        let output = site.command(Server::Fulmar).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_eq!(inventory(&site.prefix()), before, "{arguments:?}");
    }
    // A test that fails does not log why, either.
    site.write_configuration(Server::Fulmar, "nonsense;");
    let before = inventory(&site.prefix());
    assert!(!site.command(Server::Fulmar).arg("-t").status().unwrap().success());
    assert_eq!(inventory(&site.prefix()), before);
}

/// What keeps a log from being created is found without creating one, and said as nginx says it.
#[test]
fn a_log_that_cannot_be_created_is_found() {
    let site = Site::whole("").in_prefix("file", "").link_in_prefix("dangling", "none/log");
    let judge = |server: Server, log: &str| {
        let temporary = if server == Server::Nginx { "client_body_temp_path %%LOGS%%/b;" } else { "" };
        let configuration = format!(
            "pid %%LOGS%%/pid; error_log %%LOGS%%/e; events {{}}
            http {{ access_log {log}; {temporary} server {{ listen 127.0.0.1:%%PORT%%; }} }}"
        );
        site.write_configuration(server, &configuration);
        let output = site.command(server).arg("-t").output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        let told =
            printed.lines().find_map(|line| line.split_once("[emerg] ")).map(|(_, text)| text.to_owned());
        (output.status.success(), told)
    };
    for (log, reason) in [
        ("new.log", None),
        ("none/log", Some("2: No such file or directory")),
        ("file/log", Some("20: Not a directory")),
        ("html", Some("21: Is a directory")),
        ("dangling", Some("2: No such file or directory")),
    ] {
        let told = judge(Server::Fulmar, log);
        let path = site.prefix().join(log).display().to_string();
        let expected = reason.map(|reason| format!("open() \"{path}\" failed ({reason})"));
        assert_eq!(told, (reason.is_none(), expected), "{log}");
        assert!(!site.prefix().join("new.log").exists());
    }
    if have_nginx() {
        for log in ["none/log", "file/log", "html", "dangling"] {
            assert_eq!(judge(Server::Nginx, log), judge(Server::Fulmar, log), "{log}");
        }
    }
}

#[test]
fn sizes_that_do_not_fit_have_a_place() {
    let judge = |text: &str| {
        let server = format!(
            "server {{ listen 127.0.0.1:8080;\n{text}\nlocation / {{ proxy_pass http://[::1]:1; }} }}"
        );
        let (good, printed) = judged(&format!("events {{}}\nhttp {{ access_log off;\n{server} }}"));
        assert!(!good);
        headlines(&printed, "emerg").join("|")
    };
    let less =
        "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer";
    assert_eq!(judge("proxy_buffer_size 64k;"), format!("{less} in CONF:4"));
    assert_eq!(judge("proxy_buffer_size 64k;\nproxy_buffers 4 16k;"), format!("{less} in CONF:5"));
    assert_eq!(judge("proxy_buffers 4 8k; proxy_busy_buffers_size 64k;"), format!("{less} in CONF:4"));
    assert!(judge("proxy_buffers 1 8k;").ends_with(" in CONF:4"));
    assert!(judge("proxy_max_temp_file_size 1k;").ends_with(" in CONF:4"));
}

#[test]
fn what_is_copied_along_with_an_empty_answer_is_no_error() {
    let server =
        "server { listen 127.0.0.1:8080; location / { add_header 'Content-Length' 0; return 204; } }";
    let (good, printed) = judged(&format!("events {{}} http {{ access_log off; {server} }}"));
    let told = headlines(&printed, "warn");
    assert!(
        good && told.len() == 1 && told[0].starts_with("\"add_header Content-Length\" is left out"),
        "{printed}"
    );
}

#[test]
fn a_directory_for_bodies_can_be_made_and_none_around_it() {
    let site = Site::whole("");
    let judge = |name: &str| {
        let server = "server { listen 127.0.0.1:8080; }";
        let http = format!("access_log off;\nclient_body_temp_path {name};\n{server}");
        site.write_configuration(Server::Fulmar, &format!("events {{}}\nhttp {{ {http} }}"));
        let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, printed) = judge("none/bodies");
    let told = headlines(&printed, "emerg");
    assert!(!good && told.len() == 1 && told[0].starts_with("mkdir() \""), "{printed}");
    assert!(told[0].contains("/none/bodies\" failed (2: No such file or directory) in "), "{printed}");
    assert!(told[0].ends_with("fulmar.conf:3") && !site.prefix().join("none").exists(), "{printed}");
    assert!(judge("bodies").0 && !site.prefix().join("bodies").exists());
    assert!(judge("html").0, "it may be there");
}

#[test]
fn what_many_servers_have_in_common_is_told_once() {
    let server = "server { listen 127.0.0.1:808N; add_header Content-Length 3; }\n";
    let servers: String = (0..6).map(|number| server.replace('N', &number.to_string())).collect();
    let (good, printed) = judged(&format!("events {{}}\nhttp {{ access_log off;\n{servers}}}"));
    let told = headlines(&printed, "warn");
    assert!(good && told.len() == 1 && told[0].ends_with(" in CONF:3"), "{printed}");
    assert!(printed.contains("\n  also in CONF:4, CONF:5, CONF:6 and in 2 more places\n"), "{printed}");
}
