//! How long a message is: lengths, transfer codings, chunks (rows A1–A27, A47–A52).

use std::time::Duration;

use tests::client::End;
use tests::origin::{Origin, ok};
use tests::wait;

use super::{Refused, SMUGGLED, answered, log_lines, refused, refused_everywhere, start};

const SERVER: &str = r#"server { listen 127.0.0.1:%%PORT%%; return 200 "ok"; }"#;

const BAD: &[u16] = &[400];
const BAD_OR_UNKNOWN: &[u16] = &[400, 501];
const BAD_OR_LARGE: &[u16] = &[400, 413, 431];
/// More than fits into one read: the answer may be on its way before the end is seen.
const BAD_OR_LATE: &[u16] = &[200, 400, 413, 431];

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    [&post("Transfer-Encoding: chunked\r\n", "")[..], body].concat()
}

#[test]
fn lengths() {
    let digits = |count: usize| format!("Content-Length: {}\r\n", "9".repeat(count));
    let rows: Vec<Refused<'_>> = vec![
        ("A1", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), BAD),
        ("A1", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), BAD),
        ("A1", post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\n"), BAD),
        (
            "A2",
            post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "8\r\nSMUGGLED\r\n0\r\n\r\n"),
            BAD,
        ),
        ("A3", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), BAD),
        ("A3", post("Content-Length: 5, 10\r\n", "hello"), BAD),
        ("A3", post("Content-Length: 0\r\ncontent-length: 5\r\n", "hello"), BAD),
        ("A4", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), BAD),
        ("A4", post("Content-Length: 5, 5\r\n", "hello"), BAD),
        ("A6", post("Content-Length: 9223372036854775808\r\n", ""), &[400, 413]),
        ("A6", post("Content-Length: 18446744073709551616\r\n", ""), &[400, 413]),
        ("A6", post("Content-Length: 18446744073709551621\r\n", "hello"), &[400, 413]),
        ("A6", post(&digits(40), ""), &[400, 413]),
        ("A6", post(&digits(4000), ""), &[400, 413]),
        ("A6", post("Content-Length: -5\r\n", "hello"), BAD),
        ("A6", post("Content-Length: +5\r\n", "hello"), BAD),
        ("A6", post("Content-Length: 0x5\r\n", "hello"), BAD),
        ("A6", post("Content-Length: 5 5\r\n", "hello"), BAD),
        ("A6", post("Content-Length: 5;\r\n", "hello"), BAD),
        ("A6", post("Content-Length: five\r\n", "hello"), BAD),
        ("A6", post("Content-Length:\r\n", "hello"), BAD),
    ];
    refused_everywhere(SERVER, &rows);
}

#[test]
fn transfer_codings() {
    let coding = |value: &str| post(&format!("Transfer-Encoding:{value}\r\n"), "0\r\n\r\n");
    let mut rows: Vec<Refused<'_>> = vec![
        (
            "A9",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            BAD_OR_UNKNOWN,
        ),
        (
            "A9",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
            BAD_OR_UNKNOWN,
        ),
        ("A12", post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), BAD),
        ("A12", post("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n"), BAD),
        ("A12", post("Content-Length : 5\r\n", "hello"), BAD),
        ("A13", post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), BAD),
        ("A13", post("X: y\r\n\tz\r\n", ""), BAD),
        ("A13", post("Content-Length: 5\r\n 5\r\n", "hello"), BAD),
        ("A14", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n".to_vec(), BAD),
        ("A14", b"GET / HTTP/1.1\r\n\tHost: a\r\nHost: a\r\n\r\n".to_vec(), BAD),
        ("A16", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(), BAD_OR_UNKNOWN),
    ];
    for value in [" xchunked", " identity", " gzip", " cow", "", " chunkedx", " chunke"] {
        rows.push(("A8", coding(value), BAD_OR_UNKNOWN));
    }
    for value in [" chunked, identity", " chunked, chunked", " , chunked", " chunked,", " gzip, chunked"] {
        rows.push(("A9", coding(value), BAD_OR_UNKNOWN));
    }
    for value in [
        " \x0bchunked",
        " \x0cchunked",
        " chunked\0",
        " \"chunked\"",
        " chunked;x=y",
        " chun ked",
        " 'chunked'",
    ] {
        rows.push(("A11", coding(value), BAD_OR_UNKNOWN));
    }
    refused_everywhere(SERVER, &rows);
}

