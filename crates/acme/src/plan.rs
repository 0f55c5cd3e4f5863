//! What a configuration asks of authorities: which certificates, from whom.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

/// An authority that issues certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The name in the configuration.
    pub name: String,
    /// The URL of its directory (RFC 8555, section 7.1.1).
    pub uri: String,
    /// Where it may send notices, as URLs.
    pub contacts: Vec<String>,
    /// A file with the key of the account, as PEM (PKCS#8). Without one a key is made.
    pub account_key: Option<PathBuf>,
    /// The identifier and the key of an account elsewhere (RFC 8555, section 7.3.4).
    pub external_account: Option<(String, ExternalKey)>,
    /// How control over the names is shown.
    pub challenge: Challenge,
    /// The directory with the account and the certificates.
    pub state: PathBuf,
    /// Whether the terms of service are agreed to.
    pub accepts_terms: bool,
    /// The profile that is asked for, and whether the authority must have it.
    pub profile: Option<(String, bool)>,
    /// The common name of the issuer of the topmost certificate in the chain that is preferred.
    pub preferred_chain: Option<String>,
    /// Whether the first name is also the subject.
    pub has_common_name: bool,
    /// The file with the certificates that its own must lead to; without one those of the system.
    pub trusted: Option<PathBuf>,
    /// Whether its certificate is checked.
    pub verifies: bool,
}

/// Where the key of an account elsewhere is, in base64url.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalKey {
    /// In a file.
    File(PathBuf),
    /// Here.
    Text(String),
}

/// How control over names is shown (RFC 8555, section 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By a file on port 80.
    Http,
    /// By a certificate on port 443 (RFC 8737).
    TlsAlpn,
    /// By a record of the name server, which this command sets and removes.
    Dns(PathBuf),
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the parameter of that name")]
pub enum KeyKind {
    #[default]
    Ecdsa256,
    Ecdsa384,
    Ecdsa521,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

/// A certificate that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Who issues it.
    pub issuer: Arc<Issuer>,
    /// Host names in lower case and IP addresses; the first one names the files.
    pub names: Vec<String>,
    /// The kind of its key.
    pub key: KeyKind,
}

/// All certificates that a configuration wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    orders: BTreeMap<PathBuf, Order>,
}

impl Challenge {
    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Challenge::Http => "http-01",
            Challenge::TlsAlpn => "tls-alpn-01",
            Challenge::Dns(_) => "dns-01",
        }
    }
}

impl Order {
    /// The file with the certificate, its chain and its key.
    pub fn path(&self) -> PathBuf {
        self.file("pem")
    }

    /// The file with the result of the attempts to get it.
    pub(crate) fn report_path(&self) -> PathBuf {
        self.file("json")
    }

    fn file(&self, extension: &str) -> PathBuf {
        let all = format!("{:?} {}", self.key, self.names.join(" "));
        let hash = short_hash(&all);
        let is_plain = |byte: &char| byte.is_ascii_alphanumeric() || matches!(byte, '.' | '-');
        let first = self.first_name().replace('*', "wildcard");
        let name: String = first.chars().filter(is_plain).take(100).collect();
        self.issuer.state.join(format!("{name}-{hash}.{extension}"))
    }

    /// The name by which messages call it.
    pub fn first_name(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// A text that is the same for the same settings of the order and its issuer. It shows none of them.
    pub(crate) fn settings(&self) -> String {
        short_hash(&format!("{self:?}"))
    }

    /// A number that is the same for the same certificate, and differs among others.
    pub(crate) fn number(&self) -> u64 {
        let hash = digest(&SHA256, self.path().as_os_str().as_encoded_bytes());
        hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The first eight bytes of the SHA-256 digest of a text, in hexadecimal.
fn short_hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Plan {
    /// Adds a certificate. One that is wanted already is the same one.
    pub fn add(&mut self, order: Order) {
        self.orders.insert(order.path(), order);
    }

    /// Whether no certificate is wanted.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// The certificates.
    pub fn orders(&self) -> impl Iterator<Item = &Order> {
        self.orders.values()
    }

    /// The files of the certificates.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.orders.keys()
    }
}

/// A name as a certificate has it: a host name in lower case, or an address in its usual form. `None` for what no
/// certificate has, such as a pattern. A wildcard is good if the challenge can show control over it.
pub fn certificate_name(name: &str, challenge: &Challenge) -> Option<String> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = name.to_ascii_lowercase();
    let host = match name.strip_prefix("*.") {
        Some(host) if matches!(challenge, Challenge::Dns(_)) => host,
        Some(_) => return None,
        None => &name,
    };
    let is_label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    (host.len() <= 253 && host.contains('.') && host.split('.').all(is_label)).then(|| name.clone())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn order(names: &[&str]) -> Order {
        let issuer = Issuer {
            name: "test".to_owned(),
            uri: "https://localhost/dir".to_owned(),
            contacts: Vec::new(),
            account_key: None,
            external_account: None,
            challenge: Challenge::Http,
            state: PathBuf::from("/state"),
            accepts_terms: true,
            profile: None,
            preferred_chain: None,
            has_common_name: false,
            trusted: None,
            verifies: true,
        };
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Order { issuer: Arc::new(issuer), names, key: KeyKind::default() }
    }

    #[test]
    fn files_are_told_apart_by_all_names_and_by_the_key() {
        let one = order(&["a.example", "b.example"]);
        let shown = one.path().display().to_string();
        assert!(shown.starts_with("/state/a.example-") && shown.ends_with(".pem"), "{shown}");
        let rsa = Order { key: KeyKind::Rsa2048, ..one.clone() };
        let others = [order(&["a.example"]).path(), rsa.path(), order(&["b.example", "a.example"]).path()];
        assert!(others.iter().all(|other| *other != one.path()));
        let odd = order(&["*.a.example/../x"]).path().display().to_string();
        assert!(odd.starts_with("/state/wildcard.a.example..x-"), "{odd}");
        let mut plan = Plan::default();
        plan.add(one.clone());
        plan.add(one);
        assert_eq!(plan.orders().count(), 1);
    }

    #[test]
    fn only_names_that_certificates_have_are_taken() {
        let of = |name| certificate_name(name, &Challenge::Http);
        assert_eq!(of("WWW.Example.org").as_deref(), Some("www.example.org"));
        assert_eq!(of("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(of("2001:DB8::1").as_deref(), Some("2001:db8::1"));
        for wrong in
            ["", "_", "localhost", "*.example.org", "a..example", "-a.example", "a b.example", "*.*.a.b"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let dns = Challenge::Dns(PathBuf::from("/bin/true"));
        assert_eq!(certificate_name("*.example.org", &dns).as_deref(), Some("*.example.org"));
        assert_eq!(certificate_name("a.*.example.org", &dns), None);
    }
}
