//! The examples of the manual: doc comments of features, read as tests.
//!
//! A document is the `//!` comment of a file. Its fenced blocks mean:
//!
//! - `file PATH`: the content of a file, below the prefix, so that `html/…` is below the default root;
//! - `countries PATH`: a database about addresses there, with a network and its country in each line;
//! - `link PATH`: a symbolic link there, with what it says;
//! - `answer ADDRESS`: what an upstream server at that address sends to each request;
//! - `conf`: directives, which start an example. Without a `server` line they stand in a server that
//!   listens and has a root; without an `http` line in `http {}`, unless there is an `events` line;
//! - `http`: what a client sends and must get back, asked of the `conf` above: a request (its version and
//!   Host may be left out), then from a line `HTTP/1.1 …` on the response: the status line, fields that
//!   must be there (the value `*` is any), and after an empty line the body. Heads of interim responses (1xx)
//!   stand before it. A line `---` starts another request, on the same connection if that is kept. A line
//!   `PROXY …` before a request is a header of the PROXY protocol.
//!
//! A line `nginx: none` or one that starts with `differs:` says that nginx is not to be asked; any other `nginx: …`, with
//! which parts it has to be (see `binary::nginx_with`).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::client::Client;
use crate::mmdb::{Datum, database};
use crate::origin::{After, Origin, raw};
use crate::request;
use crate::response::Response;
use crate::site::{Running, Site};

/// The first block in this language of a section of a page in `docs`.
pub fn block_of_page(page: &str, heading: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = fs::read_to_string(path).expect("the page");
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect("the section");
    let (_, block) = section.split_once(&format!("```{language}\n")).expect("the block");
    block.split_once("```").expect("its end").0.to_owned()
}

/// All examples of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Path below the prefix and content of the files to create.
    pub files: Vec<(String, Vec<u8>)>,
    /// Path below the prefix and target of the symbolic links to create.
    pub links: Vec<(String, String)>,
    /// Address and response of the upstream servers.
    pub upstreams: Vec<(String, String)>,
    /// Configurations with what is asked of them.
    pub examples: Vec<Example>,
    /// Whether nginx has to answer the same.
    pub nginx: bool,
    /// What nginx has to have for that.
    pub parts: Vec<String>,
}

/// A configuration and its transcripts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// As written.
    pub configuration: String,
    /// One per `http` block: a connection's exchanges.
    pub transcripts: Vec<Vec<Exchange>>,
}

/// A request and the response that must come.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// In the short form (see `request::expand`).
    pub request: String,
    /// The heads of the interim responses (1xx), then that of the final one.
    pub heads: Vec<Head>,
    /// Body, if it is given.
    pub body: Option<String>,
}

/// The head of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `HTTP/1.1 200 OK`.
    pub status_line: String,
    /// Name and value; `*` is any value.
    pub fields: Vec<(String, String)>,
}

/// Reads the doc comment at the start of a source file.
///
/// # Errors
///
/// A message when a block is not closed or makes no sense.
pub fn parse(source: &str) -> Result<Document, String> {
    let mut document = Document { nginx: true, ..Document::default() };
    let lines: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let mut lines = lines.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line));
    while let Some(line) = lines.next() {
        if line.trim() == "nginx: none" || line.trim_start().starts_with("differs:") {
            document.nginx = false;
        }
        if let Some(parts) = line.trim().strip_prefix("nginx: ") {
            document.parts = parts.split_whitespace().map(str::to_owned).collect();
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let mut content = String::new();
        loop {
            let line = lines.next().ok_or_else(|| format!("block ```{kind} is not closed"))?;
            if line.trim_end() == "```" {
                break;
            }
            content.push_str(line);
            content.push('\n');
        }
        document.add(kind.trim(), content)?;
    }
    Ok(document)
}

fn countries(content: &str) -> Result<Vec<u8>, String> {
    let country = |code: &str| Datum::map("country", Datum::map("iso_code", Datum::text(code)));
    let network = |line: &'_ str| {
        let (network, code) = line.split_once(' ').ok_or("not a network and a country")?;
        Ok((network.to_owned(), country(code.trim())))
    };
    let networks: Result<Vec<_>, String> = content.lines().map(network).collect();
    Ok(database(1_700_000_000, &networks?))
}

