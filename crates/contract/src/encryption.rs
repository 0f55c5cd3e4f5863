//! How a virtual server is to encrypt, as it was written.

use crate::{Args, Exchange, Loading, Template};
use conf::{Diagnostic, Span, value};
use inputs::{Pem, PemSource};
use policy::VerifyClient;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{Choices, Handshakes, PairCache, Stapling, StatusCheck};

/// How a virtual server is to encrypt. The server reads the files when it puts a site together.
#[derive(Clone, Debug, Default)]
pub struct TlsPolicy {
    /// Certificates with their keys, one for each kind of key.
    pub certificates: Vec<(PemValue, PemValue)>,
    /// Keeps those that variables name.
    pub certificate_cache: Option<Arc<PairCache>>,
    /// A protocol that consists of a handshake.
    pub handshakes: Option<Arc<dyn Handshakes>>,
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
    /// Asks responders about certificates of clients.
    pub status_check: Option<Arc<dyn StatusCheck>>,
    /// Where `ssl_stapling on` was said, and how answers of responders are fetched.
    pub stapling: Option<(Span, Arc<Stapling>)>,
    /// The responder's answer about the certificates (OCSP), as DER.
    pub stapling_file: Option<Pem>,
    /// Keys of tickets: the first one seals, each one opens.
    pub ticket_keys: Vec<Pem>,
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

/// The value of a directive that names a certificate or a key.
#[derive(Clone, Debug)]
pub enum PemValue {
    /// The same for all requests.
    Fixed(Pem),
    /// A value with variables.
    Variable(Box<VariablePem>),
}

/// A value with variables, which tells for each request where a certificate or a key is.
#[derive(Clone, Debug)]
pub struct VariablePem {
    template: Template,
    /// How it was written.
    text: Box<[u8]>,
    /// Where relative paths start.
    pub prefix: PathBuf,
    span: Span,
}

impl PemValue {
    /// Reads the value of a directive: a file, or `data:` with the text. It may have variables.
    ///
    /// # Errors
    /// A variable is malformed.
    pub fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<PemValue, Diagnostic> {
        let (word, span) = (args.word(0)?, args.node.span);
        if word.text.contains(&b'$') {
            let (template, text) = (loading.template(word)?, word.text.clone());
            let prefix = loading.conf_prefix.clone();
            return Ok(PemValue::Variable(Box::new(VariablePem { template, text, prefix, span })));
        }
        Ok(PemValue::Fixed(Pem { source: source(&word.text, &loading.conf_prefix), span }))
    }

    /// What it tells for this exchange.
    #[must_use]
    pub fn evaluate(&self, exchange: &Exchange) -> Pem {
        match self {
            PemValue::Fixed(pem) => pem.clone(),
            PemValue::Variable(variable) => {
                let text = variable.template.evaluate(exchange);
                let source = source(&text, &variable.prefix);
                Pem { source, span: variable.span }
            }
        }
    }

    /// What it tells for all requests.
    pub fn fixed(&self) -> Option<&Pem> {
        match self {
            PemValue::Fixed(pem) => Some(pem),
            PemValue::Variable(_) => None,
        }
    }

    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            PemValue::Fixed(pem) => pem.span,
            PemValue::Variable(variable) => variable.span,
        }
    }
}

/// The text after `data:`, or a file.
fn source(text: &[u8], prefix: &Path) -> PemSource {
    match text.strip_prefix(b"data:") {
        Some(text) => PemSource::Text(text.into()),
        None => PemSource::File(value::full_name(text, prefix)),
    }
}

impl fmt::Display for PemValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PemValue::Fixed(pem) => pem.source.fmt(f),
            PemValue::Variable(variable) => f.write_str(&String::from_utf8_lossy(&variable.text)),
        }
    }
}
