//! What caches must do by RFC 9111 and the standards that it refers to: Fulmar by both sets of rules, nginx, Apache, Varnish,
//! HAProxy and Squid.

mod fields;
mod storing;
mod using;

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::caching::{Counter, with};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::apache::{Apache, MODULES, have_apache};
use tests::binary::Server;
use tests::client::ask_bytes;
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::response::Response;
use tests::site::Site;
use tests::wait;

/// A requirement, and requests that show whether a cache keeps it.
struct Case {
    section: &'static str,
    /// The word of the requirement, such as MUST; a dash if the standard states it without such a word.
    word: &'static str,
    what: &'static str,
    /// What the upstream server answers to each request that reaches it: a status and fields. The last answer stays.
    answers: &'static [(u16, &'static str)],
    /// A method and fields, or the method `WAIT`.
    asks: &'static [(&'static str, &'static str)],
    /// Looks at the responses.
    holds: fn(&[Seen]) -> bool,
}

/// A response that a client got.
struct Seen {
    status: u16,
    /// The number of the upstream response that the content comes from; 0 for other content.
    from: usize,
    fields: Vec<(String, String)>,
}

impl Seen {
    fn of(response: Option<&Response>) -> Seen {
        let text = response.map(Response::text).unwrap_or_default();
        Seen {
            status: response.map_or(0, |response| response.status),
            from: text.trim_start_matches("from ").parse().unwrap_or(0),
            fields: response.map(|response| response.fields.clone()).unwrap_or_default(),
        }
    }

    /// All lines of a field.
    fn all(&self, name: &str) -> Vec<&str> {
        let is = |field: &&(String, String)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(is).map(|(_, value)| value.as_str()).collect()
    }

    /// The first line of a field.
    fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    fn age(&self) -> Option<i64> {
        self.field("Age")?.parse().ok()
    }

    /// The field of the cases.
    fn name(&self) -> Option<&str> {
        self.field("X-Name")
    }
}

const GET: (&str, &str) = ("GET", "");

/// Fresh for a long time.
const FRESH: (u16, &str) = (200, "Cache-Control: max-age=600");

/// How many seconds `WAIT` and `X-Wait` are.
const WAIT_S: i64 = 2;

fn wait() {
    wait::pause(Duration::from_secs(WAIT_S.unsigned_abs()));
}

/// The second response comes from the other server, too.
fn is_asked_again(seen: &[Seen]) -> bool {
    seen[0].from == 1 && seen[1].from == 2
}

/// The second response comes from the cache.
fn is_kept(seen: &[Seen]) -> bool {
    seen[0].from == 1 && seen[1].from == 1
}

const fn case(
    (section, word): (&'static str, &'static str),
    what: &'static str,
    answers: &'static [(u16, &'static str)],
    asks: &'static [(&'static str, &'static str)],
    holds: fn(&[Seen]) -> bool,
) -> Case {
    Case { section, word, what, answers, asks, holds }
}

/// All requirements, in the order of their sections.
fn cases() -> impl Iterator<Item = &'static Case> {
    storing::CASES.iter().chain(using::CASES).chain(fields::CASES)
}

/// A time so many seconds ago, as HTTP writes it.
fn date(ago_s: u64) -> String {
    httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(ago_s))
}

/// A server whose answers to `/SERVER/CASE` are those of the case.
fn origin() -> Origin {
    let counts: Mutex<HashMap<String, usize>> = Mutex::default();
    Origin::start(move |asked: &Asked| {
        let path = asked.target.split('?').next().unwrap().to_owned();
        let number = {
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(path.clone()).or_default();
            *count += 1;
            *count
        };
        let case: usize = path.rsplit('/').next().unwrap().parse().unwrap();
        let answers = cases().nth(case).unwrap().answers;
        let (status, fields) = answers[(number - 1).min(answers.len() - 1)];
        reply(asked, &path, (status, fields), number)
    })
}

