//! The conversation with an authority (RFC 8555): an account, an order, challenges, a certificate.

use std::future::Future;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, ExitStatus, Stdio};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use http::base64::decode_url;
use instant_acme::{
    Account, AccountBuilder, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier,
    ChallengeHandle, ChallengeType, Error, ExternalAccountKey, Identifier, Key, NewAccount, NewOrder,
    OrderStatus, Problem,
};
use net::SharedBytes;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, RsaKeySize,
};
use tls::chain_issuer;

use crate::answers::{self, Answer};
use crate::connection::Client;
use crate::plan::{Challenge, ExternalKey, Issuer, KeyKind, Order};
use crate::state;

/// How often an order is looked at while the authority works on it.
const LOOKS: u32 = 40;

/// The pause after the first look, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the command that changes records may take: some wait until all name servers have the record.
const COMMAND_MAX: Duration = Duration::from_secs(600);

/// How long what it wrote is waited for after its end.
const GRACE: Duration = Duration::from_secs(1);

/// How much of its standard error is kept, in bytes.
const STDERR_MAX: u64 = 16 * 1024;

/// The pause between two looks whether it has ended.
const LOOK_AT_COMMAND: Duration = Duration::from_millis(20);

/// How often an order is repeated because of nonces that the authority rejects, although each request is repeated, too.
const NONCES: usize = 5;

/// The error of a nonce that the authority rejects.
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// The error of too many requests.
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

/// The error of an account that the authority does not know.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Why there is no certificate.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This process is to end.
    Stopped,
    /// The authority rejected a nonce.
    Nonce,
    /// The authority takes no more requests for a while. What to tell the administrator.
    Limited(String),
    /// What to tell the administrator.
    Reason(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure::Reason(reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Api(problem) if problem.r#type.as_deref() == Some(BAD_NONCE) => Failure::Nonce,
            Error::Api(problem) if problem.r#type.as_deref() == Some(RATE_LIMITED) => {
                Failure::Limited(about(&problem))
            }
            other => Failure::Reason(words(&other)),
        }
    }
}

/// A certificate with its chain, and its key, as PEM.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
    /// What the administrator should know of it.
    pub(crate) note: Option<String>,
}

/// Waits this long; whether to go on.
pub(crate) type Pause<'a> = dyn FnMut(Duration) -> bool + 'a;

/// An authority that knows us.
pub(crate) struct Authority<'a> {
    issuer: &'a Issuer,
    client: Client,
    account: Account,
}

