//! What a site's `.htaccess` files and pages cost the clients of other sites on the same thread.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tests::binary::Server;
use tests::client::Client;
use tests::site::Site;

/// The site of a tenant whose rules and pages are expensive, and another site. The address of a client is what it says.
const SITES: &str = "real_ip_header X-Client; set_real_ip_from 127.0.0.1; default_type text/plain; keepalive_requests 1000000;
types { text/html html shtml; }
server { listen 127.0.0.1:%%PORT%%; server_name tenant; root %%ROOT%%/tenant; htaccess on; }
server { listen 127.0.0.1:%%PORT%%; server_name other; root %%ROOT%%/other; htaccess on; }";

const LOOP: &str = "RewriteEngine on\nRewriteRule ^(.*)$ $1x [N]\n";
const PAGES: &str = "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n";

fn sites() -> Site {
    let itself = "<!--#include file=\"s.shtml\" -->".repeat(2);
    let sizes = "<!--#fsize file=\"a.txt\" -->\n".repeat(20_000);
    let listing = format!(
        "Options +Indexes\nIndexOptions FancyIndexing\n{}",
        "AddDescription \"x\" *n*1*h*t*m*x\n".repeat(8_000)
    );
    let mut site = Site::new(SITES)
        .file("tenant/loop/.htaccess", LOOP)
        .file("tenant/pages/.htaccess", PAGES)
        .file("tenant/pages/s.shtml", itself)
        .file("tenant/pages/sizes.shtml", sizes)
        .file("tenant/pages/a.txt", "a")
        .file("tenant/list/.htaccess", listing)
        .file("tenant/a.txt", "tenant")
        .file("other/.htaccess", "RewriteEngine on\nRewriteRule ^none$ a.txt\n")
        .file("other/a.txt", "other");
    for number in 0..3_000 {
        site = site.file(&format!("tenant/list/n{number}-name-of-a-file.html"), "");
    }
    site
}

/// How long a client waits that asks again and again, sorted.
fn waits(address: SocketAddr, request: &str, ends: &AtomicBool, least: usize) -> Vec<Duration> {
    let mut client = Client::connect(address);
    client.extend(Duration::from_secs(60));
    let mut waits = Vec::new();
    while waits.len() < least || !ends.load(Ordering::Relaxed) {
        let asked = Instant::now();
        assert_eq!(client.exchange(request).expect("an answer").status, 200, "{request}");
        waits.push(asked.elapsed());
    }
    waits.sort();
    waits
}

/// Asks by so many clients at once for some seconds, and tells what the others wait.
fn measure(name: &str, address: SocketAddr, clients: usize, attack: &str) -> String {
    const SECONDS: Duration = Duration::from_secs(8);
    let (ends, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..clients {
            let request = attack.replace("%NUMBER%", &number.to_string());
            let (ends, answers) = (&ends, &answers);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let mut client = Client::connect(address);
                    client.extend(Duration::from_secs(60));
                    while !ends.load(Ordering::Relaxed) && client.exchange(&request).is_some() {
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let watch = |request: &'static str| {
            let ends = &ends;
            scope.spawn(move || waits(address, request, ends, 3))
        };
        let others = watch("GET /a.txt\nHost: other\nX-Client: 192.0.2.1");
        let own = watch("GET /a.txt\nHost: tenant\nX-Client: 192.0.2.2");
        tests::wait::pause(SECONDS);
        ends.store(true, Ordering::Relaxed);
        let mut line = format!("{name:<44}");
        for waits in [others.join().unwrap(), own.join().unwrap()] {
            let (median, most) = (waits[waits.len() / 2], waits[waits.len() - 1]);
            write!(line, " {:>9.1?} {:>9.1?} ({:>6})", median, most, waits.len()).unwrap();
        }
        line
    })
}

/// What other clients wait while the rules, pages and listings of a tenant are expensive: `make shares`.
#[test]
#[ignore = "it measures for a minute: make shares"]
fn what_the_clients_of_other_sites_wait() {
    let running = sites().start(Server::Fulmar);
    let attacks = [
        ("rules, 50 clients of one address", 50, "GET /loop/a\nHost: tenant\nX-Client: 203.0.113.1"),
        (
            "rules, 50 clients of as many addresses",
            50,
            "GET /loop/a\nHost: tenant\nX-Client: 203.0.113.%NUMBER%",
        ),
        (
            "a page that includes itself, 1 client",
            1,
            "GET /pages/s.shtml\nHost: tenant\nX-Client: 203.0.113.1",
        ),
        ("20,000 sizes of files, 1 client", 1, "GET /pages/sizes.shtml\nHost: tenant\nX-Client: 203.0.113.1"),
        ("a listing with 8,000 patterns, 1 client", 1, "GET /list/\nHost: tenant\nX-Client: 203.0.113.1"),
        ("a listing with 8,000 patterns, 50 clients", 50, "GET /list/\nHost: tenant\nX-Client: 203.0.113.1"),
    ];
    println!("{:<44} {:>28} {:>28}", "", "another site: median, most", "the tenant's: median, most");
    for (name, clients, attack) in attacks {
        println!("{}", measure(name, running.address(), clients, attack));
    }
    running.stop();
}

/// A site whose rules have no end for names that begin with `x`, and another one.
fn expensive() -> Site {
    let rules = "RewriteEngine on\nRewriteRule ^(x.*)$ $1x [N]\n";
    Site::new(SITES)
        .file("tenant/.htaccess", rules)
        .file("tenant/a.txt", "tenant")
        .file("other/.htaccess", "RewriteEngine on\nRewriteRule ^none$ a.txt\n")
        .file("other/a.txt", "other")
}

