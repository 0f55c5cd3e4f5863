//! A connection's bytes in HTTP/2: every frame is read or ends the connection, and the same wherever they are cut. What
//! follows the preface and the first frame is made up.

use http2::{PREFACE, read_all, read_all_of_server};

/// A frame with no settings, and the acknowledgement of those of the server.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];

/// Holds the machine to it.
pub fn run(input: &[u8]) {
    let (&seed, rest) = input.split_first().unwrap_or((&0, &[]));
    let connection = match seed {
        0 => rest.to_vec(),
        _ => [PREFACE, SETTINGS, rest].concat(),
    };
    let ends = crate::cuts(seed).scan(0, |end, length| {
        *end += length;
        (*end < connection.len()).then_some(*end)
    });
    let whole = read_all(&connection, std::iter::empty());
    let pieces = read_all(&connection, ends);
    assert_eq!(whole, pieces);
}

/// Holds the machine of a client to it: the bytes are those of a server.
pub fn run_as_client(input: &[u8]) {
    let (&seed, rest) = input.split_first().unwrap_or((&0, &[]));
    let connection = match seed {
        0 => rest.to_vec(),
        _ => [SETTINGS, rest].concat(),
    };
    let ends = crate::cuts(seed).scan(0, |end, length| {
        *end += length;
        (*end < connection.len()).then_some(*end)
    });
    let whole = read_all_of_server(&connection, std::iter::empty());
    let pieces = read_all_of_server(&connection, ends);
    assert_eq!(whole, pieces);
}
