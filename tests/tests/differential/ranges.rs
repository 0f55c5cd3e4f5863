//! Range requests (RFC 9110, section 14): `max_ranges`, If-Range.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn ranges() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            max_ranges 2;
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            root %%ROOT%%;
            max_ranges 0;
        }
        "#,
    )
    .file("f.txt", "0123456789abcdefghijklmnopqrstuvwxyz")
    .file("f", "0123456789")
    .file("empty.txt", "");
    let ranges = [
        "bytes=0-0",
        "bytes=0-9",
        "bytes=30-",
        "bytes=35-",
        "bytes=36-",
        "bytes=0-35",
        "bytes=0-36",
        "bytes=0-99999",
        "bytes=-1",
        "bytes=-36",
        "bytes=-37",
        "bytes=-0",
        "bytes=9-0",
        "bytes=99-100",
        "bytes=-",
        "bytes=",
        "bytes",
        "bytes=a-b",
        "bytes=0-a",
        "bytes= 0-1",
        "bytes=0 - 1",
        "bytes=0-1 ",
        "bytes=0-1,",
        "bytes=,0-1",
        "Bytes=0-1",
        "bytes =0-1",
        "items=0-1",
        "0-1",
        "bytes=0-1,3-4",
        "bytes=0-1, 3-4 , 6-",
        "bytes=0-1,0-1",
        "bytes=0-9,5-14",
        "bytes=5-6,0-1",
        "bytes=0-1,99-100",
        "bytes=99-100,0-1",
        "bytes=99-100,101-",
        "bytes=0-,0-",
        "bytes=0-1,-2",
        "bytes=0-35,0-35",
        "bytes=0-1,a",
        "bytes=18446744073709551616-",
        "bytes=9223372036854775807-",
        "bytes=0-18446744073709551616",
        "bytes=-18446744073709551616",
        "bytes=0x1-2",
        "bytes=+1-2",
        "bytes=1-2-3",
    ];
    let requests: Vec<String> = ranges.iter().map(|range| format!("GET /f.txt\nRange: {range}")).collect();
    let cases: Vec<(usize, &str)> = requests.iter().map(|request| (0, request.as_str())).collect();
    agree(&site, &cases);
    agree(
        &site,
        &[
            (0, "HEAD /f.txt\nRange: bytes=0-1"),
            (0, "HEAD /f.txt\nRange: bytes=0-1,3-4"),
            (0, "HEAD /f.txt\nRange: bytes=99-"),
            (0, "POST /f.txt\nRange: bytes=0-1\n\nx"),
            (0, "GET /f.txt HTTP/1.0\nRange: bytes=0-1"),
            (0, "GET /f\nRange: bytes=0-1,3-4"),
            (0, "GET /empty.txt\nRange: bytes=0-0"),
            (0, "GET /empty.txt\nRange: bytes=-1"),
            (0, "GET /empty.txt\nRange: bytes=0-"),
            (0, "GET /none\nRange: bytes=0-1"),
            (0, "GET /f.txt\nRange: bytes=0-1\nRange: bytes=2-3"),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: \"65937d25-24\""),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: W/\"65937d25-24\""),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: \"other\""),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: Tue, 02 Jan 2024 03:04:05 GMT"),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: Tue, 02 Jan 2024 03:04:06 GMT"),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: Tue, 02 Jan 2024 03:04:04 GMT"),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-Range: rubbish"),
            (0, "GET /f.txt\nRange: bytes=0-1\nIf-None-Match: \"65937d25-24\""),
            (0, "GET /f.txt\nRange: bytes=99-\nIf-None-Match: \"65937d25-24\""),
            (0, "GET /f.txt\nRange: bytes=99-\nIf-Match: \"no\"\nConnection: close"),
            (0, "GET /f.txt\nRange: bytes=99-\nIf-Range: \"no\""),
            (1, "GET /f.txt\nRange: bytes=0-1"),
            (1, "GET /f.txt\nRange: bytes=0-1,3-4"),
            (1, "GET /f.txt\nRange: bytes=0-1,3-4,6-7"),
            (2, "GET /f.txt"),
            (2, "GET /f.txt\nRange: bytes=0-1"),
        ],
    );
}

#[test]
fn of_a_large_file() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; sendfile on; tcp_nopush on; }")
        .file("large.bin", (0..300_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    agree(
        &site,
        &[
            "GET /large.bin",
            "HEAD /large.bin",
            "GET /large.bin\nRange: bytes=65535-65536",
            "GET /large.bin\nRange: bytes=100000-900000",
            "GET /large.bin\nRange: bytes=0-65535,131072-196607,-70000",
            "GET /large.bin HTTP/1.0",
        ],
    );
}