/// An answer to a request, whose content is its number.
fn reply(asked: &Asked, path: &str, (status, fields): (u16, &str), number: usize) -> Reply {
    let text = String::from_utf8_lossy(&asked.text);
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let condition = match (value("if-none-match"), value("if-modified-since")) {
        (Some(_), Some(_)) => "both",
        (Some(_), None) => "etag",
        (None, Some(_)) => "date",
        (None, None) => "none",
    };
    let ago = date(10);
    let mut fields = fields
        .replace("CONDITION", condition)
        .replace("CONTROL", value("cache-control").unwrap_or_default())
        .replace("AGO", &format!("{ago}\r\nX-Ago: {ago}"));
    if let Some(host) = value("x-to") {
        fields += &format!("\r\nLocation: http://{host}{path}\r\nContent-Location: http://{host}{path}");
    }
    if fields.contains("X-Wait:") {
        wait();
    }
    // Squid keeps no response without `Date`.
    if !fields.contains("Date:") {
        fields += &format!("\r\nDate: {}", date(0));
    }
    let has = |name: &str| fields.contains(&format!("{name}:"));
    let is_cut = has("X-Cut") || (status == 200 && fields.contains("Content-Length: 100"));
    let after = if is_cut || has("Connection") { After::Close } else { After::Keep };
    let body = format!("from {number:03}");
    let content = match status {
        304 => "\r\n".to_owned(),
        _ if has("Transfer-Encoding") => {
            let end = if is_cut { "" } else { "0\r\nX-Name: trailer\r\n\r\n" };
            format!("\r\n8\r\n{body}\r\n{end}")
        }
        _ => {
            let length = if has("Content-Length") {
                String::new()
            } else {
                format!("Content-Length: {}\r\n", body.len())
            };
            format!("{length}\r\n{}", if text.starts_with("HEAD ") { "" } else { &body })
        }
    };
    match status {
        0 => raw("", After::Close),
        103 => {
            let last = format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n{content}");
            raw(&format!("HTTP/1.1 103 Said\r\n{fields}\r\n\r\n{last}"), after)
        }
        _ => raw(&format!("HTTP/1.1 {status} Said\r\n{fields}\r\n{content}"), after),
    }
}

fn site(origin: &Origin, rules: &str) -> Site {
    let port = origin.address().port();
    Site::new(&format!(
        "proxy_cache_path %%LOGS%%/cache keys_zone=one:1m;
         server {{
             listen 127.0.0.1:%%PORT%%;
             location / {{
                 proxy_pass http://127.0.0.1:{port};
                 proxy_cache one;
                 proxy_cache_use_stale error timeout http_500;
                 proxy_cache_convert_head off;
                 gzip on;
                 gzip_min_length 1;
                 {rules}
             }}
         }}"
    ))
}

/// Whether a server keeps each requirement.
fn results(address: SocketAddr, name: &str) -> Vec<bool> {
    let ask = |case: usize, (method, fields): &(&str, &str)| {
        let target = format!("/{name}/{case}{}", if fields.contains("QUERY") { "?a" } else { "" });
        let fields = fields.replace("QUERY\r\n", "").replace("QUERY", "").replace("NOW", &date(0));
        let host = if fields.contains("Host:") { "" } else { "Host: a\r\n" };
        let fields = if fields.is_empty() { fields } else { format!("{fields}\r\n") };
        let request = format!("{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{fields}\r\n");
        Seen::of(ask_bytes(address, request.as_bytes()).responses.last())
    };
    let holds = |(number, case): (usize, &Case)| {
        let mut seen = Vec::new();
        for one in case.asks {
            match one.0 {
                "WAIT" => wait(),
                _ => seen.push(ask(number, one)),
            }
        }
        (case.holds)(&seen)
    };
    cases().enumerate().map(holds).collect()
}

