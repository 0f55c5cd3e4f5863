//! What another server answers over HTTP/1: the same head, content and end, or the same error, however the bytes are
//! cut. The first byte of the input says whether HEAD was asked for.

use h1::{Chunk, ReceivedHead, ResponseDecoder, examine_response, parse_response};

/// Bytes that a head may have.
const HEAD_LIMIT: usize = 512;

/// Holds the parsers to it.
pub fn run(input: &[u8]) {
    let Some((&first, answer)) = input.split_first() else { return };
    let is_head = first % 2 == 1;
    let whole = read(answer, answer.len().max(1), is_head);
    assert_eq!(whole, read(answer, 1, is_head), "byte by byte");
    assert_eq!(whole, read(answer, 7, is_head), "in sevens");
}

/// What an answer came to.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    head: String,
    content: Vec<u8>,
    end: String,
}

fn read(input: &[u8], step: usize, is_head: bool) -> Answer {
    let mut answer = Answer::default();
    let mut end = 0;
    let mut head = ReceivedHead::default();
    let consumed = loop {
        end = (end + step).min(input.len());
        match parse_response(&input[..end], HEAD_LIMIT, &mut head) {
            Ok(Some(consumed)) => break consumed,
            Ok(None) if end == input.len() => return answer,
            Ok(None) => {}
            Err(error) => {
                answer.end = error.to_string();
                return answer;
            }
        }
    };
    assert!(consumed <= end && head.fields.iter().all(|field| !field.value.contains(&b'\n')));
    answer.head = format!("{:?} {:?}", head.status, head.fields.iter().collect::<Vec<_>>());
    match examine_response(&head, is_head) {
        Ok(framing) => content(&input[consumed..], step, ResponseDecoder::new(framing.body), &mut answer),
        Err(error) => answer.end = error.to_string(),
    }
    answer
}

fn content(input: &[u8], step: usize, mut decoder: ResponseDecoder, answer: &mut Answer) {
    let (mut at, mut end) = (0, 0);
    loop {
        match decoder.decode(&input[at..end]) {
            Ok(Chunk::Data { skip, length }) => {
                assert!(length > 0);
                answer.content.extend_from_slice(&input[at + skip..at + skip + length]);
                at += skip + length;
            }
            Ok(Chunk::End { consumed }) => {
                answer.end = format!("whole after {}", at + consumed);
                return;
            }
            Ok(Chunk::NeedMore { .. }) if end == input.len() => return,
            Ok(Chunk::NeedMore { consumed }) => {
                at += consumed;
                end = (end + step).min(input.len());
            }
            Err(error) => {
                answer.end = format!("{error:?}");
                return;
            }
        }
    }
}
