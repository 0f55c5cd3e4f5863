//! Responses that are kept: which requests reach the other server, and what stays on the disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use rustix::process::{Signal, kill_process};
use tests::binary::Server;
use tests::client::Client;
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::wait;

pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A server that counts requests, and answers each with its number. While it is shut, answers wait.
pub(super) struct Counter {
    pub(super) origin: Origin,
    pub(super) count: Arc<AtomicUsize>,
    pub(super) gate: Arc<Gate>,
}

#[derive(Default)]
pub(super) struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        let _open = self.changed.wait_timeout_while(is_shut, LIMIT, |is_shut| *is_shut).unwrap();
    }
}

impl Counter {
    pub(super) fn start(answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Counter {
        let (count, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Gate::default()));
        let (counted, waiting) = (Arc::clone(&count), Arc::clone(&gate));
        let origin = Origin::start(move |asked| {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            waiting.wait();
            answer(asked, number)
        });
        Counter { origin, count, gate }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn wait_for(&self, count: usize) {
        assert!(wait::until(LIMIT, || self.count() >= count), "{} requests", self.count());
    }

    pub(super) fn site(&self, text: &str) -> Site {
        let text = text.replace("ORIGIN", &self.origin.address().port().to_string());
        Site::new(&format!("proxy_cache_path %%LOGS%%/cache levels=1:2 keys_zone=one:1m; {text}"))
    }
}

/// The number of the request, with the time that the target asks for.
pub(super) fn numbered(asked: &Asked, number: usize) -> Reply {
    let control = asked.target.split_once("control=").map_or("max-age=600", |(_, control)| control);
    let body = format!("number {number}");
    let length = body.len();
    raw(
        &format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: {length}\r\n\r\n{body}"),
        After::Keep,
    )
}

const PLAIN: &str = "server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Cache $upstream_cache_status always;
    location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache one; SETTINGS }
}";

pub(super) fn with(settings: &str) -> String {
    PLAIN.replace("SETTINGS", settings)
}

pub(super) fn get(running: &Running, target: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    running.ask_bytes(request.as_bytes()).last().clone()
}

/// The status of the cache and the content.
pub(super) fn kept(running: &Running, target: &str) -> (String, String) {
    let response = get(running, target);
    (response.field("X-Cache").unwrap_or_default().to_owned(), response.text())
}

pub(super) fn pair(status: &str, content: &str) -> (String, String) {
    (status.to_owned(), content.to_owned())
}

/// The files below a directory.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// A page that was changed so many seconds ago, and does not say how long it is valid.
fn changed(ago_s: u64) -> Counter {
    Counter::start(move |_, number| {
        let time = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(ago_s));
        let body = format!("number {number}");
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nLast-Modified: {time}\r\nContent-Length: {length}\r\n\r\n");
        raw(&(head + &body), After::Keep)
    })
}

#[test]
fn a_response_without_a_time_is_kept_for_a_part_of_its_age() {
    let of = |ago_s: u64, settings: &str| {
        let counter = changed(ago_s);
        let running = counter.site(&with(settings)).start(Server::Fulmar);
        let _ = get(&running, "/");
        let second = kept(&running, "/").0;
        running.stop();
        second
    };
    assert_eq!(of(36_000, ""), "MISS");
    for rules in ["", "proxy_cache_rules rfc9111;"] {
        let on = format!("proxy_cache_heuristic on; {rules}");
        assert_eq!(of(36_000, &on), "HIT", "{rules}");
        assert_eq!(of(36_000, &format!("{on} proxy_cache_valid 200 0;")), "MISS", "{rules}");
    }
    assert_eq!(of(5, "proxy_cache_heuristic on;"), "MISS", "less than a second");
}

#[test]
fn one_request_reaches_the_server() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("")).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    for _ in 0..3 {
        assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"));
    }
    assert_eq!(kept(&running, "/b"), pair("MISS", "number 2"));
    assert_eq!(counter.count(), 2);
    let found = files(&running.log_path("cache"));
    assert_eq!(found.len(), 2);
    let text = String::from_utf8_lossy(&fs::read(&found[0]).unwrap()).into_owned();
    assert!(text.contains("\nKEY: http://127.0.0.1:"), "the key can be found with grep");
    running.stop();
}

#[test]
fn requests_for_one_response_wait_for_the_first_one() {
    const CLIENTS: usize = 20;
    let counter = Counter::start(numbered);
    let running =
        counter.site(&with("proxy_cache_lock on; proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s;"));
    let running = running.start(Server::Fulmar);
    counter.gate.set(true);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    counter.wait_for(1);
    counter.gate.set(false);
    for mut client in clients {
        assert_eq!(client.response("GET").unwrap().text(), "number 1");
    }
    assert_eq!(counter.count(), 1);
    running.stop();
}

