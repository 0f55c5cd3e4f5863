//! What befalls a cache while it serves: files that vanish, full disks, reloads, other servers. Each content carries its
//! own digest, so that a wrong byte shows.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Signal, kill_process};
use rustls::{ServerConfig, ServerConnection};
use tests::binary::{Server, have_nginx};
use tests::origin::{After, Asked, Reply};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::tls::{Kind, certificate, server_config};
use tests::{wait, worker};

use super::caching::{Counter, LIMIT, Small, files, get, only_file, with};
use super::following::{Origin, Reader, head};

/// A content of this length for a target, which starts with the digest of the rest.
fn content(target: &str, number: usize, length: usize) -> String {
    let line = format!("{target} {number}\n");
    let text = line.repeat(length / line.len() + 1);
    format!("{:08x}\n{text}", digest(text.as_bytes()))
}

fn digest(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// The number of a content that is whole and is the one of its target; panics if it is not.
pub(super) fn number_of(target: &str, response: &Response) -> usize {
    assert_eq!((response.status, response.broken), (200, None), "{target}: {response}");
    let text = response.text();
    let (sum, rest) = text.split_once('\n').unwrap();
    assert_eq!(format!("{:08x}", digest(rest.as_bytes())), sum, "{target}: {response}");
    let number = rest.lines().next().unwrap().strip_prefix(&format!("{target} "));
    number.unwrap_or_else(|| panic!("{target}: {response}")).parse().unwrap()
}

/// Answers with a content whose length depends on the target.
pub(super) fn digested(asked: &Asked, number: usize) -> Reply {
    let long = asked.target.strip_prefix("/long").and_then(|rest| rest.split('-').next()?.parse().ok());
    let body = content(&asked.target, number, long.unwrap_or(200));
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", body.len());
    ([head, body].concat().into_bytes(), After::Keep)
}

fn status(response: &Response) -> &str {
    response.field("X-Cache").unwrap_or_default()
}

#[test]
fn a_file_that_vanishes_or_is_cut_off_while_it_is_sent() {
    let target = format!("/long{}", 24 << 20);
    let counter = Counter::start(digested);
    let running = counter.site(&with("")).start(Server::Fulmar);
    assert_eq!(number_of(&target, &get(&running, &target)), 1);
    let ask = || {
        let mut client = running.connect();
        client.extend(LIMIT);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(client.read_some(1000) > 0);
        client
    };
    let mut client = ask();
    fs::remove_file(only_file(&running)).unwrap();
    assert_eq!(number_of(&target, &client.response("GET").unwrap()), 1, "the file is open");
    assert_eq!(number_of(&target, &get(&running, &target)), 2);
    let mut client = ask();
    File::options().write(true).open(only_file(&running)).unwrap().set_len(5000).unwrap();
    assert!(client.closes_within(LIMIT));
    let received = String::from_utf8_lossy(client.rest()).into_owned();
    let received = received.split_once("\r\n\r\n").unwrap().1;
    let whole = content(&target, 2, 24 << 20);
    assert!(received.len() < whole.len() && whole.starts_with(received), "what came is right");
    // The open file of an object that is asked for often is looked at once in a while.
    let is_new = || {
        let again = get(&running, &target);
        again.broken.is_none() && number_of(&target, &again) == 3
    };
    assert!(wait::until(LIMIT, is_new));
    running.stop_alerted();
}

#[test]
fn a_full_disk_cuts_no_client_that_reads_along() {
    const LENGTH: usize = 3_000_000;
    let origin = Origin::start();
    let site = origin.page();
    let Some(_small) = Small::mount(site.logs(Server::Fulmar).join("cache"), "128k") else {
        eprintln!("not run: file systems cannot be mounted here");
        return;
    };
    let running = site.start(Server::Fulmar);
    let text = content("/a", 1, LENGTH);
    let (start, rest) = text.split_at(5000);
    let mut first = Reader::ask(&running, "");
    origin.send(&head(&format!("Content-Length: {}", text.len())));
    origin.send(start.as_bytes());
    first.wait_for(start);
    let mut readers: Vec<Reader> = (0..3).map(|_| Reader::ask(&running, "")).collect();
    readers.iter_mut().for_each(|reader| reader.wait_for(start));
    let left = Reader::ask(&running, "");
    let range = Reader::ask(&running, "Range: bytes=2000000-2000009\r\n");
    // It has its head, and so reads along.
    let mut range = range;
    range.wait_for("2000000-2000009");
    drop(left);
    readers.push(first);
    thread::scope(|scope| {
        let all: Vec<_> = readers.into_iter().map(|reader| scope.spawn(move || reader.rest())).collect();
        origin.send(rest.as_bytes());
        for reader in all {
            let received = reader.join().unwrap();
            assert!(received.split_once("\r\n\r\n").unwrap().1 == text, "{} bytes", received.len());
        }
    });
    assert!(range.rest().ends_with(&text[2_000_000..2_000_010]));
    assert!(running.log("error.log").contains("a response cannot be kept"));
    assert_eq!(origin.count(), 1);
    running.stop_alerted();
}

/// The files of short responses have no temporary name: what a worker leaves of one must be recognised.
#[test]
fn a_worker_that_is_killed_while_it_writes_short_responses() {
    const RESPONSES: usize = 400;
    let rounds = std::env::var("CACHE_KILLS").map_or(5, |rounds| rounds.parse().unwrap());
    let counter = Counter::start(digested);
    let running = counter.site(&with("")).start(Server::Fulmar);
    for round in 0..rounds {
        let targets: Vec<String> = (0..RESPONSES).map(|number| format!("/{round}-{number}")).collect();
        let requests = targets.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let before = counter.count();
        let mut client = running.connect();
        client.send(requests.collect::<String>().as_bytes());
        counter.wait_for(before + RESPONSES / 4 + round % 100);
        for worker in Running::children(running.pid()) {
            kill_process(worker, Signal::KILL).unwrap();
        }
        drop(client);
        assert!(wait::until(LIMIT, || Running::children(running.pid()).len() == 1));
        for target in &targets {
            number_of(target, &get(&running, target));
        }
        // The first file of a directory has a temporary name, which the next worker may still have to remove.
        let all = || files(&running.log_path("cache"));
        assert!(wait::until(LIMIT, || all().len() == RESPONSES), "{:?}", all());
        // The zone has no room for the responses of all rounds.
        all().iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    running.stop_alerted();
}

/// Asks for the targets again and again until the test ends; returns how many responses came.
fn ask_all(running: &Running, targets: &[String], is_over: &AtomicBool) -> usize {
    let mut count = 0;
    while !is_over.load(Ordering::SeqCst) {
        for target in targets {
            number_of(target, &get(running, target));
            count += 1;
        }
    }
    count
}

#[test]
fn no_wrong_byte_comes_through_a_hundred_reloads_with_other_sizes() {
    let counter = Counter::start(digested);
    let port = counter.origin.address().port().to_string();
    let text = |round: usize| {
        let (keys, memory) = (32 + 8 * (round % 5), 16 * (round % 3));
        let path = format!(
            "proxy_cache_path %%LOGS%%/cache levels=1:2 keys_zone=one:{keys}k memory={memory}k max_size={}k;",
            400 + 100 * (round % 4)
        );
        format!("{path} {}", with("proxy_cache_lock on;").replace("ORIGIN", &port))
    };
    let site = Site::new(&text(0));
    let running = site.start(Server::Fulmar);
    let mut targets: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
    targets.push("/long100000".to_owned());
    let is_over = AtomicBool::new(false);
    let before = worker::descriptors(worker::of(&running));
    let asked = thread::scope(|scope| {
        let clients = [(); 2].map(|()| scope.spawn(|| ask_all(&running, &targets, &is_over)));
        for round in 1..=100 {
            running.rewrite(&text(round));
            let reload = site.command(Server::Fulmar).args(["-s", "reload"]).output().unwrap();
            assert!(reload.status.success(), "{}", String::from_utf8_lossy(&reload.stderr));
        }
        is_over.store(true, Ordering::SeqCst);
        clients.map(|client| client.join().unwrap()).into_iter().sum::<usize>()
    });
    assert!(asked >= 100, "{asked} responses");
    // What a past configuration kept open is closed when it ends.
    let process = worker::of(&running);
    let is_closed = || worker::descriptors(process) <= before + 30;
    assert!(wait::until(LIMIT, is_closed), "{} descriptors, {before} before", worker::descriptors(process));
    running.stop();
}

#[test]
fn two_servers_use_one_directory() {
    let counter = Counter::start(digested);
    let purges = "proxy_cache_purge $purges; proxy_cache_lock on;";
    let text = format!("map $request_method $purges {{ PURGE 1; default 0; }} {}", with(purges));
    let first = counter.site(&text).start(Server::Fulmar);
    let kept = get(&first, "/a");
    assert_eq!((status(&kept), number_of("/a", &kept)), ("MISS", 1));
    let directory = first.log_path("cache").display().to_string();
    let port = counter.origin.address().port().to_string();
    let path = format!("proxy_cache_path {directory} levels=1:2 keys_zone=one:1m;");
    let second = Site::new(&format!("{path} {}", text.replace("ORIGIN", &port))).start(Server::Fulmar);
    let found = get(&second, "/a");
    assert_eq!((status(&found), number_of("/a", &found)), ("HIT", 1), "it finds what was there before it");
    (0..3).for_each(|_| drop(get(&second, "/a")));
    // Both write the same files at the same time.
    let targets: Vec<String> = (0..30).map(|number| format!("/long{}", 1000 * number)).collect();
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        for running in [&first, &second, &first, &second] {
            scope.spawn(|| {
                for target in &targets {
                    (0..3).for_each(|_| {
                        number_of(target, &get(running, target));
                    });
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(rounds.load(Ordering::SeqCst), 4 * targets.len());
    let purged = first.ask_bytes(b"PURGE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(purged.last().status, 204);
    let is_new = || number_of("/a", &get(&second, "/a")) > 1;
    assert!(wait::until(LIMIT, is_new), "the other server notices");
    // A server that is killed leaves the files of the other one alone.
    second.signal(Signal::TERM);
    assert_eq!(status(&get(&first, &targets[0])), "HIT");
    first.stop();
}

/// One byte after the other of a file is changed while the server runs: no request gets the changed content.
#[test]
fn a_byte_that_changes_while_the_server_runs_is_never_sent() {
    let counter = Counter::start(digested);
    let running = without_memory(&counter).start(Server::Fulmar);
    for (target, step) in [("/short", 29), ("/long100000", 20_011)] {
        let path = kept_file(&running, target);
        for at in (0..length(&path)).step_by(step) {
            change_byte(&path, at);
            let before = counter.count();
            assert_eq!(number_of(target, &get(&running, target)), before + 1, "{target}: byte {at}");
            assert_eq!(status(&get(&running, target)), "HIT", "{target}: byte {at}");
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(running.log("error.log").contains("is damaged, or of another format, and is removed"));
    running.stop_alerted();
}

#[test]
fn a_byte_that_changes_between_two_starts_is_never_sent() {
    let counter = Counter::start(digested);
    let site = without_memory(&counter);
    for (target, at) in [("/short", 5), ("/short", 250), ("/long100000", 500), ("/long100000", 99_000)] {
        let running = site.start(Server::Fulmar);
        let path = kept_file(&running, target);
        running.stop();
        change_byte(&path, at);
        let running = site.start(Server::Fulmar);
        let before = counter.count();
        assert_eq!(number_of(target, &get(&running, target)), before + 1, "{target}: byte {at}");
        fs::remove_file(&path).unwrap();
        running.stop_alerted();
    }
}

/// A site where each request reads the file.
fn without_memory(counter: &Counter) -> Site {
    let mut text = with("").replace("proxy_cache one", "proxy_cache none");
    text.insert_str(0, "proxy_cache_path %%LOGS%%/none keys_zone=none:1m memory=0; ");
    counter.site(&text)
}

/// Has a response kept, and returns its file.
fn kept_file(running: &Running, target: &str) -> PathBuf {
    get(running, target);
    assert_eq!(status(&get(running, target)), "HIT");
    files(&running.log_path("none")).remove(0)
}

fn length(path: &Path) -> usize {
    usize::try_from(fs::metadata(path).unwrap().len()).unwrap()
}

/// Changes a byte, at a time that the file system tells from the one before.
fn change_byte(path: &Path, at: usize) {
    let changed = || fs::metadata(path).map(|file| (file.ctime(), file.ctime_nsec())).unwrap();
    let (before, mut bytes) = (changed(), fs::read(path).unwrap());
    bytes[at] ^= 0x10;
    let file = File::options().write(true).open(path).unwrap();
    while changed() == before {
        file.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
}

/// Answers over TLS without a length, and closes the connection, with `close_notify` only for `/good`.
fn answer_until_close(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    count: &AtomicUsize,
) -> io::Result<()> {
    let mut session = ServerConnection::new(config).expect("a server");
    let mut request = [0; 4096];
    let length = rustls::Stream::new(&mut session, &mut stream).read(&mut request)?;
    let number = count.fetch_add(1, Ordering::SeqCst) + 1;
    let is_good = request[..length].starts_with(b"GET /good");
    let text = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\r\nnumber {number}");
    session.writer().write_all(text.as_bytes())?;
    if is_good {
        session.send_close_notify();
    }
    while session.wants_write() {
        session.write_tls(&mut stream)?;
    }
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut request)? > 0 {}
    Ok(())
}

#[test]
fn what_may_have_been_cut_off_under_tls_is_sent_and_not_kept() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let config = server_config(&certificate("origin.example", Kind::Ecdsa));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, count) = (Arc::clone(&config), Arc::clone(&counted));
            thread::spawn(move || answer_until_close(stream, config, &count));
        }
    });
    let site = Site::new(&format!(
        "proxy_cache_path %%LOGS%%/cache keys_zone=one:1m;
         server {{
             listen 127.0.0.1:%%PORT%%;
             add_header X-Cache $upstream_cache_status always;
             location / {{ proxy_pass https://{address}; proxy_cache one; }}
             location /stored/ {{
                 proxy_pass https://{address}/;
                 proxy_store %%LOGS%%/stored/$request_id;
             }}
         }}"
    ));
    let ask = |running: &Running, target: &str| {
        let response = get(running, target);
        assert_eq!((response.status, response.broken), (200, None), "{response}");
        (status(&response).to_owned(), response.text())
    };
    if have_nginx() {
        // nginx keeps both.
        let running = site.start(Server::Nginx);
        let statuses = ["/good", "/good", "/cut", "/cut"].map(|target| ask(&running, target).0);
        assert_eq!(statuses, ["MISS", "HIT", "MISS", "HIT"]);
        running.stop_and(|_| ());
        count.store(0, Ordering::SeqCst);
    }
    let running = site.start(Server::Fulmar);
    let ask = |target: &str| ask(&running, target);
    let pair = |status: &str, number: usize| (status.to_owned(), format!("number {number}"));
    assert_eq!([ask("/good"), ask("/good")], [pair("MISS", 1), pair("HIT", 1)]);
    assert_eq!([ask("/cut"), ask("/cut")], [pair("MISS", 2), pair("MISS", 3)]);
    assert_eq!(files(&running.log_path("cache")).len(), 1);
    ask("/stored/cut");
    ask("/stored/good");
    let stored = || files(&running.log_path("stored"));
    assert!(wait::until(LIMIT, || !stored().is_empty()));
    let contents: Vec<String> = stored().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(contents, ["number 5"], "only the whole one");
    running.stop();
}
