//! What holds for any bytes whatever.

use crate::frame::{FrameHead, PREFACE, flag, kind};
use crate::hpack::{Decoder, Encoder, Indexing};
use crate::testing::frame;
use crate::{HeaderList, read_all};
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

/// A block with the fields of a request.
const REQUEST: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'h'];

/// Frames of which many are well formed.
pub(crate) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let stream = select(&[0u32, 1, 1, 3, 3, 5, 2, 7, 9][..]);
    let flags = select(&[0u8, 1, 4, 5, 5, 8, 0xd, 0x20, 0x25][..]);
    let block = prop_oneof![
        4 => select(vec![REQUEST.to_vec(), [REQUEST, &[0x0f, 0x0d, 1, b'5']].concat(), vec![0x40, 1, b'a', 1, b'b']]),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    let headers = (stream.clone(), flags.clone(), block).prop_map(|(stream, flags, block)| {
        let priority: &[u8] = if flags & flag::PRIORITY != 0 { &[0, 0, 0, 0, 9] } else { &[] };
        let padding: (&[u8], &[u8]) = if flags & flag::PADDED != 0 { (&[2], &[0, 0]) } else { (&[], &[]) };
        frame(kind::HEADERS, flags, stream, &[padding.0, priority, &block, padding.1].concat())
    });
    let data = (stream.clone(), flags.clone(), prop::collection::vec(any::<u8>(), 0..12))
        .prop_map(|(stream, flags, bytes)| frame(kind::DATA, flags & !4, stream, &bytes));
    let number = (stream.clone(), select(&[3u8, 8][..]), select(&[0u32, 1, 5, 1000, (1 << 31) - 1][..]))
        .prop_map(|(stream, kind, number)| frame(kind, 0, stream, &number.to_be_bytes()));
    let settings =
        (select(&[0u8, 0, 1][..]), select(&[1u8, 2, 3, 4, 5, 6, 9][..]), select(&[0u32, 1, 100, 65_536][..]))
            .prop_map(|(flags, name, value)| {
                let payload = [&[0, name][..], &value.to_be_bytes()].concat();
                frame(kind::SETTINGS, flags, 0, if flags == 0 { &payload } else { &[] })
            });
    let other = (any::<u8>(), flags, stream, prop::collection::vec(any::<u8>(), 0..12))
        .prop_map(|(kind, flags, stream, bytes)| frame(kind % 12, flags, stream, &bytes));
    let ping = any::<[u8; 8]>().prop_map(|bytes| frame(kind::PING, 0, 0, &bytes));
    prop_oneof![8 => headers, 8 => data, 3 => number, 2 => settings, 1 => other, 1 => ping]
}

fn connections() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(frames(), 0..30)
        .prop_map(|frames| [PREFACE, &frame(kind::SETTINGS, 1, 0, &[]), &frames.concat()].concat())
}

/// The fields, and in what way each is indexed.
fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>, bool)>> {
    let name = select(&["server", "x-a", "x-b", "etag", "content-type", "set-cookie", ":status"][..]);
    let value = prop_oneof![
        select(vec![b"200".to_vec(), b"text/html".to_vec(), Vec::new(), vec![b'x'; 600]]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec((name.prop_map(str::to_owned), value, any::<bool>()), 0..12)
}

/// The sums of content by stream and in all, and of what the peer was allowed to get.
fn sent_data(out: &[u8]) -> usize {
    let (mut rest, mut sum) = (out, 0);
    while let Some(head) = FrameHead::read(rest) {
        sum += if head.kind == kind::DATA { head.length } else { 0 };
        rest = &rest[9 + head.length..];
    }
    assert!(rest.is_empty(), "a part of a frame was sent");
    sum
}

proptest! {
    #[test]
    fn connections_do_not_depend_on_how_they_arrive(
        input in prop_oneof![9 => connections(), 1 => prop::collection::vec(any::<u8>(), 0..100)],
        step in 1..30usize,
    ) {
        let whole = read_all(&input, std::iter::empty());
        let pieces = read_all(&input, (0..input.len()).step_by(step));
        prop_assert_eq!(&whole, &pieces);
        sent_data(&whole.1);
    }

    #[test]
    fn windows_are_respected(
        windows in prop::collection::vec(0..40u32, 0..6),
        content in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        // The client allows nothing at first, then some, and sends content that is sent back to it.
        let settings = frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let mut input = [PREFACE, &settings, &frame(kind::SETTINGS, 1, 0, &[]), &frame(kind::HEADERS, 4, 1, REQUEST)].concat();
        for window in &windows {
            input.extend(frame(kind::WINDOW_UPDATE, 0, 1, &(window + 1).to_be_bytes()));
        }
        input.extend(frame(kind::DATA, 1, 1, &content));
        let allowed: usize = windows.iter().map(|&window| window as usize + 1).sum();
        let (_, out, result) = read_all(&input, std::iter::empty());
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(sent_data(&out), allowed.min(content.len()));
    }

    #[test]
    fn blocks_read_back(blocks in prop::collection::vec((fields(), 0..5000usize), 0..10)) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for (fields, table_size) in blocks {
            if table_size < 300 {
                encoder.allow(table_size);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value, repeats) in &fields {
                let indexing = if *repeats { Indexing::Repeated } else { Indexing::Volatile };
                encoder.field(name.as_bytes(), value, indexing, &mut block);
            }
            let mut list = HeaderList::new(100_000);
            prop_assert!(decoder.decode(&block, &mut list).is_ok());
            let expected = fields.iter().map(|(name, value, _)| (name.as_bytes(), &value[..]));
            prop_assert!(list.iter().eq(expected));
        }
    }
}
