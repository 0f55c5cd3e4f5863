//! Questions to OCSP responders about a server's own certificate and those of clients, and their answers (RFC 6960).

use crate::chain::{Basis, Purpose, Store};
use crate::extensions::{Extension, Extensions};
use crate::policy::Digest;
use crate::x509::{Fields, element, key_bits, seconds, split};
use crate::{Authorities, Pair, Trust, Validity, Verdict};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use http::base64;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use thiserror::Error;

/// The longest answer that is read, in bytes.
pub const OCSP_ANSWER_MAX: usize = 64 * 1024;

/// By how much the clocks of responders may differ from this one, in seconds.
const SKEW_S: i64 = 300;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const CONTEXT_0: u8 = 0xa0;

/// How a server gets the answers that it sends with its certificates.
#[derive(Debug)]
pub struct Stapling {
    /// The URL of the responder, in place of those that certificates name.
    pub responder: Option<Box<str>>,
    /// Whether the signer of an answer must be trusted.
    pub verifies: bool,
    subjects: Mutex<Vec<Arc<OcspSubject>>>,
}

/// The answer that is sent with a certificate. It may change while connections are served.
#[derive(Debug)]
pub struct Staple {
    /// What the answers are about, and how they are checked.
    identity: [u8; 32],
    answer: RwLock<Answer>,
    is_claimed: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct Answer {
    certified: Option<Arc<CertifiedKey>>,
    /// When the answer is over, in seconds since 1970.
    ends: Option<i64>,
    /// When a newer answer is to be fetched.
    due: i64,
}

/// A certificate of this server that a responder is asked about.
#[derive(Debug)]
pub struct OcspSubject {
    certified: Arc<CertifiedKey>,
    question: OcspQuestion,
    names: String,
    trust: Option<Trust>,
    staple: Arc<Staple>,
}

/// A question to a responder about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspQuestion {
    issuer: CertificateDer<'static>,
    certificate_id: Vec<u8>,
    responder: Option<String>,
}

/// What a responder says about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcspFinding {
    /// Whether it is revoked.
    pub state: OcspState,
    /// When newer information is there, in seconds since 1970.
    pub ends: Option<i64>,
}

/// The state of a certificate (RFC 6960, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspState {
    /// It is not revoked.
    Good,
    /// It is revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// Of which certificates of clients responders are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspScope {
    /// The client's own one.
    Leaf,
    /// And those of the authorities below the root.
    Chain,
}

/// Asks responders whether certificates of clients are revoked, when a connection begins.
pub trait StatusCheck: fmt::Debug + Send + Sync {
    /// What distinguishes it from other checks.
    fn settings(&self) -> &StatusSettings;

    /// What is wrong with the first certificate that is not good, if there is one.
    fn check(self: Arc<Self>, questions: Vec<OcspQuestion>)
    -> Pin<Box<dyn Future<Output = Option<Verdict>>>>;
}

/// How certificates of clients are checked with responders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSettings {
    /// Of which certificates responders are asked.
    pub scope: OcspScope,
    /// The URL of the responder, in place of those that certificates name.
    pub responder: Option<Box<str>>,
}

/// Why an answer is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OcspError {
    /// It is not an answer.
    #[error("the OCSP response is malformed")]
    Malformed,
    /// The responder did not answer the question.
    #[error("the OCSP response is not successful ({0})")]
    Unsuccessful(u8),
    /// It is about other certificates.
    #[error("the certificate status was not found in the OCSP response")]
    OtherCertificate,
    /// The certificate is revoked, or not known to the responder.
    #[error("certificate status \"{0}\" in the OCSP response")]
    NotGood(&'static str),
    /// It is too old, or from the future.
    #[error("the OCSP response is not valid at this time")]
    Late,
    /// No key that may sign it made its signature.
    #[error("the signature of the OCSP response cannot be verified")]
    Signature,
    /// The signer may not speak for the issuer, or the issuer is not trusted.
    #[error("the signer of the OCSP response is not trusted")]
    Signer,
}