impl<'a> Authority<'a> {
    /// Uses the account that was kept, or registers one.
    ///
    /// # Errors
    /// The authority cannot be reached, or refuses.
    pub(crate) fn open(issuer: &'a Issuer, client: Client) -> Result<Authority<'a>, Failure> {
        let builder = || Account::builder_with_http(Box::new(client.clone()));
        let account = match state::account(issuer) {
            Some(credentials) => now(builder().from_credentials(credentials))?,
            None => patiently(|| register(issuer, builder()))?,
        };
        Ok(Authority { issuer, client, account })
    }

    /// Gets a certificate, perhaps in place of another one. The answers to challenges are in the shared bytes meanwhile.
    ///
    /// # Errors
    /// The authority refuses, or cannot be reached, or this process is to end.
    pub(crate) fn issue(
        &mut self,
        (order, replaced): (&Order, Option<&CertificateIdentifier<'static>>),
        shared: &SharedBytes,
        pause: &mut Pause<'_>,
    ) -> Result<Issued, Failure> {
        let issued = patiently(|| match self.try_issue((order, replaced), shared, pause) {
            Err(Attempt::NoAccount) => {
                let builder = Account::builder_with_http(Box::new(self.client.clone()));
                self.account = register(self.issuer, builder)?;
                self.try_issue((order, replaced), shared, pause).map_err(Attempt::failure)
            }
            other => other.map_err(Attempt::failure),
        });
        // If the shared memory cannot be written, old answers stay in it, which is harmless.
        drop(answers::publish(&[], shared));
        issued
    }

    fn try_issue(
        &self,
        (order, replaced): (&Order, Option<&CertificateIdentifier<'static>>),
        shared: &SharedBytes,
        pause: &mut Pause<'_>,
    ) -> Result<Issued, Attempt> {
        let identifiers: Vec<Identifier> = order.names.iter().map(|name| identifier(name)).collect();
        let mut wanted = self.with_profile(NewOrder::new(&identifiers))?;
        if let Some(replaced) = replaced {
            wanted = wanted.replaces(replaced.clone());
        }
        let mut placed = match now(self.account.new_order(&wanted)) {
            Ok(placed) => placed,
            Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(NO_ACCOUNT) => {
                return Err(Attempt::NoAccount);
            }
            Err(error) => return Err(error.into()),
        };
        let mut solved =
            Solved { challenge: &order.issuer.challenge, shared, answers: Vec::new(), records: Vec::new() };
        let mut authorizations = placed.authorizations();
        while let Some(authorization) = now(authorizations.next()) {
            solved.solve(authorization?)?;
        }
        let state = wait(pause, || {
            let status = now(placed.refresh())?.status;
            let is_open = matches!(status, OrderStatus::Pending | OrderStatus::Processing);
            Ok((!is_open).then_some(status))
        })?;
        if state == OrderStatus::Invalid {
            return Err(Failure::Reason(why_invalid(&mut placed)).into());
        }
        drop(solved);
        let (key, request) = request(order)?;
        now(placed.finalize_csr(&request))?;
        let chain = wait(pause, || match now(placed.certificate()) {
            Ok(None) => now(placed.refresh()).map(|_| None).map_err(Failure::from),
            other => Ok(other?),
        })?;
        let (chain, note) = self.preferred(chain);
        Ok(Issued { chain, key, note })
    }

    /// The chain that the issuer prefers, which may be the default one; that and a note if there is no such chain.
    fn preferred(&self, default: String) -> (String, Option<String>) {
        let Some(name) = &self.issuer.preferred_chain else { return (default, None) };
        let is_preferred = |chain: &String| chain_issuer(chain.as_bytes()).as_ref() == Some(name);
        if is_preferred(&default) {
            return (default, None);
        }
        let alternates = self.client.last().alternates;
        match alternates.into_iter().filter_map(|url| self.download(url)).find(is_preferred) {
            Some(chain) => (chain, None),
            None => {
                let uri = &self.issuer.uri;
                (default, Some(format!("{uri} offers no chain of \"{name}\": its default chain is used")))
            }
        }
    }

    /// The text at a URL of the authority. The library sends requests that are signed with the account's key to the URLs
    /// of orders only. So it asks for an order, which it does not find in the response; the response is what is wanted.
    fn download(&self, url: String) -> Option<String> {
        match now(self.account.order(url)) {
            Err(Error::Json(_)) => String::from_utf8(self.client.last().body.to_vec()).ok(),
            _ => None,
        }
    }

    fn with_profile<'o>(&self, order: NewOrder<'o>) -> Result<NewOrder<'o>, Failure>
    where
        'a: 'o,
    {
        let Some((profile, is_required)) = &self.issuer.profile else { return Ok(order) };
        let is_known = self.account.profiles().any(|known| known.name == profile);
        match (is_known, is_required) {
            (true, _) => Ok(order.profile(profile)),
            (false, false) => Ok(order),
            (false, true) => Err(format!("the authority has no profile \"{profile}\"").into()),
        }
    }
}

enum Attempt {
    NoAccount,
    Failed(Failure),
}

impl Attempt {
    fn failure(self) -> Failure {
        match self {
            Attempt::Failed(failure) => failure,
            Attempt::NoAccount => Failure::Reason("the authority does not know the account".to_owned()),
        }
    }
}

/// Tries again while the authority rejects nonces.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 0..NONCES {
        match attempt() {
            Err(Failure::Nonce) => {}
            other => return other,
        }
    }
    Err(Failure::Reason("the authority rejects one nonce after the other".to_owned()))
}