/// Apache with its cache on disk.
fn apache(origin: &Origin) -> (Site, Apache) {
    let site = Site::new("");
    let directory = site.prefix().join("kept");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let load = |name: &str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let loads = ["proxy_http", "cache", "cache_disk", "filter", "deflate"].map(load).concat();
    let more = format!(
        "{loads}AddOutputFilterByType DEFLATE text/html\nCacheRoot {}\nCacheEnable disk /\nProxyPass / http://{}/ retry=0\n",
        directory.display(),
        origin.address()
    );
    let apache = Apache::start_with(&site, &more);
    (site, apache)
}

/// Another cache, ended when dropped.
pub(super) struct Peer {
    child: Child,
    pub(super) address: SocketAddr,
    _directory: TempDir,
}

impl Peer {
    pub(super) fn varnish(origin: &Origin) -> Peer {
        Peer::start("varnishd", |directory, address| {
            let (address, origin) = (address.to_string(), origin.address().to_string());
            let directory = directory.display().to_string();
            ["-F", "-n", &directory, "-a", &address, "-b", &origin, "-s", "malloc,16m"]
                .map(str::to_owned)
                .into()
        })
    }

    /// HAProxy with its largest lifetime for responses without one, and with `Vary`.
    fn haproxy(origin: &Origin) -> Peer {
        Peer::start("haproxy", |directory, address| {
            let file = directory.join("haproxy.cfg");
            let text = format!(
                "defaults
                     mode http
                     timeout connect 5s
                     timeout client 30s
                     timeout server 30s
                 cache kept
                     total-max-size 16
                     max-age 3600
                     process-vary on
                 listen all
                     bind {address}
                     http-request cache-use kept
                     http-response cache-store kept
                     server origin {}\n",
                origin.address()
            );
            fs::write(&file, text).unwrap();
            vec!["-db".to_owned(), "-f".to_owned(), file.display().to_string()]
        })
    }

    /// Squid as an accelerator, with its cache in memory.
    fn squid(origin: &Origin) -> Peer {
        Peer::start("squid", |directory, address| {
            let file = directory.join("squid.conf");
            let port = origin.address().port();
            let text = format!(
                "http_port {address} accel vhost
                 cache_peer 127.0.0.1 parent {port} 0 no-query no-digest originserver name=origin
                 cache_peer_access origin allow all
                 http_access allow all
                 cache_mem 16 MB
                 access_log none
                 cache_log /dev/null
                 pid_filename none
                 pinger_enable off
                 netdb_filename none
                 shutdown_lifetime 0 seconds
                 visible_hostname squid\n"
            );
            fs::write(&file, text).unwrap();
            vec!["-N".to_owned(), "-f".to_owned(), file.display().to_string()]
        })
    }