impl Stapling {
    /// A server that asks this responder, or else those that certificates name.
    pub fn new(responder: Option<Box<str>>, verifies: bool) -> Stapling {
        Stapling { responder, verifies, subjects: Mutex::default() }
    }

    /// Sets the certificates of the server.
    pub fn set(&self, subjects: Vec<Arc<OcspSubject>>) {
        *self.subjects.lock().unwrap_or_else(PoisonError::into_inner) = subjects;
    }

    /// The certificates of the server.
    pub fn subjects(&self) -> Vec<Arc<OcspSubject>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Staple {
    /// No answer yet.
    pub fn new(identity: [u8; 32]) -> Staple {
        Staple { identity, answer: RwLock::default(), is_claimed: AtomicBool::new(false) }
    }

    pub(crate) fn identity(&self) -> &[u8; 32] {
        &self.identity
    }

    /// The certificate with the answer, as long as the answer is valid.
    pub(crate) fn certified(&self) -> Option<Arc<CertifiedKey>> {
        let answer = self.answer.read().unwrap_or_else(PoisonError::into_inner);
        let certified = answer.certified.as_ref()?;
        answer.ends.is_none_or(|end| end >= now()).then(|| Arc::clone(certified))
    }
}

impl OcspSubject {
    /// The certificate of a pair, whose issuer is one of its chain, or else one of these authorities. `None` if the issuer
    /// is not known. Its answers are kept by a [`Staple`] that `keep` finds or makes for an identity.
    pub fn new(
        pair: &Pair,
        authorities: &[&Authorities],
        (stapling, trust): (&Stapling, Option<&Trust>),
        keep: impl FnOnce([u8; 32]) -> Arc<Staple>,
    ) -> Option<OcspSubject> {
        let (own, chain) = pair.certified.cert.split_first()?;
        let fields = Fields::of(own)?;
        let issuer = issuer(&fields, chain, authorities)?;
        let question = OcspQuestion::new(&fields, issuer)?;
        let trust = trust.filter(|_| stapling.verifies).cloned();
        let mut identity = Digest::new();
        identity.bytes(&pair.identity());
        identity.bytes(&question.certificate_id);
        identity.bytes(stapling.responder.as_deref().unwrap_or_default().as_bytes());
        identity.bytes(trust.as_ref().map_or(&[][..], |trust| trust.digest()));
        Some(OcspSubject {
            certified: Arc::clone(&pair.certified),
            question,
            names: Validity::of(pair).map(|validity| validity.names).unwrap_or_default(),
            trust,
            staple: keep(identity.finish()),
        })
    }

    /// The names in the certificate.
    pub fn names(&self) -> &str {
        &self.names
    }

    /// What a responder is asked.
    pub fn question(&self) -> &OcspQuestion {
        &self.question
    }

    /// What is sent with the certificate.
    pub fn staple(&self) -> &Arc<Staple> {
        &self.staple
    }

