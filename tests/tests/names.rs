//! Names in variables, with name servers that answer, are slow, are down, or lie.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::application::{Application, answer};
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::differential::{agree, agree_on_mistake};
use tests::dns::{A, AAAA, Message, NameServer, Question};
use tests::origin::{Origin, ok};
use tests::site::{Running, Site};
use tests::tls::Authority;
use tests::wait;

/// Passes requests to the host in the argument `n`.
fn site(names: &NameServer, settings: &str) -> Site {
    Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; resolver {names}; {settings}
             location / {{ proxy_pass http://$arg_n:%%PORT_1%%; }}
             location /2/ {{ proxy_pass http://$arg_n:%%PORT_1%%; resolver {names} valid=1h ipv6=off; }}
         }}
         server {{ listen 127.0.0.1:%%PORT_1%%; return 200 '$http_host'; }}",
        names = names.address()
    ))
}

fn start(names: &NameServer, settings: &str) -> Running {
    site(names, settings).start(Server::Fulmar)
}

fn status(running: &Running, name: &str) -> u16 {
    running.ask(&format!("GET /?n={name}")).last().status
}

#[test]
fn answers_are_kept_for_as_long_as_they_say() {
    let names = NameServer::start(|question| {
        let ttl = if question.name == "zero.example" { 0 } else { 3600 };
        vec![Message::to(question).address(ttl, "127.0.0.1").reply()]
    });
    let running = start(&names, "");
    for name in ["one.example", "one.example", "ONE.example", "one.example."] {
        assert_eq!(status(&running, name), 200, "{}", running.all_logs());
    }
    assert_eq!((names.count("one.example", A), names.count("one.example", AAAA)), (1, 1));
    assert_eq!([status(&running, "zero.example"), status(&running, "zero.example")], [200, 200]);
    assert_eq!(names.count("zero.example", A), 2);
    let inner = || running.ask("GET /2/?n=zero.example").last().status;
    assert_eq!([inner(), inner()], [200, 200]);
    assert_eq!((names.count("zero.example", A), names.count("zero.example", AAAA)), (3, 2));
    running.stop();
}

