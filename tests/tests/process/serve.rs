//! `fulmar serve` and `make serve`: a directory that is served without a configuration, and the demonstration site.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::Server;
use tests::client::{Client, ask};
use tests::site::Site;
use tests::{inflate, parts, wait};

use crate::process::command_line::Guard;

/// A running `fulmar serve`.
struct Served {
    /// Its directory is removed with it.
    _site: Site,
    child: Guard,
    address: SocketAddr,
}

impl Served {
    /// Serves a site with these options, and with this as its standard output.
    fn start(site: Site, options: &[&str], output: Stdio) -> Served {
        let port = site.write_configuration(Server::Fulmar, "%%PORT%%")[&0];
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(Server::Fulmar.path());
        command.arg("serve").arg(site.root()).args(["--listen", &listen]).args(options);
        let child = Guard(command.stdout(output).stderr(Stdio::null()).spawn().expect("run"));
        drop(command);
        let address = listen.parse().expect("address");
        wait_for(address);
        Served { _site: site, child, address }
    }

    /// Serves a site with these options until `requests` were answered; what is printed.
    fn printed(options: &[&str], requests: usize) -> String {
        let site = Site::whole("%%PORT%%").file("f.txt", "file\n");
        let path = site.prefix().join("output");
        let mut served = Served::start(site, options, File::create(&path).expect("file").into());
        send(served.address, "/f.txt", requests);
        served.interrupt();
        fs::read_to_string(path).expect("output")
    }

    /// Ctrl-C.
    fn interrupt(&mut self) {
        let child = &mut self.child.0;
        kill_process(Pid::from_child(child), Signal::INT).expect("signal");
        let ended = || child.try_wait().expect("wait").is_some();
        assert!(wait::until(Duration::from_secs(5), ended), "Ctrl-C");
    }
}

fn wait_for(address: SocketAddr) {
    assert!(wait::until(Duration::from_secs(5), || Client::try_connect(address).is_ok()), "does not listen");
}

/// Sends so many requests, each after the answer to the one before.
fn send(address: SocketAddr, path: &str, requests: usize) {
    let mut client = Client::connect(address);
    for _ in 0..requests {
        let answer = client.exchange(&format!("GET {path}")).expect("an answer");
        assert_eq!(answer.status, 200);
    }
}

/// How many requests have a line in `text`, and how many others its lines tell of.
fn shown(text: &str) -> (usize, usize) {
    let lines = text.lines().filter(|line| line.starts_with("GET ")).count();
    let more = text.lines().filter_map(|line| line.strip_prefix("… and ")?.split_once(" more request"));
    (lines, more.map(|(number, _)| number.replace(',', "").parse::<usize>().expect(number)).sum())
}

#[test]
fn serve() {
    let site = Site::whole("%%PORT%%").file("f.txt", "file\n").file("d/x", "x");
    let mut served = Served::start(site, &[], Stdio::null());
    assert_eq!(ask(served.address, "GET /f.txt").last().text(), "file\n");
    let listing = ask(served.address, "GET /d/");
    assert!(listing.last().status == 200 && listing.last().text().contains("x"), "{}", listing.last());
    served.interrupt();
}

/// A directory often has files that are not meant for visitors.
#[test]
fn serve_sends_hidden_files_only_if_told() {
    let site = || {
        let site =
            Site::whole("%%PORT%%").file("f.txt", "file\n").file(".env", "secret").file("d/.git/config", "x");
        site.file(".well-known/security.txt", "public\n").file(".well-known/.env", "secret")
    };
    for (options, status) in [(&[][..], 404), (&["--spa"], 404), (&["--hidden"], 200)] {
        let mut served = Served::start(site(), options, Stdio::null());
        for path in ["/.env", "/d/.git/config", "/d/%2egit/config", "/.well-known/.env"] {
            assert_eq!(
                ask(served.address, &format!("GET {path}")).last().status,
                status,
                "{options:?} {path}"
            );
        }
        for path in ["/f.txt", "/.well-known/security.txt"] {
            assert_eq!(ask(served.address, &format!("GET {path}")).last().status, 200, "{options:?} {path}");
        }
        served.interrupt();
    }
}

