//! Certificates and keys, and the lists that they are checked against.

use conf::{Diagnostic, Disk, Inputs, Span};
use journal::clock::Time;
use std::borrow::Cow;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tls::{Authorities, LoadError, Pair, PairCache, Trust};

/// Where a certificate or a key is.
#[derive(Clone, Debug)]
pub struct Pem {
    /// The file, or the text itself.
    pub source: PemSource,
    /// Where it was named.
    pub span: Span,
}

/// The file of a certificate or a key, or the text itself.
#[derive(Clone, Debug)]
pub enum PemSource {
    /// A file.
    File(PathBuf),
    /// `data:` with the text after it.
    Text(Box<[u8]>),
}

impl Pem {
    /// The text.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, inputs: &dyn Inputs) -> Result<Cow<'_, [u8]>, String> {
        match &self.source {
            PemSource::Text(text) => Ok(Cow::Borrowed(text)),
            PemSource::File(path) => match inputs.read_pipe(path) {
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
        let passwords = passwords.map_or(Ok(Cow::default()), |pem| pem.passwords(inputs))?;
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

    /// The text itself in place of the file that has it: passwords for later.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn kept(&self, inputs: &dyn Inputs) -> Result<Pem, Diagnostic> {
        let text = self.passwords(inputs)?.into();
        Ok(Pem { source: PemSource::Text(text), ..*self })
    }

    fn passwords(&self, inputs: &dyn Inputs) -> Result<Cow<'_, [u8]>, Diagnostic> {
        self.read(inputs).map_err(|reason| {
            Diagnostic::emerg(format!("cannot open file \"{}\" ({reason})", self.source)).at(self.span)
        })
    }

    /// The error of a text that cannot be used, in nginx's words, where this call of OpenSSL fails.
    pub fn failure(&self, what: &str, call: &str, reason: &str) -> Diagnostic {
        let message = format!("cannot load {what} \"{}\": {call} failed ({reason})", self.source);
        Diagnostic::emerg(message).at(self.span)
    }
}

/// Finds certificates and keys that variables named, whose places are known by now.
#[derive(Clone, Debug, Default)]
pub struct PairFinder {
    /// The passwords that may open keys, as they were read with the configuration.
    pub passwords: Option<Pem>,
    /// Keeps what was found.
    pub cache: Option<Arc<PairCache>>,
}

impl PairFinder {
    /// The pair, if it can be had without a file.
    pub fn known(&self, pair: &(Pem, Pem)) -> Option<Pair> {
        let is_text = |pem: &Pem| matches!(pem.source, PemSource::Text(_));
        let kept = self.cache.as_ref().and_then(|cache| cache.get(&name(pair), now()));
        let has_texts = is_text(&pair.0) && is_text(&pair.1);
        kept.or_else(|| has_texts.then(|| self.find(pair).ok()).flatten())
    }

    /// The pair, read from its files. It blocks.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn find(&self, pair: &(Pem, Pem)) -> Result<Pair, Diagnostic> {
        // The client may choose the file by its server name, and no request may wait for the writer of a pipe.
        let found = pair.0.pair(&pair.1, self.passwords.as_ref(), &Disk)?;
        if let Some(cache) = &self.cache {
            cache.put(name(pair), &found, now());
        }
        Ok(found)
    }
}

/// The name of a pair in a cache.
fn name((certificate, key): &(Pem, Pem)) -> Box<[u8]> {
    let part = |pem: &Pem| match &pem.source {
        PemSource::File(path) => [b"f", path.as_os_str().as_bytes()].concat(),
        PemSource::Text(text) => [b"t", &**text].concat(),
    };
    let first = part(certificate);
    [&first.len().to_le_bytes()[..], &first, &part(key)].concat().into()
}

fn now() -> Duration {
    Duration::from_millis(Time::now().uptime_ms)
}

impl fmt::Display for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PemSource::File(path) => write!(f, "{}", path.display()),
            PemSource::Text(_) => f.write_str("data:"),
        }
    }
}
