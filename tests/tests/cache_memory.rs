//! Responses that are only in memory until they are requested often enough (`disk_min_uses`).

use rustix::process::{Signal, kill_process};
use tests::binary::Server;
use tests::origin::{After, Asked, Reply, raw};
use tests::site::{Running, Site};
use tests::wait;

use super::caching::{Counter, LIMIT, Small, files, get, kept, numbered, pair, with};

/// A site whose zone has these parameters.
fn site(counter: &Counter, parameters: &str, settings: &str) -> Site {
    let text = with(settings).replace("proxy_cache one", "proxy_cache two");
    let text = text.replace("location / {", "location = /cache { cache_api; } location / {");
    counter.site(&format!(
        "map $request_method $purges {{ PURGE 1; default 0; }}
         proxy_cache_path %%LOGS%%/two levels=1:2 keys_zone=two:10m {parameters}; {text}"
    ))
}

fn count_files(running: &Running) -> usize {
    files(&running.log_path("two")).len()
}

/// The status of the cache and the content for a request with these fields.
fn ask(running: &Running, request: &str) -> (String, String) {
    let response = running.ask(&format!("{request}\nConnection: close")).last().clone();
    (response.field("X-Cache").unwrap_or_default().to_owned(), response.text())
}

fn api(running: &Running, method: &str, query: &str) -> String {
    let request = format!("{method} /cache?{query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    running.ask_bytes(request.as_bytes()).last().text()
}

#[test]
fn a_response_gets_its_file_when_it_is_requested_again() {
    let counter = Counter::start(numbered);
    let running = site(&counter, "disk_min_uses=3", "").start(Server::Fulmar);
    for (status, expected) in [("MISS", 0), ("HIT", 0), ("HIT", 1), ("HIT", 1), ("HIT", 1), ("HIT", 1)] {
        assert_eq!((kept(&running, "/a"), count_files(&running)), (pair(status, "number 1"), expected));
    }
    assert_eq!(kept(&running, "/b").0, "MISS");
    let zones = api(&running, "GET", "");
    assert!(
        zones.contains(
            "\"zone\":\"two\",\"responses_on_disk\":1,\"disk_bytes\":4096,\"responses_in_memory\":2,"
        ),
        "{zones}"
    );
    assert_eq!((counter.count(), count_files(&running)), (2, 1));
    running.stop();
}

#[test]
fn a_restart_and_a_killed_worker_lose_only_what_has_no_file() {
    let counter = Counter::start(numbered);
    let site = site(&counter, "disk_min_uses=2", "");
    let running = site.start(Server::Fulmar);
    let status = |running: &Running, target: &str| kept(running, target).0;
    let targets = ["/often", "/often", "/once"];
    assert_eq!(targets.map(|target| status(&running, target)), ["MISS", "HIT", "MISS"]);
    assert_eq!(count_files(&running), 1);
    running.stop();
    let running = site.start(Server::Fulmar);
    assert_eq!(targets.map(|target| status(&running, target)), ["HIT", "HIT", "MISS"]);
    for worker in Running::children(running.pid()) {
        kill_process(worker, Signal::KILL).unwrap();
    }
    assert!(wait::until(LIMIT, || Running::children(running.pid()).len() == 1));
    assert_eq!(targets.map(|target| status(&running, target)), ["HIT", "HIT", "MISS"]);
    assert_eq!(counter.count(), 4);
    running.stop_alerted();
}

#[test]
fn a_reload_loses_no_response_in_memory() {
    let counter = Counter::start(numbered);
    let running = site(&counter, "disk_min_uses=never", "").start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    running.signal(Signal::HUP);
    running.wait_for_log("error.log", "reconfigur");
    assert_eq!((kept(&running, "/a"), count_files(&running)), (pair("HIT", "number 1"), 0));
    running.stop();
}

#[test]
fn many_other_responses_push_out_nothing_that_is_requested_often() {
    const KEYS: usize = 10_000;
    const AT_ONCE: usize = 100;
    let counter = Counter::start(numbered);
    for parameters in ["disk_min_uses=2", "disk_min_uses=never memory=1m"] {
        let before = counter.count();
        let running = site(&counter, parameters, "").start(Server::Fulmar);
        let hot = kept(&running, "/hot").1;
        (0..5).for_each(|_| assert_eq!(kept(&running, "/hot"), pair("HIT", &hot)));
        for batch in 0..KEYS / AT_ONCE {
            let ask = |number: usize| format!("GET /{batch}-{number} HTTP/1.1\r\nHost: a\r\n\r\n");
            let close = "GET /hot HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let text: String = (0..AT_ONCE).map(ask).chain([close.to_owned()]).collect();
            let answers = running.ask_bytes(text.as_bytes());
            assert_eq!(answers.responses.len(), AT_ONCE + 1);
            assert_eq!((answers.last().field("X-Cache"), answers.last().text()), (Some("HIT"), hot.clone()));
        }
        assert_eq!(counter.count() - before, KEYS + 1);
        assert_eq!(count_files(&running), usize::from(parameters == "disk_min_uses=2"));
        running.stop();
    }
}

#[test]
fn responses_without_files_are_removed() {
    let counter = Counter::start(numbered);
    let settings =
        "proxy_cache_purge $purges; proxy_cache_use_stale updating; proxy_cache_background_update on;";
    let running = site(&counter, "disk_min_uses=never", settings).start(Server::Fulmar);
    for target in ["/a", "/b", "/c"] {
        assert_eq!([kept(&running, target).0.as_str(), kept(&running, target).0.as_str()], ["MISS", "HIT"]);
    }
    let purge =
        || running.ask_bytes(b"PURGE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").last().status;
    assert_eq!((purge(), purge(), kept(&running, "/a").0.as_str()), (204, 404, "MISS"));
    let list = api(&running, "GET", "list&zone=two");
    assert_eq!(list.matches("\"status\":200").count(), 3, "{list}");
    let prefix = format!("prefix=http%3a//127.0.0.1:{}/b", counter.origin.address().port());
    assert_eq!(api(&running, "DELETE", &format!("{prefix}&soft")), "{\"outdated\":1}");
    assert_eq!(kept(&running, "/b"), pair("STALE", "number 2"), "it is sent while there is a new one");
    assert!(wait::until(LIMIT, || kept(&running, "/b").0 == "HIT"));
    assert_eq!(api(&running, "DELETE", &prefix), "{\"removed\":1}");
    assert_eq!(kept(&running, "/b").0, "MISS");
    assert_eq!(api(&running, "DELETE", "all"), "{\"removed\":3}");
    assert_eq!((kept(&running, "/c").0.as_str(), count_files(&running)), ("MISS", 0));
    running.stop();
}

#[test]
fn ranges_conditions_and_head_are_answered_from_memory() {
    let counter = Counter::start(|_, _| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"x\"\r\nAccept-Ranges: bytes\r\n";
        raw(&format!("{head}Content-Length: 10\r\n\r\n0123456789"), After::Keep)
    });
    let running = site(&counter, "disk_min_uses=never", "").start(Server::Fulmar);
    assert_eq!(kept(&running, "/a"), pair("MISS", "0123456789"));
    assert_eq!(ask(&running, "GET /a\nRange: bytes=2-4"), pair("HIT", "234"));
    let unchanged = running.ask("GET /a\nIf-None-Match: \"x\"\nConnection: close").last().clone();
    assert_eq!((unchanged.status, unchanged.field("X-Cache")), (304, Some("HIT")));
    let head = running.ask("HEAD /a\nConnection: close").last().clone();
    assert_eq!(
        (head.status, head.field("Content-Length"), head.field("X-Cache")),
        (200, Some("10"), Some("HIT"))
    );
    assert_eq!((counter.count(), count_files(&running)), (1, 0));
    running.stop();
}

