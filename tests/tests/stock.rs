//! The stock configurations: each passes `-t` with exactly the notes that it announces, and serves.

mod published;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tests::binary::Server;
use tests::tls::{Kind, certificate};
use tests::wait;

/// What is put in place of the marks.
struct Values {
    directory: PathBuf,
    ports: [u16; 2],
    user: String,
}

#[test]
fn every_stock_configuration_is_judged_and_serves() {
    let stock = Path::new(env!("CARGO_MANIFEST_DIR")).join("stock");
    let mut folders: Vec<PathBuf> = fs::read_dir(&stock)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(folders.len() >= 19, "only {} configurations", folders.len());
    let failures: Vec<String> = folders.iter().filter_map(|folder| try_folder(folder).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn try_folder(folder: &Path) -> Result<(), String> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let temporary = tempfile::Builder::new().prefix("stock-").tempdir().unwrap();
    let held = [free_port(), free_port()];
    let values = Values {
        directory: temporary.path().to_path_buf(),
        ports: [held[0].1, held[1].1],
        user: user_name(),
    };
    drop(held);
    copy(folder, temporary.path(), &values);
    make_certificate(temporary.path());
    let arguments = |extra: &[&str]| {
        let directory = temporary.path().display().to_string();
        let file = format!("{directory}/nginx.conf");
        let log = format!("{directory}/error.log");
        let mut arguments = vec!["-p".to_owned(), directory, "-e".to_owned(), log, "-c".to_owned(), file];
        arguments.extend(extra.iter().map(ToString::to_string));
        arguments
    };
    let tested = Command::new(Server::Fulmar.path()).args(arguments(&["-t"])).output().unwrap();
    let printed = String::from_utf8(tested.stderr).unwrap();
    let expected = expectation(&fill(&fs::read_to_string(folder.join("expect.txt")).unwrap(), &values));
    let got = without_excerpts(&printed);
    if got != expected {
        return Err(format!("{name}: -t says\n{got}\nbut is expected to say\n{expected}"));
    }
    let accepted = expected.contains("test is successful");
    if tested.status.success() != accepted {
        return Err(format!("{name}: -t ended with {}", tested.status));
    }
    if accepted {
        serve(&name, temporary.path(), &arguments(&["-g", "daemon off;"]), values.ports)
    } else {
        Ok(())
    }
}

/// Starts the server and asks every port that the configuration names for its first page.
fn serve(name: &str, directory: &Path, arguments: &[String], ports: [u16; 2]) -> Result<(), String> {
    let text = all_text(directory);
    let mut server = Command::new(Server::Fulmar.path())
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut result = Ok(());
    for port in ports.into_iter().filter(|port| text.contains(&port.to_string())) {
        let mut answer = None;
        wait::until(Duration::from_secs(10), || {
            answer = first_line(port);
            answer.is_some()
        });
        if !answer.as_deref().is_some_and(|line| line.starts_with("HTTP/1.1 ")) {
            result = Err(format!("{name}: port {port} answers {answer:?}"));
        }
    }
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    server.wait().unwrap();
    result
}

fn first_line(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

/// A certificate instead of the one that the configuration names.
fn make_certificate(directory: &Path) {
    let named = fs::read_to_string(directory.join("nginx.conf")).unwrap();
    if named.contains("/private_key;") {
        let made = certificate("localhost", Kind::Ecdsa);
        for name in ["signed_cert_plus_intermediates", "root_CA_cert_plus_intermediates"] {
            fs::write(directory.join(name), &made.pem).unwrap();
        }
        fs::write(directory.join("private_key"), made.key).unwrap();
    }
}

fn free_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn user_name() -> String {
    let printed = Command::new("id").arg("-un").output().unwrap().stdout;
    String::from_utf8(printed).unwrap().trim().to_owned()
}

/// Copies a folder with its marks filled in; links stay links.
fn copy(from: &Path, to: &Path, values: &Values) {
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        let kind = fs::symlink_metadata(&source).unwrap();
        if kind.is_symlink() {
            let link = fs::read_link(&source).unwrap();
            symlink(fill(link.to_str().unwrap(), values), &target).unwrap();
        } else if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&source, &target, values);
        } else {
            fs::write(&target, fill(&fs::read_to_string(&source).unwrap(), values)).unwrap();
        }
    }
}

fn fill(text: &str, values: &Values) -> String {
    text.replace("%%DIR%%", &values.directory.display().to_string())
        .replace("%%PORT_1%%", &values.ports[0].to_string())
        .replace("%%PORT_2%%", &values.ports[1].to_string())
        .replace("%%USER%%", &values.user)
}

/// The expected lines for the user who runs the test.
fn expectation(text: &str) -> String {
    let root = geteuid().is_root();
    let line = |line: &str| match line.strip_prefix("%%UNPRIVILEGED%% ") {
        Some(_) if root => None,
        Some(rest) => Some(format!("{rest}\n")),
        None => Some(format!("{line}\n")),
    };
    text.lines().filter_map(line).collect()
}

fn without_excerpts(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !line.contains(" | "));
    lines.map(|line| format!("{line}\n")).collect()
}

fn all_text(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &all_text(&path);
        } else if let Ok(content) = fs::read_to_string(&path) {
            text += &content;
        }
    }
    text
}
