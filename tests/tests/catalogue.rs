//! What the server must survive: framing and syntax of HTTP/1 (rows A…), paths and files (rows B…), slow and very many
//! connections (rows C…), other servers (rows G…), applications (rows H…), caches (rows I…), ranges (rows J…),
//! configurations (rows K…), what the system does not give (rows L…) and changes under load (rows M…) of the catalogue of
//! bad inputs. The numbers are the rows'. docs/security.md tells of each class what is so.
//!
//! Common to all: bad framing is answered by one 4xx or 501 and the end of the connection, nothing that
//! follows on it is answered, no reply repeats bad bytes, the log has exactly one line a request, and the
//! server is as healthy afterwards as before. None of it reaches a server behind it.

use tests::binary::Server;
use tests::client::End;
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};
use tests::wait;

mod applications;
mod cache;
mod configuration;
mod framing;
mod lifecycle;
mod paths;
mod pipes;
mod proxy;
mod ranges;
mod resources;
mod slow;
pub(crate) mod surroundings;
mod syntax;
mod system;

/// A request that would be answered by 200 if anything after a refused one were read.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Refused input: the row, the bytes, and the statuses that are right.
type Refused<'a> = (&'a str, Vec<u8>, &'a [u16]);

fn start(http: &str) -> Running {
    Site::new(http).start(Server::Fulmar)
}

/// Sends each input, followed by a request that must not be answered, and checks the common rules.
fn refused(running: &Running, rows: &[Refused<'_>]) {
    let mut wrong = Vec::new();
    for (row, input, statuses) in rows {
        let lines = log_lines(running);
        let answer = running.ask_bytes(&[&input[..], SMUGGLED].concat());
        let mut complain = |what: String| {
            let shown: String = input.escape_ascii().to_string().chars().take(200).collect();
            wrong.push(format!("{row}: {what}, to {shown}"));
        };
        match &answer.responses[..] {
            [one] if statuses.contains(&one.status) => {
                if one.body.iter().any(|byte| !byte.is_ascii() || *byte == 0) {
                    complain("raw bytes in the reply".to_owned());
                }
            }
            _ => complain(format!("answered {:?}, not one of {statuses:?}", answer.statuses())),
        }
        if answer.end != End::Closed {
            complain("the connection is open".to_owned());
        }
        if !wait::until(std::time::Duration::from_secs(2), || log_lines(running) > lines) {
            complain("no line in the log".to_owned());
        } else if log_lines(running) != lines + 1 {
            complain(format!("{} lines in the log", log_lines(running) - lines));
        }
    }
    running.assert_healthy();
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// The same for a server that answers by itself and for one that passes requests on: what is refused never reaches
/// another server, not even its beginning.
fn refused_everywhere(server: &str, rows: &[Refused<'_>]) {
    let running = start(server);
    refused(&running, rows);
    running.stop();
    let origin = Origin::start(|_| ok("origin"));
    let running = start(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://{}; }} }}",
        origin.address()
    ));
    assert_eq!(origin.connections(), 0);
    refused(&running, rows);
    assert_eq!(origin.connections(), 0, "what was refused was passed on");
    assert_eq!(running.ask("GET /\nConnection: close").last().text(), "origin");
    running.stop();
}

/// Sends each input and checks statuses.
fn answered(running: &Running, rows: &[(&str, &[u8], &[u16])]) {
    let mut wrong = Vec::new();
    for (row, input, statuses) in rows {
        let answer = running.ask_bytes(input);
        if answer.statuses() != *statuses {
            let shown: String = input.escape_ascii().to_string().chars().take(200).collect();
            wrong.push(format!("{row}: answered {:?}, not {statuses:?}, to {shown}", answer.statuses()));
        }
    }
    running.assert_healthy();
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

fn log_lines(running: &Running) -> usize {
    running.log("access.log").lines().count()
}