#[test]
fn a_request_gives_up_waiting_and_keeps_nothing() {
    let counter = Counter::start(numbered);
    let running =
        counter.site(&with("proxy_cache_lock on; proxy_cache_lock_timeout 1ms;")).start(Server::Fulmar);
    counter.gate.set(true);
    let mut clients = [running.connect(), running.connect()];
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        counter.wait_for(index + 1);
    }
    counter.gate.set(false);
    let mut contents = clients.map(|mut client| client.response("GET").unwrap().text());
    contents.sort();
    assert_eq!(contents, ["number 1", "number 2"]);
    let found = kept(&running, "/a");
    assert_eq!((found.0.as_str(), counter.count()), ("HIT", 2));
    running.stop();
}

#[test]
fn stale_responses_are_updated_after_they_are_sent() {
    let counter = Counter::start(numbered);
    let settings = "proxy_cache_use_stale updating error; proxy_cache_background_update on; proxy_ignore_headers Cache-Control;
                    proxy_cache_valid 1s;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    let mut last = pair("", "");
    let is_stale = || {
        last = kept(&running, "/a");
        last.0 != "HIT"
    };
    assert!(wait::until(LIMIT, is_stale));
    assert_eq!(last, pair("STALE", "number 1"), "the first one after that gets the stale response");
    counter.wait_for(2);
    assert!(wait::until(LIMIT, || kept(&running, "/a").1 != "number 1"), "then there is a new one");
    running.stop();
}

#[test]
fn a_server_that_fails_is_hidden_by_what_is_stale() {
    let counter = Counter::start(|asked, number| match number {
        1 => numbered(asked, number),
        2 => raw("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", After::Keep),
        3 => raw("", After::Close),
        _ => raw("HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops", After::Keep),
    });
    let settings = "proxy_cache_use_stale error http_503; proxy_next_upstream off;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let target = "/a?control=max-age=1";
    assert_eq!(kept(&running, target), pair("MISS", "number 1"));
    assert!(wait::until(LIMIT, || kept(&running, target).0 != "HIT"));
    assert_eq!(counter.count(), 2);
    assert_eq!(kept(&running, target), pair("STALE", "number 1"));
    assert_eq!(kept(&running, target), pair("EXPIRED", "oops"), "500 is not named");
    running.stop();
}

#[test]
fn a_response_that_has_not_changed_is_found_valid_again() {
    let counter = Counter::start(|asked, number| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        match text.contains("if-none-match: \"x\"") {
            true => raw("HTTP/1.1 304 Same\r\nCache-Control: max-age=600\r\n\r\n", After::Keep),
            false => {
                let body = format!("number {number}");
                raw(
                    &format!(
                        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nCache-Control: max-age=1\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    ),
                    After::Keep,
                )
            }
        }
    });
    let running = counter.site(&with("proxy_cache_revalidate on;")).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    let mut last = pair("", "");
    assert!(wait::until(LIMIT, || {
        last = kept(&running, "/a");
        last.0 != "HIT"
    }));
    assert_eq!(last, pair("REVALIDATED", "number 1"));
    assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"));
    assert_eq!(counter.count(), 2);
    running.stop();
}

#[test]
fn a_client_that_leaves_does_not_end_the_filling() {
    const LENGTH: usize = 4 << 20;
    let counter = Counter::start(|_, number| {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LENGTH}\r\n\r\n");
        ([head.into_bytes(), vec![b'0' + u8::try_from(number).unwrap(); LENGTH]].concat(), After::Keep)
    });
    let running = counter.site(&with("")).start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    counter.wait_for(1);
    drop(client);
    assert!(wait::until(LIMIT, || files(&running.log_path("cache")).len() == 1));
    let is_whole = || kept(&running, "/a").0 == "HIT";
    assert!(wait::until(LIMIT, is_whole), "{:?}", files(&running.log_path("cache")));
    let (_, content) = kept(&running, "/a");
    assert_eq!(content.len(), LENGTH);
    assert!(content.bytes().all(|byte| byte == content.as_bytes()[0]));
    running.stop();
}

#[test]
fn what_is_cut_off_is_never_kept() {
    let counter = Counter::start(|asked, _| match asked.target.as_str() {
        "/short" => raw(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 100\r\n\r\nshort",
            After::Close,
        ),
        "/chunked" => raw(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
            After::Close,
        ),
        _ => {
            let long = "x".repeat(200_000);
            raw(
                &format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nX-Long: {long}\r\nContent-Length: 2\r\n\r\nok"
                ),
                After::Keep,
            )
        }
    });
    let settings = "proxy_buffer_size 256k; proxy_buffers 8 256k; proxy_busy_buffers_size 512k;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    for target in ["/short", "/chunked", "/longhead"] {
        for _ in 0..2 {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            running.ask_bytes(request.as_bytes());
        }
    }
    assert_eq!(counter.count(), 6);
    assert!(wait::until(LIMIT, || files(&running.log_path("cache")).is_empty()));
    running.stop();
}

