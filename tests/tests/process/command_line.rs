//! Options, messages and exit codes.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::site::{Site, is_alive};
use tests::{parts, wait};

const WHOLE: &str = r#"
    daemon off;
    pid %%LOGS%%/pid;
    error_log %%LOGS%%/error.log;
    events { }
    http {
        access_log off;
        include extra.conf;
        server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; }
    }
"#;

fn site() -> Site {
    Site::whole(WHOLE).in_prefix("extra.conf", "# an included file\ndefault_type text/x;\n")
}

fn run(site: &Site, configuration: &str, arguments: &[&str]) -> Output {
    site.write_configuration(Server::Fulmar, configuration);
    site.command(Server::Fulmar).args(arguments).output().expect("run")
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// `script` runs a command on a terminal.
#[test]
fn messages_have_colours_on_a_terminal_only() {
    let Some(script) = parts::program(&["script"]) else {
        parts::is_present("script", false);
        return;
    };
    let site = site();
    let broken = WHOLE.replace("return 200", "retrun 200");
    let (_, _, piped) = texts(&run(&site, &broken, &["-t"]));
    assert!(piped.contains("[emerg]") && !piped.contains('\x1b'), "{piped}");
    let command =
        format!("{} -t -p {}/ -c fulmar.conf", Server::Fulmar.path().display(), site.prefix().display());
    let on_a_terminal = |variables: &[(&str, &str)]| {
        let mut script = Command::new(&script);
        script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        let output = script.envs(variables.iter().copied()).stdin(Stdio::null()).output().expect("script");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let coloured = on_a_terminal(&[]);
    assert!(coloured.contains("fulmar: \x1b[1;31m[emerg]\x1b[0m unknown directive"), "{coloured:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let plain = on_a_terminal(&[variable]);
        assert!(plain.contains("fulmar: [emerg]") && !plain.contains('\x1b'), "{plain:?}");
    }
}

#[test]
fn test_of_a_configuration() {
    let site = site();
    let path = site.prefix().join("fulmar.conf").display().to_string();
    let (code, stdout, stderr) = texts(&run(&site, WHOLE, &["-t"]));
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.contains(&format!(": the configuration file {path} syntax is ok\n")), "{stderr}");
    assert!(stderr.contains(&format!(": configuration file {path} test is successful\n")), "{stderr}");

    let (code, stdout, stderr) = texts(&run(&site, WHOLE, &["-t", "-q"]));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));

    let broken = WHOLE.replace("return 200", "retrun 200");
    let (code, _, stderr) = texts(&run(&site, &broken, &["-t"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("[emerg] unknown directive \"retrun\" in {path}:9")), "{stderr}");
    assert!(stderr.contains(&format!(": configuration file {path} test failed\n")), "{stderr}");
    let (code, _, stderr) = texts(&run(&site, &broken, &["-t", "-q"]));
    assert!(code == Some(1) && stderr.contains("retrun"), "{stderr}");
}

#[test]
fn a_test_leaves_a_running_server_alone() {
    let site = site();
    let running = site.start(Server::Fulmar);
    let pid = fs::read_to_string(running.pid_path()).expect("pid");
    let output = site.command(Server::Fulmar).arg("-t").output().expect("run");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(running.pid_path()).expect("pid"), pid);
    assert_eq!(running.ask("GET /").statuses(), [200]);
    running.stop();
}

#[test]
fn dump_of_a_configuration() {
    let site = site();
    let (code, stdout, stderr) = texts(&run(&site, WHOLE, &["-T"]));
    assert_eq!(code, Some(0), "{stderr}");
    let directory = site.prefix();
    let main = fs::read_to_string(directory.join("fulmar.conf")).expect("configuration");
    let path = directory.display();
    assert!(stdout.contains(&format!("# configuration file {path}/fulmar.conf:\n{main}")), "{stdout}");
    let extra =
        format!("# configuration file {path}/extra.conf:\n# an included file\ndefault_type text/x;\n");
    assert_eq!(stdout.matches(&extra).count(), 1, "{stdout}");
    assert!(stderr.contains("test is successful"), "{stderr}");
}

#[test]
fn version_and_help() {
    let run =
        |argument: &str| texts(&Command::new(Server::Fulmar.path()).arg(argument).output().expect("run"));
    for argument in ["-v", "-V"] {
        let (code, stdout, stderr) = run(argument);
        assert_eq!(code, Some(0));
        assert_eq!(stdout, "", "{argument}: scripts read it from stderr");
        assert!(stderr.to_lowercase().contains("version"), "{stderr}");
    }
    let (_, _, stderr) = run("-V");
    let version = stderr.lines().find_map(|line| line.split_once("nginx version: nginx/"));
    assert!(version.is_some_and(|(_, number)| number.starts_with("1.")), "{stderr}");
    assert!(stderr.contains("configure arguments:"), "{stderr}");
    for argument in ["-h", "-?"] {
        let (code, stdout, stderr) = run(argument);
        let text = format!("{stdout}{stderr}");
        assert_eq!(code, Some(0), "{argument}");
        assert!(["-t", "-T", "-s", "-p", "-c", "-g"].iter().all(|option| text.contains(option)), "{text}");
    }
}