    /// Whether the caller is to fetch the answers: no other one has claimed it, and not released it.
    pub fn claim(&self) -> bool {
        !self.staple.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// Ends a claim.
    pub fn release(&self) {
        self.staple.is_claimed.store(false, Ordering::Release);
    }

    /// When a newer answer is to be fetched, in seconds since 1970.
    pub fn due(&self) -> i64 {
        self.staple.answer.read().unwrap_or_else(PoisonError::into_inner).due
    }

    /// Sends this answer with the certificate from now on, if it says that the certificate is good. Its signer has to be
    /// the issuer, or a responder of the issuer; where the signer must be trusted, the chain of the certificate is
    /// verified, too. An answer without an end is sent until a newer one comes.
    ///
    /// # Errors
    /// See [`OcspError`].
    pub fn take(&self, answer: &[u8]) -> Result<(), OcspError> {
        const EARLIEST_S: i64 = 300;
        const LATEST_S: i64 = 3600;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let algorithms = &provider.signature_verification_algorithms;
        let found = self.question.check(answer, algorithms, self.trust.is_some())?;
        match found.state {
            OcspState::Good => {}
            OcspState::Revoked => return Err(OcspError::NotGood("revoked")),
            OcspState::Unknown => return Err(OcspError::NotGood("unknown")),
        }
        let now = now();
        if let (Some(trust), Some((own, chain))) = (&self.trust, self.certified.cert.split_first()) {
            let sent: Vec<_> = chain.iter().chain([&self.question.issuer]).cloned().collect();
            trust.check_server(own, &sent, algorithms).map_err(|_| OcspError::Signer)?;
        }
        // Some time before it is over, but neither all the time nor never.
        let due = found.ends.map_or(LATEST_S, |end| (end - now - SKEW_S).clamp(EARLIEST_S, LATEST_S));
        let certified = CertifiedKey { ocsp: Some(answer.to_vec()), ..(*self.certified).clone() };
        let answer = Answer { certified: Some(Arc::new(certified)), ends: found.ends, due: now + due };
        *self.staple.answer.write().unwrap_or_else(PoisonError::into_inner) = answer;
        Ok(())
    }
}

impl OcspQuestion {
    /// The question about a certificate with these fields that this issuer signed.
    fn new(fields: &Fields<'_>, issuer: &CertificateDer<'_>) -> Option<OcspQuestion> {
        Some(OcspQuestion {
            issuer: issuer.clone().into_owned(),
            certificate_id: certificate_id(fields, issuer)?,
            responder: responder(fields.extensions),
        })
    }

    /// The questions about all certificates of a chain that was verified, but for its last one.
    pub(crate) fn about(chain: &[&[u8]], scope: OcspScope) -> Option<Vec<OcspQuestion>> {
        let pairs = chain.iter().zip(chain.iter().skip(1));
        let wanted = if scope == OcspScope::Leaf { 1 } else { usize::MAX };
        pairs
            .take(wanted)
            .map(|(own, issuer)| Self::new(&Fields::of(own)?, &CertificateDer::from(*issuer)))
            .collect()
    }

    /// The URL of the responder that the certificate names.
    pub fn responder(&self) -> Option<&str> {
        self.responder.as_deref()
    }

    /// What the certificate is known by (RFC 6960, section 4.1.1): hashes of the name and the key of its issuer, and its
    /// serial number.
    pub fn certificate_id(&self) -> &[u8] {
        &self.certificate_id
    }

    /// The request, in base64.
    pub fn request(&self) -> String {
        let wrap = |content: &[u8]| der(SEQUENCE, content);
        base64::encode(&wrap(&wrap(&wrap(&wrap(&self.certificate_id)))))
    }

    /// What an answer says. Its signer has to be the issuer, or a responder with a certificate of the issuer that says so.
    ///
    /// # Errors
    /// See [`OcspError`].
    pub fn read(&self, answer: &[u8]) -> Result<OcspFinding, OcspError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        self.check(answer, &provider.signature_verification_algorithms, true)
    }

    fn check(
        &self,
        answer: &[u8],
        algorithms: &WebPkiSupportedAlgorithms,
        checks_signer: bool,
    ) -> Result<OcspFinding, OcspError> {
        let basic = Basic::of(answer)?;
        let status = basic.status(&self.certificate_id)?;
        let now = now();
        if status.begins > now + SKEW_S || status.ends.is_some_and(|end| end < now - SKEW_S) {
            return Err(OcspError::Late);
        }
        basic.check_signature(&self.issuer, algorithms, checks_signer)?;
        Ok(OcspFinding { state: status.state, ends: status.ends })
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    UnixTime::now().as_secs().cast_signed()
}

/// The certificate among these that issued the one with these fields. A matching signature is preferred to a matching name.
fn issuer<'a>(
    fields: &Fields<'_>,
    chain: &'a [CertificateDer<'static>],
    authorities: &[&'a Authorities],
) -> Option<&'a CertificateDer<'static>> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let store = Store::default();
    let basis = basis(&store, &provider.signature_verification_algorithms);
    let known = chain.iter().chain(authorities.iter().flat_map(|all| all.certificates()));
    let mut first = None;
    for der in known {
        let Some(other) = Fields::of(der).filter(|other| other.subject == fields.issuer) else { continue };
        let signed = |algorithm| basis.verifies(other.key_info, algorithm, fields.signed, fields.signature);
        if fields.algorithm.is_some_and(signed) {
            return Some(der);
        }
        first = first.or(Some(der));
    }
    first
}

