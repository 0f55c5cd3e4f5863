//! Requests to an authority, one connection each. They block this process, which has nothing else to do.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h1::{Chunk, ReceivedHead, ResponseDecoder, examine_response, parse_response};
use http_types::{Method, Request, Response, header};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tls::{Authorities, ClientPolicy, ClientSettings, Session, Trust};

use crate::plan::Issuer;

/// How long one connection, write or read may take.
const STEP: Duration = Duration::from_secs(20);

/// How long a request may take in all.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest head and body of a response, in bytes.
const HEAD_MAX: usize = 32 * 1024;
const BODY_MAX: usize = 512 * 1024;

/// Where Debian and others, Red Hat, and Alpine have the certificates of authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Authorities reject requests without this field (RFC 8555, section 6.1).
const USER_AGENT: &str = concat!("User-Agent: Fulmar/", env!("CARGO_PKG_VERSION"));

/// The most authorities between a server and one that is trusted.
const DEPTH: usize = 5;

/// The most other chains of one certificate that are looked at.
const ALTERNATES_MAX: usize = 8;

/// How an authority is asked.
#[derive(Clone)]
pub(crate) struct Client {
    policy: Arc<ClientPolicy>,
    last: Arc<Mutex<Last>>,
}

/// What a response has besides that which the library for ACME takes from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last {
    /// How long to wait: a number of seconds, or a date.
    pub(crate) retry_after: Option<String>,
    /// The URLs of other chains of the certificate (RFC 8555, section 7.4.2).
    pub(crate) alternates: Vec<String>,
    /// The content.
    pub(crate) body: Bytes,
}

impl Client {
    /// A client that checks the authority's server as its issuer asks for.
    ///
    /// # Errors
    /// The file with trusted certificates cannot be used.
    pub(crate) fn new(issuer: &Issuer) -> Result<Client, String> {
        let trust = if issuer.verifies { Some(trust(issuer.trusted.as_deref())?) } else { None };
        let settings = ClientSettings {
            pair: None,
            tls12: true,
            tls13: true,
            ciphers: "HIGH:!aNULL:!MD5",
            suites: "",
            curves: "auto",
            tells_name: true,
            trust: trust.as_ref(),
            resumes: true,
            protocols: &[],
        };
        let policy = ClientPolicy::new(&settings).map_err(|error| error.to_string())?;
        Ok(Client { policy: Arc::new(policy), last: Arc::default() })
    }

