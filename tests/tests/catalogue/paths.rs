//! Paths and files (rows B1–B24): a URI never leaves what it maps to, and a file is never a surprise. B26 and B27 are of
//! WebDAV, which Fulmar does not have.

use std::fs;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tests::binary::Server;
use tests::client::End;
use tests::site::Site;

use super::{Refused, answered, refused, start};

const BAD: &[u16] = &[400];

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

#[test]
fn refused_paths() {
    let mut rows: Vec<Refused<'_>> = Vec::new();
    for path in ["/../etc/passwd", "/a/../../x", "/..", "/../", "/a/b/../../../x", "/./..", "/a/./../../x"] {
        rows.push(("B1", get(path), BAD));
    }
    for path in [
        "/%2e%2e/",
        "/.%2e/x",
        "/%2E./",
        "/a/%2e%2e/%2e%2e/x",
        "/%2e%2e%2fetc/passwd",
        "/..%2f",
        "/a%2f..%2f..%2fx",
    ] {
        rows.push(("B2", get(path), BAD));
    }
    for path in ["/%%32%65%%32%65/", "/%", "/%4", "/%zz", "/a%", "/%g1", "/%1g", "/% 41", "/%u0041"] {
        rows.push(("B3", get(path), BAD));
    }
    for path in ["/%00", "/a%00.html", "/a/%00/b", "/a%00"] {
        rows.push(("B6", get(path), BAD));
    }
    rows.push(("B9", get("//../x"), BAD));
    rows.push(("B9", get("/a//../../x"), BAD));
    let running = start("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }");
    refused(&running, &rows);
    running.stop();
    let running = start("server { listen 127.0.0.1:%%PORT%%; merge_slashes off; root %%ROOT%%; }");
    refused(&running, &rows[..rows.len() - 2]);
    running.stop();
}

#[test]
fn harmless_paths() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            autoindex on;
            location /admin/ { deny all; }
            location ~ \.x$ { return 200 "handler"; }
            location /try/ { try_files $uri /fallback =404; }
            location /page/ { error_page 404 /missing$uri; }
            location /rewritten { return 302 /%252e%252e/x; }
        }
        "#,
    )
    .file("f.txt", "f\n")
    .file("..double", "double\n")
    .file("a.x", "source\n")
    .file("admin/secret", "secret\n");
    let running = site.start(Server::Fulmar);
    let expect = |row: &str, path: &str, status: u16| {
        let answer = running.ask(&format!("GET {path}\nConnection: close"));
        assert_eq!(answer.statuses(), [status], "{row}: {path}");
        assert!(!answer.last().text().contains("root:"), "{row}: {path}");
    };
    expect("B4", "/%252e%252e/", 404);
    expect("B4", "/try/%252e%252e/%252e%252e/etc/passwd", 404);
    expect("B4", "/page/%252e%252e/%252e%252e/etc/passwd", 404);
    expect("B7", "/%c0%ae%c0%ae/etc/passwd", 404);
    expect("B7", "/%c0%af", 404);
    expect("B7", "/%e0%80%af", 404);
    expect("B7", "/%ff%fe", 404);
    expect("B8", "/%5c..%5c..%5cetc%5cpasswd", 404);
    expect("B8", "/\\..\\f.txt", 404);
    expect("B9", "//etc/passwd", 404);
    expect("B9", "//admin//secret", 403);
    expect("B9", "/./admin/./secret", 403);
    expect("B9", "/x/..//admin/secret", 403);
    expect("B9", "/%61dmin/secret", 403);
    expect("B9", "/admin%2fsecret", 403);
    expect("B9", "///", 200);
    expect("B16", "/f.txt/", 404);
    expect("B16", "/f.txt.", 404);
    expect("B16", "/f.txt%20", 404);
    expect("B16", "/f.txt%0a", 404);
    expect("B16", "/a.x/", 404);
    expect("B16", "/a.x.", 404);
    expect("B16", "/a.x", 200);
    expect("B17", "/F.TXT", 404);
    expect("B17", "/ADMIN/secret", 404);
    expect("B17", "/f.t%c5%bft", 404);
    expect("B19", "/x/..;/admin/secret", 404);
    expect("B19", "/;/../f.txt", 200);
    expect("B19", "/..;/f.txt", 404);
    expect("B22", "/f.txt%3f", 404);
    expect("B22", "/f.txt%23", 404);
    expect("B24", "/f.txt?%zz&%&a[]=../..&%00", 200);
    expect("B24", &format!("/f.txt?{}", "&a=b".repeat(1_500)), 200);
    expect("-", "/..double", 200);
    running.stop();
}

