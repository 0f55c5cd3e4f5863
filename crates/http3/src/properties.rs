//! What holds for any bytes whatever.

use crate::frame::kind;
use crate::qpack::{Decoder, Section};
use crate::testing::{frame, number};
use crate::{Code, Failure, HeaderList, SectionWriter, read_all, read_all_of_server, read_sections};
use http::multiplexed::FieldWriter;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

/// A section with the fields of a request, and one that needs an entry of the dynamic table.
const REQUEST: &[u8] = &[0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'h'];
const DYNAMIC: &[u8] = &[2, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'h', 0x80];

/// Makes a table and adds `a: b`.
const INSERT: &[u8] = &[0x3f, 0xbd, 1, 0x41, b'a', 1, b'b'];

/// A step of a script.
fn step(first: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    [&[first, length], &bytes[..usize::from(length)]].concat()
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let section = prop_oneof![
        6 => select(vec![
            REQUEST.to_vec(),
            DYNAMIC.to_vec(),
            [REQUEST, &[0x54, 1, b'5']].concat(),
            [&[0, 0][..], &[0x21, b'a', 1, b'b']].concat(),
            [&[0, 0][..], &[0xd9]].concat(),
        ]),
        1 => bytes(),
    ];
    let known =
        select(&[kind::GOAWAY, kind::MAX_PUSH_ID, kind::CANCEL_PUSH, kind::PRIORITY_UPDATE, 0x21, 2][..]);
    prop_oneof![
        5 => section.prop_map(|section| frame(kind::HEADERS, &section)),
        5 => bytes().prop_map(|bytes| frame(kind::DATA, &bytes)),
        1 => (known, 0..50u64).prop_map(|(kind, value)| frame(kind, &number(value))),
        1 => bytes(),
    ]
}

/// A script in which the control stream and the instructions come first, or in the middle.
fn scripts(control: u8, instructions: u8) -> impl Strategy<Value = Vec<u8>> {
    let flags = select(&[0u8, 0, 0x80, 0x80, 0x40][..]);
    let steps = (0..8u8, flags, prop::collection::vec(frames(), 0..4))
        .prop_map(|(stream, flags, frames)| step(stream | flags, &frames.concat()));
    let steps = prop::collection::vec(steps, 0..10);
    (steps, 0..6usize, any::<bool>()).prop_map(move |(mut steps, place, has_control)| {
        steps.insert(place.min(steps.len()), step(instructions, &[&[2], INSERT].concat()));
        if has_control {
            steps.insert(0, step(control, &[0, 4, 2, 6, 9]));
        }
        steps.concat()
    })
}

/// Whether both came to the same. Floods are counted by pieces, and a fault may be seen before what came ahead of it.
fn is_same<T: PartialEq>(
    (one, first): &(T, Result<(), Failure>),
    (other, second): &(T, Result<(), Failure>),
) -> bool {
    let is_flood =
        |result: &Result<(), Failure>| result.is_err_and(|failure| failure.code == Code::EXCESSIVE_LOAD);
    if is_flood(first) || is_flood(second) {
        return true;
    }
    first.is_err() == second.is_err() && (first.is_err() || one == other)
}

fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name =
        select(&["server", "x-a", "etag", "content-type", "set-cookie", ":status", ":path", "vary"][..]);
    let value = prop_oneof![
        select(vec![b"200".to_vec(), b"text/css".to_vec(), Vec::new(), vec![b'x'; 600]]),
        prop::collection::vec(
            any::<u8>().prop_filter("no end of a line", |byte| !b"\r\n\0".contains(byte)),
            0..40
        ),
    ];
    prop::collection::vec((name.prop_map(str::to_owned), value), 0..12)
}

proptest! {
    #[test]
    fn clients_are_read_the_same_however_their_bytes_are_cut(
        script in prop_oneof![9 => scripts(4, 5), 1 => prop::collection::vec(any::<u8>(), 0..100)],
        piece in 1..30usize,
    ) {
        let (whole, pieces) = (read_all(&script, usize::MAX), read_all(&script, piece));
        prop_assert!(is_same(&whole, &pieces), "{whole:?}\n{pieces:?}");
    }

    #[test]
    fn servers_are_read_the_same_however_their_bytes_are_cut(
        script in prop_oneof![9 => scripts(4, 5), 1 => prop::collection::vec(any::<u8>(), 0..100)],
        piece in 1..30usize,
    ) {
        let (whole, pieces) = (read_all_of_server(&script, usize::MAX), read_all_of_server(&script, piece));
        prop_assert!(is_same(&whole, &pieces), "{whole:?}\n{pieces:?}");
    }

    #[test]
    fn sections_read_back(fields in fields()) {
        let mut section = Vec::new();
        let mut writer = SectionWriter::new(&mut section);
        fields.iter().for_each(|(name, value)| writer.add(name.as_bytes(), value));
        let mut list = HeaderList::new(100_000);
        let read = Decoder::new(0).decode(&section, &mut list);
        prop_assert_eq!(read, Ok(Section::Read { required: 0 }));
        prop_assert!(list.iter().eq(fields.iter().map(|(name, value)| (name.as_bytes(), &value[..]))));
    }

    #[test]
    fn any_bytes_are_instructions_and_sections_or_an_error(
        instructions in prop::collection::vec(any::<u8>(), 0..60),
        sections in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        read_sections(&instructions, &sections);
        read_sections(&[INSERT, &instructions].concat(), &sections);
    }
}
