//! The probes: what is sent, and which answer is a yes.

use std::fs;
use std::io::Write;
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Verdict::{self, No, NotOffered, NotProbed, Value, Yes};
use super::contender::Sheet;
use super::peer::{CONTENT, KEY_AND_ACCEPT, Peer, Speaks};
use super::traffic::Traffic;
use super::transcript::Transcript;
use super::{FILES, TEXT_BYTES, handshakes, protocols, upgrade};
use crate::measure::contender::Running;
use crate::measure::engine::fetch::{self, Answer};
use crate::measure::process;

/// A way to learn one thing about a contender.
pub(super) struct Probe {
    /// Its name in `features.toml`.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Whether it needs no separate configuration.
    pub(super) plain: bool,
    /// Whether it is about TLS.
    pub(super) tls: bool,
    /// What stands after the contender.
    pub(super) peer: Option<Speaks>,
    /// Does it.
    pub(super) run: fn(&Sheet, &Transcript) -> Found,
}

/// What a probe found, and what was seen.
pub(super) type Found = Result<(Verdict, String)>;

const PLAIN: Probe = Probe {
    name: "",
    title: "",
    plain: true,
    tls: false,
    peer: None,
    run: |_, _| Ok((NotProbed, String::new())),
};
const CONFIGURED: Probe = Probe { plain: false, ..PLAIN };

/// All probes, in the order of the matrix.
pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "language",
        title: "language",
        run: |sheet, _| Ok((Value, sheet.language.clone())),
        ..PLAIN
    },
    Probe { name: "runs_on", title: "runs on", run: |sheet, _| Ok((Value, sheet.runs_on.clone())), ..PLAIN },
    Probe { name: "begun", title: "begun in", run: |sheet, _| Ok((Value, sheet.begun.clone())), ..PLAIN },
    Probe { name: "model", title: "processes and threads, 50 connections", run: model, ..PLAIN },
    Probe { name: "https", title: "HTTPS", tls: true, run: https, ..PLAIN },
    Probe { name: "http2", title: "HTTP/2 over TLS", tls: true, run: http2, ..CONFIGURED },
    Probe { name: "http3", title: "HTTP/3 (QUIC version 1)", tls: true, run: http3, ..CONFIGURED },
    Probe {
        name: "resumption",
        title: "TLS sessions resumed",
        tls: true,
        run: handshakes::resumption,
        ..PLAIN
    },
    Probe { name: "ocsp", title: "OCSP stapling", tls: true, run: handshakes::ocsp, ..CONFIGURED },
    Probe { name: "ranges", title: "ranges", run: ranges, ..PLAIN },
    Probe { name: "conditional", title: "conditional requests", run: conditional, ..PLAIN },
    Probe { name: "gzip", title: "gzip", run: |sheet, log| coding(sheet, log, "gzip"), ..CONFIGURED },
    Probe { name: "brotli", title: "brotli", run: |sheet, log| coding(sheet, log, "br"), ..CONFIGURED },
    Probe { name: "zstd", title: "zstd", run: |sheet, log| coding(sheet, log, "zstd"), ..CONFIGURED },
    Probe { name: "virtual_hosts", title: "virtual hosts", run: virtual_hosts, ..CONFIGURED },
    Probe { name: "rewriting", title: "rewriting", run: rewriting, ..CONFIGURED },
    Probe { name: "htaccess", title: ".htaccess", run: htaccess, ..CONFIGURED },
    Probe { name: "cgi", title: "CGI", run: cgi, ..CONFIGURED },
    Probe { name: "fastcgi", title: "FastCGI", peer: Some(Speaks::FastCgi), run: fastcgi, ..CONFIGURED },
    Probe {
        name: "scgi",
        title: "SCGI",
        peer: Some(Speaks::Scgi),
        run: |sheet, log| passed(sheet, log, Speaks::Scgi),
        ..CONFIGURED
    },
    Probe {
        name: "uwsgi",
        title: "uwsgi",
        peer: Some(Speaks::Uwsgi),
        run: |sheet, log| passed(sheet, log, Speaks::Uwsgi),
        ..CONFIGURED
    },
    Probe {
        name: "ajp",
        title: "AJP",
        peer: Some(Speaks::Ajp),
        run: |sheet, log| passed(sheet, log, Speaks::Ajp),
        ..CONFIGURED
    },
    Probe {
        name: "proxying",
        title: "proxying",
        peer: Some(Speaks::Http),
        run: |sheet, log| passed(sheet, log, Speaks::Http),
        ..CONFIGURED
    },
    Probe {
        name: "pooling",
        title: "connections to an application kept",
        peer: Some(Speaks::Http),
        run: pooling,
        ..CONFIGURED
    },
    Probe {
        name: "websocket",
        title: "WebSocket proxying",
        peer: Some(Speaks::Http),
        run: websocket,
        ..CONFIGURED
    },
    Probe { name: "access", title: "access by address", run: access, ..CONFIGURED },
    Probe { name: "authentication", title: "passwords (basic)", run: authentication, ..CONFIGURED },
    Probe { name: "rate_limit", title: "limit of requests", run: rate_limit, ..CONFIGURED },
    Probe { name: "status", title: "status page", run: status, ..CONFIGURED },
    Probe { name: "ipv6", title: "IPv6", run: ipv6, ..CONFIGURED },
    Probe { name: "proxy_protocol", title: "PROXY protocol from clients", run: proxy_protocol, ..CONFIGURED },
    Probe { name: "modules", title: "modules at run time", run: command, ..CONFIGURED },
    Probe { name: "configuration_test", title: "configuration test", run: configuration_test, ..CONFIGURED },
    Probe { name: "reload", title: "reload without loss", run: reload, ..PLAIN },
    Probe { name: "upgrade", title: "new program without loss", run: upgrade::upgrade, ..CONFIGURED },
];

