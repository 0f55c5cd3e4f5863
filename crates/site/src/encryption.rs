//! From what was written about encryption to what speaks it: reads certificates and keys.

use crate::certificates::{Certificates, PairSource};
use conf::{Diagnostic, Inputs, Level, Span};
use contract::{Identity, Origin, Pem, PemSource, PemValue, TlsPolicy, VerifyClient};
use inputs::PairFinder;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use tls::{
    Authorities, ClientCheck, OcspSubject, Pair, PolicyError, ServerPolicy, Settings, Staple, TicketKey,
    Validity,
};

/// What a virtual server does with clients that begin a handshake.
#[derive(Clone, Debug)]
pub enum Encryption {
    /// It has no certificate.
    None,
    /// It turns them away.
    Reject,
    /// It goes on.
    Accept(ServerPolicy),
    /// It goes on with certificates that each connection finds.
    Select(ServerPolicy, Arc<Certificates>),
}

impl Encryption {
    /// The policy of handshakes that go on.
    pub(crate) fn policy(&self) -> Option<&ServerPolicy> {
        match self {
            Encryption::None | Encryption::Reject => None,
            Encryption::Accept(policy) | Encryption::Select(policy, _) => Some(policy),
        }
    }
}

/// Reads the certificates of a server, and adds them to those that are served. Warnings go to the notes.
pub(crate) fn load(
    policy: Option<&TlsPolicy>,
    origin: &Origin,
    served: &mut BTreeSet<Validity>,
    notes: &mut Vec<Diagnostic>,
) -> Result<Encryption, Diagnostic> {
    let Some(policy) = policy else { return Ok(Encryption::None) };
    let inputs = &*origin.inputs;
    let variable: Vec<_> = policy.certificates.iter().filter(|pems| fixed_pair(pems).is_none()).collect();
    let passwords = policy.passwords.as_ref();
    let pairs = fixed(policy).map(|(pem, key)| pem.pair(key, passwords, inputs));
    let mut pairs: Vec<Pair> = pairs.collect::<Result<_, _>>()?;
    served.extend(pairs.iter().filter_map(Validity::of));
    if policy.certificates.is_empty() && !policy.reject {
        return Ok(Encryption::None);
    }
    let authorities = authorities(policy, inputs)?;
    match policy.stapling_file.as_ref().filter(|_| policy.stapling.is_some()) {
        Some(file) => staple(&mut pairs, file, inputs)?,
        None => notes.extend(fetch_answers(&mut pairs, policy, &authorities, origin)?),
    }
    let [named, trusted] = &authorities;
    let all: Vec<&Authorities> = named.iter().chain(trusted).collect();
    let trust = Pem::trust(&all, policy.revoked.as_ref(), policy.verify_depth, inputs)?;
    let Some((first, _)) = policy.certificates.first().filter(|_| !policy.reject) else {
        return Ok(Encryption::Reject);
    };
    let is_asked = policy.verify != VerifyClient::Off;
    let status = policy.status_check.as_ref().map(|check| check.settings());
    let clients = is_asked.then_some(ClientCheck { trust: &trust, named: named.as_ref(), status });
    let settings = Settings { pairs: &pairs, choices: &policy.choices, clients };
    // If nothing changed, tickets, sessions and connections of the previous configuration stay valid.
    let written = variable.iter().flat_map(|(pem, key)| [pem.to_string(), key.to_string()]);
    let written = written.chain(policy.ticket_keys.iter().map(|pem| pem.source.to_string()));
    let identity = Identity::default().bytes(settings.digest());
    let identity = written.fold(identity, |identity, text| identity.bytes(text));
    let made = origin
        .share(identity, || ServerPolicy::new(&settings))
        .map_err(|error| cannot_speak(error, policy, first.span()))?;
    // Keys may change while sessions and connections go on.
    made.set_ticket_keys(ticket_keys(policy, inputs)?);
    let made = (*made).clone().with_handshakes(policy.handshakes.clone());
    let made = made.with_status_check(policy.status_check.clone().filter(|_| is_asked));
    if variable.is_empty() {
        return Ok(Encryption::Accept(made));
    }
    let passwords = passwords.map(|pem| pem.kept(inputs)).transpose()?;
    let finder = PairFinder { passwords, cache: policy.certificate_cache.clone() };
    let known = pairs.into_iter().map(|pair| PairSource::Known(Box::new(pair)));
    let sources = variable.into_iter().map(|pems| PairSource::Variable(Box::new(pems.clone())));
    Ok(Encryption::Select(made, Arc::new(Certificates { sources: known.chain(sources).collect(), finder })))
}

