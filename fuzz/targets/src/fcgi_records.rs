//! Answers of FastCGI applications: the same head, content, messages and end, or the same error, however
//! the bytes are cut. The first byte of the input chooses the cuts.

use fcgi::{Decoder, Event, HeadParser, MESSAGE_LIMIT, TOTAL_LIMIT};

/// Bytes that a head may have.
const HEAD_LIMIT: usize = 256;

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let Some((&seed, answer)) = input.split_first() else { return };
    let whole = read(answer, std::iter::once(answer.len()));
    assert_eq!(whole, read(answer, crate::cuts(seed)), "pieces of up to nine bytes");
    assert_eq!(whole, read(answer, std::iter::repeat(1)), "byte by byte");
    assert!(whole.messages.iter().all(|message| !message.is_empty() && message.len() <= MESSAGE_LIMIT));
    assert!(whole.messages.iter().map(Vec::len).sum::<usize>() <= TOTAL_LIMIT);
}

/// What an answer came to.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    head: Option<String>,
    content: Vec<u8>,
    messages: Vec<Vec<u8>>,
    end: String,
}

fn read(input: &[u8], cuts: impl Iterator<Item = usize>) -> Answer {
    let mut decoder = Decoder::new();
    let mut parser = HeadParser::new(HEAD_LIMIT);
    let mut answer = Answer::default();
    let mut at = 0;
    for cut in cuts {
        let end = input.len().min(at + cut);
        if let Err(error) = read_piece(&input[at..end], &mut decoder, &mut parser, &mut answer) {
            answer.end.push_str(&error.to_string());
            return answer;
        }
        at = end;
        if at == input.len() {
            break;
        }
    }
    answer
}

fn read_piece(
    piece: &[u8],
    decoder: &mut Decoder,
    parser: &mut HeadParser,
    answer: &mut Answer,
) -> Result<(), fcgi::Error> {
    let mut at = 0;
    loop {
        match decoder.decode(&piece[at..])? {
            Event::Stdout { skip, length } => {
                assert!(length > 0);
                let mut output = &piece[at + skip..at + skip + length];
                at += skip + length;
                if answer.head.is_none() {
                    let Some((head, consumed)) = parser.parse(output)? else { continue };
                    assert!((200..1000).contains(&head.status.0));
                    let fields = head.fields.iter().collect::<Vec<_>>();
                    answer.head = Some(format!("{:?} {:?} {fields:?}", head.status, head.reason));
                    output = &output[consumed..];
                }
                answer.content.extend_from_slice(output);
            }
            Event::StdoutEnd { consumed } => {
                at += consumed;
                answer.end.push_str("stdout closed, ");
            }
            Event::Stderr { consumed } => {
                at += consumed;
                answer.messages.push(decoder.message().to_vec());
            }
            Event::End { consumed, app_status, protocol_status } => {
                at += consumed;
                answer.end.push_str(&format!("{app_status} {protocol_status:?}, "));
            }
            Event::NeedMore { consumed } => {
                assert_eq!(at + consumed, piece.len());
                return Ok(());
            }
        }
    }
}
