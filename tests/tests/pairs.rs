//! Requests and answers that are made up, through Fulmar, with a server at the other end that records what it gets:
//! each request arrives once with the content that its client declared, each client gets the answer to its own request,
//! and no byte of content is read as a head, in clear and over TLS to that server. `PAIRS` and `PAIR_SEED` choose how many and which.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::binary::Server;
use tests::client::Client;
use tests::mutation::Dice;
use tests::origin::{Connection, Wire};
use tests::over_both;
use tests::response::Response;
use tests::site::Site;

over_both! {
    each_request_has_its_own_answer
}

/// How many pairs are sent where nothing else is said.
const RUNS: u64 = 4_000;

const SITE: &str = "
    upstream origin { server 127.0.0.1:ORIGIN; keepalive 8; }
    proxy_next_upstream off;
    access_log off;
    client_max_body_size 0;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { proxy_pass SCHEME://origin; }
        location /stream/ { proxy_pass SCHEME://origin; proxy_request_buffering off; proxy_buffering off; }
        location /small/ { proxy_pass SCHEME://origin; client_body_buffer_size 1k; proxy_buffers 4 1k; proxy_buffer_size 1k;
            proxy_busy_buffers_size 2k; }
    }";

/// The id of heads that are content. No server may ever read one of them.
const DECOY: u64 = u64::MAX;

/// Texts that content is made of: each would be a head, or the end of a chunk, for a reader that lost its place.
const TEXTS: [&str; 9] = [
    "GET /decoy HTTP/1.1\r\nHost: a\r\nX-Pair: 18446744073709551615\r\n\r\n",
    "POST /decoy HTTP/1.1\r\nHost: a\r\nX-Pair: 18446744073709551615\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nX-Pair: 18446744073709551615\r\nContent-Length: 2\r\n\r\nno",
    "HTTP/1.1 304 Not Modified\r\nX-Pair: 18446744073709551615\r\n\r\n",
    "0\r\n\r\n",
    "\r\n\r\n",
    "5\r\nabcde\r\n",
    "\n",
    "some text",
];

/// How the content of a message is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    Chunks,
    /// Until the connection ends; only answers have this.
    Close,
}

/// What is wrong with a message. What happens to it may differ; what follows it must not be read.
const REQUEST_FLAWS: [&str; 8] = [
    "Content-Length: 3\r\nContent-Length: 30\r\n",
    "Content-Length: +3\r\n",
    "Content-Length: 3, 30\r\n",
    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Content-Length: 0x3\r\n",
];

const ANSWER_FLAWS: [&str; 5] = [
    "Content-Length: 3\r\nContent-Length: 30\r\n",
    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: -3\r\n",
    "Transfer-Encoding: chunked, gzip\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
];

/// A request that is made up.
struct Request {
    id: u64,
    method: &'static str,
    bytes: Vec<u8>,
    content: Vec<u8>,
    is_flawed: bool,
}

/// An answer that is made up.
struct Reply {
    status: u16,
    bytes: Vec<u8>,
    content: Vec<u8>,
    is_flawed: bool,
    closes: bool,
}

fn content(dice: &mut Dice) -> Vec<u8> {
    let longest = if dice.below(40) == 0 { 400 } else { 6 };
    (0..dice.below(longest)).flat_map(|_| dice.of(&TEXTS).bytes().collect::<Vec<_>>()).collect()
}

/// Content in chunks, perhaps with extensions and trailers.
fn chunks(dice: &mut Dice, mut content: &[u8], out: &mut Vec<u8>) {
    while !content.is_empty() {
        let (chunk, rest) = content.split_at(1 + dice.below(content.len()));
        let extension = if dice.below(8) == 0 { ";a=\"0\\r\"" } else { "" };
        out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        content = rest;
    }
    let trailer = if dice.below(8) == 0 { "X-Pair: 18446744073709551615\r\n" } else { "" };
    out.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
}

fn append(dice: &mut Dice, (framing, content): (Framing, &[u8]), head: &mut Vec<u8>) {
    match framing {
        Framing::None => head.extend_from_slice(b"\r\n"),
        Framing::Length => {
            head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
            head.extend_from_slice(content);
        }
        Framing::Chunks => {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            chunks(dice, content, head);
        }
        Framing::Close => {
            head.extend_from_slice(b"Connection: close\r\n\r\n");
            head.extend_from_slice(content);
        }
    }
}

fn request(id: u64) -> Request {
    let mut dice = Dice::new(id);
    let method = ["GET", "POST", "PUT", "HEAD", "DELETE"][dice.below(5)];
    let framing = [Framing::None, Framing::Length, Framing::Chunks][dice.below(3)];
    let content = if framing == Framing::None { Vec::new() } else { content(&mut dice) };
    let path = ["/", "/stream/", "/small/"][dice.below(3)];
    let mut bytes = format!("{method} {path}{id} HTTP/1.1\r\nHost: a\r\nX-Pair: {id}\r\n").into_bytes();
    let is_flawed = dice.below(12) == 0;
    match is_flawed {
        true => {
            bytes.extend_from_slice(dice.of(&REQUEST_FLAWS).as_bytes());
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&content);
        }
        false => append(&mut dice, (framing, &content), &mut bytes),
    }
    Request { id, method, bytes, content, is_flawed }
}