#[test]
fn a_client_that_spent_its_budget_waits_and_only_for_what_is_expensive() {
    let running = expensive().start(Server::Fulmar);
    let ask = |path: &str, client: &str| {
        let answer = running.ask(&format!("GET {path}\nHost: tenant\nX-Client: {client}"));
        let retry =
            answer.last().field("Retry-After").map(|seconds| seconds.parse::<u32>().expect("seconds"));
        (answer.last().status, retry)
    };
    assert_eq!(ask("/x", "203.0.113.1"), (500, None));
    // Rules of a file that was just written are compiled for each request, so they are other rules each time.
    let mut last = (0, None);
    let is_penalised = || {
        last = ask("/x", "203.0.113.1");
        last.0 == 503
    };
    assert!(tests::wait::until(Duration::from_secs(20), is_penalised), "no penalty");
    assert!(last.1.is_some_and(|seconds| (1..=10).contains(&seconds)), "{last:?}");
    assert_eq!(ask("/a.txt", "203.0.113.1"), (200, None), "another page by the same rules");
    assert_eq!(ask("/x", "203.0.113.2"), (500, None), "another client");
    running.stop();
}

/// Before, each of these requests took its 50 milliseconds at once, and the client got some answers between them.
#[test]
fn a_client_of_another_site_is_answered_between_the_slices_of_expensive_rules() {
    let running = expensive().start(Server::Fulmar);
    let attackers: Vec<Client> = (0..20)
        .map(|number| {
            let mut client = running.connect();
            client.extend(Duration::from_secs(60));
            assert!(client.send(&request(&format!("/x\r\nX-Client: 203.0.113.{number}"))));
            client
        })
        .collect();
    let is_over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| {
            for mut client in attackers {
                assert_eq!(client.response("GET").expect("an answer").status, 500);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut client = running.connect();
        client.extend(Duration::from_secs(60));
        let mut answers = 0;
        // The connection ends with its thousandth request.
        while answers < 500 && !is_over.load(Ordering::Relaxed) {
            let answer = client.exchange("GET /a.txt\nHost: other").expect("an answer");
            assert_eq!(answer.text(), "other");
            answers += 1;
        }
        answers
    });
    assert!(answers > 40, "{answers} answers");
    running.stop();
}

/// A request of the tenant, with more lines after the path.
fn request(path_and_lines: &str) -> Vec<u8> {
    let (path, lines) = path_and_lines.split_once("\r\n").unwrap_or((path_and_lines, ""));
    format!("GET {path} HTTP/1.1\r\nHost: tenant\r\n{lines}\r\n\r\n").into_bytes()
}

/// The streams of one connection share its turns.
#[test]
fn streams_with_expensive_rules_let_others_go_first() {
    let site = Site::new(&format!("http2 on; {SITES}"))
        .file("tenant/.htaccess", "RewriteEngine on\nRewriteRule ^(x.*)$ $1x [N]\n")
        .file("tenant/a.txt", "tenant")
        .file("other/a.txt", "other");
    let running = site.start(Server::Fulmar);
    let order = statuses(running.address(), &["/x", "/x", "/x", "/x", "/x", "/a.txt"]);
    assert_eq!(order.iter().filter(|&&status| status == 200).count(), 1, "{order:?}");
    assert_eq!(order[0], 200, "a file does not wait for rules: {order:?}");
    running.stop();
}

/// The statuses of requests over one connection of HTTP/2, in the order in which the answers come.
fn statuses(address: SocketAddr, paths: &[&str]) -> Vec<u16> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut answers = Vec::new();
        for path in paths {
            let request = http_types::Request::get(format!("http://tenant{path}")).body(()).unwrap();
            sender = sender.ready().await.unwrap();
            let (answer, _) = sender.send_request(request, true).unwrap();
            let order = Arc::clone(&order);
            answers.push(tokio::spawn(async move {
                let status = answer.await.unwrap().status().as_u16();
                order.lock().unwrap().push(status);
            }));
        }
        for answer in answers {
            answer.await.unwrap();
        }
        connection.abort();
        order.lock().unwrap().clone()
    })
}

#[test]
fn a_listing_with_too_many_patterns_is_refused() {
    let patterns = |count| {
        let lines = "AddDescription \"x\" *n*1*h*t*m*x\nAddIcon /i *n*1*h*t*m*x\n".repeat(count);
        format!("Options +Indexes\nIndexOptions FancyIndexing\nIndexIgnore *~\n{lines}")
    };
    let mut site = Site::new(SITES)
        .file("tenant/many/.htaccess", patterns(8_000))
        .file("tenant/few/.htaccess", patterns(20))
        .file("other/a.txt", "other");
    for folder in ["many", "few"] {
        for number in 0..600 {
            site = site.file(&format!("tenant/{folder}/n{number}-name-of-a-file.html"), "");
        }
    }
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /many/\nHost: tenant").last().status, 500);
    running
        .wait_for_log("error.log", "the rules and patterns in .htaccess files take too long for one request");
    assert_eq!(running.ask("GET /many/\nHost: tenant").last().status, 503, "the same client again");
    let listing = running.ask("GET /few/\nHost: tenant\nX-Client: 203.0.113.2");
    let text = listing.last().text();
    assert_eq!((listing.last().status, text.matches("<a href=\"n").count()), (200, 600));
    running.stop();
}
