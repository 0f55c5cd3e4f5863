//! The head of an application's answer (CGI): the same head and the same end of it, or the same error, however the
//! bytes are cut.

use fcgi::HeadParser;

/// Bytes that a head may have.
const HEAD_LIMIT: usize = 256;

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let whole = read(input, input.len().max(1));
    assert_eq!(whole, read(input, 1), "byte by byte");
    assert_eq!(whole, read(input, 5), "in fives");
}

/// The head and where it ends; an error's text; `None` where more is needed.
fn read(input: &[u8], step: usize) -> Option<Result<(String, usize), String>> {
    let mut parser = HeadParser::new(HEAD_LIMIT);
    let mut at = 0;
    while at < input.len() {
        let end = (at + step).min(input.len());
        match parser.parse(&input[at..end]) {
            Ok(Some((head, consumed))) => {
                assert!((200..1000).contains(&head.status.0), "{:?}", head.status);
                let fields: Vec<_> = head.fields.iter().collect();
                assert!(fields.iter().all(|field| !field.value.contains(&b'\n')));
                return Some(Ok((format!("{:?} {:?} {fields:?}", head.status, head.reason), at + consumed)));
            }
            Ok(None) => at = end,
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    None
}
