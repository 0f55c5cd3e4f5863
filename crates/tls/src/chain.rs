//! Judges a chain of certificates by the rules of OpenSSL that nginx rests on: a chain ends at a trusted certificate
//! that signed itself, and of several faults the last one counts that OpenSSL would find.

use crate::extensions::{
    CERTIFICATE_SIGN, CRL_SIGN, DIGITAL_SIGNATURE, Extensions, KEY_AGREEMENT, KEY_ENCIPHERMENT,
};
use crate::name_constraints::{COMPARISONS_MAX, SubjectNames};
use crate::revocation::RevocationList;
use crate::verdict::Verdict;
use crate::x509::{Fields, key_algorithm, key_bits};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::collections::HashMap;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// No chain has more authorities between its ends than this, whatever is configured.
const DEPTH_MAX: usize = 100;

/// What certificates are checked against.
#[derive(Default)]
pub(crate) struct Store {
    /// Trusted certificates by their subjects.
    pub(crate) trusted: HashMap<Box<[u8]>, Vec<CertificateDer<'static>>>,
    pub(crate) revoked: Vec<RevocationList>,
    /// How many certificates may stand between the peer's and that of an authority that signed itself.
    pub(crate) depth: usize,
}

/// What the peer uses its certificate for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Server,
    Client,
}

/// What a judgement rests on.
#[derive(Clone, Copy)]
pub(crate) struct Basis<'a> {
    pub(crate) store: &'a Store,
    pub(crate) algorithms: &'a WebPkiSupportedAlgorithms,
    pub(crate) purpose: Purpose,
    pub(crate) now: UnixTime,
}

/// A certificate that was taken apart.
#[derive(Clone, Copy)]
struct Certificate<'a> {
    der: &'a [u8],
    fields: Fields<'a>,
    extensions: Extensions<'a>,
}

/// A chain from the peer's certificate upwards.
struct Chain<'a> {
    certificates: Vec<Certificate<'a>>,
    verdict: Option<Verdict>,
}

