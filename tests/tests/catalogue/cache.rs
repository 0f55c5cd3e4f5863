//! Responses that are kept, and what must never become one that others are given (rows I1–I16, L7 and L9 of a cache).
//!
//! | row | elsewhere |
//! |---|---|
//! | I6 | `differential::caching`: a response with `Set-Cookie` is not kept, as in nginx |
//! | I8 | `caching::what_is_cut_off_is_never_kept` |
//! | I12 | `caching::damaged_and_foreign_files_are_never_sent`, `cache_faults::a_file_that_vanishes_or_is_cut_off_while_it_is_sent` |
//! | I13 | `caching::a_full_disk_ends_only_the_writing`, `cache_faults::a_full_disk_cuts_no_client_that_reads_along` |
//! | I14 | `caching::a_worker_that_is_killed_leaves_no_half_response` |

use tests::binary::Server;
use tests::origin::{After, Asked, Reply, raw};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::{wait, worker};

use super::resources::Clock;
use super::surroundings::Tracer;
use crate::cache_faults::{digested, number_of};
use crate::caching::{Counter, LIMIT, get, kept, numbered, only_file, pair, with};

fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_default()
}

/// Repeats what the request says.
fn reflecting(asked: &Asked, _: usize) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).into_owned();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    let said = ["Host", "X-Forwarded-Host", "X-Original-URL"].map(|name| field(&text, name)).join("|");
    let said = format!("{} {said} {body}", asked.target);
    raw(
        &format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{said}",
            said.len()
        ),
        After::Keep,
    )
}

fn ask(running: &Running, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    running.ask_bytes(request.as_bytes()).last().clone()
}

fn status(response: &Response) -> &str {
    response.field("X-Cache").unwrap_or_default()
}

/// I1: by the rules of RFC 9111 the key has the host that the client names, with its port; by nginx's rules where the
/// configuration says so.
#[test]
fn i1_one_path_on_two_hosts() {
    let passes = "proxy_set_header Host $http_host;";
    for settings in [
        format!("{passes} proxy_cache_rules rfc9111;"),
        format!("{passes} proxy_cache_key $scheme://$http_host$request_uri;"),
    ] {
        let counter = Counter::start(reflecting);
        let running = counter.site(&with(&settings)).start(Server::Fulmar);
        for host in ["a", "b", "a:81", "a:82"] {
            let first = ask(&running, "/x", &format!("Host: {host}\r\n"));
            assert_eq!(status(&first), "MISS", "{host}");
            let second = ask(&running, "/x", &format!("Host: {host}\r\n"));
            assert_eq!((status(&second), second.text()), ("HIT", format!("/x {host}|| ")), "{settings}");
        }
        running.stop();
    }
}

/// I2: a field that changes the response is part of the key, or does not reach the other server.
#[test]
fn i2_fields_that_are_in_no_key() {
    let settings = "proxy_set_header X-Forwarded-Host ''; proxy_set_header X-Original-URL '';";
    let counter = Counter::start(reflecting);
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let poison = "Host: a\r\nX-Forwarded-Host: evil\r\nX-Original-URL: /evil\r\n";
    assert!(!ask(&running, "/x", poison).text().contains("evil"));
    assert!(!ask(&running, "/x", "Host: a\r\n").text().contains("evil"));
    running.stop();
    // What the other server names in `Vary` is part of the key without a word of the configuration.
    let counter = Counter::start(|asked, number| {
        let (bytes, after) = reflecting(asked, number);
        let text = String::from_utf8(bytes).unwrap();
        raw(&text.replacen("\r\n", "\r\nVary: X-Forwarded-Host, X-Original-URL\r\n", 1), after)
    });
    let running = counter.site(&with("")).start(Server::Fulmar);
    assert!(ask(&running, "/x", poison).text().contains("evil"));
    assert!(!ask(&running, "/x", "Host: a\r\n").text().contains("evil"));
    running.stop();
}

/// I3: a path that looks like one of a file makes a private page no file. Key and location see the same path.
#[test]
fn i3_private_pages_with_the_names_of_files() {
    let counter = Counter::start(|asked, number| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        let body = format!("{number} for {}", field(&text, "Cookie"));
        let control = if asked.target.contains("account") { "private, max-age=600" } else { "max-age=600" };
        raw(
            &format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            After::Keep,
        )
    });
    let running = counter.site(&with("")).start(Server::Fulmar);
    for path in ["x.css", "%2fx.css", ";x.css", "%3f.css", "%23.css", "../account/x.css", "?x.css"] {
        let target = format!("/account/{path}");
        assert!(ask(&running, &target, "Host: a\r\nCookie: victim\r\n").text().ends_with("victim"));
        let stolen = ask(&running, &target, "Host: a\r\n");
        assert!(!stolen.text().contains("victim"), "{target}: {stolen}");
    }
    assert_eq!(ask(&running, "/account/%00.css", "Host: a\r\n").status, 400);
    running.stop();
}

/// I4: the answer to a request with a password is for nobody else, by the rules of RFC 9111.
#[test]
fn i4_answers_to_requests_with_passwords() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("proxy_cache_rules rfc9111;")).start(Server::Fulmar);
    let secret = "Host: a\r\nAuthorization: Basic YTpi\r\n";
    assert_eq!(ask(&running, "/a", secret).text(), "number 1");
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 2"));
    running.stop();
}

