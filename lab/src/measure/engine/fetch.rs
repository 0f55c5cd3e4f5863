//! Single requests: to check that a contender's answers are correct before it is measured, and for measurements of
//! connections that stay open after a request.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::measure::tls;

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The fields by their names in lower case; of several of one name, the last.
    pub fields: BTreeMap<String, String>,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// The content, without its framing.
    pub content: Vec<u8>,
}

/// What may carry a connection.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A connection to a contender. Its reader may hold bytes that were read ahead.
pub type Connection = BufReader<Box<dyn Stream>>;

/// How long connecting, and each read, may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How long a whole answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The longest answer, with its head.
const LONGEST: u64 = 64 << 20;

/// The longest head of an answer.
const HEAD_LONGEST: usize = 1 << 20;

/// Opens a connection.
pub fn connect(address: SocketAddr, tls: bool) -> Result<Connection> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    let stream: Box<dyn Stream> = if tls { Box::new(tls::client(stream)?) } else { Box::new(stream) };
    Ok(BufReader::with_capacity(4096, stream))
}

/// Asks for a path.
pub fn get(connection: &mut Connection, path: &str, fields: &[&str]) -> Result<Answer> {
    get_from(connection, "localhost", path, fields)
}

/// As `get`, from a host of another name.
pub fn get_from(connection: &mut Connection, host: &str, path: &str, fields: &[&str]) -> Result<Answer> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{}\r\n", lines(fields));
    exchange(connection, request.as_bytes()).with_context(|| format!("GET {path}"))
}

/// Sends content to a path.
pub fn post(connection: &mut Connection, path: &str, fields: &[&str], content: &[u8]) -> Result<Answer> {
    let (length, fields) = (content.len(), lines(fields));
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    exchange(connection, &[head.as_bytes(), content].concat()).with_context(|| format!("POST {path}"))
}

fn lines(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("{field}\r\n")).collect()
}

fn exchange(connection: &mut Connection, request: &[u8]) -> Result<Answer> {
    connection.get_mut().write_all(request)?;
    connection.get_mut().flush()?;
    let until = Instant::now() + ANSWER_LIMIT;
    read(&mut Limited { input: connection, until, left: LONGEST })
}

/// The bytes of an answer. Reading fails when the time is over, or when there are too many.
struct Limited<'a> {
    input: &'a mut dyn BufRead,
    until: Instant,
    left: u64,
}

impl BufRead for Limited<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if Instant::now() >= self.until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer takes too long"));
        }
        let bytes = self.input.fill_buf()?;
        if self.left == 0 && !bytes.is_empty() {
            return Err(io::Error::other("the answer is too long"));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&bytes[..bytes.len().min(most)])
    }

    fn consume(&mut self, count: usize) {
        self.left -= count as u64;
        self.input.consume(count);
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// Reads an answer to a GET or a POST.
fn read(input: &mut Limited<'_>) -> Result<Answer> {
    let mut head = String::new();
    let mut line = String::new();
    loop {
        line.clear();
        let count = input.read_line(&mut line)?;
        ensure!(count > 0, "the connection ended within a head");
        head.push_str(&line);
        ensure!(head.len() <= HEAD_LONGEST, "the head of the answer is too long");
        if line == "\r\n" || line == "\n" {
            break;
        }
    }
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no status in {first:?}"))?;
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let fields: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let content = match fields.get("content-length") {
        _ if matches!(status, 101 | 204 | 304) => Vec::new(),
        _ if fields.get("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) => {
            chunks(input)?
        }
        Some(length) => exactly(input, length.parse()?)?,
        None => {
            let mut content = Vec::new();
            input.read_to_end(&mut content)?;
            content
        }
    };
    Ok(Answer { status, fields, head_bytes: head.len(), content })
}

fn exactly(input: &mut Limited<'_>, length: u64) -> Result<Vec<u8>> {
    ensure!(length <= LONGEST, "{length} bytes are too many");
    let mut content = vec![0; usize::try_from(length)?];
    input.read_exact(&mut content)?;
    Ok(content)
}

fn chunks(input: &mut Limited<'_>) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).with_context(|| format!("no chunk: {line:?}"))?;
        content.extend(exactly(input, size)?);
        if size == 0 {
            return trailers(input).map(|()| content);
        }
        line.clear();
        input.read_line(&mut line)?;
        ensure!(line == "\r\n", "a chunk ends with {line:?}");
    }
}

/// Reads fields after the content, and drops them.
fn trailers(input: &mut Limited<'_>) -> Result<()> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        input.read_line(&mut line)?;
        ensure!(line.ends_with("\r\n"), "content ends with {line:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> Result<Answer> {
        let until = Instant::now() + ANSWER_LIMIT;
        super::read(&mut Limited { input: &mut bytes, until, left: LONGEST })
    }

    #[test]
    fn time_and_length_of_an_answer_are_limited() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let now = Instant::now();
        for (until, left, why) in [
            (now, LONGEST, "the answer takes too long"),
            (now + ANSWER_LIMIT, 53, "the answer is too long"),
            (now + ANSWER_LIMIT, 20, "the answer is too long"),
        ] {
            let error =
                super::read(&mut Limited { input: &mut chunked.as_bytes(), until, left }).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
        let long = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(200_000));
        assert_eq!(read(long.as_bytes()).unwrap_err().to_string(), "the head of the answer is too long");
    }

    #[test]
    fn reads_an_answer_or_says_what_is_wrong() {
        let good = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 3\r\n\r\nabcd";
        let answer = read(good.as_bytes()).unwrap();
        assert_eq!((answer.status, answer.content.as_slice(), answer.head_bytes), (200, &b"abc"[..], 49));
        assert_eq!(answer.fields["server"], "x");
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n";
        assert_eq!(read(chunked.as_bytes()).unwrap().content, b"abcd");
        let trailed = chunked.replace("0\r\n", "0\r\ngrpc-status: 0\r\n");
        assert_eq!(read(trailed.as_bytes()).unwrap().content, b"abcd");
        let closed = "HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!(read(closed.as_bytes()).unwrap().content, b"abc");
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: b\r\n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
