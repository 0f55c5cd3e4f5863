//! How a virtual server is to encrypt, as it was written.

use crate::{Args, Loading};
use conf::{Diagnostic, Inputs, Span, value};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a virtual server is to encrypt. The server reads the files when it puts a site together.
#[derive(Clone, Debug)]
pub struct TlsPolicy {
    /// Certificates with their keys, one for each kind of key.
    pub certificates: Vec<(Pem, Pem)>,
    /// The authorities of `ssl_trusted_certificate`. The file is checked and not used.
    pub trusted: Option<Pem>,
    /// The authorities of `ssl_client_certificate`. The file is checked and not used: no client is asked for a
    /// certificate.
    pub client_authorities: Option<Pem>,
    /// The revoked certificates of `ssl_crl`. The file is checked and not used.
    pub revoked: Option<Pem>,
    /// Whether clients that ask for this server are turned away in the handshake.
    pub reject: bool,
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// Where TLS 1.0 or 1.1 were named beside those.
    pub obsolete_at: Option<Span>,
    /// The ciphers of TLS 1.2 in OpenSSL's language.
    pub ciphers: String,
    /// Where they were named, if they were.
    pub ciphers_at: Option<Span>,
    /// Whether the server's order of ciphers counts.
    pub prefer_server_ciphers: bool,
    /// The groups of key exchange by OpenSSL's names, joined by `:`; `auto` for all.
    pub curves: String,
    /// Where they were named, if they were.
    pub curves_at: Option<Span>,
    /// Whether clients get tickets.
    pub tickets: bool,
    /// How many sessions are kept for clients without tickets.
    pub cached_sessions: usize,
    /// How long a session can be resumed.
    pub session_timeout: Duration,
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

impl Default for TlsPolicy {
    fn default() -> TlsPolicy {
        TlsPolicy {
            certificates: Vec::new(),
            trusted: None,
            client_authorities: None,
            revoked: None,
            reject: false,
            tls12: true,
            tls13: true,
            obsolete_at: None,
            ciphers: "HIGH:!aNULL:!MD5".to_owned(),
            ciphers_at: None,
            prefer_server_ciphers: false,
            curves: "auto".to_owned(),
            curves_at: None,
            tickets: true,
            cached_sessions: 0,
            session_timeout: Duration::from_secs(300),
        }
    }
}
