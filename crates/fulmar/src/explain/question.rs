//! Turns a URL into the bytes of a request.

use std::net::IpAddr;

use server::Question;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    is_encrypted: bool,
    /// The host, with the port if the URL has one.
    authority: String,
    port: u16,
    /// The path and the query, as they were written.
    target: String,
}

impl Url {
    /// Parses a URL: `http://HOST[:PORT][/PATH]` or `https://…`.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has to begin with http:// or https://")?;
        let is_encrypted = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err("it has to begin with http:// or https://".to_owned()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        if target.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err("write a space or a control character as % and two hexadecimal digits".to_owned());
        }
        // The last colon, if it is not one inside of an IPv6 address.
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port.parse().map_err(|_| "its port is not a number")?,
            _ => {
                if is_encrypted {
                    443
                } else {
                    80
                }
            }
        };
        Ok(Url { is_encrypted, authority: authority.to_owned(), port, target })
    }

    /// The request for this URL.
    pub(super) fn question(
        &self,
        method: &str,
        fields: &[String],
        client: IpAddr,
        address: Option<IpAddr>,
    ) -> Question {
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.target);
        let named =
            |field: &&String| field.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
        if !fields.iter().any(|field| named(&field)) && !self.authority.is_empty() {
            head.push_str(&format!("Host: {}\r\n", self.authority));
        }
        for field in fields.iter().filter(|field| !field.trim().ends_with(':') || !named(field)) {
            head.push_str(&format!("{field}\r\n"));
        }
        head.push_str("\r\n");
        let is_encrypted = self.is_encrypted;
        Question { head: head.into_bytes(), client, port: self.port, address, is_encrypted }
    }
}

/// Splits a line into words. Single or double quotes join several words.
///
/// # Errors
/// A quote is not closed.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("a quote is not closed: {line}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::{Url, words};

    fn head(url: &str, fields: &[&str]) -> String {
        let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
        let question = Url::parse(url).unwrap().question("GET", &fields, "127.0.0.1".parse().unwrap(), None);
        format!("{} {}", question.port, String::from_utf8(question.head).unwrap())
    }

    #[test]
    fn urls_become_requests() {
        assert_eq!(head("http://a", &[]), "80 GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(head("https://a:8443?b#c", &[]), "8443 GET /?b HTTP/1.1\r\nHost: a:8443\r\n\r\n");
        assert_eq!(head("https://[::1]/%20", &[]), "443 GET /%20 HTTP/1.1\r\nHost: [::1]\r\n\r\n");
        let host = head("http://a/b", &["X: y", "host: c"]);
        assert_eq!(host, "80 GET /b HTTP/1.1\r\nX: y\r\nhost: c\r\n\r\n");
        assert_eq!(head("http://a/", &["Host:"]), "80 GET / HTTP/1.1\r\n\r\n", "none at all");
        for wrong in ["a/b", "ftp://a", "http://a:b/", "http://a/b c"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        let split = |line: &str| words(line).unwrap().join("|");
        assert_eq!(split("-H 'A: b \"c\"'  url"), "-H|A: b \"c\"|url");
        assert_eq!(split("a\"b c\"d \t ''"), "ab cd|");
        assert!(words("'a").is_err());
    }
}
