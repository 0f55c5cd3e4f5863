//! How a virtual server speaks TLS.

use crate::tickets::{Sessions, Stamp, Tickets};
use crate::{Pair, ciphers};
use ::aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedCipherSuite, version};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// What may be chosen for a virtual server.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Certificates with their keys, one for each kind of key.
    pub pairs: &'a [Pair],
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The ciphers of TLS 1.2, in OpenSSL's language.
    pub ciphers: &'a str,
    /// Whether the server's order of ciphers counts.
    pub prefer_server_ciphers: bool,
    /// The groups of key exchange by OpenSSL's names, joined by `:`; `auto` for all.
    pub curves: &'a str,
    /// Whether clients get tickets.
    pub tickets: bool,
    /// How many sessions are kept for clients without tickets.
    pub cached_sessions: usize,
    /// How long a session can be resumed.
    pub session_timeout: Duration,
}

impl Settings<'_> {
    /// A digest of all that can be chosen: what has the same one can be used in place of each other.
    pub fn digest(&self) -> [u8; 32] {
        // Of keys only the public part is shown, which tells them apart.
        let digest = ::aws_lc_rs::digest::digest(&SHA256, format!("{self:?}").as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        bytes
    }
}

/// The way a virtual server speaks TLS, shared by all of its connections.
#[derive(Clone, Debug)]
pub struct ServerPolicy {
    pub(crate) config: Arc<ServerConfig>,
}

/// Settings that leave nothing to speak with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// Neither version is allowed.
    #[error("no protocol version that is known here is enabled")]
    NoVersion,
    /// No cipher of TLS 1.2 is left.
    #[error("no cipher match")]
    NoCipher,
    /// No group is left.
    #[error("no group match")]
    NoGroup,
    /// The library refused.
    #[error("the system gave no random bytes")]
    Library,
}

impl ServerPolicy {
    /// Whether it is the very same, and not only one that speaks alike.
    pub fn is(&self, other: &ServerPolicy) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }

    /// Puts the settings together.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn new(settings: &Settings<'_>) -> Result<ServerPolicy, PolicyError> {
        let versions = match (settings.tls12, settings.tls13) {
            (true, true) => &[&version::TLS13, &version::TLS12][..],
            (true, false) => &[&version::TLS12],
            (false, true) => &[&version::TLS13],
            (false, false) => return Err(PolicyError::NoVersion),
        };
        let provider = provider(settings)?;
        let resolver = Arc::new(Resolver { pairs: settings.pairs.to_vec() });
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .map_err(|_| PolicyError::NoCipher)?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.ignore_client_order = settings.prefer_server_ciphers;
        config.alpn_protocols = [&b"http/1.1"[..], b"http/1.0", b"http/0.9"].map(<[u8]>::to_vec).into();
        let stamp = Stamp { owner: owner(settings.pairs), timeout: settings.session_timeout };
        config.session_storage = match settings.cached_sessions {
            0 => Arc::new(NoServerSessionStorage {}),
            count => Arc::new(Sessions::new(count, stamp.clone())),
        };
        if settings.tickets {
            config.ticketer = Arc::new(Tickets::new(stamp).map_err(|_| PolicyError::Library)?);
        }
        Ok(ServerPolicy { config: Arc::new(config) })
    }
}

fn provider(settings: &Settings<'_>) -> Result<CryptoProvider, PolicyError> {
    let mut provider = aws_lc_rs::default_provider();
    let chosen = ciphers::select(settings.ciphers);
    if settings.tls12 && chosen.is_empty() {
        return Err(PolicyError::NoCipher);
    }
    provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
    provider.cipher_suites.extend(chosen);
    if settings.curves != "auto" {
        provider.kx_groups = settings.curves.split(':').filter_map(group).collect();
        if provider.kx_groups.is_empty() {
            return Err(PolicyError::NoGroup);
        }
    }
    Ok(provider)
}

/// A group by OpenSSL's name; none for one that does not exist here.
fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    match name.to_ascii_lowercase().as_str() {
        "x25519mlkem768" => Some(aws_lc_rs::kx_group::X25519MLKEM768),
        "x25519" => Some(aws_lc_rs::kx_group::X25519),
        "prime256v1" | "secp256r1" | "p-256" => Some(aws_lc_rs::kx_group::SECP256R1),
        "secp384r1" | "p-384" => Some(aws_lc_rs::kx_group::SECP384R1),
        _ => None,
    }
}

/// A digest of all certificates: sessions of servers with the same ones are worth the same.
fn owner(pairs: &[Pair]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    pairs.iter().for_each(|pair| context.update(&pair.digest));
    let mut owner = [0; 32];
    owner.copy_from_slice(context.finish().as_ref());
    owner
}

/// Chooses among the server's own certificates by the kinds of signature that the client takes.
#[derive(Debug)]
struct Resolver {
    pairs: Vec<Pair>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        // Elliptic curves are cheaper for both sides.
        let is_costly = |pair: &&Pair| pair.algorithm() == rustls::SignatureAlgorithm::RSA;
        let usable = self.pairs.iter().filter(|pair| pair.signs(schemes));
        // Where there is none, the handshake fails, and says so, at what the client does not take.
        let chosen = usable.min_by_key(is_costly).or(self.pairs.first());
        chosen.map(|pair| Arc::clone(&pair.certified))
    }
}