impl<T: Into<Failure>> From<T> for Attempt {
    fn from(error: T) -> Attempt {
        Attempt::Failed(error.into())
    }
}

fn register(issuer: &Issuer, builder: AccountBuilder) -> Result<Account, Failure> {
    let external =
        issuer.external_account.as_ref().map(|(name, key)| external_account(name, key)).transpose()?;
    let (account, credentials) = match &issuer.account_key {
        Some(path) => {
            let failed = |reason: &str| format!("cannot use the account key {} ({reason})", path.display());
            let text = std::fs::read(path).map_err(|error| failed(&error.to_string()))?;
            let key = KeyPair::from_pem(&String::from_utf8_lossy(&text))
                .map_err(|error| failed(&error.to_string()))?;
            let own = Key::from_pkcs8_der(key.serialize_der().as_slice().into());
            let own = own.map_err(|_| failed("it is no ECDSA key with the curve P-256"))?;
            now(builder.create_from_key((own, key.into()), issuer.uri.clone()))?
        }
        None => {
            let contacts: Vec<&str> = issuer.contacts.iter().map(String::as_str).collect();
            let account = NewAccount {
                contact: &contacts,
                terms_of_service_agreed: issuer.accepts_terms,
                only_return_existing: false,
            };
            now(builder.create(&account, issuer.uri.clone(), external.as_ref()))?
        }
    };
    state::keep_account(issuer, credentials)
        .map_err(|error| format!("cannot keep the account in {} ({error})", issuer.state.display()))?;
    Ok(account)
}

fn external_account(name: &str, key: &ExternalKey) -> Result<ExternalAccountKey, Failure> {
    let text = match key {
        ExternalKey::Text(text) => text.clone(),
        ExternalKey::File(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {} ({})", path.display(), net::system_message(&error)))?,
    };
    let key = decode_url(text.trim().as_bytes())
        .ok_or("the external account key is not in base64url".to_owned())?;
    Ok(ExternalAccountKey::new(name.to_owned(), &key))
}

fn identifier(name: &str) -> Identifier {
    match name.parse::<IpAddr>() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.to_owned()),
    }
}

/// Looks until there is something, and pauses longer and longer.
fn wait<T>(
    pause: &mut Pause<'_>,
    mut look: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for count in 0..LOOKS {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if !pause((PAUSE_MIN * 2_u32.saturating_pow(count.min(10))).min(PAUSE_MAX)) {
            return Err(Failure::Stopped);
        }
    }
    Err(Failure::Reason("the authority takes too long".to_owned()))
}

/// The challenges of an order that were answered. Records of name servers are removed at the end.
struct Solved<'a> {
    challenge: &'a Challenge,
    shared: &'a SharedBytes,
    answers: Vec<Answer>,
    records: Vec<(String, String)>,
}

impl Solved<'_> {
    fn solve(&mut self, authorization: AuthorizationHandle<'_>) -> Result<(), Failure> {
        let mut authorization = authorization;
        match authorization.status {
            AuthorizationStatus::Valid => return Ok(()),
            AuthorizationStatus::Pending => {}
            _ => return Err(Failure::Reason("an authorization is not pending".to_owned())),
        }
        let kind = match self.challenge {
            Challenge::Http => ChallengeType::Http01,
            Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
            Challenge::Dns(_) => ChallengeType::Dns01,
        };
        let challenge = authorization.challenge(kind);
        let mut challenge = challenge.ok_or_else(|| {
            Failure::Reason(format!("the authority does not offer the challenge {}", self.challenge.name()))
        })?;
        self.answer(&challenge)?;
        Ok(now(challenge.set_ready())?)
    }

    fn answer(&mut self, challenge: &ChallengeHandle<'_>) -> Result<(), Failure> {
        let authorization = challenge.key_authorization();
        let identifier = challenge.identifier().identifier;
        let answer = match self.challenge {
            Challenge::Http => {
                let token = challenge.token.clone();
                Answer::Token { token, authorization: authorization.as_str().to_owned() }
            }
            Challenge::TlsAlpn => tls_answer(identifier, authorization.digest().as_ref())?,
            Challenge::Dns(command) => {
                let Identifier::Dns(name) = identifier else {
                    return Err(Failure::Reason("an address has no record that dns-01 could use".to_owned()));
                };
                let (name, value) = (format!("_acme-challenge.{name}"), authorization.dns_value());
                self.records.push((name.clone(), value.clone()));
                return Ok(change_record(command, "set", &name, &value)?);
            }
        };
        self.answers.push(answer);
        let told = answers::publish(&self.answers, self.shared);
        Ok(told.map_err(|error| format!("{error}: raise acme_shared_zone"))?)
    }
}

