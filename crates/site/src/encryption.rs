//! From what was written about encryption to what speaks it: reads certificates and keys.

use conf::{Diagnostic, Inputs, Level, Span};
use contract::{Identity, Origin, Pem, TlsPolicy};
use tls::{LoadError, Pair, PolicyError, ServerPolicy, Settings};

/// What a virtual server does with clients that begin a handshake.
#[derive(Clone, Debug)]
pub enum Encryption {
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
    policy.trusted.iter().try_for_each(|pem| check(pem, &AUTHORITIES, inputs))?;
    policy.revoked.iter().try_for_each(|pem| check(pem, &REVOKED, inputs))?;
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
    // If nothing changed, tickets, sessions and connections of the previous configuration stay valid.
    let made = origin
        .share(Identity::default().bytes(settings.digest()), || ServerPolicy::new(&settings))
        .map_err(|error| cannot_speak(error, policy, first.span))?;
    Ok(Encryption::Accept((*made).clone()))
}

/// Warnings about the settings of a server: older clients are lost, or a file cannot be read that nginx reads only
/// beside `ssl_verify_client`.
pub(crate) fn warnings(policy: &TlsPolicy, origin: &Origin) -> impl Iterator<Item = Diagnostic> {
    let message = "\"ssl_protocols\" names versions before TLSv1.2, which are not spoken: \
                   clients that know nothing newer are lost";
    let lost = policy.obsolete_at.map(|place| Diagnostic::warn(message).at(place));
    let authorities = policy.client_authorities.as_ref();
    let unread = authorities.and_then(|pem| check(pem, &AUTHORITIES, &*origin.inputs).err());
    lost.into_iter().chain(unread.map(|error| Diagnostic { level: Level::Warn, ..error }))
}

/// A kind of PEM file that is only checked.
struct Kind {
    name: &'static str,
    /// What the first lines of its parts end with.
    label: &'static [u8],
    /// The function of OpenSSL that fails where nginx finds no such part.
    call: &'static str,
}

const AUTHORITIES: Kind =
    Kind { name: "certificate", label: b"CERTIFICATE-----", call: "PEM_read_bio_X509_AUX()" };

const REVOKED: Kind = Kind { name: "CRL", label: b"X509 CRL-----", call: "PEM_read_bio_X509_CRL()" };

/// Whether a file can be read and has a part of this kind.
fn check(pem: &Pem, kind: &Kind, inputs: &dyn Inputs) -> Result<(), Diagnostic> {
    let cannot = |call: &str, reason: &str| pem.failure(kind.name, call, reason);
    let text = pem.read(inputs).map_err(|reason| cannot("BIO_new_file()", &reason))?;
    let begins =
        |line: &[u8]| line.starts_with(b"-----BEGIN ") && line.trim_ascii_end().ends_with(kind.label);
    match text.split(|&byte| byte == b'\n').any(begins) {
        true => Ok(()),
        false => Err(cannot(kind.call, &format!("no {} in PEM form is there", kind.name))),
    }
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
    let text = pem.read(inputs).map_err(|reason| pem.failure("certificate", "BIO_new_file()", &reason))?;
    let key_text =
        key.read(inputs).map_err(|reason| key.failure("certificate key", "BIO_new_file()", &reason))?;
    Pair::from_pem(&text, &key_text).map_err(|error| match error {
        LoadError::Mismatch => {
            let message = format!("SSL_CTX_use_PrivateKey(\"{}\") failed ({error})", key.source);
            Diagnostic::emerg(message).at(key.span).hint("the key is another certificate's")
        }
        LoadError::EncryptedKey => key
            .failure("certificate key", error.call(), &error.to_string())
            .hint("take the password away: openssl pkey -in ENCRYPTED -out KEY"),
        _ if error.is_about_key() => key.failure("certificate key", error.call(), &error.to_string()),
        _ => pem.failure("certificate", error.call(), &error.to_string()),
    })
}
