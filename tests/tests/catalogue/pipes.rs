//! B13: a named pipe in the place of a file. No thread waits for the other end of it, wherever a request opens a file.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::path::{Path, PathBuf};
use tests::binary::Server;
use tests::site::{Running, Site};

const CONFIGURATION: &str = "
    proxy_cache_path %%DIR%%/cache levels=1:2 keys_zone=z:1m;
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%ROOT%%;
        location /kept/ { open_file_cache max=10; }
        location /compressed/ { gzip_static on; }
        location /users/ { auth_basic x; auth_basic_user_file %%ROOT%%/pipe; }
        location /includes/ { ssi on; }
        location = /error { error_page 404 /pipe; return 404; }
        location /listing/ { autoindex on; }
        location /any/ { random_index on; }
        location /index/ { index pipe f.txt; }
        location /tried { try_files /pipe /f.txt; }
        location /dav/ { dav_methods PUT DELETE COPY MOVE; }
        location /video/ { mp4; }
        location /logged { access_log %%ROOT%%/$arg_name.pipe; return 200 ok; }
        location /settings/ { htaccess on; }
        location /stored/ { proxy_store on; proxy_pass http://127.0.0.1:%%PORT_1%%; }
        location /cached { proxy_pass http://127.0.0.1:%%PORT_1%%; proxy_cache z; proxy_cache_key $uri;
            proxy_cache_valid 1h; }
    }
    server { listen 127.0.0.1:%%PORT_1%%; return 200 answer; }";

fn make_pipe(path: &Path) {
    // Another user may write to it, as the worker has to be able to read it.
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
}

/// A site with these pipes below its root.
fn site(pipes: &[&str]) -> Site {
    let mut site = Site::new(CONFIGURATION)
        .file("f.txt", "f\n")
        .file("compressed/a.txt", "plain\n")
        .file("includes/a.shtml", "<!--#include file=\"pipe\" -->")
        .file("includes/a.html", "[<!--#include virtual=\"/pipe\" -->]")
        .file("index/f.txt", "index\n")
        .file("dav/f.txt", "f\n")
        .file("settings/users/a.txt", "a\n")
        .file(
            "settings/users/.htaccess",
            "AuthType Basic\nAuthName x\nAuthUserFile pipe\nRequire valid-user\n",
        )
        .file("settings/tags/.htaccess", "FileETag Digest\n");
    for directory in ["kept", "listing", "any", "video", "stored", "settings"] {
        site = site.dir(directory);
    }
    pipes.iter().for_each(|pipe| make_pipe(&site.root().join(pipe)));
    site
}

fn status(running: &Running, request: &str) -> u16 {
    running.ask(&format!("{request}\nConnection: close")).last().status
}

#[test]
fn no_open_waits_for_the_other_end_of_a_pipe() {
    let site = site(&[
        "pipe",
        "kept/pipe",
        "compressed/a.txt.gz",
        "includes/pipe",
        "listing/pipe",
        "any/pipe",
        "index/pipe",
        "dav/pipe",
        "video/pipe.mp4",
        "one.pipe",
        "stored/pipe",
        "settings/users/pipe",
        "settings/tags/pipe",
    ]);
    let running = site.start(Server::Fulmar);
    // As the credentials `a:b` are encoded.
    let login = "Authorization: Basic YTpi";
    let mut wrong = String::new();
    for (request, expected) in [
        ("GET /pipe", &[403, 404][..]),
        ("GET /kept/pipe", &[403, 404]),
        ("GET /kept/pipe", &[403, 404]),
        ("GET /compressed/a.txt\nAccept-Encoding: gzip", &[404]),
        (&format!("GET /users/x\n{login}"), &[403, 500]),
        ("GET /includes/a.html", &[200]),
        ("GET /error", &[403, 404]),
        ("GET /listing/", &[200]),
        ("GET /any/", &[403, 404]),
        ("GET /index/", &[404]),
        ("GET /tried", &[200, 404]),
        ("COPY /dav/pipe\nDestination: /dav/copy", &[403, 404, 409, 500]),
        ("PUT /dav/pipe\nContent-Length: 1\n\nx", &[201, 204, 409, 500]),
        ("MOVE /dav/f.txt\nDestination: /dav/pipe", &[201, 204, 409, 500]),
        ("GET /video/pipe.mp4?start=1", &[403, 404]),
        ("GET /logged?name=one", &[200]),
        (&format!("GET /settings/users/a.txt\n{login}"), &[401, 403, 500]),
        ("GET /settings/tags/pipe", &[403, 404]),
        ("GET /stored/pipe", &[200]),
        ("GET /f.txt", &[200]),
    ] {
        let status = status(&running, request);
        if !expected.contains(&status) {
            wrong += &format!("{request}: {status}, not one of {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    running.stop_alerted();
}

/// The only file below a directory.
fn only_file(directory: &Path) -> PathBuf {
    let entry = std::fs::read_dir(directory).unwrap().next().expect("an entry").unwrap().path();
    if entry.is_dir() { only_file(&entry) } else { entry }
}

#[test]
fn a_pipe_in_the_place_of_a_cache_file_is_replaced() {
    let site = site(&[]);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /cached"), 200);
    running.stop();
    let path = only_file(&site.prefix().join("cache"));
    // The server knows the file, and does not have it in memory.
    let running = site.start(Server::Fulmar);
    std::fs::remove_file(&path).unwrap();
    make_pipe(&path);
    for _ in 0..2 {
        assert_eq!(status(&running, "GET /cached"), 200);
        assert_eq!(status(&running, "GET /f.txt"), 200);
    }
    assert!(path.is_file(), "the response replaces the pipe");
    running.stop_alerted();
}

#[test]
fn a_database_that_is_a_pipe_is_refused() {
    let site = Site::new(
        "geoip2 %%ROOT%%/pipe { $country country iso_code; } server { listen 127.0.0.1:%%PORT%%; }",
    );
    let site = site.file("f.txt", "");
    make_pipe(&site.root().join("pipe"));
    let text = site.test(Server::Fulmar).unwrap_err();
    assert!(text.contains("not a regular file"), "{text}");
}
