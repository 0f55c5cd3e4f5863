//! What was removed from a cache stays removed: for each way to remove a response with variants (`Vary`), and whatever befalls the
//! server then.

use std::process::Command;

use rustix::process::{Signal, kill_process};
use tests::binary::Server;
use tests::origin::{After, Asked, Reply, raw};
use tests::site::{Running, Site};
use tests::worker;

use super::caching::{Counter, files};
use super::process::reload::upgrade;

/// A response with two variants and a tag.
fn varied(asked: &Asked, number: usize) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).into_owned();
    let kind = text.lines().find_map(|line| line.strip_prefix("X-Kind: ")).unwrap_or("-").to_owned();
    let tag = asked.target.trim_start_matches('/').to_owned();
    let body = format!("{kind} {number}");
    let head = format!(
        "Cache-Control: max-age=600\r\nVary: X-Kind\r\nxkey: {tag}\r\nContent-Length: {}",
        body.len()
    );
    raw(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"), After::Keep)
}

const SITE: &str = "
    map $request_method $purges { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:%%PORT%%;
        add_header X-Cache $upstream_cache_status always;
        proxy_cache one;
        proxy_cache_key $uri;
        RULES
        location / { proxy_pass http://127.0.0.1:ORIGIN; }
        location = /method { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_purge $purges; }
        location /method- { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_purge $purges; }
        location ~ ^/purge(/.*) { proxy_cache_purge one $1; }
        location = /api { cache_api; }
        location = /made { return 200 x; }
    }";

/// The responses, each removed in another way.
const TARGETS: [&str; 9] = [
    "/method",
    "/method-prefix",
    "/place",
    "/place-prefix",
    "/api-key",
    "/api-prefix",
    "/api-tag",
    "/command-key",
    "/command-prefix",
];

fn ask(running: &Running, target: &str, kind: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Kind: {kind}\r\nConnection: close\r\n\r\n");
    let response = running.ask_bytes(request.as_bytes()).last().clone();
    assert!(response.text().starts_with(kind), "{target} {kind}: {response}");
    response.field("X-Cache").unwrap_or_default().to_owned()
}

fn statuses(running: &Running, target: &str) -> [String; 2] {
    ["a", "b"].map(|kind| ask(running, target, kind))
}

fn remove(running: &Running, target: &str) {
    let send = |method: &str, target: &str| {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let response = running.ask_bytes(request.as_bytes()).last().clone();
        assert!(matches!(response.status, 200 | 204), "{target}: {response}");
    };
    let command = |option: &str, text: &str| {
        let mut command = Command::new(Server::Fulmar.path());
        command.args(["cache", "purge"]).arg(running.log_path("cache")).args([option, text]);
        assert_eq!(command.output().unwrap().stdout, b"2 responses\n");
    };
    match target {
        "/method" => send("PURGE", target),
        "/method-prefix" => send("PURGE", "/method-*"),
        "/place" => send("GET", "/purge/place"),
        "/place-prefix" => send("GET", "/purge/place-*"),
        "/api-key" => send("DELETE", "/api?zone=one&key=/api-key"),
        "/api-prefix" => send("DELETE", "/api?prefix=/api-p"),
        "/api-tag" => send("DELETE", "/api?tag=api-tag"),
        "/command-key" => command("--key", target),
        "/command-prefix" => command("--prefix", "/command-p"),
        _ => panic!("{target}"),
    }
}

fn restart(site: &Site, running: Running) -> Running {
    running.stop();
    site.start(Server::Fulmar)
}

fn upgraded(_: &Site, running: Running) -> Running {
    upgrade(&running);
    running
}

fn with_another_worker(_: &Site, running: Running) -> Running {
    let before = worker::of(&running);
    kill_process(before, Signal::KILL).unwrap();
    worker::after(&running, before);
    running
}

fn removed_stays_removed(befall: fn(&Site, Running) -> Running) {
    for rules in ["", "proxy_cache_rules rfc9111;"] {
        let counter = Counter::start(varied);
        let site = counter.site(&SITE.replace("RULES", rules));
        let running = site.start(Server::Fulmar);
        for target in TARGETS {
            assert_eq!(statuses(&running, target), ["MISS", "MISS"], "{target}");
            assert_eq!(statuses(&running, target), ["HIT", "HIT"], "{target}");
        }
        // What is not removed is found in any case: the variants are not lost for another reason.
        assert_eq!(statuses(&running, "/other"), ["MISS", "MISS"]);
        TARGETS.iter().for_each(|target| remove(&running, target));
        let running = befall(&site, running);
        for target in TARGETS {
            assert_eq!(statuses(&running, target), ["MISS", "MISS"], "{target} {rules}");
            assert_eq!(statuses(&running, target), ["HIT", "HIT"], "{target} {rules}");
        }
        assert_eq!(statuses(&running, "/other"), ["HIT", "HIT"], "{rules}");
        running.stop_alerted();
    }
}

#[test]
fn what_is_removed_stays_removed_after_a_restart() {
    removed_stays_removed(restart);
}

#[test]
fn what_is_removed_stays_removed_after_an_upgrade() {
    removed_stays_removed(upgraded);
}

#[test]
fn what_is_removed_stays_removed_after_a_worker_was_killed() {
    removed_stays_removed(with_another_worker);
}

/// A server that has responses in memory does not send them after the command has ended.
#[test]
fn a_command_ends_when_the_server_has_noticed() {
    let counter = Counter::start(varied);
    let running = counter.site(&SITE.replace("RULES", "")).start(Server::Fulmar);
    for target in ["/command-key", "/command-prefix"] {
        // The second look is a moment before the command removes the file.
        assert_eq!(statuses(&running, target), ["MISS", "MISS"]);
        assert_eq!(statuses(&running, target), ["HIT", "HIT"]);
        remove(&running, target);
        assert_eq!(statuses(&running, target), ["MISS", "MISS"], "{target}");
    }
    running.stop();
}

#[test]
fn a_request_that_bypasses_the_cache_leaves_other_variants() {
    let counter = Counter::start(varied);
    let site = counter.site(&SITE.replace("RULES", "proxy_cache_bypass $http_x_bypass;"));
    let running = site.start(Server::Fulmar);
    assert_eq!(statuses(&running, "/a"), ["MISS", "MISS"]);
    running.ask_bytes(b"GET /a HTTP/1.1\r\nHost: a\r\nX-Kind: a\r\nX-Bypass: 1\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&running, "/a"), ["HIT", "HIT"]);
    assert_eq!((files(&running.log_path("cache")).len(), counter.count()), (2, 3));
    running.stop();
}

/// The default key of `proxy_cache_rules rfc9111` begins with what the client asks for. A purge by another key says how keys look.
#[test]
fn a_purge_that_removes_nothing_shows_a_key() {
    let counter = Counter::start(varied);
    let text = SITE.replace("proxy_cache_key $uri;", "").replace("RULES", "proxy_cache_rules rfc9111;");
    let running = counter.site(&text).start(Server::Fulmar);
    assert_eq!(ask(&running, "/page", "a"), "MISS");
    let delete = |selection: &str| {
        let request = format!("DELETE /api?{selection} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        running.ask_bytes(request.as_bytes()).last().text().to_string()
    };
    let told = delete("zone=one&prefix=/page");
    let key =
        told.strip_prefix("{\"removed\":0,\"example_key\":\"").and_then(|rest| rest.strip_suffix("\"}"));
    let key = key.unwrap_or_else(|| panic!("{told}"));
    assert!(key.starts_with("http://a/http://") && key.ends_with("/page"), "{key}");
    let mut command = Command::new(Server::Fulmar.path());
    command.args(["cache", "purge"]).arg(running.log_path("cache")).args(["--prefix", "/page"]);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"0 responses\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("the key of another one is \"{key}\"")), "{said}");
    assert_eq!(delete(&format!("key={key}")), "{\"removed\":1}");
    assert_eq!(delete("prefix=/page"), "{\"removed\":0}", "nothing is left");
    running.stop();
}
