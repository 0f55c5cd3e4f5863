//! A connection's bytes, made up and cut up: right and wrong streams of requests, changed at random, are read to the
//! end whole, byte by byte, and in pieces of random lengths. What was understood, and what was refused and why, must
//! be the same each time.
//!
//! `SIMULATION_RUNS` and `SIMULATION_SEED` choose how many and which; `make simulate` runs ten million. A failure
//! names the seed that brings it back alone.

use std::fmt::Write;

use http::semantics::examine;
use http::uri::{Target, parse_target};
use http::{HeadError, RequestHead};

use crate::{BodyDecoder, Chunk, HeadLimits, HeadParser, HeadProgress};

/// How many streams are tried where nothing else is said.
const RUNS: u64 = 20_000;

/// The longest stream. `limits` makes heads with smaller limits, too.
const STREAM_MAX: usize = 3_000;

/// What streams are made of: one of these, several in a row, or parts of them.
const STREAMS: [&str; 28] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a/../b%20c//d?e=f&g HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n",
    "GET http://example.com/x HTTP/1.1\r\nHost: other\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    "HEAD / HTTP/1.0\r\n\r\n",
    "GET /old\r\n",
    "\r\n\r\nGET / HTTP/1.1\nHost: a\n\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nA;x=y;z=\"q\\\"r\"\r\n0123456789\r\n00\r\nT: u\r\nV: w\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;=\r\na\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [::1]:80\r\nX : y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x02\0\x01\0\x01",
];

/// How many of them, at the start, are accepted with the default limits.
const RIGHT: usize = 14;

/// Texts that are put between bytes of a stream, or in their place.
const TOKENS: [&str; 34] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "\0",
    "\"",
    "%",
    "#",
    "?",
    "/",
    "//",
    "/../",
    "HTTP/1.1",
    "HTTP/1.0",
    "Host: b\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "\u{7f}",
    "\u{e9}",
    "0\r\n\r\n",
    "1\r\nx\r\n",
    "\r\n\r\n",
    "-1",
    "+1",
    "0x1",
    "00000000000000001",
    "chunked",
    "X_y: z\r\n",
    "[",
];

/// Pseudo-random numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        // Neighbouring seeds must not begin alike.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % end
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a [u8] {
        texts[self.below(texts.len())].as_bytes()
    }
}

/// Some streams one after the other, changed in some places.
fn stream(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let (right, wrong) = STREAMS.split_at(RIGHT);
        bytes.extend_from_slice(if dice.below(6) == 0 { dice.of(wrong) } else { dice.of(right) });
    }
    for _ in 0..dice.below(4) {
        change(&mut bytes, dice);
    }
    if dice.below(4) == 0 {
        bytes.truncate(dice.below(bytes.len() + 1));
    }
    bytes.truncate(STREAM_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let end = bytes.len().min(at + 1 + dice.below(12));
    match dice.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap_or(0),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        4 | 5 => drop(bytes.splice(at..at, dice.of(&TOKENS).iter().copied())),
        6 => drop(bytes.splice(at..end, dice.of(&TOKENS).iter().copied())),
        7 => {
            let other = dice.of(&STREAMS);
            let from = dice.below(other.len());
            bytes.splice(at..at, other[from..].iter().copied());
        }
        8 => {
            let many = 1 + dice.below(400);
            let byte = bytes.get(at).copied().unwrap_or(b'x');
            bytes.splice(at..at, std::iter::repeat_n(byte, many));
        }
        _ => bytes.truncate(at),
    }
}

fn limits(dice: &mut Dice) -> HeadLimits {
    if dice.below(3) > 0 {
        return HeadLimits::default();
    }
    HeadLimits {
        first_buffer: 16 + dice.below(100),
        large_count: dice.below(3),
        large_size: 16 + dice.below(200),
        max_fields: dice.below(5),
        ignore_invalid: dice.below(2) == 0,
        underscores: dice.below(2) == 0,
        strict_line_ends: dice.below(2) == 0,
    }
}

/// The reader of a connection, fed piece by piece.
struct Reader<'a> {
    limits: &'a HeadLimits,
    body_limit: u64,
    parser: HeadParser,
    head: RequestHead,
    body: Option<(BodyDecoder, bool)>,
    /// What arrived and was not used yet.
    buffer: Vec<u8>,
    /// What was understood or refused, as a text to compare.
    told: String,
    over: bool,
}