#[test]
fn the_index_survives_a_reload_and_a_restart() {
    let counter = Counter::start(numbered);
    let site = counter.site(&with(""));
    let running = site.start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    running.signal(Signal::HUP);
    running.wait_for_log("error.log", "reconfigur");
    assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"));
    running.stop();
    let running = site.start(Server::Fulmar);
    let port = running.address().port();
    assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"), "at port {port}");
    assert_eq!(counter.count(), 1);
    running.stop();
}

#[test]
fn kept_responses_are_found_before_the_loader_comes_to_them() {
    const RESPONSES: usize = 20;
    let counter = Counter::start(numbered);
    // The loader looks at one file, and rests for longer than the test takes.
    let text = with("").replace("proxy_cache one", "proxy_cache many");
    let path = "proxy_cache_path %%LOGS%%/many levels=1:2 keys_zone=many:1m loader_files=1 loader_sleep=1h;";
    let site = counter.site(&format!("{path} {text}"));
    for expected in ["MISS", "HIT"] {
        let running = site.start(Server::Fulmar);
        let port = running.address().port();
        for number in 0..RESPONSES {
            assert_eq!(kept(&running, &format!("/{number}")).0, expected, "at port {port}");
        }
        running.stop();
    }
    assert_eq!(counter.count(), RESPONSES);
}

#[test]
fn a_worker_that_is_killed_leaves_no_half_response() {
    // A worker that ends again and again is started after longer pauses.
    let rounds = std::env::var("CACHE_KILLS").map_or(5, |rounds| rounds.parse().unwrap());
    const LENGTH: usize = 1 << 20;
    let counter = Counter::start(|asked, _| {
        let letter = asked.target.as_bytes()[1];
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LENGTH}\r\n\r\n");
        ([head.into_bytes(), vec![letter; LENGTH]].concat(), After::Keep)
    });
    let running = counter.site(&with("")).start(Server::Fulmar);
    let mut asked = 0;
    for round in 0..rounds {
        let letters: Vec<char> = ('a'..='h').collect();
        let mut clients: Vec<Client> = letters.iter().map(|_| running.connect()).collect();
        for (client, letter) in clients.iter_mut().zip(&letters) {
            let request = format!("GET /{letter}{round} HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send(request.as_bytes());
        }
        asked += 1;
        counter.wait_for(asked);
        asked = counter.count();
        for worker in Running::children(running.pid()) {
            kill_process(worker, Signal::KILL).unwrap();
        }
        drop(clients);
        let is_served = || Running::children(running.pid()).len() == 1;
        assert!(wait::until(LIMIT, is_served));
        for letter in letters {
            let content = get(&running, &format!("/{letter}{round}")).text();
            assert_eq!(content.len(), LENGTH);
            assert!(content.chars().all(|other| other == letter), "/{letter}{round}");
        }
        asked = asked.max(counter.count());
    }
    let abandoned = || {
        let all = files(&running.log_path("cache"));
        all.iter().filter(|path| path.to_string_lossy().contains(".fulmar-")).count()
    };
    assert!(wait::until(LIMIT, || abandoned() == 0), "{:?}", files(&running.log_path("cache")));
    running.stop_alerted();
}

#[test]
fn what_a_killed_writer_leaves_is_asked_for_again() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("")).start(Server::Fulmar);
    get(&running, "/a");
    let path = only_file(&running);
    let whole = fs::read(&path).unwrap();
    for (number, end) in [0, 10, whole.len() - 1].into_iter().enumerate() {
        // As if the process had died between making the file and writing it.
        fs::write(&path, &whole[..end]).unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let expected = format!("number {}", number + 2);
        assert_eq!(kept(&running, "/a"), pair("MISS", &expected), "{end} bytes");
        assert_eq!(kept(&running, "/a"), pair("HIT", &expected), "{end} bytes");
        assert_eq!(only_file(&running), path);
    }
    assert_eq!(running.log("error.log").matches("was cut off, and is removed").count(), 3);
    running.stop_alerted();
}

#[test]
fn damaged_and_foreign_files_are_never_sent() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("")).start(Server::Fulmar);
    for damage in 0..4 {
        let target = format!("/{damage}");
        get(&running, &target);
        let path = only_file(&running);
        let good = fs::read(&path).unwrap();
        let bytes = match damage {
            0 => good[..good.len() - 1].to_vec(),
            1 => good.iter().enumerate().map(|(at, byte)| if at == 60 { byte ^ 1 } else { *byte }).collect(),
            2 => b"foreign".to_vec(),
            _ => vec![0; 10_000],
        };
        fs::write(&path, bytes).unwrap();
        let expected = format!("number {}", 2 * damage + 2);
        assert_eq!(kept(&running, &target), pair("MISS", &expected), "damage {damage}");
        assert_eq!(kept(&running, &target), pair("HIT", &expected));
        fs::remove_file(&path).unwrap();
    }
    running.stop_alerted();
}

#[test]
fn nothing_is_kept_where_nothing_can_be_written() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("")).start(Server::Fulmar);
    let directory = running.log_path("cache");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "a file instead of the directory").unwrap();
    for number in 1..=2 {
        assert_eq!(
            get(&running, "/a").text(),
            format!("number {number}"),
            "requests are served all the same"
        );
    }
    running.stop_alerted();
}

