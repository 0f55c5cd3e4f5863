//! `fulmar migrate` as a program, between the real nginx and Fulmar.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tests::binary::{Server, have_nginx};
use tests::origin::{Origin, ok};
use tests::tls::{Kind, certificate};
use tests::wait;

/// A site in a directory: `nginx.conf` with this content of `http {}`, and files below `html`.
fn site(http: &str) -> TempDir {
    let directory = TempDir::with_prefix("migrate-").unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("html/d")).unwrap();
    fs::write(path.join("html/index.html"), "index").unwrap();
    fs::write(path.join("html/d/a.txt"), "0123456789").unwrap();
    fs::write(path.join("html/b.css"), "b {} ".repeat(100)).unwrap();
    fs::write(path.join("site.conf"), http).unwrap();
    let types = "types { text/html html; text/css css; text/plain txt; }";
    let text = format!(
        "user root;\nevents {{}}\nhttp {{\n{types}\naccess_log logs/access.log;\ninclude site.conf;\n}}\n"
    );
    fs::write(path.join("nginx.conf"), text).unwrap();
    directory
}

fn command(directory: &Path, server: &Path) -> Command {
    let mut command = Command::new(Server::Fulmar.path());
    command.arg("migrate").arg("--server").arg(server).arg("-p").arg(directory);
    command.arg(directory.join("nginx.conf"));
    command
}

fn migrate(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, Server::Nginx.path()).args(arguments).output().unwrap()
}