fn basis<'a>(store: &'a Store, algorithms: &'a WebPkiSupportedAlgorithms) -> Basis<'a> {
    Basis { store, algorithms, purpose: Purpose::Server, now: UnixTime::now() }
}

/// What responders know a certificate by (RFC 6960, section 4.1.1).
fn certificate_id(fields: &Fields<'_>, issuer: &CertificateDer<'_>) -> Option<Vec<u8>> {
    const SHA1: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];
    let key = key_bits(Fields::of(issuer)?.key_info)?.split_first()?.1;
    let hash = |bytes: &[u8]| der(OCTET_STRING, digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    let algorithm = der(SEQUENCE, &[der(OBJECT, SHA1), der(NULL, &[])].concat());
    let name = hash(&der(SEQUENCE, fields.issuer));
    Some(der(SEQUENCE, &[algorithm, name, hash(key), der(INTEGER, fields.serial)].concat()))
}

/// The parts of an answer.
struct Basic<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<CertificateDer<'a>>,
    responses: &'a [u8],
    /// The tag and the content of the name of the responder, or of the hash of its key.
    responder: (u8, &'a [u8]),
}

/// What is said of one certificate.
struct Status {
    state: OcspState,
    begins: i64,
    ends: Option<i64>,
}

impl<'a> Basic<'a> {
    fn of(answer: &'a [u8]) -> Result<Basic<'a>, OcspError> {
        let status = Basic::outcome(answer).ok_or(OcspError::Malformed)?;
        if status != 0 {
            return Err(OcspError::Unsuccessful(status));
        }
        Basic::parts(answer).ok_or(OcspError::Malformed)
    }

    fn outcome(answer: &[u8]) -> Option<u8> {
        let (tag, content, rest) = element(answer)?;
        let (kind, status, _) = element(content)?;
        (tag == SEQUENCE && rest.is_empty() && kind == ENUMERATED).then(|| status.first().copied())?
    }

    fn parts(answer: &'a [u8]) -> Option<Basic<'a>> {
        const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];
        let (_, content, _) = element(answer)?;
        let (tag, bytes, _) = element(element(content)?.2)?;
        let (_, kind, rest) = element(element(bytes)?.1)?;
        let (_, basic, _) = element(rest)?;
        if tag != CONTEXT_0 || kind != BASIC {
            return None;
        }
        let (_, basic, _) = element(basic)?;
        let (signed, rest) = split(basic)?;
        let (_, algorithm, rest) = element(rest)?;
        let (_, bits, rest) = element(rest)?;
        let mut certificates = Vec::new();
        if !rest.is_empty() {
            let (_, mut list, _) = element(element(rest)?.1)?;
            while !list.is_empty() {
                let (certificate, next) = split(list)?;
                certificates.push(CertificateDer::from(certificate));
                list = next;
            }
        }
        let (_, mut data, _) = element(signed)?;
        if data.first() == Some(&CONTEXT_0) {
            data = element(data)?.2;
        }
        let (kind, responder, rest) = element(data)?;
        let (_, _, rest) = element(rest)?;
        let (_, responses, _) = element(rest)?;
        let signature = bits.strip_prefix(&[0])?;
        Some(Basic { signed, algorithm, signature, certificates, responses, responder: (kind, responder) })
    }

    /// What is said of a certificate.
    fn status(&self, certificate_id: &[u8]) -> Result<Status, OcspError> {
        const GOOD: u8 = 0x80;
        const REVOKED: u8 = 0xa1;
        let mut rest = self.responses;
        while !rest.is_empty() {
            let (_, single, next) = element(rest).ok_or(OcspError::Malformed)?;
            let (own, after) = split(single).ok_or(OcspError::Malformed)?;
            rest = next;
            if !is_same_id(own, certificate_id) {
                continue;
            }
            let (tag, _, after) = element(after).ok_or(OcspError::Malformed)?;
            let state = match tag {
                GOOD => OcspState::Good,
                REVOKED => OcspState::Revoked,
                _ => OcspState::Unknown,
            };
            let (begins, ends) = times(after).ok_or(OcspError::Malformed)?;
            return Ok(Status { state, begins, ends });
        }
        Err(OcspError::OtherCertificate)
    }

    /// Finds the signer among the issuer and the certificates of the answer. If `checks_signer` is set, it must be the
    /// issuer, or have a certificate from the issuer that says so (RFC 6960, section 4.2.2.2).
    fn check_signature(
        &self,
        issuer: &CertificateDer<'_>,
        algorithms: &WebPkiSupportedAlgorithms,
        checks_signer: bool,
    ) -> Result<(), OcspError> {
        const CERTIFICATES_MAX: usize = 10;
        const OCSP_SIGNING: u8 = 9;
        let store = Store::default();
        let basis = basis(&store, algorithms);
        let known = std::iter::once(issuer).chain(&self.certificates).take(CERTIFICATES_MAX);
        let mut signers = known.filter_map(|der| Some((der, Fields::of(der).filter(|one| self.is_by(one))?)));
        let signed = |(_, fields): &(&CertificateDer<'_>, Fields<'_>)| {
            basis.verifies(fields.key_info, self.algorithm, self.signed, self.signature)
        };
        let (der, fields) = signers.find(signed).ok_or(OcspError::Signature)?;
        if !checks_signer || **der == **issuer {
            return Ok(());
        }
        let authority = Fields::of(issuer).ok_or(OcspError::Signer)?;
        let extensions = Extensions::of(fields.extensions).ok_or(OcspError::Signer)?;
        let verifies =
            |algorithm| basis.verifies(authority.key_info, algorithm, fields.signed, fields.signature);
        let now = now();
        let is_valid = matches!(fields.times(), (Some(begin), Some(end)) if (begin..=end).contains(&now));
        let is_delegated = extensions.purposes.is_some()
            && extensions.is_for(OCSP_SIGNING)
            && !extensions.has_unknown
            && fields.issuer == authority.subject
            && fields.algorithm.is_some_and(verifies)
            && is_valid;
        if is_delegated { Ok(()) } else { Err(OcspError::Signer) }
    }

    /// Whether a certificate is the one that the answer names as its signer's.
    fn is_by(&self, fields: &Fields<'_>) -> bool {
        const BY_NAME: u8 = 0xa1;
        let (kind, content) = self.responder;
        if kind == BY_NAME {
            return element(content).is_some_and(|(_, name, _)| name == fields.subject);
        }
        let key = key_bits(fields.key_info).and_then(<[u8]>::split_first);
        let hash = key.map(|(_, key)| digest(&SHA1_FOR_LEGACY_USE_ONLY, key));
        hash.zip(element(content)).is_some_and(|(hash, (_, named, _))| hash.as_ref() == named)
    }
}

/// Whether both identify the same certificate. The algorithm may come without its empty parameters.
fn is_same_id(one: &[u8], other: &[u8]) -> bool {
    fn parts(id: &[u8]) -> Option<(&[u8], &[u8])> {
        let (_, content, _) = element(id)?;
        let (_, algorithm, rest) = element(content)?;
        Some((element(algorithm)?.1, rest))
    }
    parts(one).is_some() && parts(one) == parts(other)
}

fn times(after: &[u8]) -> Option<(i64, Option<i64>)> {
    let (tag, text, rest) = element(after)?;
    let begins = seconds(tag, text)?;
    let ends = match rest.first() {
        Some(&CONTEXT_0) => {
            let (tag, text, _) = element(element(rest)?.1)?;
            Some(seconds(tag, text)?)
        }
        _ => None,
    };
    Some((begins, ends))
}

/// The URL of the first HTTP responder among the extensions of a certificate (RFC 5280, section 4.2.2.1).
fn responder(mut rest: &[u8]) -> Option<String> {
    const ACCESS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
    const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1];
    const URI: u8 = 0x86;
    while !rest.is_empty() {
        let (extension, next) = Extension::first(rest)?;
        rest = next;
        if extension.identifier != ACCESS {
            continue;
        }
        let (_, mut places, _) = element(extension.value)?;
        while let Some((_, place, next)) = element(places) {
            let (_, method, after) = element(place)?;
            let (tag, uri, _) = element(after)?;
            let is_http = uri.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"http://"));
            if method == OCSP && tag == URI && is_http {
                return String::from_utf8(uri.to_vec()).ok();
            }
            places = next;
        }
    }
    None
}

