//! A connection's bytes: every request in them is read or refused, and the same wherever they are cut.

use h1::{HeadLimits, HeadParser, HeadProgress, parse_all};
use http::RequestHead;
use http::semantics::examine;
use http::uri::{Target, parse_target};

/// Holds the parser to it.
pub fn run(input: &[u8]) {
    let _ = parse_all(input);
    let whole = first_head(input, input.len().max(1));
    assert_eq!(whole, first_head(input, 1), "byte by byte");
    assert_eq!(whole, first_head(input, 7), "in sevens");
}

/// The outcome of the first head when its bytes come in pieces of `step`: what it says, or the error.
fn first_head(input: &[u8], step: usize) -> Option<Result<String, String>> {
    let limits = HeadLimits::default();
    let mut parser = HeadParser::new();
    let mut head = RequestHead::new();
    let mut end = 0;
    while end < input.len() {
        end = (end + step).min(input.len());
        match parser.parse(&input[..end], &mut head, &limits) {
            Ok(HeadProgress::Complete { consumed }) => return Some(Ok(describe(&head, consumed))),
            Ok(_) => {}
            Err(error) => return Some(Err(format!("{error:?}"))),
        }
    }
    None
}

fn describe(head: &RequestHead, consumed: usize) -> String {
    let mut target = Target::default();
    let parsed = parse_target(head.target(), true, &mut target);
    let framing = parsed.map_err(Into::into).and_then(|()| examine(head, &mut target));
    let fields: Vec<_> = head.fields.iter().collect();
    assert!(fields.iter().all(|field| !field.value.contains(&b'\n')));
    format!("{consumed} {:?} {fields:?} {framing:?}", head.line())
}