#[test]
fn each_variant_gets_its_file() {
    let counter = Counter::start(|_, number| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: X-Kind\r\nContent-Length: 1";
        raw(&format!("{head}\r\n\r\n{number}"), After::Keep)
    });
    let running = site(&counter, "disk_min_uses=2", "").start(Server::Fulmar);
    let status = |kind: &str| ask(&running, &format!("GET /a\nX-Kind: {kind}"));
    assert_eq!((status("a"), status("b"), count_files(&running)), (pair("MISS", "1"), pair("MISS", "2"), 0));
    for _ in 0..4 {
        assert_eq!((status("a"), status("b")), (pair("HIT", "1"), pair("HIT", "2")));
    }
    assert_eq!(count_files(&running), 2);
    running.stop();
}

/// A response that has to be revalidated after a second; the field of the 304 makes its head longer.
fn changing(asked: &Asked, number: usize) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).to_ascii_lowercase();
    let head = match text.contains("if-none-match: \"x\"") {
        true => {
            "HTTP/1.1 304 Same\r\nCache-Control: max-age=600\r\nX-Now: here\r\nETag: \"x\"\r\n\r\n".to_owned()
        }
        false => format!(
            "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nCache-Control: max-age=1\r\nContent-Length: 8\r\n\r\nnumber {number}"
        ),
    };
    raw(&head, After::Keep)
}

