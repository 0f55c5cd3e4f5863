//! What holds for any bytes whatever.

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use crate::record::{END_REQUEST, PARAMS, STDERR, STDOUT};
use crate::{
    Decoder, Error, Event, Head, HeadParser, MESSAGE_LIMIT, Params, encode_abort, encode_begin, encode_stdin,
    encode_stdin_end,
};

/// An answer, or a prefix of one, as a driver sees it.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    stdout: Vec<u8>,
    messages: Vec<Vec<u8>>,
    stdout_closed: bool,
    ended: Option<u32>,
    error: Option<Error>,
    consumed: usize,
}

/// Reads an answer that arrives in pieces of `step` bytes.
fn read_answer(input: &[u8], step: usize) -> Answer {
    let mut decoder = Decoder::new();
    let mut answer = Answer::default();
    let (mut start, mut end) = (0, 0);
    loop {
        let consumed = match decoder.decode(&input[start..end]) {
            Ok(Event::Stdout { skip, length }) => {
                assert!(length > 0);
                answer.stdout.extend_from_slice(&input[start + skip..start + skip + length]);
                skip + length
            }
            Ok(Event::StdoutEnd { consumed }) => {
                answer.stdout_closed = true;
                consumed
            }
            Ok(Event::Stderr { consumed }) => {
                answer.messages.push(decoder.message().to_vec());
                consumed
            }
            Ok(Event::End { consumed, app_status, .. }) => {
                answer.ended = Some(app_status);
                consumed
            }
            Ok(Event::NeedMore { consumed }) if end == input.len() => {
                answer.consumed = start + consumed;
                return answer;
            }
            Ok(Event::NeedMore { consumed }) => {
                assert_eq!(start + consumed, end);
                end = (end + step).min(input.len());
                consumed
            }
            Err(error) => {
                answer.error = Some(error);
                return answer;
            }
        };
        start += consumed;
    }
}

/// A record of an answer.
fn record(record_type: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let header = [1, record_type, 0, 1, high, low, padding, 0];
    [&header[..], content, &vec![0xee; usize::from(padding)]].concat()
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..300)
}

/// Answers of which most are right, and all are in records.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let types = select(vec![STDOUT, STDOUT, STDOUT, STDERR, STDERR, END_REQUEST, 5]);
    let record = (types, prop::collection::vec(any::<u8>(), 0..40), any::<u8>())
        .prop_map(|(record_type, content, padding)| record(record_type, &content, padding));
    prop::collection::vec(record, 0..10).prop_map(|records| records.concat())
}

/// Heads made of lines, right and wrong.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "Status", "Location", "X-A", ": ", ":", "404", "99999", " ", "\r\n", "\n", "\n", "\r", "\0",
        "HTTP/1.1",
    ];
    let piece = prop_oneof![
        9 => select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// What a head that arrives in pieces of `step` bytes comes to, with its length.
fn read_head(input: &[u8], step: usize, limit: usize) -> Result<Option<(String, usize)>, Error> {
    let mut parser = HeadParser::new(limit);
    let mut start = 0;
    for piece in input.chunks(step) {
        if let Some((head, consumed)) = parser.parse(piece)? {
            return Ok(Some((shown(&head), start + consumed)));
        }
        start += piece.len();
    }
    Ok(None)
}

fn shown(head: &Head) -> String {
    let fields: Vec<_> = head.fields.iter().collect();
    format!("{:?} {:?} {fields:?}", head.status, head.reason)
}

/// The contents of the records in a request, by type, with the lengths of those records.
fn request_records(mut input: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while let [1, record_type, 0, 1, high, low, padding, 0, rest @ ..] = input {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        records.push((*record_type, rest[..length].to_vec()));
        input = &rest[length + usize::from(*padding)..];
        assert_eq!((length + usize::from(*padding)) % 8, 0, "records are aligned");
    }
    assert_eq!(input, [0u8; 0]);
    records
}

/// The pairs of a stream of parameters.
fn pairs(mut stream: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn length(stream: &mut &[u8]) -> usize {
        let short = stream[0] < 128;
        let (taken, rest) = stream.split_at(if short { 1 } else { 4 });
        *stream = rest;
        taken.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)) & 0x7fff_ffff
    }
    let mut pairs = Vec::new();
    while !stream.is_empty() {
        let (name, value) = (length(&mut stream), length(&mut stream));
        pairs.push((stream[..name].to_vec(), stream[name..name + value].to_vec()));
        stream = &stream[name + value..];
    }
    pairs
}

