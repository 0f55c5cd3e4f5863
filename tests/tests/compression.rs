//! Compressed content as clients read it: with the programs of others, bit by bit, and out of the gzip format.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::binary::Server;
use tests::client::Client;
use tests::inflate::deflate;
use tests::origin::{After, Origin, raw};
use tests::parts;
use tests::raw::Raw;
use tests::site::{Running, Site};

/// Codings, and the programs that read them.
const CODINGS: [(&str, &str); 3] = [("gzip", "gzip"), ("br", "brotli"), ("zstd", "zstd")];

const ON: &str = "gzip on; gzip_comp_level 6; gzip_types *; gzip_min_length 1;
    brotli on; brotli_types *; brotli_min_length 1;
    zstd on; zstd_types *; zstd_min_length 1;";

/// The result of a third-party decoder; `None` if it rejects the content.
fn read_by(program: &str, coded: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (mut input, coded) = (child.stdin.take().unwrap(), coded.to_vec());
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(&coded);
    });
    let mut plain = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut plain).unwrap();
    writer.join().unwrap();
    child.wait().unwrap().success().then_some(plain)
}

/// Text that repeats itself now and then.
fn text(length: usize) -> Vec<u8> {
    let words = ["alpha", "beta", "gamma", "delta", "<p>", "</p>\n", "0123456789", "the same again"];
    let mut state = 1_u32;
    let mut out = Vec::new();
    while out.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        out.extend_from_slice((state >> 20).to_string().as_bytes());
    }
    out.truncate(length);
    out
}