#[test]
fn requests_purge_what_is_kept() {
    let counter = Counter::start(numbered);
    let text = format!(
        "map $request_method $purges {{ PURGE 1; default 0; }} {}",
        with("proxy_cache_purge $purges;")
    );
    let running = counter.site(&text).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    let purge = || {
        let request = b"PURGE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        running.ask_bytes(request).last().status
    };
    assert_eq!((purge(), purge()), (204, 404));
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 2"));
    running.stop();
}

/// The shapes of the module cache_purge. Debian's build of it crashes with a method in a location that forwards.
#[test]
fn requests_purge_by_method_and_client() {
    let counter = Counter::start(numbered);
    let text = with(
        "proxy_cache_purge PURGE from 10.0.0.0/8 127.0.0.0/8;
         location /on { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_purge on; }
         location /refused { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_purge BAN from 10.0.0.0/8; }
         location /off { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_purge off; }",
    );
    let site = counter.site(&text);
    let running = site.start(Server::Fulmar);
    let ask = |method: &str, target: &str| {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        running.ask_bytes(request.as_bytes()).last().status
    };
    for target in ["/a", "/on", "/refused", "/off", "/news/1", "/news/2", "/new"] {
        assert_eq!((kept(&running, target).0, kept(&running, target).0), ("MISS".into(), "HIT".into()));
    }
    for target in ["/a", "/news/*"] {
        let mut command = std::process::Command::new(Server::Fulmar.path());
        command.arg("explain").arg("-c").arg(site.prefix().join("fulmar.conf")).args(["-X", "PURGE"]);
        let output = command.arg(format!("http://{}{target}", running.address())).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("answer       200 OK"), "an explanation removes nothing: {text}");
    }
    assert_eq!((ask("PURGE", "/a"), ask("PURGE", "/a"), ask("PURGE", "/on")), (200, 404, 200));
    assert_eq!((kept(&running, "/a").0, kept(&running, "/on").0), ("MISS".into(), "MISS".into()));
    assert_eq!((ask("BAN", "/refused"), ask("PURGE", "/off")), (403, 200));
    assert_eq!(["/refused", "/off"].map(|target| kept(&running, target).0), ["HIT", "HIT"]);
    assert_eq!((ask("PURGE", "/news/*"), ask("PURGE", "/none*")), (200, 404));
    assert_eq!(
        ["/news/1", "/news/2", "/new"].map(|target| kept(&running, target).0),
        ["MISS", "MISS", "HIT"]
    );
    running.stop();
}

#[test]
fn a_purge_removes_all_variants() {
    let counter = Counter::start(|_, number| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: X-Kind\r\nContent-Length: 1";
        raw(&format!("{head}\r\n\r\n{number}"), After::Keep)
    });
    let text = format!(
        "map $request_method $purges {{ PURGE 1; default 0; }} {}",
        with("proxy_cache_purge $purges;")
    );
    let running = counter.site(&text).start(Server::Fulmar);
    let status = |kind: &str| {
        let response = running.ask(&format!("GET /a\nX-Kind: {kind}\nConnection: close")).last().clone();
        response.field("X-Cache").map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(["a", "b", "a", "b"].map(status), ["MISS", "MISS", "HIT", "HIT"]);
    running.ask_bytes(b"PURGE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(["a", "b"].map(status), ["MISS", "MISS"]);
    running.stop();
}

#[test]
fn what_is_purged_while_it_comes_is_not_kept() {
    let counter = Counter::start(numbered);
    let text = format!(
        "map $request_method $purges {{ PURGE 1; default 0; }} {}",
        with(
            "proxy_cache_purge $purges; proxy_cache_lock on; proxy_cache_lock_timeout 60s; proxy_cache_lock_age 60s;"
        )
    );
    let running = counter.site(&text).start(Server::Fulmar);
    counter.gate.set(true);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| kept(&running, "/a"));
        counter.wait_for(1);
        running.ask_bytes(b"PURGE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let second = scope.spawn(|| kept(&running, "/a"));
        // It does not wait for the first one, which may be out of date.
        counter.wait_for(2);
        counter.gate.set(false);
        assert_eq!(first.join().unwrap().0, "MISS");
        assert_eq!(second.join().unwrap(), pair("MISS", "number 2"));
    });
    assert_eq!(kept(&running, "/a"), pair("HIT", "number 2"));
    running.stop();
}

/// The file of the only object.
pub(super) fn only_file(running: &Running) -> PathBuf {
    files(&running.log_path("cache")).remove(0)
}

#[test]
fn a_response_that_is_asked_for_often_is_sent_from_memory() {
    let counter = Counter::start(numbered);
    let running = counter.site(&with("")).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    (0..2).for_each(|_| assert_eq!(kept(&running, "/a"), pair("HIT", "number 1")));
    fs::write(only_file(&running), "damage in the same file").unwrap();
    for _ in 0..5 {
        assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"), "the file is not read");
    }
    fs::remove_file(only_file(&running)).unwrap();
    assert!(wait::until(LIMIT, || kept(&running, "/a") == pair("MISS", "number 2")), "the file is gone");
    running.stop();
}

