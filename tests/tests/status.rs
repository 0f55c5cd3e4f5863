//! The counters: `stub_status` next to nginx, the metrics, and the page in a browser.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rcgen::date_time_ymd;
use rustix::process::Signal;
use tests::binary::{Server, nginx_with};
use tests::client::Client;
use tests::origin::{Origin, ok};
use tests::parts;
use tests::response::Response;
use tests::site::{Running, Site};
use tests::tls::{Authority, Certificate, Kind};
use tests::wait;

/// The answer on a separate connection.
fn get(running: &Running, path: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    running.ask_bytes(request.as_bytes()).last().clone()
}

/// The numbers of `stub_status`: active, accepts, handled, requests, reading, writing, waiting.
fn stub(running: &Running) -> [u64; 7] {
    let text = get(running, "/stub").text();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{text}"))
}

/// What `stub_status` says of connections that wait, send half a head, and have an answer under way.
fn states(running: &Running) {
    let states = || {
        let [.., reading, writing, waiting] = stub(running);
        [reading, writing, waiting]
    };
    // The connection that asks is writing; others are where the test puts them, as soon as the server has seen it.
    let reach = |wanted: [u64; 3]| {
        assert!(wait::until(Duration::from_secs(10), || states() == wanted), "{wanted:?}: {:?}", states());
    };
    reach([0, 1, 0]);
    let mut client = Client::connect(running.address());
    reach([0, 1, 1]);
    client.send(b"GET /large HTTP/1.1\r\n");
    reach([1, 1, 0]);
    client.send(b"Host: a\r\n\r\n");
    reach([0, 2, 0]);
    drop(client);
    reach([0, 1, 0]);
}

/// Has every server that has the directive serve this site.
fn each(site: Site, check: impl Fn(&Running)) {
    check(&site.start(Server::Fulmar));
    if let Some(nginx) = nginx_with(&["--with-http_stub_status_module"]) {
        check(&site.nginx(nginx).start(Server::Nginx));
    }
}

#[test]
fn connections_by_what_they_do() {
    let site =
        Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; location /stub { stub_status; } }")
            .file("large", vec![b'x'; 64 << 20]);
    each(site, states);
}

#[test]
fn connections_and_requests_since_the_start() {
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%%; location / { return 200 ok; } location /stub { stub_status; } }",
    );
    each(site, |running| {
        let before = stub(running);
        running.ask_bytes(
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        );
        running.ask_bytes(b"GET / HTTP/1.1\r\nHost\r\nbad\r\n\r\n");
        let after = stub(running);
        assert_eq!([1, 2, 3].map(|at| after[at] - before[at]), [3, 3, 4], "{:?}", running.server());
    });
}

