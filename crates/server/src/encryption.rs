//! From what was written about encryption to what speaks it: reads certificates and keys.

use conf::Diagnostic;
use contract::{Pem, PemSource, TlsPolicy};
use std::borrow::Cow;
use std::fs;
use tls::{LoadError, Pair, PolicyError, ServerPolicy, Settings};

/// What a virtual server does with clients that begin a handshake.
#[derive(Clone, Debug)]
pub(crate) enum Encryption {
    /// It has no certificate.
    None,
    /// It turns them away.
    Reject,
    /// It goes on.
    Accept(ServerPolicy),
}

/// Reads the certificates of a server.
pub(crate) fn load(policy: Option<&TlsPolicy>) -> Result<Encryption, Diagnostic> {
    let Some(policy) = policy else { return Ok(Encryption::None) };
    let pairs: Vec<Pair> =
        policy.certificates.iter().map(|(pem, key)| pair(pem, key)).collect::<Result<_, _>>()?;
    let Some((first, _)) = policy.certificates.first().filter(|_| !policy.reject) else {
        return Ok(Encryption::Reject);
    };
    let settings = Settings {
        pairs: &pairs,
        tls12: policy.tls12,
        tls13: policy.tls13,
        ciphers: &policy.ciphers,
        prefer_server_ciphers: policy.prefer_server_ciphers,
        curves: &policy.curves,
        tickets: policy.tickets,
        cached_sessions: policy.cached_sessions,
        session_timeout: policy.session_timeout,
    };
    let made = ServerPolicy::new(&settings).map_err(|error| {
        let message = match error {
            PolicyError::NoCipher => {
                format!("SSL_CTX_set_cipher_list(\"{}\") failed ({error})", policy.ciphers)
            }
            PolicyError::NoGroup => {
                format!("SSL_CTX_set1_curves_list(\"{}\") failed ({error})", policy.curves)
            }
            PolicyError::NoVersion | PolicyError::Library => format!("cannot speak TLS: {error}"),
        };
        Diagnostic::emerg(message).at(first.span)
    });
    Ok(Encryption::Accept(made?))
}

fn pair(pem: &Pem, key: &Pem) -> Result<Pair, Diagnostic> {
    let cannot = |what: &str, pem: &Pem, call: &str, reason: &str| {
        let message = format!("cannot load {what} \"{}\": {call} failed ({reason})", pem.source);
        Diagnostic::emerg(message).at(pem.span)
    };
    let text = read(pem).map_err(|reason| cannot("certificate", pem, "BIO_new_file()", &reason))?;
    let key_text = read(key).map_err(|reason| cannot("certificate key", key, "BIO_new_file()", &reason))?;
    Pair::from_pem(&text, &key_text).map_err(|error| match error {
        LoadError::Mismatch => {
            let message = format!("SSL_CTX_use_PrivateKey(\"{}\") failed ({error})", key.source);
            Diagnostic::emerg(message).at(key.span).hint("the key is another certificate's")
        }
        LoadError::EncryptedKey => {
            cannot("certificate key", key, "PEM_read_bio_PrivateKey()", &error.to_string())
                .hint("take the password away: openssl pkey -in ENCRYPTED -out KEY")
        }
        _ if error.is_about_key() => {
            cannot("certificate key", key, "PEM_read_bio_PrivateKey()", &error.to_string())
        }
        _ => cannot("certificate", pem, "PEM_read_bio_X509_AUX()", &error.to_string()),
    })
}

fn read(pem: &Pem) -> Result<Cow<'_, [u8]>, String> {
    match &pem.source {
        PemSource::Text(text) => Ok(Cow::Borrowed(text)),
        PemSource::File(path) => match fs::read(path) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(error) => Err(net::system_message(&error)),
        },
    }
}
