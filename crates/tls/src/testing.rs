//! What tests of both sides use.

use crate::{Authorities, Choices, Pair, ServerPolicy, Settings, Trust, TrustError};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CrlDistributionPoint,
    CrlIssuingDistributionPoint, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// A server with this certificate and key as PEM, speaking these versions.
pub(crate) fn server((certificate, key): &(String, String), tls12: bool, tls13: bool) -> ServerPolicy {
    let pairs = [Pair::from_pem(certificate.as_bytes(), key.as_bytes(), b"").unwrap()];
    let choices = Choices { tls12, tls13, ..Choices::default() };
    ServerPolicy::new(&Settings { pairs: &pairs, choices: &choices, clients: None }).unwrap()
}

/// What certificates are checked against, of PEM.
pub(crate) fn trust(authorities: &str, revoked: Option<&str>, depth: usize) -> Result<Trust, TrustError> {
    let authorities = Authorities::from_pem(authorities.as_bytes())?;
    Trust::new(&[&authorities], revoked.map(str::as_bytes), depth)
}

/// An authority, with its certificate as PEM.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

pub(crate) fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        Authority::made(name, None, |_| ())
    }

    pub(crate) fn under(name: &str, parent: &Authority) -> Authority {
        Authority::made(name, Some(parent), |_| ())
    }

    pub(crate) fn made(
        name: &str,
        parent: Option<&Authority>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Authority {
        let (mut params, key) = (authority_params(name), KeyPair::generate().unwrap());
        change(&mut params);
        let made = match parent {
            Some(parent) => params.signed_by(&key, &parent.issuer),
            None => params.self_signed(&key),
        };
        Authority { pem: made.unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn key(&self) -> &KeyPair {
        self.issuer.key()
    }

    pub(crate) fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(7));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        self.revoke_at(serials, None)
    }

    /// A list of revoked certificates that is about those only that name its place.
    pub(crate) fn revoke_at(&self, serials: &[u64], place: Option<&str>) -> String {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: place.map(|place| CrlIssuingDistributionPoint {
                distribution_point: CrlDistributionPoint { uris: vec![place.to_owned()] },
                scope: None,
            }),
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}