#[test]
fn the_same_question_is_asked_once_at_a_time() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let at_gate = Arc::clone(&gate);
    let names = NameServer::start(move |question| {
        drop(at_gate.lock().unwrap());
        vec![Message::to(question).address(0, "127.0.0.1").reply()]
    });
    let running = start(&names, "");
    let mut clients: Vec<Client> = (0..20).map(|_| running.connect()).collect();
    for client in &mut clients {
        assert!(client.send(b"GET /?n=a.example HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    // An answer to a later request: the ones before wait by now.
    assert_eq!(status(&running, "127.0.0.1"), 200);
    drop(closed);
    for client in &mut clients {
        assert_eq!(client.response("GET").unwrap().status, 200);
    }
    let count = names.count("a.example", A);
    assert!(count < 20, "{count} questions");
    running.stop();
}

#[test]
fn errors_are_502_and_say_why() {
    let names = NameServer::start(|question| match question.name.as_str() {
        "missing.example" => vec![Message::to(question).error(3).reply()],
        "failing.example" => vec![Message::to(question).error(2).reply()],
        "refused.example" => vec![Message::to(question).error(5).reply()],
        "half.example" if question.kind == AAAA => vec![Message::to(question).error(2).reply()],
        "half.example" => vec![Message::to(question).address(60, "127.0.0.1").reply()],
        "empty.example" => vec![Message::to(question).reply()],
        "circle.example" => vec![Message::to(question).alias(60, "circle.example").reply()],
        _ => Vec::new(),
    });
    let running = start(&names, "resolver_timeout 300ms;");
    for (name, reason) in [
        ("missing.example", "3: Host not found"),
        ("failing.example", "2: Server failure"),
        ("refused.example", "5: Operation refused"),
        ("empty.example", "3: Host not found"),
        ("circle.example", "3: Host not found"),
        ("silent.example", "110: Operation timed out"),
        ("a..b", "3: Host not found"),
    ] {
        assert_eq!(status(&running, name), 502, "{name}");
        running.wait_for_log("error.log", &format!("{name} could not be resolved ({reason}), client: "));
    }
    assert_eq!(status(&running, "half.example"), 200, "the address of the other family counts");
    let asked = names.count("missing.example", A);
    assert_eq!(status(&running, "missing.example"), 502);
    assert_eq!(names.count("missing.example", A), asked + 1, "errors are not kept");
    running.stop();
}

#[test]
fn lies_do_not_count() {
    let truth = |question: &Question| Message::to(question).address(60, "127.0.0.1");
    let names = NameServer::start(move |question| {
        let lie = Message::to(question).address(60, "127.0.0.9").address(60, "::9");
        let Question { id, ref name, .. } = *question;
        let other = Question { name: "other.example".to_owned(), ..question.clone() };
        let other = Message::to(&other).address(60, "127.0.0.9").address(60, "::9");
        let lies = match name.as_str() {
            "id.example" => vec![lie.with_id(id ^ 1).reply()],
            "port.example" => vec![lie.from_elsewhere()],
            "question.example" => vec![other.reply()],
            "owner.example" => {
                vec![Message::to(question).record(b"\x01x\0", question.kind, 60, &[127, 0, 0, 9]).reply()]
            }
            "loop.example" => {
                vec![Message::to(question).record(b"\xc0\x1e", A, 60, &[127, 0, 0, 9]).reply()]
            }
            "length.example" => vec![Message::to(question).record(b"\xc0\x0c", A, 60, b"123").reply()],
            "flood.example" => vec![lie.with_id(id ^ 1).reply(); 10],
            _ => Vec::new(),
        };
        lies.into_iter().chain([truth(question).reply()]).collect()
    });
    let running = start(&names, "");
    for (name, reason) in [
        ("id.example", "wrong ident"),
        ("port.example", ""),
        ("question.example", "unexpected DNS response for other.example"),
        ("owner.example", "DNS response"),
        ("loop.example", "invalid name in DNS response"),
        ("length.example", "invalid A record in DNS response"),
        ("flood.example", "wrong ident"),
    ] {
        assert_eq!(status(&running, name), 200, "{name}: {}", running.all_logs());
        running.wait_for_log("error.log", reason);
    }
    let asked = names.asked();
    let mut ids: Vec<u16> = asked.iter().map(|question| question.id).collect();
    let mut ports: Vec<u16> = asked.iter().map(|question| question.port).collect();
    for all in [&mut ids, &mut ports] {
        all.sort_unstable();
        all.dedup();
    }
    // Two questions a name: each has its id, each name its port. Two equal random numbers are rare, five are not seen.
    assert!(ids.len() + 5 > asked.len() && ports.len() + 5 > asked.len() / 2, "{asked:?}");
    running.stop();
}

#[test]
fn aliases_and_answers_that_do_not_fit() {
    let names = NameServer::start(|question| {
        let message = Message::to(question);
        vec![
            match question.name.as_str() {
                "alias.example" => message.alias(60, "next.example"),
                "next.example" => message.alias(60, "long.example"),
                _ if !question.by_tcp => message.truncated(),
                _ => message.address(60, "127.0.0.1"),
            }
            .reply(),
        ]
    });
    let running = start(&names, "");
    assert_eq!(status(&running, "alias.example"), 200, "{}", running.all_logs());
    let over_tcp = names.asked().iter().filter(|question| question.by_tcp).count();
    assert_eq!((over_tcp, names.asked().len()), (2, 8));
    assert_eq!(status(&running, "long.example"), 200);
    assert_eq!(names.asked().len(), 8, "what an alias led to is kept, too");
    running.stop();
}

#[test]
fn a_name_server_that_is_down_is_left() {
    let names = NameServer::of("127.0.0.1");
    // No server listens at port 1.
    let more = format!("resolver 127.0.0.1:1 {}; ", names.address());
    let text = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; {more} location / {{ proxy_pass http://$arg_n:%%PORT_1%%; }} }}
         server {{ listen 127.0.0.1:%%PORT_1%%; return 200; }}"
    );
    let running = Site::new(&text).start(Server::Fulmar);
    for name in ["a.example", "b.example", "c.example", "d.example"] {
        assert_eq!(status(&running, name), 200, "{name}: {}", running.all_logs());
    }
    running
        .wait_for_log("error.log", "failed (111: Connection refused) while resolving, resolver: 127.0.0.1:1");
    running.stop();
}

#[test]
fn open_questions_are_bounded() {
    let names = NameServer::start(|question| match question.name.as_str() {
        "later.example" => vec![Message::to(question).address(60, "127.0.0.1").reply()],
        _ => Vec::new(),
    });
    let running = start(&names, "resolver_timeout 60s;");
    let mut clients: Vec<Client> = (0..300).map(|_| running.connect()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let request = format!("GET /?n=n{index}.example HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.send(request.as_bytes()));
    }
    running.wait_for_log("error.log", "could not be resolved (too many names are looked up at this time)");
    // Questions of clients that left make room.
    drop(clients);
    let left = || running.log("access.log").matches(" 499 ").count() >= 256;
    assert!(wait::until(Duration::from_secs(10), left), "{}", running.log("access.log"));
    assert_eq!(status(&running, "later.example"), 200);
    running.stop();
}

#[test]
fn every_address_is_tried() {
    let names = NameServer::start(|question| {
        vec![Message::to(question).address(60, "127.0.0.2").address(60, "127.0.0.1").reply()]
    });
    let origin = Origin::start(|_| ok("fine"));
    let running = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; resolver {} ipv6=off;
             location / {{ proxy_pass http://$arg_n:{}; add_header X-Asked $upstream_addr; }} }}",
        names.address(),
        origin.address().port()
    ))
    .start(Server::Fulmar);
    let first = running.ask("GET /?n=a.example");
    let asked = first.last().field("X-Asked").unwrap_or_default().to_owned();
    let port = origin.address().port();
    assert_eq!(asked, format!("127.0.0.2:{port}, 127.0.0.1:{port}"));
    running.stop();
}

#[test]
fn fastcgi_servers_have_names_too() {
    let names = NameServer::of("127.0.0.1");
    let application = Application::start(|_, stream| {
        stream.write_all(&answer("Content-Type: text/plain\r\n\r\nfine")).is_err()
    });
    let running = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; resolver {};
             location / {{ set $app app.example:{}; fastcgi_pass $app; }} }}",
        names.address(),
        application.address().port()
    ))
    .start(Server::Fulmar);
    assert_eq!(running.ask("GET /").last().text(), "fine", "{}", running.all_logs());
    assert_eq!(names.count("app.example", A), 1);
    running.stop();
}