/// Connections that are open while processes are counted.
const CONNECTIONS: usize = 50;

/// What is said of contenders without TLS.
pub(super) const NO_TLS: &str = "TLS is left to another program";

/// Requests that are passed on, each of another client.
const PASSED: u64 = 5;

/// Requests in a moment.
const BURST: u32 = 20;

/// `user:secret` and `user:other` in base64.
const RIGHT_PASSWORD: &str = "Authorization: Basic dXNlcjpzZWNyZXQ=";
const WRONG_PASSWORD: &str = "Authorization: Basic dXNlcjpvdGhlcg==";

/// Reloads under load.
const RELOADS: u32 = 5;

fn verdict(is: bool) -> Verdict {
    if is { Yes } else { No }
}

fn ask(running: &Running, tls: bool, path: &str, fields: &[&str], log: &Transcript) -> Result<Answer> {
    let mut connection = log.tap(fetch::connect(running.address, tls)?);
    fetch::get(&mut connection, path, fields)
}

/// Whether an answer has this status and content, and what it has.
fn answers(answer: &Answer, status: u16, content: &[u8]) -> (Verdict, String) {
    let is = answer.status == status && answer.content == content;
    (verdict(is), format!("status {}, {} bytes", answer.status, answer.content.len()))
}

fn file(name: &str) -> &'static [u8] {
    FILES.iter().find(|(path, _)| *path == name).map_or(b"", |(_, text)| text.as_bytes())
}

fn model(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = fetch::connect(running.address, false)?;
        fetch::get(&mut connection, "/", &[])?;
        open.push(connection);
    }
    // Without those of what it stands in front of.
    let processes = running.roots().first().map_or_else(Vec::new, |root| process::family(*root));
    let mut threads = 0;
    for process in &processes {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let count = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
        log.note(&format!("process {process} {}: {count} threads", name.trim()));
        threads += count;
    }
    Ok((Value, format!("processes: {}, threads: {threads}", processes.len())))
}

fn https(sheet: &Sheet, log: &Transcript) -> Found {
    if !sheet.has_tls() {
        return Ok((NotOffered, NO_TLS.into()));
    }
    let running = sheet.start(None, log)?;
    Ok(answers(&ask(&running, true, "/index.html", &[], log)?, 200, file("index.html")))
}

fn http2(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    match protocols::http2(running.address, log)? {
        Some(content) => {
            Ok((verdict(content == file("index.html")), format!("{} bytes on stream 1", content.len())))
        }
        None => Ok((No, "h2 is not chosen from h2 and http/1.1".into())),
    }
}

fn http3(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let versions = protocols::quic_versions(running.address, log)?;
    let advertised = ask(&running, true, "/index.html", &[], log)?.fields.get("alt-svc").cloned();
    let advertised =
        advertised.map_or("it is not advertised".to_owned(), |field| format!("advertised as {field}"));
    match versions {
        Some(versions) if versions.contains(&1) => {
            Ok((Yes, format!("QUIC version 1 is offered, {advertised}")))
        }
        Some(versions) => Ok((No, format!("QUIC versions {versions:x?}"))),
        None => Ok((No, format!("no answer to QUIC on the port, {advertised}"))),
    }
}

fn ranges(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let answer = ask(&running, false, "/index.html", &["Range: bytes=2-4"], log)?;
    Ok(answers(&answer, 206, &file("index.html")[2..=4]))
}