fn reply(id: u64, method: &str) -> Reply {
    let mut dice = Dice::new(!id);
    let status = [200, 200, 200, 404, 500, 204, 304][dice.below(7)];
    let has_content = method != "HEAD" && status != 204 && status != 304;
    let framing = [Framing::Length, Framing::Chunks, Framing::Close][dice.below(3)];
    let content = if has_content { content(&mut dice) } else { Vec::new() };
    let interim =
        ["", "", "", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"];
    let mut bytes = dice.of(&interim).as_bytes().to_vec();
    bytes.extend_from_slice(format!("HTTP/1.1 {status} Some\r\nX-Pair: {id}\r\n").as_bytes());
    let flaw = dice.below(24);
    let mut closes = false;
    match flaw {
        0 => {
            bytes.extend_from_slice(dice.of(&ANSWER_FLAWS).as_bytes());
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&content);
        }
        // It ends before its content does.
        1 if has_content => {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len() + 9).as_bytes());
            bytes.extend_from_slice(&content);
            closes = true;
        }
        _ if has_content => {
            append(&mut dice, (framing, &content), &mut bytes);
            closes = framing == Framing::Close;
        }
        _ => bytes.extend_from_slice(b"\r\n"),
    }
    // More than the answer: nothing of it may become the answer to another request.
    if flaw == 2 && !closes {
        bytes.extend_from_slice(TEXTS[2].as_bytes());
    }
    Reply { status, bytes, content, is_flawed: flaw < 3, closes }
}

/// What the server at the other end got.
#[derive(Default)]
struct Records {
    /// The contents of each id.
    contents: HashMap<u64, Vec<Vec<u8>>>,
    /// What is no request.
    faults: Vec<String>,
}

type Recorded = Arc<Mutex<Records>>;

/// Starts the server at the other end.
fn origin(wire: Wire) -> (SocketAddr, Recorded) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let recorded = Recorded::default();
    let shared = Arc::clone(&recorded);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let recorded = Arc::clone(&shared);
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                if let Err(fault) = serve(&mut *wire.accept(stream), &recorded) {
                    recorded.lock().unwrap().faults.push(fault);
                }
            });
        }
    });
    (address, recorded)
}

fn serve(stream: &mut dyn Connection, recorded: &Recorded) -> Result<(), String> {
    let mut input = Vec::new();
    loop {
        let Some(end) = until(stream, &mut input, |input| find(input, b"\r\n\r\n")) else {
            return if input.is_empty() {
                Ok(())
            } else {
                Err(format!("half a head: {}", input.escape_ascii()))
            };
        };
        let head: Vec<u8> = input.drain(..end + 4).collect();
        let head = String::from_utf8(head).map_err(|error| error.to_string())?;
        let method = head.split(' ').next().unwrap_or_default().to_owned();
        let id = field(&head, "X-Pair").and_then(|id| id.parse::<u64>().ok());
        let id = id.filter(|&id| head.contains(&format!("/{id} HTTP/1.1\r\n")));
        let id = id.ok_or_else(|| format!("no head of a request: {head}"))?;
        let Some(content) = body(stream, &mut input, &head)? else {
            // The request was cut.
            return if request(id).is_flawed { Ok(()) } else { Err(format!("pair {id} has half a body")) };
        };
        recorded.lock().unwrap().contents.entry(id).or_default().push(content);
        let reply = reply(id, &method);
        if stream.write_all(&reply.bytes).and_then(|()| stream.flush()).is_err() {
            return Ok(());
        }
        if reply.closes {
            stream.end();
            return Ok(());
        }
    }
}

/// The content of a request, read as its head says; none if the connection ends before.
fn body(stream: &mut dyn Connection, input: &mut Vec<u8>, head: &str) -> Result<Option<Vec<u8>>, String> {
    let length = field(head, "Content-Length");
    match (field(head, "Transfer-Encoding"), length) {
        (None, None) => Ok(Some(Vec::new())),
        (None, Some(length)) => {
            let length: usize = length.parse().map_err(|_| format!("the length in {head}"))?;
            let whole = until(stream, input, |input| (input.len() >= length).then_some(length));
            Ok(whole.map(|length| input.drain(..length).collect()))
        }
        (Some("chunked"), None) => {
            let mut content = Vec::new();
            loop {
                let Some(end) = until(stream, input, |input| find(input, b"\r\n")) else { return Ok(None) };
                let line: Vec<u8> = input.drain(..end + 2).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                let size = usize::from_str_radix(&line, 16).map_err(|_| format!("a chunk of {line:?}"))?;
                let whole = |input: &[u8]| (input.len() >= size + 2).then_some(size);
                let Some(size) = until(stream, input, whole) else { return Ok(None) };
                content.extend(input.drain(..size));
                if input.drain(..2).ne(*b"\r\n") {
                    return Err("a chunk without its end".to_owned());
                }
                if size == 0 {
                    return Ok(Some(content));
                }
            }
        }
        _ => Err(format!("two ways to end: {head}")),
    }
}

