//! Lines, fields, hosts, methods, versions, sizes (rows A28–A46, A49, A53, A54).

use std::time::Duration;

use tests::client::End;

use super::{Refused, answered, refused, refused_everywhere, start};

const SERVER: &str = r#"server { listen 127.0.0.1:%%PORT%%; return 200 "$host $uri $http_host"; }"#;
const BAD: &[u16] = &[400];

fn get(fields: &[u8]) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n"].concat()
}

#[test]
fn lines_and_fields() {
    let mut rows: Vec<Refused<'_>> = vec![
        ("A29", get(b"X: a\rb\r\n"), BAD),
        ("A29", get(b"X: a\r\r\n"), BAD),
        ("A29", b"GET / HTTP/1.1\rHost: a\r\r".to_vec(), BAD),
        ("A31", get(b": x\r\n"), BAD),
        ("A31", get(b"X\0Y: z\r\n"), BAD),
        ("A31", get(b"X Y: z\r\n"), BAD),
        ("A31", get(b"X\x01Y: z\r\n"), BAD),
        ("A31", get(b"X\x7fY: z\r\n"), BAD),
        ("A31", get(b"X: a\0b\r\n"), BAD),
        ("A32", get(b"nocolon\r\n"), BAD),
        ("A32", get(b"   \r\n"), BAD),
        ("A32", get(b"two words\r\n"), BAD),
        ("A33", b"GET / HTTP/1.1\r\n\r\n".to_vec(), BAD),
        ("A33", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_vec(), BAD),
        ("A33", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_vec(), BAD),
    ];
    let hosts = [
        "a, b", "", "u@a", "u:p@a", "a/b", "a b", "a:x", "a:99999", "a:-1", "[::1", "[zz]", "::1", "a\\b",
        "a#b", "a?b", "a\"b", "a:1:2", "\x01a",
    ];
    for host in hosts {
        rows.push(("A33", format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(), BAD));
    }
    refused_everywhere(SERVER, &rows);
}

