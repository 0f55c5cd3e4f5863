//! Answers as they came over the wire, and the framing that separates them (RFC 9112, section 6).

use std::fmt;

/// One response. Field order and case are kept; the body is without transfer coding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1`, or empty for an answer without a head (HTTP/0.9).
    pub version: String,
    /// Status code; 0 for an answer without a head.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// Fields in the order received.
    pub fields: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
    /// Fields after a chunked body, in the order received.
    pub trailers: Vec<(String, String)>,
    /// What is wrong with the framing: the peer closed in the middle, or a chunk made no sense.
    pub broken: Option<&'static str>,
}

impl Response {
    /// First value of a field, whatever the case of its name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server announced the end of the connection.
    pub fn announces_close(&self) -> bool {
        match self.field("Connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => true,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => false,
            _ => self.version != "HTTP/1.1",
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} {}", self.version, self.status, self.reason)?;
        for (name, value) in &self.fields {
            writeln!(f, "{name}: {value}")?;
        }
        writeln!(f)?;
        const SHOWN: usize = 1500;
        let shown = &self.body[..self.body.len().min(SHOWN)];
        write!(f, "{}", shown.escape_ascii().to_string().replace("\\r\\n", "\n").replace("\\n", "\n"))?;
        if self.body.len() > SHOWN {
            write!(f, "… ({} bytes)", self.body.len())?;
        }
        for (name, value) in &self.trailers {
            write!(f, "\n[trailer] {name}: {value}")?;
        }
        if let Some(broken) = self.broken {
            write!(f, "\n[broken: {broken}]")?;
        }
        Ok(())
    }
}

/// Takes the first response to `method` off `bytes`: the response and how many bytes it used. `None` when
/// more bytes are needed; with `ended` (the peer closed) there is always an answer unless `bytes` is empty.
pub fn take(method: &str, bytes: &[u8], ended: bool) -> Option<(Response, usize)> {
    if bytes.is_empty() {
        return None;
    }
    let start = b"HTTP/";
    if bytes.len() >= start.len() && !bytes.starts_with(start) {
        let headless = Response { body: bytes.to_vec(), ..Response::default() };
        return ended.then_some((headless, bytes.len()));
    }
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        let broken = Some("closed within the head");
        let rest = Response { body: bytes.to_vec(), broken, ..Response::default() };
        return ended.then_some((rest, bytes.len()));
    };
    let mut response = head(&bytes[..end]);
    let used = body(method, &mut response, &bytes[end + 4..], ended)?;
    Some((response, end + 4 + used))
}

fn head(bytes: &[u8]) -> Response {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().splitn(3, ' ').map(str::to_owned);
    let mut response = Response { version: words.next().unwrap_or_default(), ..Response::default() };
    response.status = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    response.reason = words.next().unwrap_or_default();
    response.fields = lines.map(field).collect();
    response
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.strip_prefix(' ').unwrap_or(value).to_owned())
}

/// Reads the body into `response`; gives the number of bytes used, or `None` when more are needed.
fn body(method: &str, response: &mut Response, bytes: &[u8], ended: bool) -> Option<usize> {
    if method == "HEAD" || response.status < 200 || matches!(response.status, 204 | 304) {
        return Some(0);
    }
    if response.field("Transfer-Encoding").is_some() {
        return chunks(response, bytes, ended);
    }
    let length = match response.field("Content-Length").map(str::parse::<usize>) {
        Some(Ok(length)) => length,
        Some(Err(_)) => {
            response.broken = Some("Content-Length is no number");
            return Some(bytes.len());
        }
        None if ended => bytes.len(),
        None => return None,
    };
    if bytes.len() < length {
        if !ended {
            return None;
        }
        response.body = bytes.to_vec();
        response.broken = Some("closed within the body");
        return Some(bytes.len());
    }
    response.body = bytes[..length].to_vec();
    Some(length)
}

fn chunks(response: &mut Response, bytes: &[u8], ended: bool) -> Option<usize> {
    let mut at = 0;
    response.body.clear();
    while let Some(line) = find(&bytes[at..], b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + line])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        let data = at + line + 2;
        // A size beyond the end of memory is no size.
        let Some(size) = size.filter(|size| data.checked_add(*size).is_some_and(|end| end < usize::MAX - 2))
        else {
            response.broken = Some("bad chunk size");
            return Some(bytes.len());
        };
        if size == 0 {
            return trailers(response, bytes, data, ended);
        }
        if bytes.len() < data + size + 2 {
            break;
        }
        if &bytes[data + size..data + size + 2] != b"\r\n" {
            response.broken = Some("chunk data runs over");
            return Some(bytes.len());
        }
        response.body.extend_from_slice(&bytes[data..data + size]);
        at = data + size + 2;
    }
    response.broken = Some("closed within a chunk");
    ended.then_some(bytes.len())
}

/// Reads the fields from `at` on up to the empty line.
fn trailers(response: &mut Response, bytes: &[u8], mut at: usize, ended: bool) -> Option<usize> {
    response.trailers.clear();
    while let Some(length) = find(&bytes[at..], b"\r\n") {
        let line: String = bytes[at..at + length].iter().map(|&byte| char::from(byte)).collect();
        at += length + 2;
        if line.is_empty() {
            return Some(at);
        }
        response.trailers.push(field(&line));
    }
    response.broken = Some("closed within the trailers");
    ended.then_some(bytes.len())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_frames_and_leaves_the_next_response() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX:y\r\n\r\nabHTTP/1.1 ";
        let (response, used) = take("GET", bytes, false).unwrap();
        assert_eq!((response.status, response.reason.as_str(), response.text().as_str()), (200, "OK", "ab"));
        assert_eq!((response.field("x"), &bytes[used..]), (Some("y"), &b"HTTP/1.1 "[..]));
    }

    #[test]
    fn head_and_bodiless_statuses_have_no_body() {
        let bytes = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(take("GET", bytes, false).unwrap().1, bytes.len());
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(take("HEAD", bytes, false).unwrap().1, bytes.len());
        assert!(take("GET", bytes, false).is_none());
        assert!(take("GET", bytes, true).unwrap().0.broken.is_some());
    }

    #[test]
    fn chunked_is_decoded_and_checked() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = format!("{head}3\r\nabc\r\n0\r\n\r\n");
        let (response, used) = take("GET", whole.as_bytes(), false).unwrap();
        assert_eq!((response.text().as_str(), used), ("abc", whole.len()));
        assert!(take("GET", format!("{head}3\r\nab").as_bytes(), false).is_none());
        let over = format!("{head}3\r\nabcd\r\n0\r\n\r\n");
        assert!(take("GET", over.as_bytes(), false).unwrap().0.broken.is_some());
        let with_trailers = format!("{head}0\r\nA: b\r\nC:d\r\n\r\nrest");
        let (response, used) = take("GET", with_trailers.as_bytes(), false).unwrap();
        assert_eq!(response.trailers, [("A".into(), "b".into()), ("C".into(), "d".into())]);
        assert_eq!(&with_trailers[used..], "rest");
        assert!(take("GET", &with_trailers.as_bytes()[..used - 2], false).is_none());
    }

    #[test]
    fn an_answer_without_a_head_runs_to_the_end() {
        assert!(take("GET", b"plain text", false).is_none());
        let (response, used) = take("GET", b"plain text", true).unwrap();
        assert_eq!((response.status, used, response.text().as_str()), (0, 10, "plain text"));
        assert!(take("GET", b"", true).is_none());
    }
}
