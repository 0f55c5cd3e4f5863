//! What caches must do by RFC 9111, RFC 9213 and RFC 5861: Fulmar by both sets of rules, nginx, Apache, Varnish and HAProxy.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::apache::{Apache, MODULES, have_apache};
use tests::binary::Server;
use tests::client::ask_bytes;
use tests::origin::{After, Asked, Origin, raw};
use tests::site::Site;
use tests::wait;

/// A requirement, and requests that show whether a cache keeps it.
struct Case {
    section: &'static str,
    /// The word of the requirement, such as MUST; a dash if the standard states it without such a word.
    word: &'static str,
    what: &'static str,
    /// What the other server answers to each request that reaches it: a status and fields. The last one stays.
    answers: &'static [(u16, &'static str)],
    /// A method and fields.
    asks: &'static [(&'static str, &'static str)],
    /// Looks at the responses.
    holds: fn(&[Seen]) -> bool,
}

/// A response that a client got.
struct Seen {
    status: u16,
    /// The number of the upstream response that the content comes from; 0 for other content.
    from: usize,
    /// The field `Age`.
    age: Option<i64>,
    /// The field `X-Name`.
    name: Option<String>,
    /// Whether there is the field `Proxy-Authenticate`.
    is_for_proxy: bool,
}

const GET: (&str, &str) = ("GET", "");