/// A28, A31, A38: what nginx forgives and RFC 9112 permits.
#[test]
fn forgiven() {
    let running = start(SERVER);
    answered(
        &running,
        &[
            ("A28", b"GET / HTTP/1.1\nHost: a\nConnection: close\n\n", &[200]),
            ("A28", b"GET / HTTP/1.1\r\nHost: a\nConnection: close\r\n\n", &[200]),
            ("A28", b"\r\n\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &[200]),
            ("A31", b"GET / HTTP/1.1\r\nHost: a\r\nX(Y): z\r\nConnection: close\r\n\r\n", &[200]),
            ("A31", b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9Y: z\r\nConnection: close\r\n\r\n", &[200]),
            ("A31", b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\xff\r\nConnection: close\r\n\r\n", &[200]),
            ("A38", b"GET /a#b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &[200]),
        ],
    );
    let answer = running.ask_bytes(b"GET /a#b?c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.last().text(), "a /a a", "A38");
    let answer = running.ask_bytes(b"GET http://b/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.last().text(), "b /x b", "A34");
    running.stop();
}

#[test]
fn request_lines() {
    let line = |line: &[u8]| [line, b"\r\nHost: a\r\n\r\n"].concat();
    let mut rows: Vec<Refused<'_>> = Vec::new();
    for bad in [
        &b"GET  / HTTP/1.1"[..],
        b"GET /  HTTP/1.1",
        b"GET\t/ HTTP/1.1",
        b"GET /\tHTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"GET HTTP/1.1",
        b" GET / HTTP/1.1",
        b"GET / / HTTP/1.1",
        b"GET a HTTP/1.1",
        b"GET \\a HTTP/1.1",
    ] {
        rows.push(("A37", line(bad), BAD));
    }
    for bad in [&b"GET /\0 HTTP/1.1"[..], b"GET /\x01 HTTP/1.1", b"GET /\x7f HTTP/1.1", b"GET /a\rb HTTP/1.1"]
    {
        rows.push(("A38", line(bad), BAD));
    }
    for version in [
        "HTTP/1",
        "HTTP/01.01",
        "HTTP/ 1.1",
        "http/1.1",
        "HTTP/1.32",
        "HTTP/1.256",
        "HTTP/1.",
        "HTTP/.1",
        "HTTPS/1.1",
        "HTTP/1.1.1",
        "HTTP/-1.1",
        "HTTP/0.9",
        "HTTP/1.1x",
        "HTTP/99999999999999999999.1",
    ] {
        rows.push(("A39", line(format!("GET / {version}").as_bytes()), &[400, 505]));
    }
    for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/9.9"] {
        rows.push(("A39", line(format!("GET / {version}").as_bytes()), &[505]));
    }
    for method in ["get", "Get", "G\0T", "G(T", "gET", "GÉT", ""] {
        rows.push(("A44", line(format!("{method} / HTTP/1.1").as_bytes()), &[400, 405, 501]));
    }
    rows.push(("A36", line(b"TRACE / HTTP/1.1"), &[405]));
    rows.push((
        "A36",
        b"TRACE / HTTP/1.1\r\nHost: a\r\nCookie: secret\r\nAuthorization: Basic x\r\n\r\n".to_vec(),
        &[405],
    ));
    rows.push(("A41", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400, 505]));
    rows.push(("A46", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), BAD));
    rows.push(("A46", (0..=255u8).collect(), BAD));
    rows.push(("A46", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), BAD));
    let running = start(SERVER);
    refused(&running, &rows);
    let log = running.log("access.log");
    assert!(log.bytes().all(|byte| byte == b'\n' || (0x20..0x7f).contains(&byte)), "raw bytes in the log");
    running.stop();
}

#[test]
fn sizes() {
    let n = |count: usize| "n".repeat(count);
    let rows: Vec<Refused<'_>> = vec![
        ("A42", format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", n(10_000)).into_bytes(), &[414]),
        ("A42", format!("GET /{}", n(100_000)).into_bytes(), &[414]),
        ("A43", get(format!("X: {}\r\n", n(10_000)).as_bytes()), &[400, 431]),
        ("A43", get(format!("X: {}\r\n", n(4_000)).repeat(100).as_bytes()), &[400, 431]),
        ("A43", get("X: y\r\n".repeat(1_500).as_bytes()), &[400, 431]),
        ("A43", get(format!("{}: y\r\n", n(100_000)).as_bytes()), &[400, 431]),
        (
            "A44",
            format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "G".repeat(100_000)).into_bytes(),
            &[400, 414, 501],
        ),
        ("A54", get(format!("Cookie: {}\r\n", n(65_536)).as_bytes()), &[400, 431]),
        ("A54", get(b"Cookie: a=\0\r\n"), BAD),
    ];
    let running = start(SERVER);
    refused(&running, &rows);
    let cookies = (0..1000).map(|at| format!("c{at}=v")).collect::<Vec<_>>().join("; ");
    let target = format!("GET /{}\nConnection: close", n(8_000));
    assert_eq!(running.ask(&target).statuses(), [200], "A42");
    let statuses = running.ask(&format!("GET /\nCookie: {cookies}\nConnection: close")).statuses();
    assert!(statuses == [200] || statuses == [400] || statuses == [431], "A54: {statuses:?}");
    running.stop();
}

/// A49: many requests in one packet are answered in order, and a bad one ends it after those before it.
#[test]
fn many_pipelined_requests() {
    let running = start(
        r#"server { listen 127.0.0.1:%%PORT%%; keepalive_requests 20000; return 200 "$uri\n"; access_log off; }"#,
    );
    const COUNT: usize = 5_000;
    let mut input: Vec<u8> = Vec::new();
    for at in 0..COUNT {
        input.extend_from_slice(format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    }
    input.extend_from_slice(b"GET /% HTTP/1.1\r\nHost: a\r\n\r\nGET /after HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = running.connect();
    // From another thread: the server may stop reading until its answers are read.
    let mut writer = client.try_clone();
    let sender = std::thread::spawn(move || writer.send(&input));
    for at in 0..COUNT {
        let response = client.response("GET").unwrap_or_else(|| panic!("A49: no answer to request {at}"));
        assert_eq!((response.status, response.text()), (200, format!("/{at}\n")), "A49");
    }
    assert_eq!(client.response("GET").expect("A49: an answer to the bad one").status, 400);
    assert!(client.closes_within(Duration::from_secs(5)) && client.rest().is_empty(), "A49");
    sender.join().expect("sender");
    running.stop();
}

/// A53: an upgrade that is not offered is not taken.
#[test]
fn upgrades() {
    let running = start(SERVER);
    let inputs: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: unknown\r\n\r\n",
    ];
    for input in inputs {
        let answer = running.ask_bytes(&[input, b"GET /next HTTP/1.0\r\n\r\n"].concat());
        assert_eq!((answer.statuses(), answer.end), (vec![200, 200], End::Closed), "A53");
    }
    let old = running.ask_bytes(b"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(old.statuses(), [200], "A53");
    running.stop();
}
