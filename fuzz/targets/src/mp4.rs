//! Movies of which a part is wanted. The first five bytes of the input say which part, the others are the file. Whatever the file
//! claims to be, a part is a range of the file, and its new head is a list of boxes and not much longer than the file.

use modules::files::mp4::{Wanted, cut};

/// How long the index of a movie may be, in bytes.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Holds `mp4` to it.
pub fn run(input: &[u8]) {
    let Some((&[how, a, b, c, d], file)) = input.split_first_chunk() else { return };
    let length = u64::from(u16::from_be_bytes([c, d]));
    let wanted = Wanted {
        start_ms: u64::from(u16::from_be_bytes([a, b])),
        length_ms: (length > 0).then_some(length),
        starts_with_key_frame: how & 1 != 0,
        head_bytes_max: HEAD_BYTES_MAX,
    };
    let Ok(Some(part)) = cut(&file, &wanted) else { return };
    assert!(part.data.start < part.data.end && part.data.end <= file.len() as u64);
    assert!(part.head.len() <= 3 * file.len() + 1024, "{} bytes of {}", part.head.len(), file.len());
    let mut rest = &part.head[..];
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk().unwrap()) as usize;
        if &rest[4..8] == b"mdat" {
            assert_eq!(length as u64, 8 + part.data.end - part.data.start);
            assert_eq!(rest.len(), 8, "the data follows");
            return;
        }
        rest = &rest[length..];
    }
}
