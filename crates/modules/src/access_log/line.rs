//! What a line of the access log consists of, and how values are escaped in it.

use crate::variables;
use contract::clock::{self, Time};
use contract::{Exchange, Template};

/// What a line consists of.
pub(super) enum Line {
    /// `combined`, which needs no look at its variables.
    Combined,
    Custom {
        parts: Box<[Template]>,
        escape: Escape,
    },
}

/// How values are written.
#[derive(Clone, Copy)]
pub(super) enum Escape {
    Default,
    Json,
    None,
}

impl Line {
    /// Appends the line of an exchange, without its end.
    pub(super) fn write(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        let Line::Custom { parts, escape } = self else { return combined(exchange, out) };
        for part in parts {
            match escape {
                Escape::Default => part.write_with(exchange, out, hex, b"-"),
                Escape::Json => part.write_with(exchange, out, json, b""),
                Escape::None => part.write(exchange, out),
            }
        }
    }
}

fn combined(exchange: &Exchange, out: &mut Vec<u8>) {
    let value = |get: contract::Getter, rest: &str, out: &mut Vec<u8>| {
        let start = out.len();
        if !get(exchange, rest, out) {
            out.push(b'-');
        } else {
            hex(out, start);
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
fn hex(out: &mut Vec<u8>, start: usize) {
    if !out[start..].iter().copied().any(is_escaped) {
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

/// Escapes as in a string of JSON, from this place on.
fn json(out: &mut Vec<u8>, start: usize) {
    if out[start..].iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        let value = out.split_off(start);
        http::escape::json(&value, out);
    }
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..)
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn escapes() {
        let mut out = b"\na\x7f\n".to_vec();
        hex(&mut out, 1);
        assert_eq!(out, b"\na\\x7F\\x0A");
    }
}
