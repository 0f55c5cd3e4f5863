//! From what was written about encryption to what speaks it: reads certificates and keys.

use conf::{Diagnostic, Inputs};
use contract::{Origin, Pem, PemSource, TlsPolicy};
use std::borrow::Cow;
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
pub(crate) fn load(policy: Option<&TlsPolicy>, origin: &Origin) -> Result<Encryption, Diagnostic> {
    let Some(policy) = policy else { return Ok(Encryption::None) };
    let inputs = &*origin.inputs;
    let pairs: Vec<Pair> =
        policy.certificates.iter().map(|(pem, key)| pair(pem, key, inputs)).collect::<Result<_, _>>()?;
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
    // Tickets and sessions of the configuration before are good where nothing changed, and so are its connections.
    let made = origin.share(&settings.digest(), || ServerPolicy::new(&settings)).map_err(|error| {
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
    Ok(Encryption::Accept((*made?).clone()))
}

fn pair(pem: &Pem, key: &Pem, inputs: &dyn Inputs) -> Result<Pair, Diagnostic> {
    let cannot = |what: &str, pem: &Pem, call: &str, reason: &str| {
        let message = format!("cannot load {what} \"{}\": {call} failed ({reason})", pem.source);
        Diagnostic::emerg(message).at(pem.span)
    };
    let text = read(pem, inputs).map_err(|reason| cannot("certificate", pem, "BIO_new_file()", &reason))?;
    let key_text =
        read(key, inputs).map_err(|reason| cannot("certificate key", key, "BIO_new_file()", &reason))?;
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

fn read<'a>(pem: &'a Pem, inputs: &dyn Inputs) -> Result<Cow<'a, [u8]>, String> {
    match &pem.source {
        PemSource::Text(text) => Ok(Cow::Borrowed(text)),
        PemSource::File(path) => match inputs.read(path) {
            Ok(text) => Ok(Cow::Owned(text)),
            Err(error) => Err(net::system_message(&error)),
        },
    }
}
