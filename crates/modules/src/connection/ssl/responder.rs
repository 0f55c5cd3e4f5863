//! Asks OCSP responders over HTTP (RFC 6960, appendix A).

use conf::value::{Address, Host, target};
use h1::{Chunk, ReceivedHead, ResponseDecoder, examine_response, parse_response};
use http::{Status, escape};
use inputs::System;
use journal::ErrorLog;
use net::{SocketAddress, Stream};
use std::future::poll_fn;
use std::time::Duration;
use tls::OCSP_ANSWER_MAX;
use upstream::{Lookup, Resolving, resolve};
use wire::{Job, Timer};

/// How long one address of a responder has for its answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest head of a response, in bytes.
const HEAD_MAX: usize = 16 * 1024;

/// How many addresses of a responder are tried.
const ADDRESSES_MAX: usize = 8;

/// The port of responders.
const PORT: u16 = 80;

/// An OCSP responder.
#[derive(Debug, PartialEq)]
pub(super) struct Responder {
    address: Address,
    /// The host with the port, as it was written.
    host: String,
    /// The path, with `/` at its end.
    path: String,
}

impl Responder {
    /// Reads the URL of a responder.
    ///
    /// # Errors
    /// It is not the URL of an HTTP server.
    pub(super) fn parse(url: &str) -> Result<Responder, String> {
        const START: &str = "http://";
        let rest = url.get(..START.len()).filter(|start| start.eq_ignore_ascii_case(START));
        let rest = rest.map(|_| &url[START.len()..]).ok_or("the URL must begin with \"http://\"")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err("the URL has invalid characters".to_owned());
        }
        let (address, path) = target(rest.as_bytes(), PORT).map_err(|error| error.to_string())?;
        let (host, path) = rest.split_at(rest.len() - path.len());
        let slash = if path.ends_with('/') { "" } else { "/" };
        Ok(Responder { address, host: host.to_owned(), path: format!("{path}{slash}") })
    }

    /// Gets the answer to a question in base64. A responder with several addresses is asked at one after another.
    ///
    /// # Errors
    /// The line for the error log.
    pub(super) async fn ask(
        &self,
        question: &str,
        resolving: Option<&Resolving>,
        log: &ErrorLog,
    ) -> Result<Vec<u8>, String> {
        let timer = Timer::here().map_err(|error| error.to_string())?;
        let request = self.request(question);
        let mut failure = "the host has no address".to_owned();
        for address in self.addresses(resolving, log).await?.iter().take(ADDRESSES_MAX) {
            failure = match timer.within(TIMEOUT, exchange(address, &request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(reason)) => reason,
                Err(_) => "the OCSP responder timed out".to_owned(),
            };
        }
        Err(failure)
    }

    fn request(&self, question: &str) -> Vec<u8> {
        let Responder { host, path, .. } = self;
        let mut request = format!("GET {path}").into_bytes();
        escape::component(question.as_bytes(), &mut request);
        request.extend_from_slice(format!(" HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes());
        request
    }

    async fn addresses(
        &self,
        resolving: Option<&Resolving>,
        log: &ErrorLog,
    ) -> Result<Vec<SocketAddress>, String> {
        if let (Host::Name(name), Some(resolving)) = (&self.address.host, resolving) {
            let mut lookup = Lookup::new(name, resolving);
            let found = poll_fn(|cx| lookup.poll(cx, log)).await;
            let (found, _) = found.map_err(|reason| format!("{name} could not be resolved ({reason})"))?;
            let address = |ip| SocketAddress::Inet((ip, self.address.port).into());
            return Ok(found.into_iter().map(address).collect());
        }
        let address = self.address.clone();
        let found = Job::start(move || Ok(resolve(&address, &System))).await;
        found.map_err(|error| net::system_message(&error))?
    }
}

/// Sends a request and reads the content of the response.
async fn exchange(address: &SocketAddress, request: &[u8]) -> Result<Vec<u8>, String> {
    let failed =
        |call: &str, error: std::io::Error| format!("{call}() failed ({})", net::system_message(&error));
    let mut stream = Stream::connect(address).map_err(|error| failed("connect", error))?;
    poll_fn(|cx| stream.poll_connected(cx)).await.map_err(|error| failed("connect", error))?;
    let mut rest = request;
    while !rest.is_empty() {
        let sent = poll_fn(|cx| stream.poll_write(cx, rest)).await;
        rest = &rest[sent.map_err(|error| failed("send", error))?..];
    }
    let mut reading = Reading::default();
    let mut buffer = [0; 4096];
    loop {
        let count = poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await;
        let count = count.map_err(|error| failed("recv", error))?;
        if let Some(content) = reading.take(&buffer[..count])? {
            return Ok(content);
        }
    }
}

/// A response that is read.
#[derive(Default)]
struct Reading {
    /// What was read and not decoded.
    input: Vec<u8>,
    decoder: Option<ResponseDecoder>,
    content: Vec<u8>,
}

impl Reading {
    /// Takes further bytes; none are the end of the connection. Returns the content when it is whole.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.input.extend_from_slice(bytes);
        if self.decoder.is_none() {
            let mut head = ReceivedHead::default();
            let length =
                parse_response(&self.input, HEAD_MAX, &mut head).map_err(|error| error.to_string())?;
            if let Some(length) = length {
                check(&head)?;
                let framing = examine_response(&head, false).map_err(|error| error.to_string())?;
                self.decoder = Some(ResponseDecoder::new(framing.body));
                self.input.drain(..length);
            }
        }
        let Reading { input, decoder, content } = self;
        let ends_with_connection = decoder.as_ref().is_some_and(ResponseDecoder::ends_with_connection);
        while let Some(decoder) = decoder {
            match decoder.decode(input).map_err(|_| "the OCSP responder sent a malformed body")? {
                Chunk::Data { skip, length } => {
                    content.extend_from_slice(&input[skip..skip + length]);
                    input.drain(..skip + length);
                }
                Chunk::NeedMore { consumed } => {
                    input.drain(..consumed);
                    break;
                }
                Chunk::End { .. } => return Ok(Some(std::mem::take(content))),
            }
            if content.len() > OCSP_ANSWER_MAX {
                return Err("the OCSP responder sent too big a response".to_owned());
            }
        }
        match bytes.is_empty() {
            false => Ok(None),
            true if ends_with_connection => Ok(Some(std::mem::take(content))),
            true => Err("the OCSP responder prematurely closed connection".to_owned()),
        }
    }
}

