//! How other servers are spoken to.

use crate::policy::{Ciphers, provider, versions};
use crate::verifier::{Trust, Verifier, mismatch};
use crate::{Failure, Pair, PolicyError};
use ::aws_lc_rs::digest::{Context, SHA256};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// With how many peers sessions are resumed.
const PEERS_MAX: usize = 256;

/// How many sessions are kept for one peer.
const SESSIONS: usize = 64;

/// What may be chosen for connections to other servers.
#[derive(Clone, Debug)]
pub struct ClientSettings<'a> {
    /// The certificate that is shown to servers that ask for one.
    pub pair: Option<&'a Pair>,
    /// Whether TLS 1.2 is spoken.
    pub tls12: bool,
    /// Whether TLS 1.3 is spoken.
    pub tls13: bool,
    /// The ciphers of TLS 1.2, in OpenSSL's language.
    pub ciphers: &'a str,
    /// The ciphers of TLS 1.3 in their order, joined by `:`; empty for all.
    pub suites: &'a str,
    /// The groups of key exchange by OpenSSL's names, joined by `:`; `auto` for all.
    pub curves: &'a str,
    /// Whether the server gets the name of the request (SNI).
    pub tells_name: bool,
    /// The authorities that certificates are checked against; without them no certificate is checked.
    pub trust: Option<&'a Trust>,
    /// Whether sessions are resumed.
    pub resumes: bool,
    /// The application's protocols that the server is offered, the preferred one first (ALPN).
    pub protocols: &'a [&'a [u8]],
}

impl ClientSettings<'_> {
    /// A digest of all that can be chosen: policies with the same one can replace each other.
    pub fn digest(&self) -> [u8; 32] {
        let ClientSettings {
            pair,
            tls12,
            tls13,
            ciphers,
            suites,
            curves,
            tells_name,
            trust,
            resumes,
            protocols,
        } = self;
        let mut context = Context::new(&SHA256);
        let flags = [*tls12, *tls13, *tells_name, *resumes, pair.is_some(), trust.is_some()];
        context.update(b"client policy");
        context.update(&flags.map(u8::from));
        if let Some(pair) = pair {
            context.update(&pair.digest);
            // The same certificate may come with another chain.
            for der in &pair.certified.cert {
                context.update(&(der.len() as u64).to_be_bytes());
                context.update(der);
            }
        }
        if let Some(trust) = trust {
            context.update(trust.digest());
        }
        context.update(&(protocols.len() as u64).to_be_bytes());
        for protocol in *protocols {
            context.update(&(protocol.len() as u64).to_be_bytes());
            context.update(protocol);
        }
        for list in [ciphers, suites, curves] {
            context.update(&(list.len() as u64).to_be_bytes());
            context.update(list.as_bytes());
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }
}

/// The way other servers are spoken to, shared by all connections of a location.
#[derive(Debug)]
pub struct ClientPolicy {
    config: Arc<ClientConfig>,
    resumes: bool,
    verifies: bool,
    /// For each peer the same, with the sessions that it gave.
    peers: Mutex<HashMap<Box<str>, Arc<ClientConfig>>>,
}