/// I7: a GET request with a body, and HEAD, poison nothing.
#[test]
fn i7_requests_that_are_not_what_the_key_says() {
    let counter = Counter::start(reflecting);
    let running = counter.site(&with("")).start(Server::Fulmar);
    for body in ["Content-Length: 4\r\n\r\nevil", "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"]
    {
        let request = format!("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{body}");
        let answer = running.ask_bytes(request.as_bytes()).last().clone();
        assert!(answer.text().ends_with("evil") && status(&answer) == "BYPASS", "{answer}");
    }
    let first = ask(&running, "/x", "Host: a\r\n");
    assert_eq!(status(&first), "MISS");
    let request = b"HEAD /head HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(status(running.ask_bytes(request).last()), "MISS");
    let after = ask(&running, "/head", "Host: a\r\n");
    assert!(status(&after) == "HIT" && after.text().starts_with("/head "), "{after}");
    running.stop();
}

/// I9: a part that the client asks for is not kept as the whole, and parts of different contents are not put together.
#[test]
fn i9_parts() {
    let counter = Counter::start(|asked, number| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        let range = field(&text, "Range").strip_prefix("bytes=").map(|range| range.split_once('-').unwrap());
        let Some((start, end)) = range else { return numbered(asked, number) };
        let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
        let tag = if asked.target == "/changes" && start > 0 { "new" } else { "old" };
        let body = vec![tag.as_bytes()[0]; end + 1 - start];
        let head = format!(
            "HTTP/1.1 206 Part\r\nCache-Control: max-age=600\r\nETag: \"{tag}\"\r\n\
             Content-Range: bytes {start}-{end}/100\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        ([head.into_bytes(), body].concat(), After::Keep)
    });
    let part = "proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;";
    for rules in ["nginx", "rfc9111"] {
        let settings = format!("slice 50; {part} proxy_cache_rules {rules};");
        let sliced = counter.site(&with(&settings)).start(Server::Fulmar);
        let broken = get(&sliced, "/changes");
        assert_eq!(broken.body, vec![b'o'; 50], "the second part is of another content: {broken}");
        let before = counter.count();
        (0..2).for_each(|_| assert_eq!(get(&sliced, "/same").body.len(), 100));
        assert_eq!(counter.count(), before + 2, "both parts are kept by the rules {rules}");
        sliced.stop();
    }
    let plain = counter.site(&with("")).start(Server::Fulmar);
    let first = ask(&plain, "/plain", "Host: a\r\nRange: bytes=0-3\r\n");
    assert!(matches!(first.status, 200 | 206));
    assert!(get(&plain, "/plain").text().starts_with("number "), "the whole was asked for");
    plain.stop();
}

/// I16: however many requests find a stale response, one update is on its way.
#[test]
fn i16_a_storm_of_requests_for_what_is_stale() {
    let counter = Counter::start(|asked, number| match number {
        1 => numbered(asked, number),
        _ => numbered(&Asked { target: "/?control=max-age=600".to_owned(), ..asked.clone() }, number),
    });
    let settings = "proxy_cache_rules rfc9111;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let target = "/a?control=max-age=1,stale-while-revalidate=600";
    assert_eq!(kept(&running, target), pair("MISS", "number 1"));
    counter.gate.set(true);
    assert!(wait::until(LIMIT, || kept(&running, target).0 != "HIT"));
    counter.wait_for(2);
    for _ in 0..50 {
        assert_eq!(kept(&running, target), pair("UPDATING", "number 1"));
    }
    assert_eq!(counter.count(), 2);
    counter.gate.set(false);
    assert!(wait::until(LIMIT, || kept(&running, target).1 != "number 1"));
    running.stop();
}

/// L7: a disk that gives an error in place of a file makes the server ask again, and the file is replaced.
#[test]
fn l7_a_disk_that_cannot_be_read() {
    let counter = Counter::start(digested);
    let running = counter.site(&with("")).start(Server::Fulmar);
    let target = "/long100000";
    assert_eq!(number_of(target, &get(&running, target)), 1);
    let path = only_file(&running).display().to_string();
    let calls = "preadv2,pread64";
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
    let process = worker::of(&running);
    let Some(tracer) = Tracer::attach(process, &["-P", &path, "-e", &trace, "-e", &inject]) else { return };
    let answer = get(&running, target);
    assert_eq!((status(&answer), number_of(target, &answer)), ("MISS", 2));
    tracer.leave();
    let answer = get(&running, target);
    assert_eq!((status(&answer), number_of(target, &answer)), ("HIT", 2));
    running.stop_alerted();
}

/// L9: the clock of the day jumps: what is sent is right, what was kept in the future is asked for again, and nothing
/// stays for longer than it is used.
#[test]
fn l9_a_clock_that_jumps_under_a_cache() {
    let counter = Counter::start(digested);
    let site = Site::whole("");
    let Some(clock) = Clock::build(&site.prefix()) else { return };
    let text = with("proxy_cache_lock on;").replace("ORIGIN", &counter.origin.address().port().to_string());
    let text = format!("proxy_cache_path %%LOGS%%/cache levels=1:2 keys_zone=one:1m inactive=1d; {text}");
    let Some(mut server) = clock.start_with(&site, &text) else {
        panic!(
            "it does not start: {}",
            std::fs::read_to_string(site.logs(Server::Fulmar).join("error.log")).unwrap()
        )
    };
    let year: i64 = 365 * 24 * 3600;
    let ask = || {
        let request = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let response = tests::client::ask_bytes(server.address, request).last().clone();
        (status(&response).to_owned(), number_of("/a", &response))
    };
    assert_eq!(ask(), ("MISS".to_owned(), 1));
    assert_eq!(ask(), ("HIT".to_owned(), 1));
    for (round, jump) in [year, -year, 13 * year, 0].into_iter().enumerate() {
        clock.set(jump);
        // The clock is read once in a while.
        let mut last = ask();
        let is_new = wait::until(LIMIT, || {
            last = ask();
            last.1 == round + 2
        });
        assert!(is_new, "{jump}: {last:?}");
        assert_eq!(ask(), ("HIT".to_owned(), round + 2), "{jump}");
    }
    server.stop();
}
