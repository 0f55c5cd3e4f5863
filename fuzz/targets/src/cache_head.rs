//! The head of a file of a cache: any bytes are a head or an error, and a head that is written reads back.

use cache::{Head, HeadError};

/// The digest and the length of a head, which an input cannot guess.
const DIGEST: std::ops::Range<usize> = 8..16;
const LENGTH: std::ops::Range<usize> = 16..20;

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    read(input);
    // A head of this length with the right digest, so that more than the first look is tried.
    let mut whole = [&b"FULMARc1"[..], input.get(8..).unwrap_or_default()].concat();
    if let (Ok(length), Some(place)) = (u32::try_from(whole.len()), whole.get_mut(LENGTH)) {
        place.copy_from_slice(&length.to_le_bytes());
        let digest = Head::digest(&whole);
        whole[DIGEST].copy_from_slice(&digest);
        read(&whole);
    }
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