impl ClientPolicy {
    /// Puts the settings together.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn new(settings: &ClientSettings<'_>) -> Result<ClientPolicy, PolicyError> {
        let versions = versions(settings.tls12, settings.tls13)?;
        let provider = {
            let ciphers = Ciphers { tls12: settings.ciphers, tls13: settings.suites };
            provider(settings.tls12, &ciphers, settings.curves)?
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Verifier { algorithms, trust: settings.trust.cloned() };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|_| PolicyError::NoCipher)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match settings.pair {
            Some(pair) => builder.with_client_cert_resolver(Arc::new(Own(pair.clone()))),
            None => builder.with_no_client_auth(),
        };
        config.enable_sni = settings.tells_name;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = settings.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(ClientPolicy {
            config: Arc::new(config),
            resumes: settings.resumes,
            verifies: settings.trust.is_some(),
            peers: Mutex::default(),
        })
    }

    /// The same with these protocols of the application for servers, the preferred one first (ALPN).
    #[must_use]
    pub fn with_protocols(&self, protocols: &[Box<[u8]>]) -> ClientPolicy {
        let mut config = (*self.config).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let (resumes, verifies) = (self.resumes, self.verifies);
        ClientPolicy { config: Arc::new(config), resumes, verifies, peers: Mutex::default() }
    }

    /// The same with this certificate.
    #[must_use]
    pub fn with_pair(&self, pair: &Pair) -> ClientPolicy {
        let mut config = (*self.config).clone();
        config.client_auth_cert_resolver = Arc::new(Own(pair.clone()));
        ClientPolicy { config: Arc::new(config), peers: Mutex::default(), ..*self }
    }

    /// The library's settings for one peer.
    pub(crate) fn config(&self, peer: &str) -> Arc<ClientConfig> {
        if !self.resumes {
            return Arc::clone(&self.config);
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = peers.get(peer) {
            return Arc::clone(known);
        }
        if peers.len() >= PEERS_MAX {
            peers.clear();
        }
        let mut config = (*self.config).clone();
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        let config = Arc::new(config);
        peers.insert(peer.into(), Arc::clone(&config));
        config
    }

    /// A server's name as the library takes it.
    pub(crate) fn name(&self, name: &str) -> Result<ServerName<'static>, Failure> {
        match ServerName::try_from(name.trim_start_matches('[').trim_end_matches(']').to_owned()) {
            Ok(name) => Ok(name),
            Err(_) if self.verifies => Err(Failure::certificate(&mismatch(name).0)),
            // An address is not sent to the server.
            Err(_) => Ok(ServerName::IpAddress(IpAddr::from(Ipv4Addr::UNSPECIFIED).into())),
        }
    }
}

/// The certificate that is shown to servers.
#[derive(Debug)]
struct Own(Pair);

impl ResolvesClientCert for Own {
    /// Like OpenSSL, it is shown whichever authorities the server names.
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.signs(schemes).then(|| Arc::clone(&self.0.certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Authority, server, trust};
    use crate::{Hello, Negotiated, SelfSigned, ServerPolicy, Session, TrustError};
    use rcgen::{
        BasicConstraints, CertificateParams, CrlDistributionPoint, DistinguishedName, DnType, GeneralSubtree,
        IsCa, KeyPair, NameConstraints, date_time_ymd,
    };
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    const PLAIN: ClientSettings<'_> = ClientSettings {
        pair: None,
        tls12: true,
        tls13: true,
        ciphers: "DEFAULT",
        suites: "",
        curves: "auto",
        tells_name: true,
        trust: None,
        resumes: true,
        protocols: &[],
    };

    fn trusting(trust: &Trust) -> ClientPolicy {
        ClientPolicy::new(&ClientSettings { trust: Some(trust), ..PLAIN }).unwrap()
    }

    /// The name that the server saw, and what the client agreed on after a question and an answer.
    fn talk(
        policy: &ClientPolicy,
        name: &str,
        server: &ServerPolicy,
    ) -> Result<(Option<String>, Negotiated), Failure> {
        let mut client = Session::connect(policy, name, "peer")?;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut content = (Vec::new(), Vec::new());
        client.process(&mut [], &mut to_server, &mut content.0)?;
        let hello = Hello::new().read(&to_server, &mut to_client)?.unwrap();
        let mut far = Session::new(server)?;
        for round in 0..8 {
            let plain = if round == 4 { &b"question"[..] } else { b"" };
            let read = far.process(&mut to_server, &mut to_client, &mut content.1)?.consumed;
            to_server.drain(..read);
            let buffers = (&mut to_server, &mut content.0);
            let processed = match plain.is_empty() {
                true => client.process(&mut to_client, buffers.0, buffers.1)?,
                false => client.encrypt(&mut to_client, plain, buffers)?,
            };
            assert!(processed.established || round < 4);
            to_client.drain(..processed.consumed);
        }
        assert_eq!(content.1, b"question");
        Ok((hello.server_name, client.negotiated()))
    }

    fn reason(result: Result<(Option<String>, Negotiated), Failure>) -> String {
        let failure = result.map(|_| ()).unwrap_err();
        assert!(failure.is_certificate);
        failure.to_string()
    }