impl Document {
    /// Adds a block of this kind.
    ///
    /// # Errors
    ///
    /// A message if the block makes no sense.
    pub fn add(&mut self, kind: &str, content: String) -> Result<(), String> {
        if let Some(path) = kind.strip_prefix("file ") {
            self.files.push((path.trim().to_owned(), content.into_bytes()));
        } else if let Some(path) = kind.strip_prefix("countries ") {
            self.files.push((path.trim().to_owned(), countries(&content)?));
        } else if let Some(path) = kind.strip_prefix("link ") {
            self.links.push((path.trim().to_owned(), content.trim().to_owned()));
        } else if let Some(address) = kind.strip_prefix("answer ") {
            self.upstreams.push((address.trim().to_owned(), content));
        } else if kind == "conf" {
            self.examples.push(Example { configuration: content, transcripts: Vec::new() });
        } else if kind == "http" {
            let example = self.examples.last_mut().ok_or("block ```http stands before any ```conf")?;
            example.transcripts.push(transcript(&content)?);
        }
        Ok(())
    }

    /// Starts the upstream servers.
    pub fn start_upstreams(&self) -> Vec<Origin> {
        let start = |(_, content): &(String, String)| {
            let text = content.trim_end().replace('\n', "\r\n");
            Origin::start(move |_| raw(&text, After::Close))
        };
        self.upstreams.iter().map(start).collect()
    }

    /// The site of one example, with the upstream servers that were started.
    pub fn site(&self, example: &Example, upstreams: &[Origin]) -> Site {
        let mut configuration = example.configuration.clone();
        for ((address, _), origin) in self.upstreams.iter().zip(upstreams) {
            configuration = configuration.replace(address.as_str(), &origin.address().to_string());
        }
        if configuration.starts_with("ServerRoot ") {
            // A main configuration in Apache's language.
            return Site::whole(&configuration.replace("8080", "%%PORT%%"));
        }
        let configuration = wrap(&configuration);
        let whole = ["http", "events"].iter().any(|directive| has_line(&example.configuration, directive));
        let site = if whole { Site::whole(&surround(&configuration)) } else { Site::new(&configuration) };
        // Where examples keep their logs.
        let site = site.in_prefix("logs/.keep", "");
        let site = self.files.iter().fold(site, |site, (path, content)| site.in_prefix(path, content));
        self.links.iter().fold(site, |site, (path, target)| site.link_in_prefix(path, target))
    }
}

impl Example {
    /// Has all transcripts with a running server; gives what was not as written.
    pub fn run(&self, running: &Running) -> String {
        let mut wrong = String::new();
        for exchanges in &self.transcripts {
            let mut client = running.connect();
            for (at, exchange) in exchanges.iter().enumerate() {
                let mut responses = exchange.send(&mut client);
                if responses.is_empty() && at > 0 {
                    client = running.connect();
                    responses = exchange.send(&mut client);
                }
                let port = format!(":{}", running.address().port());
                if let Some(found) = exchange.check(&responses, &port) {
                    let _ = writeln!(wrong, "{}: {}{found}", running.server().name(), exchange.request);
                }
            }
        }
        wrong
    }
}

impl Exchange {
    /// Sends the request; the interim responses and the final one.
    fn send(&self, client: &mut Client) -> Vec<Response> {
        let is_proxy_header = self.request.starts_with("PROXY ");
        let (header, short) =
            self.request.split_once('\n').filter(|_| is_proxy_header).unwrap_or(("", &self.request));
        if !header.is_empty() {
            client.send(format!("{header}\r\n").as_bytes());
        }
        client.send(&request::expand(short));
        let method = short.split(' ').next().unwrap_or_default();
        let mut responses = Vec::new();
        while let Some(response) = client.response(method) {
            let is_interim = (100..200).contains(&response.status);
            responses.push(response);
            if !is_interim {
                break;
            }
        }
        responses
    }

