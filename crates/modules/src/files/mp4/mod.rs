//! Sends parts of MP4 videos.
//!
//! In a location with `mp4`, a request with the argument `start`, `end` or both gets this part of the video, in seconds: a new
//! MP4 file, so that a player can show it. `?start=238.88` begins at that time, and `?start=10&end=20` has ten seconds.
//! Without these arguments the client gets the whole file. Only GET and HEAD are allowed.
//!
//! A part begins with the sample that is shown at `start`, which a player may not be able to show before the next key frame.
//! With `mp4_start_key_frame on` it begins with the key frame before, and an edit list makes the player begin at `start`.
//!
//! Fulmar reads the index of the video (`moov`) into memory. It must not be longer than the larger of `mp4_max_buffer_size`
//! and `mp4_buffer_size`. A file that is not a valid video, or has nothing of the part, gets 500, and the error log has the
//! reason. A file whose index comes before its content needs less work.
//!
//! nginx: --with-http_mp4_module
//!
//! ```file html/broken.mp4
//! no video
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     types { video/mp4 mp4; }
//!     location ~ \.mp4$ {
//!         mp4;
//!         mp4_max_buffer_size 20m;
//!         mp4_start_key_frame on;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /broken.mp4 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: video/mp4
//! Content-Length: 9
//!
//! no video
//! ---
//! GET /broken.mp4?start=1.5 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 500 Internal Server Error
//! ---
//! POST /broken.mp4 HTTP/1.1
//! Host: localhost
//! Content-Length: 0
//!
//! HTTP/1.1 405 Not Allowed
//! ```

mod boxes;
mod durations;
mod movie;
mod samples;
mod track;

use crate::files::open_file_cache::{Files, Opened};
use crate::files::static_files::{self, describe, describe_part};
use crate::shared::whole::Whole;
use crate::values::variables::argument;
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Body, Directive, Exchange, Handler, Module, Outcome, Phase, Piece, Reach, Rule, ScopeBuilder, Step, View,
    Work,
};
use http::Status;
use journal::Level;
pub use movie::{Cut, cut};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use wire::memory::Held;

/// Parts of MP4 videos.
pub static MODULE: Module = Module {
    name: "mp4",
    directives: &[&MP4, &MP4_BUFFER_SIZE, &MP4_MAX_BUFFER_SIZE, &MP4_START_KEY_FRAME],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `mp4`
pub static MP4: Directive<()> = Directive::new("mp4", |_, _| Ok(()))
    .within(Contexts::LOCATION)
    .args(Arity::None)
    .rule(Rule::Unnamed)
    .help("Sends the parts of videos that the arguments `start` and `end` name.");

/// `mp4_buffer_size SIZE`
pub static MP4_BUFFER_SIZE: Directive<u64> = Directive::size("mp4_buffer_size")
    .within(LEVELS)
    .default("512k")
    .help("How long the index of a video may be in any case.");

/// `mp4_max_buffer_size SIZE`
pub static MP4_MAX_BUFFER_SIZE: Directive<u64> = Directive::size("mp4_max_buffer_size")
    .within(LEVELS)
    .default("10m")
    .help("How long the index of a video may be.");

/// `mp4_start_key_frame on | off`
pub static MP4_START_KEY_FRAME: Directive<bool> = Directive::flag("mp4_start_key_frame")
    .within(LEVELS)
    .default("off")
    .help("Whether a part begins with a key frame.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&MP4).is_some() {
        let usual = view.get(&MP4_BUFFER_SIZE).copied().unwrap_or(512 << 10);
        let most = view.get(&MP4_MAX_BUFFER_SIZE).copied().unwrap_or(10 << 20);
        builder.handle(
            Phase::Content,
            Mp4 {
                files: Files::of(view),
                head_bytes_max: usual.max(most),
                starts_with_key_frame: view.get(&MP4_START_KEY_FRAME).copied().unwrap_or(false),
            },
        );
    }
    Ok(())
}

/// Why a movie cannot be cut.
#[derive(Debug)]
pub struct Malformed(Box<str>);

impl Malformed {
    fn new(reason: impl Into<Box<str>>) -> Malformed {
        Malformed(reason.into())
    }
}

/// Which part of a movie is wanted, and how.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Where it starts, in milliseconds.
    pub start_ms: u64,
    /// How long it is, in milliseconds; to the end without.
    pub length_ms: Option<u64>,
    /// Whether it starts with a key frame.
    pub starts_with_key_frame: bool,
    /// How long the head of the movie may be, in bytes.
    pub head_bytes_max: u64,
}

impl Wanted {
    fn is_everything(&self) -> bool {
        self.start_ms == 0 && self.length_ms.is_none()
    }

    fn start_in(&self, timescale: u32) -> u64 {
        scaled(self.start_ms, timescale)
    }