fn conditional(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let answer = ask(&running, false, "/index.html", &[], log)?;
    let mut seen = Vec::new();
    for (validator, condition) in [("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")] {
        if let Some(value) = answer.fields.get(validator) {
            let again = ask(&running, false, "/index.html", &[&format!("{condition}: {value}")], log)?;
            seen.push((condition, again.status));
        }
    }
    let is = !seen.is_empty() && seen.iter().all(|(_, status)| *status == 304);
    let seen: Vec<String> =
        seen.into_iter().map(|(condition, status)| format!("{condition}: {status}")).collect();
    Ok((verdict(is), if seen.is_empty() { "no validator is sent".into() } else { seen.join(", ") }))
}

fn coding(sheet: &Sheet, log: &Transcript, name: &str) -> Found {
    let running = sheet.start(None, log)?;
    let answer = ask(&running, false, "/text.txt", &[&format!("Accept-Encoding: {name}")], log)?;
    let got = answer.fields.get("content-encoding").map_or("none", String::as_str);
    let shorter = (answer.content.len() as u64) < TEXT_BYTES;
    let detail = format!("coding {got}, {} of {TEXT_BYTES} bytes", answer.content.len());
    Ok((verdict(answer.status == 200 && got == name && shorter), detail))
}

fn virtual_hosts(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let mut is = true;
    for host in ["one", "two"] {
        let mut connection = log.tap(fetch::connect(running.address, false)?);
        let answer = fetch::get_from(&mut connection, &format!("{host}.example"), "/", &[])?;
        is &= answer.status == 200 && answer.content == file(&format!("hosts/{host}/index.html"));
    }
    Ok((verdict(is), "two names on one port".into()))
}

fn rewriting(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    Ok(answers(&ask(&running, false, "/old/index.html", &[], log)?, 200, file("index.html")))
}

fn htaccess(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let answer = ask(&running, false, "/htaccess/there", &[], log)?;
    Ok((verdict(answer.status == 302), format!("status {} where the file says 302", answer.status)))
}

fn cgi(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    Ok(answers(&ask(&running, false, "/cgi-bin/script.cgi", &[], log)?, 200, b"from a script"))
}

fn fastcgi(sheet: &Sheet, log: &Transcript) -> Found {
    let peer = Peer::start(Speaks::FastCgi)?;
    let running = sheet.start(Some(&peer), log)?;
    Ok(answers(&ask(&running, false, "/script.php", &[], log)?, 200, CONTENT.as_bytes()))
}

/// A request that another server answers.
fn passed(sheet: &Sheet, log: &Transcript, speaks: Speaks) -> Found {
    let peer = Peer::start(speaks)?;
    let running = sheet.start(Some(&peer), log)?;
    Ok(answers(&ask(&running, false, "/passed/", &[], log)?, 200, CONTENT.as_bytes()))
}

fn pooling(sheet: &Sheet, log: &Transcript) -> Found {
    let peer = Peer::start(Speaks::Http)?;
    let running = sheet.start(Some(&peer), log)?;
    for _ in 0..PASSED {
        let (verdict, detail) =
            answers(&ask(&running, false, "/passed/", &[], log)?, 200, CONTENT.as_bytes());
        ensure!(verdict == Yes, "passing on: {detail}");
    }
    let used = peer.used();
    Ok((verdict(used < PASSED), format!("{PASSED} requests of as many clients on {used} connections")))
}

fn websocket(sheet: &Sheet, log: &Transcript) -> Found {
    let peer = Peer::start(Speaks::Http)?;
    let running = sheet.start(Some(&peer), log)?;
    let mut connection = log.tap(fetch::connect(running.address, false)?);
    let (key, accept) = KEY_AND_ACCEPT;
    let key = format!("Sec-WebSocket-Key: {key}");
    let fields = ["Upgrade: websocket", "Connection: Upgrade", &key, "Sec-WebSocket-Version: 13"];
    let answer = fetch::get(&mut connection, "/passed/", &fields)?;
    if answer.status != 101 {
        return Ok((No, format!("status {} instead of 101", answer.status)));
    }
    ensure!(
        answer.fields.get("sec-websocket-accept").is_some_and(|field| field == accept),
        "no right accept field"
    );
    // A masked text frame, as clients have to send it, comes back as it is.
    let frame = [0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2];
    let back = protocols::echoed(&mut connection, &frame)?;
    Ok((verdict(back == frame), "101, and a frame went there and back".into()))
}

