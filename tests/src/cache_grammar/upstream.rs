//! The server that generated caches ask: its responses follow from the key, the path, and how often it was asked.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::application::{Application, Language, Request};
use crate::mutation::Dice;
use crate::origin::{After, Asked, Origin};

/// When every resource has changed for the last time.
pub const MODIFIED: &str = "Tue, 02 Jan 2024 03:04:05 GMT";

/// What all responses for one path have in common.
#[derive(Clone, Debug)]
pub struct Resource {
    dice: Dice,
    framing: Framing,
    length: usize,
    tag: Option<&'static str>,
    has_date: bool,
    vary: &'static str,
    honours_ranges: bool,
    /// How many of ten responses are plain ones with status 200.
    steadiness: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

/// A response as it is sent over any protocol.
struct Response {
    status: u16,
    /// Lines with their ends.
    fields: String,
    framing: Framing,
    content: Vec<u8>,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The content ends before its length.
    Short,
    /// The connection closes without a response.
    Closed,
    /// The head is none.
    BadHead,
}

impl Resource {
    /// The resource of a path in the configuration of a seed.
    pub fn of(seed: u64, path: &str) -> Resource {
        let name = path.trim_start_matches("/up");
        let mut dice = Dice::new(seed ^ hash(name.as_bytes()));
        Resource {
            framing: [Framing::Length, Framing::Length, Framing::Length, Framing::Chunks, Framing::Close]
                [dice.below(5)],
            length: [0, 1, 90, 300, 300, 3000, 9000][dice.below(7)],
            tag: [None, Some(""), Some(""), Some("W/")][dice.below(4)],
            has_date: dice.below(2) == 0,
            vary: [
                "",
                "",
                "",
                "Accept-Encoding",
                "Accept-Encoding",
                "Accept-Language, Accept-Encoding",
                "X-Bypass",
                "*",
            ][dice.below(8)],
            honours_ranges: dice.below(2) == 0,
            steadiness: [10, 9, 7, 5][dice.below(4)],
            dice,
        }
    }

    /// Whether its responses say how long they are.
    pub fn has_length(&self) -> bool {
        self.framing == Framing::Length
    }

    fn respond(&self, asked: &Message, attempt: u64) -> Response {
        let mut dice = Dice::new(self.dice.clone().number() ^ attempt.wrapping_mul(0x1234_5678_9abc));
        let version = [0, 0, 1, attempt][dice.below(4)];
        let is_steady = dice.below(10) < self.steadiness;
        let status = if is_steady {
            200
        } else {
            [200, 204, 206, 301, 302, 304, 404, 410, 500, 503, 403][dice.below(11)]
        };
        let mut content = format!("{} #{attempt:04} {}\n", asked.key, asked.method).into_bytes();
        while content.len() < self.length {
            let line = format!("{} {:08x}\n", content.len(), dice.number() >> 32);
            content.extend_from_slice(line.as_bytes());
        }
        let digest = format!("{:016x}", hash(&content));
        content.extend_from_slice(digest.as_bytes());
        if self.length == 0 {
            content.clear();
        }
        let mut fields = times(&mut dice, is_steady);
        let tag = self.tag.map(|weak| format!("{weak}\"v{version}\""));
        if let Some(tag) = &tag {
            let _ = write!(fields, "ETag: {tag}\r\n");
        }
        if self.has_date {
            let _ = write!(fields, "Last-Modified: {MODIFIED}\r\n");
        }
        if !self.vary.is_empty() && dice.below(10) > 0 {
            let _ = write!(fields, "Vary: {}\r\n", self.vary);
        }
        if dice.below(12) == 0 {
            let _ = write!(fields, "Set-Cookie: k={:016x}\r\n", hash(asked.key.as_bytes()));
        }
        for (line, of) in [
            ("X-Other: other", 4),
            ("Accept-Ranges: bytes", 3),
            ("Accept-Ranges: none", 20),
            ("Age: 5", 10),
            ("Date: Tue, 02 Jan 2024 03:04:05 GMT", 6),
            ("Content-Encoding: x-made", 12),
            ("Content-Type: text/x-made", 2),
        ] {
            if dice.below(of) == 0 {
                let _ = write!(fields, "{line}\r\n");
            }
        }
        if matches!(status, 301 | 302) {
            fields.push_str("Location: http://elsewhere/x\r\n");
        }
        let fault = match dice.below(40) {
            0 if self.steadiness < 10 && self.framing != Framing::Close => Fault::Short,
            1 if self.steadiness < 10 => Fault::Closed,
            2 if self.steadiness < 10 => Fault::BadHead,
            _ => Fault::None,
        };
        let mut response = Response { status, fields, framing: self.framing, content, fault };
        let is_same = tag.as_deref().is_some_and(|tag| asked.field("if-none-match").contains(tag))
            || tag.is_none() && self.has_date && asked.field("if-modified-since") == MODIFIED;
        if status == 200 && is_same && dice.below(4) > 0 {
            response.status = 304;
        } else if status == 200 && self.honours_ranges && self.has_length() {
            response.cut(asked.field("range"));
        } else if status == 206 {
            let range = format!("Content-Range: bytes 10-{}/90000\r\n", 9 + response.content.len());
            response.fields.push_str(&range);
        }
        if matches!(response.status, 204 | 304) {
            response.content.clear();
        }
        response
    }
}

impl Response {
    /// Leaves only the part that a request is for.
    fn cut(&mut self, range: &str) {
        let whole = self.content.len();
        let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
            return;
        };
        let Ok(first) = first.parse::<usize>() else { return };
        let last = last.parse::<usize>().unwrap_or(usize::MAX).min(whole.saturating_sub(1));
        if first >= whole {
            self.status = 416;
            self.content.clear();
            let _ = write!(self.fields, "Content-Range: bytes */{whole}\r\n");
        } else if first <= last {
            self.status = 206;
            self.content = self.content[first..=last].to_vec();
            let _ = write!(self.fields, "Content-Range: bytes {first}-{last}/{whole}\r\n");
        }
    }

