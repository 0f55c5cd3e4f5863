//! An authority of one user, for servers on the user's own machine and network. A browser that trusts its certificate
//! accepts every certificate that it issues.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};

use crate::SelfSigned;

/// How long the authority is valid: ten years.
const AUTHORITY_LIFE: Duration = days(3650);
/// How long a certificate is valid. Browsers reject certificates that are valid for more than 825 days.
const CERTIFICATE_LIFE: Duration = days(397);
/// Certificates begin to be valid earlier, for clocks that are slow.
const EARLIER: Duration = days(1);

const fn days(number: u64) -> Duration {
    Duration::from_secs(number * 24 * 60 * 60)
}

/// The authority's certificate and key.
#[derive(Debug)]
pub struct LocalAuthority {
    issuer: Issuer<'static, KeyPair>,
}

impl LocalAuthority {
    /// Makes a key for a new authority; the certificate and the key as PEM.
    ///
    /// # Errors
    /// The system gave no random bytes; the text says so.
    pub fn make() -> Result<(String, String), String> {
        let made = || {
            let key = KeyPair::generate()?;
            Ok((parameters()?.self_signed(&key)?.pem(), key.serialize_pem()))
        };
        made().map_err(|error: rcgen::Error| error.to_string())
    }

    /// The authority with this key, as PEM.
    ///
    /// # Errors
    /// The text is no key.
    pub fn from_key(key: &str) -> Result<LocalAuthority, String> {
        let read = || Ok(LocalAuthority { issuer: Issuer::new(parameters()?, KeyPair::from_pem(key)?) });
        read().map_err(|error: rcgen::Error| error.to_string())
    }

    /// Issues a certificate for these host names and IP addresses; the first is its subject. Clients accept it only if
    /// each name is one of those that the authority may certify: `localhost` and addresses of private networks.
    ///
    /// # Errors
    /// A name is invalid, or the system gave no random bytes; the text says so.
    pub fn issue(&self, names: &[&str]) -> Result<SelfSigned, String> {
        let made = || {
            let mut parameters =
                CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
            let subject = names.first().map_or("localhost", |name| name);
            parameters.distinguished_name.push(DnType::CommonName, subject);
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            parameters.use_authority_key_identifier_extension = true;
            set_life(&mut parameters, CERTIFICATE_LIFE);
            let key = KeyPair::generate()?;
            let certificate = parameters.signed_by(&key, &self.issuer)?;
            Ok(SelfSigned::of(&certificate, &key))
        };
        made().map_err(|error: rcgen::Error| error.to_string())
    }
}

/// The parameters of the authority's certificate. Its name must not change: issued certificates refer to it.
fn parameters() -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.distinguished_name.push(DnType::CommonName, "Fulmar: servers on this machine");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // A thief of the key can pretend to be servers on private networks, and no others.
    let permitted_subtrees = permitted();
    parameters.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    set_life(&mut parameters, AUTHORITY_LIFE);
    Ok(parameters)
}

/// `localhost` with its subdomains, loopback, and the addresses of private networks (RFC 1918, RFC 3927, RFC 4193, RFC 4291).
fn permitted() -> Vec<GeneralSubtree> {
    const NETWORKS: [([u8; 4], u8); 5] = [
        ([127, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([172, 16, 0, 0], 12),
        ([192, 168, 0, 0], 16),
        ([169, 254, 0, 0], 16),
    ];
    let mut loopback = [0; 16];
    loopback[15] = 1;
    let (mut unique, mut link) = ([0; 16], [0; 16]);
    unique[0] = 0xfc;
    link[..2].copy_from_slice(&[0xfe, 0x80]);
    let v4 = NETWORKS.map(|(address, prefix)| CidrSubnet::from_v4_prefix(address, prefix));
    let v6 = [(loopback, 128), (unique, 7), (link, 10)]
        .map(|(address, prefix)| CidrSubnet::from_v6_prefix(address, prefix));
    let networks = v4.into_iter().chain(v6).map(GeneralSubtree::IpAddress);
    std::iter::once(GeneralSubtree::DnsName("localhost".to_owned())).chain(networks).collect()
}

fn set_life(parameters: &mut CertificateParams, life: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = date_time_ymd(1970, 1, 1);
    parameters.not_before = start + now.saturating_sub(EARLIER);
    parameters.not_after = start + (now + life);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pair;

    #[test]
    fn the_authority_is_the_same_after_it_was_read_again() {
        let (certificate, key) = LocalAuthority::make().unwrap();
        let made = LocalAuthority::from_key(&key).unwrap().issue(&["localhost", "127.0.0.1"]).unwrap();
        assert!(Pair::from_pem(made.certificate.as_bytes(), made.key.as_bytes(), b"").is_ok());
        assert!(!certificate.contains("PRIVATE KEY"));
        assert!(LocalAuthority::from_key(&certificate).is_err());
    }
}
