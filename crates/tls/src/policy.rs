//! How a virtual server speaks TLS.

use crate::compression::Zlib;
use crate::tickets::Resumption;
use crate::verifier::{Asking, Trust};
use crate::{
    Authorities, ClientHello, OcspScope, Pair, StatusCheck, StatusSettings, TicketKey, ciphers, signatures,
};
use ::aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello as Offer, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion, version};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// What may be chosen for a virtual server.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Certificates with their keys, one for each kind of key.
    pub pairs: &'a [Pair],
    /// What needs no files.
    pub choices: &'a Choices,
    /// How certificates of clients are checked; without it clients are asked for none.
    pub clients: Option<ClientCheck<'a>>,
}

/// What may be chosen for a virtual server and needs no files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The ciphers of TLS 1.2, in OpenSSL's language.
    pub ciphers: String,
    /// Whether the server's order of ciphers counts.
    pub prefer_server_ciphers: bool,
    /// The groups of key exchange by OpenSSL's names, joined by `:`; `auto` for all.
    pub curves: String,
    /// Whether clients get tickets.
    pub tickets: bool,
    /// How many sessions are kept for clients without tickets.
    pub cached_sessions: usize,
    /// How long a session can be resumed.
    pub session_timeout: Duration,
    /// Whether clients that resume a session may send data with their first message (RFC 8446, section 2.3).
    pub early_data: bool,
    /// The ciphers of TLS 1.3 in their order, joined by `:`; empty for all.
    pub suites: String,
    /// The algorithms by which the server signs, by OpenSSL's names, joined by `:`; empty for all.
    pub signatures: String,
    /// How much content a record has at most, in bytes.
    pub record_size: usize,
    /// Whether certificates are sent compressed to clients that allow that (RFC 8879).
    pub compresses: bool,
    /// The application's protocols, the preferred one first (ALPN); those of HTTP/1 if none are named. With an empty list
    /// nothing is agreed on, whatever clients offer.
    pub protocols: Option<Box<[Box<[u8]>]>>,
}

/// The most content that a record may have, in bytes.
pub const RECORD_MAX: usize = 16 * 1024;

/// How much data a client may send with its first message, in bytes.
const EARLY_DATA_MAX: u32 = 16 * 1024;

/// The least content of a record that can be chosen, and the length of its head, in bytes.
const RECORD_MIN: usize = 32;
const RECORD_HEAD: usize = 5;

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            tls12: true,
            tls13: true,
            ciphers: "HIGH:!aNULL:!MD5".to_owned(),
            prefer_server_ciphers: false,
            curves: "auto".to_owned(),
            tickets: true,
            cached_sessions: 0,
            session_timeout: Duration::from_secs(300),
            early_data: false,
            suites: String::new(),
            signatures: String::new(),
            record_size: RECORD_MAX,
            compresses: false,
            protocols: None,
        }
    }
}

/// How certificates of clients are checked.
#[derive(Clone, Copy, Debug)]
pub struct ClientCheck<'a> {
    /// What they are checked against.
    pub trust: &'a Trust,
    /// The authorities that the server names, so that clients choose among their certificates.
    pub named: Option<&'a Authorities>,
    /// How responders are asked, if they are. [`ServerPolicy::with_status_check`] sets what asks them.
    pub status: Option<&'a StatusSettings>,
}

impl Settings<'_> {
    /// A digest of all settings. Policies with equal digests are interchangeable.
    pub fn digest(&self) -> [u8; 32] {
        // Destructured, so that a further field does not compile until it is added below.
        let Settings { pairs, choices, clients } = *self;
        let Choices {
            tls12,
            tls13,
            ciphers,
            prefer_server_ciphers,
            curves,
            tickets,
            cached_sessions,
            session_timeout,
            early_data,
            suites,
            signatures,
            record_size,
            compresses,
            protocols,
        } = choices;
        let mut digest = Digest::new();
        digest.number(pairs.len() as u128);
        pairs.iter().for_each(|pair| pair.add_to(&mut digest));
        digest.bytes(ciphers.as_bytes());
        digest.bytes(curves.as_bytes());
        digest.bytes(suites.as_bytes());
        digest.bytes(signatures.as_bytes());
        let flags = [tls12, tls13, prefer_server_ciphers, tickets, early_data, compresses];
        for flag in flags {
            digest.number((*flag).into());
        }
        digest.number(protocols.as_ref().map_or(0, |protocols| 1 + protocols.len() as u128));
        protocols.iter().flatten().for_each(|protocol| digest.bytes(protocol));
        digest.number(*record_size as u128);
        digest.number(*cached_sessions as u128);
        digest.number(session_timeout.as_nanos());
        digest.number(clients.is_some().into());
        if let Some(ClientCheck { trust, named, status }) = clients {
            digest.bytes(trust.digest());
            let names = named.map(Authorities::names).unwrap_or_default();
            names.iter().for_each(|name| digest.bytes(name.as_ref()));
            if let Some(StatusSettings { scope, responder }) = status {
                digest.number(1 + u128::from(*scope == OcspScope::Leaf));
                digest.bytes(responder.as_deref().unwrap_or_default().as_bytes());
            }
        }
        digest.finish()
    }
}