fn ticket_keys(policy: &TlsPolicy, inputs: &dyn Inputs) -> Result<Vec<TicketKey>, Diagnostic> {
    let read = |file: &Pem| {
        let bytes = file.read(inputs).map_err(|reason| {
            Diagnostic::emerg(format!("open() \"{}\" failed ({reason})", file.source)).at(file.span)
        })?;
        TicketKey::new(&bytes).ok_or_else(|| {
            Diagnostic::emerg(format!("\"{}\" must be 48 or 80 bytes", file.source))
                .at(file.span)
                .hint("make a key with: openssl rand -out FILE 80")
        })
    };
    policy.ticket_keys.iter().map(read).collect()
}

/// The certificates and keys whose places variables do not name.
fn fixed(policy: &TlsPolicy) -> impl Iterator<Item = (&Pem, &Pem)> {
    policy.certificates.iter().filter_map(fixed_pair)
}

fn fixed_pair((pem, key): &(PemValue, PemValue)) -> Option<(&Pem, &Pem)> {
    Some((pem.fixed()?, key.fixed()?))
}

/// The files that are served without a reload when they change.
pub(crate) fn watched(policy: &TlsPolicy) -> impl Iterator<Item = &Path> {
    let pairs = policy.certificates.iter().flat_map(|(pem, key)| [pem.fixed(), key.fixed()]).flatten();
    let stapled = policy.stapling_file.as_ref().filter(|_| policy.stapling.is_some());
    let files = pairs.chain(stapled).filter_map(|pem| match &pem.source {
        PemSource::File(path) => Some(path.as_path()),
        PemSource::Text(_) => None,
    });
    files.filter(|_| policy.watched)
}

/// Warnings about the settings of a server: older clients are lost, or a file cannot be read that nginx reads only
/// next to `ssl_verify_client`.
pub(crate) fn warnings(policy: &TlsPolicy, origin: &Origin) -> impl Iterator<Item = Diagnostic> {
    let message = "\"ssl_protocols\" names versions before TLSv1.2, which are not spoken: \
                   clients that know nothing newer are lost";
    let lost = policy.obsolete_at.map(|place| Diagnostic::warn(message).at(place));
    let authorities = policy.client_authorities.as_ref().filter(|_| policy.verify == VerifyClient::Off);
    let unread = authorities.and_then(|pem| pem.authorities(&*origin.inputs).err());
    lost.into_iter().chain(unread.map(|error| Diagnostic { level: Level::Warn, ..error }))
}

/// Has the certificates sent with the answer of their OCSP responder.
fn staple(pairs: &mut [Pair], file: &Pem, inputs: &dyn Inputs) -> Result<(), Diagnostic> {
    let failed = |call: &str, reason: &str| {
        Diagnostic::emerg(format!("{call}(\"{}\") failed ({reason})", file.source)).at(file.span)
    };
    let answer = file.read(inputs).map_err(|reason| failed("BIO_new_file", &reason))?;
    for pair in pairs {
        *pair = pair
            .stapled(&answer)
            .ok_or_else(|| failed("d2i_OCSP_RESPONSE_bio", "the file has no OCSP response as DER"))?;
    }
    Ok(())
}

