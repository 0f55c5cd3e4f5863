//! One request, to see that a server answers right before it is measured.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content: Vec<u8>,
}

/// How long a server may take for an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks for a path on a connection of its own, and leaves it open for whoever keeps the result.
pub(super) fn get(address: SocketAddr, path: &str, fields: &[&str]) -> Result<(Answer, TcpStream)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes())?;
    let answer = read(&mut BufReader::new(&stream)).with_context(|| format!("GET {path}"))?;
    Ok((answer, stream))
}

/// Reads an answer that has a `Content-Length`.
fn read(input: &mut impl BufRead) -> Result<Answer> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no status in {line:?}"))?;
    let mut length = None;
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    ensure!(line == "\r\n", "the head ends with {line:?}");
    let mut content = vec![0; length.context("no Content-Length")?];
    input.read_exact(&mut content)?;
    Ok(Answer { status, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_answer_or_says_what_is_wrong() {
        let good = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 3\r\n\r\nabcd";
        let answer = read(&mut good.as_bytes()).unwrap();
        assert_eq!(answer, Answer { status: 200, content: b"abc".to_vec() });
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
        ] {
            assert!(read(&mut bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