#[test]
fn programs_of_others_read_what_is_sent() {
    let found = CODINGS.iter().all(|(_, program)| parts::program(&[program]).is_some());
    if !parts::is_present("gzip, brotli or zstd", found) {
        return;
    }
    let long = text(1_500_000);
    let chunked: Vec<u8> = long[..200_000].chunks(7001).fold(Vec::new(), |mut out, part| {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
        out
    });
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    let reply = [head.as_bytes(), &chunked, b"0\r\n\r\n"].concat();
    let origin = Origin::start(move |_| (reply.clone(), After::Keep));
    let site = Site::new(&format!(
        "open_file_cache max=10;
         {ON}
         server {{
             listen 127.0.0.1:%%PORT%%;
             root %%ROOT%%;
             location /passed {{ proxy_pass http://{}; }}
             location /straight {{ proxy_buffering off; proxy_pass http://{}; }}
         }}",
        origin.address(),
        origin.address()
    ))
    .file("empty.html", "")
    .file("short.html", &long[..500])
    .file("page.html", &long[..64 * 1024])
    .file("long.html", &long);
    let running = site.start(Server::Fulmar);
    let contents = [
        ("/short.html", &long[..500]),
        ("/page.html", &long[..64 * 1024]),
        ("/long.html", &long[..]),
        ("/passed", &long[..200_000]),
        ("/straight", &long[..200_000]),
    ];
    for (coding, program) in CODINGS {
        for (path, plain) in contents {
            // What is kept of the first time is sent the second time.
            for _ in 0..2 {
                let response =
                    running.connect().exchange(&format!("GET {path}\nAccept-Encoding: {coding}")).unwrap();
                assert_eq!(
                    (response.status, response.field("Content-Encoding")),
                    (200, Some(coding)),
                    "{path}"
                );
                assert!(
                    response.body.len() < plain.len() * 3 / 4,
                    "{path} in {coding}: {}",
                    response.body.len()
                );
                let read = read_by(program, &response.body);
                assert!(read.as_deref() == Some(plain), "{path}: {program} reads something else");
            }
        }
        let empty =
            running.connect().exchange(&format!("GET /empty.html\nAccept-Encoding: {coding}")).unwrap();
        assert_eq!((empty.field("Content-Encoding"), empty.body.len()), (None, 0));
    }
    running.stop();
}

/// What is behind the head of what came by now, without the framing of chunks.
fn content_so_far(bytes: &[u8]) -> Vec<u8> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Vec::new() };
    let (mut rest, mut content) = (&bytes[end + 4..], Vec::new());
    while let Some(line) = rest.windows(2).position(|part| part == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let from = line + 2;
        content.extend_from_slice(&rest[from..rest.len().min(from + length)]);
        match rest.get(from + length + 2..) {
            Some(behind) if length > 0 => rest = behind,
            _ => break,
        }
    }
    content
}

/// As much of the plain content as can be read of what came by now.
fn plain_so_far(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let coded = content_so_far(bytes);
    let mut decoder: Box<dyn Read + '_> = match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(&coded[..])),
        "br" => Box::new(brotli::Decompressor::new(&coded[..], 4096)),
        _ => Box::new(zstd::stream::read::Decoder::new(&coded[..]).unwrap()),
    };
    let (mut plain, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = decoder.read(&mut part) {
        plain.extend_from_slice(&part[..count]);
    }
    plain
}

fn wait_for(client: &mut Client, coding: &str, wanted: &str) {
    while plain_so_far(coding, client.rest()) != wanted.as_bytes() {
        let read = client.read_some(4096);
        assert!(read > 0, "{coding}: {:?} is held back", String::from_utf8_lossy(client.rest()));
    }
}

#[test]
fn events_are_not_held_back() {
    for settings in ["", "proxy_buffering off;"] {
        for (coding, _) in CODINGS {
            let upstream = Raw::listen();
            let site = Site::new(&format!(
                "{ON} server {{ listen 127.0.0.1:%%PORT%%; location / {{ {settings} proxy_pass http://{}; }} }}",
                upstream.address()
            ));
            let running = site.start(Server::Fulmar);
            let mut client = running.connect();
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
            client.send(request.as_bytes());
            let mut peer = upstream.accept();
            peer.until("\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
            let mut all = String::new();
            for number in 1..=3 {
                let event = format!("data: {number}\n\n");
                peer.send(&event);
                all += &event;
                wait_for(&mut client, coding, &all);
            }
            drop(peer);
            running.stop();
        }
    }
}

/// A server in front of an origin that has the gzip form only.
fn plain_only(origin: &Origin) -> Running {
    let site = Site::new(&format!(
        "gunzip on; server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://{}; }} }}",
        origin.address()
    ));
    site.start(Server::Fulmar)
}

#[test]
fn content_that_is_not_what_it_claims_to_be_ends_the_connection() {
    let origin = Origin::start(|asked| {
        let whole = deflate(&text(100_000));
        let body = match &*asked.target {
            "/cut" => whole[..whole.len() - 9].to_vec(),
            "/changed" => [&whole[..whole.len() / 2], &[0xff; 40], &whole[whole.len() / 2..]].concat(),
            "/plain" => b"no such format".to_vec(),
            "/behind" => [&whole[..], b"something behind the end"].concat(),
            _ => whole,
        };
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
        ([head.as_bytes(), &body].concat(), After::Keep)
    });
    let running = plain_only(&origin);
    for (path, line) in [
        ("/cut", "the content in the gzip format is cut off"),
        ("/changed", "the content is not in the gzip format"),
        ("/plain", "the content is not in the gzip format"),
        ("/behind", "the content is not in the gzip format"),
    ] {
        let mut client = running.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(client.closes_within(Duration::from_secs(10)), "{path}");
        assert!(!client.rest().ends_with(b"\r\n0\r\n\r\n"), "{path} is taken for whole");
        running.wait_for_log("error.log", line);
    }
    let whole = running.connect().exchange("GET /whole").unwrap();
    assert!(whole.field("Content-Encoding").is_none() && whole.body == text(100_000));
    running.stop();
}

#[test]
fn a_part_of_the_gzip_form_stays_what_it_is() {
    let origin = Origin::start(|_| {
        let head =
            "HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Range: bytes 5-7/100\r\n";
        raw(&format!("{head}Content-Length: 3\r\n\r\nabc"), After::Keep)
    });
    let running = plain_only(&origin);
    let part = running.connect().exchange("GET /\nRange: bytes=5-7").unwrap();
    assert_eq!(
        (part.status, part.field("Content-Encoding"), part.text()),
        (206, Some("gzip"), "abc".to_owned())
    );
    running.stop();
}
