//! Sessions that stay with their server: the same choices and the same cookies as nginx's.

use std::fmt::Write as _;

use md5::{Digest, Md5};
use tests::application::{Application, Language};
use tests::binary::Server;
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Origin, ok, raw};
use tests::site::Site;

const COUNT: usize = 4;

/// Servers that say which they are. What is asked of them may begin a session or lead elsewhere.
fn origins() -> Vec<Origin> {
    let answer = |number: usize, target: &str| match target.split(['?', '=']).collect::<Vec<_>>()[..] {
        [_, "begin", session] => raw(
            &format!(
                "HTTP/1.1 200 OK\r\nSet-Cookie: sid={session}; path=/\r\nContent-Length: 1\r\n\r\n{number}"
            ),
            After::Keep,
        ),
        [_, "to", path] => {
            let head = format!("X-Accel-Redirect: {path}\r\nSet-Cookie: own={number}\r\nContent-Length: 0");
            raw(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"), After::Keep)
        }
        [_, "status", status] => {
            raw(&format!("HTTP/1.1 {status} Some\r\nContent-Length: 1\r\n\r\n{number}"), After::Keep)
        }
        _ => ok(number.to_string()),
    };
    (0..COUNT).map(|number| Origin::start(move |asked| answer(number, &asked.target))).collect()
}

/// A group of these servers, with what stands after the address of each.
fn group(name: &str, inside: &str, origins: &[Origin], parameters: [&str; COUNT]) -> String {
    let mut text = format!("upstream {name} {{ {inside}\n");
    for (origin, parameters) in origins.iter().zip(parameters) {
        let _ = writeln!(text, "server {} {parameters};", origin.address());
    }
    text + "}\n"
}

const PASSING: &str = "server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Asked $upstream_addr always;
    location ~ ^/(\\w+) { proxy_pass http://$1; }
}";

/// Which server a request names, if it names one: in an order that brings each after each.
fn named(number: usize) -> Option<usize> {
    [None, Some(2), Some(0), None, Some(2), Some(2), Some(1), None, Some(3), Some(0), None, Some(9)]
        .get(number % 12)
        .copied()
        .flatten()
}

const ROUTES: [&str; COUNT] = ["route=0", "route=1 weight=3", "route=2 weight=2", "route=3"];

#[test]
fn each_method_leaves_sessions_with_their_servers() {
    let origins = origins();
    let methods = ["", "least_conn;", "ip_hash;", "hash $arg_key;", "hash $arg_key consistent;"];
    let mut http = String::new();
    let mut requests = Vec::new();
    let spare = ["route=0", "route=1 down", "route=2 weight=2 drain", "route=3 backup"];
    for (at, method) in methods.iter().enumerate() {
        let sticky = format!("{method} sticky route $arg_a $arg_b;");
        http += &group(&format!("all{at}"), &sticky, &origins, ROUTES);
        // Methods that know no backups accept them before their line.
        let others = group(&format!("some{at}"), "", &origins, spare);
        http += &others.replacen("\n}", &format!("\n{sticky} }}"), 1);
        for number in 0..36 {
            let name = named(number).map_or(String::new(), |server| format!("&b={server}"));
            requests.push(format!("GET /all{at}?key=k{number}{name}"));
            requests.push(format!("GET /some{at}?key=k{number}{name}"));
        }
        requests.push(format!("GET /all{at}?a=1&b=2"));
    }
    http += PASSING;
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&Site::new(&http), &requests);
}

/// At nginx, the line of the method takes the place of `sticky` with no more than a warning.
#[test]
fn a_method_may_follow_the_line() {
    let origins = origins();
    let http = group("late", "sticky route $arg_a; least_conn;", &origins, ROUTES) + PASSING;
    let running = Site::new(&http).start(Server::Fulmar);
    let mut client = running.connect();
    for _ in 0..COUNT {
        assert_eq!(client.exchange("GET /late?a=2").unwrap().text(), "2");
    }
    running.stop();
}