#[test]
fn chunks() {
    let mut rows: Vec<Refused<'_>> = Vec::new();
    for size in ["0x5", "+5", "-1", "5_0", " 5", "", "g", "five", "5,5", "\t5", "5\x0b", "0.5", "5\0"] {
        rows.push(("A18", chunked(format!("{size}\r\nhello\r\n0\r\n\r\n").as_bytes()), BAD));
    }
    for size in ["10000000000000005", "FFFFFFFFFFFFFFFFF", "ffffffffffffffff"] {
        rows.push(("A19", chunked(format!("{size}\r\nhello\r\n0\r\n\r\n").as_bytes()), BAD_OR_LARGE));
    }
    for body in
        ["5\rhello\r\n0\r\n\r\n", "5\rXhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n"]
    {
        rows.push(("A21", chunked(body.as_bytes()), BAD));
    }
    for body in ["5\r\nhello\n0\r\n\r\n", "5\r\nhello\r0\r\n\r\n", "5\r\nhello\r\n0\r\n\rX\r\n"] {
        rows.push(("A21", chunked(body.as_bytes()), BAD));
    }
    for body in ["5\r\nhello!\r\n0\r\n\r\n", "5\r\nhell\r\n0\r\n\r\n", "3\r\nhello\r\n0\r\n\r\n"] {
        rows.push(("A22", chunked(body.as_bytes()), BAD));
    }
    for extension in
        [";", ";;a", ";a\0", ";a\rb", ";a=\"x", ";a b", ";a=", ";=b", "x", ";a=b c", ";[", ";a=\"x\"y"]
    {
        rows.push(("A23", chunked(format!("5{extension}\r\nhello\r\n0\r\n\r\n").as_bytes()), BAD));
    }
    rows.push(("A23", chunked(b"5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"), BAD));
    rows.push((
        "A24",
        chunked(format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(65_536)).as_bytes()),
        BAD_OR_LATE,
    ));
    let many = format!("1;{}\r\na\r\n", "x".repeat(100)).repeat(2000);
    rows.push(("A24", chunked(format!("{many}0\r\n\r\n").as_bytes()), BAD_OR_LATE));
    rows.push(("A26", chunked(format!("0\r\nX: {}\r\n\r\n", "x".repeat(100_000)).as_bytes()), BAD_OR_LATE));
    rows.push(("A26", chunked(format!("0\r\n{}\r\n", "X: y\r\n".repeat(20_000)).as_bytes()), BAD_OR_LATE));
    rows.push(("A26", chunked(b"0\r\nno colon\r\n\r\n"), BAD));
    refused_everywhere(SERVER, &rows);
}

#[test]
fn what_is_right_is_accepted() {
    const END: &str = "GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let bodies = [
        ("A18", "5\r\nhello\r\n0\r\n\r\n"),
        ("A18", "005\r\nhello\r\n000\r\n\r\n"),
        ("A18", "A\r\n0123456789\r\n0\r\n\r\n"),
        ("A23", "5;a=b;c=\"d e\";f\r\nhello\r\n0;last\r\n\r\n"),
        ("A26", "5\r\nhello\r\n0\r\nTrailer: x\r\nContent-Length: 99\r\n\r\n"),
    ];
    let running = start(SERVER);
    for (row, body) in bodies {
        let input = [&chunked(body.as_bytes())[..], END.as_bytes()].concat();
        answered(&running, &[(row, &input, &[200, 200])]);
    }
    let input = [&post("Content-Length: 007\r\n", "1234567")[..], END.as_bytes()].concat();
    let statuses = running.ask_bytes(&input).statuses();
    assert!(statuses == [200, 200] || statuses == [400], "A7: {statuses:?}");
    running.stop();
}

/// A48: a body that nobody asked for is consumed, or the connection ends; it is never a request.
#[test]
fn bodies_before_pipelined_requests() {
    let running =
        start(r#"server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /made { return 200 "ok"; } }"#);
    const INNER: &str = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n";
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "UNKNOWN"] {
        for path in ["made", "none"] {
            let length = INNER.len();
            let lengthy =
                format!("{method} /{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{INNER}");
            let chunks = format!(
                "{method} /{path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{INNER}\r\n0\r\n\r\n"
            );
            for first in [lengthy, chunks] {
                let input = format!("{first}GET /made?last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                running.ask_bytes(input.as_bytes());
            }
        }
    }
    running.assert_healthy();
    assert!(!running.log("access.log").contains("/inner"), "{}", running.log("access.log"));
    running.stop();
}

/// A27: a chunked body that never ends.
#[test]
fn broken_off_bodies() {
    let running = start(SERVER);
    for body in ["5\r\nhel", "5\r\nhello\r\n", "5\r\n", "5", "", "0\r\n", "0\r\nX: y\r\n"] {
        let mut client = running.connect();
        client.send(&chunked(body.as_bytes()));
        client.finish();
        assert!(client.closes_within(Duration::from_secs(5)), "{body:?}");
    }
    assert!(
        wait::until(Duration::from_secs(2), || log_lines(&running) == 7),
        "{}",
        running.log("access.log")
    );
    assert_eq!(running.ask("GET /").statuses(), [200]);
    running.stop();
}

/// A47: interim responses go to those who asked and can read them.
#[test]
fn expectations() {
    let running = start(SERVER);
    let mut client = running.connect();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let first = client.response("POST").expect("an answer");
    assert!(matches!(first.status, 100 | 200), "{first}");
    client.send(b"helloGET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    if first.status == 100 {
        assert_eq!(client.response("POST").expect("a final answer").status, 200);
    }
    assert!(client.response("GET").is_none_or(|next| next.status == 200));
    assert!(client.closes_within(Duration::from_secs(5)));

    let old = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello";
    answered(&running, &[("A47", old, &[200])]);
    let unknown =
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    answered(&running, &[("A47", unknown, &[417])]);
    running.stop();
}

/// A51: a length is no reason to set memory aside, and its body has a deadline.
#[test]
fn a_body_that_never_comes() {
    let running = start(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            client_max_body_size 0;
            client_body_timeout 1s;
            lingering_timeout 1s;
            root %%ROOT%%;
        }
        "#,
    );
    let mut client = running.connect();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n");
    assert!(client.response("POST").is_none_or(|response| response.status >= 400));
    assert!(client.closes_within(Duration::from_secs(5)));
    running.stop();
}