    /// What is not as written. `port` is left out of what the server says, as the manual's port is the usual.
    fn check(&self, responses: &[Response], port: &str) -> Option<String> {
        let Some(last) = responses.last() else { return Some("no answer".to_owned()) };
        let mut wrong = String::new();
        // Interim responses count only if the manual shows some.
        let from = if self.heads.len() == 1 { responses.len() - 1 } else { 0 };
        if responses.len() - from != self.heads.len() {
            let _ = writeln!(wrong, "{} responses, not {}", responses.len(), self.heads.len());
        }
        for (head, response) in self.heads.iter().zip(&responses[from..]) {
            wrong += &head.differences(response, port);
        }
        if let Some(body) = &self.body {
            let have = last.text().replace(port, "");
            if have.trim_end_matches('\n') != body.trim_end_matches('\n') {
                let _ = writeln!(wrong, "not the body {body:?}");
            }
        }
        if wrong.is_empty() { None } else { Some(format!("\n{wrong}got {last}")) }
    }
}

impl Head {
    fn differences(&self, response: &Response, port: &str) -> String {
        let mut wrong = String::new();
        let line = format!("{} {} {}", response.version, response.status, response.reason);
        if line.trim_end() != self.status_line.trim_end() {
            let _ = writeln!(wrong, "not {}", self.status_line);
        }
        for (name, value) in &self.fields {
            let mut same_name = response.fields.iter().filter(|(have, _)| have.eq_ignore_ascii_case(name));
            if !same_name.any(|(_, have)| value == "*" || have.replace(port, "") == *value) {
                let _ = writeln!(wrong, "not {name}: {value}");
            }
        }
        wrong
    }
}

fn transcript(content: &str) -> Result<Vec<Exchange>, String> {
    let mut exchanges = Vec::new();
    let mut part = String::new();
    for line in content.lines().chain(["---"]) {
        if line == "---" {
            exchanges.push(exchange(&part)?);
            part.clear();
        } else {
            part.push_str(line);
            part.push('\n');
        }
    }
    Ok(exchanges)
}

fn exchange(part: &str) -> Result<Exchange, String> {
    let at = if part.starts_with("HTTP/1.1 ") { Some(0) } else { part.find("\nHTTP/1.1 ").map(|at| at + 1) };
    let at =
        at.filter(|&at| at > 0).ok_or_else(|| format!("a request and a response are wanted in {part:?}"))?;
    let (request, mut response) = part.split_at(at);
    let mut heads = Vec::new();
    loop {
        let (text, rest) = match response.split_once("\n\n") {
            Some((text, rest)) => (text, Some(rest).filter(|rest| !rest.is_empty())),
            None => (response.trim_end_matches('\n'), None),
        };
        heads.push(head(text)?);
        match rest {
            Some(rest) if text.starts_with("HTTP/1.1 1") => response = rest,
            body => {
                let body = body.map(str::to_owned);
                return Ok(Exchange { request: trim_request(request), heads, body });
            }
        }
    }
}

fn head(text: &str) -> Result<Head, String> {
    let mut lines = text.lines();
    let status_line = lines.next().unwrap_or_default().to_owned();
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("{line:?} is no field"))?;
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Head { status_line, fields })
}

/// The line breaks between a request and the response belong to the transcript's form.
fn trim_request(request: &str) -> String {
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let (head, body) = (head.trim_end_matches('\n'), body.trim_end_matches('\n'));
    if body.is_empty() { head.to_owned() } else { format!("{head}\n\n{body}") }
}

/// Whether a line of a configuration starts with this directive.
fn has_line(configuration: &str, directive: &str) -> bool {
    configuration.lines().any(|line| starts_with_word(line, directive))
}

fn starts_with_word(line: &str, word: &str) -> bool {
    let rest = line.trim_start().strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '{', ';']))
}

