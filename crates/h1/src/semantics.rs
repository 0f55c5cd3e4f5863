//! Tests of what heads that were parsed mean for their message and their connection.

use http::RequestHead;
use http::semantics::{BodyLength, Framing, OTHER_SINGLES, examine};
use http::uri::{Target, parse_target};

use crate::{HeadLimits, HeadParser, HeadProgress};

/// The framing of a request with this line and these fields, or the status of its refusal.
fn framing(line: &str, fields: &[&str]) -> Result<(Framing, String), u16> {
    let input =
        format!("{line}\r\n{}\r\n", fields.iter().map(|field| format!("{field}\r\n")).collect::<String>());
    let mut head = RequestHead::new();
    let progress = HeadParser::new().parse(input.as_bytes(), &mut head, &HeadLimits::default());
    assert!(matches!(progress, Ok(HeadProgress::Complete { .. })), "{input:?}");
    let mut target = Target::default();
    parse_target(head.target(), true, &mut target).unwrap();
    let framing = examine(&head, &mut target).map_err(|error| error.status.0)?;
    Ok((framing, String::from_utf8(target.host.name).unwrap()))
}

fn post(fields: &[&str]) -> Result<BodyLength, u16> {
    framing("POST / HTTP/1.1", &[&["Host: h"], fields].concat()).map(|(framing, _)| framing.body)
}

#[test]
fn body_lengths() {
    for (fields, expected) in [
        (&[][..], Ok(BodyLength::None)),
        (&["Content-Length: 0"], Ok(BodyLength::Length(0))),
        (&["Content-Length:\t007 "], Ok(BodyLength::Length(7))),
        (&["Content-Length: 9223372036854775807"], Ok(BodyLength::Length(i64::MAX as u64))),
        (&["content-length: 9223372036854775808"], Err(400)),
        (&["Content-Length: 18446744073709551617"], Err(400)),
        (&["Content-Length: 1111111111111111111111111111111111111111"], Err(400)),
        (&["Content-Length:"], Err(400)),
        (&["Content-Length: -1"], Err(400)),
        (&["Content-Length: +1"], Err(400)),
        (&["Content-Length: 0x5"], Err(400)),
        (&["Content-Length: 5_0"], Err(400)),
        (&["Content-Length: 5 0"], Err(400)),
        (&["Content-Length: 5, 10"], Err(400)),
        (&["Content-Length: 5, 5"], Err(400)),
        (&["Content-Length: 5", "Content-Length: 10"], Err(400)),
        (&["Content-Length: 5", "content-LENGTH: 5"], Err(400)),
        (&["Transfer-Encoding: chunked"], Ok(BodyLength::Chunked)),
        (&["transfer-encoding:\tCHUNKED "], Ok(BodyLength::Chunked)),
        (&["Content-Length: 5", "Transfer-Encoding: chunked"], Err(400)),
        (&["Transfer-Encoding: chunked", "Content-Length: 5"], Err(400)),
        (&["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], Err(400)),
        (&["Transfer-Encoding: xchunked"], Err(501)),
        (&["Transfer-Encoding: identity"], Err(501)),
        (&["Transfer-Encoding: gzip"], Err(501)),
        (&["Transfer-Encoding: chunked, identity"], Err(501)),
        (&["Transfer-Encoding: chunked, chunked"], Err(501)),
        (&["Transfer-Encoding: , chunked"], Err(501)),
        (&["Transfer-Encoding: chunked,"], Err(501)),
        (&["Transfer-Encoding:"], Err(501)),
        (&["Transfer-Encoding: \x0bchunked"], Err(400)),
        (&["Transfer-Encoding: chunked\x0c"], Err(400)),
        (&["Transfer-Encoding: \"chunked\""], Err(400)),
        (&["Transfer-Encoding: chunked;x=y"], Err(400)),
        // The name is odd, so the field is not there.
        (&["Transfer_Encoding: chunked"], Ok(BodyLength::None)),
    ] {
        assert_eq!(post(fields), expected, "{fields:?}");
    }
}

#[test]
fn no_chunks_before_1_1() {
    assert_eq!(framing("POST / HTTP/1.0", &["Transfer-Encoding: chunked"]), Err(400));
    assert_eq!(framing("POST / HTTP/1.0", &["Transfer-Encoding: gzip"]), Err(400));
}

#[test]
fn hosts_and_where_they_come_from() {
    for (line, fields, expected) in [
        ("GET / HTTP/1.1", &["Host: A.b:80"][..], Ok("a.b")),
        ("GET / HTTP/1.1", &[], Err(400)),
        ("GET http://t/ HTTP/1.1", &[], Err(400)),
        ("GET http://T/ HTTP/1.1", &["Host: other"], Ok("t")),
        ("GET http://t/ HTTP/1.1", &["Host: a b"], Err(400)),
        ("GET http://t/ HTTP/1.0", &[], Ok("t")),
        ("GET / HTTP/1.0", &[], Ok("")),
        ("GET / HTTP/1.0", &["Host:"], Err(400)),
        ("GET / HTTP/1.1", &["Host: a", "Host: a"], Err(400)),
        ("GET / HTTP/1.1", &["Host: a", "host: b"], Err(400)),
        ("GET / HTTP/1.1", &["Host: a, b"], Err(400)),
        ("GET / HTTP/1.1", &["Host: u@h"], Err(400)),
        ("GET / HTTP/1.1", &["Host: h/x"], Err(400)),
    ] {
        let host = framing(line, fields).map(|(_, host)| host);
        assert_eq!(host.as_deref(), expected.as_ref().copied(), "{line} {fields:?}");
    }
}

#[test]
fn fields_that_may_stand_once() {
    for name in OTHER_SINGLES.into_iter().chain(["Expect", "Content-Length", "Host"]) {
        let field = format!("{name}: 100-continue");
        assert_eq!(framing("GET / HTTP/1.0", &[&field, &field]), Err(400), "{name}");
    }
    for name in ["Cookie", "Range", "Accept", "Content-Type", "Referer", "X-Forwarded-For"] {
        let field = format!("{name}: a");
        assert!(framing("GET / HTTP/1.0", &[&field, &field]).is_ok(), "{name}");
    }
}

#[test]
fn connections_that_live_on() {
    for (line, fields, keep_alive) in [
        ("GET / HTTP/1.1", &["Host: h"][..], true),
        ("GET / HTTP/1.1", &["Host: h", "Connection: Close"], false),
        ("GET / HTTP/1.1", &["Host: h", "Connection: x,\tclose ,y"], false),
        ("GET / HTTP/1.1", &["Host: h", "Connection: closed"], true),
        ("GET / HTTP/1.1", &["Host: h", "Connection: close", "Connection: keep-alive"], false),
        ("GET / HTTP/1.0", &[], false),
        ("GET / HTTP/1.0", &["Connection: Keep-Alive"], true),
        ("GET / HTTP/1.0", &["Connection: keep-alive, close"], false),
        ("POST / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 1"], true),
        ("GET / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 1"], false),
        ("GET / HTTP/1.0", &["Connection: keep-alive", "Content-Length: 0"], true),
    ] {
        let (framing, _) = framing(line, fields).unwrap();
        assert_eq!(framing.keep_alive, keep_alive, "{line} {fields:?}");
    }
}

