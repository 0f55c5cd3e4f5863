//! Applications behind a contender that use protocols other than FastCGI: SCGI, uwsgi and AJP. Each reads a request
//! without content and answers it.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::peer::CONTENT;

/// SCGI: fields as one netstring. The connection ends with the answer.
pub(super) fn scgi(stream: &mut TcpStream) -> Option<()> {
    let mut length = 0_usize;
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        match byte[0] {
            b':' => break,
            digit => length = length.checked_mul(10)?.checked_add(char::from(digit).to_digit(10)? as usize)?,
        }
    }
    skip(stream, length.checked_add(1)?)?;
    stream.write_all(answer("Status: 200 OK").as_bytes()).ok()
}

/// uwsgi: a head of four bytes, of which the middle two are the length of the fields, the low byte first.
pub(super) fn uwsgi(stream: &mut TcpStream) -> Option<()> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    skip(stream, usize::from(u16::from_le_bytes([head[1], head[2]])))?;
    stream.write_all(answer("HTTP/1.1 200 OK").as_bytes()).ok()
}

/// Messages of AJP 1.3.
const FORWARD_REQUEST: u8 = 2;
const SEND_BODY_CHUNK: u8 = 3;
const SEND_HEADERS: u8 = 4;
const END_RESPONSE: u8 = 5;
const PONG: u8 = 9;
const PING: u8 = 10;

/// AJP 1.3: packets with a length, on a connection that is kept.
pub(super) fn ajp(stream: &mut TcpStream) -> Option<()> {
    loop {
        let mut head = [0; 4];
        stream.read_exact(&mut head).ok()?;
        let mut request = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
        stream.read_exact(&mut request).ok()?;
        let answer = match *request.first()? {
            PING => packet(&[PONG]),
            FORWARD_REQUEST => {
                let status = 200_u16.to_be_bytes();
                let one = 1_u16.to_be_bytes();
                let head = [
                    &[SEND_HEADERS],
                    &status[..],
                    &string("OK"),
                    &one,
                    &string("Content-Type"),
                    &string("text/plain"),
                ];
                let content = [vec![SEND_BODY_CHUNK], string(CONTENT)];
                [packet(&head.concat()), packet(&content.concat()), packet(&[END_RESPONSE, 1])].concat()
            }
            _ => return None,
        };
        stream.write_all(&answer).ok()?;
    }
}

fn answer(first: &str) -> String {
    format!("{first}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{CONTENT}", CONTENT.len())
}

fn skip(stream: &mut TcpStream, count: usize) -> Option<()> {
    stream.read_exact(&mut vec![0; count]).ok()
}

fn packet(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or_default().to_be_bytes();
    [b"AB", &length[..], content].concat()
}

/// A length, the text, and a zero.
fn string(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or_default().to_be_bytes();
    [&length[..], text.as_bytes(), &[0]].concat()
}
