//! What a client answers to a challenge: the `Authorization` field (RFC 7616, section 3.4).

use crate::shared::apache::variables::unescape;
use contract::Exchange;
use http::hex;
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

/// An answer that has all of its parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) user: Vec<u8>,
    pub(super) realm: Vec<u8>,
    pub(super) nonce: Vec<u8>,
    uri: Vec<u8>,
    response: Vec<u8>,
    algorithm: Option<Vec<u8>>,
    /// The quality of protection.
    qop: Vec<u8>,
    client_nonce: Vec<u8>,
    /// The count of requests.
    count: Vec<u8>,
}

impl Answer {
    /// Reads the value of a field.
    pub(super) fn parse(field: &[u8]) -> Option<Answer> {
        let (scheme, rest) = field.split_at_checked("Digest ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Digest ") {
            return None;
        }
        let mut parameters = parameters(rest)?;
        let mut take = |name: &str| {
            let at = parameters.iter().position(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))?;
            Some(parameters.swap_remove(at).1)
        };
        let (user, realm, nonce) = (take("username")?, take("realm")?, take("nonce")?);
        let (uri, response, algorithm) = (take("uri")?, take("response")?, take("algorithm"));
        let (qop, client_nonce, count) = (take("qop")?, take("cnonce")?, take("nc")?);
        Some(Answer { user, realm, nonce, uri, response, algorithm, qop, client_nonce, count })
    }

    /// Whether it answers for the URI of the request, which proxies may have written in another way.
    pub(super) fn is_for(&self, exchange: &Exchange) -> bool {
        let asked = &exchange.request.uri[..];
        if self.uri == asked {
            return true;
        }
        let own = match self.uri.windows(3).position(|part| part == b"://") {
            None => &self.uri[..],
            Some(at) => {
                let rest = &self.uri[at + 3..];
                let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
                let port = exchange.request.port.map(|port| format!(":{port}")).unwrap_or_default();
                let host = [&exchange.request.host[..], port.as_bytes()].concat();
                if !rest[..end].eq_ignore_ascii_case(&host) {
                    return false;
                }
                &rest[end..]
            }
        };
        let plain = |uri: &[u8]| {
            let mut parts = uri.splitn(2, |&byte| byte == b'?').map(unescape);
            (parts.next(), parts.next())
        };
        let (own, asked) = (plain(own), plain(asked));
        own == asked && own.0.is_some_and(|path| !path.is_empty())
    }

    pub(super) fn is_md5(&self) -> bool {
        self.algorithm.as_ref().is_none_or(|algorithm| algorithm.eq_ignore_ascii_case(b"MD5"))
    }

    /// Whether the quality of protection is the one that was offered.
    pub(super) fn has_known_qop(&self) -> bool {
        self.qop.eq_ignore_ascii_case(b"auth")
    }

    /// Whether the response is right for a user with this hash.
    pub(super) fn is_right(&self, hash: &[u8], method: &[u8]) -> bool {
        let expected = self.digest(hash, method);
        expected.as_bytes().ct_eq(&self.response).into()
    }

    /// What proves to the client that the server knows the password (RFC 7616, section 3.5).
    pub(super) fn proof(&self, hash: &[u8]) -> Vec<u8> {
        let mut proof = format!("rspauth=\"{}\", cnonce=\"", self.digest(hash, b"")).into_bytes();
        self.client_nonce.iter().for_each(|&byte| match byte {
            b'"' | b'\\' => proof.extend_from_slice(&[b'\\', byte]),
            _ => proof.push(byte),
        });
        proof.extend_from_slice(&[b"\", nc=", &self.count[..], b", qop=", &self.qop].concat());
        proof
    }

    fn digest(&self, hash: &[u8], method: &[u8]) -> String {
        let about = md5_hex(&[method, &self.uri]);
        md5_hex(&[hash, &self.nonce, &self.count, &self.client_nonce, &self.qop, about.as_bytes()])
    }
}

/// The hash of a user in the text of a file: lines of user, realm and hash.
pub(super) fn hash_of<'t>(text: &'t [u8], user: &[u8], realm: &[u8]) -> Option<&'t [u8]> {
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let mut hashes = lines.filter_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let is_meant = parts.next()? == user && parts.next()? == realm;
        let hash = parts.next()?;
        let end = hash.iter().position(|byte| matches!(byte, b':' | b'\r' | b' ')).unwrap_or(hash.len());
        is_meant.then_some(&hash[..end])
    });
    hashes.next()
}

/// The MD5 hash of texts with colons between them.
fn md5_hex(parts: &[&[u8]]) -> String {
    let hash = Md5::digest(parts.join(&b':'));
    hex::text(&hash)
}

/// The names and values of a field; none if a name is there twice.
fn parameters(text: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'=' | b',') || byte.is_ascii_whitespace());
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let (value, after) = match after.trim_ascii_start().strip_prefix(b"=") {
            Some(value) => value_of(value.trim_ascii_start()),
            None => (Vec::new(), after),
        };
        if found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return None;
        }
        found.push((name.to_vec(), value));
        let comma = after.iter().position(|&byte| byte == b',').map_or(after.len(), |at| at + 1);
        rest = after[comma..].trim_ascii_start();
    }
    Some(found)
}

/// A quoted string or a token, and what follows it.
fn value_of(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| *byte == b',' || byte.is_ascii_whitespace());
        let (value, rest) = text.split_at(end.unwrap_or(text.len()));
        return (value.to_vec(), rest);
    };
    let mut value = Vec::new();
    loop {
        match rest {
            [] => return (value, rest),
            [b'"', after @ ..] => return (value, after),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, hash_of};

    /// RFC 2617, section 3.5, with the user's hash as `htdigest` writes it.
    const FIELD: &str = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, nc=00000001, \
        cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\", \
        opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    const FILE: &str = "# users\nother:testrealm@host.com:00\nMufasa:x:00\n\
        Mufasa:testrealm@host.com:939e7578ed9e3c518a452acee763bce9\r\n";

    #[test]
    fn the_example_of_the_rfc() {
        let answer = Answer::parse(FIELD.as_bytes()).unwrap();
        let hash = hash_of(FILE.as_bytes(), &answer.user, &answer.realm).unwrap();
        assert!(answer.is_right(hash, b"GET") && !answer.is_right(hash, b"POST"));
        assert!(hash_of(FILE.as_bytes(), b"Scar", &answer.realm).is_none());
    }

    #[test]
    fn answers_that_are_not_complete_or_ambiguous() {
        let parse = |field: &str| Answer::parse(field.as_bytes());
        assert!(parse(FIELD).is_some() && parse(&FIELD.replace("Digest", "dIGEST")).is_some());
        for part in ["username", "realm", "nonce", "uri", "response", "nc=", "cnonce", "qop"] {
            assert!(parse(&FIELD.replacen(part, "x=\"\", y", 1)).is_none(), "{part}");
        }
        assert!(parse(&format!("{FIELD}, Realm=x")).is_none());
        for wrong in
            ["", "Digest", "Digest ", "Basic YTpi", "Digest username", "Digest =,=,\"", "Digest a=\"\\"]
        {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
