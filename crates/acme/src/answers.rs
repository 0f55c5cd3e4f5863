//! The answers to challenges, which one process writes and the others give to the authority.

use net::SharedBytes;
use serde::{Deserialize, Serialize};
use std::io;

/// Where the answer to a challenge by HTTP is, followed by a token (RFC 8555, section 8.3).
pub const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The protocol of a challenge by TLS (RFC 8737, section 6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// How many bytes the answers may take, where the configuration does not say.
pub const SIZE: usize = 256 * 1024;

/// The answer to one challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// What is at the path of this token.
    Token {
        /// The last part of the path.
        token: String,
        /// The content.
        authorization: String,
    },
    /// The certificate for a client that asks for this name by [`PROTOCOL`].
    Certificate {
        /// The name that the client sends. For an address it is that of its reverse zone.
        name: String,
        /// The certificate as PEM.
        certificate: String,
        /// Its key as PEM.
        key: String,
    },
}

/// Lets all processes give these answers, and no others.
///
/// # Errors
/// They take too much memory.
pub(crate) fn publish(answers: &[Answer], to: &SharedBytes) -> io::Result<()> {
    to.write(&serde_json::to_vec(answers)?)
}

fn all(from: &SharedBytes) -> Vec<Answer> {
    serde_json::from_slice(&from.read()).unwrap_or_default()
}

/// The answer for a token.
pub fn find_token(wanted: &[u8], from: &SharedBytes) -> Option<String> {
    all(from).into_iter().find_map(|answer| match answer {
        Answer::Token { token, authorization } => (token.as_bytes() == wanted).then_some(authorization),
        Answer::Certificate { .. } => None,
    })
}

/// The certificate and the key for a name.
pub fn find_certificate(wanted: &str, from: &SharedBytes) -> Option<(String, String)> {
    all(from).into_iter().find_map(|answer| match answer {
        Answer::Certificate { name, certificate, key } => {
            name.eq_ignore_ascii_case(wanted).then_some((certificate, key))
        }
        Answer::Token { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_until_others_replace_them() {
        let bytes = SharedBytes::new(SIZE).unwrap();
        assert_eq!(find_token(b"a", &bytes), None);
        let [token, authorization] = ["a", "a.b"].map(str::to_owned);
        let [name, certificate, key] = ["c.example", "C", "K"].map(str::to_owned);
        let answers =
            [Answer::Token { token, authorization }, Answer::Certificate { name, certificate, key }];
        publish(&answers, &bytes).unwrap();
        assert_eq!(find_token(b"a", &bytes).as_deref(), Some("a.b"));
        assert_eq!(find_token(b"", &bytes), None);
        assert_eq!(find_certificate("C.example", &bytes), Some(("C".to_owned(), "K".to_owned())));
        assert_eq!(find_certificate("a", &bytes), None);
        publish(&[], &bytes).unwrap();
        assert_eq!(find_token(b"a", &bytes), None);
    }
}
