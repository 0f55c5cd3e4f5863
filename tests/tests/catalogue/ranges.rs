//! Ranges, conditions and codings (rows J1–J13).
//!
//! | row | elsewhere |
//! |---|---|
//! | J12 | TLS compresses nothing (`tls`), and `gzip` is off unless it is asked for: docs/security.md |

use std::fs;

use tests::binary::Server;
use tests::response::Response;
use tests::site::{Running, Site};

const SIZE: usize = 10_000;

fn start() -> Running {
    let content: Vec<u8> = (0..SIZE).map(|at| b'a' + u8::try_from(at % 26).unwrap_or(0)).collect();
    Site::new(
        "server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
             location /zip/ { alias %%ROOT%%/; gzip on; gzip_min_length 1; gzip_types *; }
             location /few/ { alias %%ROOT%%/; max_ranges 3; } }",
    )
    .file("f.txt", content)
    .file("empty", "")
    .start(Server::Fulmar)
}

fn get(running: &Running, path: &str, fields: &str) -> Response {
    let answer = running.ask(&format!("GET {path}\nConnection: close\n{fields}"));
    assert_eq!(answer.responses.len(), 1, "{fields}");
    answer.last().clone()
}

/// A value that no client can use to have more sent than there is.
fn is_bounded(response: &Response, row: &str) {
    assert!(matches!(response.status, 200 | 206 | 416), "{row}: {response}");
    assert!(response.body.len() <= SIZE + 1024, "{row}: {} bytes", response.body.len());
    assert_eq!(response.broken, None, "{row}");
}

/// J1: ranges that overlap again and again bring the content at most once.
#[test]
fn j1_overlapping_ranges() {
    let running = start();
    let some = |count: usize| (0..count).map(|at| format!("{at}-")).collect::<Vec<_>>().join(",");
    for ranges in [some(900), format!("0-,{}", "5-5,".repeat(900)), "0-9999,".repeat(500), "-1,".repeat(1500)]
    {
        let response = get(&running, "/f.txt", &format!("Range: bytes={ranges}"));
        is_bounded(&response, "J1");
    }
    let response = get(&running, "/few/f.txt", "Range: bytes=0-0,2-2,4-4,6-6");
    assert_eq!((response.status, response.body.len()), (200, SIZE), "J1: more than max_ranges");
    running.assert_healthy();
    running.stop();
}

/// J2–J4: numbers that overflow, what is no range, and what lies after the end.
#[test]
fn j2_j3_j4_ranges_at_the_edges() {
    let running = start();
    let most = u64::MAX;
    for ranges in [
        "-9223372036854775807".to_owned(),
        "-9223372036854775808".to_owned(),
        format!("-{most}"),
        format!("0-{most}"),
        format!("{most}-"),
        format!("{most}-{most}"),
        format!("1-{most}0"),
        "-9223372036854775000,-9223372036854775000".to_owned(),
        "0-9223372036854775807,1-9223372036854775807".to_owned(),
        format!("-{}", "9".repeat(4000)),
    ] {
        is_bounded(&get(&running, "/f.txt", &format!("Range: bytes={ranges}")), "J2");
    }
    for value in [
        "bytes=",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=-",
        "bytes=1",
        "bytes",
        "lines=1-2",
        "bytes=0x1-2",
        "bytes=1-2;3",
    ] {
        is_bounded(&get(&running, "/f.txt", &format!("Range: {value}")), "J3");
    }
    assert_eq!(get(&running, "/f.txt", "Range: lines=1-2").status, 200, "J3: another unit");
    for ranges in ["10000-", "10000-10001", "-0", "99999-"] {
        let response = get(&running, "/f.txt", &format!("Range: bytes={ranges}"));
        assert_eq!(response.status, 416, "J4: {ranges}: {response}");
        assert_eq!(response.field("Content-Range"), Some("bytes */10000"), "J4: {ranges}");
    }
    for ranges in ["0-", "0-0", "-1", "-0"] {
        let response = get(&running, "/empty", &format!("Range: bytes={ranges}"));
        assert!(matches!(response.status, 200 | 416) && !response.body.starts_with(b"a"), "J4: {response}");
    }
    let response = get(&running, "/f.txt", "Range: bytes=-99999");
    assert_eq!((response.status, response.body.len()), (206, SIZE), "J4: a suffix longer than all");
    running.stop();
}

/// J6: a weak validator, or one that does not fit, brings the whole.
#[test]
fn j6_conditions_of_ranges() {
    let running = start();
    let first = get(&running, "/f.txt", "");
    let etag = first.field("ETag").expect("a tag").to_owned();
    let modified = first.field("Last-Modified").expect("a date").to_owned();
    let status =
        |value: &str| get(&running, "/f.txt", &format!("Range: bytes=0-0\nIf-Range: {value}")).status;
    assert_eq!((status(&etag), status(&modified)), (206, 206));
    for wrong in [
        &format!("W/{etag}"),
        "\"other\"",
        "Tue, 02 Jan 2024 03:04:06 GMT",
        "Tue, 02 Jan 1990 03:04:05 GMT",
        "yesterday",
        "\"",
        "W/",
    ] {
        assert_eq!(status(wrong), 200, "J6: {wrong}");
    }
    running.stop();
}

