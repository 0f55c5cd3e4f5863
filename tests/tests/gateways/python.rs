//! Applications in Python, the same as upstreams of nginx and of Fulmar.

use std::fmt::Write;
use std::sync::OnceLock;

use tests::binary::Server;
use tests::differential::agree;
use tests::python::{Scgi, Uwsgi, have_python, have_uwsgi};
use tests::site::Site;

/// The requests of all applications.
fn requests() -> &'static [&'static str] {
    static LARGE: OnceLock<String> = OnceLock::new();
    let large = LARGE.get_or_init(|| {
        let mut text = "POST /upload\n\n".to_owned();
        (0..20_000).for_each(|number| write!(text, "{number:08}").expect("text"));
        text
    });
    static ALL: OnceLock<Vec<&str>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            "GET /",
            "GET /?a=b&c=%20\nX-Id: one\nX-Id: two\nCookie: a=b\nCookie: c=d",
            "HEAD /",
            "POST /\n\nbody",
            "PUT /streamed/\n\nbody",
            "GET /missing",
            "GET /moved",
            "GET /empty",
            "GET /large",
            "GET /streamed/large",
            "GET /sized",
            "HEAD /sized",
            "GET /unix/",
            "GET /chosen/?a",
            large,
            "GET /down/",
        ]
    })
}

fn site(protocol: &str, address: &str, socket: &str, more: &str) -> Site {
    Site::new(&format!(
        r"log_format short '$request $status $upstream_status $upstream_response_length';
        access_log %%LOGS%%/access.log short;
        upstream application {{ server {address}; }}
        map $uri $application {{ default application; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            {more}
            {protocol}_param REQUEST_METHOD $request_method;
            {protocol}_param QUERY_STRING $query_string;
            {protocol}_param PATH_INFO $path;
            {protocol}_param SERVER_NAME $server_name;
            {protocol}_param SERVER_PORT $server_port;
            {protocol}_param SERVER_PROTOCOL $server_protocol;
            set $path $uri;
            location / {{ {protocol}_pass {address}; }}
            location /streamed/ {{
                rewrite ^/streamed(/.*) $1;
                set $path $uri;
                {protocol}_request_buffering off;
                {protocol}_buffering off;
                {protocol}_pass application;
            }}
            location /unix/ {{ {protocol}_pass {socket}; }}
            location /chosen/ {{ {protocol}_pass $application; }}
            location /down/ {{ {protocol}_pass unix:%%DIR%%/none.sock; }}
        }}"
    ))
}

#[test]
fn uwsgi_with_python() {
    if !have_uwsgi() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let uwsgi = Uwsgi::start(directory.path());
    let length = "uwsgi_param CONTENT_LENGTH $content_length;";
    let socket = format!("unix:{}", uwsgi.socket().display());
    let site = site("uwsgi", &uwsgi.address().to_string(), &socket, length);
    let running = site.start(Server::Fulmar);
    let answer = running.ask("POST /\nX-Id: one\n\nbody");
    assert!(answer.last().text().contains("CONTENT_LENGTH=4\nHTTP_X_ID=one\n"), "{}", answer.last().text());
    running.stop();
    agree(&site, requests());
}

#[test]
fn scgi_with_python() {
    if !have_python() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let scgi = Scgi::start(directory.path());
    let address = scgi.address().to_string();
    let site = site("scgi", &address, &address, "scgi_param SCGI 1;");
    let running = site.start(Server::Fulmar);
    let answer = running.ask("POST /\nX-Id: one\n\nbody");
    assert!(answer.last().text().contains("CONTENT_LENGTH=4\nHTTP_X_ID=one\n"), "{}", answer.last().text());
    running.stop();
    agree(&site, requests());
}
