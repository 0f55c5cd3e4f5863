//! Requests of the tables over HTTP/2, in clear, each on a separate connection.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client;
use http_types::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::client::{Answer, End};
use crate::request;
use crate::response::Response;

/// No exchange takes longer than this.
const LIMIT: Duration = Duration::from_secs(30);

/// What belongs to a connection of HTTP/1 or steers its framing.
const OF_HTTP1: [&str; 8] = [
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A request as HTTP/2 has it.
#[derive(Debug)]
pub struct Asked {
    head: Request<()>,
    body: Bytes,
}

/// A request in the short form (see `request::expand`) for HTTP/2. `None` where it is none: it breaks the rules of HTTP/1,
/// is more than one request, or is about its connection.
pub fn convert(short: &str) -> Option<Asked> {
    let bytes = request::expand(short);
    let at = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 4..]);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if version != "HTTP/1.1" || words.next().is_some() || !target.starts_with('/') || method == "CONNECT" {
        return None;
    }
    let fields: Option<Vec<(String, &str)>> = lines.map(field).collect();
    let (hosts, fields): (Vec<_>, Vec<_>) = fields?.into_iter().partition(|(name, _)| name == "host");
    let [(_, host)] = hosts.as_slice() else { return None };
    let lengths: Vec<&str> =
        fields.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| *value).collect();
    let is_framed = match lengths.as_slice() {
        [] => body.is_empty(),
        [length] => *length == body.len().to_string(),
        _ => false,
    };
    if !is_framed || fields.iter().any(|(name, _)| OF_HTTP1.contains(&name.as_str())) {
        return None;
    }
    let mut builder = Request::builder().method(method).uri(format!("http://{host}{target}"));
    for (name, value) in fields {
        builder = builder.header(name, value);
    }
    let head = builder.body(()).ok()?;
    // What the client's own reader of addresses changes is another request.
    let is_same = head.uri().path_and_query().is_some_and(|path| path.as_str() == target)
        && head.uri().authority().is_some_and(|authority| authority.as_str() == *host);
    is_same.then(|| Asked { head, body: Bytes::copy_from_slice(body) })
}

/// A field with its name in lower case, if nothing about it is unusual.
fn field(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let value = value.strip_prefix(' ').unwrap_or(value);
    let is_plain = value.trim() == value && !value.contains(|c: char| c.is_control());
    is_plain.then(|| (name.to_ascii_lowercase(), value))
}

/// The answer over HTTP/2. It has no response where the stream or the connection ended without one.
pub fn ask(address: SocketAddr, asked: Asked) -> Answer {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let response = runtime.block_on(async { timeout(LIMIT, exchange(address, asked)).await });
    match response.expect("an answer in time") {
        Ok(response) => Answer { responses: vec![response], end: End::Kept },
        Err(_) => Answer { responses: Vec::new(), end: End::Closed },
    }
}

async fn exchange(address: SocketAddr, asked: Asked) -> Result<Response, h2::Error> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (client, connection) = client::handshake(stream).await?;
    tokio::spawn(async move { drop(connection.await) });
    let mut client = client.ready().await?;
    let Asked { head, mut body } = asked;
    let (response, mut sender) = client.send_request(head, body.is_empty())?;
    let sending = async move {
        while !body.is_empty() {
            sender.reserve_capacity(body.len());
            // The server may refuse the rest.
            let Some(Ok(room)) = poll_fn(|cx| sender.poll_capacity(cx)).await else { return };
            let piece = body.split_to(room.min(body.len()));
            if sender.send_data(piece, body.is_empty()).is_err() {
                return;
            }
        }
    };
    tokio::spawn(sending);
    let (head, mut content) = response.await?.into_parts();
    let mut taken = Response {
        version: "HTTP/2".into(),
        status: head.status.as_u16(),
        fields: fields(&head.headers),
        ..Response::default()
    };
    while let Some(piece) = content.data().await {
        let Ok(piece) = piece else {
            taken.broken = Some("reset within the content");
            return Ok(taken);
        };
        content.flow_control().release_capacity(piece.len())?;
        taken.body.extend_from_slice(&piece);
    }
    taken.trailers = content.trailers().await?.map_or_else(Vec::new, |trailers| fields(&trailers));
    Ok(taken)
}

/// Fields with their names as HTTP/1 writes them mostly.
fn fields(map: &HeaderMap) -> Vec<(String, String)> {
    let name = |name: &str| {
        let mut start = true;
        let letter = |letter: char| match std::mem::replace(&mut start, letter == '-') {
            true => letter.to_ascii_uppercase(),
            false => letter,
        };
        name.chars().map(letter).collect::<String>()
    };
    map.iter()
        .map(|(key, value)| (name(key.as_str()), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_connection_are_left_to_http_1() {
        let asked = convert("POST /a?b\nHost: x\nA: b\n\nbody").unwrap();
        assert_eq!(asked.head.uri(), "http://x/a?b");
        assert_eq!(asked.head.headers()["content-length"], "4");
        assert_eq!(&asked.body[..], b"body");
        for other in [
            "",
            "GET / HTTP/1.0",
            "GET http://a/",
            "GET /\nHost: a\nHost: b",
            "GET /\nConnection: close",
            "GET /\nContent-Length: 3\n\nab",
            "GET /\nA : b",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert!(convert(other).is_none(), "{other:?}");
        }
    }
}