/// J7: what is compressed as it is sent has no ranges, and an error has no coding.
#[test]
fn j7_ranges_of_compressed_content() {
    let running = start();
    let response = get(&running, "/zip/f.txt", "Accept-Encoding: gzip\nRange: bytes=0-99");
    assert!(response.status == 200 || response.field("Content-Encoding").is_none(), "J7: {response}");
    assert!(response.status != 206 || response.body.len() == 100, "J7: {response}");
    let response = get(&running, "/zip/f.txt", "Accept-Encoding: gzip\nRange: bytes=99999-");
    assert!(response.status != 416 || response.field("Content-Encoding").is_none(), "J7: {response}");
    running.stop();
}

/// J8, J9: lists of tags and dates as long and as odd as may be.
#[test]
fn j8_j9_validators() {
    let running = start();
    let etag = get(&running, "/f.txt", "").field("ETag").expect("a tag").to_owned();
    let status = |fields: &str| get(&running, "/f.txt", fields).status;
    let many = "\"x\", ".repeat(1000);
    assert_eq!(status(&format!("If-None-Match: {many}\"y\"")), 200, "J8");
    assert_eq!(status(&format!("If-None-Match: {many}{etag}")), 304, "J8");
    let lines = "If-None-Match: \"x\"\n".repeat(900);
    assert!(matches!(status(&lines), 200 | 400), "J8: many lines");
    for odd in ["\"", "\"\"\"", "W/", "W/\"", "x", "\"x", ",,,", "\"x\" \"y\"", "\u{e9}"] {
        assert_eq!(status(&format!("If-None-Match: {odd}")), 200, "J8: {odd}");
        assert_eq!(status(&format!("If-Match: {odd}")), 412, "J8: {odd}");
    }
    for date in [
        "Tue, 02 Jan 2024 03:04:04 GMT",
        "Tue, 02 Jan 24 03:04:05 GMT",
        "Tue, 02 Jan 2024 03:04:05",
        "Tue, 31 Feb 2024 03:04:05 GMT",
        "Tue, 02 Jan 2024 25:04:05 GMT",
        "Tue, 02 Jan 99999 03:04:05 GMT",
        "1704164645",
        "",
        "Tue, 02 Jan 2024 03:04:05 GMT; length=3",
        "Fri, 32 Dec 1969 23:59:59 GMT",
    ] {
        assert!(matches!(status(&format!("If-Modified-Since: {date}")), 200 | 304), "J9: {date}");
    }
    assert_eq!(status("If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT"), 304, "J9");
    assert_eq!(status("If-Modified-Since: Tuesday, 02-Jan-24 03:04:05 GMT"), 304, "J9: two digits of a year");
    assert_eq!(status("If-Modified-Since: Tue Jan  2 03:04:05 2024"), 304, "J9: as of asctime");
    assert_eq!(status("If-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT"), 412, "J9");
    running.stop();
}

/// J11: codings, however many, and what excludes all of them.
#[test]
fn j11_accept_encoding() {
    let running = start();
    let coded = |value: &str| {
        let response = get(&running, "/zip/f.txt", &format!("Accept-Encoding: {value}"));
        assert_eq!((response.status, response.broken), (200, None), "J11: {value}");
        response.field("Content-Encoding").is_some()
    };
    let others = "x, ".repeat(1000);
    assert!(coded(&format!("{others}gzip")), "J11");
    for none in [
        &others,
        "*;q=0",
        "gzip;q=0",
        "gzip;q=0.000",
        "identity;q=0",
        "identity",
        "",
        ";;;",
        "gzipx",
        "xgzip",
    ] {
        assert!(!coded(none), "J11: {none}");
    }
    for odd in [
        "gzip;q=",
        "gzip;q=2",
        "gzip;q=1.0000",
        "gzip;q=-1",
        "gzip;q=0.0.0",
        "gzip;",
        ",gzip,,",
        "\u{e9}, gzip",
    ] {
        coded(odd);
    }
    running.stop();
}

/// J13: the validator is of the file that is sent, also while the file of that name is replaced again and again.
#[test]
fn j13_a_file_replaced_between_tag_and_content() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }");
    let of = |length: usize| vec![b'x'; length];
    let site = site.file("f.txt", of(1));
    let running = site.start(Server::Fulmar);
    let (target, beside) = (site.root().join("f.txt"), site.root().join("beside"));
    for turn in 1..300 {
        fs::write(&beside, of(turn * 7)).expect("write");
        let asked = std::thread::scope(|scope| {
            let moving = scope.spawn(|| fs::rename(&beside, &target).expect("rename"));
            let asked = get(&running, "/f.txt", "");
            moving.join().expect("the rename");
            asked
        });
        assert_eq!((asked.status, asked.broken), (200, None), "J13");
        let tag = asked.field("ETag").expect("a tag");
        let length = tag.trim_matches('"').split('-').nth(1).expect("the length in the tag");
        assert_eq!(length, format!("{:x}", asked.body.len()), "J13: {tag}");
    }
    running.stop();
}
