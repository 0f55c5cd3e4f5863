//! Pages that include others (`ssi`): requested at the same time, sent in the order of the page.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tests::binary::Server;
use tests::origin::{After, Asked, Origin, Reply, ok, raw};
use tests::site::{Running, Site};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(10);

/// Serves these pages; what is below `/far/` is forwarded.
fn start(origin: &Origin, pages: &[(&str, String)]) -> Running {
    let text = format!(
        "types {{ text/html html; }} server {{
            listen 127.0.0.1:%%PORT%%; root %%ROOT%%; ssi on;
            location /far/ {{ proxy_pass http://{}; }}
        }}",
        origin.address()
    );
    let site = pages.iter().fold(Site::new(&text), |site, (name, page)| site.file(name, page));
    site.start(Server::Fulmar)
}

fn include(uri: &str) -> String {
    format!("<!--#include virtual=\"{uri}\" -->")
}

/// Answers when so many requests have come, with their targets.
fn together(count: usize) -> Origin {
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    Origin::start(move |asked| {
        let (number, changed) = &*arrived;
        let mut number = number.lock().unwrap();
        *number += 1;
        changed.notify_all();
        let waited = changed.wait_timeout_while(number, PATIENCE, |number| *number < count).unwrap();
        let is_alone = waited.1.timed_out();
        ok(if is_alone { "alone".to_owned() } else { asked.target.clone() })
    })
}

#[test]
fn pages_are_requested_at_once_and_sent_in_order() {
    let targets: Vec<String> = (0..16).map(|number| format!("/far/{number}")).collect();
    let page = targets.iter().map(|target| format!("{},", include(target))).collect::<String>();
    let running = start(&together(16), &[("page.html", format!("[{page}]"))]);
    let expected = targets.iter().map(|target| format!("{target},")).collect::<String>();
    assert_eq!(running.ask("GET /page.html").last().text(), format!("[{expected}]"));
    running.stop();
}

#[test]
fn any_number_of_pages_nested_in_pages() {
    let origin = Origin::start(|asked| ok(&asked.target[4..]));
    let far = (0..50).map(|number| include(&format!("/far/{number}"))).collect::<String>();
    let inner = (0..9).map(|_| include("/leaf.html")).collect::<String>();
    let outer = (0..9).map(|_| include("/inner.html")).collect::<String>();
    let running = start(
        &origin,
        &[("far.html", far), ("leaf.html", "x".into()), ("inner.html", inner), ("page.html", outer)],
    );
    let numbers = (0..50).map(|number| format!("/{number}")).collect::<String>();
    assert_eq!(running.ask("GET /far.html").last().text(), numbers);
    assert_eq!(running.ask("GET /page.html").last().text(), "x".repeat(81));
    running.stop();
}

/// Answers `/far/slow` late, and the rest with whether that has been answered.
fn slow() -> Origin {
    let is_done = AtomicBool::new(false);
    Origin::start(move |asked: &Asked| -> Reply {
        if asked.target == "/far/slow" {
            wait::pause(Duration::from_millis(300));
            is_done.store(true, Ordering::SeqCst);
            return ok("slow ");
        }
        ok(is_done.load(Ordering::SeqCst).to_string())
    })
}

#[test]
fn a_page_that_is_waited_for_comes_before_the_next_request() {
    let waiting = "<!--#include virtual=\"/far/slow\" wait=\"yes\" -->".to_owned();
    let running = start(&slow(), &[("page.html", waiting + &include("/far/next"))]);
    assert_eq!(running.ask("GET /page.html").last().text(), "slow true");
    running.stop();
}

#[test]
fn a_variable_that_is_set_later_has_its_old_value_in_the_pages_before() {
    let echo = "<!--#echo var=\"v\" -->";
    let origin = Origin::start(move |_| {
        raw(
            &format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{echo}",
                echo.len()
            ),
            After::Keep,
        )
    });
    let set = |value: &str| format!("<!--#set var=\"v\" value=\"{value}\" -->");
    let part = include("/far/echo") + &include("/echo.html");
    let page = set("a") + &part + &set("b") + &part;
    let running = start(&origin, &[("page.html", page), ("echo.html", echo.into())]);
    assert_eq!(running.ask("GET /page.html").last().text(), "aabb");
    running.stop();
}

#[test]
fn a_page_that_fails_leaves_the_others_alone() {
    let origin = Origin::start(|asked| match &*asked.target {
        "/far/reset" => raw("", After::Reset),
        "/far/cut" => raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", After::Close),
        _ => ok("there"),
    });
    let block = "<!--#block name=\"b\" -->none<!--#endblock -->";
    let stub = "<!--#include virtual=\"/far/reset\" stub=\"b\" -->";
    let page = format!("{block}[{}|{stub}|{stub}|{}]", include("/far/a"), include("/far/b"));
    let cut = format!("[{}|{}]", include("/far/a"), include("/far/cut"));
    let running = start(&origin, &[("page.html", page), ("cut.html", cut)]);
    assert_eq!(running.ask("GET /page.html").last().text(), "[there|none|none|there]");
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /cut.html HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    // However it ends, it ends.
    let _ = stream.read_to_string(&mut text);
    assert!(text.contains("there") && !text.ends_with("0\r\n\r\n"), "{text}");
    running.stop();
}