impl Drop for Solved<'_> {
    fn drop(&mut self) {
        let Challenge::Dns(command) = self.challenge else { return };
        for (name, value) in &self.records {
            // A record that stays does no harm.
            drop(change_record(command, "remove", name, value));
        }
    }
}

/// Runs `COMMAND set|remove NAME VALUE` and waits for its end.
fn change_record(command: &Path, action: &str, name: &str, value: &str) -> Result<(), String> {
    let mut run = Command::new(command);
    run.args([action, name, value]).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |reason: &str| format!("\"{} {action}\" failed ({})", command.display(), reason.trim());
    let ended = run_command(run, COMMAND_MAX).map_err(|error| failed(&net::system_message(&error)))?;
    let Some((status, said)) = ended else {
        return Err(failed(&format!("it did not end within {} seconds", COMMAND_MAX.as_secs())));
    };
    let last = said.lines().last().unwrap_or("it wrote no reason");
    if status.success() { Ok(()) } else { Err(failed(last)) }
}

/// Runs a command; how it ended, and the beginning of what it wrote to its standard error. One that takes too long is
/// killed.
fn run_command(mut run: Command, longest: Duration) -> io::Result<Option<(ExitStatus, String)>> {
    let (mut said, writer) = io::pipe()?;
    let mut child = run.stderr(writer).spawn()?;
    // The command alone holds the other end of the pipe.
    drop(run);
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let read = (&mut said).take(STDERR_MAX).read_to_end(&mut text);
        // A pipe without a reader would block the command.
        drop(read.and_then(|_| io::copy(&mut said, &mut io::sink())));
        String::from_utf8_lossy(&text).into_owned()
    });
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            // A process that the command left behind may hold the pipe open.
            let is_read = started.elapsed() < longest && wait_for(&reader, GRACE);
            let text = if is_read { reader.join().unwrap_or_default() } else { String::new() };
            return Ok(Some((status, text)));
        }
        if started.elapsed() >= longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        rest();
    }
}

#[expect(clippy::disallowed_methods, reason = "this process has no connections that it would block")]
fn rest() {
    thread::sleep(LOOK_AT_COMMAND);
}

fn wait_for<T>(reader: &thread::JoinHandle<T>, longest: Duration) -> bool {
    let started = Instant::now();
    while !reader.is_finished() && started.elapsed() < longest {
        rest();
    }
    reader.is_finished()
}

