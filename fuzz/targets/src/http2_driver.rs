//! A connection in HTTP/2 to a server with all its features: made-up requests, content, windows and resets. Every
//! request that was sent wholly gets an answer, content keeps to the windows, nothing follows the end of a stream, and no
//! stream ends by a fault of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use conf::Memory;
use contract::Loading;
use http2::PREFACE;
use net::bind::bind;
use net::channel::{SupervisorEnd, channel};
use net::{Endpoint, ListenOptions, SocketAddress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use server::{Settings, Worker};
use site::{Options, Site, load};

/// What is sent at most: steps, and bytes of one of them.
const STEPS: usize = 64;
const CONTENT_UNIT: usize = 64;

/// A server that says nothing for so long stands still.
const LIMIT: Duration = Duration::from_secs(60);

/// Types of frames (RFC 9113, section 6, and RFC 9218).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const PRIORITY_UPDATE: u8 = 16;

/// Their flags.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const INITIAL_WINDOW_SIZE: u8 = 4;
const INTERNAL_ERROR: u32 = 2;

/// A window before it is changed.
const WINDOW: u64 = 65_535;

/// How far the windows are opened in the end.
const WIDE: u32 = 1 << 29;

/// What the last PING carries.
const LAST: &[u8; 8] = b"the last";

const PATHS: [&str; 16] = [
    "/",
    "/text",
    "/file",
    "/big",
    "/list/",
    "/list",
    "/missing",
    "/refused",
    "/passed/text",
    "/passed/big",
    "/passed/discarded",
    "/streamed/text",
    "/streamed/big",
    "/mirrored",
    "/allowed",
    "/compressed",
];

const FIELDS: [(&str, &str); 8] = [
    ("range", "bytes=1-3,7-"),
    ("accept-encoding", "gzip"),
    ("expect", "100-continue"),
    ("priority", "u=0, i"),
    ("if-none-match", "*"),
    ("content-length", "100"),
    ("cookie", "a=b"),
    ("te", "trailers"),
];

/// Holds the server to it.
pub fn run(input: &[u8]) {
    let Some((&seed, steps)) = input.split_first() else { return };
    let script = Script::new(steps);
    let mut answers = Answers::default();
    let mut stream = TcpStream::connect(address()).expect("the server listens");
    stream.set_nonblocking(true).unwrap();
    stream.set_nodelay(true).unwrap();
    let ends = cut(&script.bytes, seed);
    let (mut sent, mut input) = (0, vec![0; 64 * 1024]);
    let started = Instant::now();
    while !answers.is_over(&script) {
        assert!(started.elapsed() < LIMIT, "no answer on {:?}", answers.missing(&script));
        let end = ends.iter().copied().find(|end| *end > sent).unwrap_or(sent);
        let written = stream.write(&script.bytes[sent..end]);
        let read = stream.read(&mut input);
        match (is_blocked(&written), is_blocked(&read)) {
            (true, true) => wait(&stream, PollFlags::IN | PollFlags::OUT),
            (false, true) if sent == end => wait(&stream, PollFlags::IN),
            _ => {}
        }
        // A server that has closed the connection resets what comes later.
        sent += written.unwrap_or_default();
        match read {
            Ok(0) => answers.is_closed = true,
            Ok(count) => answers.read(&input[..count], &script),
            Err(error) => answers.is_closed = !is_passing(error.kind()),
        }
    }
}

/// Where the bytes are cut: nowhere, or after pieces of a few hundred bytes.
fn cut(bytes: &[u8], seed: u8) -> Vec<usize> {
    if seed == 0 {
        return vec![bytes.len()];
    }
    let ends = crate::cuts(seed).scan(0, |end, length| {
        *end += length * usize::from(seed);
        (*end < bytes.len()).then_some(*end)
    });
    ends.chain([bytes.len()]).collect()
}

fn is_blocked<T>(result: &std::io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| is_passing(error.kind()))
}

/// Whether the call is to be repeated; the fuzzer's alarm interrupts calls.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn wait(stream: &TcpStream, flags: PollFlags) {
    let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
    match poll(&mut [PollFd::new(stream, flags)], Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => panic!("poll: {error}"),
    }
}