#[test]
fn nothing_is_kept_in_memory_where_there_is_no_room() {
    let counter = Counter::start(numbered);
    let mut site = with("").replace("proxy_cache one", "proxy_cache none");
    site.insert_str(0, "proxy_cache_path %%LOGS%%/none keys_zone=none:1m memory=0; ");
    let running = counter.site(&site).start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    (0..4).for_each(|_| assert_eq!(kept(&running, "/a"), pair("HIT", "number 1")));
    let path = files(&running.log_path("none")).remove(0);
    fs::write(path, "damage in the same file").unwrap();
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 2"));
    running.stop_alerted();
}

#[test]
fn a_content_that_a_power_failure_has_lost_is_asked_for_again() {
    for length in [100, 200_000] {
        let counter = Counter::start(move |_, _| long(length));
        let site = counter.site(&with(""));
        let running = site.start(Server::Fulmar);
        assert_eq!(kept(&running, "/a").1.len(), length);
        let path = only_file(&running);
        running.stop();
        let mut bytes = fs::read(&path).unwrap();
        let start = bytes.len() - length / 2;
        bytes[start..].fill(0);
        fs::write(&path, bytes).unwrap();
        let running = site.start(Server::Fulmar);
        let (status, content) = kept(&running, "/a");
        assert_eq!((status.as_str(), content), ("MISS", "x".repeat(length)));
        assert_eq!(kept(&running, "/a").0, "HIT");
        running.stop_alerted();
    }
}

#[test]
fn what_has_no_room_is_removed() {
    const LENGTH: usize = 100_000;
    let counter = Counter::start(|_, _| {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LENGTH}\r\n\r\n");
        ([head.into_bytes(), vec![b'x'; LENGTH]].concat(), After::Keep)
    });
    let text = with("").replace("proxy_cache one", "proxy_cache small");
    let path =
        "proxy_cache_path %%LOGS%%/small keys_zone=small:1m max_size=300k manager_sleep=1ms inactive=2s;";
    let running = counter.site(&format!("{path} {text}")).start(Server::Fulmar);
    (0..8).for_each(|number| drop(get(&running, &format!("/{number}"))));
    let count = || files(&running.log_path("small")).len();
    assert!(wait::until(LIMIT, || count() <= 2), "{}", count());
    assert!(wait::until(LIMIT, || count() == 0), "what is not used goes, too");
    running.stop();
}

/// A range of a content of this length, as a server sends it.
fn ranged(asked: &Asked, length: usize) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).into_owned();
    let range = text.lines().find_map(|line| line.strip_prefix("Range: bytes=")).unwrap();
    let (start, end) = range.split_once('-').unwrap();
    let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
    let end = end.min(length - 1);
    let body: String = (start..=end).map(|at| char::from(b'a' + u8::try_from(at % 26).unwrap())).collect();
    raw(
        &format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{end}/{length}\r\nETag: \"x\"\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ),
        After::Keep,
    )
}