/// A SHA-256 digest of several parts that do not run together.
pub(crate) struct Digest(Context);

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(Context::new(&SHA256))
    }

    pub(crate) fn number(&mut self, number: u128) {
        self.0.update(&number.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u128);
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.finish().as_ref());
        bytes
    }
}

/// The way a virtual server speaks TLS, shared by all of its connections.
#[derive(Clone, Debug)]
pub struct ServerPolicy {
    pub(crate) config: Arc<ServerConfig>,
    /// The same, which offers HTTP/2 besides.
    offers_http2: Arc<ServerConfig>,
    /// What certificates of clients are checked against.
    pub(crate) clients: Option<Trust>,
    /// Asks responders about them.
    pub(crate) status_check: Option<Arc<dyn StatusCheck>>,
    resumption: Arc<Resumption>,
    /// The algorithms by which the server signs; none for all.
    signatures: Arc<[SignatureScheme]>,
    /// The protocol that consists of a handshake.
    handshakes: Option<Arc<dyn Handshakes>>,
}

/// A protocol that consists of a handshake: a client offers it alone, gets a certificate by it, and leaves.
pub trait Handshakes: fmt::Debug + Send + Sync {
    /// The name of the protocol (RFC 7301).
    fn protocol(&self) -> &[u8];

    /// The certificate for a client that asks for this name.
    fn find(&self, name: &str) -> Option<Pair>;
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
    /// A cipher of TLS 1.3 is unknown.
    #[error("no ciphersuites match")]
    NoSuite,
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