/// Fresh for a long time.
const FRESH: (u16, &str) = (200, "Cache-Control: max-age=600");

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
const CASES: &[Case] = &[
    case(
        ("3", "MUST NOT"),
        "keep a response with `no-store`",
        &[(200, "Cache-Control: no-store, max-age=600")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("3", "MUST NOT"),
        "keep a response with `private`",
        &[(200, "Cache-Control: private, max-age=600")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("3", "MUST NOT"),
        "keep a response with `must-understand` and an unknown status",
        &[(299, "Cache-Control: max-age=600, must-understand")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("3", "MUST NOT"),
        "keep the response to a request with an unknown method",
        &[FRESH],
        &[("BREW", "Content-Length: 0"), ("BREW", "Content-Length: 0"), GET],
        |seen| seen[1].from != 1 && seen[2].from != 1,
    ),
    case(
        ("3.1", "MUST"),
        "keep headers that it does not know",
        &[(200, "Cache-Control: max-age=600\r\nX-Name: a")],
        &[GET, GET],
        |seen| is_kept(seen) && seen[1].name.as_deref() == Some("a"),
    ),
    case(
        ("3.1", "MUST NOT"),
        "keep headers that are for a proxy, such as `Proxy-Authenticate`",
        &[(200, "Cache-Control: max-age=600\r\nProxy-Authenticate: Basic")],
        &[GET, GET],
        |seen| seen[1].from == 2 || !seen[1].is_for_proxy,
    ),
    case(
        ("3.1", "MUST NOT"),
        "keep headers that `Connection` names",
        &[(200, "Cache-Control: max-age=600\r\nConnection: X-Name\r\nX-Name: a")],
        &[GET, GET],
        |seen| is_kept(seen) && seen[1].name.is_none(),
    ),
    case(
        ("3.2", "MUST"),
        "replace the kept headers with those of a 304",
        &[
            (200, "Cache-Control: max-age=1\r\nAge: 9\r\nETag: \"a\"\r\nX-Name: old"),
            (304, "Cache-Control: max-age=600\r\nETag: \"a\"\r\nX-Name: new"),
        ],
        &[GET, GET, GET],
        |seen| {
            seen[1..]
                .iter()
                .all(|one| one.status == 200 && one.from == 1 && one.name.as_deref() == Some("new"))
        },
    ),
    case(
        ("3.3", "MUST NOT"),
        "use a part of a response as if it were the whole",
        &[(206, "Cache-Control: max-age=600\r\nContent-Range: bytes 0-7/100")],
        &[GET, GET],
        |seen| seen[1].from == 2,
    ),
    case(
        ("3.5", "MUST NOT"),
        "use the response to a request with `Authorization` for other requests",
        &[FRESH],
        &[("GET", "Authorization: Basic YTpi"), GET],
        is_asked_again,
    ),
    case(
        ("3.5", "MAY"),
        "use it if it has `public`",
        &[(200, "Cache-Control: public, max-age=600")],
        &[("GET", "Authorization: Basic YTpi"), GET],
        is_kept,
    ),
    case(
        ("4", "MUST NOT"),
        "use a response with `no-cache` without revalidation",
        &[(200, "Cache-Control: no-cache, max-age=600\r\nETag: \"a\"")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("4", "MUST NOT"),
        "answer a request with an unsafe method from the cache",
        &[FRESH],
        &[GET, ("POST", "Content-Length: 0")],
        is_asked_again,
    ),
    case(
        ("4", "MUST"),
        "send `Age` with a kept response that was not revalidated",
        &[FRESH],
        &[GET; 5],
        |seen| seen[1..].iter().all(|one| one.from == 1 && one.age.is_some()),
    ),
    case(
        ("4.1", "MUST NOT"),
        "use a response if a header that its `Vary` names differs",
        &[(200, "Cache-Control: max-age=600\r\nVary: X-Kind")],
        &[("GET", "X-Kind: a"), ("GET", "X-Kind: b")],
        is_asked_again,
    ),
    case(
        ("4.1", "MUST NOT"),
        "use it if only one of the two requests has this header",
        &[(200, "Cache-Control: max-age=600\r\nVary: X-Kind")],
        &[GET, ("GET", "X-Kind: a")],
        is_asked_again,
    ),
    case(
        ("4.1", "MAY"),
        "keep several responses that differ in such a header",
        &[(200, "Cache-Control: max-age=600\r\nVary: X-Kind")],
        &[("GET", "X-Kind: a"), ("GET", "X-Kind: b"), ("GET", "X-Kind: a"), ("GET", "X-Kind: b")],
        |seen| seen.iter().map(|one| one.from).eq([1, 2, 1, 2]),
    ),
    case(
        ("4.1", "MUST NOT"),
        "use a response with `Vary: *`",
        &[(200, "Cache-Control: max-age=600\r\nVary: *")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("4.2.1", "–"),
        "prefer `s-maxage` to `max-age`",
        &[(200, "Cache-Control: s-maxage=600, max-age=0")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("4.2.2", "MUST NOT"),
        "guess a lifetime if the response states one",
        &[(200, "Expires: Tue, 02 Jan 2024 03:04:05 GMT\r\nLast-Modified: Tue, 02 Jan 2001 03:04:05 GMT")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("4.2.3", "MUST"),
        "subtract the `Age` of a response from its lifetime",
        &[(200, "Cache-Control: max-age=60\r\nAge: 100\r\nETag: \"a\"")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("4.2.3", "MUST"),
        "subtract the time since `Date` from its lifetime",
        &[(200, "Cache-Control: max-age=60\r\nDate: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: \"a\"")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("4.2.4", "MUST NOT"),
        "use an expired response with `must-revalidate`",
        &[(200, "Cache-Control: max-age=60, must-revalidate\r\nAge: 100\r\nETag: \"a\""), (500, "X-A: b")],
        &[GET, GET],
        |seen| seen[1].status >= 500,
    ),
    case(
        ("4.2.4", "MUST NOT"),
        "use an expired response with `proxy-revalidate`",
        &[(200, "Cache-Control: max-age=60, proxy-revalidate\r\nAge: 100\r\nETag: \"a\""), (500, "X-A: b")],
        &[GET, GET],
        |seen| seen[1].status >= 500,
    ),
    case(
        ("4.2.4", "MUST NOT"),
        "use an expired response with `s-maxage`",
        &[(200, "Cache-Control: s-maxage=60\r\nAge: 100\r\nETag: \"a\""), (500, "X-A: b")],
        &[GET, GET],
        |seen| seen[1].status >= 500,
    ),
    case(
        ("4.3.1", "MUST"),
        "send the `ETag` of the response, if it asks whether the response has changed",
        &[
            (
                200,
                "Cache-Control: max-age=1\r\nAge: 9\r\nETag: \"a\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT",
            ),
            (200, "Cache-Control: max-age=600\r\nX-Name: CONDITION"),
        ],
        &[GET, GET],
        |seen| seen[1].name.as_deref() != Some("date"),
    ),
    case(
        ("4.3.2", "SHOULD"),
        "answer conditional requests itself",
        &[(200, "Cache-Control: max-age=600\r\nETag: \"a\"")],
        &[GET, ("GET", "If-None-Match: \"a\"")],
        |seen| seen[1].status == 304,
    ),
    case(
        ("4.3.3", "MUST"),
        "use the whole response if the upstream server sends one in place of 304",
        &[
            (200, "Cache-Control: max-age=1\r\nAge: 9\r\nETag: \"a\""),
            (200, "Cache-Control: max-age=600\r\nETag: \"b\""),
        ],
        &[GET, GET, GET],
        |seen| seen[2].from == seen[1].from,
    ),
    case(
        ("4.3.4", "MUST NOT"),
        "update the kept response by a 304 with another strong `ETag`",
        &[
            (200, "Cache-Control: max-age=1\r\nAge: 9\r\nETag: \"a\"\r\nX-Name: old"),
            (304, "Cache-Control: max-age=600\r\nETag: \"b\"\r\nX-Name: new"),
            (200, "Cache-Control: max-age=600\r\nETag: \"b\"\r\nX-Name: new"),
        ],
        &[GET, GET, GET],
        |seen| !seen[1..].iter().any(|one| one.from == 1 && one.name.as_deref() == Some("new")),
    ),
    case(
        ("4.3.5", "SHOULD"),
        "update the kept response by the response to a HEAD request",
        &[
            (200, "Cache-Control: max-age=1\r\nAge: 9\r\nETag: \"a\"\r\nX-Name: old"),
            (200, "Cache-Control: max-age=600\r\nETag: \"a\"\r\nX-Name: new"),
        ],
        &[GET, ("HEAD", ""), GET],
        |seen| seen[2].status == 200 && seen[2].from > 0 && seen[2].name.as_deref() == Some("new"),
    ),
    case(
        ("4.3.5", "SHOULD"),
        "not use the kept response if the response to a HEAD request differs",
        &[
            (200, "Cache-Control: max-age=600\r\nETag: \"a\"\r\nX-Name: old"),
            (200, "Cache-Control: max-age=600\r\nETag: \"b\"\r\nX-Name: new"),
        ],
        &[GET, ("HEAD", "Cache-Control: no-cache"), GET],
        // The request may have reached no other server.
        |seen| seen[1].name.as_deref() == Some("old") || seen[2].from > 1,
    ),
    case(
        ("4.4", "MUST"),
        "remove a response after an unsafe request for its URI",
        &[FRESH],
        &[GET, ("POST", "Content-Length: 0"), GET],
        |seen| seen[2].from == 3,
    ),
    case(
        ("4.4", "MUST"),
        "remove a response after a request with an unknown method",
        &[FRESH],
        &[GET, ("BREW", "Content-Length: 0"), GET],
        |seen| seen[2].from == 3,
    ),
    case(
        ("4.4", "MUST"),
        "remove all variants (`Vary`) of the response, too",
        &[(200, "Cache-Control: max-age=600\r\nVary: X-Kind")],
        &[
            ("GET", "X-Kind: a"),
            ("GET", "X-Kind: b"),
            ("DELETE", "Content-Length: 0"),
            ("GET", "X-Kind: a"),
            ("GET", "X-Kind: b"),
        ],
        |seen| seen[3].from == 4 && seen[4].from == 5,
    ),
    case(
        ("4.4", "MAY"),
        "keep a response after an unsafe request that failed",
        &[FRESH, (500, "X-A: b")],
        &[GET, ("POST", "Content-Length: 0"), GET],
        |seen| seen[2].from == 1,
    ),
    case(
        ("5.2", "–"),
        "read the names of directives in upper and lower case",
        &[(200, "Cache-Control: Max-Age=600, No-Store")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("5.2.1.1", "MAY"),
        "obey `max-age` of a request",
        &[(200, "Cache-Control: max-age=600\r\nAge: 100")],
        &[GET, ("GET", "Cache-Control: max-age=50")],
        is_asked_again,
    ),
    case(
        ("5.2.1.3", "MAY"),
        "obey `min-fresh` of a request",
        &[(200, "Cache-Control: max-age=600\r\nAge: 100")],
        &[GET, ("GET", "Cache-Control: min-fresh=550")],
        is_asked_again,
    ),
    case(
        ("5.2.1.4", "MAY"),
        "obey `no-cache` of a request",
        &[FRESH],
        &[GET, ("GET", "Cache-Control: no-cache")],
        is_asked_again,
    ),
    case(
        ("5.2.1.5", "MAY"),
        "not keep the response to a request with `no-store`",
        &[FRESH],
        &[("GET", "Cache-Control: no-store"), GET],
        is_asked_again,
    ),
    case(
        ("5.2.1.7", "MAY"),
        "answer 504 to `only-if-cached` if no response is kept",
        &[FRESH],
        &[("GET", "Cache-Control: only-if-cached")],
        |seen| seen[0].status == 504,
    ),
    case(
        ("5.2.2.3", "SHOULD"),
        "ignore `no-store` in a response with `must-understand` and a known status",
        &[(200, "Cache-Control: max-age=600, no-store, must-understand")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("5.2.2.4", "MUST NOT"),
        "send headers that `no-cache` names without revalidation",
        &[(200, "Cache-Control: max-age=600, no-cache=\"X-Name\"\r\nX-Name: a")],
        &[GET, GET],
        |seen| seen[1].from == 2 || seen[1].name.is_none(),
    ),
    case(
        ("5.2.2.7", "MUST NOT"),
        "keep headers that `private` names",
        &[(200, "Cache-Control: max-age=600, private=\"X-Name\"\r\nX-Name: a")],
        &[GET, GET],
        |seen| seen[1].from == 2 || seen[1].name.is_none(),
    ),
    case(
        ("5.2.3", "MUST"),
        "ignore directives that it does not know, whatever their value is",
        &[(200, "Cache-Control: community=\"UCI, no-store\", max-age=600")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("5.3", "MUST"),
        "treat an invalid `Expires` as a time in the past",
        &[(200, "Expires: 0")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("5.3", "MUST"),
        "ignore `Expires` if there is `max-age`",
        &[(200, "Expires: 0\r\nCache-Control: max-age=600")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("5.3", "MUST"),
        "ignore `Expires` if there is `s-maxage`",
        &[(200, "Expires: 0\r\nCache-Control: s-maxage=600")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("5.4", "MAY"),
        "obey `Pragma: no-cache`, which the standard deprecates",
        &[FRESH],
        &[GET, ("GET", "Pragma: no-cache")],
        is_asked_again,
    ),
    case(
        ("RFC 5861, 3", "MAY"),
        "use an expired response during its `stale-while-revalidate`",
        &[(200, "Cache-Control: max-age=60, stale-while-revalidate=600\r\nAge: 100"), FRESH],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("RFC 5861, 4", "MAY"),
        "use an expired response during its `stale-if-error`",
        &[(200, "Cache-Control: max-age=60, stale-if-error=600\r\nAge: 100"), (503, "X-A: b")],
        &[GET, GET],
        is_kept,
    ),
    case(
        ("RFC 9213, 2.2", "MUST"),
        "prefer `CDN-Cache-Control` to `Cache-Control`",
        &[(200, "Cache-Control: max-age=600\r\nCDN-Cache-Control: no-store")],
        &[GET, GET],
        is_asked_again,
    ),
    case(
        ("RFC 9213, 2.2", "MUST"),
        "ignore an invalid `CDN-Cache-Control`",
        &[(200, "Cache-Control: max-age=600\r\nCDN-Cache-Control: No-Store")],
        &[GET, GET],
        is_kept,
    ),
];

/// A server whose answers to `/SERVER/CASE` are those of the case.
fn origin() -> Origin {
    let counts: Mutex<HashMap<String, usize>> = Mutex::default();
    Origin::start(move |asked: &Asked| {
        let number = {
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(asked.target.clone()).or_default();
            *count += 1;
            *count
        };
        let case: usize = asked.target.rsplit('/').next().unwrap().parse().unwrap();
        let answers = CASES[case].answers;
        let (status, fields) = answers[(number - 1).min(answers.len() - 1)];
        let body = if status == 304 { String::new() } else { format!("from {number:03}") };
        let length =
            if status == 304 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let body = if asked.text.starts_with(b"HEAD ") { String::new() } else { body };
        let has = |name: &str| {
            String::from_utf8_lossy(&asked.text).to_ascii_lowercase().contains(&format!("\r\n{name}:"))
        };
        let condition = match (has("if-none-match"), has("if-modified-since")) {
            (true, _) => "etag",
            (_, true) => "date",
            _ => "none",
        };
        let fields = fields.replace("CONDITION", condition);
        let reply = format!("HTTP/1.1 {status} Said\r\n{fields}\r\n{length}\r\n{body}");
        let is_listed = fields.contains("Connection:");
        raw(&reply, if is_listed { After::Close } else { After::Keep })
    })
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
                 {rules}
             }}
         }}"
    ))
}

/// Whether a server keeps each requirement.
fn results(address: SocketAddr, name: &str) -> Vec<bool> {
    let ask = |case: usize, (method, fields): &(&str, &str)| {
        let line = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let request =
            format!("{method} /{name}/{case} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}\r\n");
        let response = ask_bytes(address, request.as_bytes()).last().clone();
        let text = response.text();
        Seen {
            status: response.status,
            from: text.strip_prefix("from ").and_then(|number| number.parse().ok()).unwrap_or(0),
            age: response.field("Age").and_then(|age| age.parse().ok()),
            name: response.field("X-Name").map(str::to_owned),
            is_for_proxy: response.field("Proxy-Authenticate").is_some(),
        }
    };
    let holds = |(number, case): (usize, &Case)| {
        let seen: Vec<Seen> = case.asks.iter().map(|one| ask(number, one)).collect();
        (case.holds)(&seen)
    };
    CASES.iter().enumerate().map(holds).collect()
}

/// Apache with its cache on disk.
fn apache(origin: &Origin) -> (Site, Apache) {
    let site = Site::new("");
    let directory = site.prefix().join("kept");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let load = |name: &str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let loads = ["proxy_http", "cache", "cache_disk"].map(load).concat();
    let more = format!(
        "{loads}CacheRoot {}\nCacheEnable disk /\nProxyPass / http://{}/ retry=0\n",
        directory.display(),
        origin.address()
    );
    let apache = Apache::start_with(&site, &more);
    (site, apache)
}

/// Another cache, ended when dropped.
struct Peer {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Peer {
    fn varnish(origin: &Origin) -> Peer {
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
    "| section | | requirement | Fulmar, `rfc9111` | Fulmar, `nginx` | nginx | Apache | Varnish | HAProxy |
|---|---|---|---|---|---|---|---|---|
";

/// The rows of the table in the manual, as far as these results go.
fn rows(all: &[Vec<bool>]) -> Vec<String> {
    let row = |(number, case): (usize, &Case)| {
        let Case { section, word, what, .. } = case;
        let words: String =
            all.iter().map(|results| if results[number] { " yes |" } else { " no |" }).collect();
        format!("| {section} | {word} | {what} |{words}")
    };
    CASES.iter().enumerate().map(row).collect()
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
    let strict = run(Server::Fulmar, "proxy_cache_rules rfc9111;", "strict");
    for (case, holds) in CASES.iter().zip(&strict) {
        assert!(*holds, "section {}: {} {}", case.section, case.word, case.what);
    }
    let mut all = vec![strict, run(Server::Fulmar, "", "usual"), run(Server::Nginx, "", "nginx")];
    if have_apache() {
        let (_site, apache) = apache(origin);
        all.push(results(apache.address(), "apache"));
    }
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

/// The same with Varnish and HAProxy (`make cache-rules`).
#[test]
#[ignore = "it needs Varnish"]
fn the_manual_says_which_requirements_other_caches_keep() {
    let origin = origin();
    let mut all = usual_results(&origin);
    for (peer, name) in [(Peer::varnish(&origin), "varnish"), (Peer::haproxy(&origin), "haproxy")] {
        all.push(results(peer.address, name));
    }
    compare(&all);
}
