//! Where connections to other servers come from, and the options of their sockets.

use tests::application::{Application, Language};
use tests::binary::Server;
use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

#[test]
fn connections_come_from_the_bound_address() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            proxy_bind 127.0.0.2;
            proxy_socket_keepalive on;
            proxy_socket_rcvbuf 32k;
            proxy_socket_sndbuf 32k;
            location / { proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /own { proxy_bind 127.0.0.3; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /off { proxy_bind off; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /chosen { proxy_bind $arg_from; proxy_pass http://127.0.0.1:%%PORT_1%%; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            location / { return 200 \"from $remote_addr\\n\"; }
        }",
    );
    let running = site.start(Server::Fulmar);
    let from = |path: &str| running.ask(&format!("GET {path}")).last().text();
    assert_eq!((from("/"), from("/own")), ("from 127.0.0.2\n".into(), "from 127.0.0.3\n".into()));
    running.stop();
    agree(
        &site,
        &[
            "GET /",
            "GET /own",
            "GET /off",
            "GET /chosen",
            "GET /chosen?from=127.0.0.4",
            "GET /chosen?from=127.0.0.4:0",
            "GET /chosen?from=nonsense",
        ],
    );
}

#[test]
fn connections_that_are_kept_come_from_the_address_of_the_request() {
    let site = Site::new(
        "upstream backend { server 127.0.0.1:%%PORT_1%%; keepalive 4; }
        server {
            listen 127.0.0.1:%%PORT%%;
            proxy_set_header Connection \"\";
            location / { proxy_bind $arg_from; proxy_pass http://backend; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            location / { return 200 \"$remote_addr $connection_requests\"; }
        }",
    );
    let running = site.start(Server::Fulmar);
    for (from, expected) in [
        ("127.0.0.2", "127.0.0.2 1"),
        ("127.0.0.3", "127.0.0.3 1"),
        ("127.0.0.2", "127.0.0.2 2"),
        ("127.0.0.3", "127.0.0.3 2"),
    ] {
        assert_eq!(running.ask(&format!("GET /?from={from}")).last().text(), expected);
    }
    running.stop();
}

#[test]
fn all_protocols_bind() {
    for language in Language::ALL {
        let name = language.name();
        let application = Application::speaking(language, move |_, stream| {
            let text = format!("\r\nfrom {}", stream.socket().peer_addr().expect("a peer").ip());
            stream.write_all(&language.answer(&text)).is_err()
        });
        let running = Site::new(&format!(
            "server {{ listen 127.0.0.1:%%PORT%%; {name}_bind 127.0.0.2; {name}_socket_keepalive on;
            location / {{ {} }} location = /is-it-kept {{ return 204; }} }}",
            language.pass(application.address())
        ))
        .start(Server::Fulmar);
        assert_eq!(running.ask("GET /").last().text(), "from 127.0.0.2", "{name}");
        running.stop();
    }
}

#[test]
fn mistakes() {
    for wrong in ["localhost", "127.0.0.1 opaque", "127.0.0.1:99999", "\"\""] {
        agree_on_mistake(&Site::new(&format!("proxy_bind {wrong};")));
    }
}

/// nginx's workers keep a capability for it, with which they can send from any address.
#[test]
fn transparent_is_rejected_with_a_hint() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; proxy_bind $remote_addr transparent; }");
    let said = site.test(Server::Fulmar).expect_err("a refusal");
    for part in ["\"transparent\" is not supported", "from a header"] {
        assert!(said.contains(part), "{said}");
    }
}