/// Puts bare directives into a server, and servers on free ports.
fn wrap(configuration: &str) -> String {
    let configuration = configuration.replace(" /var/log/fulmar/", " %%LOGS%%/");
    let configuration = configuration.as_str();
    if has_line(configuration, "events") && !has_line(configuration, "http") {
        return format!("{configuration}http {{ }}\n");
    }
    if !has_line(configuration, "server") {
        return format!("server {{\nlisten 127.0.0.1:%%PORT%%;\nroot %%ROOT%%;\n{configuration}\n}}\n");
    }
    let listens = has_word(configuration, "listen");
    let mut ports: Vec<String> = Vec::new();
    let mut out = String::new();
    for line in configuration.lines() {
        match line.split_once("listen ") {
            Some((before, after)) if before.is_empty() || before.ends_with([' ', '\t', '{', ';']) => {
                let end = after.find([';', ' ']).unwrap_or(after.len());
                let mark = port_mark(&mut ports, &after[..end]);
                let _ = writeln!(out, "{before}listen 127.0.0.1:{mark}{}", &after[end..]);
            }
            _ if !listens && starts_with_word(line, "server") => {
                let _ = writeln!(out, "{}", line.replacen('{', "{ listen 127.0.0.1:%%PORT%%;", 1));
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    for address in ports.clone().iter().filter(|address| address.starts_with("127.0.0.1:")) {
        // A server that another one passes requests to.
        out = out.replace(address.as_str(), &format!("127.0.0.1:{}", port_mark(&mut ports, address)));
    }
    out
}

fn has_word(configuration: &str, word: &str) -> bool {
    configuration.split([' ', '\t', '\n', '{', '}', ';']).any(|have| have == word)
}

/// The first address of a configuration is `%%PORT%%`, the next `%%PORT_1%%`, and so on.
fn port_mark(ports: &mut Vec<String>, address: &str) -> String {
    let at = ports.iter().position(|port| port == address).unwrap_or_else(|| {
        ports.push(address.to_owned());
        ports.len() - 1
    });
    if at == 0 { "%%PORT%%".to_owned() } else { format!("%%PORT_{at}%%") }
}

/// The directives outside `http {}` that every run needs.
fn surround(configuration: &str) -> String {
    let mut text = String::new();
    for (directive, line) in [
        ("daemon", "daemon off;"),
        ("pid", "pid %%LOGS%%/pid;"),
        ("error_log", "error_log %%LOGS%%/error.log;"),
        ("events", "events { }"),
    ] {
        if !has_line(configuration, directive) {
            let _ = writeln!(text, "{line}");
        }
    }
    if !has_line(configuration, "user") && rustix::process::geteuid().is_root() {
        text.push_str("user root;\n");
    }
    text + configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! `thing`: what it does.
//!
//! ```file html/a/f.txt
//! hello
//! ```
//!
//! ```conf
//! thing on;
//! ```
//!
//! ```http
//! GET /a/f.txt
//! X: y
//!
//! HTTP/1.1 200 OK
//! Content-Length: 6
//! ETag: *
//!
//! hello
//! ---
//! POST /
//!
//! body
//! HTTP/1.1 405 Not Allowed
//! ```
//! ```text
//! not ours
//! ```

//! not part of the first comment
";

    #[test]
    fn a_document() {
        let document = parse(SOURCE).unwrap();
        assert_eq!(document.files, [("html/a/f.txt".to_owned(), b"hello\n".to_vec())]);
        assert!(document.nginx && document.examples.len() == 1);
        let exchanges = &document.examples[0].transcripts[0];
        assert_eq!(exchanges[0].request, "GET /a/f.txt\nX: y");
        assert_eq!(exchanges[0].heads[0].status_line, "HTTP/1.1 200 OK");
        assert_eq!(exchanges[0].heads[0].fields[1], ("ETag".to_owned(), "*".to_owned()));
        assert_eq!(exchanges[0].body.as_deref(), Some("hello\n"));
        assert_eq!(exchanges[1].request, "POST /\n\nbody");
        assert_eq!((exchanges[1].heads[0].fields.len(), &exchanges[1].body), (0, &None));
    }

    #[test]
    fn documents_that_make_no_sense() {
        assert!(parse("//! ```conf\n//! a;\n").unwrap_err().contains("not closed"));
        assert!(
            parse("//! ```http\n//! GET /\n//!\n//! HTTP/1.1 200 OK\n//! ```")
                .unwrap_err()
                .contains("before")
        );
        assert!(
            parse("//! ```conf\n//! ```\n//! ```http\n//! GET /\n//! ```").unwrap_err().contains("wanted")
        );
    }

    #[test]
    fn nginx_is_left_out_where_the_document_says_so() {
        assert!(!parse("//! nginx: none\n").unwrap().nginx);
        let optional = parse("//! nginx: --with-x ngx_y\n").unwrap();
        assert!(optional.nginx && optional.parts == ["--with-x", "ngx_y"]);
        assert!(!parse("//! differs: in this\n").unwrap().nginx);
        assert!(parse("//! nginx\n").unwrap().nginx);
    }

    #[test]
    fn configurations_are_completed() {
        assert!(wrap("root a;\n").starts_with("server {\nlisten 127.0.0.1:%%PORT%%;"));
        assert!(wrap("server_name a;\n").starts_with("server {"));
        let two = wrap(
            "server {\n    listen 80;\n}\nserver {\n    listen 8080 default_server;\n    listen 80;\n}\n",
        );
        assert_eq!(
            two,
            "server {\n    listen 127.0.0.1:%%PORT%%;\n}\nserver {\n    listen 127.0.0.1:%%PORT_1%% default_server;\n    \
             listen 127.0.0.1:%%PORT%%;\n}\n"
        );
        let passes =
            wrap("server {\n listen 80;\n proxy_pass 127.0.0.1:81;\n}\nserver {\n listen 127.0.0.1:81;\n}\n");
        assert!(passes.contains("proxy_pass 127.0.0.1:%%PORT_1%%;"), "{passes}");
        assert_eq!(wrap("server {\n}\n"), "server { listen 127.0.0.1:%%PORT%%;\n}\n");
        assert!(surround("http {\n}\n").contains("events { }"));
        assert!(!surround("events {\n}\nhttp {\n}\n").contains("events { }"));
    }

    #[test]
    fn what_is_not_as_written_is_told() {
        let exchange = exchange("GET /\n\nHTTP/1.1 200 OK\nA: b\nC: *\n\nbody\n").unwrap();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let good = Response {
            version: "HTTP/1.1".to_owned(),
            status: 200,
            reason: "OK".to_owned(),
            fields: vec![field("C", "x"), field("a", "b:99")],
            body: b"body".to_vec(),
            trailers: Vec::new(),
            broken: None,
        };
        assert_eq!(exchange.check(std::slice::from_ref(&good), ":99"), None);
        assert!(exchange.check(&[], "").is_some());
        for bad in [
            Response { status: 201, ..good.clone() },
            Response { fields: vec![field("C", "x")], ..good.clone() },
            Response { fields: vec![field("A", "b")], ..good.clone() },
            Response { body: b"other".to_vec(), ..good.clone() },
        ] {
            assert!(exchange.check(std::slice::from_ref(&bad), ":99").is_some(), "{bad}");
        }
    }

    #[test]
    fn interim_responses_count_if_they_are_written() {
        let text = "GET /\n\nHTTP/1.1 103 Early Hints\nA: b\n\nHTTP/1.1 200 OK\n\nbody\n";
        let with_hint = exchange(text).unwrap();
        assert_eq!((with_hint.heads.len(), with_hint.body.as_deref()), (2, Some("body\n")));
        let without = exchange("GET /\n\nHTTP/1.1 200 OK\n\nbody\n").unwrap();
        let response = |status, reason: &str, body: &str| Response {
            version: "HTTP/1.1".to_owned(),
            status,
            reason: reason.to_owned(),
            fields: vec![("A".to_owned(), "b".to_owned())],
            body: body.into(),
            trailers: Vec::new(),
            broken: None,
        };
        let (hint, last) = (response(103, "Early Hints", ""), response(200, "OK", "body"));
        let both = [hint, last.clone()];
        assert_eq!((with_hint.check(&both, ":9"), without.check(&both, ":9")), (None, None));
        assert!(with_hint.check(&[last], ":9").is_some());
    }
}