    fn start(program: &str, arguments: impl FnOnce(&Path, SocketAddr) -> Vec<String>) -> Peer {
        let directory = TempDir::with_prefix("cache-").unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(program);
        command.args(arguments(directory.path(), address));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let peer = Peer { child, address, _directory: directory };
        assert!(wait::until(Duration::from_secs(30), || TcpStream::connect(address).is_ok()));
        peer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Each ends its own child.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

const HEADING: &str =
    "| section | | requirement | Fulmar, `rfc9111` | Fulmar, `nginx` | nginx | Apache | Varnish | HAProxy | Squid |
|---|---|---|---|---|---|---|---|---|---|
";

/// The rows of the table in the manual, as far as these results go.
fn rows(all: &[Vec<bool>]) -> Vec<String> {
    let row = |(number, case): (usize, &Case)| {
        let Case { section, word, what, .. } = case;
        let words: String =
            all.iter().map(|results| if results[number] { " yes |" } else { " no |" }).collect();
        format!("| {section} | {word} | {what} |{words}")
    };
    cases().enumerate().map(row).collect()
}

/// The rows of the table in the manual.
fn written() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/caching.md");
    let text = fs::read_to_string(page).unwrap();
    let table = text.split_once(HEADING).expect("docs/caching.md has the table").1;
    table.lines().take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

/// The results of Fulmar, nginx and Apache.
fn usual_results(origin: &Origin) -> Vec<Vec<bool>> {
    let run = |server: Server, rules: &str, name: &str| {
        let running = site(origin, rules).start(server);
        let found = results(running.address(), name);
        running.stop();
        found
    };
    let all: Vec<Vec<bool>> = thread::scope(|scope| {
        let mut running = vec![
            scope.spawn(|| run(Server::Fulmar, "proxy_cache_rules rfc9111;", "strict")),
            scope.spawn(|| run(Server::Fulmar, "", "usual")),
            scope.spawn(|| run(Server::Nginx, "", "nginx")),
        ];
        if have_apache() {
            running.push(scope.spawn(|| {
                let (_site, apache) = apache(origin);
                results(apache.address(), "apache")
            }));
        }
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let broken: Vec<String> = cases()
        .zip(&all[0])
        .filter(|(case, holds)| !**holds && case.word.starts_with("MUST"))
        .map(|(case, _)| format!("section {}: {} {}", case.section, case.word, case.what))
        .collect();
    assert!(broken.is_empty(), "Fulmar does not keep:\n{}", broken.join("\n"));
    all
}

fn compare(all: &[Vec<bool>]) {
    let (rows, written) = (rows(all), written());
    let agree = rows.len() == written.len()
        && rows.iter().zip(&written).all(|(row, written)| written.starts_with(row.as_str()));
    assert!(agree, "docs/caching.md has to have this table:\n{HEADING}{}", rows.join("\n"));
}

#[test]
fn the_manual_says_which_requirements_of_rfc_9111_are_kept() {
    compare(&usual_results(&origin()));
}

/// The same with Varnish, HAProxy and Squid (`make cache-rules`).
#[test]
#[ignore = "it needs Varnish, HAProxy and Squid"]
fn the_manual_says_which_requirements_other_caches_keep() {
    let origin = origin();
    let mut all = usual_results(&origin);
    let peers = [Peer::varnish(&origin), Peer::haproxy(&origin), Peer::squid(&origin)];
    all.extend(thread::scope(|scope| {
        let names = ["varnish", "haproxy", "squid"];
        let running = names.iter().zip(&peers);
        let running: Vec<_> =
            running.map(|(name, peer)| scope.spawn(|| results(peer.address, name))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    }));
    compare(&all);
}

#[test]
fn cache_status_says_why_a_request_was_forwarded() {
    let counter = Counter::start(|asked, _| {
        let age = if asked.target == "/old" { 900 } else { 0 };
        let fields = format!("Cache-Control: max-age=600\r\nAge: {age}\r\nETag: \"a\"\r\nVary: X-Kind");
        raw(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 0\r\n\r\n"), After::Keep)
    });
    let settings = "proxy_cache_rules rfc9111; proxy_cache_bypass $http_x_bypass; cache_status Fulmar;";
    let running = counter.site(&with(settings)).start(Server::Fulmar);
    let ask = |target: &str, field: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n\r\n");
        running.ask_bytes(request.as_bytes()).last().clone()
    };
    for (target, field, reason) in [
        ("/", "X-A: b", "uri-miss"),
        ("/", "X-Kind: a", "vary-miss"),
        ("/", "Cache-Control: no-cache", "request"),
        ("/", "X-Bypass: 1", "bypass"),
        ("/old", "X-A: b", "uri-miss"),
        ("/old", "X-A: b", "stale"),
    ] {
        let expected = format!("Fulmar; fwd={reason}; fwd-status=200; stored");
        assert_eq!(ask(target, field).field("Cache-Status"), Some(&*expected), "{target} {field}");
    }
    let hit = ask("/", "X-A: b");
    let left: i64 =
        hit.field("Cache-Status").unwrap().strip_prefix("Fulmar; hit; ttl=").unwrap().parse().unwrap();
    let age: i64 = hit.field("Age").unwrap().parse().unwrap();
    assert_eq!(left + age, 600);
    running.stop();
}