#[test]
fn expectations() {
    let expect =
        |line, value: &str| framing(line, &["Host: h", value]).map(|(framing, _)| framing.expect_continue);
    assert_eq!(expect("POST / HTTP/1.1", "Expect: 100-Continue"), Ok(true));
    assert_eq!(expect("POST / HTTP/1.0", "Expect: 100-continue"), Ok(false));
    assert_eq!(expect("POST / HTTP/1.0", "Expect: unknown"), Ok(false));
    assert_eq!(expect("POST / HTTP/1.1", "Expect: unknown"), Err(417));
    assert_eq!(expect("POST / HTTP/1.1", "Expect: token=param"), Err(417));
    assert_eq!(expect("POST / HTTP/1.1", "X: y"), Ok(false));
}

#[test]
fn methods_and_the_forms_of_their_targets() {
    for (line, status) in [
        ("TRACE / HTTP/1.1", Err(405)),
        ("CONNECT h:443 HTTP/1.1", Ok(())),
        ("CONNECT h:443 HTTP/1.0", Err(405)),
        ("CONNECT / HTTP/1.1", Err(400)),
        ("CONNECT http://h/ HTTP/1.1", Err(400)),
        ("GET h:443 HTTP/1.1", Err(400)),
        ("FOO / HTTP/1.1", Ok(())),
    ] {
        assert_eq!(framing(line, &["Host: h"]).map(|_| ()), status, "{line}");
    }
    let connect = |field| framing("CONNECT h:443 HTTP/1.1", &["Host: h", field]);
    assert_eq!(connect("Content-Length: 1").unwrap_err(), 400);
    assert_eq!(connect("Transfer-Encoding: chunked").unwrap_err(), 400);
    let (framing, host) = connect("Content-Length: 0").unwrap();
    assert_eq!((framing.keep_alive, &*host), (false, "h"));
}