#[test]
fn certificates_are_checked_for_the_name() {
    let names = NameServer::of("127.0.0.1");
    let authority = Authority::new("an authority");
    let made = authority.certificate("a.example", 7);
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; resolver {};
             proxy_ssl_verify on; proxy_ssl_server_name on; proxy_ssl_trusted_certificate %%DIR%%/ca.pem;
             location / {{ proxy_pass https://$arg_n:%%PORT_1%%; }} }}
         server {{ listen 127.0.0.1:%%PORT_1%% ssl; ssl_certificate %%DIR%%/a.pem;
             ssl_certificate_key %%DIR%%/a.key; return 200 $ssl_server_name; }}",
        names.address()
    ))
    .in_prefix("ca.pem", &authority.pem)
    .in_prefix("a.pem", &made.pem)
    .in_prefix("a.key", &made.key);
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /?n=a.example").last().text(), "a.example", "{}", running.all_logs());
    assert_eq!(status(&running, "b.example"), 502);
    running.wait_for_log("error.log", "upstream SSL certificate does not match \"b.example\"");
    running.stop();
}

#[test]
fn groups_addresses_and_names_are_those_of_nginx() {
    if !have_nginx() {
        return;
    }
    let served = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&served);
    let names = NameServer::start(move |question| {
        counted.fetch_add(1, Ordering::SeqCst);
        let message = Message::to(question);
        vec![
            match question.name.as_str() {
                "missing.example" => message.error(3),
                "alias.example" => message.alias(60, "here.example"),
                "other.example" => message.address(60, "127.0.0.2").address(60, "127.0.0.1"),
                _ => message.address(60, "127.0.0.1"),
            }
            .reply(),
        ]
    });
    let site = Site::new(&format!(
        "upstream group {{ server 127.0.0.1:%%PORT_1%%; }}
         server {{ listen 127.0.0.1:%%PORT%%; resolver {names} ipv6=off;
             location / {{ proxy_pass http://$arg_n; }}
             location /port/ {{ proxy_pass http://$arg_n:%%PORT_1%%; }}
             location /uri/ {{ proxy_pass http://$arg_n:%%PORT_1%%/a?b; }}
             location /sent/ {{ proxy_pass http://$arg_n:%%PORT_1%%$request_uri; }}
             location /fcgi/ {{ fastcgi_pass $arg_n; }} }}
         server {{ listen 127.0.0.1:%%PORT_2%%; location / {{ proxy_pass http://$arg_n:%%PORT_1%%; }} }}
         server {{ listen 127.0.0.1:%%PORT_1%%; return 200 '$http_host $request_uri'; }}",
        names = names.address()
    ));
    let paths = [
        "GET /?n=group",
        "GET /?n=GROUP",
        "GET /port/?n=here.example",
        "GET /port/?n=HERE.example",
        "GET /port/?n=here.example.",
        "GET /port/?n=alias.example",
        "GET /port/?n=other.example",
        "GET /port/?n=missing.example",
        "GET /port/?n=127.0.0.1",
        "GET /port/?n=a..b",
        "GET /uri/?n=here.example",
        "GET /sent/x%20y?n=here.example",
        "GET /fcgi/?n=here.example",
        "GET /fcgi/?n=none",
    ];
    agree(&site, &paths);
    assert!(served.load(Ordering::SeqCst) > 0);
    for wrong in ["resolver valid=1s;", "resolver 127.0.0.1 ipv6=x;", "resolver 127.0.0.1 ipv4=off ipv6=off;"]
    {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}")));
    }
}