impl Basis<'_> {
    /// Judges the certificate of a peer, with the other ones that the peer sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge(&self, own: &[u8], sent: &[CertificateDer<'_>]) -> Result<(), Verdict> {
        self.chain(own, sent).map(drop)
    }

    /// As `judge`, and gives the chain from the peer's certificate to the root.
    pub(crate) fn chain<'c>(
        &'c self,
        own: &'c [u8],
        sent: &'c [CertificateDer<'_>],
    ) -> Result<Vec<&'c [u8]>, Verdict> {
        let own = Certificate::of(own)?;
        let mut chain = self.build(own, sent);
        self.check_extensions(&mut chain);
        if !self.store.revoked.is_empty() {
            self.check_revocation(&mut chain);
        }
        self.check_signatures(&mut chain);
        if chain.certificates.iter().skip(1).any(|authority| authority.extensions.name_constraints.is_some())
        {
            self.check_names(&mut chain);
        }
        match chain.verdict {
            Some(verdict) => Err(verdict),
            None => Ok(chain.certificates.iter().map(|certificate| certificate.der).collect()),
        }
    }

    /// Adds issuers up to a trusted certificate that signed itself. Trusted ones are preferred to those that were sent.
    fn build<'c>(&'c self, own: Certificate<'c>, sent: &'c [CertificateDer<'_>]) -> Chain<'c> {
        let mut sent: Vec<Certificate<'c>> =
            sent.iter().filter_map(|der| Certificate::of(der).ok()).collect();
        let limit = self.store.depth.min(DEPTH_MAX) + 1;
        let (mut certificates, mut last, mut has_trusted) = (vec![own], own, false);
        let verdict = loop {
            let is_self_signed = last.is_self_signed();
            if is_self_signed && (has_trusted || self.is_trusted(&last)) {
                break None;
            }
            if is_self_signed {
                let is_alone = certificates.len() == 1;
                break Some(if is_alone { Verdict::SELF_SIGNED } else { Verdict::SELF_SIGNED_IN_CHAIN });
            }
            if certificates.len() > limit {
                break Some(if has_trusted { Verdict::NO_ISSUER } else { Verdict::NO_LOCAL_ISSUER });
            }
            let trusted = self.trusted_issuer(&last);
            has_trusted |= trusted.is_some();
            let found = match trusted {
                Some(issuer) => Some(issuer),
                None if has_trusted => break Some(Verdict::NO_ISSUER),
                None => self.choose(&last, sent.iter().copied()),
            };
            let Some(issuer) = found else { break Some(Verdict::NO_LOCAL_ISSUER) };
            // What was sent is used once.
            sent.retain(|other| other.der != issuer.der);
            certificates.push(issuer);
            last = issuer;
        };
        Chain { certificates, verdict }
    }

    /// Whether the certificate itself is trusted. One with the same names is another one.
    fn is_trusted(&self, certificate: &Certificate<'_>) -> bool {
        let known = self.store.trusted.get(certificate.fields.subject);
        known.is_some_and(|known| known.iter().any(|der| **der == *certificate.der))
    }

    fn trusted_issuer<'c>(&'c self, subject: &Certificate<'c>) -> Option<Certificate<'c>> {
        let candidates = self.store.trusted.get(subject.fields.issuer)?;
        self.choose(subject, candidates.iter().filter_map(|der| Certificate::of(der).ok()))
    }

    /// The issuer among these: one whose time has come and is not over, or else the one that ends last.
    fn choose<'c>(
        &self,
        subject: &Certificate<'c>,
        candidates: impl Iterator<Item = Certificate<'c>>,
    ) -> Option<Certificate<'c>> {
        let mut best: Option<(Certificate<'c>, Option<i64>)> = None;
        for candidate in candidates.filter(|candidate| candidate.issued(subject)) {
            let (begin, end) = candidate.fields.times();
            let now = self.seconds();
            if begin.is_some_and(|begin| begin <= now) && end.is_some_and(|end| end >= now) {
                return Some(candidate);
            }
            if best.is_none_or(|(_, other)| end > other) {
                best = Some((candidate, end));
            }
        }
        best.map(|(certificate, _)| certificate)
    }

    fn check_extensions(&self, chain: &mut Chain<'_>) {
        // How many authorities stand below, but for those that issued themselves.
        let mut below = 0;
        for (index, Certificate { fields, extensions, .. }) in chain.certificates.iter().enumerate() {
            if extensions.has_unknown {
                chain.verdict = Some(Verdict::UNKNOWN_EXTENSION);
            }
            let is_between = index > 0 && index + 1 < chain.certificates.len();
            if is_between && extensions.basic.is_none() {
                chain.verdict = Some(Verdict::NO_AUTHORITY);
            }
            if !self.is_suitable(extensions, index > 0) || index > 0 && !is_authority(fields, extensions) {
                chain.verdict = Some(Verdict::UNSUITABLE);
            }
            if index > 0 {
                let limit = extensions.basic.and_then(|basic| basic.path_length);
                if limit.is_some_and(|limit| below > limit) {
                    chain.verdict = Some(Verdict::PATH_TOO_LONG);
                }
                below += usize::from(!fields.is_self_issued());
            }
        }
    }

    /// Whether a certificate may be used for what the peer uses its own for.
    fn is_suitable(&self, extensions: &Extensions<'_>, is_issuer: bool) -> bool {
        const SERVER_AUTH: u8 = 1;
        const CLIENT_AUTH: u8 = 2;
        const NETSCAPE_CLIENT: u8 = 0x80;
        const NETSCAPE_SERVER: u8 = 0x40;
        let (purpose, netscape, usages) = match self.purpose {
            Purpose::Server => {
                (SERVER_AUTH, NETSCAPE_SERVER, DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | KEY_AGREEMENT)
            }
            Purpose::Client => (CLIENT_AUTH, NETSCAPE_CLIENT, DIGITAL_SIGNATURE | KEY_AGREEMENT),
        };
        let is_own_use =
            extensions.allows(usages) && extensions.netscape.is_none_or(|bits| bits & netscape != 0);
        extensions.is_for(purpose) && (is_issuer || is_own_use)
    }

    fn check_revocation(&self, chain: &mut Chain<'_>) {
        let now = self.seconds();
        for (index, certificate) in chain.certificates.iter().enumerate() {
            let fields = &certificate.fields;
            let issuer = chain.certificates.get(index + 1).unwrap_or(certificate);
            let lists = self.store.revoked.iter().filter(|list| list.is_of(fields.issuer));
            let is_about = |list: &RevocationList| list.is_about(certificate.extensions.list_places);
            let is_current =
                |list: &&RevocationList| list.begins <= now && list.ends.is_none_or(|end| end >= now);
            let list = lists.max_by_key(|list| (is_about(list), is_current(list), list.begins));
            let Some(list) = list.filter(|_| issuer.issued(certificate)) else {
                chain.verdict = Some(Verdict::NO_LIST);
                continue;
            };
            if !issuer.extensions.allows(CRL_SIGN) {
                chain.verdict = Some(Verdict::MAY_SIGN_NO_LIST);
            }
            if !is_about(list) {
                chain.verdict = Some(Verdict::LIST_SCOPE);
            }
            if list.begins > now {
                chain.verdict = Some(Verdict::EARLY_LIST);
            } else if !is_current(&list) {
                chain.verdict = Some(Verdict::LATE_LIST);
            }
            let key = issuer.fields.key_info;
            let verify = |content: &[u8], algorithm: &[u8], signature: &[u8]| {
                self.verifies(key, algorithm, content, signature)
            };
            if !list.is_signed_by(key, verify) {
                chain.verdict = Some(Verdict::LIST_SIGNATURE);
            }
            if list.has(fields.serial) {
                chain.verdict = Some(Verdict::REVOKED);
            }
        }
    }

    /// Checks signatures and times from the top to the peer's certificate.
    fn check_signatures(&self, chain: &mut Chain<'_>) {
        let certificates = &chain.certificates;
        let Some(top) = certificates.last() else { return };
        let is_complete = top.issued(top);
        if !is_complete && certificates.len() == 1 {
            chain.verdict = Some(Verdict::UNVERIFIED);
        }
        for (index, certificate) in certificates.iter().enumerate().rev() {
            if let Some(issuer) = certificates.get(index + 1) {
                let Fields { algorithm, signed, signature, .. } = certificate.fields;
                if !issuer.extensions.allows(CERTIFICATE_SIGN) {
                    chain.verdict = Some(Verdict::MAY_SIGN_NOTHING);
                }
                let key = issuer.fields.key_info;
                let verifies = |algorithm: &[u8]| self.verifies(key, algorithm, signed, signature);
                if !algorithm.is_some_and(verifies) {
                    chain.verdict = Some(Verdict::SIGNATURE);
                }
            } else if !is_complete && index > 0 {
                // The time of an authority without an issuer does not count.
                continue;
            }
            if let Some(fault) = self.check_time(&certificate.fields) {
                chain.verdict = Some(fault);
            }
        }
    }

    fn check_time(&self, fields: &Fields<'_>) -> Option<Verdict> {
        let now = self.seconds();
        let (begin, end) = fields.times();
        match (begin, end) {
            (None, _) => Some(Verdict::BAD_BEGIN),
            (Some(begin), _) if now < begin => Some(Verdict::EARLY),
            (_, None) => Some(Verdict::BAD_END),
            (_, Some(end)) if now > end => Some(Verdict::LATE),
            _ => None,
        }
    }

    /// Checks names, the alternative ones by having the library check the whole chain, where an authority may sign for certain names only.
    fn check_names(&self, chain: &mut Chain<'_>) {
        let ders: Vec<CertificateDer<'_>> =
            chain.certificates.iter().map(|certificate| CertificateDer::from(certificate.der)).collect();
        let usage = match self.purpose {
            Purpose::Server => KeyUsage::server_auth(),
            Purpose::Client => KeyUsage::client_auth(),
        };
        let check = || {
            let [own, between @ .., root] = &*ders else { return Ok(()) };
            let anchors = [anchor_from_trusted_cert(root)?];
            let own = EndEntityCert::try_from(own)?;
            own.verify_for_usage(self.algorithms.all, &anchors, between, self.now, usage, None, None)
                .map(drop)
        };
        if check().is_err() || !are_subjects_permitted(&chain.certificates) {
            chain.verdict = Some(Verdict::NAME_NOT_PERMITTED);
        }
    }

    /// Whether a signature is one of this key.
    pub(crate) fn verifies(
        &self,
        key_info: &[u8],
        algorithm: &[u8],
        content: &[u8],
        signature: &[u8],
    ) -> bool {
        let bits = key_bits(key_info).and_then(|bits| bits.strip_prefix(&[0]));
        let (Some(key), Some(kind)) = (bits, key_algorithm(key_info)) else { return false };
        let mut fitting = self.algorithms.all.iter().filter(|known| {
            known.signature_alg_id().as_ref() == algorithm && known.public_key_alg_id().as_ref() == kind
        });
        fitting.any(|known| known.verify_signature(key, content, signature).is_ok())
    }

    fn seconds(&self) -> i64 {
        i64::try_from(self.now.as_secs()).unwrap_or(i64::MAX)
    }
}

