//! How a virtual server is to encrypt, as it was written.

use conf::Span;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a virtual server is to encrypt. The server reads the files when it puts a site together.
#[derive(Clone, Debug)]
pub struct TlsPolicy {
    /// Certificates with their keys, one for each kind of key.
    pub certificates: Vec<(Pem, Pem)>,
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