/// A response to HEAD has no content. Responses for `/old` have expired when they arrive.
fn headed(asked: &Asked, number: usize) -> Reply {
    let body = format!("number {number}");
    let sent = if asked.text.starts_with(b"HEAD ") { "" } else { &body };
    let expires = if asked.target.starts_with("/old") { "@1" } else { "600" };
    let head = format!("X-Accel-Expires: {expires}\r\nETag: \"{number}\"\r\nContent-Length: {}", body.len());
    raw(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{sent}"), After::Keep)
}

fn ask_head(running: &Running, target: &str) -> Response {
    let request = format!("HEAD {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    running.ask_bytes(request.as_bytes()).last().clone()
}

#[test]
fn a_response_to_head_is_kept_for_head_only() {
    for rules in ["", "proxy_cache_rules rfc9111; proxy_cache_valid 1h;"] {
        let counter = Counter::start(headed);
        let settings = format!("proxy_cache_convert_head off; proxy_cache_lock on; {rules}");
        let running = counter.site(&with(&settings)).start(Server::Fulmar);
        let head = |target: &str| {
            let response = ask_head(&running, target);
            assert_eq!((response.status, response.field("Content-Length")), (200, Some("8")), "{response}");
            (response.field("X-Cache").unwrap().to_owned(), response.field("ETag").unwrap().to_owned())
        };
        assert_eq!(head("/a"), pair("MISS", "\"1\""));
        (0..4).for_each(|_| assert_eq!(head("/a"), pair("HIT", "\"1\""), "from the file and from memory"));
        assert_eq!(kept(&running, "/a"), pair("MISS", "number 2"));
        assert_eq!(kept(&running, "/a"), pair("HIT", "number 2"));
        assert_eq!(head("/a"), pair("HIT", "\"2\""), "the response to GET has taken the place");
        running.stop();
    }
}

#[test]
fn a_response_to_head_replaces_no_content() {
    let counter = Counter::start(headed);
    let running = counter.site(&with("proxy_cache_convert_head off;")).start(Server::Fulmar);
    assert_eq!(kept(&running, "/old"), pair("MISS", "number 1"));
    let before = fs::read(only_file(&running)).unwrap();
    let status = |target: &str| ask_head(&running, target).field("X-Cache").unwrap_or_default().to_owned();
    assert_eq!(status("/old"), "EXPIRED");
    assert_eq!(fs::read(only_file(&running)).unwrap(), before);
    assert_eq!(
        [status("/old2"), status("/old2")],
        ["MISS", "EXPIRED"],
        "one without content replaces its like"
    );
    running.stop();
}

#[test]
fn parts_of_a_response_are_kept_one_by_one() {
    const LENGTH: usize = 95;
    let counter = Counter::start(|asked, _| ranged(asked, LENGTH));
    let settings = "slice 10; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 206 1h;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let ask = |range: &str| {
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{range}\r\n");
        let response = running.ask_bytes(request.as_bytes()).last().clone();
        (response.status, response.text(), counter.count())
    };
    let whole: String = (0..LENGTH).map(|at| char::from(b'a' + u8::try_from(at % 26).unwrap())).collect();
    assert_eq!(ask("Range: bytes=42-57\r\n"), (206, whole[42..58].to_owned(), 2), "two parts are needed");
    assert_eq!(ask("Range: bytes=45-51\r\n"), (206, whole[45..52].to_owned(), 2));
    assert_eq!(
        ask("Range: bytes=-3\r\n"),
        (206, whole[92..].to_owned(), 4),
        "the first one tells the length"
    );
    assert_eq!(ask(""), (200, whole.clone(), 10));
    assert_eq!(ask(""), (200, whole.clone(), 10));
    assert_eq!(ask("Range: bytes=1-2,90-91\r\n"), (200, whole, 10));
    assert_eq!(ask("Range: bytes=95-\r\n").0, 416);
    assert_eq!(files(&running.log_path("cache")).len(), 10);
    running.stop();
}

#[test]
fn a_part_that_does_not_fit_is_not_kept() {
    let replaced = |(bytes, after): Reply, from: &str, to: &str| -> Reply {
        (String::from_utf8(bytes).unwrap().replace(from, to).into_bytes(), after)
    };
    let counter = Counter::start(move |asked, number| match number {
        1 => replaced(ranged(asked, 15), "bytes 0-", "bytes 1-"),
        3 => replaced(ranged(asked, 15), "\"x\"", "\"y\""),
        _ => ranged(asked, 15),
    });
    let settings = "slice 10; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 206 1h;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let ask = || {
        let mut client = running.connect();
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = client.response("GET");
        (
            response.filter(|response| response.broken.is_none()).map(|response| response.text()),
            counter.count(),
        )
    };
    assert_eq!(ask(), (None, 1), "the first part is another one");
    assert_eq!(ask(), (None, 3), "the second part is of another content");
    assert_eq!(ask(), (Some("abcdefghijklmno".to_owned()), 4));
    assert_eq!(ask(), (Some("abcdefghijklmno".to_owned()), 4));
    running.stop();
}

/// nginx requests the whole content for an update in the background, and keeps it with another key.
#[test]
fn each_stale_part_is_updated_in_the_background() {
    let ranges = Arc::<Mutex<Vec<String>>>::default();
    let asked_for = Arc::clone(&ranges);
    let counter = Counter::start(move |asked, number| {
        let (bytes, after) = ranged(asked, 25);
        let text = String::from_utf8(bytes).unwrap();
        let expires = if number <= 3 { "@1" } else { "600" };
        let range = text.lines().find_map(|line| line.strip_prefix("Content-Range: bytes ")).unwrap();
        asked_for.lock().unwrap().push(range.to_owned());
        (text.replace("ETag", &format!("X-Accel-Expires: {expires}\r\nETag")).into_bytes(), after)
    });
    let settings = "slice 10; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 206 1h;
        proxy_cache_use_stale updating; proxy_cache_background_update on;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let whole: String = ('a'..='y').collect();
    assert_eq!(kept(&running, "/a"), pair("MISS", &whole));
    assert_eq!(kept(&running, "/a"), pair("STALE", &whole));
    wait::until(Duration::from_secs(10), || counter.count() >= 6);
    wait::pause(Duration::from_millis(100));
    assert_eq!(kept(&running, "/a"), pair("HIT", &whole));
    running.stop();
    let mut ranges = ranges.lock().unwrap().clone();
    ranges.sort();
    assert_eq!(ranges, ["0-9/25", "0-9/25", "10-19/25", "10-19/25", "20-24/25", "20-24/25"]);
}

/// A response of this length.
fn long(length: usize) -> Reply {
    let head = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"x\"\r\nAccept-Ranges: bytes\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    ([head.into_bytes(), vec![b'x'; length]].concat(), After::Keep)
}