    fn length_in(&self, timescale: u32) -> Option<u64> {
        self.length_ms.map(|length| scaled(length, timescale))
    }
}

/// A time in units of a time scale, which says how many there are in a second.
fn scaled(milliseconds: u64, timescale: u32) -> u64 {
    let units = u128::from(milliseconds) * u128::from(timescale) / 1000;
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// What a movie is read from.
pub trait Storage {
    /// How long it is, in bytes.
    fn length(&self) -> u64;

    /// Reads as many bytes as the buffer has.
    ///
    /// # Errors
    /// Those of the system, or there are not so many.
    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl Storage for Piece {
    fn length(&self) -> u64 {
        Piece::length(self)
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Piece::File { file, offset, .. } => file.read_exact_at(buffer, offset.saturating_add(at)),
            Piece::Bytes(bytes) => bytes.as_ref().read(buffer, at),
        }
    }
}

impl Storage for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let bytes = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

struct Mp4 {
    files: Files,
    head_bytes_max: u64,
    starts_with_key_frame: bool,
}

/// The file, while its head is read.
struct Video {
    opened: Rc<Opened>,
    file: Piece,
}

impl Handler for Mp4 {
    fn run(&self, exchange: &mut Exchange) -> Step {
        self.serve(exchange).unwrap_or_else(Step::Finish)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let result = match outcome {
            Outcome::Job(result) => result.downcast::<Result<Option<Cut>, Malformed>>().ok(),
            _ => None,
        };
        let (Some(result), Some(video)) = (result, exchange.attached::<Video>()) else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        match *result {
            Ok(cut) => respond(exchange, &video, cut),
            Err(Malformed(reason)) => {
                let path = exchange.path().unwrap_or_default();
                let message = format!("{reason} in \"{}\"", String::from_utf8_lossy(&path));
                exchange.log(Level::Error, &message);
                Step::Finish(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl Mp4 {
    fn serve(&self, exchange: &mut Exchange) -> Result<Step, Status> {
        let Some(opened) = static_files::requested(&self.files, exchange)? else { return Ok(Step::Next) };
        let Some((start_ms, length_ms)) = part(exchange) else {
            describe(exchange, &opened);
            return Ok(Step::Respond(opened.body(exchange.is_head())));
        };
        let file = match opened.body(true) {
            Body::Piece(file) => file,
            _ => Piece::Bytes(Bytes::new()),
        };
        let wanted = Wanted {
            start_ms,
            length_ms,
            starts_with_key_frame: self.starts_with_key_frame,
            head_bytes_max: self.head_bytes_max,
        };
        exchange.attach(Reach::Own, Rc::new(Video { opened, file: file.clone() }));
        Ok(Step::Await(Work::Job(Box::new(move || Box::new(cut(&file, &wanted))))))
    }
}

fn respond(exchange: &mut Exchange, video: &Video, cut: Option<Cut>) -> Step {
    let pieces = match cut {
        None => {
            describe(exchange, &video.opened);
            vec![video.file.clone()]
        }
        Some(Cut { head, data }) => {
            let length = data.end.saturating_sub(data.start);
            describe_part(exchange, &video.opened, head.len() as u64 + length);
            let mut held = Held::default();
            held.set(head.len());
            exchange.attach(Reach::Own, Rc::new(held));
            vec![Piece::Bytes(head.into()), video.file.slice(data.start, length)]
        }
    };
    // As in nginx one range of a part may be requested, and not several: that is so for a source.
    Step::Respond(Body::Source(Box::new(Whole::new(pieces))))
}

/// The start of the part that the client asks for, and its length, in milliseconds.
fn part(exchange: &Exchange) -> Option<(u64, Option<u64>)> {
    let time = |name| {
        let mut text = Vec::new();
        argument(exchange, name, &mut text);
        milliseconds(&text)
    };
    let (start, end) = (time("start"), time("end").filter(|&end| end > 0));
    let first = start.or(end.map(|_| 0))?;
    Some((first, end.and_then(|end| end.checked_sub(first)).filter(|&length| length > 0)))
}

/// A time in seconds, as milliseconds; further digits are ignored.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let (seconds, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    if text.is_empty() || !seconds.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let digits = seconds.iter().chain(fraction.iter().chain(b"000").take(3));
    let number = digits
        .copied()
        .try_fold(0i64, |number, digit| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
    number.and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::{Wanted, cut, milliseconds, part};
    use crate::testing::Site;

    /// A movie with one track: six samples in four chunks.
    fn movie() -> Vec<u8> {
        let kept = include_bytes!("../../../../../fuzz/seeds/mp4/plain");
        kept[5..].to_vec()
    }

    fn wanted(start_ms: u64, length_ms: Option<u64>, starts_with_key_frame: bool) -> Wanted {
        Wanted { start_ms, length_ms, starts_with_key_frame, head_bytes_max: 1 << 20 }
    }

    fn reason(file: &[u8], start_ms: u64) -> String {
        cut(&file, &wanted(start_ms, None, false)).err().map_or_else(String::new, |error| error.0.into())
    }

    #[test]
    fn a_part_and_the_whole() {
        let file = movie();
        let data = |wanted: &Wanted| {
            let part = cut(&&file[..], wanted).unwrap().unwrap();
            let start = usize::try_from(part.data.start).unwrap();
            file[start..usize::try_from(part.data.end).unwrap()].to_vec()
        };
        assert!(cut(&&file[..], &wanted(0, None, false)).unwrap().is_none(), "it is sent as it is");
        // Samples of 5, 6, 7, 8, 9 and 10 bytes are shown from 0, 500, 1000, 1500, 1900 and 2300 on.
        assert_eq!(data(&wanted(1, None, false)), (0..45).collect::<Vec<u8>>());
        assert_eq!(data(&wanted(600, None, false)), (5..45).collect::<Vec<u8>>());
        assert_eq!(data(&wanted(600, Some(1000), false)), (5..18).collect::<Vec<u8>>());
        assert_eq!(
            data(&wanted(2000, Some(100), true)),
            (18..26).collect::<Vec<u8>>(),
            "from its key frame on"
        );
        assert_eq!(data(&wanted(2000, Some(400), true)), (18..35).collect::<Vec<u8>>());
    }

    #[test]
    fn what_is_no_movie() {
        let file = movie();
        let without = |name: &[u8]| {
            let at = file.windows(name.len()).position(|window| window == name).unwrap();
            let mut file = file.clone();
            file[at] = b'x';
            reason(&file, 700)
        };
        assert_eq!(without(b"trak"), "no mp4 trak atoms were found");
        assert_eq!(without(b"mdat"), "no mp4 mdat atom was found");
        assert_eq!(without(b"stts"), "no mp4 stts atoms were found");
        assert_eq!(without(b"stsc"), "no mp4 stsc atoms were found");
        assert_eq!(without(b"stco"), "no mp4 stco atoms were found");
        assert_eq!(without(b"mvhd"), "", "it is not needed");
        assert_eq!(reason(&file, 2710), "mp4 start time exceeds file duration");
        assert_eq!(reason(&file[..100], 1), "mp4 atom too large:568");
        assert_eq!(reason(&[0; 3], 1), "mp4 file truncated");
        assert_eq!(reason(&[0, 0, 0, 7, 0, 0, 0, 0], 1), "mp4 atom is too small:7");
        assert_eq!(reason(b"", 1), "no mp4 trak atoms were found");
        let twice = [&file[..16], &file[..]].concat();
        assert_eq!(reason(&twice, 1), "duplicate mp4 ftyp atom");
        let small = Wanted { head_bytes_max: 100, ..wanted(1, None, false) };
        assert!(cut(&&file[..], &small).unwrap_err().0.contains("mp4_max_buffer_size"));
    }

    /// Changes bytes of a movie at random: whatever comes of it is an error or a part of the file.
    #[test]
    fn broken_movies_are_errors() {
        let file = movie();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut number = move |end: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % end as u64).unwrap()
        };
        for round in 0..30_000 {
            let mut broken = file.clone();
            for _ in 0..=number(4) {
                let at = number(broken.len());
                broken[at] = [0, 1, 2, 3, 0x7f, 0x80, 0xfe, 0xff][number(8)];
            }
            if number(10) == 0 {
                broken.truncate(number(file.len()));
            }
            let length = (round % 3 > 0).then(|| number(3000) as u64 + 1);
            let part = cut(&&broken[..], &wanted(number(2800) as u64, length, round % 2 == 0));
            if let Ok(Some(part)) = part {
                assert!(part.data.start < part.data.end && part.data.end <= broken.len() as u64);
            }
        }
    }

    #[test]
    fn times_of_a_request() {
        let rows = [("1", 1000), ("1.5", 1500), (".25", 250), ("2.", 2000), ("0.12345", 123), (".", 0)];
        for (text, expected) in rows {
            assert_eq!(milliseconds(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["", "-1", "1e3", "1.2.3", "x", "9223372036854776", "99999999999999999999"] {
            assert_eq!(milliseconds(text.as_bytes()), None, "{text}");
        }
        let site = Site::location("mp4;");
        let part = |query| part(&site.get(&format!("/a.mp4{query}")));
        assert_eq!(part("?start=2&end=5"), Some((2000, Some(3000))));
        assert_eq!(part("?end=5"), Some((0, Some(5000))));
        assert_eq!(part("?start=5&end=5"), Some((5000, None)));
        assert_eq!(part("?start=x&end=0"), None);
        assert_eq!(part(""), None);
    }
}