/// The certificate that answers a challenge by TLS (RFC 8737, section 3). For an address the name is that of its reverse
/// zone (RFC 8738, section 6).
fn tls_answer(identifier: &Identifier, digest: &[u8]) -> Result<Answer, Failure> {
    let (subject, name) = match identifier {
        Identifier::Dns(name) => (name.clone(), name.clone()),
        Identifier::Ip(address) => (address.to_string(), reverse_name(*address)),
        _ => return Err(Failure::Reason("a name of an unknown kind".to_owned())),
    };
    let made = || {
        let mut parameters = CertificateParams::new(vec![subject])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        Ok((parameters.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    let (certificate, key) = made().map_err(|error: rcgen::Error| Failure::Reason(error.to_string()))?;
    Ok(Answer::Certificate { name, certificate, key })
}

fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}

/// A new key as PEM, and the request for a certificate as DER.
fn request(order: &Order) -> Result<(String, Vec<u8>), Failure> {
    let made = || {
        let key = match order.key {
            KeyKind::Ecdsa256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyKind::Ecdsa384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            KeyKind::Ecdsa521 => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyKind::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
        }?;
        let mut parameters = CertificateParams::new(order.names.clone())?;
        parameters.distinguished_name = DistinguishedName::new();
        if order.issuer.has_common_name {
            parameters.distinguished_name.push(DnType::CommonName, order.first_name());
        }
        let request = parameters.serialize_request(&key)?;
        Ok((key.serialize_pem(), request.der().to_vec()))
    };
    made().map_err(|error: rcgen::Error| Failure::Reason(error.to_string()))
}

/// Why the authority gave an order up.
fn why_invalid(order: &mut instant_acme::Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = now(authorizations.next()) {
        let Ok(state) = now(authorization.refresh()) else { continue };
        let name = state.identifier().to_string();
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return format!("{name}: {}", about(problem));
        }
    }
    order.state().error.as_ref().map_or_else(|| "the authority gave no reason".to_owned(), about)
}

fn words(error: &Error) -> String {
    match error {
        Error::Api(problem) => about(problem),
        other => other.to_string(),
    }
}

fn about(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or("unknown error");
    let kind = kind.rsplit(':').next().unwrap_or(kind);
    let subproblems = problem.subproblems.iter().filter_map(|problem| problem.detail.as_deref());
    let details: Vec<&str> = problem.detail.as_deref().into_iter().chain(subproblems).collect();
    format!("{}; {kind}", details.join("; "))
}

/// The result of a future that waits for nothing but [`Client`], which blocks.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_in_the_reverse_zone() {
        assert_eq!(reverse_name("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
        let long = reverse_name("2001:db8::1".parse().unwrap());
        assert!(long.starts_with("1.0.0.0.") && long.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{long}");
    }

    #[test]
    fn command_is_limited_in_its_time_and_its_words() {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        };
        let (status, said) = run_command(shell("echo no >&2; exit 3"), LOOKS * PAUSE_MAX).unwrap().unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(3), "no\n"));
        let (status, said) =
            run_command(shell("head -c 1000000 /dev/zero >&2"), LOOKS * PAUSE_MAX).unwrap().unwrap();
        assert!(status.success() && said.len() as u64 <= STDERR_MAX);
        assert!(run_command(shell("exec sleep 600"), PAUSE_MIN).unwrap().is_none());
    }

    #[test]
    fn limit_of_the_authority_is_known() {
        let problem = |kind: &str| {
            let text = format!("{{\"type\": \"urn:ietf:params:acme:error:{kind}\", \"detail\": \"d\"}}");
            Failure::from(Error::Api(serde_json::from_str(&text).unwrap()))
        };
        assert!(matches!(problem("rateLimited"), Failure::Limited(text) if text == "d; rateLimited"));
        assert!(matches!(problem("badNonce"), Failure::Nonce));
        assert!(matches!(problem("malformed"), Failure::Reason(_)));
    }

    #[test]
    fn order_is_looked_at_for_a_limited_time() {
        let mut pauses = Vec::new();
        let waited = wait(
            &mut |pause| {
                pauses.push(pause);
                true
            },
            || Ok(None::<()>),
        );
        assert!(matches!(waited, Err(Failure::Reason(_))));
        assert_eq!(pauses.len(), LOOKS as usize);
        assert!(pauses.iter().sum::<Duration>() < Duration::from_secs(300));
        let stopped = wait(&mut |_| false, || Ok(None::<()>));
        assert!(matches!(stopped, Err(Failure::Stopped)));
    }
}