/// B11: a regex location with an alias maps captures, and still nothing above is reached.
#[test]
fn captures_stay_inside() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%/d;
            location ~ ^/s(.*) { alias %%ROOT%%/d$1; }
            location /off { alias %%ROOT%%/d/; }
            location ~ ^/r/(.*)$ { root %%ROOT%%/d; try_files /$1 =404; }
        }
        "#,
    )
    .file("d/in", "inside\n")
    .file("outside", "outside\n")
    .file("d-sibling/x", "sibling\n");
    let running = site.start(Server::Fulmar);
    for path in [
        "/s../outside",
        "/s/../../outside",
        "/off../outside",
        "/r/../outside",
        "/r/..%2foutside",
        "/s/..%2f../outside",
    ] {
        let answer = running.ask(&format!("GET {path}\nConnection: close"));
        assert!(!answer.last().text().contains("outside\n"), "B11: {path}: {}", answer.last());
        assert!(matches!(answer.last().status, 400 | 403 | 404), "B11: {path}: {}", answer.last());
    }
    assert_eq!(running.ask("GET /s/in").last().text(), "inside\n");
    running.stop();
}

/// B13: what is no regular file is not opened in a way that could block.
#[test]
fn special_files() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }")
        .file("f.txt", "f\n")
        .file("unreadable", "x")
        .dir("d")
        .link("loop", "loop")
        .link("proc", "/proc/self/cmdline");
    let fifo = site.root().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("fifo");
    let socket = std::os::unix::net::UnixListener::bind(site.root().join("socket")).expect("socket");
    let running = site.start(Server::Fulmar);
    for name in ["fifo", "socket", "loop"] {
        let answer = running.ask(&format!("GET /{name}\nConnection: close"));
        assert!(matches!(answer.last().status, 403 | 404 | 500), "B13: {name}: {}", answer.last());
    }
    assert_eq!(running.ask("GET /d/").last().status, 403);
    let answer = running.ask("GET /proc\nConnection: close");
    assert_eq!(answer.end, End::Closed, "B13: {}", answer.last());
    assert_eq!(running.ask("GET /f.txt").last().text(), "f\n");
    drop(socket);
    running.stop();
}

/// B14: a file that shrinks while it is sent ends the connection early, not the worker.
#[test]
fn a_file_that_shrinks() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; send_timeout 2s; }")
        .file("large", vec![b'x'; 40 << 20])
        .file("f.txt", "f\n");
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_some(1000);
    fs::File::options()
        .write(true)
        .open(site.root().join("large"))
        .and_then(|file| file.set_len(1000))
        .expect("shrink");
    assert!(client.closes_within(Duration::from_secs(5)), "B14");
    assert!(client.rest().len() < 40 << 20, "B14");
    assert_eq!(running.ask("GET /f.txt").last().text(), "f\n");
    running.stop();
}

/// B21: decoded line ends do not become fields.
#[test]
fn line_ends_in_fields() {
    let running = start(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /return { return 302 http://localhost$uri; }
            location /relative { return 301 $uri; }
            location /header { add_header X-Uri $uri; return 200 "ok"; }
            location /always { add_header X-Uri $uri always; return 404; }
        }
        "#,
    );
    for path in ["return", "relative", "header", "always"] {
        for end in ["%0d%0a", "%0a", "%0d"] {
            let answer = running.ask(&format!(
                "GET /{path}{end}X-Injected:%20yes%0d%0a%0d%0aHTTP/1.1%20200\nConnection: close"
            ));
            assert_eq!(answer.responses.len(), 1, "B21: {path}{end}");
            assert!(answer.last().field("X-Injected").is_none(), "B21: {path}{end}: {}", answer.last());
            assert!(
                answer.last().fields.iter().all(|(_, value)| !value.contains(['\r', '\n'])),
                "B21: {path}{end}"
            );
        }
    }
    running.stop();
}

/// B23: names of files are data in a listing.
#[test]
fn listings_are_escaped() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; autoindex on; }")
        .file("d/<script>alert(1)<", "x")
        .file("d/new\nline", "x")
        .file("d/a\"b'c&d", "x")
        .file("d/javascript:x", "x");
    let raw = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"not\xffutf8");
    fs::write(site.root().join("d").join(raw), "x").expect("file");
    let running = site.start(Server::Fulmar);
    let page = running.ask("GET /d/\nConnection: close");
    let text = page.last().text();
    assert_eq!(page.last().status, 200, "{}", page.last());
    assert!(!text.contains("<script>alert"), "B23: {text}");
    assert!(!text.contains("href=\"javascript:"), "B23: {text}");
    for line in text.lines().filter(|line| line.contains("href=")) {
        let target = line.split('"').nth(1).expect("a target");
        let path = format!("GET /d/{target}\nConnection: close");
        assert_eq!(running.ask(&path).last().status, 200, "B23: {path}");
    }
    running.stop();
}

/// B12: links are followed, as nginx does, unless told otherwise.
#[test]
fn links() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }")
        .file("f.txt", "f\n")
        .link("link", "f.txt")
        .link("dangling", "nothing");
    let running = site.start(Server::Fulmar);
    answered(
        &running,
        &[
            ("B12", b"GET /link HTTP/1.0\r\n\r\n", &[200]),
            ("B12", b"GET /dangling HTTP/1.0\r\n\r\n", &[404]),
            ("B18", b"GET /.git/config HTTP/1.0\r\n\r\n", &[404]),
        ],
    );
    running.stop();
}