    /// Whether both check certificates of clients against the same, or check none.
    pub fn checks_clients_like<'a>(&'a self, other: &'a ServerPolicy) -> bool {
        let settings = |policy: &'a ServerPolicy| policy.status_check.as_ref().map(|check| check.settings());
        self.clients.as_ref().map(Trust::digest) == other.clients.as_ref().map(Trust::digest)
            && settings(self) == settings(other)
    }

    /// The same policy, whose clients this check is for.
    #[must_use]
    pub fn with_status_check(self, status_check: Option<Arc<dyn StatusCheck>>) -> ServerPolicy {
        ServerPolicy { status_check, ..self }
    }

    /// What asks responders about certificates of clients.
    pub fn status_check(&self) -> Option<&Arc<dyn StatusCheck>> {
        self.status_check.as_ref()
    }

    /// Puts the settings together.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn new(settings: &Settings<'_>) -> Result<ServerPolicy, PolicyError> {
        let choices = settings.choices;
        let versions = versions(choices.tls12, choices.tls13)?;
        let ciphers = Ciphers { tls12: &choices.ciphers, tls13: &choices.suites };
        let provider = provider(choices.tls12, &ciphers, &choices.curves)?;
        let signatures: Arc<[_]> = signatures::schemes(&choices.signatures).unwrap_or_default().into();
        let resolver =
            Arc::new(Resolver { pairs: settings.pairs.to_vec(), signatures: Arc::clone(&signatures) });
        let clients: Arc<dyn ClientCertVerifier> = match settings.clients {
            Some(ClientCheck { named, .. }) => Arc::new(Asking {
                algorithms: provider.signature_verification_algorithms,
                names: named.map(Authorities::names).unwrap_or_default(),
            }),
            None => Arc::new(NoClientAuth),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|_| PolicyError::NoCipher)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(resolver);
        config.ignore_client_order = choices.prefer_server_ciphers;
        // What the library limits includes the head of a record.
        config.max_fragment_size = Some(choices.record_size.clamp(RECORD_MIN, RECORD_MAX) + RECORD_HEAD);
        if choices.compresses {
            config.cert_compressors = vec![&Zlib];
        }
        config.alpn_protocols = match &choices.protocols {
            Some(protocols) => protocols.iter().map(|protocol| protocol.to_vec()).collect(),
            None => [&b"http/1.1"[..], b"http/1.0", b"http/0.9"].map(<[u8]>::to_vec).into(),
        };
        // A client that has to show a certificate sends nothing before.
        let takes_early_data = choices.early_data && choices.tls13 && settings.clients.is_none();
        if takes_early_data {
            // The response to early data leaves before the client's last message of the handshake has come.
            (config.max_early_data_size, config.send_half_rtt_data) = (EARLY_DATA_MAX, true);
        }
        let resumption = Resumption::new(choices, takes_early_data).map_err(|_| PolicyError::Library)?;
        let clients = settings.clients.map(|clients| clients.trust.clone());
        resumption.apply(&mut config, owner(settings.pairs, clients.as_ref()));
        let mut offers_http2 = config.clone();
        offers_http2.alpn_protocols.insert(0, b"h2".to_vec());
        let (config, offers_http2) = (Arc::new(config), Arc::new(offers_http2));
        Ok(ServerPolicy {
            config,
            offers_http2,
            clients,
            status_check: None,
            resumption: Arc::new(resumption),
            signatures,
            handshakes: None,
        })
    }

    /// The same with these certificates, for one connection. It offers what this policy offers. The kept sessions are
    /// the same, of which those are resumed that began with the same certificates.
    #[must_use]
    pub fn with_pairs(&self, pairs: &[Pair]) -> ServerPolicy {
        let mut config = (*self.config).clone();
        let signatures = Arc::clone(&self.signatures);
        config.cert_resolver = Arc::new(Resolver { pairs: pairs.to_vec(), signatures });
        self.resumption.apply(&mut config, owner(pairs, self.clients.as_ref()));
        let config = Arc::new(config);
        ServerPolicy { offers_http2: Arc::clone(&config), config, ..self.clone() }
    }

    /// The same for connections of QUIC, by which these protocols are spoken. They take no early data.
    #[must_use]
    pub fn for_quic(&self, protocols: &[&[u8]]) -> ServerPolicy {
        let mut config = (*self.config).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        (config.max_early_data_size, config.send_half_rtt_data) = (0, false);
        let config = Arc::new(config);
        ServerPolicy { offers_http2: Arc::clone(&config), config, ..self.clone() }
    }

    /// Has tickets sealed with the first of these keys and opened by each one, from now on. Without any, the keys of this
    /// process are used.
    pub fn set_ticket_keys(&self, keys: Vec<TicketKey>) {
        self.resumption.set_keys(keys);
    }

    /// The same policy, which also speaks a protocol that consists of a handshake.
    #[must_use]
    pub fn with_handshakes(self, handshakes: Option<Arc<dyn Handshakes>>) -> ServerPolicy {
        ServerPolicy { handshakes, ..self }
    }

    /// The policy for a client that offers only a protocol that consists of a handshake; `None` for all others.
    pub fn for_handshake(&self, hello: &ClientHello) -> Option<ServerPolicy> {
        let handshakes = self.handshakes.as_ref()?;
        let [only] = &hello.alpn[..] else { return None };
        if **only != *handshakes.protocol() {
            return None;
        }
        let pair = handshakes.find(hello.server_name.as_deref()?)?;
        let choices = Choices { tickets: false, ..Choices::default() };
        let made = ServerPolicy::new(&Settings { pairs: &[pair], choices: &choices, clients: None }).ok()?;
        let mut config = (*made.config).clone();
        config.alpn_protocols = vec![only.to_vec()];
        Some(ServerPolicy { config: Arc::new(config), ..made })
    }

    /// The policy for connections that may speak HTTP/2, where the client knows it. Sessions and tickets are the same.
    #[must_use]
    pub fn offering_http2(&self) -> ServerPolicy {
        let config = Arc::clone(&self.offers_http2);
        ServerPolicy { offers_http2: Arc::clone(&config), config, ..self.clone() }
    }
}

/// The versions that are enabled.
pub(crate) fn versions(
    tls12: bool,
    tls13: bool,
) -> Result<Vec<&'static SupportedProtocolVersion>, PolicyError> {
    let all = [(tls13, &version::TLS13), (tls12, &version::TLS12)];
    let enabled: Vec<_> = all.into_iter().filter_map(|(is_on, version)| is_on.then_some(version)).collect();
    if enabled.is_empty() { Err(PolicyError::NoVersion) } else { Ok(enabled) }
}

/// Lists of ciphers, in OpenSSL's language.
pub(crate) struct Ciphers<'a> {
    pub(crate) tls12: &'a str,
    /// Empty for all.
    pub(crate) tls13: &'a str,
}

