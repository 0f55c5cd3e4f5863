//! What a line of the access log consists of, and how values are escaped in it.

use super::json::Json;
use crate::values::variables;
use contract::{Exchange, Template};
use http::words::{any_marked, where_is, where_unprintable};
use journal::clock::{self, Time};

/// What a line consists of.
pub enum Line {
    /// `combined`, which needs no look at its variables.
    Combined,
    /// `json`.
    Json(Json),
    /// A format of the configuration's.
    Custom {
        /// The texts, one after the other.
        parts: Box<[Template]>,
        /// How values are written.
        escape: Escape,
    },
}

/// How values are written.
#[derive(Clone, Copy)]
pub enum Escape {
    /// What is not printable, or not ASCII, as `\xHH`.
    Default,
    /// As in strings of JSON.
    Json,
    /// As they are.
    None,
}

impl Line {
    /// Appends the line of an exchange, without its end.
    pub(super) fn write(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        match self {
            Line::Combined => combined(exchange, out),
            Line::Json(json) => json.write(exchange, out),
            Line::Custom { parts, escape } => parts.iter().for_each(|part| match escape {
                Escape::Default => part.write_with(exchange, out, escape_hex, b"-"),
                Escape::Json => part.write_with(exchange, out, escape_json, b""),
                Escape::None => part.write(exchange, out),
            }),
        }
    }
}

fn combined(exchange: &Exchange, out: &mut Vec<u8>) {
    let value = |get: contract::Getter, rest: &str, out: &mut Vec<u8>| {
        let start = out.len();
        if get(exchange, rest, out) {
            escape_hex(out, start);
        } else {
            out.push(b'-');
        }
    };
    value(variables::remote_addr, "", out);
    out.extend_from_slice(b" - ");
    value(variables::remote_user, "", out);
    out.extend_from_slice(b" [");
    clock::write_log_time(Time::now(), out);
    out.extend_from_slice(b"] \"");
    value(variables::request_line, "", out);
    out.extend_from_slice(b"\" ");
    variables::status(exchange, "", out);
    out.push(b' ');
    variables::body_bytes_sent(exchange, "", out);
    out.extend_from_slice(b" \"");
    value(variables::http_field, "referer", out);
    out.extend_from_slice(b"\" \"");
    value(variables::http_field, "user_agent", out);
    out.push(b'"');
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Writes what could end a value or a line, or is not ASCII, as `\xHH`, from this place on.
fn escape_hex(out: &mut Vec<u8>, start: usize) {
    let marks = |word| where_unprintable(word) | where_is(word, b'"') | where_is(word, b'\\');
    if !any_marked(&out[start..], marks) {
        return;
    }
    for byte in out.split_off(start) {
        if is_escaped(byte) {
            out.extend_from_slice(b"\\x");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..)
}

/// Escapes as in a string of JSON, from this place on. JSON is UTF-8, whatever a client sends: other bytes become U+FFFD.
pub(super) fn escape_json(out: &mut Vec<u8>, start: usize) {
    if std::str::from_utf8(&out[start..]).is_err() {
        let value = out.split_off(start);
        out.extend_from_slice(String::from_utf8_lossy(&value).as_bytes());
    }
    if out[start..].iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        let value = out.split_off(start);
        http::escape::json(&value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{escape_hex, escape_json};

    #[test]
    fn escapes() {
        let escaped = |escape: fn(&mut Vec<u8>, usize), text: &[u8]| {
            let mut out = text.to_vec();
            escape(&mut out, 1);
            out
        };
        assert_eq!(escaped(escape_hex, b"\"a\x7f\n "), b"\"a\\x7F\\x0A ");
        assert_eq!(escaped(escape_json, b"\"a\x7f\n\""), b"\"a\x7f\\n\\\"");
        assert_eq!(escaped(escape_json, b"\"abc"), b"\"abc");
        assert_eq!(escaped(escape_json, b"\"a\xe9\xc3\xa9\""), "\"a\u{fffd}\u{e9}\\\"".as_bytes());
    }
}