/// What the client sends.
struct Script {
    bytes: Vec<u8>,
    /// The number of the next stream.
    next: u32,
    /// The streams that were opened and not reset, and whether the client has ended each.
    streams: BTreeMap<u32, bool>,
    /// What was allowed on the connection (0) and on each stream besides its first window.
    windows: BTreeMap<u32, u64>,
    /// The largest first window of a stream.
    first_window: u64,
    /// Whether all frames have a meaning, so that each request has an answer.
    is_sound: bool,
}

impl Script {
    fn new(input: &[u8]) -> Script {
        let mut script = Script {
            bytes: PREFACE.to_vec(),
            next: 1,
            streams: BTreeMap::new(),
            windows: BTreeMap::new(),
            first_window: WINDOW,
            is_sound: true,
        };
        script.frame(SETTINGS, 0, 0, &[]);
        let mut choices = input.iter().copied();
        for _ in 0..STEPS {
            let Some(step) = choices.next() else { break };
            script.add(step, &mut || choices.next().unwrap_or_default());
        }
        script.finish();
        script
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.bytes.extend_from_slice(&[a, b, c, kind, flags]);
        self.bytes.extend_from_slice(&stream.to_be_bytes());
        self.bytes.extend_from_slice(payload);
    }

    fn add(&mut self, step: u8, choose: &mut dyn FnMut() -> u8) {
        match step % 9 {
            0 | 1 => self.request(step, choose),
            2 => self.content(choose),
            3 => {
                let (stream, more) = (self.choose_stream(choose()), u32::from(choose()) * 512);
                self.widen(stream, more);
            }
            4 => {
                let (stream, code) = (self.choose_stream(choose()), choose());
                self.frame(RST_STREAM, 0, stream, &[0, 0, 0, code]);
                self.streams.remove(&stream);
                self.is_sound &= stream != 0;
            }
            5 => self.setting(choose),
            6 => {
                let (stream, urgency) = (self.choose_stream(choose()), choose());
                let field = format!("u={}{}", urgency % 9, if urgency > 100 { ", i" } else { "" });
                let payload = [&stream.to_be_bytes()[..], field.as_bytes()].concat();
                self.frame(PRIORITY_UPDATE, 0, 0, &payload);
                self.is_sound &= stream != 0;
            }
            7 => {
                // Trailers.
                let stream = self.choose_stream(choose());
                self.frame(HEADERS, END_STREAM | END_HEADERS, stream, b"\0\x01x\x01y");
                self.end(stream);
            }
            _ => {
                let (kind, flags, stream) = (choose(), choose(), self.choose_stream(choose()));
                let payload: Vec<u8> = (0..choose() % 32).map(|_| choose()).collect();
                self.frame(kind % 18, flags, stream, &payload);
                self.is_sound = false;
                // Such a frame may open a window as far as there is.
                self.widen(0, 0);
                self.first_window = u64::from(u32::MAX);
                self.windows.values_mut().for_each(|window| *window = u64::from(u32::MAX));
            }
        }
    }

    /// One of the streams that were opened, or the connection.
    fn choose_stream(&self, choice: u8) -> u32 {
        let place = usize::from(choice) % (self.streams.len() + 1);
        self.streams.keys().nth(place).copied().unwrap_or(0)
    }

    fn request(&mut self, step: u8, choose: &mut dyn FnMut() -> u8) {
        let id = self.next;
        self.next += 2;
        let (path, fields, way) = (choose(), choose(), choose());
        let ends = step.is_multiple_of(9);
        // GET or POST, and http.
        let mut block = vec![if ends { 0x82 } else { 0x83 }, 0x86];
        // Names of the static table, and values that are added to the dynamic table or not.
        let kind = if way & 1 == 0 { 0 } else { 0x40 };
        string(kind | 4, PATHS[usize::from(path) % PATHS.len()], &mut block);
        string(kind | 1, "localhost", &mut block);
        for (bit, (name, value)) in FIELDS.iter().enumerate() {
            if fields & (1 << bit) != 0 {
                string(kind, name, &mut block);
                block.push(u8::try_from(value.len()).unwrap());
                block.extend_from_slice(value.as_bytes());
            }
        }
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        if way & 2 == 0 {
            self.frame(HEADERS, flags, id, &block);
        } else {
            // In two frames, the second of which is CONTINUATION.
            let (first, second) = block.split_at(block.len() / 2);
            self.frame(HEADERS, flags & !END_HEADERS, id, first);
            self.frame(9, END_HEADERS, id, second);
        }
        self.streams.insert(id, ends);
    }