/// The library's cryptography, limited to these ciphers and these groups.
pub(crate) fn provider(tls12: bool, list: &Ciphers<'_>, curves: &str) -> Result<CryptoProvider, PolicyError> {
    let mut provider = aws_lc_rs::default_provider();
    let chosen = ciphers::select(list.tls12);
    if tls12 && chosen.is_empty() {
        return Err(PolicyError::NoCipher);
    }
    provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
    if !list.tls13.is_empty() {
        provider.cipher_suites = ciphers::suites(list.tls13).ok_or(PolicyError::NoSuite)?;
    }
    provider.cipher_suites.extend(chosen);
    if curves != "auto" {
        provider.kx_groups = curves.split(':').filter_map(group).collect();
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

/// A digest of all certificates, and of what clients are checked against: a session is resumed only where both are the
/// same.
fn owner(pairs: &[Pair], clients: Option<&Trust>) -> [u8; 32] {
    let mut digest = Digest::new();
    pairs.iter().for_each(|pair| digest.bytes(&pair.digest));
    if let Some(trust) = clients {
        digest.bytes(trust.digest());
    }
    digest.finish()
}

/// Chooses among the server's own certificates by the kinds of signature that the client takes.
#[derive(Debug)]
struct Resolver {
    pairs: Vec<Pair>,
    /// The algorithms that may be used; none for all.
    signatures: Arc<[SignatureScheme]>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: Offer<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = signatures::common(hello.signature_schemes(), &self.signatures);
        // Elliptic curves are cheaper for both sides.
        let is_costly = |pair: &&Pair| pair.algorithm() == rustls::SignatureAlgorithm::RSA;
        let usable = self.pairs.iter().filter(|pair| pair.signs(&schemes));
        // Where there is none, the handshake fails, and says so, at what the client does not take.
        // Of several pairs of a kind the last one counts, as in OpenSSL.
        let chosen = usable.rev().min_by_key(is_costly).or(self.pairs.first());
        chosen.map(|pair| signatures::limited(pair.certified(), &self.signatures))
    }
}

#[cfg(test)]
mod tests {
    use super::{Choices, ClientCheck, Settings};
    use crate::{Authorities, OcspScope, Pair, SelfSigned, StatusSettings, Trust};
    use rcgen::{CertificateParams, KeyPair};
    use std::time::Duration;

    /// A new certificate without and with a chain.
    fn pairs() -> [Pair; 2] {
        let key = KeyPair::generate().unwrap();
        let own =
            CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        [1, 2].map(|length| {
            Pair::from_pem(own.repeat(length).as_bytes(), key.serialize_pem().as_bytes(), b"").unwrap()
        })
    }

    fn authority() -> Authorities {
        Authorities::from_pem(SelfSigned::new(&["root"]).unwrap().certificate.as_bytes()).unwrap()
    }

    #[test]
    fn every_setting_is_part_of_the_digest() {
        let ([one, chained], [other, _]) = (pairs(), pairs());
        let choices = Choices::default();
        let settings = Settings { pairs: std::slice::from_ref(&one), choices: &choices, clients: None };
        let authorities = authority();
        let trusts = [1, 2].map(|depth| Trust::new(&[&authorities], None, depth).unwrap());
        let check = |trust, named| Some(ClientCheck { trust, named, status: None });
        let status =
            |scope, responder: Option<&str>| StatusSettings { scope, responder: responder.map(Into::into) };
        let statuses = [
            status(OcspScope::Leaf, None),
            status(OcspScope::Chain, None),
            status(OcspScope::Leaf, Some("http://a")),
        ];
        let (both, other, chained) = ([one.clone(), other.clone()], [other], [chained]);
        let all_choices = [
            Choices { tls12: false, ..choices.clone() },
            Choices { tls13: false, ..choices.clone() },
            Choices { ciphers: "ALL".to_owned(), ..choices.clone() },
            Choices { prefer_server_ciphers: true, ..choices.clone() },
            Choices { curves: "x25519".to_owned(), ..choices.clone() },
            Choices { tickets: false, ..choices.clone() },
            Choices { cached_sessions: 2, ..choices.clone() },
            Choices { session_timeout: Duration::from_secs(2), ..choices.clone() },
            Choices { early_data: true, ..choices.clone() },
            Choices { suites: "TLS_AES_128_GCM_SHA256".to_owned(), ..choices.clone() },
            Choices { record_size: 4096, ..choices.clone() },
            Choices { compresses: true, ..choices.clone() },
            Choices { protocols: Some(Box::default()), ..choices.clone() },
            Choices { protocols: Some([b"a"[..].into()].into()), ..choices.clone() },
        ];
        let mut all = vec![
            settings.clone(),
            Settings { pairs: &[], ..settings.clone() },
            Settings { pairs: &other, ..settings.clone() },
            Settings { pairs: &chained, ..settings.clone() },
            Settings { pairs: &both, ..settings.clone() },
            Settings { clients: check(&trusts[0], None), ..settings.clone() },
            Settings { clients: check(&trusts[1], None), ..settings.clone() },
            Settings { clients: check(&trusts[0], Some(&authorities)), ..settings.clone() },
        ];
        all.extend(statuses.iter().map(|status| {
            let clients = Some(ClientCheck { trust: &trusts[0], named: None, status: Some(status) });
            Settings { clients, ..settings.clone() }
        }));
        all.extend(all_choices.iter().map(|choices| Settings { choices, ..settings.clone() }));
        for (index, settings) in all.iter().enumerate() {
            assert_eq!(settings.digest(), settings.clone().digest());
            assert!(all[..index].iter().all(|other| other.digest() != settings.digest()), "{settings:?}");
        }
    }
}