/// Has answers of responders fetched for the certificates while the site is served, if that is wanted. Returns warnings about certificates
/// for which that cannot be done.
fn fetch_answers(
    pairs: &mut [Pair],
    policy: &TlsPolicy,
    authorities: &[Option<Authorities>; 2],
    origin: &Origin,
) -> Result<Vec<Diagnostic>, Diagnostic> {
    let Some((place, stapling)) = &policy.stapling else { return Ok(Vec::new()) };
    let all: Vec<&Authorities> = authorities.iter().flatten().collect();
    let verified = stapling.verifies.then_some(policy.revoked.as_ref());
    let trust = verified.map(|revoked| Pem::trust(&all, revoked, usize::MAX, &*origin.inputs)).transpose()?;
    let (mut subjects, mut notes) = (Vec::new(), Vec::new());
    for (pair, (pem, _)) in pairs.iter_mut().zip(fixed(policy)) {
        let keep = |id: [u8; 32]| {
            let Ok(staple) =
                origin.share(Identity::default().bytes(id), || Ok::<_, Infallible>(Staple::new(id)));
            staple
        };
        let mut ignored = |reason: &str| {
            let message = format!("\"ssl_stapling\" ignored, {reason} \"{}\"", pem.source);
            notes.push(Diagnostic::warn(message).at(*place));
        };
        match OcspSubject::new(pair, &all, (stapling, trust.as_ref()), keep) {
            None => ignored("issuer certificate not found for certificate"),
            Some(subject) if stapling.responder.is_none() && subject.question().responder().is_none() => {
                ignored("no OCSP responder URL in the certificate");
            }
            Some(subject) => {
                *pair = pair.with_staple(subject.staple());
                subjects.push(Arc::new(subject));
            }
        }
    }
    stapling.set(subjects);
    Ok(notes)
}

/// The authorities that the server names to clients, and those that it does not name. The files are read even if clients
/// are asked for no certificate.
fn authorities(policy: &TlsPolicy, inputs: &dyn Inputs) -> Result<[Option<Authorities>; 2], Diagnostic> {
    let told = policy.client_authorities.as_ref().filter(|_| policy.verify != VerifyClient::Off);
    if matches!(policy.verify, VerifyClient::On | VerifyClient::Optional)
        && told.is_none()
        && policy.trusted.is_none()
    {
        let message = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        let error = Diagnostic::emerg(message).hint("name a file with the certificates of authorities");
        return Err(policy.verify_at.map_or(error.clone(), |place| error.at(place)));
    }
    let told = told.map(|pem| pem.authorities(inputs)).transpose()?;
    let trusted = policy.trusted.as_ref().map(|pem| pem.authorities(inputs)).transpose()?;
    Ok([told, trusted])
}

/// Why these settings leave nothing to speak with, at the directive that is to blame, or else at the certificate.
fn cannot_speak(error: PolicyError, policy: &TlsPolicy, certificate: Span) -> Diagnostic {
    match error {
        PolicyError::NoCipher => {
            let message = format!("SSL_CTX_set_cipher_list(\"{}\") failed ({error})", policy.choices.ciphers);
            Diagnostic::emerg(message).at(policy.ciphers_at.unwrap_or(certificate)).hint(
                "leave the line out, or name what is spoken here: ECDHE with AES-GCM or ChaCha20, such as \
                 ECDHE+AESGCM:ECDHE+CHACHA20",
            )
        }
        PolicyError::NoGroup => {
            let message = format!("SSL_CTX_set1_curves_list(\"{}\") failed ({error})", policy.choices.curves);
            Diagnostic::emerg(message)
                .at(policy.curves_at.unwrap_or(certificate))
                .hint("leave the line out, or name some of X25519MLKEM768, X25519, prime256v1 and secp384r1")
        }
        PolicyError::NoVersion | PolicyError::NoSuite | PolicyError::Library => {
            Diagnostic::emerg(format!("cannot speak TLS: {error}")).at(certificate)
        }
    }
}