/// A52: too large a body is refused before it came, declared or not.
#[test]
fn bodies_over_the_limit() {
    let running = start(
        r#"server { listen 127.0.0.1:%%PORT%%; client_max_body_size 10; location / { return 200 "ok"; } }"#,
    );
    let rows: Vec<Refused<'_>> = vec![
        ("A52", post("Content-Length: 11\r\n", "01234567890"), &[413]),
        ("A52", post("Content-Length: 100000\r\n", ""), &[413]),
    ];
    refused(&running, &rows);
    let answer = running
        .ask_bytes(&[&post("Content-Length: 10\r\n", "0123456789")[..], b"GET / HTTP/1.0\r\n\r\n"].concat());
    assert_eq!((answer.statuses(), answer.end), (vec![200, 200], End::Closed));
    // Nobody reads this body, so it may as well be thrown away.
    for body in ["b\r\n01234567890\r\n0\r\n\r\n", "5\r\n01234\r\n6\r\n567890\r\n0\r\n\r\n"] {
        let statuses = running
            .ask_bytes(&[&chunked(body.as_bytes())[..], b"GET / HTTP/1.0\r\n\r\n"].concat())
            .statuses();
        assert!(statuses == [413] || statuses == [200, 200], "A52: {statuses:?}");
    }
    running.stop();
}

/// A17: what follows the head of a request of HTTP/1.0 is its body as far as it said, whatever its method, here and for a
/// server behind; the connection ends with the answer, so that nothing can be taken for another request.
#[test]
fn a17_bodies_of_old_requests() {
    let targets = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&targets);
    let origin = Origin::start(move |asked| {
        seen.lock().expect("lock").push(asked.target.clone());
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        let is_framed = text.contains("\r\nContent-Length: 5\r\n") && text.ends_with("\r\n\r\nhello");
        ok(if is_framed { "framed" } else { "not framed" })
    });
    let running = start(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://{}; }} location /made {{ return 200 made; }} }}",
        origin.address()
    ));
    for method in ["GET", "HEAD", "DELETE"] {
        for (path, body) in [("/", "framed"), ("/made", "made")] {
            let head = format!("{method} {path} HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n");
            for connection in ["", "Connection: keep-alive\r\n"] {
                let mut client = running.connect();
                client.send(format!("{head}{connection}\r\nhello").as_bytes());
                let answer = client.response(method).expect("an answer");
                assert_eq!(answer.status, 200, "{method} {path}");
                assert!(method == "HEAD" || answer.text() == body, "{method} {path}: {}", answer.text());
                if connection.is_empty() {
                    assert!(client.closes_within(Duration::from_secs(10)), "{method} {path}");
                    assert_eq!(client.rest(), b"", "{method} {path}");
                } else {
                    // The next request begins directly after the body, or there is none.
                    client.send(b"GET /made HTTP/1.0\r\nHost: a\r\n\r\n");
                    let next = client.response("GET").map(|answer| answer.text());
                    assert!(next.is_none_or(|text| text == "made"), "{method} {path}");
                }
            }
            let smuggled = [format!("{head}\r\nhello").as_bytes(), SMUGGLED].concat();
            assert_eq!(running.ask_bytes(&smuggled).responses.len(), 1, "{method} {path}");
        }
    }
    running.stop();
    assert!(targets.lock().expect("lock").iter().all(|target| target == "/"), "{targets:?}");
}
