//! When two servers' responses count as the same, and how they differ.

use std::fmt;
use std::io::Read;
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;

use crate::response::Response;

/// Seconds by which time-dependent values may differ, as the two servers answer one after the other.
const TOLERANCE_SECONDS: i64 = 2;
/// Bytes of content without its coding.
const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// One way in which a response differs from the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The status line: expected, and received.
    Status(String, String),
    /// A header of the expected response that the other one does not have: name and value.
    Missing(String, String),
    /// A header that the expected response does not have: name and value.
    Extra(String, String),
    /// The content: expected length, and received length.
    Body(usize, usize),
    /// Header fields after the content.
    Trailers,
    /// The framing of the content: what is wrong with it in the expected response, and in the other one.
    Framing(Option<&'static str>, Option<&'static str>),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Status(expected, got) => write!(f, "status line: {got:?}, not {expected:?}"),
            Difference::Missing(name, value) => write!(f, "missing field: {name}: {value}"),
            Difference::Extra(name, value) => write!(f, "extra field: {name}: {value}"),
            Difference::Body(expected, got) => write!(f, "body differs ({got} bytes, not {expected})"),
            Difference::Trailers => write!(f, "trailers differ"),
            Difference::Framing(expected, got) => write!(f, "framing: {got:?}, not {expected:?}"),
        }
    }
}

/// How a response differs from the expected one. Both are normalised; `dates` are their `Date` headers before that, from which
/// relative times such as `Expires` are measured.
pub fn differences(expected: &Response, got: &Response, dates: [Option<SystemTime>; 2]) -> Vec<Difference> {
    let mut found = Vec::new();
    let line = |r: &Response| format!("{} {} {}", r.version, r.status, r.reason);
    if line(expected) != line(got) {
        found.push(Difference::Status(line(expected), line(got)));
    }
    let mut unmatched: Vec<&(String, String)> = got.fields.iter().collect();
    for field in &expected.fields {
        match unmatched.iter().position(|other| same_field(field, other, dates)) {
            Some(at) => drop(unmatched.remove(at)),
            None => found.push(Difference::Missing(field.0.clone(), field.1.clone())),
        }
    }
    let extra = unmatched.into_iter().map(|(name, value)| Difference::Extra(name.clone(), value.clone()));
    found.extend(extra);
    if expected.body != got.body {
        found.push(Difference::Body(expected.body.len(), got.body.len()));
    }
    if expected.trailers != got.trailers {
        found.push(Difference::Trailers);
    }
    if expected.broken != got.broken {
        found.push(Difference::Framing(expected.broken, got.broken));
    }
    found
}

/// What is replaced in responses because it names the instance and not the behaviour.
#[derive(Clone, Debug, Default)]
pub struct Replaced {
    /// Numbers such as ports, which are not replaced inside of longer numbers.
    pub numbers: Vec<(String, &'static [u8])>,
    /// Other texts.
    pub texts: Vec<(Vec<u8>, &'static [u8])>,
}

impl Replaced {
    /// Replaces in one response also its product, its boundary and its date. Content loses its coding.
    pub fn normalise(&self, response: &mut Response) {
        let replaced = self.with_boundary(response);
        let length = response.body.len().to_string();
        response.body = content(response);
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

    fn with_boundary(&self, response: &Response) -> Replaced {
        let mut replaced = self.clone();
        let boundary = response.field("Content-Type").and_then(|value| value.split_once("boundary="));
        if let Some((_, boundary)) = boundary {
            replaced.texts.push((boundary.as_bytes().to_vec(), b"BOUNDARY"));
        }
        replaced
    }

    fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (number, to) in &self.numbers {
            bytes = replace_number(&bytes, number, to);
        }
        for (from, to) in &self.texts {
            bytes = replace(&bytes, from, to);
        }
        mask_product(&bytes)
    }
}

/// The content of a response without its coding, gzip or brotli; a body that is broken, or has no such coding, stays
/// as it is.
pub fn content(response: &Response) -> Vec<u8> {
    let body = response.body.as_slice();
    let plain = match response.field("Content-Encoding") {
        Some("gzip") => whole(body, MultiGzDecoder::new(body)),
        Some("br") => whole(body, brotli::Decompressor::new(body, 4096)),
        _ => None,
    };
    plain.unwrap_or_else(|| response.body.clone())
}

/// What was compressed in the gzip format; `None` where it is broken or its end is missing.
pub fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    whole(bytes, MultiGzDecoder::new(bytes))
}

fn whole(coded: &[u8], decoder: impl Read) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let is_whole = !coded.is_empty() && decoder.take(CONTENT_BYTES_MAX).read_to_end(&mut plain).is_ok();
    is_whole.then_some(plain)
}

fn same_field(x: &(String, String), y: &(String, String), dates: [Option<SystemTime>; 2]) -> bool {
    if x.0 != y.0 || x.1 == y.1 {
        return x == y;
    }
    let near = |left: Option<i64>, right: Option<i64>| match (left, right) {
        (Some(left), Some(right)) => (left - right).abs() <= TOLERANCE_SECONDS,
        _ => false,
    };
    match x.0.as_str() {
        "Expires" => near(distance(&x.1, dates[0]), distance(&y.1, dates[1])),
        "Cache-Control" => near(max_age(&x.1), max_age(&y.1)),
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
    text.strip_prefix("max-age=")?.parse().ok().filter(|age: &i64| age.unsigned_abs() < 1 << 40)
}

/// The `Date` of a response.
pub fn date_of(response: &Response) -> Option<SystemTime> {
    date(response.field("Date")?)
}

/// An IMF-fixdate (RFC 9110, section 5.6.7), the only form that a server may send.
fn date(text: &str) -> Option<SystemTime> {
    let time = httpdate::parse_http_date(text).ok()?;
    (httpdate::fmt_http_date(time) == text).then_some(time)
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

    fn response(fields: &[(&str, &str)], body: &str) -> Response {
        let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Response { status: 200, fields, body: body.into(), ..Response::default() }
    }

    fn compare(left: &Response, right: &Response) -> Vec<String> {
        let dates = [date_of(left), date_of(right)];
        differences(left, right, dates).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn order_is_free_and_names_are_not() {
        let left = response(&[("A", "1"), ("B", "2"), ("A", "3")], "x");
        let none: [&str; 0] = [];
        assert_eq!(compare(&left, &response(&[("A", "3"), ("A", "1"), ("B", "2")], "x")), none);
        assert!(!compare(&left, &response(&[("a", "1"), ("B", "2"), ("A", "3")], "x")).is_empty());
        assert!(!compare(&left, &response(&[("A", "1"), ("B", "2")], "x")).is_empty());
        assert!(!compare(&left, &response(&[("A", "1"), ("B", "2"), ("A", "3"), ("C", "")], "x")).is_empty());
        let body = compare(&left, &response(&[("A", "1"), ("B", "2"), ("A", "3")], "yy"));
        assert_eq!(body, ["body differs (2 bytes, not 1)"]);
    }

    #[test]
    fn expires_is_measured_from_date() {
        let at = |date, expires| response(&[("Date", date), ("Expires", expires)], "");
        let left = at("Tue, 02 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 04:04:05 GMT");
        let found = compare(&left, &at("Tue, 02 Jan 2024 03:04:06 GMT", "Tue, 02 Jan 2024 04:04:06 GMT"));
        assert!(!found.iter().any(|text| text.contains("Expires")));
        let found = compare(&left, &at("Tue, 02 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 04:14:05 GMT"));
        assert!(found.iter().any(|text| text.contains("Expires")));
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
    }
}