#[test]
fn a_response_without_a_file_is_found_valid_again() {
    for rules in ["nginx", "rfc9111"] {
        let counter = Counter::start(changing);
        let settings = format!("proxy_cache_revalidate on; proxy_cache_rules {rules};");
        let running = site(&counter, "disk_min_uses=never", &settings).start(Server::Fulmar);
        assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
        let mut last = pair("", "");
        assert!(wait::until(LIMIT, || {
            last = kept(&running, "/a");
            last.0 != "HIT"
        }));
        assert_eq!(last, pair("REVALIDATED", "number 1"));
        let again = get(&running, "/a");
        assert_eq!((again.field("X-Cache"), again.text()), (Some("HIT"), "number 1".to_owned()));
        assert_eq!(again.field("X-Now").is_some(), rules == "rfc9111", "{again}");
        assert_eq!((counter.count(), count_files(&running)), (2, 0));
        running.stop();
    }
}

/// The end of the content comes after its start has been sent.
#[test]
fn a_response_that_arrives_in_parts_is_kept_in_memory() {
    const LENGTH: usize = 40_000;
    let counter = Counter::start(|asked, _| {
        let length = if asked.target == "/long" { 100 * LENGTH } else { LENGTH };
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n");
        ([head.into_bytes(), vec![b'x'; length]].concat(), After::Keep)
    });
    for (parameters, long_files, long_again) in
        [("disk_min_uses=9", 1, "HIT"), ("disk_min_uses=never", 0, "MISS")]
    {
        let running = site(&counter, parameters, "proxy_cache_lock on;").start(Server::Fulmar);
        for status in ["MISS", "HIT"] {
            let (found, content) = kept(&running, "/a");
            assert_eq!((found.as_str(), content.len(), count_files(&running)), (status, LENGTH, 0));
        }
        let ask = || (kept(&running, "/long").0, kept(&running, "/long").0, count_files(&running));
        assert_eq!(ask(), ("MISS".to_owned(), long_again.to_owned(), long_files), "{parameters}");
        running.stop();
    }
}

#[test]
fn a_full_disk_leaves_responses_in_memory() {
    let counter = Counter::start(numbered);
    let site = site(&counter, "disk_min_uses=2", "");
    let Some(small) = Small::mount(site.logs(Server::Fulmar).join("two"), "64k") else {
        eprintln!("not run: file systems cannot be mounted here");
        return;
    };
    let running = site.start(Server::Fulmar);
    std::fs::write(running.log_path("two").join("other"), vec![0; 1 << 20]).unwrap_err();
    assert_eq!(kept(&running, "/a"), pair("MISS", "number 1"));
    for _ in 0..5 {
        assert_eq!(kept(&running, "/a"), pair("HIT", "number 1"));
    }
    let complaints = running.log("error.log").matches("a response cannot be kept").count();
    assert_eq!(complaints, 1, "the file is tried once");
    running.stop_alerted();
    drop(small);
}

#[test]
fn wrong_parameters_are_refused() {
    let counter = Counter::start(numbered);
    for (parameters, message) in [
        ("disk_min_uses=0", "or \"never\""),
        ("disk_min_uses=some", "invalid disk_min_uses value"),
        ("disk_min_uses=2 memory=0", "\"disk_min_uses\" keeps responses in memory"),
        ("memory=100k disk_min_uses=never", "\"disk_min_uses\" keeps responses in memory"),
    ] {
        let text = site(&counter, parameters, "").test(Server::Fulmar).unwrap_err();
        assert!(text.contains(message), "{parameters}: {text}");
    }
    site(&counter, "memory=0 disk_min_uses=1", "").start(Server::Fulmar).stop();
}
