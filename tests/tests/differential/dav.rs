//! `dav_methods`. Each server has a separate directory, which the requests fill.

use tests::binary::{Server, nginx_has, nginx_with};
use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

const CONF: &str = r#"
    dav_methods PUT DELETE MKCOL COPY MOVE;
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name localhost;
        root %%LOGS%%/files;
        location / { }
        location /get/ { dav_methods off; }
        location /put/ { dav_methods put; }
        location /full/ { create_full_put_path on; dav_access group:rw all:r; }
        location /deep/ { min_delete_depth 3; }
        location /alias/ { alias %%LOGS%%/files/; }
        location = /exact { alias %%LOGS%%/files/exact; }
        location ~ ^/regex/(.*) { alias %%LOGS%%/files/$1; }
        location /limited/ { limit_except GET PUT { deny all; } }
        location /short/ { client_max_body_size 4; }
        location /file/ { client_body_in_file_only clean; }
        location /relative/ { absolute_redirect off; }
        location /page/ { error_page 404 409 =200 /page.txt; }
    }
"#;

const PART: &str = "--with-http_dav_module";

/// Whether the nginx to compare with copies files as its current versions do: 1.22 fails to copy some, and logs an alert.
fn copies() -> bool {
    nginx_has(PART)
}

fn site() -> Option<Site> {
    nginx_with(&[PART]).map(|nginx| Site::new(CONF).nginx(nginx))
}

