//! Requires a user name and a password in `.htaccess` files without sending the password: `AuthType Digest` (RFC 7616).
//!
//! `AuthName` and `AuthUserFile` have the meaning that they have for [`AuthType Basic`](mod_auth_basic.md), and the file
//! must be in the same places. `htdigest FILE REALM USER` writes it: a line has the user, the realm, and the MD5 hash of
//! both with the password. `Require` says which users may pass.
//!
//! The server keeps no list of its challenges. Each contains its time, signed with a key of the server's process. A
//! challenge that is older than `AuthDigestNonceLifetime`, or from another process, is answered with a new one, and the
//! browser repeats the request by itself. A client that overhears a request could repeat it until then: use TLS.
//!
//! Only `MD5` and the quality of protection `auth` are supported, as in Apache.
//!
//! nginx: none
//!
//! ```file html/private/a.txt
//! for members
//! ```
//!
//! ```file html/private/.htdigest
//! alice:Members:151239daa5f1408602543b81b1f68fb7
//! ```
//!
//! ```file html/private/.htaccess
//! AuthType Digest
//! AuthName Members
//! AuthUserFile html/private/.htdigest
//! Require valid-user
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 401 Unauthorized
//! WWW-Authenticate: *
//! ```

mod answer;
mod nonce;

use crate::shared::apache::{in_file, last, values, wrong};
use answer::Answer;
use conf::value::choice;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Exchange, Loading, Module, Reach, Step, View};
use http::Status;
use journal::Level;
use journal::clock::Time;
use nonce::Freshness;
use std::rc::Rc;

/// Users of `.htaccess` files who prove that they know a password.
pub static MODULE: Module = Module {
    name: "mod_auth_digest",
    directives: &[
        &AUTH_DIGEST_PROVIDER,
        &AUTH_DIGEST_ALGORITHM,
        &AUTH_DIGEST_QOP,
        &AUTH_DIGEST_NONCE_LIFETIME,
        &AUTH_DIGEST_DOMAIN,
    ],
    variables: &[],
    compile: None,
};

/// `AuthDigestProvider file`
static AUTH_DIGEST_PROVIDER: Directive<()> = in_file(Directive::new("AuthDigestProvider", parse_provider))
    .args(Arity::AtLeast(1))
    .help("Where users are looked up: `file`.");

/// `AuthDigestAlgorithm MD5`
static AUTH_DIGEST_ALGORITHM: Directive<()> = in_file(Directive::new("AuthDigestAlgorithm", |args, _| {
    args.value(0, |word| choice(word, &[("md5", ())]))
}))
.args(Arity::Exactly(1))
.help("The hash: `MD5`.");

/// `AuthDigestQop auth`
static AUTH_DIGEST_QOP: Directive<()> =
    in_file(Directive::new("AuthDigestQop", |args, _| args.value(0, |word| choice(word, &[("auth", ())]))))
        .args(Arity::Exactly(1))
        .help("The quality of protection: `auth`.");

/// `AuthDigestNonceLifetime SECONDS`
static AUTH_DIGEST_NONCE_LIFETIME: Directive<i64> =
    in_file(Directive::new("AuthDigestNonceLifetime", parse_lifetime))
        .args(Arity::Exactly(1))
        .help("How long a challenge is valid, in seconds; a negative number is without end.");

/// `AuthDigestDomain URI …`
static AUTH_DIGEST_DOMAIN: Directive<Box<[u8]>> = in_file(Directive::new("AuthDigestDomain", parse_domain))
    .args(Arity::AtLeast(1))
    .help("The URIs for which browsers use the same password.");

/// How long a challenge is valid if nothing says otherwise, in seconds.
const LIFETIME: i64 = 300;

fn parse_provider(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    match args.words().iter().find(|word| !word.text.eq_ignore_ascii_case(b"file")) {
        Some(word) => Err(wrong(args, "an unsupported provider", word)),
        None => Ok(()),
    }
}

fn parse_lifetime(args: &Args<'_>, _: &mut Loading) -> Result<i64, Diagnostic> {
    let word = args.word(0)?;
    match word.to_string().parse() {
        Ok(0) => Err(args
            .error("is not supported with 0, a challenge for one request")
            .hint("choose some seconds, such as 60")),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(wrong(args, "no number of seconds:", word)),
    }
}

fn parse_domain(args: &Args<'_>, _: &mut Loading) -> Result<Box<[u8]>, Diagnostic> {
    let is_wrong =
        |word: &&conf::Word| word.text.iter().any(|byte| !byte.is_ascii_graphic() || *byte == b'"');
    match args.words().iter().find(is_wrong) {
        Some(word) => Err(wrong(args, "no URI:", word)),
        None => Ok(args.words().iter().map(|word| &*word.text).collect::<Vec<_>>().join(&b' ').into()),
    }
}

/// How the users of a directory prove that they know a password.
pub(crate) struct Digest {
    realm: Box<[u8]>,
    lifetime: i64,
    domain: Option<Box<[u8]>>,
}

/// What is to be checked against the file of users.
pub(crate) struct Claim {
    answer: Answer,
    method: Vec<u8>,
}