impl<'a> Reader<'a> {
    fn new(limits: &'a HeadLimits, body_limit: u64) -> Reader<'a> {
        Reader {
            limits,
            body_limit,
            parser: HeadParser::new(),
            head: RequestHead::new(),
            body: None,
            buffer: Vec::new(),
            told: String::new(),
            over: false,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        while !self.over {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let _ = write!(self.told, "refused: {} {}", error.status.0, error.reason);
                    self.over = true;
                }
            }
        }
    }

    /// Reads on; `false` where more is needed.
    fn step(&mut self) -> Result<bool, HeadError> {
        match self.body.take() {
            Some((decoder, keep_alive)) => self.read_body(decoder, keep_alive),
            None if self.buffer.is_empty() => Ok(false),
            None => self.read_head(),
        }
    }

    fn read_head(&mut self) -> Result<bool, HeadError> {
        let parsed = self.parser.parse(&self.buffer, &mut self.head, self.limits)?;
        let HeadProgress::Complete { consumed } = parsed else { return Ok(false) };
        assert!(consumed > 0 && consumed <= self.buffer.len());
        self.buffer.drain(..consumed);
        let fields: Vec<_> = self.head.fields.iter().collect();
        let _ = writeln!(self.told, "{} {fields:?}", self.head.line().escape_ascii());
        let mut target = Target::default();
        parse_target(self.head.target(), true, &mut target)?;
        let framing = examine(&self.head, &mut target)?;
        let (path, args) = (target.path.escape_ascii(), target.args.escape_ascii());
        let _ = writeln!(self.told, "{path} {args} {} {framing:?}", target.host.name.escape_ascii());
        self.body = Some((BodyDecoder::new(framing.body, self.body_limit)?, framing.keep_alive));
        Ok(true)
    }

    fn read_body(&mut self, mut decoder: BodyDecoder, keep_alive: bool) -> Result<bool, HeadError> {
        match decoder.decode(&self.buffer)? {
            Chunk::Data { skip, length } => {
                assert!(length > 0 && skip + length <= self.buffer.len());
                let _ = write!(self.told, "{}", self.buffer[skip..skip + length].escape_ascii());
                self.buffer.drain(..skip + length);
                self.body = Some((decoder, keep_alive));
                Ok(true)
            }
            Chunk::NeedMore { consumed } => {
                self.buffer.drain(..consumed);
                self.body = Some((decoder, keep_alive));
                Ok(false)
            }
            Chunk::End { consumed } => {
                self.buffer.drain(..consumed);
                self.told.push_str(" (end)\n");
                self.over = !keep_alive;
                Ok(true)
            }
        }
    }
}

/// What a stream comes to when its bytes arrive in pieces of these lengths.
fn read(bytes: &[u8], (limits, body_limit): (&HeadLimits, u64), mut length: impl FnMut() -> usize) -> String {
    let mut reader = Reader::new(limits, body_limit);
    let mut at = 0;
    while at < bytes.len() && !reader.over {
        let end = bytes.len().min(at + length());
        reader.take(&bytes[at..end]);
        at = end;
    }
    reader.told
}

fn simulate(seed: u64) {
    let mut dice = Dice::new(seed);
    let bytes = stream(&mut dice);
    let limits = limits(&mut dice);
    let settings = (&limits, [u64::MAX, 4][dice.below(2)]);
    let whole = read(&bytes, settings, || usize::MAX / 2);
    let most = 1 + dice.below(40);
    let pieces = read(&bytes, settings, || 1 + dice.below(most));
    let single = read(&bytes, settings, || 1);
    let again = format!("SIMULATION_SEED={seed} SIMULATION_RUNS=1: {}", bytes.escape_ascii());
    assert_eq!(whole, single, "byte by byte, {again}");
    assert_eq!(whole, pieces, "in pieces, {again}");
}

#[test]
fn the_same_is_understood_however_it_is_cut() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("SIMULATION_RUNS").unwrap_or(RUNS);
    let first = number("SIMULATION_SEED").unwrap_or(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads.min(runs) {
            scope.spawn(move || (first + thread..first + runs).step_by(threads as usize).for_each(simulate));
        }
    });
}

/// The dice make streams of all kinds: understood to the end, refused, and not whole.
#[test]
fn streams_are_of_all_kinds() {
    let mut kinds = [0; 3];
    for seed in 0..1000 {
        let told = read(&stream(&mut Dice::new(seed)), (&HeadLimits::default(), u64::MAX), || usize::MAX / 2);
        let kind = match told {
            told if told.contains("refused") => 0,
            told if told.ends_with("(end)\n") => 1,
            _ => 2,
        };
        kinds[kind] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 50), "{kinds:?}");
}