    /// Whether a stream of this number may have answers.
    fn has_opened(&self, stream: u32) -> bool {
        !self.is_sound || (stream % 2 == 1 && stream < self.next)
    }

    fn content(&mut self, choose: &mut dyn FnMut() -> u8) {
        let (stream, length, way) = (self.choose_stream(choose()), choose(), choose());
        let mut payload = vec![b'x'; usize::from(length) * CONTENT_UNIT];
        if way & 2 != 0 {
            payload.splice(..0, [3]);
            payload.extend_from_slice(&[0; 3]);
        }
        let flags = if way & 2 != 0 { PADDED } else { 0 } | way & END_STREAM;
        self.frame(DATA, flags, stream, &payload);
        if flags & END_STREAM != 0 {
            self.end(stream);
        }
        self.is_sound &= stream != 0;
    }

    fn end(&mut self, stream: u32) {
        self.streams.entry(stream).and_modify(|ended| *ended = true);
    }

    fn setting(&mut self, choose: &mut dyn FnMut() -> u8) {
        let (name, high, low) = (choose() % 10, choose(), choose());
        let value = u32::from(u16::from_be_bytes([high, low]));
        if name == INITIAL_WINDOW_SIZE {
            self.first_window = self.first_window.max(u64::from(value));
        }
        self.frame(SETTINGS, 0, 0, &[0, name, 0, 0, high, low]);
    }

    fn widen(&mut self, stream: u32, more: u32) {
        *self.windows.entry(stream).or_default() += u64::from(more);
        if more > 0 {
            self.frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
        }
    }

    /// Cancels the requests that are not complete, and takes all answers to the others.
    fn finish(&mut self) {
        let streams = mem::take(&mut self.streams);
        for (&stream, _) in streams.iter().filter(|(_, ended)| !**ended) {
            self.frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
        }
        self.streams = streams.into_iter().filter(|(_, ended)| *ended).collect();
        let [a, b, c, d] = WIDE.to_be_bytes();
        self.frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, a, b, c, d]);
        self.first_window = self.first_window.max(u64::from(WIDE));
        self.widen(0, WIDE);
        self.frame(PING, 0, 0, LAST);
    }
}

/// A literal field's name and value, or the value of an indexed name.
fn string(first: u8, text: &str, block: &mut Vec<u8>) {
    block.extend_from_slice(&[first, u8::try_from(text.len()).unwrap()]);
    block.extend_from_slice(text.as_bytes());
}

/// The address of the server. It runs until the process ends.
fn address() -> SocketAddr {
    static SERVER: OnceLock<(SocketAddr, SupervisorEnd)> = OnceLock::new();
    SERVER.get_or_init(start).0
}

fn start() -> (SocketAddr, SupervisorEnd) {
    let any = SocketAddress::Inet(([127, 0, 0, 1], 0).into());
    let sockets =
        [(); 2].map(|()| bind(&Endpoint::stream(any.clone()), &ListenOptions::default(), 1).unwrap());
    let addresses = sockets.each_ref().map(|sockets| match sockets[0].address() {
        SocketAddress::Inet(address) => *address,
        other => panic!("{other:?}"),
    });
    let text = configuration(addresses);
    let inputs = Memory::default().with("/x.conf", text);
    let options = Options {
        path: "/x.conf".into(),
        prefix: "/nowhere".into(),
        globals: None,
        apache: site::ApacheOptions::default(),
    };
    let loading = Loading::new(Path::new("/nowhere"), Path::new("/nowhere"));
    let mut loaded = load(&inputs, &options, modules::ALL, loading);
    assert!(loaded.error.is_none(), "{:?}", loaded.error.map(|error| error.message));
    let site = Site::compile(&mut loaded, modules::ALL).map_err(|error| error.message).unwrap();
    let (supervisor, channel) = channel().unwrap();
    let worker = Worker {
        site: Arc::new(site),
        sockets: sockets.into(),
        threads: 1,
        processors: Vec::new(),
        settings: Settings { connections: 1000, shutdown_timeout: None, request_memory: None, drains: false },
        replay: Arc::new(|_: &[u8], _| Err(String::new())),
        channel,
        older: None,
    };
    thread::spawn(|| server::run(worker));
    (addresses[0], supervisor)
}

