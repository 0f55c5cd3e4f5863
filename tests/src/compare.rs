//! When two servers' answers count as the same, and how a difference is shown.

use std::fmt::Write;
use std::time::SystemTime;

use crate::client::Answer;
use crate::inflate;
use crate::response::Response;
use crate::site::Running;

/// Seconds by which time-dependent values may differ, as the two servers answer one after the other.
const TOLERANCE: i64 = 2;

/// Replaces what names the instance and not the behaviour: ports, log directory, product, boundaries, Date.
pub fn normalise(answer: &Answer, running: &Running) -> Answer {
    let mut answer = answer.clone();
    for response in &mut answer.responses {
        let replaced = Replaced::new(response, running);
        let length = response.body.len().to_string();
        response.body = inflate::content(response);
        let unseen_page = response.status >= 300
            && response.body.is_empty()
            && response.field("Content-Length") != Some("0");
        let body = replaced.bytes(&response.body);
        for (name, value) in &mut response.fields {
            let own_length = name.eq_ignore_ascii_case("Content-Length") && *value == length;
            *value = match name.to_ascii_lowercase().as_str() {
                "server" => "*".to_owned(),
                "date" => date(value).map_or_else(|| format!("bad date {value}"), |_| "*".to_owned()),
                // The length of a page that HEAD does not show, and that names the product.
                "content-length" if unseen_page => "*".to_owned(),
                _ if own_length => body.len().to_string(),
                _ => replaced.text(value),
            };
        }
        response.body = body;
        for (_, value) in &mut response.trailers {
            *value = replaced.text(value);
        }
    }
    answer
}

/// Describes how normalised answers differ; `None` when they agree. The originals give the times that
/// relative values such as Expires are measured from.
pub fn difference(left: &Compared<'_>, right: &Compared<'_>) -> Option<String> {
    let (a, b) = (&left.normal, &right.normal);
    if a.responses.len() != b.responses.len() {
        return Some(format!("{} responses, not {}", b.responses.len(), a.responses.len()));
    }
    let mut found = String::new();
    for (at, (x, y)) in a.responses.iter().zip(&b.responses).enumerate() {
        let times = [date_of(&left.plain.responses[at]), date_of(&right.plain.responses[at])];
        describe(&mut found, x, y, times);
    }
    if a.end != b.end {
        let _ = writeln!(found, "connection: {:?}, not {:?}", b.end, a.end);
    }
    if found.is_empty() { None } else { Some(found) }
}

/// An answer as it came and as it is compared.
#[derive(Debug)]
pub struct Compared<'a> {
    /// As received.
    pub plain: &'a Answer,
    /// After `normalise`.
    pub normal: Answer,
}

fn describe(found: &mut String, x: &Response, y: &Response, times: [Option<SystemTime>; 2]) {
    let line = |r: &Response| format!("{} {} {}", r.version, r.status, r.reason);
    if line(x) != line(y) {
        let _ = writeln!(found, "status line: {:?}, not {:?}", line(y), line(x));
    }
    let mut unmatched: Vec<&(String, String)> = y.fields.iter().collect();
    for field in &x.fields {
        match unmatched.iter().position(|other| same_field(field, other, times)) {
            Some(at) => drop(unmatched.remove(at)),
            None => drop(writeln!(found, "missing field: {}: {}", field.0, field.1)),
        }
    }
    for (name, value) in unmatched {
        let _ = writeln!(found, "extra field: {name}: {value}");
    }
    if x.body != y.body {
        let _ = writeln!(found, "body differs ({} bytes, not {})", y.body.len(), x.body.len());
    }
    if x.trailers != y.trailers {
        let _ = writeln!(found, "trailers: {:?}, not {:?}", y.trailers, x.trailers);
    }
    if x.broken != y.broken {
        let _ = writeln!(found, "framing: {:?}, not {:?}", y.broken, x.broken);
    }
}

fn same_field(x: &(String, String), y: &(String, String), times: [Option<SystemTime>; 2]) -> bool {
    if x.0 != y.0 || x.1 == y.1 {
        return x == y;
    }
    match x.0.as_str() {
        "Expires" => match (distance(&x.1, times[0]), distance(&y.1, times[1])) {
            (Some(left), Some(right)) => (left - right).abs() <= TOLERANCE,
            _ => false,
        },
        "Cache-Control" => match (max_age(&x.1), max_age(&y.1)) {
            (Some(left), Some(right)) => (left - right).abs() <= TOLERANCE,
            _ => false,
        },
        _ => false,
    }
}

/// Seconds from a response's Date to another date.
fn distance(text: &str, from: Option<SystemTime>) -> Option<i64> {
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_secs()).ok())
    };
    Some(seconds(date(text)?)? - seconds(from?)?)
}

fn max_age(text: &str) -> Option<i64> {
    text.strip_prefix("max-age=")?.parse().ok()
}