    #[test]
    fn server_name_is_sent_only_if_enabled_and_not_an_address() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let server = server(&(made.certificate, made.key), true, true);
        let policy = ClientPolicy::new(&PLAIN).unwrap();
        assert_eq!(talk(&policy, "a.example", &server).unwrap().0.as_deref(), Some("a.example"));
        assert_eq!(talk(&policy, "under_score", &server).unwrap().0.as_deref(), Some("under_score"));
        for name in ["127.0.0.1", "[::1]", "", "not a name"] {
            assert_eq!(talk(&policy, name, &server).unwrap().0, None, "{name}");
        }
        let silent = ClientPolicy::new(&ClientSettings { tells_name: false, ..PLAIN }).unwrap();
        assert_eq!(talk(&silent, "a.example", &server).unwrap().0, None);
    }

    #[test]
    fn sessions_are_resumed_unless_disabled() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let pair = (made.certificate, made.key);
        for (tls12, tls13) in [(true, false), (false, true)] {
            let server = server(&pair, tls12, tls13);
            let resumed = |policy: &ClientPolicy| talk(policy, "a", &server).unwrap().1.resumed;
            let policy = ClientPolicy::new(&PLAIN).unwrap();
            assert!(!resumed(&policy) && resumed(&policy) && resumed(&policy));
            let policy = ClientPolicy::new(&ClientSettings { resumes: false, ..PLAIN }).unwrap();
            assert!(!resumed(&policy) && !resumed(&policy));
        }
    }

    #[test]
    fn certificate_must_come_from_a_trusted_authority() {
        let (root, other) = (Authority::new("root"), Authority::new("other"));
        let pair = root.sign(|_| ());
        for (tls12, tls13) in [(true, false), (false, true)] {
            let server = server(&pair, tls12, tls13);
            let trust = |pem: &str| trust(pem, None, 1).unwrap();
            assert!(talk(&trusting(&trust(&root.pem)), "a.example", &server).is_ok());
            let both = format!("{}{}", other.pem, root.pem);
            assert!(talk(&trusting(&trust(&both)), "A.example", &server).is_ok());
            let failed = reason(talk(&trusting(&trust(&other.pem)), "a.example", &server));
            assert_eq!(failed, "certificate verify error: (21:unable to verify the first certificate)");
            let failed = reason(talk(&trusting(&trust(&root.pem)), "b.example", &server));
            assert_eq!(failed, "certificate does not match \"b.example\"");
            let failed = reason(talk(&trusting(&trust(&root.pem)), "no name", &server));
            assert_eq!(failed, "certificate does not match \"no name\"");
        }
    }

    #[test]
    fn self_signed_certificate_is_accepted_if_it_is_trusted_itself() {
        let key = KeyPair::generate().unwrap();
        for is_authority in [false, true] {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            if is_authority {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            let pem = params.self_signed(&key).unwrap().pem();
            let own = trust(&pem, None, 1).unwrap();
            let server = server(&(pem, key.serialize_pem()), true, true);
            assert!(talk(&trusting(&own), "a.example", &server).is_ok());
            let failed = reason(talk(&trusting(&own), "b.example", &server));
            assert_eq!(failed, "certificate does not match \"b.example\"");
            let other = trust(&Authority::new("x").pem, None, 1).unwrap();
            let failed = reason(talk(&trusting(&other), "a.example", &server));
            assert_eq!(failed, "certificate verify error: (18:self-signed certificate)");
        }
    }

    #[test]
    fn expired_certificates_are_rejected() {
        let root = Authority::new("root");
        let trust = trust(&root.pem, None, 1).unwrap();
        let old = root.sign(|params| params.not_after = date_time_ymd(2020, 1, 1));
        let failed = reason(talk(&trusting(&trust), "a.example", &server(&old, true, true)));
        assert_eq!(failed, "certificate verify error: (10:certificate has expired)");
        let early = root.sign(|params| params.not_before = date_time_ymd(2900, 1, 1));
        let failed = reason(talk(&trusting(&trust), "a.example", &server(&early, true, true)));
        assert_eq!(failed, "certificate verify error: (9:certificate is not yet valid)");
    }

    #[test]
    fn common_name_counts_only_without_other_names() {
        let root = Authority::new("root");
        let trust = trust(&root.pem, None, 1).unwrap();
        let named = |alternative: bool| {
            root.sign(|params| {
                params.distinguished_name.push(DnType::CommonName, "c.example");
                if !alternative {
                    params.subject_alt_names.clear();
                }
            })
        };
        assert!(talk(&trusting(&trust), "c.example", &server(&named(false), true, true)).is_ok());
        assert!(talk(&trusting(&trust), "c.example", &server(&named(true), true, true)).is_err());
    }

    #[test]
    fn chain_is_limited_by_the_depth() {
        let root = Authority::new("root");
        let (one, pair) = {
            let one = Authority::under("one", &root);
            let pair = one.sign(|_| ());
            (one, pair)
        };
        let whole = (format!("{}{}", pair.0, one.pem), pair.1.clone());
        let check = |depth, authorities: &str, pair: &(String, String)| {
            let trust = trust(authorities, None, depth).unwrap();
            talk(&trusting(&trust), "a.example", &server(pair, true, true))
        };
        assert!(check(1, &root.pem, &whole).is_ok());
        let failed = reason(check(0, &root.pem, &whole));
        assert_eq!(failed, "certificate verify error: (20:unable to get local issuer certificate)");
        assert!(check(1, &format!("{}{}", root.pem, one.pem), &pair).is_ok(), "found in the file");
        assert!(check(1, &one.pem, &pair).is_err(), "like OpenSSL's, a chain ends at a root");
    }

    #[test]
    fn revoked_certificates_are_rejected() {
        let root = Authority::new("root");
        let pair = root.sign(|_| ());
        let check = |list: &str| {
            let trust = trust(&root.pem, Some(list), 1).unwrap();
            talk(&trusting(&trust), "a.example", &server(&pair, true, true))
        };
        assert!(check(&root.revoke(&[8])).is_ok());
        let failed = reason(check(&root.revoke(&[8, 7])));
        assert_eq!(failed, "certificate verify error: (23:certificate revoked)");
        let failed = reason(check(&Authority::new("other").revoke(&[])));
        assert_eq!(failed, "certificate verify error: (3:unable to get certificate CRL)");
    }

    #[test]
    fn list_of_a_place_is_about_the_certificates_that_name_it() {
        let at = |params: &mut CertificateParams, place: &str| {
            params.crl_distribution_points = vec![CrlDistributionPoint { uris: vec![place.to_owned()] }];
        };
        let root = Authority::made("root", None, |params| at(params, "http://a/root"));
        let list = |serial: u64, place| root.revoke_at(&[serial], Some(place));
        let (one, two, of_root) = (list(8, "http://a/1"), list(7, "http://a/2"), list(9, "http://a/root"));
        let check = |lists: &[&str], place: Option<&str>| {
            let pair = root.sign(|params| place.into_iter().for_each(|place| at(params, place)));
            let trust = trust(&root.pem, Some(&lists.concat()), 1).unwrap();
            let talked = talk(&trusting(&trust), "a.example", &server(&pair, true, true));
            talked.map(|_| ()).map_err(|error| error.to_string())
        };
        let refused = |reason: &str| Err(format!("certificate verify error: ({reason})"));
        assert_eq!(check(&[&one, &two, &of_root], Some("http://a/1")), Ok(()));
        for lists in [[&*one, &two, &of_root], [&two, &one, &of_root], [&of_root, &two, &one]] {
            assert_eq!(check(&lists, Some("http://a/2")), refused("23:certificate revoked"));
        }
        assert_eq!(check(&[&one, &of_root], Some("http://a/2")), refused("44:different CRL scope"));
        assert_eq!(check(&[&one, &of_root], None), refused("44:different CRL scope"));
        assert_eq!(
            check(&[&one], Some("http://a/1")),
            refused("44:different CRL scope"),
            "the root's is missing"
        );
    }

    #[test]
    fn authority_with_limited_names_cannot_evade_them_by_the_subject() {
        let root = Authority::new("root");
        let trust = trust(&root.pem, None, 2).unwrap();
        let directory = || {
            let mut directory = DistinguishedName::new();
            directory.push(DnType::OrganizationName, "x");
            GeneralSubtree::DirectoryName(directory)
        };
        let check = |subtree: GeneralSubtree, name: &str, organization: &str| {
            let between = Authority::made("between", Some(&root), |params| {
                let permitted_subtrees = vec![subtree];
                let constraints = NameConstraints { permitted_subtrees, excluded_subtrees: vec![] };
                params.name_constraints = Some(constraints);
            });
            let mut pair = between.sign(|params| {
                params.subject_alt_names.clear();
                params.distinguished_name = DistinguishedName::new();
                params.distinguished_name.push(DnType::OrganizationName, organization);
                params.distinguished_name.push(DnType::CommonName, name);
            });
            pair.0 += &between.pem;
            talk(&trusting(&trust), name, &server(&pair, true, true))
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        let host = || GeneralSubtree::DnsName("a.example".to_owned());
        let refused = Err("certificate verify error: (47:permitted subtree violation)".to_owned());
        assert_eq!(check(host(), "x.a.example", "x"), Ok(()));
        assert_eq!(check(host(), "b.example", "x"), refused);
        assert_eq!(check(directory(), "b.example", "y"), refused);
        assert_eq!(check(directory(), "b.example", "x"), refused, "stricter than OpenSSL");
    }

    #[test]
    fn authority_between_needs_basic_constraints() {
        let root = Authority::new("root");
        let trust = trust(&root.pem, None, 2).unwrap();
        let between = Authority::made("between", Some(&root), |params| params.is_ca = IsCa::NoCa);
        let mut pair = between.sign(|_| ());
        pair.0 += &between.pem;
        let failed = reason(talk(&trusting(&trust), "a.example", &server(&pair, true, true)));
        assert_eq!(failed, "certificate verify error: (79:invalid CA certificate)");
    }

    #[test]
    fn wrong_files_are_told() {
        let root = Authority::new("root");
        let error = |pem: &str, crl: Option<&str>| trust(pem, crl, 1).unwrap_err();
        assert_eq!(error("", None), TrustError::NoCertificate);
        // As `openssl x509 -trustout` writes it, with `-addtrust serverAuth`, `-addreject clientAuth` and `-setalias`.
        let purpose = |last| vec![0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, last];
        let trusted = |added: &[u8]| {
            let der = CertificateDer::from_pem_slice(root.pem.as_bytes()).unwrap();
            let length = u8::try_from(added.len()).unwrap();
            let text = http::base64::encode(&[der.as_ref(), &[0x30, length], added].concat());
            format!("-----BEGIN TRUSTED CERTIFICATE-----\n{text}\n-----END TRUSTED CERTIFICATE-----\n")
        };
        for tag in [0x30, 0xa0] {
            let limited = [vec![tag, 10], purpose(1)].concat();
            assert_eq!(error(&trusted(&limited), None), TrustError::LimitedTrust);
        }
        assert!(trust(&trusted(&[0x0c, 1, b'x']), None, 1).is_ok());
        assert_eq!(error(&root.pem, Some("")), TrustError::NoRevoked);
        assert_eq!(error(&root.pem, Some(&root.pem)), TrustError::NoRevoked);
        let broken = "-----BEGIN X509 CRL-----\nMAMCAQA=\n-----END X509 CRL-----\n";
        assert_eq!(error(&root.pem, Some(broken)), TrustError::BadRevoked);
    }

    #[test]
    fn any_different_setting_is_another_policy() {
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let pair = Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").unwrap();
        let (root, other) = (Authority::new("root"), Authority::new("other"));
        let trust = |pem: &str, depth| trust(pem, None, depth).unwrap();
        let trusts = [trust(&root.pem, 1), trust(&root.pem, 2), trust(&other.pem, 1)];
        let mut all = vec![
            PLAIN,
            ClientSettings { pair: Some(&pair), ..PLAIN },
            ClientSettings { tls12: false, ..PLAIN },
            ClientSettings { tls13: false, ..PLAIN },
            ClientSettings { ciphers: "HIGH", ..PLAIN },
            ClientSettings { suites: "TLS_AES_128_GCM_SHA256", ..PLAIN },
            ClientSettings { curves: "X25519", ..PLAIN },
            ClientSettings { tells_name: false, ..PLAIN },
            ClientSettings { resumes: false, ..PLAIN },
        ];
        all.extend(trusts.iter().map(|trust| ClientSettings { trust: Some(trust), ..PLAIN }));
        let digests: std::collections::HashSet<_> = all.iter().map(ClientSettings::digest).collect();
        assert_eq!(digests.len(), all.len());
        assert_eq!(PLAIN.digest(), ClientSettings { ciphers: "DEFAULT", ..PLAIN }.digest());
    }
}