/// The exit status and the object of `--json`.
fn found(directory: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = migrate(directory, &[&["--json"], arguments].concat());
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| panic!("{}", text(&output))))
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Names of files below a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A site with much that both servers do alike, and responses that differ each time.
const EQUAL: &str = r#"
    limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;
    server {
        listen 80 default_server;
        server_name a.example *.b.example;
        root html;
        gzip on;
        gzip_types text/css;
        limit_req zone=one;
        add_header X-Time $msec;
        rewrite ^/old/(.*)$ /$1 permanent;
        location /deny { deny all; }
        location /now { add_header Set-Cookie "id=$request_id"; return 200 "$msec $server_addr:$server_port"; }
        location /d/ { autoindex on; }
        location ~ \.php$ { return 404; }
        error_page 404 /index.html;
    }
    server {
        listen 443 ssl http2;
        server_name a.example;
        ssl_certificate /no/such/certificate;
        ssl_certificate_key /no/such/key;
        location / { alias html/; expires 1h; }
    }
    server { listen 80; server_name c.example; return 301 https://$host$request_uri; }
"#;

#[test]
fn ten_runs_without_a_false_difference() {
    if !have_nginx() {
        return;
    }
    let site = site(EQUAL);
    let before = names(site.path());
    for run in 0..10 {
        let (status, report) = found(site.path(), &[]);
        assert_eq!(status, Some(0), "run {run}: {report:#}");
        assert_eq!(report["requests"], report["equal"]);
        assert!(report["requests"].as_u64().unwrap() > 60, "{report:#}");
        assert!(report["set_aside"].to_string().contains("X-Time"), "{report:#}");
        let untried = report["not_tried"].to_string();
        assert!(untried.contains("TLS") && untried.contains("limit_req"), "{untried}");
    }
    assert_eq!(names(site.path()), before, "no file is written next to the configuration");
}

/// Each difference that requests of this command can show has its id, and the line that decides.
#[test]
fn meant_differences_have_their_row() {
    if !have_nginx() {
        return;
    }
    let site = site(
        r#"server {
        listen 80;
        root html;
        gzip on;
        gzip_types text/plain;
        error_page 416 /d/a.txt;
        location = /twice { add_header Server x; return 200 ok; }
        location = /status { return 425; }
        location = /types { default_type "text/plain; charset=x"; return 200 "01234567890123456789"; }
        location = /coded { add_header Content-Encoding br; default_type text/plain; return 200 "01234567890123456789"; }
        location /i { alias html/d/; }
        }"#,
    );
    fs::write(site.path().join("urls"), "# the traversal\n/i../index.html\n").unwrap();
    let urls = site.path().join("urls");
    let (status, report) = found(site.path(), &["--urls", urls.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{report:#}");
    let differences = report["differences"].as_array().unwrap();
    let of = |id: &str| differences.iter().find(|it| it["meant"] == id);
    for (id, line) in [
        ("etag-of-416", None),
        ("own-server-and-date", Some(7)),
        ("status-without-text", Some(8)),
        ("types-with-parameters", Some(9)),
        ("compressed-twice", Some(10)),
        ("alias-traversal", Some(11)),
    ] {
        let difference = of(id).unwrap_or_else(|| panic!("{id} is not in {report:#}"));
        if let Some(line) = line {
            assert_eq!(
                (&difference["line"], &difference["file"]),
                (&line.into(), &"site.conf".into()),
                "{id}"
            );
        }
    }
}

/// Applications get GET and HEAD requests only, and none with `--no-upstreams`; that goes for subrequests, too.
#[test]
fn applications_get_only_what_they_may() {
    if !have_nginx() {
        return;
    }
    let (origin, asked) = application();
    let site = site(&format!(
        "server {{
            listen 80;
            root html;
            error_page 405 = @application;
            location @application {{ proxy_pass http://{0}; }}
            location /app/ {{ proxy_pass http://{0}; }}
            location /d/ {{ auth_request /auth; }}
            location = /auth {{ internal; proxy_pass http://{0}; }}
        }}",
        origin.address()
    ));
    let (status, report) = found(site.path(), &["--no-upstreams"]);
    assert_eq!(status, Some(0), "{report:#}");
    assert_eq!(asked.lock().unwrap().len(), 0, "{asked:?}");
    assert!(report["not_tried"].to_string().contains("--no-upstreams"), "{report:#}");
    let (status, report) = found(site.path(), &[]);
    assert_eq!(status, Some(0), "{report:#}");
    assert!(report["passed"].as_u64().unwrap() > 1, "{report:#}");
    let methods: BTreeSet<String> =
        asked.lock().unwrap().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods.iter().map(String::as_str).collect::<Vec<_>>(), ["GET", "HEAD"]);
}

/// An application, and the request lines that it got.
fn application() -> (Origin, Arc<Mutex<BTreeSet<String>>>) {
    let lines = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&lines);
    let origin = Origin::start(move |asked| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        seen.lock().unwrap().insert(text.lines().next().unwrap_or_default().to_owned());
        ok("application")
    });
    (origin, lines)
}

/// What is passed depends on the address, the scheme, the method and header fields of the request that is made.
#[test]
fn what_is_made_is_what_was_judged() {
    if !have_nginx() {
        return;
    }
    let (origin, asked) = application();
    let site = site(&format!(
        "server {{ listen 192.0.2.1:80; root html; }}
        server {{ listen 192.0.2.2:80; location / {{ proxy_pass http://{0}; }} }}
        server {{
            listen 443 ssl;
            ssl_certificate a.crt;
            ssl_certificate_key a.key;
            root html;
            location / {{ if ($scheme = http) {{ proxy_pass http://{0}; }} }}
        }}
        server {{
            listen 81;
            root html;
            location / {{ if ($request_method = HEAD) {{ proxy_pass http://{0}; }} }}
            location /d/ {{ if ($http_range) {{ proxy_pass http://{0}; }} }}
        }}",
        origin.address()
    ));
    let made = certificate("localhost", Kind::Ecdsa);
    fs::write(site.path().join("a.crt"), &made.pem).unwrap();
    fs::write(site.path().join("a.key"), &made.key).unwrap();
    let (status, report) = found(site.path(), &["--no-upstreams"]);
    assert_eq!(status, Some(0), "{report:#}");
    assert!(asked.lock().unwrap().is_empty(), "{asked:?}");
}

/// The name of a file is no reason to run it.
#[test]
fn scripts_run_only_if_they_are_named() {
    if !have_nginx() {
        return;
    }
    let (origin, asked) = application();
    let site = site(&format!(
        "server {{ listen 80; root html; location ~ \\.php$ {{ proxy_pass http://{}; }} }}",
        origin.address()
    ));
    for name in ["cron.php", "named.php"] {
        fs::write(site.path().join("html").join(name), "<?php").unwrap();
    }
    let urls = site.path().join("urls");
    fs::write(&urls, "/named.php\n").unwrap();
    let (_, report) = found(site.path(), &["--urls", urls.to_str().unwrap()]);
    let asked = asked.lock().unwrap().iter().cloned().collect::<Vec<_>>().join("\n");
    assert!(asked.contains("/named.php") && !asked.contains("/cron.php"), "{asked}");
    assert!(report["not_tried"].to_string().contains("an application runs"), "{report:#}");
}

/// A server that is not nginx: `-V` works, and the rest is up to the script.
fn pretended(directory: &Path, script: &str) -> std::path::PathBuf {
    let path = directory.join("server.sh");
    let version = "echo 'nginx version: nginx/1.2.3'; echo 'configure arguments: --prefix=/'";
    fs::write(&path, format!("#!/bin/sh\nif [ \"$1\" = -V ]; then {version}; exit; fi\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_difference_that_is_not_meant_is_reported() {
    let Some(nginx) = have_nginx().then(|| Server::Nginx.path()) else { return };
    let site = site("server { listen 80; location /x { return 200 old; } }");
    // The installed server runs another configuration than the one that was given.
    let script = format!("sed -i 's/return 200 old/return 403/' \"$2\"; exec {} \"$@\"", nginx.display());
    let page = site.path().join("report.html");
    let mut command = command(site.path(), &pretended(site.path(), &script));
    let output = command.arg("--html").arg(&page).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("HTTP/1.1 200 OK instead of HTTP/1.1 403 Forbidden"), "{said}");
    assert!(said.contains("(site.conf:1)"), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("site.conf:1") && !page.contains("<script"), "{page}");
}

#[test]
fn a_server_that_does_not_start_hangs_or_floods_is_reported() {
    let site = site("server { listen 80; }");
    let cases = [
        ("echo 'unknown directive \"a\"'; exit 1", "unknown directive \"a\""),
        ("exec sleep 1000", "it does not listen"),
        ("exec yes flood", "it does not listen"),
    ];
    for (script, message) in cases {
        let output = command(site.path(), &pretended(site.path(), script)).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("installed server does not start") && said.contains(message), "{said}");
        assert!(said.len() < 100_000, "{} bytes", said.len());
    }
    let output = command(site.path(), Path::new("/bin/true")).output().unwrap();
    assert!(text(&output).contains("does not answer as nginx does"), "{}", text(&output));
}

/// A long run that has started its servers: the command, the directory of temporary files, and the servers' processes.
fn started_run(site: &Path) -> (Child, TempDir, Vec<String>) {
    let urls: String = (0..20_000).map(|n| format!("/x{n}\n")).collect();
    fs::write(site.join("urls"), urls).unwrap();
    let mut command = command(site, Server::Nginx.path());
    let temporary = TempDir::with_prefix("migrate-").unwrap();
    command.args(["--max", "20000", "--urls"]).arg(site.join("urls")).env("TMPDIR", temporary.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid_of = |name: &str| {
        let run = names(temporary.path()).into_iter().next()?;
        let text = fs::read_to_string(temporary.path().join(run).join(name).join("pid")).ok()?;
        Some(text.trim().to_owned()).filter(|pid| !pid.is_empty())
    };
    wait::until(Duration::from_secs(20), || pid_of("old").is_some() && pid_of("fulmar").is_some());
    let pids = ["old", "fulmar"].map(|name| pid_of(name).expect("a server"));
    (child, temporary, pids.into())
}

fn is_there(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Ctrl-C ends the run, with the report of what was tried, and both servers end.
#[test]
fn interrupted_runs_end_their_servers() {
    if !have_nginx() {
        return;
    }
    let site = site("server { listen 80; root html; }");
    let (child, temporary, pids) = started_run(site.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output).contains("interrupted"), "{}", text(&output));
    assert!(names(temporary.path()).is_empty(), "the directory of the run is removed");
    assert!(!pids.iter().any(|pid| is_there(pid)), "{pids:?}");
}

/// A run that is killed can tell its servers nothing; the kernel does.
#[test]
fn servers_end_with_a_run_that_is_killed() {
    if !have_nginx() {
        return;
    }
    let site = site("server { listen 80; root html; }");
    let (mut child, _temporary, pids) = started_run(site.path());
    child.kill().unwrap();
    child.wait().unwrap();
    wait::until(Duration::from_secs(10), || !pids.iter().any(|pid| is_there(pid)));
    assert!(!pids.iter().any(|pid| is_there(pid)), "{pids:?}");
}
