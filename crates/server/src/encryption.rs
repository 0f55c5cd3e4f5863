//! From what was written about encryption to what speaks it: reads certificates and keys.

use conf::{Diagnostic, Inputs, Span};
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
    let made = origin
        .share(&settings.digest(), || ServerPolicy::new(&settings))
        .map_err(|error| cannot_speak(error, policy, first.span))?;
    Ok(Encryption::Accept((*made).clone()))
}

/// That clients are lost that spoke with a server of these settings before.
pub(crate) fn lost_clients(policy: &TlsPolicy) -> Option<Diagnostic> {
    let message = "\"ssl_protocols\" names versions before TLSv1.2, which are not spoken: \
                   clients that know nothing newer are lost";
    policy.obsolete_at.map(|place| Diagnostic::warn(message).at(place))
}

/// Why these settings leave nothing to speak with, at the directive that is to blame, or else at the certificate.
fn cannot_speak(error: PolicyError, policy: &TlsPolicy, certificate: Span) -> Diagnostic {
    match error {
        PolicyError::NoCipher => {
            let message = format!("SSL_CTX_set_cipher_list(\"{}\") failed ({error})", policy.ciphers);
            Diagnostic::emerg(message).at(policy.ciphers_at.unwrap_or(certificate)).hint(
                "leave the line out, or name what is spoken here: ECDHE with AES-GCM or ChaCha20, such as \
                 ECDHE+AESGCM:ECDHE+CHACHA20",
            )
        }
        PolicyError::NoGroup => {
            let message = format!("SSL_CTX_set1_curves_list(\"{}\") failed ({error})", policy.curves);
            Diagnostic::emerg(message)
                .at(policy.curves_at.unwrap_or(certificate))
                .hint("leave the line out, or name some of X25519MLKEM768, X25519, prime256v1 and secp384r1")
        }
        PolicyError::NoVersion | PolicyError::Library => {
            Diagnostic::emerg(format!("cannot speak TLS: {error}")).at(certificate)
        }
    }
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