#[test]
fn bad_command_lines() {
    let site = site();
    for (arguments, message) in [
        (&["-s", "nonsense"][..], "invalid option: \"-s nonsense\""),
        (&["-x"], "invalid option: \"x\""),
        (&["-c"], "option \"-c\" requires file name"),
        (&["-t", "-c", "missing.conf"], "missing.conf"),
        (&["-t", "-g", "nonsense;"], "unknown directive \"nonsense\""),
        (&["-s", "reload"], "pid"),
    ] {
        let (code, _, stderr) = texts(&run(&site, WHOLE, arguments));
        assert!(code == Some(1) && stderr.contains(message), "{arguments:?}: {code:?} {stderr}");
    }
}

#[test]
fn directives_on_the_command_line() {
    let site = site();
    let without_pid = WHOLE.replace("pid %%LOGS%%/pid;", "");
    let pid = site.logs(Server::Fulmar).join("pid");
    let directive = format!("pid {};", pid.display());
    let ports = site.write_configuration(Server::Fulmar, &without_pid);
    let child = site.command(Server::Fulmar).args(["-g", &directive]).spawn().expect("run");
    let _guard = Guard(child);
    assert!(wait::until(Duration::from_secs(5), || pid.exists()), "no pid file");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], ports[&0]));
    assert!(wait::until(Duration::from_secs(5), || Client::try_connect(address).is_ok()));
}

#[test]
fn signals_by_name() {
    let site = site();
    let mut running = site.start(Server::Fulmar);
    let send = |name: &str| {
        let output = site.command(Server::Fulmar).args(["-s", name]).output().expect("run");
        assert!(output.status.success(), "-s {name}: {output:?}");
    };
    running.rewrite(&WHOLE.replace("\"ok\"", "\"second\""));
    send("reload");
    let second = || running.ask("GET /\nConnection: close").last().text() == "second";
    assert!(wait::until(Duration::from_secs(5), second));
    running.rewrite(&WHOLE.replace("return", "retrun"));
    let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
    assert!(!output.status.success(), "a broken configuration is no success");
    assert!(wait::until(Duration::from_secs(5), second), "and changes nothing");
    send("reopen");
    send("quit");
    assert!(running.ends_within(Duration::from_secs(5)), "quit");
    running.rewrite(WHOLE);
    let mut running = site.start(Server::Fulmar);
    send("stop");
    assert!(running.ends_within(Duration::from_secs(5)), "stop");
    assert!(!running.pid_path().exists(), "the pid file stays");
}

/// `-s` must not signal a process that took over the number.
#[test]
fn a_pid_that_is_someone_else() {
    let site = site();
    site.write_configuration(Server::Fulmar, WHOLE);
    let other = Guard(Command::new("sleep").arg("30").spawn().expect("sleep"));
    let pid = Pid::from_child(&other.0);
    fs::write(site.logs(Server::Fulmar).join("pid"), format!("{pid}\n")).expect("pid");
    let (code, _, stderr) = texts(&site.command(Server::Fulmar).args(["-s", "stop"]).output().expect("run"));
    assert!(code == Some(1) && !stderr.is_empty(), "{code:?} {stderr}");
    wait::pause(Duration::from_millis(100));
    assert!(is_alive(pid));
}

/// What keeps a daemon from starting is its starter's failure, as long as that one can be told.
#[test]
fn a_daemon_that_cannot_write_its_pid_file() {
    let daemon = WHOLE.replace("daemon off;", "daemon on;").replace("%%LOGS%%/pid", "%%DIR%%/none/pid");
    let (code, _, stderr) = texts(&run(&site(), &daemon, &[]));
    assert!(code == Some(1) && stderr.contains("none/pid\" failed (2: "), "{code:?} {stderr}");
}