/// curl stands for a browser that trusts the authority: it accepts the certificate of this start and of the next one.
#[test]
fn clients_that_trust_the_authority_accept_each_start() {
    let curl = parts::program(&["curl"]);
    if !parts::is_present("curl", curl.is_some()) {
        return;
    }
    let curl = curl.expect("curl");
    let state = tempfile::tempdir().expect("directory");
    let authority = state.path().join("fulmar/local/authority.pem");
    let mut first = None;
    for _ in 0..2 {
        let site = Site::whole("%%PORT%%").file("f.txt", "file\n");
        let port = site.write_configuration(Server::Fulmar, "%%PORT%%")[&0];
        let mut command = Command::new(Server::Fulmar.path());
        command.arg("serve").arg(site.root()).args(["--tls", "--port", &port.to_string()]);
        command.env("XDG_STATE_HOME", state.path()).env("STATE_DIRECTORY", state.path().join("fulmar"));
        let child = Guard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run"));
        wait_for(SocketAddr::from(([127, 0, 0, 1], port)));
        let get = |arguments: &[&str]| {
            let mut command = Command::new(&curl);
            command.args(["--silent", "--show-error", "--noproxy", "*"]).args(arguments);
            let output = command.arg(format!("https://localhost:{port}/f.txt")).output().expect("curl");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        assert_eq!(get(&["--cacert", &authority.display().to_string()]), "file\n");
        assert!(get(&[]).contains("certificate"), "an unknown authority is trusted");
        let certificate = fs::read(authority.with_file_name("localhost.pem")).expect("certificate");
        assert_eq!(*first.get_or_insert(certificate.clone()), certificate);
        let mode =
            fs::metadata(authority.with_file_name("authority-key.pem")).expect("key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(child);
    }
    let certificate = authority.with_file_name("localhost.pem");
    let key = authority.with_file_name("localhost-key.pem");
    let files = [&certificate, &key].map(|path| path.display().to_string());
    let site = Site::whole("%%PORT%%").file("f.txt", "file\n");
    let mut served = Served::start(site, &["--certificate", &files[0], "--key", &files[1]], Stdio::null());
    let url = format!("https://localhost:{}/f.txt", served.address.port());
    let trusted = authority.display().to_string();
    let output = Command::new(&curl).args(["-s", "--noproxy", "*", "--cacert", &trusted, &url]).output();
    assert_eq!(output.expect("curl").stdout, b"file\n");
    served.interrupt();
}

/// `fulmar proxy` in front of another server, WebSockets included.
#[test]
fn proxy() {
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%%; return 200 \"$http_host $http_x_forwarded_proto\\n\"; }",
    );
    let origin = site.start(Server::Fulmar);
    for (options, scheme) in [(&[][..], "http"), (&["--tls"][..], "https")] {
        let port = Site::whole("%%PORT%%").write_configuration(Server::Fulmar, "%%PORT%%")[&0];
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(Server::Fulmar.path());
        command.args(["proxy", "--to", &origin.address().to_string(), "--listen", &listen]).args(options);
        let mut child = Guard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run"));
        let address: SocketAddr = listen.parse().expect("address");
        wait_for(address);
        if scheme == "http" {
            let answer = ask(address, "GET /\nHost: own.example");
            assert_eq!(answer.last().text(), "own.example http\n");
        } else {
            let answer = ask(address, "GET /\nHost: own.example");
            assert_eq!(answer.last().status, 302, "a plain request on the port of TLS is redirected");
        }
        kill_process(Pid::from_child(&child.0), Signal::INT).expect("signal");
        let ended = || child.0.try_wait().expect("wait").is_some();
        assert!(wait::until(Duration::from_secs(10), ended), "Ctrl-C");
    }
    origin.stop();
}

#[test]
fn proxy_says_what_it_needs() {
    let said = |to: &str| {
        let output = Command::new(Server::Fulmar.path()).args(["proxy", "--to", to]).output().expect("run");
        assert!(!output.status.success(), "{to}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said("localhost").contains("\"localhost\" has no port"));
    assert!(said("https://localhost:1").contains("needs a configuration"));
}

/// As a service, or over a remote shell: the standard output is a socket, which nobody can open by its name.
#[test]
fn serve_writes_its_log_to_a_socket() {
    let (receiver, output) = UnixStream::pair().expect("sockets");
    let site = Site::whole("%%PORT%%").file("f.txt", "file\n");
    let served = Served::start(site, &[], OwnedFd::from(output).into());
    assert_eq!(ask(served.address, "GET /f.txt").last().text(), "file\n");
    receiver.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    let told = BufReader::new(receiver).lines().map_while(Result::ok).find(|line| line.starts_with("GET "));
    assert!(told.as_ref().is_some_and(|line| line.starts_with("GET /f.txt 200 ")), "{told:?}");
}

#[test]
fn serve_lists_directories_for_people_of_today() {
    let site = Site::whole("%%PORT%%")
        .file("<b>&.txt", "x".repeat(1_450_000))
        .file("sub/a.txt", "a")
        .file(".git/x", "");
    let served = Served::start(site, &[], Stdio::null());
    let page = |path: &str| ask(served.address, &format!("GET {path}")).last().text();
    let root = page("/");
    for part in ["<a href=\"sub/\">sub/</a>", "%3Cb%3E%26.txt\">&lt;b&gt;&amp;.txt</a></td><td>1.4 MB<"] {
        assert!(root.contains(part), "{part}: {root}");
    }
    assert!(!root.contains("../") && !root.contains(".git"), "{root}");
    assert!(page("/sub/").contains("<a href=\"../\">../</a>"));
    let sorted = page("/?sort=name&order=desc");
    assert!(sorted.contains("aria-sort=\"descending\""), "{sorted}");
}

#[test]
fn serve_compresses_text() {
    let text = "a line of text\n".repeat(100);
    let site = Site::whole("%%PORT%%").file("f.txt", text.clone()).file("f.png", text.clone());
    let served = Served::start(site, &[], Stdio::null());
    let answer = |path: &str| {
        let answer = ask(served.address, &format!("GET {path}\nAccept-Encoding: gzip"));
        assert_eq!(inflate::content(answer.last()), text.as_bytes());
        answer.last().field("Content-Encoding").map(str::to_owned)
    };
    assert_eq!(answer("/f.txt").as_deref(), Some("gzip"));
    assert_eq!(answer("/f.png"), None);
    let listing = ask(served.address, "GET /\nAccept-Encoding: gzip");
    assert_eq!(listing.last().field("Content-Encoding"), Some("gzip"));
}

#[test]
fn serve_shows_a_sample_of_many_requests() {
    const REQUESTS: usize = 900;
    let text = Served::printed(&[], REQUESTS);
    let (lines, others) = shown(&text);
    assert_eq!(lines + others, REQUESTS, "{text}");
    assert!((20..REQUESTS / 2).contains(&lines), "{lines} lines");
    assert!(text.contains("--quiet shows none"), "{text}");
    let quiet = Served::printed(&["--quiet"], 30);
    assert!(quiet.contains("Serving ") && shown(&quiet) == (0, 0), "{quiet}");
}

/// Runs a copy of the demonstration site with a program that is built already; what is printed.
fn demonstration(options: &[&str]) -> Option<String> {
    let make = parts::program(&["make"]);
    if !parts::is_present("make", make.is_some()) {
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
    let site = Site::whole("%%PORT%%");
    let port = site.write_configuration(Server::Fulmar, "%%PORT%%")[&0];
    let place = site.prefix();
    fs::copy(root.join("Makefile"), place.join("Makefile")).expect("Makefile");
    let copied = Command::new("cp").arg("-r").arg(root.join("demo")).arg(place.join("demo")).status();
    assert!(copied.expect("cp").success());
    let bin = place.join("bin");
    fs::create_dir(&bin).expect("directory");
    fs::write(bin.join("cargo"), "#!/bin/sh\n").expect("script");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("mode");
    let path = std::env::join_paths(
        std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").expect("PATH"))),
    );
    let output = place.join("output");
    let child: Child = Command::new(make?)
        .args(["serve", &format!("PORT={port}"), &format!("DEMO={}", Server::Fulmar.path().display())])
        .args(options)
        .current_dir(place)
        .env("PATH", path.expect("PATH"))
        .stdout(File::create(&output).expect("file"))
        .spawn()
        .expect("make");
    let mut child = Guard(child);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    wait_for(address);
    send(address, "/style.css", 500);
    let pid = fs::read_to_string(format!("/tmp/fulmar-demo-{port}.pid")).expect("pid file");
    let pid = Pid::from_raw(pid.trim().parse().expect("number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("signal");
    assert!(wait::until(Duration::from_secs(5), || child.0.try_wait().expect("wait").is_some()), "it ends");
    Some(fs::read_to_string(output).expect("output"))
}

#[test]
fn make_serve_shows_a_sample_of_many_requests() {
    let Some(text) = demonstration(&[]) else { return };
    let (lines, others) = shown(&text);
    assert_eq!(lines + others, 500, "{text}");
    assert!(lines < 250 && text.contains("make serve QUIET=yes shows none"), "{text}");
    let quiet = demonstration(&["QUIET=yes"]).expect("make");
    assert!(quiet.contains("Serving demo/site at ") && shown(&quiet) == (0, 0), "{quiet}");
}
