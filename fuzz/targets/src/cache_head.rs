//! The head of a file of a cache: any bytes are a head or an error, and a head that is written reads back.

use cache::{Head, HeadError};

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    read(input);
    // A head with the right checksum, which an input cannot guess, so that more than the first look is tried.
    let mut whole = input.to_vec();
    Head::seal(&mut whole);
    read(&whole);
}

fn read(bytes: &[u8]) {
    match Head::decode(bytes) {
        Ok((head, length)) => {
            let written = head.encode().expect("what was read can be written");
            assert_eq!(written.len(), length);
            let (again, _) = Head::decode(&written).expect("what was written can be read");
            assert_eq!(again.encode(), Some(written));
        }
        Err(HeadError::Short(length)) => assert!(length > bytes.len()),
        Err(HeadError::Damaged) => {}
    }
}
