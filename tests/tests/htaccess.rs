//! Whatever Apache answers by a `.htaccess` file is what Fulmar has to answer.

mod changes;
mod closed;
mod digest;
mod encrypted;
mod engine;
mod expressions;
mod fulmar;
mod generated;
mod handling;

mod hosted_products;
mod includes;
mod indexes;
mod languages;
mod leniency;
mod limits;
mod listings;
mod lookups;
mod modules;
mod more_products;
mod negotiation;
mod nested;
mod overrides;
mod passwords;
mod path_info;
mod paths;
mod products;
mod programs;
mod requirements;
mod responses;
mod rewriting;
mod shares;
mod survey;
mod tables;
mod users;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

use tests::apache::{Apache, have_apache, load};
use tests::binary::Server;
use tests::response::Response;
use tests::site::Site;
use tests::wait;

/// What is served next to the `.htaccess` files of a table.
const DOCUMENTS: [(&str, &str); 14] = [
    ("index.html", "home"),
    ("index.php", "front controller"),
    ("a.txt", "a"),
    ("b.txt", "b"),
    ("page.html", "a page"),
    ("style.css", "p {}"),
    ("script.js", "1"),
    ("error.html", "an error"),
    ("sub/index.html", "sub"),
    ("sub/a.txt", "sub a"),
    ("sub/deep/a.txt", "deep a"),
    ("bare/a.txt", "bare a"),
    ("with space.txt", "space"),
    ("secret.bak", "secret"),
];

/// A configuration of a site whose `.htaccess` files count.
const CONFIGURATION: &str = "server {
    listen 127.0.0.1:%%PORT%%;
    root %%ROOT%%;
    htaccess on;
    default_type '';
    types { text/html html php; text/plain txt; text/css css; text/javascript js; }
}";

fn site(files: &[(&str, &str)]) -> Site {
    let site = Site::new(CONFIGURATION);
    DOCUMENTS.iter().chain(files).fold(site, |site, (path, text)| site.file(path, text))
}

/// Files that are old enough for Fulmar to keep what it reads of them: it reads files again that changed less than 50
/// milliseconds ago, and takes their settings for other ones.
fn aged(site: Site) -> Site {
    let written = Instant::now();
    wait::until(Duration::from_secs(10), || written.elapsed() > Duration::from_millis(100));
    site
}

/// Has both servers answer the requests on these files. `%%PORT%%` is each one's own.
fn agree(files: &[(&str, &str)], requests: &[&str]) {
    agree_on(site(files), &[], requests);
}

/// As `agree`, on a site that is there, with more modules of Apache.
fn agree_on(site: Site, modules: &[&str], requests: &[&str]) {
    agree_by(shown, site, modules, requests);
}

/// As `agree_on`, by what another function shows of a response and its server's port.
fn agree_by(shown: impl Fn(&Response, u16) -> String, site: Site, modules: &[&str], requests: &[&str]) {
    agree_beside(shown, &site, &load(modules), requests);
}

/// As `agree_by`, with more lines of Apache's configuration.
fn agree_beside(shown: impl Fn(&Response, u16) -> String, site: &Site, more: &str, requests: &[&str]) {
    if !have_apache() {
        return;
    }
    let apache = Apache::start_with(site, more);
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for request in requests {
        let own = |port: u16| request.replace("%%PORT%%", &port.to_string());
        let expected = apache.ask(&own(apache.port()));
        let got = fulmar.ask(&own(fulmar.address().port()));
        let left = shown(expected.last(), apache.port());
        let right = shown(got.last(), fulmar.address().port());
        if left != right {
            let _ = writeln!(report, "==== {request}\n-- apache\n{left}\n-- fulmar\n{right}\n");
        }
    }
    // Counted by `cargo test -p tests htaccess:: -- --nocapture`.
    println!("htaccess: {} requests on a site beside Apache", requests.len());
    let logs = format!("--- apache\n{}{}", apache.log(), fulmar.all_logs());
    assert!(report.is_empty(), "{report}\n{logs}");
    fulmar.stop();
}

/// As `agree`, with each server's own port in `Host`.
fn agree_with_host(files: &[(&str, &str)], requests: &[&str]) {
    let requests: Vec<String> = requests.iter().map(|request| with_host(request)).collect();
    agree(files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// A request that names its host with the server's own port.
pub(crate) fn with_host(request: &str) -> String {
    match request.split_once('\n') {
        Some((line, rest)) => format!("{line}\nHost: localhost:%%PORT%%\n{rest}"),
        None => format!("{request}\nHost: localhost:%%PORT%%"),
    }
}

/// What has to be the same of a response, as text.
pub(crate) fn shown(response: &Response, port: u16) -> String {
    let own_page =
        response.text().starts_with("<!DOCTYPE HTML PUBLIC") || response.text().contains("<hr><center>");
    let is_listing = response.text().contains("<title>Index of");
    let mut lines = BTreeSet::new();
    for (name, value) in &response.fields {
        let name = name.to_ascii_lowercase();
        let value = value.replace(&format!(":{port}"), ":PORT");
        let line = match name.as_str() {
            "date" | "server" | "etag" | "connection" | "keep-alive" | "accept-ranges" | "vary" | "allow" => {
                continue;
            }
            "transfer-encoding" | "content-length" => continue,
            "content-type" | "last-modified" if own_page || is_listing => continue,
            "expires" => format!("expires: {}", relative(&value, response.field("Date"))),
            "cache-control" => format!("cache-control: {}", rounded(&value)),
            _ => format!("{name}: {value}"),
        };
        lines.insert(line);
    }
    let body = if own_page || is_listing { "*".to_owned() } else { response.text() };
    let fields: Vec<String> = lines.into_iter().collect();
    format!("{}\n{}\n\n{body}", response.status, fields.join("\n"))
}

/// Tens of seconds between two dates.
fn relative(value: &str, date: Option<&str>) -> String {
    let parse = |text: &str| httpdate::parse_http_date(text).ok();
    let (Some(expires), Some(date)) = (parse(value), date.and_then(parse)) else { return value.to_owned() };
    let seconds =
        |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let difference = seconds(expires).cast_signed() - seconds(date).cast_signed();
    ((difference + 5).div_euclid(10) * 10).to_string()
}

/// A value whose numbers are rounded to tens.
fn rounded(value: &str) -> String {
    let word = |word: &str| match word.trim().strip_prefix("max-age=").and_then(|age| age.parse::<i64>().ok())
    {
        Some(age) => format!("max-age={}", (age + 5).div_euclid(10) * 10),
        None => word.trim().to_owned(),
    };
    value.split(',').map(word).collect::<Vec<_>>().join(", ")
}
