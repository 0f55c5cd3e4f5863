//! One configuration on the stage: its files, its servers behind, nginx, and `fulmar explain`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tests::binary::Server;
use tests::client::Client;
use tests::request;
use tests::response::Response;
use tests::site::{Running, Site};
use tests::tls::{self, Certificate, Kind};

use super::case::{Case, parse};
use super::origins;
use super::outcome::{self, Heard};

/// Directories that a configuration may name; they are below the one of the test.
const DIRECTORIES: [&str; 6] =
    ["/srv/", "/var/www/", "/var/log/", "/var/cache/", "/etc/nginx/", "/usr/share/nginx/"];

/// What stands for one configuration.
pub(super) struct Stage {
    pub(super) prefix: PathBuf,
    /// The port that takes the place of a written one, and the other way round.
    ports: BTreeMap<u16, u16>,
    /// The written address by the one in its place.
    pub(super) behind: BTreeMap<String, String>,
    text: String,
}

/// Tries a configuration; how many requests its table has, or all that is wrong.
pub(super) fn try_file(file: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(file).unwrap();
    let (documents, cases) = parse(&text);
    let body: String =
        text.lines().filter(|line| !line.starts_with("#")).map(|line| format!("{line}\n")).collect();
    let (marked, ports) = mark_ports(&body);
    let (marked, behind) = mark_addresses(&marked);
    let mut site = Site::new(&format!(
        "include mime.types; default_type application/octet-stream;\n{}",
        mark_directories(&marked)
    ));
    for (name, content) in installed() {
        site = site.in_prefix(name, content);
    }
    site = with_certificates(site, &body);
    for directory in DIRECTORIES {
        fs::create_dir_all(site.prefix().join(&directory[1..])).unwrap();
    }
    fs::create_dir_all(site.prefix().join("var/log/nginx")).unwrap();
    for (path, content) in documents {
        let content = content.unwrap_or_else(|| format!("{path}\n"));
        site = site.in_prefix(path.trim_start_matches('/'), content.replace("\\n", "\n"));
    }
    let nginx = site.try_start(Server::Nginx)?;
    let ports = ports.into_iter().map(|(written, mark)| (written, nginx.address_of(mark).port())).collect();
    let stage = Stage { prefix: site.prefix(), ports, behind, text: body };
    let result = stage.compare(&nginx, &cases);
    nginx.stop();
    let expectations = result?;
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        update(file, &text, &cases, &expectations);
        return Ok(cases.len());
    }
    let mut report = String::new();
    for (case, got) in cases.iter().zip(expectations) {
        if case.expected != got {
            report += &format!(
                "{}\n  is expected to be  {}\n  and is             {got}\n",
                case.written, case.expected
            );
        }
    }
    if report.is_empty() { Ok(cases.len()) } else { Err(report) }
}

impl Stage {
    /// What is explained of each request, if nginx agrees with all of it.
    fn compare(&self, nginx: &Running, cases: &[Case]) -> Result<Vec<String>, String> {
        let explained = self.explain(cases)?;
        let mut report = String::new();
        for (case, explained) in cases.iter().zip(&explained) {
            let heard = self.ask(nginx, case);
            if let Err(difference) = outcome::agree(self, explained, &heard) {
                report += &format!("{}\n{difference}\n", case.written);
            }
        }
        if report.is_empty() {
            Ok(explained.iter().map(|explained| outcome::shown(self, explained)).collect())
        } else {
            Err(report)
        }
    }

    fn explain(&self, cases: &[Case]) -> Result<Vec<Value>, String> {
        let mut command = Command::new(Server::Fulmar.path());
        command.args(["explain", "--json", "-c", "nginx.conf", "-p"]).arg(&self.prefix).arg("-");
        command.current_dir(&self.prefix).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines: String = cases.iter().map(|case| self.line(case)).collect();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(self.plain(&errors));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn line(&self, case: &Case) -> String {
        let fields: String = case.all_fields().iter().map(|field| format!("-H '{field}' ")).collect();
        let (method, scheme, target) = (&case.method, &case.scheme, &case.target);
        format!("-X {method} {fields} {scheme}://127.0.0.1:{}{target}\n", self.port(case))
    }

    fn port(&self, case: &Case) -> u16 {
        self.ports.get(&case.port).copied().unwrap_or(case.port)
    }

    fn ask(&self, nginx: &Running, case: &Case) -> Heard {
        let _ = nginx;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port(case)));
        let mut short = format!("{} {}", case.method, case.target);
        for field in case.all_fields() {
            short += &format!("\n{field}");
        }
        let response: Option<Response> = if case.scheme == "https" {
            let client =
                tls::Client::new(Some(&case.host).filter(|host| !host.is_empty()).map(String::as_str));
            client.ask(address, &short).ok().and_then(|spoken| spoken.answer.responses.into_iter().next())
        } else {
            let mut client = Client::connect(address);
            client.send(&request::expand(&short));
            client.response(&case.method)
        };
        response.map_or(Heard::Nothing, Heard::Answer)
    }

    /// A text with the written ports, addresses and directories.
    pub(super) fn plain(&self, text: &str) -> String {
        let mut text = text.replace(&self.prefix.display().to_string(), "");
        for (place, written) in &self.behind {
            text = text.replace(place, written);
        }
        for (written, port) in &self.ports {
            let standard = matches!(written, 80 | 443);
            let shown = if standard { String::new() } else { format!(":{written}") };
            text = text.replace(&format!(":{port}"), &shown);
        }
        text
    }

    /// The addresses, as they were written, of an `upstream`, or the address itself.
    pub(super) fn servers_of(&self, name: &str) -> Vec<String> {
        let block = self.text.split(&format!("upstream {name} ")).nth(1);
        let Some(block) = block.and_then(|rest| rest.split('}').next()) else { return vec![name.to_owned()] };
        let lines = block.split(';').filter_map(|line| line.split("server ").nth(1));
        lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }
}

