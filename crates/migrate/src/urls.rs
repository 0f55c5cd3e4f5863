//! Requests that were made before: access logs and lists of URLs.

use std::collections::HashMap;
use std::io::BufRead;

/// Bytes of a log, bytes of a line, and kinds of requests, that are read.
const LOG_BYTES_MAX: u64 = 256 << 20;
const LINE_BYTES_MAX: usize = 16 << 10;
const KINDS_MAX: usize = 50_000;

/// A request from a log or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Whether it begins with `https`; unknown for a path.
    pub(crate) is_encrypted: Option<bool>,
    pub(crate) host: Option<String>,
    /// The path and the query.
    pub(crate) target: String,
}

impl Url {
    /// A line: a URL, or a path that begins with a slash. Empty lines and comments give nothing.
    ///
    /// # Errors
    /// It is neither.
    pub(crate) fn of_line(line: &str) -> Result<Option<Url>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let wrong = || format!("\"{line}\" is neither a path such as /a nor a URL such as http://host/a");
        let (is_encrypted, rest) = match line.split_once("://") {
            Some(("http", rest)) => (Some(false), rest),
            Some(("https", rest)) => (Some(true), rest),
            _ if line.starts_with('/') => (None, line),
            _ => return Err(wrong()),
        };
        let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.is_empty() { "/" } else { target };
        if !line.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let host = host.split(':').next().filter(|host| !host.is_empty()).map(str::to_owned);
        Ok(Some(Url { is_encrypted, host, target: target.to_owned() }))
    }
}

/// The GET and HEAD requests of an access log, the most frequent first, and one of each kind. Two paths that differ only in
/// their digits are of one kind, and values in queries do not matter.
pub(crate) fn of_log(log: impl BufRead) -> std::io::Result<Vec<Url>> {
    let mut log = log.take(LOG_BYTES_MAX);
    let mut kinds: HashMap<String, (usize, usize, String)> = HashMap::new();
    let mut line = Vec::new();
    while log.read_until(b'\n', &mut line)? > 0 {
        if line.len() <= LINE_BYTES_MAX
            && let Some(target) = target(&line)
        {
            let (next, kind) = (kinds.len(), kind(&target));
            if let Some((count, ..)) = kinds.get_mut(&kind) {
                *count += 1;
            } else if next < KINDS_MAX {
                kinds.insert(kind, (1, next, target));
            }
        }
        line.clear();
    }
    let mut kinds: Vec<_> = kinds.into_values().collect();
    kinds.sort_by_key(|(count, first, _)| (std::cmp::Reverse(*count), *first));
    let url = |(_, _, target)| Url { is_encrypted: None, host: None, target };
    Ok(kinds.into_iter().map(url).collect())
}

/// The target of the request line that a log's line has in quotes.
fn target(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    text.split('"').find_map(|part| {
        let mut words = part.split(' ');
        let method = words.next().filter(|method| matches!(*method, "GET" | "HEAD"));
        let target = method.and(words.next()).filter(|target| target.starts_with('/'))?;
        let is_request = words.next().is_some_and(|version| version.starts_with("HTTP/"));
        (is_request && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'))
            .then(|| target.split('#').next().unwrap_or_default().to_owned())
    })
}

fn kind(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut kind = String::new();
    for c in path.chars() {
        match c {
            '0'..='9' if kind.ends_with('0') => {}
            '0'..='9' => kind.push('0'),
            c => kind.push(c),
        }
    }
    for name in query.split('&').filter_map(|pair| pair.split('=').next()) {
        kind.push('&');
        kind.push_str(name);
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_urls_or_paths() {
        let url = Url::of_line("https://a.example:8443/b?c#d").unwrap().unwrap();
        assert_eq!(
            (url.is_encrypted, url.host.as_deref(), url.target.as_str()),
            (Some(true), Some("a.example"), "/b?c")
        );
        assert_eq!(Url::of_line("/x").unwrap().unwrap().host, None);
        assert_eq!(Url::of_line(" # comment").unwrap(), None);
        for wrong in ["x", "ftp://a/", "/a b"] {
            assert!(Url::of_line(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn kinds_of_a_log_by_frequency() {
        let line = |request: &str| {
            format!("127.0.0.1 - - [29/Nov/2026:00:00:00 +0000] \"{request}\" 200 1 \"-\" \"x\"\n")
        };
        let log: String = [
            "GET /once HTTP/1.1",
            "GET /post/17?x=1 HTTP/1.1",
            "POST /post/18 HTTP/1.1",
            "GET /post/19?x=2 HTTP/2.0",
            "\\x16\\x03",
            "HEAD /post/19 HTTP/1.1",
        ]
        .iter()
        .map(|request| line(request))
        .collect();
        let targets: Vec<String> =
            of_log(log.as_bytes()).unwrap().into_iter().map(|url| url.target).collect();
        assert_eq!(targets, ["/post/17?x=1", "/once", "/post/19"]);
    }
}