    fn write(&self, protocol: Option<Language>, is_head: bool) -> Vec<u8> {
        let mut text = match (self.fault, protocol) {
            (Fault::Closed, _) | (Fault::BadHead, Some(_)) => return Vec::new(),
            (Fault::BadHead, None) => return b"HTTP/1.1 200 Made\r\nX-\x01: x\r\n\r\n".to_vec(),
            (_, None) => format!("HTTP/1.1 {} Made\r\nConnection: close\r\n", self.status).into_bytes(),
            // nginx passes on the header `Status` of uwsgi applications.
            (_, Some(Language::Uwsgi)) => format!("HTTP/1.1 {} Made\r\n", self.status).into_bytes(),
            (_, Some(_)) => format!("Status: {} Made\r\n", self.status).into_bytes(),
        };
        text.extend_from_slice(self.fields.as_bytes());
        let has_content = !is_head && !matches!(self.status, 204 | 304);
        let framing =
            if protocol.is_some() && self.framing == Framing::Chunks { Framing::Close } else { self.framing };
        let content = if has_content { &self.content[..] } else { b"" };
        let sent = if self.fault == Fault::Short { &content[..content.len() / 2] } else { content };
        match framing {
            Framing::Length if self.status != 204 && self.status != 304 => {
                text.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.content.len()).as_bytes());
                text.extend_from_slice(sent);
            }
            Framing::Chunks if has_content => {
                text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in sent.chunks(700) {
                    text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    text.extend_from_slice(chunk);
                    text.extend_from_slice(b"\r\n");
                }
                if self.fault != Fault::Short {
                    text.extend_from_slice(b"0\r\n\r\n");
                }
            }
            _ => {
                text.extend_from_slice(b"\r\n");
                text.extend_from_slice(content);
            }
        }
        match protocol {
            None => text,
            Some(language) => language.answer(&String::from_utf8_lossy(&text)),
        }
    }
}

/// The fields that say how long a response is valid.
fn times(dice: &mut Dice, is_steady: bool) -> String {
    // Long ago; the times after it in which the response may be used are longer.
    let expired = "X-Accel-Expires: @1000000000\r\n";
    let control = [
        "max-age=3600",
        "s-maxage=3600, max-age=0",
        "max-age=3600, stale-while-revalidate=2000000000",
        "stale-while-revalidate=2000000000",
        "stale-if-error=2000000000",
        "max-age=3600, must-revalidate",
        "public",
    ];
    let odd = [
        "private",
        "no-store",
        "no-cache",
        "max-age=0",
        "max-age=x",
        "max-age=",
        "MAX-AGE=60",
        "no-cache=\"x\", max-age=60",
        "max-age=60, stale-if-error=x",
        "max-age=-1",
        "private, max-age=60",
    ];
    match dice.below(if is_steady { 11 } else { 16 }) {
        0..=2 => expired.to_owned(),
        3 => format!("{expired}Cache-Control: {}\r\n", dice.of(&control)),
        4..=6 => format!("Cache-Control: {}\r\n", dice.of(&control)),
        7 => "X-Accel-Expires: 600\r\n".to_owned(),
        8 => "Expires: Tue, 02 Jan 2999 03:04:05 GMT\r\n".to_owned(),
        9 | 10 => String::new(),
        11 | 12 => format!("Cache-Control: {}\r\n", dice.of(&odd)),
        13 => format!("Expires: {}\r\n", dice.of(&["Tue, 02 Jan 2001 03:04:05 GMT", "0", "x", ""])),
        14 => format!(
            "X-Accel-Expires: {}\r\nCache-Control: {}\r\n",
            dice.of(&["0", "x", "600", "@0", "@x", "-1"]),
            dice.of(&odd)
        ),
        _ => format!(
            "Cache-Control: {}\r\nExpires: 0\r\nCache-Control: {}\r\n",
            dice.of(&control),
            dice.of(&odd)
        ),
    }
}

