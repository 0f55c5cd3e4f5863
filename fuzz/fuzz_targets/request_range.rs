//! Ranges: whatever is asked for, what is sent is a part of the content and as long as it says. The first
//! byte of the input is the length of the content, the rest the value of the `Range` field.

#![no_main]

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use contract::clock::Time;
use contract::{
    Body, Config, Connection, Exchange, Peer, Piece, Policy, Request, Root, Scope, ScopeBuilder, Template,
    Variables,
};
use http::{Method, RequestHead, Status, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&length, ranges)) = input.split_first() else { return };
    let Some(scope) = scope() else { return };
    let Some(mut exchange) = exchange(&scope, ranges) else { return };
    let content: Bytes = (0..length).collect::<Vec<u8>>().into();
    exchange.response.content_length = Some(u64::from(length));
    exchange.response.accept_ranges = true;
    let mut body = Body::bytes(content.clone());
    for filter in scope.filters() {
        body = filter.apply(&mut exchange, body);
    }
    let sent = exchange.response.content_length;
    match exchange.response.status {
        Status::OK => assert_eq!(flat(&body), content),
        Status::PARTIAL_CONTENT => assert_eq!(sent, body.length()),
        Status::RANGE_NOT_SATISFIABLE => assert_eq!(body.length(), Some(0)),
        status => panic!("{status:?}"),
    }
    let is_single = exchange.response.fields.get("content-range").is_some();
    if exchange.response.status == Status::PARTIAL_CONTENT && is_single {
        let part = flat(&body);
        assert!(!part.is_empty() && content.windows(part.len()).any(|window| window == part));
    }
});

/// A scope of which nothing is configured, with the filter of ranges.
fn scope() -> Option<Arc<Scope>> {
    let root = Root { path: Template::literal(b"/srv"), alias: None, prefix: Path::new("/").into() };
    let mut builder = ScopeBuilder::new(None, Policy::new(root));
    let compile = modules::range::MODULE.compile?;
    compile(&Config::new().view(Config::MAIN), &mut builder).ok()?;
    Some(Arc::new(builder.finish()))
}

/// A GET with this `Range` field, if a field can have that value.
fn exchange(scope: &Arc<Scope>, ranges: &[u8]) -> Option<Exchange> {
    let mut head = RequestHead::new();
    head.set_line(b"GET / HTTP/1.1", (4, 5), Version::Http11);
    head.fields.push(b"Range", &[b"bytes=", ranges].concat()).ok()?;
    let request = Request {
        head: Box::new(head),
        uri: b"/".as_slice().into(),
        method: Method::Get,
        path: b"/".to_vec(),
        args: None,
        host: Vec::new(),
        port: None,
        content_length: None,
        chunked: false,
        body: None,
        length: 0,
        pipelined: false,
    };
    let connection = Connection {
        serial: 1,
        peer: Peer::Unix(None),
        local: Peer::Unix(None),
        accepted: Time::now(),
        requests: Cell::new(1),
        secure: false,
    };
    let variables = Variables::new().finish(&[]).ok()?;
    Some(Exchange::new(Rc::new(connection), request, Arc::clone(scope), Arc::new(variables)))
}

fn flat(body: &Body) -> Vec<u8> {
    let Body::Pieces(pieces) = body else { return Vec::new() };
    let bytes = pieces.iter().map(|piece| match piece {
        Piece::Bytes(bytes) => bytes.as_ref(),
        Piece::File { .. } => &[],
    });
    bytes.collect::<Vec<_>>().concat()
}