/// Whether a response is one of a responder.
fn check(head: &ReceivedHead) -> Result<(), String> {
    const KIND: &[u8] = b"application/ocsp-response";
    if head.status != Status::OK {
        return Err(format!("the OCSP responder sent status {}", head.status.0));
    }
    match head.fields.all("Content-Type").find(|kind| !kind.eq_ignore_ascii_case(KIND)) {
        Some(kind) => Err(format!(
            "the OCSP responder sent invalid \"Content-Type\" header: \"{}\"",
            String::from_utf8_lossy(kind)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{OCSP_ANSWER_MAX, Reading, Responder};

    #[test]
    fn requests_have_the_question_in_the_path() {
        let request = |url| String::from_utf8(Responder::parse(url).unwrap().request("a+/=")).unwrap();
        assert_eq!(request("http://a.example"), "GET /a%2B%2F%3D HTTP/1.0\r\nHost: a.example\r\n\r\n");
        assert_eq!(request("HTTP://[::1]:81/x"), "GET /x/a%2B%2F%3D HTTP/1.0\r\nHost: [::1]:81\r\n\r\n");
        assert_eq!(request("http://a/x/"), "GET /x/a%2B%2F%3D HTTP/1.0\r\nHost: a\r\n\r\n");
        for wrong in
            ["", "https://a", "http://", "ldap://a", "http://a b", "http://a/\r\nX: y", "http://a/#b"]
        {
            assert!(Responder::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// What is read of a response that comes in two parts, wherever it is divided.
    fn read(response: &[u8]) -> Result<Vec<u8>, String> {
        let mut outcomes = (1..response.len()).map(|at| {
            let mut reading = Reading::default();
            for part in [&response[..at], &response[at..], &[]] {
                if let Some(content) = reading.take(part)? {
                    return Ok(content);
                }
            }
            panic!("the end of the connection ends all");
        });
        let first = outcomes.next().unwrap();
        assert!(outcomes.all(|other| other == first), "{first:?}");
        first
    }

    #[test]
    fn responses_are_read() {
        let whole = |head: &str, body: &str| read(format!("HTTP/1.{head}\r\n\r\n{body}").as_bytes());
        assert_eq!(whole("0 200 OK", "abc").unwrap(), b"abc");
        assert_eq!(whole("1 200 OK\r\nContent-Type: application/OCSP-response", "abc").unwrap(), b"abc");
        assert_eq!(whole("1 200 OK\r\nContent-Length: 2", "abc").unwrap(), b"ab");
        let chunked = "1 200 OK\r\nTransfer-Encoding: chunked";
        assert_eq!(whole(chunked, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n").unwrap(), b"abc");
        for (head, body) in [
            ("0 404 Not Found", "abc"),
            ("0 200 OK\r\nContent-Type: text/html", "abc"),
            ("0 200 OK\r\nContent-Length: 4", "abc"),
            (chunked, "2\r\nab\r\n"),
            (chunked, "x\r\n"),
        ] {
            assert!(whole(head, body).is_err(), "{head} {body}");
        }
        assert!(read(b"HTTP/1.0 200 OK\r\nA: b").is_err() && read(b"text").is_err());
    }

    #[test]
    fn long_responses_are_refused() {
        let take = |length: usize| {
            let mut reading = Reading::default();
            reading.take(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
            (0..length / 1024).try_for_each(|_| reading.take(&[b'x'; 1024]).map(drop))?;
            reading.take(b"")
        };
        assert_eq!(take(OCSP_ANSWER_MAX).unwrap().unwrap().len(), OCSP_ANSWER_MAX);
        assert_eq!(take(OCSP_ANSWER_MAX + 1024).unwrap_err(), "the OCSP responder sent too big a response");
    }
}
