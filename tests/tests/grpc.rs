//! gRPC through `grpc_pass`: real clients and servers, and the same calls through nginx.

use std::fs;
use tests::binary::{Server, have_nginx};
use tests::grpc::{Grpc, calls, have_grpc, many_calls};
use tests::site::Site;
use tests::tls::{Kind, certificate};

fn site(address: &str, more: &str) -> Site {
    Site::new(&format!(
        r"
        client_max_body_size 0;
        upstream backend {{ server {address}; keepalive 4; }}
        upstream nobody {{ server 127.0.0.1:%%PORT_1%%; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            http2 on;
            {more}
            location /refused/ {{ deny all; }}
            location /down/ {{ grpc_pass nobody; }}
            location /status/ {{
                default_type application/grpc;
                add_header grpc-status 7;
                add_header grpc-message 'not%20yet';
                return 204;
            }}
        }}"
    ))
}

/// What all calls come to through a server with this location.
fn through(server: Server, site: &Site) -> String {
    let running = site.start(server);
    let told = calls(&site.prefix(), running.address());
    running.stop();
    told
}

#[test]
fn calls_of_all_kinds_come_to_what_they_come_to_through_nginx() {
    if !have_grpc() || !have_nginx() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Grpc::start(directory.path(), None);
    let site =
        site(&server.address().to_string(), "location / { grpc_pass grpc://backend; grpc_buffer_size 16k; }");
    let (ours, theirs) = (through(Server::Fulmar, &site), through(Server::Nginx, &site));
    assert_eq!(ours, theirs);
    let lines: Vec<&str> = ours.lines().collect();
    for expected in [
        "unary: (b'unary hello', [('x-initial', 'value')], [('x-bin', b'\\x00\\xff'), ('x-trailing', 'there')], 'OK')",
        "large answer: 3000000",
        "both in turn: [b'echo 0', b'echo 1', b'echo 2', b'echo 3', b'echo 4']",
        "error: INVALID_ARGUMENT 'wrong: this ä%'",
        "late error: ([b'first'], 'DATA_LOSS', 'late')",
        "no such method: UNIMPLEMENTED 'Method not found!'",
        "deadline: DEADLINE_EXCEEDED 'Deadline Exceeded'",
        "after the deadline: b'unary still there'",
        "own status: PERMISSION_DENIED 'not yet'",
    ] {
        assert!(lines.contains(&expected), "{expected}\n{ours}");
    }
}

#[test]
fn calls_over_tls_to_the_server() {
    if !have_grpc() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let pair = certificate("localhost", Kind::Ecdsa);
    let paths = [directory.path().join("a.pem"), directory.path().join("a.key")];
    fs::write(&paths[0], &pair.pem).unwrap();
    fs::write(&paths[1], &pair.key).unwrap();
    let server = Grpc::start(directory.path(), Some((&paths[0], &paths[1])));
    let pass = "location / { grpc_pass grpcs://backend; grpc_ssl_verify on; grpc_ssl_name localhost; \
                grpc_ssl_trusted_certificate %%DIR%%/a.pem; }";
    let site = with_authority(&server, pass, &pair.pem);
    let told = through(Server::Fulmar, &site);
    assert!(told.contains("large request: 3000006\n") && told.contains("both: b'echo 99'\n"), "{told}");
    let pass = pass.replace("grpc_ssl_name localhost", "grpc_ssl_name other");
    let wrong = with_authority(&server, &pass, &pair.pem);
    let told = through(Server::Fulmar, &wrong);
    assert!(told.starts_with("unary: UNAVAILABLE"), "{told}");
}

fn with_authority(server: &Grpc, pass: &str, authority: &str) -> Site {
    site(&server.address().to_string(), pass).in_prefix("a.pem", authority)
}

#[test]
fn calls_over_two_servers_and_over_http_2_as_proxies_speak_it() {
    if !have_grpc() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Grpc::start(directory.path(), None);
    let direct = calls(directory.path(), server.address());
    // `proxy_http_version 2` passes trailers on where it is asked to.
    let pass = "location / { proxy_pass http://backend; proxy_http_version 2; proxy_pass_trailers on; \
                proxy_set_header TE trailers; proxy_request_buffering off; proxy_buffering off; }";
    let told = through(Server::Fulmar, &site(&server.address().to_string(), pass));
    for name in
        ["unary:", "large request:", "large answer:", "from the client:", "both in turn:", "late error:"]
    {
        let line = |all: &str| all.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        assert_eq!(line(&told), line(&direct), "{told}");
    }
}

#[test]
fn calls_at_a_time_share_a_connection() {
    if !have_grpc() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let server = Grpc::start(directory.path(), None);
    let site = site(&server.address().to_string(), "location / { grpc_pass grpc://backend; }");
    let running = site.start(Server::Fulmar);
    let told = many_calls(directory.path(), running.address());
    running.stop();
    assert_eq!(told, "many: (1, {100000}, 1000)\n");
}
