//! A request.

use bytes::Bytes;
use http::{Method, RequestHead};
use std::fs::File;
use std::sync::Arc;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The head as it came.
    pub head: Box<RequestHead>,
    /// The target without scheme and host, as it came (`$request_uri`).
    pub uri: Vec<u8>,
    /// The method that is answered; an error page makes it GET.
    pub method: Method,
    /// The decoded and normalised path (`$uri`).
    pub path: Vec<u8>,
    /// The query without `?` (`$args`).
    pub args: Option<Vec<u8>>,
    /// The host that was asked for, in lower case, without its port; empty where none was named.
    pub host: Vec<u8>,
    /// The port after the host (`$request_port`).
    pub port: Option<u16>,
    /// The length of the body, where it is known.
    pub content_length: Option<u64>,
    /// Whether the body is chunked.
    pub chunked: bool,
    /// The body, once [`Work::RequestBody`](crate::Work::RequestBody) was done.
    pub body: Option<RequestBody>,
    /// How much of the body was handed on as it came, where [`Work::RequestStream`](crate::Work::RequestStream) did not
    /// find it whole.
    pub streaming: Option<Streaming>,
    /// How many bytes of the request were read (`$request_length`).
    pub length: u64,
    /// Whether it came before the response to the one before it was sent (`$pipe`).
    pub pipelined: bool,
}

impl Request {
    /// A request of which nothing is known.
    pub fn new() -> Request {
        Request::default()
    }

    /// Makes it what [`Request::new`] gives, and keeps the memory.
    pub fn clear(&mut self) {
        let Request {
            head,
            uri,
            method,
            path,
            args,
            host,
            port,
            content_length,
            chunked,
            body,
            streaming,
            length,
            pipelined,
        } = self;
        head.clear();
        uri.clear();
        path.clear();
        host.clear();
        (*method, *args, *port) = (Method::Other, None, None);
        (*content_length, *chunked, *body, *streaming) = (None, false, None, None);
        (*length, *pipelined) = (0, false);
    }
}

/// How much of a request's body was handed on as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// Nothing.
    Untouched,
    /// A part of it.
    Begun,
    /// All of it.
    Over,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum RequestBody {
    /// All of it.
    Memory(Bytes),
    /// A file without a name, since it was longer than `client_body_buffer_size`.
    File {
        /// The file.
        file: Arc<File>,
        /// How many bytes it has.
        length: u64,
    },
}

impl RequestBody {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            RequestBody::Memory(bytes) => bytes.len() as u64,
            RequestBody::File { length, .. } => *length,
        }
    }

    /// The body, where it is in memory (`$request_body`).
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            RequestBody::Memory(bytes) => Some(bytes),
            RequestBody::File { .. } => None,
        }
    }
}
