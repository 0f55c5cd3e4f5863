//! The upstream servers: each address of a configuration has a server that answers with the request that it got.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock};

use tests::application::{Application, answer};
use tests::origin::{After, Origin};

enum Behind {
    Http(Origin),
    FastCgi(Application),
}

/// The address in place of the written one. Sockets of PHP, and ports from 9000 to 9099, speak FastCGI.
pub(super) fn in_place_of(written: &str) -> SocketAddr {
    static STARTED: OnceLock<Mutex<BTreeMap<String, Behind>>> = OnceLock::new();
    let mut started = STARTED.get_or_init(Mutex::default).lock().unwrap();
    let behind = started.entry(written.to_owned()).or_insert_with(|| start(written));
    match behind {
        Behind::Http(origin) => origin.address(),
        Behind::FastCgi(application) => application.address(),
    }
}

fn start(written: &str) -> Behind {
    let name = written.to_owned();
    let port = written.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    if written.contains("php") || port.is_some_and(|port| (9000..9100).contains(&port)) {
        return Behind::FastCgi(Application::start(move |request, stream| {
            let script = request.param("SCRIPT_FILENAME");
            let text = format!("Content-Type: text/plain\r\n\r\nasked {name}\n{script}");
            let _ = stream.write_all(&answer(&text));
            request.keep
        }));
    }
    Behind::Http(Origin::start(move |asked| {
        let body = [format!("asked {name}\n").as_bytes(), &asked.text].concat();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
        ([head.as_bytes(), &body].concat(), After::Keep)
    }))
}