const MEASURED: &str = "proxy_cache_path %%LOGS%%/cache keys_zone=one:1m;
    server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; server_name a.example;
    open_file_cache max=10; open_file_cache_min_uses 1;
    location = /metrics { fulmar_status; }
    location /kept { proxy_pass http://127.0.0.1:%%PORT_2%%; proxy_cache one; proxy_cache_valid 1h; }
    location ~ \"^/gone$\" { return 410; } }
    server { listen 127.0.0.1:%%PORT_2%%; return 200 kept; }
    server { listen 127.0.0.1:%%PORT_1%% ssl; ssl_certificate c.pem; ssl_certificate_key c.key; }";

/// A certificate that ended to be valid with the year 2021.
fn expired(serial: u64) -> Certificate {
    Authority::new("tests").certificate_with("a.example", Kind::Ecdsa, |parameters| {
        parameters.serial_number = Some(serial.into());
        parameters.not_after = date_time_ymd(2022, 1, 1);
    })
}

fn with_certificate() -> Site {
    let Certificate { pem, key, .. } = expired(7);
    Site::new(MEASURED).in_prefix("c.pem", &pem).in_prefix("c.key", &key).file("page", "hello")
}

fn measured() -> Running {
    let running = with_certificate().start(Server::Fulmar);
    for _ in 0..3 {
        assert_eq!(get(&running, "/page").status, 200);
        assert_eq!(get(&running, "/gone").status, 410);
    }
    running
}

#[test]
fn metrics_by_server_location_and_status() {
    let running = measured();
    let gone = "server=\"a.example\",location=\"~ ^/gone$\"";
    let counted = || get(&running, "/metrics").text();
    // A request is counted once it has been answered, which its client may see a moment before. The certificates are known a
    // moment after the start.
    let expected = format!("fulmar_responses_total{{{gone},status=\"410\"}} 3\n");
    let is_there = |text: String| text.contains(&expected) && text.contains("fulmar_certificate_");
    assert!(wait::until(Duration::from_secs(10), || is_there(counted())), "{}", counted());
    let text = counted();
    for line in [
        "fulmar_responses_total{server=\"a.example\",location=\"\",status=\"200\"} 3",
        &format!("fulmar_request_duration_seconds_bucket{{le=\"+Inf\",{gone}}} 3"),
        "fulmar_connections{state=\"writing\"} 1",
        concat!("fulmar_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "fulmar_certificate_not_after_timestamp_seconds{names=\"a.example\",serial=\"07\"} 1640995200",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let (hits, misses) = (
        number("fulmar_file_cache_lookups_total{result=\"hit\"}"),
        number("fulmar_file_cache_lookups_total{result=\"miss\"}"),
    );
    assert!(hits >= 1 && misses >= 1 && hits + misses == 3, "{hits} hits, {misses} misses");
    assert!(text.ends_with("# EOF\n"));
    // The dashboard asks for nothing else.
    let dashboard = include_str!("../../packaging/grafana.json");
    let is_word = |sign: char| sign.is_ascii_lowercase() || sign == '_';
    let names =
        dashboard.match_indices("fulmar_").map(|(at, _)| dashboard[at..].split(|c| !is_word(c)).next());
    let names: Vec<&str> = names.flatten().collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        assert!(
            text.contains(&format!("\n{name}{{")) || text.contains(&format!("\n{name} ")),
            "{name}: {text}"
        );
    }
    running.stop();
}

#[test]
fn figures_last_as_long_as_what_they_are_of() {
    let running = measured();
    let has = |line: &str| get(&running, "/metrics").text().contains(line);
    let gone = "location=\"~ ^/gone$\"";
    assert!(wait::until(Duration::from_secs(10), || has(gone)));
    running.rewrite(&MEASURED.replace("location ~ \"^/gone$\" { return 410; }", ""));
    running.signal(Signal::HUP);
    assert!(wait::until(Duration::from_secs(10), || !has(gone)), "{}", get(&running, "/metrics").text());
    for line in [
        "fulmar_responses_total{server=\"a.example\",location=\"\",status=\"200\"} 3\n",
        "fulmar_reloads_total{result=\"success\"} 1\n",
    ] {
        assert!(has(line), "{line} is not in\n{}", get(&running, "/metrics").text());
    }
    running.stop();
}

const PROXIED: &str = "upstream app {
        server 127.0.0.1:ORIGIN max_fails=0; server 127.0.0.1:%%PORT_1%%; server 127.0.0.1:9 down; keepalive 4;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        location = /metrics { fulmar_status; }
        location / { proxy_pass http://app; }
        location /alone { proxy_pass http://127.0.0.1:ORIGIN; }
    }
    server { listen 127.0.0.1:%%PORT_1%%; return 444; }";

/// The value of a metric that has all of these labels.
fn value(text: &str, name: &str, labels: &str) -> Option<f64> {
    let prefix = format!("fulmar_upstream_{name}{{{labels}}} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok())
}

#[test]
fn servers_that_requests_are_passed_to() {
    let origin = Origin::start(|_| ok("page"));
    let configuration = PROXIED.replace("ORIGIN", &origin.address().port().to_string());
    let running = Site::new(&configuration).start(Server::Fulmar);
    let text = || get(&running, "/metrics").text();
    let labels = |group: &str, server: &str| format!("upstream=\"{group}\",peer=\"{server}\"");
    let (good, bad) = (origin.address().to_string(), running.address_of(1).to_string());
    let (good, bad, alone) = (labels("app", &good), labels("app", &bad), labels(&good, &good));
    let state =
        |text: &str, server: &str, state: &str| value(text, "state", &format!("{server},state=\"{state}\""));
    assert_eq!(value(&text(), "requests_total", &good), Some(0.0), "{}", text());
    for path in ["/", "/", "/", "/alone"] {
        assert_eq!(get(&running, path).text(), "page");
    }
    // A request is over once its connection is given back, which its client may see a moment before.
    let is_over =
        || value(&text(), "active", &good) == Some(0.0) && value(&text(), "active", &alone) == Some(0.0);
    assert!(wait::until(Duration::from_secs(10), is_over), "{}", text());
    let text = text();
    let counts = |server: &str| {
        ["requests_total", "failures_total"].map(|name| value(&text, name, server).unwrap_or(-1.0))
    };
    assert_eq!([counts(&good), counts(&bad), counts(&alone)], [[3.0, 0.0], [1.0, 1.0], [1.0, 0.0]], "{text}");
    assert_eq!(state(&text, &good, "up"), Some(1.0), "{text}");
    assert_eq!([state(&text, &bad, "failed"), state(&text, &bad, "up")], [Some(1.0), Some(0.0)], "{text}");
    assert_eq!(state(&text, &labels("app", "127.0.0.1:9"), "down"), Some(1.0), "{text}");
    let open = value(&text, "connections", &good).unwrap();
    assert!(open >= 1.0 && value(&text, "connections_opened_total", &good).unwrap() >= open, "{text}");
    assert_eq!(value(&text, "connections", &alone), Some(0.0), "{text}");
    assert!(value(&text, "time_seconds_total", &good).is_some(), "{text}");
    running.signal(Signal::HUP);
    let is_kept = || value(&get(&running, "/metrics").text(), "requests_total", &good) == Some(3.0);
    let is_reloaded =
        || get(&running, "/metrics").text().contains("fulmar_reloads_total{result=\"success\"} 1");
    assert!(wait::until(Duration::from_secs(10), is_reloaded) && is_kept(), "a reload keeps the figures");
    running.stop();
}

#[test]
fn certificates_that_are_served() {
    let site = with_certificate();
    let running = site.start(Server::Fulmar);
    running.wait_for_log("error.log", "the certificate of a.example (serial number 07) expired ");
    let next = expired(8);
    fs::write(site.prefix().join("c.key"), &next.key).unwrap();
    fs::write(site.prefix().join("c.pem"), &next.pem).unwrap();
    let is_shown = || {
        let text = get(&running, "/metrics").text();
        text.contains("serial=\"08\"") && !text.contains("serial=\"07\"")
    };
    assert!(wait::until(Duration::from_secs(20), is_shown), "{}", running.all_logs());
    running.wait_for_log("error.log", "(serial number 08) expired ");
    running.stop();
}

#[test]
fn the_page_draws_itself() {
    let chromium = parts::program(&["chromium", "chromium-browser", "google-chrome"]);
    if !parts::is_present("chromium", chromium.is_some()) {
        return;
    }
    let running = measured();
    (0..2).for_each(|_| assert_eq!(get(&running, "/kept").status, 200));
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium.unwrap())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{}/metrics", running.address()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    // A narrow screen shows the headings of the cells instead of those of the columns.
    let cells = ["Location\">~ ^/gone$</td>", "95th percentile\">", "Sent\">"]
        .map(|cell| format!(" data-heading=\"{cell}"));
    let cache = [
        "<dt>Found in cache</dt><dd>50 %</dd>",
        "<dt>Responses on disk</dt><dd>1</dd>",
        "<dt>Mean age in cache</dt>",
    ];
    let texts = ["<dt>Found in file cache</dt>", "as of ", "class=\"bad\" data-heading=\"Days left\""]
        .map(str::to_owned);
    for expected in cells.into_iter().chain(texts).chain(cache.map(str::to_owned)) {
        assert!(
            page.contains(&expected),
            "{expected} is not in\n{page}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(page.contains("role=\"status\" class=\"\""), "{page}");
    assert!(!page.contains("id=\"curve\" points=\"\""), "the chart has a line after two readings: {page}");
    running.stop();
}
