//! Correct before fast: a contender whose answer differs, or that writes a log where the others do not, is not compared.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use rustls::HandshakeKind;

use super::fetch::{self, Answer, Connection};
use crate::measure::contender::Running;
use crate::measure::tls;
use crate::model::experiment::Load;
use crate::model::order;

/// What every contender of a load has to answer.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The content.
    content: Vec<u8>,
    /// Its media type without parameters, once one contender has named it.
    media_type: Option<String>,
}

impl Expected {
    /// The content of a file.
    pub(super) fn content(content: Vec<u8>) -> Expected {
        Expected { content, media_type: None }
    }

    /// What the first contender answers, where no file says it.
    pub(super) fn from_answer(running: &Running, load: &Load) -> Result<Expected> {
        Ok(Expected { content: plain(&ask(running, load)?.0, load)?, media_type: None })
    }

    /// Sees that a contender answers twice as it should: the status, the content, its type, length and coding, and
    /// that the connection is kept or closed as the load wants it. The error says what differs.
    pub(super) fn check(&mut self, running: &Running, load: &Load) -> Result<Answer> {
        let (answer, kept) = ask(running, load)?;
        let status = load.expected_status();
        ensure!(answer.status == status, "status {} instead of {status}", answer.status);
        let content = plain(&answer, load)?;
        if let Some(text) = &load.contains {
            ensure!(memchr::memmem::find(&content, text.as_bytes()).is_some(), "no {text:?} in the content");
        }
        ensure!(
            content == self.content,
            "{} bytes that are not the {} expected ones",
            content.len(),
            self.content.len()
        );
        ensure!(
            kept == load.keep_alive || status == 101,
            "the connection is {}",
            if kept { "kept" } else { "closed" }
        );
        let media_type = media_type(&answer);
        let expected = self.media_type.get_or_insert_with(|| media_type.clone());
        ensure!(*expected == media_type, "type {media_type:?} instead of {expected:?}");
        Ok(answer)
    }
}

/// The content of an answer, which is compressed where the load wants it to be, and only there.
fn plain(answer: &Answer, load: &Load) -> Result<Vec<u8>> {
    let coding = answer.fields.get("content-encoding").map_or("", String::as_str);
    if !load.wants_gzip() {
        ensure!(coding.is_empty(), "a content coding that nobody asked for: {coding}");
        return Ok(answer.content.clone());
    }
    ensure!(coding == "gzip", "not compressed by gzip, as was asked for");
    let mut content = Vec::new();
    GzDecoder::new(answer.content.as_slice()).read_to_end(&mut content).context("broken gzip")?;
    Ok(content)
}

/// How long a contender may keep lines of its log to itself.
const LOG_LIMIT: Duration = Duration::from_secs(15);

/// How often its log is looked at.
const LOG_STEP: Duration = Duration::from_millis(20);

/// Sees that a contender writes a log of what it was asked for where the load wants one, and none where it does not.
/// A log that nobody wants could still come, later: `LOG_LIMIT` is not waited for every time.
pub(super) fn logs(running: &Running, load: &Load) -> Result<()> {
    let path = &load.first_path(&running.found().contender.name);
    let wanted = load.options.get("access_log").is_some_and(|setting| setting != "off");
    let end = Instant::now() + LOG_LIMIT;
    while wanted && !is_logged(running.folder(), path) {
        ensure!(Instant::now() < end, "it writes no access log");
        thread::park_timeout(LOG_STEP);
    }
    ensure!(wanted || !is_logged(running.folder(), path), "it writes an access log, which nobody asked for");
    Ok(())
}

/// Whether a log in this folder names the path.
fn is_logged(folder: &Path, path: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs = entries.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    // A word of a line, or a string of JSON.
    let forms = [format!("{path} "), format!("{path}\"")];
    logs.any(|log| {
        let text = fs::read(log).unwrap_or_default();
        forms.iter().any(|form| memchr::memmem::find(&text, form.as_bytes()).is_some())
    })
}

/// Sees that a call by gRPC is answered with the status of success in the trailers. They are read over HTTP/2, by
/// nghttp, which comes with h2load: over HTTP/1 they may be dropped.
pub(super) fn calls(running: &Running, load: &Load) -> Result<()> {
    let Some(length) = load.body_bytes.filter(|_| order::is_grpc(&load.fields)) else { return Ok(()) };
    let file = running.folder().join("call");
    fs::write(&file, order::body(&load.fields, length)).with_context(|| file.display().to_string())?;
    let scheme = if load.tls.is_some() { "https" } else { "http" };
    let path = load.first_path(&running.found().contender.name);
    let mut nghttp = Command::new("nghttp");
    nghttp.args(["--verbose", "--no-verify-peer", "--timeout=10", "--data"]).arg(file);
    for field in &load.fields {
        nghttp.args(["--header", field]);
    }
    let output = nghttp.arg(format!("{scheme}://{}{path}", running.address)).stdin(Stdio::null()).output();
    let output = output.context("running nghttp: apt-get install nghttp2-client")?;
    let text = String::from_utf8_lossy(&output.stdout);
    for field in [":status: 200", "grpc-status: 0"] {
        let is_it = |line: &str| line.contains("recv (stream_id=") && line.ends_with(field);
        ensure!(text.lines().any(is_it), "a call is answered without {field}");
    }
    Ok(())
}

/// So many connections have to resume the session of the one before.
const RESUMPTIONS: usize = 4;