/// A server, and another one that it passes requests on to. The files are those of this folder.
fn configuration([address, upstream]: [SocketAddr; 2]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    format!(
        "error_log stderr emerg;
        http {{
            access_log off;
            client_max_body_size 32k;
            client_body_buffer_size 64k;
            proxy_http_version 1.1;
            proxy_max_temp_file_size 0;
            server {{
                listen {address};
                http2 on;
                http2_max_concurrent_streams 16;
                http2_body_preread_size 1k;
                error_page 403 /text;
                location = /text {{ return 200 text; }}
                location = /file {{ alias {folder}/Cargo.toml; }}
                location = /big {{ alias {folder}/../Cargo.lock; }}
                location /list {{ alias {folder}; autoindex on; }}
                location = /refused {{ deny all; }}
                location /passed/ {{ proxy_pass http://{upstream}/; }}
                location /streamed/ {{
                    proxy_pass http://{upstream}/;
                    proxy_request_buffering off;
                    proxy_buffering off;
                }}
                location = /mirrored {{ mirror /passed/text; proxy_pass http://{upstream}/text; }}
                location = /allowed {{ auth_request /passed/text; alias {folder}/Cargo.toml; }}
                location = /compressed {{
                    gzip on;
                    gzip_types *;
                    gzip_min_length 0;
                    alias {folder}/../Cargo.lock;
                }}
            }}
            server {{
                listen {upstream};
                location = /text {{ return 200 text; }}
                location = /big {{ alias {folder}/../Cargo.lock; }}
                location = /discarded {{ proxy_pass http://{upstream}/text; }}
            }}
        }}"
    )
}

/// A frame of the server.
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

/// What came back.
#[derive(Default)]
struct Answers {
    rest: Vec<u8>,
    has_settings: bool,
    /// Bytes of content by stream, and of all (0).
    content: BTreeMap<u32, u64>,
    ended: BTreeSet<u32>,
    has_last: bool,
    is_closed: bool,
}

impl Answers {
    fn is_over(&self, script: &Script) -> bool {
        self.is_closed || (self.has_last && self.missing(script).is_empty())
    }

    /// The streams that have no answer and should have one.
    fn missing(&self, script: &Script) -> Vec<u32> {
        let streams = script.streams.keys().copied();
        streams.filter(|stream| script.is_sound && !self.ended.contains(stream)).collect()
    }

    fn read(&mut self, bytes: &[u8], script: &Script) {
        self.rest.extend_from_slice(bytes);
        let input = mem::take(&mut self.rest);
        let mut rest = input.as_slice();
        while let Some(([a, b, c, kind, flags, id @ ..], after)) = rest.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, *a, *b, *c]);
            let Some((payload, after)) = after.split_at_checked(length as usize) else { break };
            rest = after;
            let frame = Frame { kind: *kind, flags: *flags, stream: u32::from_be_bytes(*id), payload };
            self.frame(&frame, script);
        }
        self.rest = rest.to_vec();
    }

    fn frame(&mut self, frame: &Frame<'_>, script: &Script) {
        let &Frame { kind, flags, stream, payload } = frame;
        assert!(self.has_settings || kind == SETTINGS, "frame {kind} before SETTINGS");
        self.has_settings = true;
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            HEADERS | DATA => {
                assert!(!self.ended.contains(&stream), "frame {kind} on stream {stream}, which has ended");
                assert!(script.has_opened(stream), "frame {kind} on stream {stream}, which nobody opened");
                if flags & END_STREAM != 0 {
                    self.ended.insert(stream);
                }
            }
            RST_STREAM => {
                assert_ne!(code(0), INTERNAL_ERROR, "stream {stream}");
                self.ended.insert(stream);
            }
            GOAWAY => assert_ne!(code(4), INTERNAL_ERROR),
            PING if flags & ACK != 0 => self.has_last |= payload == LAST,
            _ => {}
        }
        if kind == DATA {
            for (id, first) in [(0, WINDOW), (stream, script.first_window)] {
                let content = self.content.entry(id).or_default();
                *content += payload.len() as u64;
                let window = first + script.windows.get(&id).copied().unwrap_or_default();
                assert!(*content <= window, "{content} bytes on {id}, whose window is {window}");
            }
        }
    }
}