impl<'a> Certificate<'a> {
    fn of(der: &'a [u8]) -> Result<Certificate<'a>, Verdict> {
        let fields = Fields::of(der).ok_or(Verdict::UNSPECIFIED)?;
        let extensions = Extensions::of(fields.extensions).ok_or(Verdict::BAD_EXTENSION)?;
        Ok(Certificate { der, fields, extensions })
    }

    fn is_self_signed(&self) -> bool {
        self.issued(self)
    }

    /// Whether the other certificate names this one as its issuer.
    fn issued(&self, other: &Certificate<'_>) -> bool {
        let agree = |named: Option<&[u8]>, own: Option<&[u8]>| match (named, own) {
            (Some(named), Some(own)) => named == own,
            _ => true,
        };
        self.fields.subject == other.fields.issuer
            && agree(other.extensions.authority_key, self.extensions.subject_key)
            && agree(other.extensions.authority_serial, Some(self.fields.serial))
    }
}

/// Whether the authorities of a chain permit the names in the subjects below them. As in OpenSSL, those of authorities that
/// issued themselves are free.
fn are_subjects_permitted(certificates: &[Certificate<'_>]) -> bool {
    let mut left = COMPARISONS_MAX;
    certificates.iter().enumerate().all(|(index, Certificate { fields, extensions, .. })| {
        if index > 0 && fields.is_self_issued() {
            return true;
        }
        let names = SubjectNames::of(fields.subject, index == 0 && !extensions.names_host());
        let mut limits =
            certificates[index + 1..].iter().filter_map(|authority| authority.extensions.name_constraints);
        limits.all(|limits| names.are_permitted(limits, &mut left))
    })
}

/// Whether a certificate is an authority's: by its constraints; without them a root of version 1, or one whose key may
/// sign certificates.
fn is_authority(fields: &Fields<'_>, extensions: &Extensions<'_>) -> bool {
    extensions.allows(CERTIFICATE_SIGN)
        && match extensions.basic {
            Some(basic) => basic.is_authority,
            None => fields.is_version_1 && fields.is_self_issued() || extensions.key_usage.is_some(),
        }
}