/// Sees that a contender resumes TLS sessions, if the load does so: otherwise the time of new handshakes would be taken for that
/// of resumed ones.
pub(super) fn resumes(running: &Running, load: &Load) -> Result<()> {
    if !load.tls.is_some_and(|tls| tls.resume) {
        return Ok(());
    }
    let configuration = Arc::new(tls::configuration()?);
    let path = &load.first_path(&running.found().contender.name);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut resumed = 0;
    for number in 0..=RESUMPTIONS {
        let mut stream = tls::handshake(running.address, &configuration, "localhost")?;
        let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        resumed += usize::from(number > 0 && is_resumed);
        // Tickets come with the response.
        stream.write_all(request.as_bytes())?;
        let _some_close_without_notice = stream.read_to_end(&mut Vec::new());
        // Some servers forget the session of a connection that ends without it.
        stream.conn.send_close_notify();
        let _may_be_closed = stream.flush();
    }
    ensure!(
        resumed == RESUMPTIONS,
        "{resumed} of {RESUMPTIONS} connections resumed the session of the one before"
    );
    Ok(())
}

/// So often a kept connection may end between two requests. A server may do that at any time: Apache's event does when it ends
/// a spare process, for example a second after a start with more threads than `MaxSpareThreads`.
const ATTEMPTS: u32 = 3;

/// The answer to a request of the load, and whether a second one came on the same connection.
fn ask(running: &Running, load: &Load) -> Result<(Answer, bool)> {
    let attempts = if load.keep_alive { ATTEMPTS } else { 1 };
    attempt(attempts, || ask_once(running, load))
}

/// The first success of so many attempts, else the last error.
fn attempt<T>(attempts: u32, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let mut asked = ask();
    for _ in 1..attempts {
        if asked.is_ok() {
            break;
        }
        asked = ask();
    }
    asked
}

fn ask_once(running: &Running, load: &Load) -> Result<(Answer, bool)> {
    let mut fields: Vec<&str> = load.fields.iter().map(String::as_str).collect();
    if !load.keep_alive {
        fields.push("Connection: close");
    }
    let path = &load.first_path(&running.found().contender.name);
    let mut connection = fetch::connect(running.address, load.tls.is_some())?;
    let is_websocket = order::is_websocket(&load.fields);
    let ask = |connection: &mut Connection| match load.body_bytes.filter(|_| !is_websocket) {
        Some(length) => fetch::post(connection, path, &fields, &order::body(&load.fields, length)),
        None => fetch::get(connection, path, &fields),
    };
    let answer = ask(&mut connection)?;
    if load.expected_status() == 101 {
        if let (Some(length), 101) = (load.body_bytes.filter(|_| is_websocket), answer.status) {
            let [message, echo] = order::message_and_echo(length);
            connection.get_mut().write_all(&message)?;
            connection.get_mut().flush()?;
            let mut back = vec![0; echo.len()];
            connection.read_exact(&mut back).context("no echo of a message")?;
            ensure!(back == echo, "a message comes back changed");
        }
        return Ok((answer, true));
    }
    let second = ask(&mut connection);
    if let (true, Err(error)) = (load.keep_alive, &second) {
        return Err(anyhow::anyhow!("{error:#}")).context("a second request on the same connection");
    }
    Ok((answer, second.is_ok()))
}

fn media_type(answer: &Answer) -> String {
    let value = answer.fields.get("content-type").map_or("", String::as_str);
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_connection_that_ended_is_asked_for_again() {
        let mut count = 0;
        let mut fail_twice = |attempts| {
            count = 0;
            attempt(attempts, || {
                count += 1;
                if count > 2 { Ok(count) } else { Err(anyhow::anyhow!("ended {count}")) }
            })
        };
        assert_eq!(fail_twice(ATTEMPTS).unwrap(), 3);
        assert_eq!(fail_twice(1).unwrap_err().to_string(), "ended 1");
    }

    #[test]
    fn content_is_compressed_where_it_is_asked_for() {
        let load = |fields: &str| -> Load {
            let text = format!("id = 'l'\ntitle = 'l'\nclients = 1\nrequests = 1\nfields = [{fields}]");
            toml::from_str(&text).unwrap()
        };
        let (wanted, not) = (load("'accept-encoding: br, gzip'"), load("'Accept: x'"));
        // What `printf abc | gzip -n` prints.
        let gzip = [31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 75, 76, 74, 6, 0, 194, 65, 36, 53, 3, 0, 0, 0];
        let answer = |coding: &str, content: &[u8]| Answer {
            status: 200,
            fields: [("content-encoding".to_owned(), coding.to_owned())].into(),
            head_bytes: 0,
            content: content.to_vec(),
        };
        assert_eq!(plain(&answer("gzip", &gzip), &wanted).unwrap(), b"abc");
        assert!(plain(&answer("gzip", &gzip), &not).is_err());
        assert!(plain(&answer("gzip", b"abc"), &wanted).is_err());
        assert!(plain(&answer("", b"abc"), &wanted).is_err());
    }

    #[test]
    fn a_log_names_what_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("server.conf", "location /1k.html");
        write("error.log", "started");
        assert!(!is_logged(folder.path(), "/1k.html"));
        write("access.log", "127.0.0.1 \"GET /1k.html HTTP/1.1\" 200 1024\n");
        assert!(is_logged(folder.path(), "/1k.html") && !is_logged(folder.path(), "/"));
        write("json.log", r#"{"method":"GET","uri":"/","proto":"HTTP/1.1"}"#);
        assert!(is_logged(folder.path(), "/"));
    }
}