proptest! {
    #[test]
    fn answers_do_not_depend_on_how_they_arrive(
        input in prop_oneof![answers(), prop::collection::vec(any::<u8>(), 0..200)],
        step in 2..30usize,
    ) {
        let whole = read_answer(&input, input.len().max(1));
        prop_assert!(whole.consumed <= input.len());
        prop_assert!(whole.messages.iter().all(|message| (1..=MESSAGE_LIMIT).contains(&message.len())));
        prop_assert_eq!(&whole, &read_answer(&input, 1));
        prop_assert_eq!(&whole, &read_answer(&input, step));
    }

    #[test]
    fn answers_are_decoded_to_what_was_encoded(
        parts in prop::collection::vec((any::<bool>(), contents(), any::<u8>()), 0..10),
        app_status in any::<u32>(),
        step in 1..400usize,
    ) {
        let mut input = Vec::new();
        let mut stdout = Vec::new();
        for (is_stdout, content, padding) in &parts {
            input.extend(record(if *is_stdout { STDOUT } else { STDERR }, content, *padding));
            if *is_stdout {
                stdout.extend_from_slice(content);
            }
        }
        input.extend(record(STDOUT, b"", 3));
        input.extend(record(END_REQUEST, &[&app_status.to_be_bytes()[..], &[0; 4]].concat(), 0));
        let answer = read_answer(&input, step);
        prop_assert_eq!(answer.error, None);
        prop_assert_eq!((answer.stdout, answer.stdout_closed), (stdout, true));
        prop_assert_eq!((answer.ended, answer.consumed), (Some(app_status), input.len()));
    }

    #[test]
    fn heads_do_not_depend_on_how_they_arrive(input in heads(), limit in prop_oneof![1..60usize, 4096..4097usize]) {
        let whole = read_head(&input, input.len().max(1), limit);
        prop_assert_eq!(&whole, &read_head(&input, 1, limit));
        if let Ok(Some((_, consumed))) = &whole {
            prop_assert!(*consumed <= input.len().min(limit));
            prop_assert_eq!(&whole, &read_head(&input[..*consumed], 3, limit));
        }
    }

    #[test]
    fn requests_say_what_they_were_given(
        given in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), prop::collection::vec(any::<u8>(), 0..40_000)), 0..6),
        body in prop::collection::vec(any::<u8>(), 0..200_000),
        keep in any::<bool>(),
    ) {
        let mut out = Vec::new();
        encode_begin(keep, &mut out);
        let mut params = Params::begin(&mut out);
        for (name, value) in &given {
            params.push(name, value).unwrap();
        }
        params.end();
        encode_stdin(&body, &mut out);
        encode_stdin_end(&mut out);
        encode_abort(&mut out);
        let records = request_records(&out);
        let stream = |record_type: u8| {
            let of_type: Vec<_> = records.iter().filter(|(found, _)| *found == record_type).collect();
            let (last, before) = of_type.split_last().unwrap();
            assert!(last.1.is_empty() && before.iter().all(|(_, content)| !content.is_empty()));
            before.iter().flat_map(|(_, content)| content.clone()).collect::<Vec<u8>>()
        };
        prop_assert_eq!(&records[0], &(1, vec![0, 1, u8::from(keep), 0, 0, 0, 0, 0]));
        prop_assert_eq!(pairs(&stream(PARAMS)), given);
        prop_assert_eq!(stream(5), body);
        prop_assert_eq!(records.last(), Some(&(2, Vec::new())));
    }
}