/// Reads until the input has what is looked for; none if it ends before.
fn until<T>(
    stream: &mut dyn Connection,
    input: &mut Vec<u8>,
    look: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(found) = look(input) {
            return Some(found);
        }
        match tests::client::read(stream, &mut buffer) {
            Ok(count @ 1..) => input.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// The value of a field that is there once; more than once is not readable.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut values = head.split("\r\n").skip(1).filter_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    });
    let value = values.next()?;
    Some(if values.next().is_some() { "twice" } else { value })
}

/// Sends requests over one connection, at once and in pieces, and checks all answers. A flawed request is the last one.
fn converse(
    address: SocketAddr,
    ids: &mut std::iter::Peekable<impl Iterator<Item = u64>>,
    recorded: &Recorded,
) -> Vec<String> {
    let mut dice = Dice::new(ids.peek().copied().unwrap_or_default() ^ 0x5555);
    let mut requests = Vec::new();
    for id in ids.by_ref() {
        requests.push(request(id));
        if requests.last().is_some_and(|request| request.is_flawed) || dice.below(5) == 0 {
            break;
        }
    }
    let mut client = Client::connect(address);
    let all: Vec<u8> = requests.iter().flat_map(|request| request.bytes.clone()).collect();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(1 + dice.below(rest.len().min(20_000)));
        rest = left;
        if !client.send(piece) {
            break;
        }
    }
    let mut faults = Vec::new();
    for request in &requests {
        // A flawed request may wait for content that does not come.
        if request.is_flawed {
            client.finish();
        }
        let response = client.response(request.method);
        let got = recorded.lock().unwrap().contents.remove(&request.id).unwrap_or_default();
        let ends =
            response.as_ref().is_none_or(|response| response.broken.is_some() || response.announces_close());
        if let Err(fault) = check(request, response.as_ref(), &got) {
            let shown = response.map(|response| response.to_string()).unwrap_or_default();
            faults.push(format!("PAIR_SEED={} PAIRS=1: {fault}; got {shown}", request.id));
        }
        if ends {
            break;
        }
    }
    // A flawed request has at most one answer.
    if let Some(last) = requests.last().filter(|last| last.is_flawed)
        && let Some(response) = client.response(last.method)
        && response.field("X-Pair").is_some()
    {
        faults.push(format!("PAIR_SEED={} PAIRS=1: one answer more: {response}", last.id));
    }
    faults
}

fn check(request: &Request, response: Option<&Response>, got: &[Vec<u8>]) -> Result<(), String> {
    let wrong = |what: &str| Err(what.to_owned());
    if got.len() > 1 {
        return wrong("the request arrived twice");
    }
    let named = response.and_then(|response| response.field("X-Pair"));
    if named.is_some_and(|named| named != request.id.to_string()) {
        return wrong("the answer to another request");
    }
    if named.is_some() && got.is_empty() {
        return wrong("an answer to a request that did not arrive");
    }
    if request.is_flawed {
        return Ok(());
    }
    if got.first().is_some_and(|got| *got != request.content) {
        return wrong("the request arrived with other content");
    }
    let reply = reply(request.id, request.method);
    let Some(response) = response else { return wrong("no answer") };
    if got.is_empty() {
        return wrong("the request did not arrive");
    }
    if reply.is_flawed {
        // Nothing after its length is content.
        let is_part = response.status == 502 || reply.content.starts_with(&response.body);
        return if is_part || response.broken.is_some() { Ok(()) } else { wrong("content of elsewhere") };
    }
    if response.status != reply.status || response.broken.is_some() || response.body != reply.content {
        return wrong("another answer");
    }
    Ok(())
}

fn each_request_has_its_own_answer(wire: Wire) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, first) = (number("PAIRS").unwrap_or(RUNS), number("PAIR_SEED").unwrap_or(0));
    let (origin, recorded) = origin(wire);
    let http = SITE.replace("ORIGIN", &origin.port().to_string()).replace("SCHEME", wire.scheme());
    let running = Site::new(&http).start(Server::Fulmar);
    let address = running.address();
    let threads = 4;
    let faults: Vec<String> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let recorded = &recorded;
            move || {
                let part = runs.div_ceil(threads);
                let (start, end) = (first + thread * part, first + ((thread + 1) * part).min(runs));
                let mut ids = (start..end).peekable();
                let mut faults = Vec::new();
                while ids.peek().is_some() && faults.len() < 10 {
                    faults.extend(converse(address, &mut ids, recorded));
                }
                faults
            }
        };
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    running.assert_healthy();
    running.stop();
    let records = recorded.lock().unwrap();
    let faults = [&faults[..], &records.faults].concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!records.contents.contains_key(&DECOY));
    let left: Vec<_> = records.contents.keys().filter(|&&id| !request(id).is_flawed).take(10).collect();
    assert!(left.is_empty(), "requests arrived whose clients got no answer: {left:?}");
}
