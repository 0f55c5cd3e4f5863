//! The ready-made format `json`: each line an object (RFC 8259).

use super::line::escape_json;
use contract::{Exchange, VariableId, Variables};
use journal::clock::{self, Time};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// Without quotes where it is a number of JSON.
    Number,
    /// A text that is written only where no target of the request could be read.
    Unread,
}

/// The members after `time`; each is the variable of that name.
const MEMBERS: [(&str, Kind); 20] = [
    ("remote_addr", Kind::Text),
    ("remote_user", Kind::Text),
    ("host", Kind::Text),
    ("request_method", Kind::Text),
    ("request_uri", Kind::Text),
    ("server_protocol", Kind::Text),
    ("request", Kind::Unread),
    ("status", Kind::Number),
    ("bytes_sent", Kind::Number),
    ("body_bytes_sent", Kind::Number),
    ("request_length", Kind::Number),
    ("request_time", Kind::Number),
    ("http_referer", Kind::Text),
    ("http_user_agent", Kind::Text),
    ("ssl_protocol", Kind::Text),
    ("connection", Kind::Number),
    ("connection_requests", Kind::Number),
    ("upstream_addr", Kind::Text),
    ("upstream_status", Kind::Text),
    ("upstream_response_time", Kind::Text),
];

/// The format, bound to variables.
pub struct Json {
    members: Box<[(&'static str, Kind, VariableId)]>,
}

impl Json {
    pub(super) fn new(variables: &mut Variables) -> Json {
        Json { members: MEMBERS.map(|(name, kind)| (name, kind, variables.refer(name, None))).into() }
    }

    /// Appends the line of an exchange, without its end. What has no value, or an empty one, is left out.
    pub(super) fn write(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        clock::write_iso8601_milliseconds(Time::now(), out);
        out.push(b'"');
        for (name, kind, id) in &*self.members {
            let before = out.len();
            if *kind == Kind::Unread && !exchange.request.uri.is_empty() {
                continue;
            }
            [b",\"", name.as_bytes(), b"\":\""].into_iter().for_each(|part| out.extend_from_slice(part));
            let start = out.len();
            if !exchange.variable(*id, out) || out.len() == start {
                out.truncate(before);
            } else if *kind == Kind::Number && is_number(&out[start..]) {
                out.remove(start - 1);
            } else {
                escape_json(out, start);
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
}

/// Digits without a needless zero before them, with or without decimals.
fn is_number(text: &[u8]) -> bool {
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b"0"[..]),
    };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits(whole) && digits(decimals) && (whole.len() == 1 || whole[0] != b'0')
}

#[cfg(test)]
mod tests {
    use super::is_number;

    #[test]
    fn numbers() {
        for (text, number) in [
            ("0", true),
            ("200", true),
            ("0.003", true),
            ("000", false),
            ("1.", false),
            ("-", false),
            ("", false),
        ] {
            assert_eq!(is_number(text.as_bytes()), number, "{text}");
        }
    }
}