/// What is wrong with a configuration is said in nginx's words, with file and line.
#[test]
fn diagnostics_are_nginx_s() {
    if !have_nginx() {
        return;
    }
    let site =
        Site::whole("").in_prefix("inc/bad.conf", "listen 80;\n").in_prefix("inc/open.conf", "server {\n");
    let mut wrong = Vec::new();
    for body in BROKEN {
        let configuration = if body.contains("events") {
            (*body).to_owned()
        } else {
            format!("events {{ }}\nhttp {{\n{body}\n}}\n")
        };
        let results = [Server::Nginx, Server::Fulmar].map(|server| {
            site.write_configuration(server, &configuration);
            let (code, _, stderr) = texts(&site.command(server).arg("-t").output().expect("run"));
            let line =
                stderr.lines().find_map(|line| line.split_once("[emerg] ")).map(|(_, message)| message);
            (code, line.unwrap_or("(no [emerg])").replace(&format!("/{}.conf", server.name()), "/CONF"))
        });
        if !same_diagnostic(&results[0], &results[1]) {
            wrong.push(format!("{body}\n  nginx  {:?}\n  fulmar {:?}", results[0], results[1]));
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

/// Fulmar may tell the place where nginx does not, and the two may come with different versions of PCRE.
fn same_diagnostic(nginx: &(Option<i32>, String), fulmar: &(Option<i32>, String)) -> bool {
    let pattern = |text: &str| text.starts_with("pcre") && text.contains("_compile() failed");
    let same_text = fulmar.1 == nginx.1
        || fulmar.1.starts_with(&format!("{} in ", nginx.1))
        || (pattern(&nginx.1) && pattern(&fulmar.1));
    nginx.0 == fulmar.0 && same_text
}

/// Contents of `http {}`, or whole files where they hold `events`.
const BROKEN: &[&str] = &[
    "server { lisen 80; }",
    "server { listen 80 }",
    "server { listen 80;",
    "server { listen 80; } }",
    "server { root; }",
    "server { root a b; }",
    "server { root a; root b; }",
    "root a; root b;",
    "listen 80;",
    "server { server { } }",
    "location / { }",
    "server { location / { } location / { } }",
    "server { location = / { } location = / { } }",
    "server { location /a/ { location /b/ { } } }",
    "server { location = / { location /a { } } }",
    "server { location { } }",
    "server { location ~ ( { } }",
    "server { location ^ / { } }",
    "server { location / { alias a; root b; } }",
    "server { location / { try_files a; } }",
    "server { location / { try_files a =x; } }",
    "server { location / { return; } }",
    "server { location / { return abc; } }",
    "server { location / { return 1000; } }",
    "server { location / { return 200 $nothing; } }",
    "server { location / { return 200 \"${x\"; } }",
    "server { error_page 404; }",
    "server { error_page 200 /x; }",
    "server { error_page abc /x; }",
    "server { expires soon; }",
    "server { add_header X; }",
    "server { etag maybe; }",
    "server { client_max_body_size big; }",
    "server { client_header_timeout soon; }",
    "server { keepalive_timeout x; }",
    "server { large_client_header_buffers 4; }",
    "server { listen 99999; }",
    "server { listen 127.0.0.1:x; }",
    "server { listen 80 nonsense; }",
    "server { listen 127.0.0.1:18080 default_server; } server { listen 127.0.0.1:18080 default_server; }",
    "server { listen 127.0.0.1:18080; listen 127.0.0.1:18080; }",
    "server { server_name ~(; }",
    "server { server_name *a.com; }",
    "include missing.conf;",
    "include inc/bad.conf;",
    "include inc/open.conf;",
    "types { text/plain; }",
    "types { a b c",
    "log_format; ",
    "log_format a b; log_format a c;",
    "access_log off extra;",
    "access_log x nothing;",
    "log_format a $nothing;",
    "server { \"unterminated; }",
    "server { root \"a\"b; }",
    "server { ; }",
    "server { {} }",
    "server { root a;; }",
    "server { allow nonsense; }",
    "server { limit_except GET { } }",
    "server { location / { limit_except; } }",
    "server { rewrite a; }",
    "server { rewrite ( /x; }",
    "server { rewrite a /x nonsense; }",
    "server { set x y; }",
    "server { if ($x) { } }",
    "server { if { } }",
    "server { location / { internal on; } }",
    "server { location / { if_modified_since never; } }",
    "server { autoindex x; }",
    "server { max_ranges x; }",
    "events { } http { } http { }",
    "events { } events { } http { }",
    "http { }",
    "server { listen 80 backlog=0; }",
    "server { listen 80 backlog=x; }",
    "server { listen 80 fastopen=x; }",
    "server { listen 80 rcvbuf=x; }",
    "server { listen 80 sndbuf=5g; }",
    "server { listen 80 ipv6only=yes; }",
    "server { listen 80 ipv6only=only; }",
    "server { listen 80 so_keepalive=x; }",
    "server { listen 80 so_keepalive=::; }",
    "server { listen 80 so_keepalive=1:2:x; }",
    "server { listen 80 reuseport=on; }",
    "server { listen no.such.host.invalid:80; }",
    "events { use magic; }",
    "events { use epoll; use epoll; }",
    "events { debug_connection no.such.host.invalid; }",
    "events { } worker_priority x; http { }",
    "events { } worker_priority 1; worker_priority 2; http { }",
    "events { } worker_cpu_affinity 0102; http { }",
    "events { } worker_cpu_affinity auto 1 1; http { }",
    "events { } worker_rlimit_core x; http { }",
    "events { } daemon maybe; http { }",
    "events { worker_connections x; }",
    "events { nonsense; }",
    "events { } nonsense { }",
    "events { } worker_processes x; http { }",
    "events { } pid a; pid b; http { }",
    "events { } error_log x nonsense; http { }",
    "events { } user nobody-such; http { }",
    "events ",
    "events { } http",
    "events; http { }",
    "}",
    "server { root $; }",
    "server { root ${}; }",
];

/// A process that ends with the test.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        if !wait::until(Duration::from_secs(2), || matches!(self.0.try_wait(), Ok(Some(_)))) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}