/// Makes the directories of each server, and sends it the requests.
fn agree_in_directories(requests: &[&str]) {
    let Some(site) = site() else { return };
    for server in [Server::Nginx, Server::Fulmar] {
        for name in ["", "get", "put", "deep", "limited", "short", "file", "relative", "page"] {
            std::fs::create_dir_all(site.logs(server).join("files").join(name)).unwrap();
        }
    }
    let requests: Vec<String> = requests.iter().map(|request| dated(request)).collect();
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Gives a file a known time.
fn dated(request: &str) -> String {
    match request.split_once('\n') {
        Some((line, rest)) if line.starts_with("PUT ") && !request.contains("Date: ") => {
            let end = if line.ends_with('\r') { "\r" } else { "" };
            format!("{line}\nDate: Tue, 02 Jan 2024 03:04:05 GMT{end}\n{rest}")
        }
        _ => (*request).to_owned(),
    }
}

#[test]
fn files_are_put_and_deleted() {
    agree_in_directories(&[
        "PUT /a.txt\n\n0123456789",
        "GET /a.txt",
        "PUT /a.txt\n\nshort",
        "GET /a.txt",
        "PUT /a.txt\nContent-Length: 0",
        "GET /a.txt",
        "PUT /chunked.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "GET /chunked.txt",
        "PUT /old.txt\nDate: Tue, 02 Jan 2024 03:04:05 GMT\n\nold",
        "GET /old.txt",
        "PUT /bad-date.txt\nDate: yesterday\n\nx",
        "PUT /a%20b%3f%25.txt\n\nx",
        "GET /a%20b%3f%25.txt",
        "PUT /collection/\n\nx",
        "PUT /part.txt\nContent-Range: bytes 0-0/2\n\nx",
        "PUT /get\n\nx",
        "PUT /get/x\n\nx",
        "PUT /full/a/b/c.txt\n\nx",
        "PUT /full/a/b/d.txt\n\nx",
        "GET /full/a/b/d.txt",
        "PUT /short/x\n\n12345",
        "PUT /short/x\n\n1234",
        "PUT /file/x\n\nx",
        "GET /file/x",
        "PUT /file/x\nContent-Length: 0",
        "PUT /relative/x\n\nx",
        "PUT /relative/x\n\nx",
        "DELETE /a.txt",
        "DELETE /a.txt",
        "DELETE /old.txt/",
        "DELETE /old.txt\nDepth: 1",
        "DELETE /old.txt\nDepth: x",
        "DELETE /old.txt\nDepth: 0",
        "DELETE /chunked.txt\nDepth: infinity",
        "DELETE /a%20b%3f%25.txt\n\nbody",
        "DELETE /a%20b%3f%25.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "DELETE /full",
        "DELETE /full/\nDepth: 0",
        "DELETE /full/\nDepth: 1",
        "DELETE /full/",
        "DELETE /full/",
        "DELETE /get/x",
        "PUT /deep/a\n\nx",
        "DELETE /deep/a",
        "MKCOL /deep/b/",
        "PUT /deep/b/c\n\nx",
        "DELETE /deep/b/",
        "DELETE /deep/b/c",
    ]);
}

#[test]
fn directories_are_made() {
    agree_in_directories(&[
        "MKCOL /a/",
        "MKCOL /a/",
        "MKCOL /a",
        "MKCOL /b",
        "MKCOL /none/b/",
        "MKCOL /c/\n\nbody",
        "MKCOL /c/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "MKCOL /d%20e/",
        "GET /d%20e",
        "PUT /a/f\n\nx",
        "MKCOL /a/f/",
        "MKCOL /a/f/g/",
        "MKCOL /put/x/",
        "MKCOL /relative/x/",
        "PROPFIND /a/",
        "OPTIONS /a/",
        "LOCK /a/f",
    ]);
}

#[test]
fn files_are_copied_and_moved() {
    if !copies() {
        return;
    }
    agree_in_directories(&[
        "PUT /a\nDate: Tue, 02 Jan 2024 03:04:05 GMT\n\ncontent",
        "COPY /a",
        "COPY /a\nDestination: /b",
        "GET /b",
        "COPY /a\nDestination: /b\nOverwrite: F",
        "COPY /a\nDestination: /b\nOverwrite: f",
        "COPY /a\nDestination: /b\nOverwrite: T",
        "COPY /a\nDestination: /b\nOverwrite: t",
        "COPY /a\nDestination: /b\nOverwrite: x",
        "COPY /a\nDestination: /b\nOverwrite:",
        "COPY /a\nDestination: /b\nDepth: 0",
        "COPY /a\nDestination: /b\nDepth: 1",
        "COPY /a\nDestination: /b\nDepth: infinity",
        "COPY /a\nDestination: /a",
        "COPY /a\nDestination: //a",
        "COPY /a\nDestination: /c/",
        "COPY /a\nDestination: /put",
        "COPY /a\nDestination: http://localhost/d",
        "COPY /a\nDestination: http://localhost:80/d",
        "COPY /a\nDestination: http://localhost",
        "COPY /a\nDestination: http://other/d",
        "COPY /a\nDestination: https://localhost/d",
        "COPY /a\nDestination: ftp://localhost/d",
        "COPY /a\nDestination: d",
        "COPY /a\nDestination: /../d",
        "COPY /a\nDestination: /put/%2e%2e/d",
        "COPY /a\nDestination: /put/..",
        "COPY /a\nDestination: /e%20f",
        "GET /e%20f",
        "COPY /a\nDestination: /g?h",
        "GET /g",
        "COPY /a\nDestination: /b\n\nbody",
        "COPY /none\nDestination: /b",
        "COPY /a/\nDestination: /b/",
        "COPY /a\nDestination: /a/b",
        "COPY /put/x\nDestination: /b",
        "MOVE /a\nDestination: /moved\nDepth: 0",
        "MOVE /a\nDestination: /moved",
        "GET /a",
        "GET /moved",
        "MOVE /b\nDestination: /moved\nOverwrite: F",
        "MOVE /b\nDestination: /moved",
        "MOVE /moved\nDestination: /made/on/the/way",
        "GET /made/on/the/way",
        "MOVE /none\nDestination: /x",
        "MOVE /none/\nDestination: /none/x/",
    ]);
}

#[test]
fn directories_are_copied_and_moved() {
    if !copies() {
        return;
    }
    agree_in_directories(&[
        "MKCOL /a/",
        "MKCOL /a/b/",
        "PUT /a/1\n\none",
        "PUT /a/b/2\n\ntwo",
        "COPY /a/\nDestination: /c/",
        "GET /c/1",
        "GET /c/b/2",
        "COPY /a/\nDestination: /c/\nOverwrite: F",
        "DELETE /a/1",
        "COPY /a/\nDestination: /c/",
        "GET /c/1",
        "GET /c/b/2",
        "COPY /a/\nDestination: /d",
        "COPY /a\nDestination: /d",
        "COPY /a/\nDestination: /a/d/",
        "COPY /a/b/\nDestination: /a/",
        "COPY /a/\nDestination: /a/",
        "COPY /none/\nDestination: /d/",
        "MOVE /a/\nDestination: /d/",
        "GET /a/b/2",
        "GET /d/b/2",
        "MOVE /d/\nDestination: /c/\nOverwrite: F",
        "MOVE /d/\nDestination: /c/",
        "GET /c/b/2",
        "MOVE /c/\nDestination: /c/b/",
        "PUT /file\n\nx",
        "MOVE /c/\nDestination: /file/",
        "GET /file/b/2",
        "MOVE /file\nDestination: /e",
    ]);
}

#[test]
fn locations_and_methods() {
    if !copies() {
        return;
    }
    agree_in_directories(&[
        "PUT /put/a\n\nx",
        "DELETE /put/a",
        "COPY /put/a\nDestination: /b",
        "PUT /alias/a\n\nx",
        "GET /a",
        "COPY /alias/a\nDestination: /alias/b",
        "COPY /alias/a\nDestination: /a",
        "GET /b",
        "DELETE /alias/b",
        "PUT /exact\n\nx",
        "GET /exact",
        "COPY /exact\nDestination: /exact",
        "PUT /regex/r\n\nx",
        "GET /r",
        "COPY /regex/r\nDestination: /regex/s",
        "PUT /limited/a\n\nx",
        "DELETE /limited/a",
        "GET /limited/a",
        "DELETE /page/x",
        "MKCOL /page/x",
        "POST /a\n\nx",
        "PATCH /a\n\nx",
    ]);
}

#[test]
fn what_cannot_be_written() {
    for wrong in [
        "dav_methods GET;",
        "dav_methods PROPFIND;",
        "dav_methods;",
        "dav_access all:x;",
        "min_delete_depth x;",
        "create_full_put_path yes;",
    ] {
        let Some(nginx) = nginx_with(&[PART]) else { return };
        let conf = format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}");
        agree_on_mistake(&Site::new(&conf).nginx(nginx));
    }
}