/// An element of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|&&byte| byte == 0).count()..];
    let head = match significant {
        [] => vec![tag, 0],
        [short] if *short < 0x80 => vec![tag, *short],
        long => [&[tag, 0x80 | long.len().to_le_bytes()[0]], long].concat(),
    };
    [&head, content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Authority;
    use rcgen::{CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, KeyPair, SigningKey};

    const GENERALIZED_TIME: u8 = 0x18;
    const PAST: &str = "20200101000000Z";
    const FUTURE: &str = "29980101000000Z";

    /// `authorityInfoAccess` with these kinds of access (the last number of the identifier) and URLs.
    fn access(places: &[(u8, &str)]) -> CustomExtension {
        let place = |&(kind, url): &(u8, &str)| {
            let method = der(OBJECT, &[0x2b, 6, 1, 5, 5, 7, 0x30, kind]);
            der(SEQUENCE, &[method, der(0x86, url.as_bytes())].concat())
        };
        let places = places.iter().map(place).collect::<Vec<_>>().concat();
        CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], der(SEQUENCE, &places))
    }

    /// A certificate, its key and the chain, of this authority.
    fn pair(authority: &Authority, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let (certificate, key) = authority.sign(change);
        Pair::from_pem((certificate + &authority.pem).as_bytes(), key.as_bytes(), b"").unwrap()
    }

    fn subject(pair: &Pair, stapling: &Stapling, trust: Option<&Trust>) -> OcspSubject {
        OcspSubject::new(pair, &[], (stapling, trust), |id| Arc::new(Staple::new(id))).unwrap()
    }

    /// What a responder says of a certificate.
    fn single(id: &[u8], status: (u8, &[u8]), (begin, end): (&str, Option<&str>)) -> Vec<u8> {
        let time = |text: &str| der(GENERALIZED_TIME, text.as_bytes());
        let end = end.map(|end| der(CONTEXT_0, &time(end))).unwrap_or_default();
        der(SEQUENCE, &[id, &der(status.0, status.1), &time(begin), &end].concat())
    }

    const GOOD: (u8, &[u8]) = (0x80, b"");

    /// An answer that the key of the certificate signs.
    fn answer(responses: &[u8], signer: &[u8], key: &KeyPair, certificates: &[&[u8]]) -> Vec<u8> {
        const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
        let name = der(0xa1, &der(SEQUENCE, Fields::of(signer).unwrap().subject));
        let time = der(GENERALIZED_TIME, PAST.as_bytes());
        let signed = der(SEQUENCE, &[name, time, der(SEQUENCE, responses)].concat());
        let signature = [&[0], &*key.sign(&signed).unwrap()].concat();
        let algorithm = der(SEQUENCE, &der(OBJECT, ECDSA_WITH_SHA256));
        let certificates = der(CONTEXT_0, &der(SEQUENCE, &certificates.concat()));
        let basic = der(SEQUENCE, &[signed, algorithm, der(0x03, &signature), certificates].concat());
        let kind = der(OBJECT, &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]);
        let bytes = der(SEQUENCE, &[kind, der(OCTET_STRING, &basic)].concat());
        der(SEQUENCE, &[der(ENUMERATED, &[0]), der(CONTEXT_0, &bytes)].concat())
    }

    fn authority_der(authority: &Authority) -> CertificateDer<'static> {
        crate::x509::certificates(authority.pem.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn issuer_and_responder_are_found() {
        let (authority, other) = (Authority::new("root"), Authority::new("other"));
        let urls = [(2, "http://issuer"), (1, "ldap://x"), (1, "HTTP://a.example/"), (1, "http://b")];
        let pair = pair(&authority, |params| params.custom_extensions.push(access(&urls)));
        let stapling = Stapling::new(None, false);
        let made = subject(&pair, &stapling, None);
        assert_eq!((made.question().responder(), made.names()), (Some("HTTP://a.example/"), "a.example"));
        assert_eq!(*made.question.issuer, *authority_der(&authority));
        assert_eq!(base64::decode(made.question().request().as_bytes()).unwrap()[..2], [0x30, 0x42]);

        let (certificate, key) = authority.sign(|_| ());
        let alone = Pair::from_pem(certificate.as_bytes(), key.as_bytes(), b"").unwrap();
        let find = |authority: &Authority| {
            let known = Authorities::from_pem(authority.pem.as_bytes()).unwrap();
            let found =
                OcspSubject::new(&alone, &[&known], (&stapling, None), |id| Arc::new(Staple::new(id)));
            found.map(|found| found.question().responder().map(str::to_owned))
        };
        assert_eq!((find(&authority), find(&other)), (Some(None), None));
    }

    #[test]
    fn good_answer_is_sent_until_it_is_over() {
        let authority = Authority::new("root");
        let pair = pair(&authority, |_| ());
        let made = subject(&pair, &Stapling::new(None, false), None);
        let pair = pair.with_staple(made.staple());
        assert!(pair.certified().ocsp.is_none() && made.due() == 0);
        let issuer = authority_der(&authority);
        let response = single(&made.question.certificate_id, GOOD, (PAST, Some(FUTURE)));
        let bytes = answer(&response, &issuer, authority.key(), &[]);
        assert_eq!(made.take(&bytes), Ok(()));
        assert_eq!(pair.certified().ocsp.as_deref(), Some(&*bytes));
        assert!((now() + 3500..=now() + 3600).contains(&made.due()));
        assert!((0..bytes.len()).all(|length| made.take(&bytes[..length]).is_err()));
        let signed = Basic::of(&bytes).unwrap().signed;
        let start = bytes.windows(signed.len()).position(|part| part == signed).unwrap();
        for at in start..start + signed.len() {
            let changed = [&bytes[..at], &[!bytes[at]], &bytes[at + 1..]].concat();
            assert!(made.take(&changed).is_err(), "{at}");
        }
        assert_eq!(pair.certified().ocsp.as_deref(), Some(&*bytes), "the last good answer");
        made.staple.answer.write().unwrap().ends = Some(now() - 1);
        assert!(pair.certified().ocsp.is_none());
    }

    #[test]
    fn other_answers_are_not_sent() {
        let (authority, other) = (Authority::new("root"), Authority::new("root"));
        let pair = pair(&authority, |_| ());
        let made = subject(&pair, &Stapling::new(None, false), None);
        let issuer = authority_der(&authority);
        let id = &made.question.certificate_id;
        let take = |responses: &[u8]| made.take(&answer(responses, &issuer, authority.key(), &[]));
        let revoked = (0xa1, &*der(GENERALIZED_TIME, PAST.as_bytes()));
        for (response, error) in [
            (single(id, revoked, (PAST, None)), OcspError::NotGood("revoked")),
            (single(id, (0x82, b""), (PAST, None)), OcspError::NotGood("unknown")),
            (single(id, GOOD, (PAST, Some("20210101000000Z"))), OcspError::Late),
            (single(id, GOOD, (FUTURE, None)), OcspError::Late),
            (single(id, GOOD, ("x", None)), OcspError::Malformed),
            (single(&der(SEQUENCE, &[1]), GOOD, (PAST, None)), OcspError::OtherCertificate),
            (Vec::new(), OcspError::OtherCertificate),
        ] {
            assert_eq!(take(&response), Err(error), "{error}");
        }
        let good = single(id, GOOD, (PAST, None));
        let forged = answer(&good, &issuer, other.key(), &[]);
        assert_eq!(made.take(&forged), Err(OcspError::Signature));
        let busy = der(SEQUENCE, &der(ENUMERATED, &[3]));
        assert_eq!(made.take(&busy), Err(OcspError::Unsuccessful(3)));
        assert!(made.staple.certified().is_none());
        assert_eq!(take(&good), Ok(()), "an answer without an end");
    }

    #[test]
    fn signer_is_the_issuer_or_its_responder_where_it_must_be_trusted() {
        let (authority, other) = (Authority::new("root"), Authority::new("other"));
        let pair = pair(&authority, |_| ());
        let trust = |authority: &Authority| crate::testing::trust(&authority.pem, None, 100).unwrap();
        let issuer = authority_der(&authority);
        let responder = |authority: &Authority, purposes: Vec<ExtendedKeyUsagePurpose>| {
            let made = authority.sign(|params| params.extended_key_usages = purposes);
            let der = crate::x509::certificates(made.0.as_bytes()).unwrap().remove(0);
            (der, KeyPair::from_pem(&made.1).unwrap())
        };
        let signing = || vec![ExtendedKeyUsagePurpose::OcspSigning];
        let right = responder(&authority, signing());
        let purpose = responder(&authority, vec![ExtendedKeyUsagePurpose::ServerAuth]);
        let none = responder(&authority, vec![]);
        let foreign = responder(&other, signing());
        for (verifies, trusted, signer, expected) in [
            (false, &authority, &purpose, Ok(())),
            (false, &authority, &foreign, Ok(())),
            (true, &authority, &right, Ok(())),
            (true, &authority, &purpose, Err(OcspError::Signer)),
            (true, &authority, &none, Err(OcspError::Signer)),
            (true, &authority, &foreign, Err(OcspError::Signer)),
            (true, &other, &right, Err(OcspError::Signer)),
        ] {
            let made = subject(&pair, &Stapling::new(None, verifies), Some(&trust(trusted)));
            let response = single(&made.question.certificate_id, GOOD, (PAST, Some(FUTURE)));
            let bytes = answer(&response, &signer.0, &signer.1, &[&signer.0]);
            assert_eq!(made.take(&bytes), expected);
            let own = answer(&response, &issuer, authority.key(), &[]);
            let is_trusted = !verifies || std::ptr::eq(trusted, &authority);
            assert_eq!(made.take(&own).is_ok(), is_trusted);
        }
    }

    #[test]
    fn one_caller_fetches_and_settings_tell_staples_apart() {
        let authority = Authority::new("root");
        let pair = pair(&authority, |_| ());
        let trusted = crate::testing::trust(&authority.pem, None, 100).unwrap();
        let made = subject(&pair, &Stapling::new(None, false), Some(&trusted));
        assert!(made.claim() && !made.claim());
        made.release();
        assert!(made.claim());
        let identity = |stapling: Stapling| subject(&pair, &stapling, Some(&trusted)).staple.identity;
        let all = [
            identity(Stapling::new(None, false)),
            identity(Stapling::new(None, true)),
            identity(Stapling::new(Some("http://a".into()), false)),
        ];
        assert_eq!(all[0], made.staple.identity);
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        let stapled = pair.with_staple(made.staple());
        assert_ne!(
            stapled.identity(),
            pair.identity(),
            "policies are not shared with servers that staple nothing"
        );
    }
}
