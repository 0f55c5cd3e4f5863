//! `open_file_cache`: files change while what is known of them counts, and after.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::site::Site;
use tests::wait::pause;

/// How long it may take until a change is seen that counts for a second.
const LIMIT: Duration = Duration::from_secs(30);

/// What happens between requests.
enum Act {
    /// Each file is replaced by another one with these bytes, or comes to exist.
    Replace(&'static [&'static str], &'static str),
    Remove(&'static [&'static str]),
    MakeDirectory(&'static [&'static str]),
    Ask(&'static [&'static str]),
    /// What is kept for a second is looked at again: the answers become others, and the same.
    Change(&'static [&'static str]),
}

fn site() -> Site {
    Site::new(
        r#"
        open_file_cache max=100 inactive=1h;
        open_file_cache_valid 1h;
        types { text/plain txt; text/html html; }
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            keepalive_requests 10000;
            location /off/ { open_file_cache off; }
            location /short/ { open_file_cache_valid 1s; }
            location /errors/ { open_file_cache_errors on; }
            location /again/ { open_file_cache_errors on; open_file_cache_valid 1s; }
            location /seldom/ { open_file_cache_min_uses 3; }
            location /few/ { open_file_cache max=2; }
            location /tries/ { open_file_cache_errors on; try_files $uri $uri.txt =403; }
            location /if/ { if (-f $request_filename) { return 200 file; } return 200 none; }
        }
        "#,
    )
}

fn perform(root: &Path, act: &Act) {
    match act {
        Act::Replace(names, text) => {
            for name in *names {
                let (path, other) = (root.join(name), root.join("other"));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&other, text).unwrap();
                // The name of the state is not to depend on when it was made.
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + text.len() as u64);
                let times = FileTimes::new().set_modified(time);
                File::options().write(true).open(&other).unwrap().set_times(times).unwrap();
                fs::rename(other, path).unwrap();
            }
        }
        Act::Remove(names) => names.iter().for_each(|name| fs::remove_file(root.join(name)).unwrap()),
        Act::MakeDirectory(names) => names.iter().for_each(|name| fs::create_dir(root.join(name)).unwrap()),
        Act::Ask(_) | Act::Change(_) => {}
    }
}

/// One connection, so that all requests come to one thread.
fn ask(client: &mut Client, request: &str) -> String {
    let answer = client.exchange(request).unwrap_or_else(|| panic!("no answer to {request}"));
    let fields = ["Content-Length", "Content-Type", "ETag", "Last-Modified", "Content-Range"];
    let fields: Vec<_> = fields.iter().map(|name| answer.field(name).unwrap_or("-")).collect();
    let is_page = answer.status >= 300;
    let shown = if is_page { String::new() } else { format!("{} {}", fields.join(" | "), answer.text()) };
    format!("{} {shown}", answer.status)
}

#[track_caller]
fn agree(acts: &[Act]) {
    if !have_nginx() {
        return;
    }
    let site = site();
    let servers = [site.start(Server::Nginx), site.start(Server::Fulmar)];
    let mut clients = servers.each_ref().map(|server| server.connect());
    let mut before = HashMap::new();
    for (step, act) in acts.iter().enumerate() {
        perform(&site.root(), act);
        let (requests, is_change) = match act {
            Act::Ask(requests) => (requests, false),
            Act::Change(requests) => (requests, true),
            _ => continue,
        };
        for request in *requests {
            let known = before.get(request).filter(|_| is_change).cloned();
            let [nginx, fulmar] = clients.each_mut().map(|client| ask_until(client, request, known.as_ref()));
            assert_eq!(nginx, fulmar, "step {step}: {request}");
            before.insert(*request, nginx);
        }
    }
}

/// The first answer that is not the one that is known.
fn ask_until(client: &mut Client, request: &str, known: Option<&String>) -> String {
    let started = Instant::now();
    loop {
        let answer = ask(client, request);
        if known != Some(&answer) {
            return answer;
        }
        assert!(started.elapsed() < LIMIT, "{request} stays {answer}");
        pause(Duration::from_millis(50));
    }
}

#[test]
fn replaced_and_removed() {
    use Act::{Ask, Change, MakeDirectory, Remove, Replace};
    const FILES: &[&str] =
        &["a.txt", "off/a.txt", "short/a.txt", "errors/a.txt", "seldom/a.txt", "again/a.txt"];
    const GETS: &[&str] =
        &["GET /a.txt", "GET /off/a.txt", "GET /errors/a.txt", "GET /seldom/a.txt", "HEAD /a.txt"];
    const SHORT: &[&str] = &["GET /short/a.txt", "GET /again/a.txt"];
    agree(&[
        Replace(FILES, "one"),
        Ask(GETS),
        Ask(SHORT),
        Replace(FILES, "other"),
        Ask(GETS),
        Change(SHORT),
        Ask(GETS),
        Replace(FILES, "the third"),
        Ask(GETS),
        Change(SHORT),
        Replace(FILES, "and a fourth one"),
        Ask(GETS),
        Ask(&["GET /a.txt\nRange: bytes=1-2", "GET /a.txt\nRange: bytes=90-"]),
        Ask(&["GET /a.txt\nIf-Modified-Since: Sun, 09 Sep 2001 01:46:43 GMT", "POST /a.txt"]),
        Remove(FILES),
        Ask(GETS),
        Change(SHORT),
        MakeDirectory(FILES),
        Ask(GETS),
        Change(SHORT),
    ]);
}

#[test]
fn what_is_not_there() {
    use Act::{Ask, Change, Remove, Replace};
    const FILES: &[&str] =
        &["errors/b.txt", "again/b.txt", "b.txt", "tries/b.txt", "if/b.txt", "d/index.html"];
    const GETS: &[&str] =
        &["GET /errors/b.txt", "GET /b.txt", "GET /tries/b", "GET /tries/b.txt", "GET /if/b.txt", "GET /d/"];
    const SHORT: &[&str] = &["GET /again/b.txt"];
    agree(&[
        Replace(&["errors/x", "again/x", "tries/x", "if/x", "d/x"], "x"),
        Ask(GETS),
        Ask(SHORT),
        Replace(FILES, "found"),
        Ask(GETS),
        Change(SHORT),
        Ask(GETS),
        Remove(FILES),
        Ask(GETS),
        Change(SHORT),
        Replace(FILES, "found again"),
        Ask(GETS),
        Change(SHORT),
    ]);
}

#[test]
fn the_least_used_goes_first() {
    use Act::{Ask, Replace};
    const FILES: &[&str] = &["few/1.txt", "few/2.txt", "few/3.txt"];
    const ALL: &[&str] = &["GET /few/1.txt", "GET /few/2.txt", "GET /few/1.txt", "GET /few/3.txt"];
    agree(&[
        Replace(FILES, "one"),
        Ask(ALL),
        Replace(FILES, "other"),
        Ask(&["GET /few/1.txt", "GET /few/3.txt", "GET /few/2.txt", "GET /few/3.txt", "GET /few/1.txt"]),
    ]);
}
