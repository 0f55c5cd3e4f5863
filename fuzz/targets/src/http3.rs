//! The bytes of the streams of a connection in HTTP/3: every one is read or ends the connection, and the same wherever the
//! bytes are cut.

use http3::{Code, Failure, read_all, read_all_of_server, read_sections};

/// A control stream with empty settings, an encoder stream that makes a table with `a: b`, and a request that needs it: steps
/// of a script.
const OPENING: &[&[u8]] = &[
    &[4, 3, 0, 4, 0],
    &[5, 8, 2, 0x3f, 0xbd, 1, 0x41, b'a', 1, b'b'],
    &[0, 11, 1, 9, 2, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'h', 0x80],
];

/// The longest script: what a peer may spend is counted by pieces, so that a long one may be a flood only in small pieces.
const SCRIPT_MAX: usize = 900;

/// Holds the machine of a server to it.
pub fn run(input: &[u8]) {
    compare(input, read_all);
}

/// Holds the machine of a client to it: the bytes are those of a server.
pub fn run_as_client(input: &[u8]) {
    compare(input, read_all_of_server);
}

/// Fields that are decoded can be encoded and read again.
pub fn run_qpack(input: &[u8]) {
    let (&length, rest) = input.split_first().unwrap_or((&0, &[]));
    let (instructions, sections) = rest.split_at(rest.len().min(usize::from(length)));
    read_sections(instructions, sections);
}

fn compare<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    read: impl Fn(&[u8], usize) -> (T, Result<(), Failure>),
) {
    let (&seed, rest) = input.split_first().unwrap_or((&0, &[]));
    let rest = &rest[..rest.len().min(SCRIPT_MAX)];
    let script = match seed {
        0 => rest.to_vec(),
        _ => [&OPENING.concat(), rest].concat(),
    };
    let (whole, pieces) = (read(&script, usize::MAX), read(&script, usize::from(seed).max(1)));
    let is_flood =
        |result: Result<(), Failure>| result.is_err_and(|failure| failure.code == Code::EXCESSIVE_LOAD);
    if is_flood(whole.1) || is_flood(pieces.1) {
        return;
    }
    assert_eq!(whole.1.is_err(), pieces.1.is_err(), "{:?} {:?}", whole.1, pieces.1);
    if whole.1.is_ok() {
        assert_eq!(whole.0, pieces.0);
    }
}