/// Marks for the ports of `listen`.
fn mark_ports(text: &str) -> (String, BTreeMap<u16, usize>) {
    let mut ports: BTreeMap<u16, usize> = BTreeMap::new();
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        let mut from = 0;
        while let Some(at) = line[from..].find("listen ").map(|at| from + at + "listen ".len()) {
            let end = line[at..].find([' ', ';']).map_or(line.len(), |end| at + end);
            let start = line[at..end].rfind(':').map_or(at, |colon| at + colon + 1);
            if let Ok(port) = line[start..end].parse::<u16>() {
                let count = ports.len();
                let number = *ports.entry(port).or_insert(count);
                let mark = if number == 0 { "%%PORT%%".to_owned() } else { format!("%%PORT_{number}%%") };
                line.replace_range(start..end, &mark);
            }
            from = at;
        }
        out += &line;
        out.push('\n');
    }
    (out, ports)
}

/// Replaces addresses with a port, and sockets, by origins.
fn mark_addresses(text: &str) -> (String, BTreeMap<String, String>) {
    let mut behind = BTreeMap::new();
    let mut out = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "./:_-".contains(c);
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        out += before;
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (token, after) = from.split_at(end);
        let (scheme, address) = token.split_at(token.find("://").map_or(0, |at| at + 3));
        let cut = if address.starts_with("unix:") {
            address.len()
        } else {
            address.find('/').unwrap_or(address.len())
        };
        let (address, path) = address.split_at(cut);
        out += scheme;
        if is_address(address) {
            let place = origins::in_place_of(address).to_string();
            out += &place;
            behind.insert(place, address.to_owned());
        } else {
            out += address;
        }
        out += path;
        rest = after;
    }
    (out + rest, behind)
}

fn is_address(text: &str) -> bool {
    let with_port = text
        .rsplit_once(':')
        .is_some_and(|(ip, port)| ip.parse::<Ipv4Addr>().is_ok() && port.parse::<u16>().is_ok());
    with_port || text.starts_with("unix:/run/")
}

fn mark_directories(text: &str) -> String {
    let mut text = text.to_owned();
    for directory in DIRECTORIES {
        for before in [" ", "\"", ":", "=", "\t"] {
            text = text.replace(&format!("{before}{directory}"), &format!("{before}%%DIR%%{directory}"));
            let whole = directory.trim_end_matches('/');
            text = text.replace(&format!("{before}{whole};"), &format!("{before}%%DIR%%{whole};"));
        }
    }
    text
}

/// Files that stand next to a configuration wherever nginx is installed. nginx lacks `$server_software`.
fn installed() -> [(&'static str, String); 5] {
    let files = [
        ("mime.types", include_str!("../../../crates/conf/src/mime.types")),
        ("fastcgi_params", include_str!("../../../packaging/conf/fastcgi_params")),
        ("fastcgi.conf", include_str!("../../../packaging/conf/fastcgi.conf")),
        ("proxy_params", include_str!("../../../packaging/conf/proxy_params")),
        ("snippets/fastcgi-php.conf", include_str!("../../../packaging/conf/snippets/fastcgi-php.conf")),
    ];
    files.map(|(name, content)| (name, content.replace("$server_software", "nginx/1.31.5")))
}

/// A certificate wherever one is named.
fn with_certificates(mut site: Site, text: &str) -> Site {
    static MADE: OnceLock<Certificate> = OnceLock::new();
    for (name, is_key) in [("ssl_certificate ", false), ("ssl_certificate_key ", true)] {
        for rest in text.split(name).skip(1) {
            let made = MADE.get_or_init(|| tls::certificate("localhost", Kind::Ecdsa));
            let path = rest.split(';').next().unwrap_or_default().trim();
            site = site.in_prefix(path.trim_start_matches('/'), if is_key { &made.key } else { &made.pem });
        }
    }
    site
}

/// Writes the expectations into the file.
fn update(file: &Path, text: &str, cases: &[Case], expectations: &[String]) {
    let mut pairs = cases.iter().zip(expectations);
    let line = |line: &str| match line.strip_prefix("#? ") {
        Some(_) => {
            let (case, got) = pairs.next().unwrap();
            format!("#? {} => {got}\n", case.written)
        }
        None => format!("{line}\n"),
    };
    let updated: String = text.lines().map(line).collect();
    if updated != text {
        fs::write(file, updated).unwrap();
    }
}