fn command(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let (_, text) = sheet.ask_program(&running, log)?;
    let is = text.contains(&sheet.expect);
    Ok((verdict(is), format!("{:?} is {}in what it prints", sheet.expect, if is { "" } else { "not " })))
}

/// The command succeeds with a configuration that is right, and fails when a file of it is spoilt.
fn configuration_test(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let (good, _) = sheet.ask_program(&running, log)?;
    let path = running.files().iter().find(|path| path.ends_with(&sheet.expect));
    let path = path.context("no file to spoil")?;
    let text = fs::read_to_string(path)?;
    fs::write(path, format!("{text}\nno_such_thing {{{{{{\n"))?;
    log.note("a line that means nothing is added");
    let (bad, _) = sheet.ask_program(&running, log)?;
    let still = TcpStream::connect(running.address).is_ok();
    let detail = format!(
        "a right file is {}, a wrong one {}, and the server {} meanwhile",
        if good { "accepted" } else { "refused" },
        if bad { "accepted" } else { "refused" },
        if still { "serves" } else { "does not serve" }
    );
    Ok((verdict(good && !bad && still), detail))
}

/// Requests while the configuration is read anew.
fn reload(sheet: &Sheet, log: &Transcript) -> Found {
    if sheet.found.contender.family.reload.is_none() {
        return Ok((NotOffered, "the lab knows no way that its documentation calls lossless".into()));
    }
    let running = sheet.start(None, log)?;
    let traffic = Traffic::default();
    let reloaded = thread::scope(|scope| {
        scope.spawn(|| traffic.run(running.address, log));
        let mut reloaded = Ok(());
        for _ in 0..RELOADS {
            thread::park_timeout(Duration::from_millis(300));
            log.note("reload");
            reloaded = reloaded.and_then(|()| running.reload());
        }
        thread::park_timeout(Duration::from_millis(700));
        traffic.end();
        reloaded
    });
    reloaded?;
    let (done, lost) = traffic.counts();
    ensure!(done > 0, "no request was answered");
    Ok((verdict(lost == 0), format!("{RELOADS} reloads, {done} requests answered, {lost} lost")))
}

/// One folder is closed to this machine, everything else open.
fn access(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let open = ask(&running, false, "/index.html", &[], log)?.status;
    let closed = ask(&running, false, "/hosts/one/index.html", &[], log)?.status;
    Ok((verdict((open, closed) == (200, 403)), format!("status {open} where it is open, {closed} where not")))
}

/// One folder asks for a password.
fn authentication(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let path = "/hosts/one/index.html";
    let statuses = [&[][..], &[WRONG_PASSWORD], &[RIGHT_PASSWORD]]
        .map(|fields| ask(&running, false, path, fields, log).map(|answer| answer.status));
    let [without, wrong, right] = statuses;
    let statuses = (without?, wrong?, right?);
    let (without, wrong, right) = statuses;
    let detail =
        format!("status {without} without a password, {wrong} with a wrong one, {right} with the right one");
    Ok((verdict(statuses == (401, 401, 200)), detail))
}

/// Many requests in a moment: the first is answered, and some later one is not.
fn rate_limit(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let mut statuses = Vec::new();
    for _ in 0..BURST {
        statuses.push(ask(&running, false, "/index.html", &[], log)?.status);
    }
    let refused = statuses.iter().filter(|status| [429, 503].contains(*status)).count();
    Ok((
        verdict(statuses[0] == 200 && refused > 0),
        format!("{refused} of {BURST} requests at once were refused"),
    ))
}

fn status(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let answer = ask(&running, false, "/status", &[], log)?;
    let detail = format!("status {}, {} bytes", answer.status, answer.content.len());
    Ok((verdict(answer.status == 200 && !answer.content.is_empty()), detail))
}

fn ipv6(sheet: &Sheet, log: &Transcript) -> Found {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return Ok((NotProbed, "this machine has no IPv6".into()));
    }
    let running = sheet.start(None, log)?;
    let mut connection =
        log.tap(fetch::connect((Ipv6Addr::LOCALHOST, running.address.port()).into(), false)?);
    let answer = fetch::get(&mut connection, "/index.html", &[])?;
    Ok(answers(&answer, 200, file("index.html")))
}

fn proxy_protocol(sheet: &Sheet, log: &Transcript) -> Found {
    let running = sheet.start(None, log)?;
    let mut connection = log.tap(fetch::connect(running.address, false)?);
    connection.get_mut().write_all(b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n")?;
    let answer = fetch::get(&mut connection, "/index.html", &[])?;
    Ok(answers(&answer, 200, file("index.html")))
}
