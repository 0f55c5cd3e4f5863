//! One configuration, many requests, two servers: whatever nginx answers is what Fulmar has to answer.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::binary::{Server, have_nginx};
use crate::client::{self, Answer};
use crate::compare::{Compared, difference, normalise, replace_number};
use crate::http2;
use crate::log;
use crate::site::{Running, Site};

/// A request of a table.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Which of the ports it goes to: 0 is `%%PORT%%`.
    pub port: usize,
    /// The request in the short form (see `request::expand`); `%%PORT%%` is filled in.
    pub request: &'a str,
}

impl<'a> From<&'a str> for Case<'a> {
    fn from(request: &'a str) -> Case<'a> {
        Case { port: 0, request }
    }
}

impl<'a> From<(usize, &'a str)> for Case<'a> {
    fn from((port, request): (usize, &'a str)) -> Case<'a> {
        Case { port, request }
    }
}

/// Runs the requests against both servers, each on a separate connection, and compares answers and the
/// access log. Then runs those over HTTP/2 that exist there, and compares the answers. Panics with all differences. With the environment variable `SHOW_ANSWERS` (and `--nocapture`)
/// all answers are printed, to see what a table really asks.
pub fn agree<'a, C: Copy + Into<Case<'a>>>(site: &Site, cases: &[C]) {
    agree_with_logs(site, cases, &["access.log"]);
}

/// As `agree`, comparing these logs.
pub fn agree_with_logs<'a, C: Copy + Into<Case<'a>>>(site: &Site, cases: &[C], logs: &[&str]) {
    agree_over(site, cases, logs, true);
}

/// As `agree`, for what HTTP/2 does not have, or where it differs as the manual says.
pub fn agree_over_http1<'a, C: Copy + Into<Case<'a>>>(site: &Site, cases: &[C]) {
    agree_over(site, cases, &["access.log"], false);
}

fn agree_over<'a, C: Copy + Into<Case<'a>>>(site: &Site, cases: &[C], logs: &[&str], both: bool) {
    if !have_nginx() {
        return;
    }
    // Earlier tables must not influence this one.
    for (server, log) in
        [Server::Nginx, Server::Fulmar].iter().flat_map(|server| logs.iter().map(move |log| (server, log)))
    {
        let _ = std::fs::remove_file(site.logs(*server).join(log));
    }
    let nginx = site.start(Server::Nginx);
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    let mut differing = 0;
    for case in cases {
        let case: Case<'_> = (*case).into();
        let expected = run(&nginx, case);
        let got = run(&fulmar, case);
        let left = Compared { plain: &expected, normal: normalise(&expected, &nginx) };
        let right = Compared { plain: &got, normal: normalise(&got, &fulmar) };
        if std::env::var_os("SHOW_ANSWERS").is_some() {
            show(&mut report, case, "", [&expected, &got]);
        }
        if let Some(found) = difference(&left, &right) {
            differing += 1;
            show(&mut report, case, &found, [&expected, &got]);
        }
    }
    let lines = |running: &Running| {
        let text = |name: &&str| {
            let masked =
                |text: Vec<u8>, (_, port): (usize, u16)| replace_number(&text, &port.to_string(), b"PORT");
            String::from_utf8_lossy(&running.ports().fold(running.log(name).into_bytes(), masked))
                .into_owned()
        };
        logs.iter().map(text).collect::<Vec<_>>()
    };
    // Logs are complete only when the servers have stopped.
    let (nginx, fulmar) = (nginx.stop_and(lines), fulmar.stop_and(lines));
    for ((name, nginx), fulmar) in logs.iter().zip(nginx).zip(fulmar) {
        differing += compare_logs(&mut report, name, &nginx, &fulmar);
    }
    if std::env::var_os("SHOW_ANSWERS").is_some() {
        println!("{report}");
    }
    if both {
        let cases: Vec<Case<'_>> = cases.iter().map(|case| (*case).into()).collect();
        differing += agree_over_http2(&mut report, site, &cases);
    }
    // Counted by `cargo test -p tests differential:: -- --nocapture`.
    println!("differential: {} requests on a configuration", cases.len());
    assert!(differing == 0, "{differing} differences over {} requests\n{report}", cases.len());
}

/// Asks both servers for the same over HTTP/2, as far as the requests exist there. Returns how many answers differ.
fn agree_over_http2(report: &mut String, site: &Site, cases: &[Case<'_>]) -> usize {
    let is_there = |case: &&Case<'_>| http2::convert(case.request).is_some();
    let cases: Vec<&Case<'_>> = cases.iter().filter(is_there).collect();
    let Some(site) = site.with_http2().filter(|_| !cases.is_empty()) else { return 0 };
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    let mut differing = 0;
    for case in &cases {
        let ask = |running: &Running| {
            let asked = http2::convert(&filled(running, case.request)).expect("a request");
            http2::ask(running.address_of(case.port), asked)
        };
        let (expected, got) = (ask(&nginx), ask(&fulmar));
        let left = Compared { plain: &expected, normal: normalise(&expected, &nginx) };
        let right = Compared { plain: &got, normal: normalise(&got, &fulmar) };
        if let Some(found) = difference(&left, &right) {
            differing += 1;
            show(report, **case, &format!("over HTTP/2: {found}"), [&expected, &got]);
        }
    }
    println!("differential: {} requests over HTTP/2", cases.len());
    differing
}

/// Has both servers test a configuration that is wrong, and compares what they say about it, without the place.
pub fn agree_on_mistake(site: &Site) {
    if !have_nginx() {
        return;
    }
    let said = [Server::Nginx, Server::Fulmar].map(|server| {
        let text = site.test(server).expect_err("nothing is wrong");
        let line =
            text.lines().find_map(|line| line.split_once("[emerg] ")).map(|(_, message)| message.to_owned());
        let message = line.unwrap_or_else(|| panic!("{} says: {text}", server.name()));
        message.split(" in /").next().unwrap_or_default().to_owned()
    });
    assert_eq!(said[0], said[1]);
}

fn run(running: &Running, case: Case<'_>) -> Answer {
    let address: SocketAddr = running.address_of(case.port);
    client::ask(address, &filled(running, case.request))
}

/// A request with the ports of a server.
fn filled(running: &Running, request: &str) -> String {
    let mut request = request.to_owned();
    for (n, port) in running.ports() {
        let name = if n == 0 { "%%PORT%%".to_owned() } else { format!("%%PORT_{n}%%") };
        request = request.replace(&name, &port.to_string());
    }
    request
}

fn show(report: &mut String, case: Case<'_>, found: &str, answers: [&Answer; 2]) {
    let _ = writeln!(report, "\n==== {}", case.request.escape_debug());
    let _ = writeln!(report, "{}", found.trim_end());
    let texts = answers.map(|answer| {
        let mut text: Vec<String> = answer.responses.iter().map(ToString::to_string).collect();
        text.push(format!("[{:?}]", answer.end));
        text.join("\n----\n")
    });
    let _ = writeln!(report, "{}", side_by_side(&texts[0], &texts[1]));
}

/// Two texts in two columns, a `|` where the lines differ.
fn side_by_side(left: &str, right: &str) -> String {
    const WIDTH: usize = 62;
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    let mut out = format!("{:<WIDTH$}   {}\n", "nginx", "fulmar");
    for at in 0..left.len().max(right.len()) {
        let (a, b) = (left.get(at).copied().unwrap_or(""), right.get(at).copied().unwrap_or(""));
        let mark = if a == b { ' ' } else { '|' };
        let _ = writeln!(out, "{a:<WIDTH$} {mark} {b}");
    }
    out
}

fn compare_logs(report: &mut String, name: &str, nginx: &str, fulmar: &str) -> usize {
    let mask = if name == "error.log" { log::mask_error } else { |line: &str| Some(log::mask(line)) };
    let masked = |text: &str| {
        // Whether a connection is kept was compared already; the request that finds out is no part of a table.
        let lines = text.lines().filter(|line| !line.contains(client::ANOTHER_PATH));
        lines.filter_map(mask).collect::<Vec<_>>()
    };
    let (mut nginx, mut fulmar) = (masked(nginx), masked(fulmar));
    if nginx != fulmar {
        // nginx writes of a connection that lingers when that is over, and the next one may be answered by then.
        nginx.sort_unstable();
        fulmar.sort_unstable();
    }
    let mut differing = 0;
    for at in 0..nginx.len().max(fulmar.len()) {
        let (a, b) = (nginx.get(at), fulmar.get(at));
        if a != b {
            differing += 1;
            let line = |line: Option<&String>| line.map_or("(none)", String::as_str).to_owned();
            let _ =
                writeln!(report, "\n==== {name}, line {}\nnginx  {}\nfulmar {}", at + 1, line(a), line(b));
        }
    }
    differing
}
