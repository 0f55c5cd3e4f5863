//! How fast responses of other servers are read: `proxy_limit_rate` and its siblings.

use tests::application::{Application, Language};
use tests::binary::Server;
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Origin, raw};
use tests::site::{Running, Site};

const CONTENT: usize = 60_000;

fn content() -> String {
    "0123456789".repeat(CONTENT / 10)
}

/// An origin that names the rate as the request does.
fn site() -> (Origin, Site) {
    let origin = Origin::start(|asked| {
        let rate = asked.target.split_once('?').map_or("0", |(_, rate)| rate);
        let text =
            format!("HTTP/1.1 200 OK\r\nX-Rate: {rate}\r\nContent-Length: {CONTENT}\r\n\r\n{}", content());
        raw(&text, After::Keep)
    });
    let configuration = "
        server {
            listen 127.0.0.1:%%PORT%%;
            location /slow { proxy_pass http://127.0.0.1:ORIGIN; proxy_limit_rate 100; }
            location /straight { proxy_pass http://127.0.0.1:ORIGIN; proxy_limit_rate 100; proxy_buffering off; }
            location /named { proxy_pass http://127.0.0.1:ORIGIN; proxy_limit_rate $upstream_http_x_rate; }
            location /fast { proxy_pass http://127.0.0.1:ORIGIN; proxy_limit_rate 500k; }
            location /inner { proxy_limit_rate 100; location /inner/free { proxy_pass http://127.0.0.1:ORIGIN; proxy_limit_rate 0; } }
            location = /is-it-kept { return 204; }
        }";
    let site = Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()));
    (origin, site)
}

/// Whether a part comes and the rest does not, while others are served.
fn is_held_up(running: &Running, path: &str) -> bool {
    let mut client = running.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    while client.rest().len() < 500 {
        assert!(client.read_some(CONTENT) > 0, "{path}: nothing comes");
    }
    for _ in 0..3 {
        assert_eq!(running.ask("GET /is-it-kept\nConnection: close").last().status, 204);
    }
    client.closes_within(std::time::Duration::from_millis(50));
    client.rest().len() < CONTENT / 2
}

#[test]
fn the_rest_is_read_later() {
    let (_origin, site) = site();
    let running = site.start(Server::Fulmar);
    // At such a rate the rest takes minutes.
    assert!(is_held_up(&running, "/slow"));
    assert!(is_held_up(&running, "/named?100"));
    running.stop();
}

#[test]
fn all_of_it_comes_in_the_end() {
    let (_origin, site) = site();
    agree(
        &site,
        &[
            "GET /fast",
            "GET /straight",
            "GET /named",
            "GET /named?500k",
            "GET /named?wrong",
            "GET /inner/free",
        ],
    );
}

#[test]
fn all_protocols_are_limited() {
    for language in Language::ALL {
        let name = language.name();
        let application = Application::speaking(language, move |_, stream| {
            let text = format!("\r\n{}", content());
            stream.write_all(&language.answer(&text)).is_err()
        });
        let running = Site::new(&format!(
            "server {{ listen 127.0.0.1:%%PORT%%; {name}_limit_rate 100;
            location / {{ {pass} }}
            location /free {{ {pass} {name}_limit_rate 0; }}
            location = /is-it-kept {{ return 204; }} }}",
            pass = language.pass(application.address())
        ))
        .start(Server::Fulmar);
        assert!(is_held_up(&running, "/"), "{language:?}");
        assert_eq!(running.ask("GET /free").last().text(), content(), "{language:?}");
        running.stop();
    }
}

#[test]
fn mistakes() {
    for directive in ["proxy_limit_rate fast;", "uwsgi_limit_rate 1g;", "scgi_limit_rate;"] {
        agree_on_mistake(&Site::new(directive));
    }
}