#[test]
fn servers_of_sessions_are_not_drawn() {
    let origins = origins();
    let mut http = group("one", "random; sticky route $arg_a;", &origins, ROUTES);
    http += &group("two", "random two; sticky route $arg_a;", &origins, ROUTES);
    http += &group("quick", "least_time header inflight; sticky route $arg_a;", &origins, ROUTES);
    http += PASSING;
    let requests: Vec<String> = (0..COUNT)
        .flat_map(|server| ["one", "two", "quick"].map(|name| format!("GET /{name}?a={server}")))
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&Site::new(&http), &requests);
}

#[test]
fn cookies_name_servers() {
    let origins = origins();
    let mut http = String::new();
    let ways = [
        "sticky cookie srv;",
        "sticky cookie Srv-1 path=/a domain=$arg_domain secure httponly samesite=Lax;",
        "sticky cookie srv samesite=$arg_samesite \"path=/ b\";",
        "sticky cookie srv expires=max domain=.example.com httponly;",
        "least_conn; sticky cookie srv secure;",
    ];
    for (at, way) in ways.iter().enumerate() {
        http += &group(&format!("u{at}"), way, &origins, ["", "weight=2", "route=some", "drain"]);
    }
    http += PASSING;
    let mut requests = vec![
        "GET /u1?domain=example.com".to_owned(),
        "GET /u2?samesite=NONE".to_owned(),
        "GET /u2?samesite=some".to_owned(),
        "GET /u2?status=302".to_owned(),
        "HEAD /u0".to_owned(),
        "GET /u0?status=304".to_owned(),
        "GET /u0?begin=other".to_owned(),
    ];
    let routes: Vec<String> =
        origins.iter().map(|origin| md5_text(&origin.address().to_string())).chain(["some".into()]).collect();
    for at in 0..ways.len() {
        let name = if at == 1 { "Srv-1" } else { "srv" };
        requests.extend((0..3).map(|_| format!("GET /u{at}")));
        for route in &routes {
            requests.push(format!("GET /u{at}\nCookie: a=b; {name}={route}"));
            requests.push(format!("GET /u{at}\nCookie: {}={route}", name.to_uppercase()));
        }
        requests.push(format!("GET /u{at}\nCookie: {name}=; {name}=some"));
        requests.push(format!("GET /u{at}\nCookie: {name}={}", routes[0].to_uppercase()));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&Site::new(&http), &requests);
}

/// The MD5 hash of a text, as `md5sum` writes it.
fn md5_text(text: &str) -> String {
    http::hex::text(&Md5::digest(text))
}

