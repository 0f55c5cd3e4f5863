//! The URI that an upstream server gets: every byte in a path and in a query, by every way to build it, beside nginx.

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::origin::{Asked, Origin, ok};
use tests::site::{Running, Site};

/// What happens to a byte that the client sent as `%XX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Becomes {
    /// `%XX`, unless a path may hold it.
    Path,
    /// `%XX`, unless a value in a query may hold it.
    Value,
    /// `%XX` if it would end the URI, else the byte itself.
    Whole,
    /// `%XX`, as the client sent it.
    Sent,
}

impl Becomes {
    fn shown(self, byte: u8) -> Vec<u8> {
        let is_plain = |marks: &[u8]| byte.is_ascii_alphanumeric() || marks.contains(&byte);
        let is_kept = match self {
            Becomes::Path => is_plain(b"!$&'()*+,-./:;=@[]_~"),
            Becomes::Value => is_plain(b"!$'()*,-./:=@[]_~"),
            Becomes::Whole => !matches!(byte, 0..=b' ' | b'#' | 0x7f),
            Becomes::Sent => false,
        };
        if is_kept { vec![byte] } else { format!("%{byte:02X}").into_bytes() }
    }
}

struct Way {
    /// What the location of this way does.
    does: &'static str,
    /// What stands in front of the byte in the request that the upstream server gets.
    before: &'static str,
    becomes: Becomes,
    /// Whether nginx sends the same.
    as_nginx: bool,
}