#[test]
fn a_long_response_is_sent_from_its_open_file() {
    const LENGTH: usize = 60_000;
    let counter = Counter::start(|_, _| long(LENGTH));
    let running = counter.site(&with("")).start(Server::Fulmar);
    let heads: Vec<_> = (0..5)
        .map(|_| {
            let response = get(&running, "/a");
            assert!(response.text().bytes().eq(std::iter::repeat_n(b'x', LENGTH)));
            ["X-Cache", "ETag", "Content-Length", "Accept-Ranges"]
                .map(|name| response.field(name).map(str::to_owned))
        })
        .collect();
    assert_eq!(heads[0][0].as_deref(), Some("MISS"));
    for head in &heads[1..] {
        assert_eq!((head[0].as_deref(), &head[1..]), (Some("HIT"), &heads[0][1..]));
    }
    for (field, status, length) in [("If-None-Match: \"x\"", 304, 0), ("Range: bytes=1-50000", 206, 50_000)] {
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\n{field}\r\nConnection: close\r\n\r\n");
        let response = running.ask_bytes(request.as_bytes()).last().clone();
        assert_eq!((response.status, response.text().len()), (status, length), "{field}");
    }
    assert_eq!(counter.count(), 1);
    running.stop();
}

#[test]
fn a_response_is_kept_although_its_client_takes_no_content() {
    const LENGTH: usize = 1 << 20;
    for request in [
        "HEAD /a HTTP/1.1\r\nHost: a\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nIf-Match: \"other\"\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=9999999-\r\n",
    ] {
        let counter = Counter::start(|_, _| long(LENGTH));
        let running = counter.site(&with("")).start(Server::Fulmar);
        let mut client = running.connect();
        client.send(format!("{request}\r\n").as_bytes());
        // The next request of the connection is served, too.
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let method = request.split(' ').next().unwrap();
        assert!(matches!(client.response(method).unwrap().status, 200 | 304 | 412 | 416));
        let second = client.response("GET").unwrap();
        assert_eq!((second.field("X-Cache"), second.text().len()), (Some("HIT"), LENGTH), "{request}");
        assert_eq!(counter.count(), 1);
        running.stop();
    }
}

/// A response with a tag that is named after its target.
fn tagged(asked: &Asked, number: usize) -> Reply {
    let tag = asked.target.trim_start_matches('/');
    let body = format!("number {number}");
    let length = body.len();
    let fields =
        format!("Cache-Control: max-age=600\r\nSurrogate-Key: all {tag}\r\nContent-Length: {length}");
    raw(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}"), After::Keep)
}

