//! Requests made up from right ones, by a seed.

/// Pseudo-random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Dice {
        // Neighbouring seeds must not begin alike.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        dice.number();
        dice
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() >> 33).unwrap_or(0) % end
    }

    /// One of some texts.
    pub fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }
}

const METHODS: [&str; 6] = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"];
const TARGETS: [&str; 14] = [
    "/",
    "/a",
    "/a/b?c=d",
    "/a/../b",
    "/a//b/./c",
    "/%41%2f%20?%zz",
    "/?",
    "/a#b",
    "http://h/x?y",
    "http://h",
    "http://h:80/",
    "/a;b=c",
    "/..",
    "*",
];
const FIELDS: [&str; 16] = [
    "X: y",
    "Connection: close",
    "Connection: keep-alive",
    "Content-Length: 5",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Range: bytes=0-1",
    "Cookie: a=b; c=d",
    "User-Agent: u",
    "X-A:b",
    "X_U: v",
    "Accept: */*",
    "Upgrade: h2c",
    "Content-Type: text/plain",
    "If-None-Match: *",
    "Accept-Encoding: gzip",
];
const BODIES: [&str; 6] =
    ["", "", "hello", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\nT: u\r\n\r\n", "0\r\n\r\n"];
const TOKENS: [&str; 40] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "  ",
    "\t",
    ":",
    ";",
    ",",
    "\0",
    "\"",
    "%",
    "%2e",
    "%00",
    "%0a",
    "#",
    "?",
    "/",
    "//",
    "/../",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "Host: b\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "\u{7f}",
    "\u{1}",
    "\u{e9}",
    "0\r\n\r\n",
    "1\r\nx\r\n",
    "\r\n\r\n",
    "-1",
    "+1",
    "0x1",
    "chunked",
    "[::1]",
    "@",
];

/// A connection's bytes: one request or two, of which most are changed in some places.
pub fn requests(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + dice.below(2) {
        bytes.extend_from_slice(request(dice).as_bytes());
    }
    for _ in 0..dice.below(4) {
        change(&mut bytes, dice);
    }
    bytes
}

fn request(dice: &mut Dice) -> String {
    let version = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"][dice.below(4)];
    let mut text = format!("{} {} {version}\r\n", dice.of(&METHODS), dice.of(&TARGETS));
    if dice.below(8) > 0 {
        text.push_str("Host: a\r\n");
    }
    for _ in 0..dice.below(4) {
        text.push_str(dice.of(&FIELDS));
        text.push_str("\r\n");
    }
    let body = dice.of(&BODIES);
    match body {
        "hello" => text.push_str("Content-Length: 5\r\n"),
        "" => {}
        _ => text.push_str("Transfer-Encoding: chunked\r\n"),
    }
    text + "\r\n" + body
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    let end = bytes.len().min(at + 1 + dice.below(8));
    match dice.below(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap_or(0),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        4 | 5 => drop(bytes.splice(at..at, dice.of(&TOKENS).bytes())),
        6 => drop(bytes.splice(at..end, dice.of(&TOKENS).bytes())),
        _ => bytes.truncate(at),
    }
}

#[cfg(test)]
mod tests {
    use super::{Dice, requests};

    #[test]
    fn a_seed_is_a_request() {
        let of = |seed| requests(&mut Dice::new(seed));
        assert_eq!(of(7), of(7));
        let different: std::collections::HashSet<_> = (0..1000).map(of).collect();
        assert!(different.len() > 900, "{}", different.len());
    }
}