    /// What the last response had.
    pub(crate) fn last(&self) -> Last {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// The reason of the failure, for a message.
    pub(crate) fn exchange(&self, request: &Request<Vec<u8>>) -> Result<Response<Bytes>, String> {
        let uri = request.uri();
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
        let host = host.ok_or_else(|| format!("\"{uri}\" is no URL that begins with https://"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(443);
        let stream = connect(bare, port)
            .map_err(|error| format!("cannot connect to {host}:{port} ({})", net::system_message(&error)))?;
        let session = Session::connect(&self.policy, bare, host).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        let mut connection =
            Connection { stream, session, deadline, incoming: Vec::new(), content: Vec::new(), ended: false };
        let is_head = request.method() == Method::HEAD;
        let answer = connection
            .handshake()
            .and_then(|()| connection.ask(request))
            .and_then(|()| connection.answer(is_head));
        let answer = answer.map_err(|error| format!("{host}:{port}: {error}"))?;
        let texts = |name| answer.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        let last = Last {
            retry_after: texts(header::RETRY_AFTER).next().map(str::to_owned),
            alternates: texts(header::LINK).flat_map(alternates).take(ALTERNATES_MAX).collect(),
            body: answer.body().clone(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        Ok(answer)
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body =
                BytesResponse::from(Response::new(body)).body.into_bytes().await.map_err(Error::Other)?;
            let answer = client.exchange(&Request::from_parts(head, body.to_vec()));
            let (parts, body) = answer.map_err(|error| Error::Other(error.into()))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// The URLs with the relation `alternate` in a field `Link` (RFC 8288, section 3). A URL has no `<`.
fn alternates(field: &str) -> impl Iterator<Item = String> {
    field.split('<').filter_map(|link| {
        let (url, parameters) = link.split_once('>')?;
        let mut relations = parameters.split([';', ',']).filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("rel").then(|| value.trim().trim_matches('"'))
        });
        let mut names = relations.next()?.split_ascii_whitespace();
        names.any(|name| name.eq_ignore_ascii_case("alternate")).then(|| url.to_owned())
    })
}

fn trust(file: Option<&Path>) -> Result<Trust, String> {
    let system = || SYSTEM.into_iter().map(Path::new).find(|path| path.exists());
    let path = file.or_else(system).ok_or("this system has no certificates of authorities")?;
    let failed = |reason: String| format!("cannot read the certificates in {} ({reason})", path.display());
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let authorities = Authorities::from_pem(&text).map_err(|error| failed(error.to_string()))?;
    Trust::new(&[&authorities], None, DEPTH).map_err(|error| failed(error.to_string()))
}

fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, STEP) {
            Ok(stream) => {
                stream.set_read_timeout(Some(STEP))?;
                stream.set_write_timeout(Some(STEP))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

struct Connection {
    stream: TcpStream,
    session: Session,
    deadline: Instant,
    /// What arrived and is not decrypted.
    incoming: Vec<u8>,
    /// What was decrypted and is not read.
    content: Vec<u8>,
    ended: bool,
}

impl Connection {
    fn handshake(&mut self) -> Result<(), String> {
        while !self.step(None)? {
            self.receive()?;
        }
        Ok(())
    }

    /// Decrypts what arrived and sends what that asks for, and then this message; whether the handshake is over.
    fn step(&mut self, message: Option<&[u8]>) -> Result<bool, String> {
        let mut output = Vec::new();
        let (incoming, content) = (&mut self.incoming, &mut self.content);
        let done = match message {
            Some(plain) => self.session.encrypt(incoming, plain, (&mut output, content)),
            None => self.session.process(incoming, &mut output, content),
        };
        // An alert about an error is sent as well.
        let sent = self.stream.write_all(&output);
        let done = done.map_err(|failure| failure.to_string())?;
        sent.map_err(|error| net::system_message(&error))?;
        self.incoming.drain(..done.consumed);
        self.ended |= done.ended;
        Ok(done.established)
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16 * 1024];
        if Instant::now() > self.deadline {
            return Err("the response takes too long".to_owned());
        }
        match self.stream.read(&mut buffer).map_err(|error| net::system_message(&error))? {
            0 => Err("the server closed the connection".to_owned()),
            length => {
                self.incoming.extend_from_slice(&buffer[..length]);
                Ok(())
            }
        }
    }

    /// Waits for more content; whether the server sends more.
    fn more(&mut self) -> Result<bool, String> {
        let before = self.content.len();
        while self.content.len() == before && !self.ended {
            self.receive()?;
            self.step(None)?;
        }
        Ok(self.content.len() > before)
    }

    fn ask(&mut self, request: &Request<Vec<u8>>) -> Result<(), String> {
        let uri = request.uri();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let method = request.method();
        let mut message =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{USER_AGENT}\r\n")
                .into_bytes();
        for (name, value) in request.headers().iter().filter(|(name, _)| *name != header::USER_AGENT) {
            message.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let body = request.body();
        if !body.is_empty() {
            message.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
        }
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(body);
        self.step(Some(&message)).map(drop)
    }

    fn answer(&mut self, is_head: bool) -> Result<Response<Bytes>, String> {
        let mut head = ReceivedHead::default();
        let length = loop {
            let parsed =
                parse_response(&self.content, HEAD_MAX, &mut head).map_err(|error| error.to_string())?;
            match parsed {
                Some(length) => break length,
                None if self.more()? => {}
                None => return Err("the response ends in its head".to_owned()),
            }
        };
        self.content.drain(..length);
        let framing = examine_response(&head, is_head).map_err(|error| error.to_string())?;
        let body = self.body(ResponseDecoder::new(framing.body))?;
        let mut answer = Response::builder().status(head.status.0);
        for field in head.fields.iter() {
            answer = answer.header(field.name, field.value);
        }
        answer.body(body.into()).map_err(|error| error.to_string())
    }

    fn body(&mut self, mut decoder: ResponseDecoder) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let consumed = match decoder.decode(&self.content).map_err(|error| error.to_string())? {
                Chunk::Data { skip, length } => {
                    body.extend_from_slice(&self.content[skip..skip + length]);
                    skip + length
                }
                Chunk::End { .. } => return Ok(body),
                Chunk::NeedMore { consumed } => {
                    self.content.drain(..consumed);
                    if !self.more()? {
                        let is_whole = decoder.ends_with_connection();
                        return if is_whole { Ok(body) } else { Err("the response is cut".to_owned()) };
                    }
                    0
                }
            };
            self.content.drain(..consumed);
            if body.len() > BODY_MAX {
                return Err("the response is too long".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_chains_are_found_among_links() {
        let of = |field: &str| alternates(field).collect::<Vec<_>>();
        assert_eq!(of("<https://a.example/1>;rel=\"alternate\""), ["https://a.example/1"]);
        let field = "<https://a.example/dir>; rel=\"index\", <https://a.example/1>; title=x; REL=\"up Alternate\",\
                     <https://a.example/2>;rel=alternate";
        assert_eq!(of(field), ["https://a.example/1", "https://a.example/2"]);
        for none in [
            "",
            "<",
            "<https://a.example/1>",
            "<https://a.example/1>; rel=up; rel=alternate",
            "rel=alternate",
        ] {
            assert!(of(none).is_empty(), "{none}");
        }
    }
}