#[test]
fn responses_are_listed_and_removed_over_http() {
    let counter = Counter::start(tagged);
    let text = with("proxy_cache_use_stale updating; proxy_cache_background_update on;")
        .replace("location / {", "location = /cache { cache_api; } location / {");
    let running = counter.site(&text).start(Server::Fulmar);
    let ask = |method: &str, query: &str| {
        let request = format!("{method} /cache?{query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = running.ask_bytes(request.as_bytes()).last().clone();
        (response.status, response.text())
    };
    for target in ["/a", "/b", "/c"] {
        (0..3).for_each(|_| drop(kept(&running, target)));
    }
    let (_, zones) = ask("GET", "");
    assert!(zones.contains("\"zone\":\"one\",\"responses_on_disk\":3,"), "{zones}");
    assert!(zones.contains("\"responses_in_memory\":3,"), "{zones}");
    let (_, list) = ask("GET", "list&tag=a");
    assert!(list.contains("/a\",\"status\":200,\"bytes\":8,") && !list.contains("/b\""), "{list}");
    assert_eq!(ask("DELETE", "zone=one&tag=a"), (200, "{\"removed\":1}".to_owned()));
    assert_eq!((kept(&running, "/a").0.as_str(), kept(&running, "/b").0.as_str()), ("MISS", "HIT"));
    let prefix = format!("prefix=http%3a//127.0.0.1:{}/b", counter.origin.address().port());
    assert_eq!(ask("DELETE", &format!("{prefix}&soft")), (200, "{\"outdated\":1}".to_owned()));
    assert_eq!(kept(&running, "/b"), pair("STALE", "number 2"), "it is sent while there is a new one");
    assert_eq!(ask("DELETE", "host=127.0.0.1"), (200, "{\"removed\":3}".to_owned()));
    assert_eq!(kept(&running, "/c").0, "MISS");
    assert_eq!(ask("DELETE", "").0, 400);
    running.stop();
}

#[test]
fn responses_are_listed_and_removed_by_the_program() {
    let counter = Counter::start(tagged);
    let running = counter.site(&with("")).start(Server::Fulmar);
    for target in ["/a", "/b"] {
        (0..3).for_each(|_| drop(kept(&running, target)));
    }
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(Server::Fulmar.path());
        command.arg("cache").arg(arguments[0]).arg(running.log_path("cache")).args(&arguments[1..]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, list) = run(&["list"]);
    assert!(status == Some(0) && list.lines().count() == 2 && list.contains("/a\n"), "{list}");
    let (_, json) = run(&["list", "--json", "--tag", "b"]);
    assert!(json.lines().count() == 1 && json.contains("\"bytes\":8"), "{json}");
    assert!(run(&["stat"]).1.starts_with("responses  2\n"));
    assert_eq!(run(&["purge"]).0, Some(1), "it removes nothing without being told what");
    let missing = running.log_path("missing").display().to_string();
    for command in [&["stat"][..], &["list"], &["purge", "--all"]] {
        let mut program = std::process::Command::new(Server::Fulmar.path());
        let output = program.arg("cache").args(command).arg(&missing).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{command:?}");
    }
    assert_eq!(run(&["purge", "--tag", "a"]), (Some(0), "1 response\n".to_owned()));
    assert!(wait::until(LIMIT, || kept(&running, "/a").0 == "MISS"), "the server notices");
    assert_eq!(run(&["purge", "--soft", "--tag", "b"]).1, "1 response\n");
    assert!(wait::until(LIMIT, || kept(&running, "/b").0 == "EXPIRED"), "the server notices");
    assert_eq!(run(&["purge", "--all"]).1, "2 responses\n");
    running.stop();
}

#[test]
fn a_page_does_not_wait_for_the_update_of_what_it_includes() {
    let counter = Counter::start(numbered);
    let text = with("proxy_cache_use_stale updating; proxy_cache_background_update on;")
        .replace("location / {", "location = /page.html { ssi on; } location / {");
    let page =
        ["/a", "/b"].map(|uri| format!("<!--#include virtual=\"{uri}?control=max-age=1\" wait=\"yes\" -->"));
    let running = counter.site(&text).file("page.html", page.join(" ")).start(Server::Fulmar);
    assert_eq!(get(&running, "/page.html").text(), "number 1 number 2");
    wait::pause(Duration::from_secs(2));
    counter.gate.set(true);
    assert_eq!(get(&running, "/page.html").text(), "number 1 number 2");
    for (target, content) in [("/a", "number 1"), ("/b", "number 2")] {
        let target = format!("{target}?control=max-age=1");
        assert_eq!(kept(&running, &target), pair("UPDATING", content), "its update is still on the way");
    }
    counter.gate.set(false);
    counter.wait_for(4);
    running.stop();
}

#[test]
fn requests_are_counted_by_what_became_of_them() {
    let counter = Counter::start(numbered);
    let text = with("").replace("location / {", "location = /metrics { fulmar_status; } location / {");
    let running = counter.site(&text).start(Server::Fulmar);
    (0..3).for_each(|_| drop(kept(&running, "/a")));
    let metrics = get(&running, "/metrics").text();
    for line in [
        "fulmar_cache_requests_total{zone=\"one\",status=\"MISS\"} 1",
        "fulmar_cache_requests_total{zone=\"one\",status=\"HIT\"} 2",
        "fulmar_cache_objects{zone=\"one\",tier=\"disk\"} 1",
        "fulmar_cache_objects{zone=\"one\",tier=\"memory\"} 1",
        "fulmar_cache_size_bytes{zone=\"one\",tier=\"disk\"} 4096",
        "fulmar_cache_evictions_total{zone=\"one\"} 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is not in\n{metrics}");
    }
    let has_age = || {
        drop(kept(&running, "/a"));
        !get(&running, "/metrics").text().contains("fulmar_cache_age_seconds_total{zone=\"one\"} 0\n")
    };
    assert!(wait::until(LIMIT, has_age), "a response that was kept a second ago has an age");
    running.stop();
}

/// A file system of this size, which is unmounted at the end.
pub(super) struct Small(PathBuf);

impl Small {
    /// None where mounting is not allowed.
    pub(super) fn mount(directory: PathBuf, size: &str) -> Option<Small> {
        fs::create_dir_all(&directory).unwrap();
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size},mode=777"), "tmpfs"]).arg(&directory);
        let is_mounted = command.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(Small(directory))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_ends_only_the_writing() {
    const LENGTH: usize = 400_000;
    let counter = Counter::start(|asked, number| match asked.target.as_str() {
        "/long" => long(LENGTH),
        _ => numbered(asked, number),
    });
    let site = counter.site(&with("proxy_cache_lock on;"));
    let Some(_small) = Small::mount(site.logs(Server::Fulmar).join("cache"), "128k") else {
        eprintln!("not run: file systems cannot be mounted here");
        return;
    };
    let running = site.start(Server::Fulmar);
    for number in 1..=3 {
        let (status, content) = kept(&running, "/long");
        assert_eq!((status.as_str(), content.len(), counter.count()), ("MISS", LENGTH, number));
    }
    assert!(running.log("error.log").contains("a response cannot be kept"));
    assert!(wait::until(LIMIT, || files(&running.log_path("cache")).is_empty()), "nothing stays of it");
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 4"));
    assert_eq!(kept(&running, "/a"), pair("HIT", "number 4"), "what has room is kept");
    running.stop_alerted();
}