/// Without a server that answers, each protocol tells the client by its cookie which server it asked last.
#[test]
fn every_protocol_keeps_sessions() {
    let origins = origins();
    let dead =
        "sticky cookie srv; server 127.0.0.1:1 max_fails=0; server 127.0.0.1:2 max_fails=0 route=second;";
    let mut http = format!("upstream dead {{ {dead} }}\n");
    http += &group("live", "sticky cookie srv;", &origins, [""; COUNT]);
    let _ = write!(
        http,
        "upstream half {{ sticky route $arg_a; server 127.0.0.1:1 route=bad max_fails=0; server {} route=good; }}
         proxy_cache_path cache keys_zone=z:1m;
         server {{
             listen 127.0.0.1:%%PORT%%;
             add_header X-Asked $upstream_addr always;
             location /proxy {{ proxy_pass http://dead; }}
             location /fastcgi {{ fastcgi_pass dead; }}
             location /uwsgi {{ uwsgi_pass dead; }}
             location /scgi {{ scgi_pass dead; }}
             location /memcached {{ set $memcached_key a; memcached_pass dead; }}
             location /page {{ proxy_pass http://dead; error_page 502 /sorry; }}
             location /page/live {{ proxy_pass http://dead; error_page 502 /live; }}
             location /sorry {{ return 200 sorry; }}
             location /half {{ proxy_pass http://half; }}
             location /live {{ proxy_pass http://live; }}
             location /intercept {{
                 proxy_pass http://live; proxy_intercept_errors on; error_page 404 /sorry;
             }}
             location /kept {{ proxy_pass http://live; proxy_cache z; proxy_cache_valid 1h; }}
             location /checked {{ auth_request /check; return 200 yes; }}
             location /check {{ internal; proxy_pass http://live; }}
             location /included {{ ssi on; ssi_types *; return 200 '<!--#include virtual=\"/live\" -->'; }}
         }}",
        origins[0].address()
    );
    agree(
        &Site::new(&http),
        &[
            "GET /proxy",
            "GET /proxy\nCookie: srv=second",
            "GET /fastcgi",
            "GET /fastcgi\nCookie: srv=second",
            "GET /uwsgi\nCookie: srv=second",
            "GET /scgi\nCookie: srv=second",
            "GET /memcached\nCookie: srv=second",
            "GET /page\nCookie: srv=second",
            "GET /page/live\nCookie: srv=second",
            "GET /half?a=bad",
            "GET /half?a=good",
            "GET /live?to=/sorry",
            "GET /live?to=/live",
            "GET /intercept?status=404",
            "GET /kept/a",
            "GET /kept/a",
            "GET /kept/b",
            "GET /checked",
            "GET /included",
        ],
    );
}

#[test]
fn the_server_of_a_session_is_learned() {
    let origins = origins();
    let mut http = String::new();
    let learn = |parameters: &str, zone: &str| {
        let variables =
            "create=$upstream_cookie_sid create=$upstream_http_x_none lookup=$cookie_sid lookup=$arg_sid";
        format!("sticky learn {variables} zone={zone}:1m {parameters};")
    };
    http += &group("late", &learn("", "a"), &origins, [""; COUNT]);
    http += &group("early", &learn("header timeout=1h", "b"), &origins, [""; COUNT]);
    http += &group("least", &learn("timeout=1h", "c"), &origins, ["", "drain", "", "backup"]);
    http += "server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Asked $upstream_addr always;
        location ~ ^/(\\w+) { proxy_pass http://$1; proxy_next_upstream error http_404 http_500; }
    }";
    let mut requests = Vec::new();
    for name in ["late", "early", "least"] {
        for session in ["one", "two", "three", "one"] {
            requests.push(format!("GET /{name}?begin={session}"));
            requests.push(format!("GET /{name}?begin={session}\nCookie: sid=none"));
        }
        for session in ["one", "two", "three", "none", "TWO"] {
            requests.push(format!("GET /{name}\nCookie: sid={session}"));
            requests.push(format!("GET /{name}?sid={session}"));
        }
        requests.push(format!("GET /{name}?begin=one\nCookie: sid=two"));
        requests.push(format!("HEAD /{name}?begin=four"));
        requests.push(format!("GET /{name}\nCookie: sid=one"));
        requests.push(format!("GET /{name}\nCookie: sid=four"));
        // No server is left that has not failed: each was asked once, and the last one's answer is sent.
        requests.push(format!("GET /{name}?status=404\nCookie: sid=one"));
        requests.push(format!("GET /{name}\nCookie: sid=one"));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&Site::new(&http), &requests);
}

/// Answers of each protocol begin sessions, which stay with their servers.
#[test]
fn every_protocol_begins_sessions() {
    let learn = |zone: &str| {
        format!("sticky learn create=$upstream_cookie_sid lookup=$arg_sid zone={zone}:1m timeout=1h;")
    };
    let (mut groups, mut locations, mut requests) = (String::new(), String::new(), Vec::new());
    let mut applications = Vec::new();
    for language in [Language::FastCgi, Language::Scgi, Language::Uwsgi] {
        let name = language.name();
        let _ = writeln!(groups, "upstream {name} {{ {}", learn(name));
        for number in 0..3 {
            let application = Application::speaking(language, move |request, stream| {
                let session = request.param("QUERY_STRING").strip_prefix("begin=").unwrap_or("x");
                let head = format!("Content-Type: text/plain\r\nSet-Cookie: sid={session}; path=/");
                stream.write_all(&language.answer(&format!("{head}\r\n\r\n{number}"))).is_err()
            });
            let _ = writeln!(groups, "server {};", application.address());
            applications.push(application);
        }
        groups += "}\n";
        let pass = language.pass(name);
        let _ = writeln!(locations, "location /{name} {{ {pass} {name}_param QUERY_STRING $args; }}");
    }
    let _ = write!(
        groups,
        "upstream grpc {{ {} server 127.0.0.1:%%PORT_1%%; server 127.0.0.1:%%PORT_2%%; server 127.0.0.1:%%PORT_3%%; }}",
        learn("grpc")
    );
    for number in 1..=3 {
        let _ = write!(
            groups,
            "server {{
                listen 127.0.0.1:%%PORT_{number}%%; http2 on;
                location / {{ add_header Set-Cookie sid=$arg_begin; return 200 {number}; }}
            }}"
        );
    }
    for name in ["fastcgi", "scgi", "uwsgi", "grpc"] {
        requests
            .extend(["one", "two", "three", "four"].map(|session| format!("GET /{name}?begin={session}")));
        requests.extend(
            ["four", "one", "three", "one", "two"].map(|session| format!("GET /{name}?sid={session}")),
        );
    }
    let http = format!(
        "{groups} server {{ listen 127.0.0.1:%%PORT%%; {locations} location /grpc {{ grpc_pass grpc; }} }}"
    );
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&Site::new(&http), &requests);
}

#[test]
fn sessions_survive_a_reload_and_a_server_is_drained() {
    let origins = origins();
    let learn = "sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=a:1m timeout=1h;";
    let configuration = |parameters| group("u", learn, &origins, parameters) + PASSING;
    let site = Site::new(&configuration([""; COUNT]));
    let running = site.start(Server::Fulmar);
    let asked = |request: &str| running.connect().exchange(request).unwrap().text();
    assert_eq!(asked("GET /u?begin=s"), "0");
    running.rewrite(&configuration(["drain", "", "", ""]));
    let output = site.command(Server::Fulmar).args(["-s", "reload"]).output().expect("run");
    assert!(output.status.success(), "{}", running.all_logs());
    for _ in 0..2 * COUNT {
        assert_eq!(asked("GET /u\nCookie: sid=s"), "0", "the session stays");
        assert_ne!(asked("GET /u"), "0", "a request without a session");
    }
    running.stop();
}

#[test]
fn mistakes_are_those_of_nginx() {
    for inside in [
        "sticky cookies a;",
        "sticky cookie;",
        "sticky cookie a; sticky route $arg_a;",
        "sticky cookie a path=;",
        "sticky cookie a httponly httponly;",
        "sticky cookie a expires=x;",
        "sticky cookie a samesite=some;",
        "sticky cookie a some;",
        "sticky route a;",
        "sticky route $none;",
        "sticky learn create=$arg_a zone=a:1m;",
        "sticky learn lookup=$arg_a zone=a:1m;",
        "sticky learn lookup=$arg_a create=$arg_a;",
        "sticky learn lookup=a create=$arg_a zone=a:1m;",
        "sticky learn zone=a;",
        "sticky learn timeout=0 zone=a:1m;",
        "server 127.0.0.1:2 route=;",
        "server 127.0.0.1:2 route=123456789012345678901234567890123;",
        "server 127.0.0.1:2 drains;",
    ] {
        agree_on_mistake(&Site::new(&format!(
            "upstream u {{ server 127.0.0.1:1; {inside} }} server {{ listen 127.0.0.1:%%PORT%%; }}"
        )));
    }
}