/// An IMF-fixdate (RFC 9110, section 5.6.7), the only form that a server may send.
fn date(text: &str) -> Option<SystemTime> {
    let time = httpdate::parse_http_date(text).ok()?;
    (httpdate::fmt_http_date(time) == text).then_some(time)
}

fn date_of(response: &Response) -> Option<SystemTime> {
    date(response.field("Date")?)
}

/// What is replaced in one response.
struct Replaced {
    ports: Vec<(String, &'static [u8])>,
    pairs: Vec<(Vec<u8>, &'static [u8])>,
}

impl Replaced {
    fn new(response: &Response, running: &Running) -> Replaced {
        const PORTS: [&[u8]; 4] = [b"PORT0", b"PORT1", b"PORT2", b"PORT3"];
        let ports = running.ports().map(|(n, port)| (port.to_string(), PORTS[n])).collect();
        let mut pairs: Vec<(Vec<u8>, &'static [u8])> =
            vec![(format!("logs-{}", running.server().name()).into_bytes(), b"logs")];
        let boundary = response.field("Content-Type").and_then(|value| value.split_once("boundary="));
        if let Some((_, boundary)) = boundary {
            pairs.push((boundary.as_bytes().to_vec(), b"BOUNDARY"));
        }
        Replaced { ports, pairs }
    }

    fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (port, to) in &self.ports {
            bytes = replace_number(&bytes, port, to);
        }
        for (from, to) in &self.pairs {
            bytes = replace(&bytes, from, to);
        }
        mask_product(&bytes)
    }
}

/// The built-in pages name the product between a rule and the end of the page.
fn mask_product(bytes: &[u8]) -> Vec<u8> {
    const OPEN: &[u8] = b"<hr><center>";
    let Some(open) = position(bytes, OPEN) else { return bytes.to_vec() };
    let start = open + OPEN.len();
    let Some(length) = position(&bytes[start..], b"</center>") else { return bytes.to_vec() };
    [&bytes[..start], b"PRODUCT", &bytes[start + length..]].concat()
}

/// Replaces a number, but no digits of a longer one: a port such as 34567 is also within 0123456789.
pub fn replace_number(bytes: &[u8], number: &str, to: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let end = at + number.len();
        if bytes[at..].starts_with(number.as_bytes()) && !digit(out.last()) && !digit(bytes.get(end)) {
            out.extend_from_slice(to);
            at = end;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    out
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = position(rest, from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::End;

    fn answer(fields: &[(&str, &str)], body: &str) -> Answer {
        let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let response = Response { status: 200, fields, body: body.into(), ..Response::default() };
        Answer { responses: vec![response], end: End::Kept }
    }

    fn compare(left: &Answer, right: &Answer) -> Option<String> {
        let left = Compared { plain: left, normal: left.clone() };
        difference(&left, &Compared { plain: right, normal: right.clone() })
    }

    #[test]
    fn order_is_free_and_names_are_not() {
        let left = answer(&[("A", "1"), ("B", "2"), ("A", "3")], "x");
        assert_eq!(compare(&left, &answer(&[("A", "3"), ("A", "1"), ("B", "2")], "x")), None);
        assert!(compare(&left, &answer(&[("a", "1"), ("B", "2"), ("A", "3")], "x")).is_some());
        assert!(compare(&left, &answer(&[("A", "1"), ("B", "2")], "x")).is_some());
        assert!(compare(&left, &answer(&[("A", "1"), ("B", "2"), ("A", "3"), ("C", "")], "x")).is_some());
        assert!(compare(&left, &answer(&[("A", "1"), ("B", "2"), ("A", "3")], "y")).is_some());
        assert!(compare(&left, &Answer { end: End::Closed, ..left.clone() }).is_some());
    }

    #[test]
    fn expires_is_measured_from_date() {
        let at = |date, expires| answer(&[("Date", date), ("Expires", expires)], "");
        let left = at("Tue, 02 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 04:04:05 GMT");
        let found = compare(&left, &at("Tue, 02 Jan 2024 03:04:06 GMT", "Tue, 02 Jan 2024 04:04:06 GMT"));
        assert!(!found.unwrap().contains("Expires"));
        let found = compare(&left, &at("Tue, 02 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 04:14:05 GMT"));
        assert!(found.unwrap().contains("Expires"));
    }

    #[test]
    fn product_is_masked_only_where_pages_name_it() {
        let page = b"<hr><center>nginx/1.31.3</center>\r\n";
        assert_eq!(mask_product(page), b"<hr><center>PRODUCT</center>\r\n");
        assert_eq!(mask_product(b"nginx/1.31.3"), b"nginx/1.31.3");
        assert_eq!(replace(b"a-aa", b"a", b"bc"), b"bc-bcbc");
    }

    #[test]
    fn digits_of_longer_numbers_are_no_port() {
        assert_eq!(replace_number(b"0123456789 34567", "34567", b"PORT"), b"0123456789 PORT");
        assert_eq!(replace_number(b":34567/,345678", "34567", b"PORT"), b":PORT/,345678");
    }
}
