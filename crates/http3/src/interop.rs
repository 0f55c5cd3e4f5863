//! Our QPACK next to that of LiteSpeed, by its package for Python.

use crate::frame::kind;
use crate::testing::{Side, frame};
use crate::{Event, Own, SectionWriter};
use http::multiplexed::FieldWriter;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("interop.py");

/// How many requests are sent.
const REQUESTS: u64 = 2000;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A process of Python. It ends when dropped.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Without the package a line is printed, and in CI the test fails.
    fn start() -> Option<Peer> {
        let python = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/qpack/bin/python3"));
        if !python.exists() {
            assert!(env::var_os("CI").is_none(), "no pylsqpack to test with; `make install` installs it");
            let _ = writeln!(std::io::stderr(), "skipped: no pylsqpack");
            return None;
        }
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Peer { child, input, output })
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").unwrap();
        let mut answer = String::new();
        assert!(self.output.read_line(&mut answer).unwrap() > 0, "the peer rejected {question}");
        answer.trim_end().to_owned()
    }

    /// Instructions and the section.
    fn encode(&mut self, stream: u64, fields: &Fields) -> (Vec<u8>, Vec<u8>) {
        let answer = self.ask(&format!("encode {stream} {}", text_of(fields)));
        let (instructions, section) = answer.split_once(',').unwrap();
        (bytes_of(instructions), bytes_of(section))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn text_of(fields: &Fields) -> String {
    let texts: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}:{}", digits_of(name), digits_of(value))).collect();
    texts.join(" ")
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn fields(&mut self) -> Fields {
        let names =
            ["accept", "user-agent", "x-one", "x-two", "cookie", "a-name-that-is-a-little-longer", ":path"];
        let mut fields = Vec::new();
        for _ in 0..self.below(8) {
            let name = names[usize::try_from(self.below(7)).unwrap()];
            let value = match self.below(4) {
                0 => Vec::new(),
                1 => vec![b'v'; usize::try_from(self.below(100)).unwrap()],
                2 => (0..self.below(60))
                    .map(|_| self.0.to_be_bytes()[0] | 1)
                    .filter(|byte| !b"\r\n".contains(byte))
                    .collect(),
                _ => format!("value {}", self.below(20)).into_bytes(),
            };
            fields.push((name.as_bytes().to_vec(), value));
        }
        fields
    }
}

/// Sections refer to a dynamic table. Some come ahead of the instructions that they need, and what we tell the encoder is
/// what it expects.
#[test]
fn we_decode_what_lsqpack_encodes() {
    let Some(mut peer) = Peer::start() else { return };
    let (mut side, mut numbers) = (Side::server(), Numbers(1));
    let instructions = bytes_of(&peer.ask("settings 4096 16"));
    side.opened(6, &[&[2], &instructions[..]].concat(), false).unwrap();
    // The type of the stream is not for QPACK.
    side.connection.sent(Own::Decoder, 1);
    let (mut blocked, mut acknowledged) = (0, 0);
    for stream in (0..REQUESTS).map(|index| 4 * index) {
        let fields = numbers.fields();
        let (instructions, section) = peer.encode(stream, &fields);
        let mut events = Vec::new();
        if numbers.below(2) == 0 {
            assert_eq!(side.take(6, &instructions, false).unwrap(), []);
            events.extend(side.opened(stream, &frame(kind::HEADERS, &section), false).unwrap());
        } else {
            events.extend(side.opened(stream, &frame(kind::HEADERS, &section), false).unwrap());
            if side.take(6, &instructions, false).unwrap() == [Event::Unblocked { stream }] {
                blocked += 1;
                events.extend(side.take(stream, &[], false).unwrap());
            }
        }
        assert_eq!(events, [Event::Request { stream, ends: false, length: section.len() }]);
        let read: Fields = side.list.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        assert_eq!(read, fields);
        let feedback = side.connection.own(Own::Decoder).to_vec();
        acknowledged += usize::from(feedback.iter().any(|byte| byte & 0x80 != 0));
        if !feedback.is_empty() && numbers.below(4) > 0 {
            peer.ask(&format!("feedback {}", digits_of(&feedback)));
            side.connection.sent(Own::Decoder, feedback.len());
        }
        side.connection.data(stream, 0, true, &mut Vec::new());
        side.take(stream, &[], true).unwrap();
        side.connection.release(stream, crate::Code::INTERNAL_ERROR).unwrap();
    }
    assert!(blocked > 20 && acknowledged > 500, "{blocked} blocked, {acknowledged} acknowledged");
}

/// All entries of the static table, and others.
#[test]
fn lsqpack_decodes_what_we_encode() {
    let Some(mut peer) = Peer::start() else { return };
    let mut numbers = Numbers(2);
    let mut sections: Vec<Fields> = (0..REQUESTS).map(|_| numbers.fields()).collect();
    let entries = (0..99).filter_map(crate::qpack::static_entry);
    sections.extend(
        entries.map(|(name, value)| vec![(name.to_vec(), value.to_vec()), (name.to_vec(), b"1".to_vec())]),
    );
    // LiteSpeed rejects a section without fields.
    for fields in sections.into_iter().filter(|fields| !fields.is_empty()) {
        let mut section = Vec::new();
        let mut writer = SectionWriter::new(&mut section);
        fields.iter().for_each(|(name, value)| writer.add(name, value));
        assert_eq!(peer.ask(&format!("decode {}", digits_of(&section))), text_of(&fields));
    }
}
