//! How a virtual server is to encrypt, as it was written.

use crate::{Args, Loading};
use conf::{Diagnostic, Inputs, Span, value};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use tls::{Authorities, Choices, LoadError, Pair, Trust};

/// How a virtual server is to encrypt. The server reads the files when it puts a site together.
#[derive(Clone, Debug, Default)]
pub struct TlsPolicy {
    /// Certificates with their keys, one for each kind of key.
    pub certificates: Vec<(Pem, Pem)>,
    /// Whether files that change on disk are served without a reload.
    pub watched: bool,
    /// The passwords that may open the keys.
    pub passwords: Option<Pem>,
    /// Whether clients are asked for certificates.
    pub verify: VerifyClient,
    /// Where it was said.
    pub verify_at: Option<Span>,
    /// How many certificates may stand between that of a client and that of an authority.
    pub verify_depth: usize,
    /// The authorities that certificates are checked against.
    pub trusted: Option<Pem>,
    /// More authorities, whose names the server sends to clients.
    pub client_authorities: Option<Pem>,
    /// The certificates that were revoked.
    pub revoked: Option<Pem>,
    /// Where `ssl_stapling on` was said.
    pub stapling_at: Option<Span>,
    /// The responder's answer about the certificates (OCSP), as DER.
    pub stapling_file: Option<Pem>,
    /// Whether clients that ask for this server are turned away in the handshake.
    pub reject: bool,
    /// What needs no files.
    pub choices: Choices,
    /// Where TLS 1.0 or 1.1 were named.
    pub obsolete_at: Option<Span>,
    /// Where ciphers were named, if they were.
    pub ciphers_at: Option<Span>,
    /// Where groups of key exchange were named, if they were.
    pub curves_at: Option<Span>,
}

/// Whether clients are asked for certificates (`ssl_verify_client`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyClient {
    /// No.
    #[default]
    Off,
    /// Each request needs a right one.
    On,
    /// A wrong one is an error, none is not.
    Optional,
    /// As `Optional`, and authorities need not be known.
    OptionalNoCa,
}

/// Where a certificate or a key is.
#[derive(Clone, Debug)]
pub struct Pem {
    /// The file, or the text itself.
    pub source: PemSource,
    /// Where it was named.
    pub span: Span,
}

/// The file of a certificate or a key, or the text itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PemSource {
    /// A file.
    File(PathBuf),
    /// `data:` with the text behind it.
    Text(Box<[u8]>),
}

impl Pem {
    /// Reads the value of a directive: a file, or `data:` with the text. Variables are rejected, with a hint about what
    /// to do instead.
    ///
    /// # Errors
    /// A value with variables.
    pub fn parse(args: &Args<'_>, loading: &mut Loading, hint: &'static str) -> Result<Pem, Diagnostic> {
        let word = args.word(0)?;
        let span = args.node.span;
        let source = match word.text.strip_prefix(b"data:") {
            _ if word.text.contains(&b'$') => {
                let text = format!("variables in \"{}\" are not built yet", args.node.name);
                loading.refuse(Diagnostic::emerg(text).at(span).under(word.span).hint(hint))?;
                PemSource::Text(Box::default())
            }
            Some(text) => PemSource::Text(text.into()),
            None => PemSource::File(value::path(word, &loading.conf_prefix)),
        };
        Ok(Pem { source, span })
    }

    /// The text.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, inputs: &dyn Inputs) -> Result<Cow<'_, [u8]>, String> {
        match &self.source {
            PemSource::Text(text) => Ok(Cow::Borrowed(text)),
            PemSource::File(path) => match inputs.read(path) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(error) => Err(net::system_message(&error)),
            },
        }
    }

    /// Reads the authorities.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn authorities(&self, inputs: &dyn Inputs) -> Result<Authorities, Diagnostic> {
        let failed = |call: &str, reason: &str| self.failure("certificate", call, reason);
        let text = self.read(inputs).map_err(|reason| failed("BIO_new_file()", &reason))?;
        Authorities::from_pem(&text).map_err(|error| failed("PEM_read_bio_X509_AUX()", &error.to_string()))
    }

    /// Puts authorities and a file with lists of revoked certificates together.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn trust(
        authorities: &[&Authorities],
        revoked: Option<&Pem>,
        depth: usize,
        inputs: &dyn Inputs,
    ) -> Result<Trust, Diagnostic> {
        let failed = |call: &str, reason: &str| match revoked {
            Some(pem) => pem.failure("CRL", call, reason),
            None => Diagnostic::emerg(reason),
        };
        let text = revoked.map(|pem| pem.read(inputs)).transpose();
        let text = text.map_err(|reason| failed("BIO_new_file()", &reason))?;
        Trust::new(authorities, text.as_deref(), depth)
            .map_err(|error| failed("PEM_read_bio_X509_CRL()", &error.to_string()))
    }

    /// Reads the certificate with its key, which one of the passwords, a line each, may open.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn pair(&self, key: &Pem, passwords: Option<&Pem>, inputs: &dyn Inputs) -> Result<Pair, Diagnostic> {
        let passwords = passwords.map_or(Ok(Cow::default()), |pem| {
            pem.read(inputs).map_err(|reason| {
                let message = format!("cannot open file \"{}\" ({reason})", pem.source);
                Diagnostic::emerg(message).at(pem.span)
            })
        })?;
        let failed = |reason: String| self.failure("certificate", "BIO_new_file()", &reason);
        let text = self.read(inputs).map_err(failed)?;
        let failed = |reason: String| key.failure("certificate key", "BIO_new_file()", &reason);
        let key_text = key.read(inputs).map_err(failed)?;
        Pair::from_pem(&text, &key_text, &passwords).map_err(|error| match error {
            LoadError::Mismatch => {
                let message = format!("SSL_CTX_use_PrivateKey(\"{}\") failed ({error})", key.source);
                Diagnostic::emerg(message).at(key.span).hint("the key belongs to another certificate")
            }
            LoadError::EncryptedKey => key
                .failure("certificate key", error.call(), &error.to_string())
                .hint("name a file with the password, or remove it: openssl pkey -in ENCRYPTED -out KEY"),
            _ if error.is_about_key() => key.failure("certificate key", error.call(), &error.to_string()),
            _ => self.failure("certificate", error.call(), &error.to_string()),
        })
    }

    /// The error of a text that cannot be used, in nginx's words, where this call of OpenSSL fails.
    pub fn failure(&self, what: &str, call: &str, reason: &str) -> Diagnostic {
        let message = format!("cannot load {what} \"{}\": {call} failed ({reason})", self.source);
        Diagnostic::emerg(message).at(self.span)
    }
}

impl fmt::Display for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PemSource::File(path) => write!(f, "{}", path.display()),
            PemSource::Text(_) => f.write_str("data:"),
        }
    }
}