/// A request, whatever protocol it came by.
struct Message {
    key: String,
    method: String,
    target: String,
    fields: HashMap<String, String>,
}

impl Message {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn of_http(asked: &Asked) -> Message {
        let text = String::from_utf8_lossy(&asked.text);
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Message::new(text.split(' ').next().unwrap_or_default(), &asked.target, fields.collect())
    }

    fn of_application(request: &Request) -> Message {
        let fields = request.params.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("HTTP_")?.replace('_', "-").to_ascii_lowercase(), value.clone()))
        });
        Message::new(request.param("REQUEST_METHOD"), request.param("REQUEST_URI"), fields.collect())
    }

    fn new(method: &str, target: &str, fields: HashMap<String, String>) -> Message {
        let key = fields.get("x-key").cloned().unwrap_or_default();
        Message { key, method: method.to_owned(), target: target.to_owned(), fields }
    }

    fn seed(&self) -> u64 {
        self.key.split(' ').next().and_then(|seed| seed.parse().ok()).unwrap_or(0)
    }

    /// What is compared of it.
    fn shown(&self) -> String {
        let mut text = format!("{} {}", self.method, self.target);
        for name in [
            "range",
            "if-range",
            "if-none-match",
            "if-modified-since",
            "if-match",
            "if-unmodified-since",
            "accept-encoding",
            "cache-control",
            "pragma",
            "authorization",
            "cookie",
            "x-key",
        ] {
            if !self.field(name).is_empty() {
                let _ = write!(text, " [{name}: {}]", self.field(name));
            }
        }
        text
    }
}

/// The requests to the upstream servers of one proxy.
#[derive(Debug, Default)]
struct Records {
    attempts: HashMap<(u64, String), u64>,
    requests: HashMap<u64, Vec<String>>,
}

/// The upstream servers of one proxy: one for each protocol.
#[derive(Debug)]
pub struct Upstream {
    records: Arc<Mutex<Records>>,
    places: [(&'static str, SocketAddr); 4],
}

impl Default for Upstream {
    fn default() -> Upstream {
        let records = Arc::<Mutex<Records>>::default();
        let shared = Arc::clone(&records);
        let origin = Origin::start(move |asked| {
            let message = Message::of_http(asked);
            (respond(&shared, &message).write(None, message.method == "HEAD"), After::Close)
        });
        let application = |language: Language| {
            let shared = Arc::clone(&records);
            let application = Application::speaking(language, move |request, stream| {
                let message = Message::of_application(request);
                let bytes = respond(&shared, &message).write(Some(language), message.method == "HEAD");
                let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
                false
            });
            application.address()
        };
        let places = [
            ("ORIGIN", origin.address()),
            ("FASTCGI", application(Language::FastCgi)),
            ("SCGI", application(Language::Scgi)),
            ("UWSGI", application(Language::Uwsgi)),
        ];
        Upstream { records, places }
    }
}

impl Upstream {
    /// A configuration with the places of these servers.
    pub fn fill(&self, text: &str) -> String {
        // `SCGI` is the end of no other name, and `FASTCGI` has to be replaced before.
        self.places
            .iter()
            .fold(text.to_owned(), |text, (name, address)| text.replace(name, &address.to_string()))
    }

    /// The requests to a seed's resources, since the last call.
    pub fn take(&self, seed: u64) -> Vec<String> {
        self.records.lock().unwrap().requests.remove(&seed).unwrap_or_default()
    }

    /// How many requests a seed's resources got since the last [`Upstream::take`].
    pub fn count(&self, seed: u64) -> usize {
        self.records.lock().unwrap().requests.get(&seed).map_or(0, Vec::len)
    }
}

fn respond(records: &Mutex<Records>, message: &Message) -> Response {
    let seed = message.seed();
    let path = message.target.split('?').next().unwrap_or_default();
    let mut records = records.lock().unwrap();
    let attempt = records.attempts.entry((seed, message.target.clone())).or_default();
    *attempt += 1;
    let attempt = *attempt;
    records.requests.entry(seed).or_default().push(message.shown());
    Resource::of(seed, path).respond(message, attempt)
}

/// A number of some bytes (FNV-1a).
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Whether content that carries its digest is as it was sent.
pub fn is_whole(content: &[u8]) -> bool {
    let Some((text, digest)) = content.split_at_checked(content.len().saturating_sub(16)) else {
        return false;
    };
    digest == format!("{:016x}", hash(text)).as_bytes()
}
