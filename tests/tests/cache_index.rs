//! A million responses that are kept: requests are served while the index is filled after a start, and the index takes
//! less memory than nginx's.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cache::{Freshness, Head, Key, Levels};
use http::Fields;
use rustix::process::Pid;
use tests::binary::{Server, have_nginx};
use tests::client::{self, Client};
use tests::site::{Running, Site};
use tests::wait;

/// How long all files may take to be found.
const LIMIT: Duration = Duration::from_secs(900);

const CONFIGURATION: &str = "
proxy_cache_path CACHE levels=1:2 keys_zone=one:250m inactive=1d loader_files=10000 loader_threshold=1s
    loader_sleep=1ms;
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Cache $upstream_cache_status always;
    location / { proxy_pass http://127.0.0.1:1; proxy_cache one; proxy_cache_key $uri; }
    location = /metrics { fulmar_status; }
}";

/// nginx with room for the keys that a megabyte holds, and the server that it asks.
const SMALL_ZONE: &str = "
keepalive_requests 1000000;
proxy_cache_path %%DIR%%/cache levels=1:2 keys_zone=one:1m inactive=1d use_temp_path=off;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://127.0.0.1:%%PORT_1%%;
        proxy_cache one;
        proxy_cache_key $uri;
        proxy_cache_valid 1h;
    }
}
server {
    listen 127.0.0.1:%%PORT_1%%;
    return 200 x;
}";

/// More keys than a megabyte holds.
const MANY: usize = 10_000;

/// Writes files as the server does, of responses without content, with the keys `/0`, `/1` and so on.
fn fill(directory: &Path, count: usize) {
    let levels = Levels::parse(b"1:2").unwrap();
    let mut fields = Fields::new();
    fields.push(b"Content-Type", b"text/html").unwrap();
    let freshness = Freshness { valid_until: i64::from(u32::MAX), ..Freshness::default() };
    for number in 0..count {
        let text = format!("/{number}");
        let head = Head { freshness: freshness.clone(), ..Head::plain(&text, fields.clone()) };
        let (path, bytes) = (directory.join(levels.path(&Key::of(text.as_bytes()))), head.encode().unwrap());
        if fs::write(&path, &bytes).is_err() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
    }
}

fn start(directory: &Path) -> Running {
    Site::new(&CONFIGURATION.replace("CACHE", directory.to_str().unwrap())).start(Server::Fulmar)
}

/// The memory of all processes of a server, in bytes; what they share counts once.
fn memory_bytes(running: &Running) -> u64 {
    let mut processes = Running::children(running.pid());
    processes.push(running.pid());
    let pss = |pid: &Pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix(" kB")?;
        line.parse::<u64>().ok()
    };
    processes.iter().filter_map(pss).sum::<u64>() * 1024
}

/// How many responses the index knows.
fn known(running: &Running) -> usize {
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let metrics = running.ask_bytes(request).last().text();
    let start = "fulmar_cache_objects{zone=\"one\",tier=\"disk\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(start));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

fn status_of(running: &Running, number: usize) -> String {
    let request = format!("GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = client::ask_bytes(running.address(), request.as_bytes()).last().clone();
    response.field("X-Cache").unwrap_or_default().to_owned()
}

/// The memory that the index of a directory takes, in bytes.
fn index_bytes(directory: &Path, count: usize) -> u64 {
    let running = start(&directory.with_extension("empty"));
    status_of(&running, 0);
    let before = memory_bytes(&running);
    running.stop();
    let running = start(directory);
    assert!(wait::until(LIMIT, || known(&running) == count), "{}", known(&running));
    let after = memory_bytes(&running);
    running.stop();
    after.saturating_sub(before)
}

/// How many bytes of its zone nginx needs for a key: so many keys remain of many.
fn nginx_key_bytes() -> u64 {
    let site = Site::new(SMALL_ZONE);
    let running = site.start(Server::Nginx);
    let mut client = Client::connect(running.address());
    for number in 0..MANY {
        assert!(client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()));
        assert_eq!(client.response("GET").map(|response| response.status), Some(200));
    }
    let kept = files_below(&site.prefix().join("cache"));
    running.stop();
    assert!(kept < MANY, "nginx has room for all");
    (1 << 20) / kept as u64
}

fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[test]
#[ignore = "it writes a million files: make cache-million"]
fn a_million_responses() {
    let count = std::env::var("CACHE_OBJECTS").map_or(1_000_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let directory = folder.path().join("cache");
    let started = Instant::now();
    fill(&directory, count);
    eprintln!("{count} files were written in {:.0} s", started.elapsed().as_secs_f32());

    let started = Instant::now();
    let running = start(&directory);
    let numbers = [count - 1, 0, count / 2];
    assert!(numbers.iter().all(|&number| status_of(&running, number) == "HIT"));
    let (served, at) = (started.elapsed(), known(&running));
    assert!(at < count, "the index was full already: nothing is known about the time before");
    assert!(wait::until(LIMIT, || known(&running) == count), "{} are known", known(&running));
    eprintln!("three hits {} ms after the start, when the index knew {at} responses", served.as_millis());
    eprintln!("all were known after {:.1} s", started.elapsed().as_secs_f32());
    running.stop();

    let bytes = index_bytes(&directory, count) / count as u64;
    eprintln!("Fulmar: {bytes} bytes of memory for each response");
    assert!(bytes <= 80, "the manual says 80");
    if have_nginx() {
        let nginx = nginx_key_bytes();
        eprintln!("nginx: {nginx} bytes of its zone");
        assert!(bytes <= nginx);
    }
}