/// What proves to the client that the server knows the password, too.
struct Confirmation(Vec<u8>);

/// Keeps what [`confirm`] is to tell the client.
pub(crate) fn prove(exchange: &Exchange, proof: Vec<u8>) {
    exchange.attach(Reach::Own, Rc::new(Confirmation(proof)));
}

/// Tells a client that may pass that the server knows the password, too.
pub(crate) fn confirm(exchange: &mut Exchange) {
    if let Some(confirmation) = exchange.attached::<Confirmation>() {
        // The parts of the value were a field before.
        let _ = exchange.response.fields.set("Authentication-Info", &confirmation.0);
    }
}

/// What the file of users says about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Right,
    Wrong,
    Unknown,
}

impl Digest {
    /// What a level says.
    pub(crate) fn of(view: &View<'_>, realm: &[u8]) -> Digest {
        let domain = values(view, &AUTH_DIGEST_DOMAIN).join(&b' ');
        Digest {
            realm: realm.into(),
            lifetime: last(view, &AUTH_DIGEST_NONCE_LIFETIME).unwrap_or(LIFETIME),
            domain: (!domain.is_empty()).then(|| domain.into()),
        }
    }

    /// What the request claims; the error is the answer to one that claims nothing, or not for this realm.
    pub(crate) fn claim(&self, exchange: &mut Exchange) -> Result<Claim, Step> {
        let mut fields = exchange.request.head.fields.all("authorization");
        let first = fields.next().unwrap_or_default();
        // Of several fields none counts.
        let field = if fields.next().is_none() { first.to_vec() } else { Vec::new() };
        drop(fields);
        let Some(answer) = Answer::parse(&field) else {
            if !field.is_empty() {
                exchange.log(Level::Error, "the client sent no complete answer to \"AuthType Digest\"");
            }
            return Err(self.challenge(exchange, false));
        };
        if !answer.is_for(exchange) {
            exchange.log(Level::Error, "the client answered the challenge of another URI");
            return Err(Step::Finish(Status::BAD_REQUEST));
        }
        let is_known = answer.realm == *self.realm && answer.is_md5() && answer.has_known_qop();
        if !is_known {
            exchange.log(Level::Error, "the client answered with another realm, algorithm or quality");
            return Err(self.challenge(exchange, false));
        }
        Ok(Claim { answer, method: exchange.request.head.method_name().to_vec() })
    }

    /// Ends the check of a claim: the user, or the answer to the request.
    pub(crate) fn conclude(
        &self,
        exchange: &mut Exchange,
        claim: &Claim,
        found: Found,
    ) -> Result<Vec<u8>, Step> {
        let user = String::from_utf8_lossy(&claim.answer.user);
        match found {
            Found::Right => {}
            Found::Wrong => exchange.log(Level::Error, &format!("user \"{user}\": password mismatch")),
            Found::Unknown => exchange.log(Level::Error, &format!("user \"{user}\" was not found")),
        }
        if found != Found::Right {
            return Err(self.challenge(exchange, false));
        }
        match nonce::check(&claim.answer.nonce, &self.realm, Time::now().seconds, self.lifetime) {
            Freshness::Stale => Err(self.challenge(exchange, true)),
            Freshness::Foreign => Err(self.challenge(exchange, false)),
            Freshness::Fresh => Ok(claim.answer.user.clone()),
        }
    }

    /// Rejects a request, and asks for a user.
    pub(crate) fn challenge(&self, exchange: &mut Exchange, stale: bool) -> Step {
        let nonce = nonce::new(&self.realm, Time::now().seconds);
        let mut value = b"Digest realm=\"".to_vec();
        for &byte in &*self.realm {
            match byte {
                b'"' | b'\\' => value.extend_from_slice(&[b'\\', byte]),
                0..0x20 | 0x7f => value.push(b' '),
                _ => value.push(byte),
            }
        }
        value.extend_from_slice(format!("\", nonce=\"{nonce}\", algorithm=MD5").as_bytes());
        if let Some(domain) = &self.domain {
            value.extend_from_slice(&[b", domain=\"", &**domain, b"\""].concat());
        }
        if stale {
            value.extend_from_slice(b", stale=true");
        }
        value.extend_from_slice(b", qop=\"auth\"");
        // A realm that no field can hold is left out rather than the refusal.
        let _ = exchange.response.fields.push(b"WWW-Authenticate", &value);
        Step::Finish(Status::UNAUTHORIZED)
    }
}

impl Claim {
    /// Looks for the user in the text of a file of users, and checks the answer. Also gives what proves to the client that
    /// the server knows the password.
    pub(crate) fn check(&self, text: &[u8]) -> (Found, Vec<u8>) {
        let Some(hash) = answer::hash_of(text, &self.answer.user, &self.answer.realm) else {
            return (Found::Unknown, Vec::new());
        };
        match self.answer.is_right(hash, &self.method) {
            true => (Found::Right, self.answer.proof(hash)),
            false => (Found::Wrong, Vec::new()),
        }
    }
}
