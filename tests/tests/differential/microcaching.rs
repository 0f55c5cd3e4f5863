//! The manual's configuration that keeps pages for a second, by Fulmar and by nginx.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tests::application::{Application, Request, answer};
use tests::binary::{Server, have_nginx};
use tests::manual::block_of_page;
use tests::site::{Running, Site};
use tests::wait;

const LIMIT: Duration = Duration::from_secs(20);

fn site(application: &Application) -> Site {
    let changes = [
        ("/var/cache/fulmar/app", "%%LOGS%%/cache".to_owned()),
        (
            "listen 80;",
            "listen 127.0.0.1:%%PORT%%; add_header X-Cache $upstream_cache_status always;".to_owned(),
        ),
        ("/var/www/app", "%%ROOT%%".to_owned()),
        ("unix:/run/php/php-fpm.sock", application.address().to_string()),
    ];
    let text =
        changes.iter().fold(block_of_page("caching.md", "Microcaching", "nginx"), |text, (from, to)| {
            assert!(text.contains(from), "docs/caching.md: {from}");
            text.replace(from, to)
        });
    let params = include_str!("../../stock/debian/fastcgi_params");
    Site::new(&text).in_prefix("fastcgi_params", params).file("index.php", "")
}

/// What the application answers: the number of the request for its URI.
#[derive(Default)]
struct Pages {
    numbers: Mutex<BTreeMap<String, usize>>,
    fails: AtomicBool,
}

impl Pages {
    fn text(&self, request: &Request) -> String {
        let target = request.param("REQUEST_URI");
        if self.fails.load(Ordering::SeqCst) {
            return "Status: 500 Failed\r\n\r\nfailed\n".to_owned();
        }
        let number = {
            let mut numbers = self.numbers.lock().unwrap();
            let number = numbers.entry(target.to_owned()).or_default();
            *number += 1;
            *number
        };
        let fields = match target.split('?').next().unwrap_or_default() {
            "/long" => "Cache-Control: max-age=600\r\n",
            "/cookie" => "Set-Cookie: session=1\r\nCache-Control: max-age=600\r\n",
            "/missing" => "Status: 404 None\r\nCache-Control: max-age=600\r\n",
            "/slow" => {
                wait::pause(Duration::from_millis(300));
                "Cache-Control: max-age=600\r\n"
            }
            _ => "",
        };
        format!("{fields}X-Method: {}\r\n\r\n{target} {number}\n", request.param("REQUEST_METHOD"))
    }
}

/// The result of a look in the cache, the status and the content.
fn ask(running: &Running, request: &str) -> String {
    let response = running.ask(&format!("{request}\nConnection: close")).last().clone();
    let field = |name| response.field(name).unwrap_or("-").to_owned();
    format!("{} {} {} {}", field("X-Cache"), response.status, field("X-Method"), response.text())
}

/// What clients see, one after the other.
fn use_site(server: Server) -> Vec<String> {
    let pages: &'static Pages = Box::leak(Box::default());
    let application =
        Application::start(|request, stream| stream.write_all(&answer(&pages.text(request))).is_err());
    let running = site(&application).start(server);
    let mut seen = Vec::new();
    for request in [
        "GET /long",
        "GET /long",
        "GET /long?a=b",
        "GET /long?a=b",
        "HEAD /long",
        "HEAD /long",
        "POST /long\nContent-Length: 0",
        "GET /long\nCookie: session=1",
        "GET /long\nCookie: other=1",
        "GET /long\nAuthorization: Basic YTpi",
        "GET /long",
        "GET /cookie",
        "GET /cookie",
        "GET /missing",
        "GET /missing",
    ] {
        seen.push(format!("{request}: {}", ask(&running, request)));
    }
    // Many clients for a page that is not kept yet.
    let mut all = thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&running, "GET /slow"))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort();
    seen.extend(all);
    // A page that has expired.
    let wait_for = |is_right: fn(&str) -> bool| {
        let is_there = || is_right(&ask(&running, "GET /short"));
        assert!(wait::until(LIMIT, is_there), "{}", ask(&running, "GET /short"));
    };
    seen.push(ask(&running, "GET /short"));
    wait::pause(Duration::from_millis(2100));
    seen.push(ask(&running, "GET /short"));
    // The new one came after that.
    wait_for(|text| !text.ends_with("/short 1\n"));
    pages.fails.store(true, Ordering::SeqCst);
    wait::pause(Duration::from_millis(2100));
    for _ in 0..3 {
        // How often a slow machine fetched it does not count.
        let text = ask(&running, "GET /short").replace("UPDATING", "STALE");
        seen.push(text.replace(|letter: char| letter.is_ascii_digit(), "#"));
    }
    pages.fails.store(false, Ordering::SeqCst);
    wait_for(|text| text.starts_with("HIT"));
    seen.push(ask(&running, "GET /never/kept"));
    running.stop();
    seen
}

#[test]
fn pages_that_are_kept_for_a_second() {
    if !have_nginx() {
        return;
    }
    let (nginx, fulmar) = (use_site(Server::Nginx), use_site(Server::Fulmar));
    for (expected, seen) in nginx.iter().zip(&fulmar) {
        assert_eq!(seen, expected);
    }
    assert_eq!(nginx[1], "GET /long: HIT 200 GET /long 1\n");
    assert_eq!(nginx[15..23].iter().filter(|text| text.starts_with("HIT 200 GET /slow 1")).count(), 7);
    assert_eq!(nginx[24], "STALE 200 GET /short 1\n", "{nginx:?}");
    assert_eq!(nginx[27], "STALE ### GET /short #\n", "{nginx:?}");
}