/// The location of each way is `/w/`, and a request `/w/x%XXy`.
const WAYS: [Way; 15] = [
    Way {
        does: "location ~ ^/w/(.*)$ { proxy_pass http://$o/p/$1; }",
        before: "/p/x",
        becomes: Becomes::Path,
        as_nginx: false,
    },
    Way {
        does: "location ~ ^/w/(?<rest>.*)$ { proxy_pass http://$o/p/$rest; }",
        before: "/p/x",
        becomes: Becomes::Path,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { proxy_pass http://$o$uri; }",
        before: "/w/x",
        becomes: Becomes::Path,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { set $copy $uri; proxy_pass http://$o/p$copy$is_args$args; }",
        before: "/p/w/x",
        becomes: Becomes::Path,
        as_nginx: false,
    },
    Way {
        does: "map $uri $mapped { ~^/w/(?<of_map>.*)$ $of_map; }
               location /w/ { proxy_pass http://$o/p/$mapped; }",
        before: "/p/x",
        becomes: Becomes::Path,
        as_nginx: false,
    },
    Way {
        does: "location ~ ^/w/(.*)$ { proxy_pass http://$o/p?v=$1; }",
        before: "/p?v=x",
        becomes: Becomes::Value,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { proxy_pass http://$o/p?v=$uri; }",
        before: "/p?v=/w/x",
        becomes: Becomes::Value,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { rewrite ^/w/(.*)$ /p/$1 break; proxy_pass http://ORIGIN; }",
        before: "/p/x",
        becomes: Becomes::Path,
        as_nginx: true,
    },
    Way {
        does: "location /w/ { rewrite ^/w/(.*)$ /p?v=$1 break; proxy_pass http://ORIGIN; }",
        before: "/p?v=x",
        becomes: Becomes::Value,
        as_nginx: true,
    },
    Way {
        does: "location /w/ { rewrite ^/w/(?<named>.*)$ /p?v=$named break; proxy_pass http://ORIGIN; }",
        before: "/p?v=x",
        becomes: Becomes::Whole,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { try_files /none /back?v=$uri; }
               location = /back { proxy_pass http://ORIGIN; }",
        before: "/back?v=/w/x",
        becomes: Becomes::Whole,
        as_nginx: false,
    },
    Way {
        does: "location /w/ { proxy_pass http://ORIGIN/p/; }",
        before: "/p/x",
        becomes: Becomes::Path,
        as_nginx: true,
    },
    Way {
        does: "location /w/ { proxy_pass http://ORIGIN; }",
        before: "/w/x",
        becomes: Becomes::Sent,
        as_nginx: true,
    },
    Way {
        does: "location /w/ { proxy_pass http://$o$request_uri; }",
        before: "/w/x",
        becomes: Becomes::Sent,
        as_nginx: true,
    },
    Way {
        does: "location /w/ { if ($request_uri ~ ^/w/(.*)$) { proxy_pass http://$o/p/$1; } }",
        before: "/p/x",
        becomes: Becomes::Sent,
        as_nginx: true,
    },
];

/// A server that answers with the target as it arrived, up to the version.
fn echo() -> Origin {
    Origin::start(|asked: &Asked| {
        let end = asked.text.windows(9).position(|part| part == b" HTTP/1.1").unwrap_or(0);
        ok(asked.text[..end].strip_prefix(b"GET ").unwrap_or_default())
    })
}

fn site(origin: &Origin, way: &str) -> Site {
    let address = origin.address().to_string();
    let (maps, locations) = way.split_once("location").unwrap();
    Site::new(&format!(
        "{maps}
         server {{
             listen 127.0.0.1:%%PORT%%;
             set $o {address};
             location{locations}
         }}",
        locations = locations.replace("ORIGIN", &address)
    ))
}

fn seen(client: &mut Client, target: &[u8]) -> Vec<u8> {
    client.send(&[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    client.response("GET").map(|response| response.body).unwrap_or_default()
}

#[test]
fn every_encoded_byte_of_a_path() {
    let origin = echo();
    for Way { does, before, becomes, as_nginx } in WAYS {
        let site = site(&origin, does);
        let running = site.start(Server::Fulmar);
        let nginx = (as_nginx && have_nginx()).then(|| site.start(Server::Nginx));
        let mut clients: Vec<Client> =
            [Some(&running), nginx.as_ref()].into_iter().flatten().map(Running::connect).collect();
        // A dot matches no line end.
        for byte in (1..=255).filter(|byte| *byte != b'\n' || !does.contains(".*")) {
            let expected = [before.as_bytes(), &becomes.shown(byte), b"y"].concat();
            for (client, name) in clients.iter_mut().zip(["Fulmar", "nginx"]) {
                let got = seen(client, format!("/w/x%{byte:02X}y").as_bytes());
                assert_eq!(
                    String::from_utf8_lossy(&got),
                    String::from_utf8_lossy(&expected),
                    "{name}, {byte:#04x}: {does}"
                );
            }
        }
        running.stop();
        nginx.into_iter().for_each(Running::stop);
    }
}

/// In a query a client may send most bytes as they are. nginx passes them on, and so does Fulmar.
#[test]
fn every_byte_of_a_query() {
    let origin = echo();
    for does in [
        "location /w/ { proxy_pass http://ORIGIN; }",
        "location /w/ { proxy_pass http://$o$request_uri; }",
        "location /w/ { proxy_pass http://$o/w/p?$args; }",
        "location /w/ { rewrite ^ /w/p break; proxy_pass http://ORIGIN; }",
    ] {
        let site = site(&origin, does);
        let running = site.start(Server::Fulmar);
        let nginx = have_nginx().then(|| site.start(Server::Nginx));
        let mut clients: Vec<Client> =
            [Some(&running), nginx.as_ref()].into_iter().flatten().map(Running::connect).collect();
        for byte in (0x21..=255).filter(|byte| !matches!(byte, b'#' | 0x7f)) {
            let target = [b"/w/p?x", &[byte][..], b"y"].concat();
            for client in &mut clients {
                assert_eq!(seen(client, &target), target, "{byte:#04x}: {does}");
            }
        }
        for byte in 0..=255 {
            let target = format!("/w/p?x%{byte:02x}y").into_bytes();
            for client in &mut clients {
                assert_eq!(seen(client, &target), target, "{byte:#04x}: {does}");
            }
        }
        running.stop();
        nginx.into_iter().for_each(Running::stop);
    }
}

/// What passes by a location that denies it where the built URI means something else than the path that was asked for.
#[test]
fn no_encoding_passes_by_an_access_rule() {
    let origin = echo();
    let deny = "location = /w/admin { deny all; } location ^~ /w/a/../ { deny all; }";
    for (does, before) in [
        (format!("location ~ ^/w/(.*)$ {{ proxy_pass http://$o/$1; }} {deny}"), "/"),
        (format!("location ~ ^/w/(?<rest>.*)$ {{ proxy_pass http://$o/$rest; }} {deny}"), "/"),
        (format!("location ^~ /w/ {{ proxy_pass http://$o$uri; }} {deny}"), "/w/"),
    ] {
        let site = site(&origin, &does);
        let running = site.start(Server::Fulmar);
        let mut client = running.connect();
        assert_eq!(running.ask("GET /w/admin").last().status, 403);
        for path in ["admin%23", "admin%23x#x", "admin%3F", "admin%3Fx=y", "%2561dmin", "x/%252E%252E/admin"]
        {
            let got = seen(&mut client, format!("/w/{path}").as_bytes());
            let sent = path.split('#').next().unwrap();
            assert_eq!(String::from_utf8_lossy(&got), format!("{before}{sent}"), "{does}");
        }
        running.stop();
    }
    if have_nginx() {
        let nginx = site(&origin, "location ~ ^/w/(.*)$ { proxy_pass http://$o/$1; }").start(Server::Nginx);
        let mut client = nginx.connect();
        for (path, sent) in [("admin%23", "/admin#"), ("admin%3F", "/admin?"), ("%2561dmin", "/%61dmin")] {
            let got = seen(&mut client, format!("/w/{path}").as_bytes());
            assert_eq!(String::from_utf8_lossy(&got), sent, "nginx no longer differs");
        }
        nginx.stop();
    }
}

/// A capture that also has the host is a URL: an encoded `?` in it may begin the query, as in nginx.
#[test]
fn a_url_in_a_capture_stays_one() {
    let origin = echo();
    let site = site(&origin, "location ~ ^/w/(.*)$ { proxy_pass http://$1; }");
    let servers = if have_nginx() { &[Server::Fulmar, Server::Nginx][..] } else { &[Server::Fulmar] };
    for &server in servers {
        let running = site.start(server);
        let got = seen(&mut running.connect(), format!("/w/{}/a%3Fb=%2541", origin.address()).as_bytes());
        assert_eq!(String::from_utf8_lossy(&got), "/a?b=%41", "{server:?}");
        running.stop();
    }
}
