//! Gets certificates from an authority, and renews them (ACME, RFC 8555).
//!
//! `ssl_certificate auto` is all that a site needs. Fulmar gets a certificate for the names of the server from Let's
//! Encrypt, serves it, and renews it in time. There is no `ssl_certificate_key`. With this line you agree to the
//! terms of service of Let's Encrypt (https://letsencrypt.org/repository/).
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     server_name example.org www.example.org;
//!     ssl_certificate auto;
//! }
//! ```
//!
//! `acme_issuer` names another authority, with the directives of nginx's ACME module. `acme_certificate` requests a
//! certificate from it, for the names of the server or for the names that follow. Use `$acme_certificate` and
//! `$acme_certificate_key` in `ssl_certificate` and `ssl_certificate_key`. If there is one `acme_issuer`, `auto` uses
//! it, too.
//!
//! ```nginx
//! http {
//!     acme_issuer example {
//!         uri        https://acme.example.com/directory;
//!         contact    admin@example.com;
//!         state_path /var/lib/fulmar/acme-example;
//!         accept_terms_of_service;
//!     }
//!     server {
//!         listen 443 ssl;
//!         server_name example.com;
//!         acme_certificate    example;
//!         ssl_certificate     $acme_certificate;
//!         ssl_certificate_key $acme_certificate_key;
//!     }
//!     server {
//!         listen 80;
//!         return 301 https://$host$request_uri;
//!     }
//! }
//! ```
//!
//! The block of `acme_issuer` may contain:
//!
//! | directive | meaning |
//! |---|---|
//! | `uri URL` | the directory of the authority; required |
//! | `contact URL` | where it may send notices; an address without a scheme is one of mail |
//! | `account_key KIND\|FILE` | a file with the key of the account; without one a key with the curve P-256 is made |
//! | `external_account_key NAME FILE\|data:KEY` | an account elsewhere that the new one belongs to; the key is in base64url |
//! | `challenge http-01\|tls-alpn-01\|dns-01 COMMAND` | how control over names is shown; `http-01` without it |
//! | `state_path DIRECTORY` | where the account, keys and certificates are; without it `acme_NAME` below the prefix, and below `/var/lib/fulmar` for the package |
//! | `accept_terms_of_service` | agrees to the terms of service |
//! | `profile NAME [require]` | the profile of the certificate; with `require` an authority without it is an error |
//! | `preferred_chain NAME` | prefers the chain whose topmost certificate was issued by the authority with this common name; without such a chain the default one is used, and the error log says so |
//! | `common_name_in_csr on\|off` | whether the request names the first name as its subject, too; `off` without it |
//! | `ssl_trusted_certificate FILE` | what the certificate of the authority is checked against; the system's without it |
//! | `ssl_verify on\|off` | whether it is checked; `on` without it |
//!
//! The authority checks that the names point to this server. `http-01` needs a server that listens on port 80: Fulmar
//! answers the authority there before it runs any directive, so a server that redirects everything needs no
//! exception. `tls-alpn-01` needs only port 443; `auto` without an `acme_issuer` uses it. `dns-01` (Fulmar only) also
//! works for wildcards: Fulmar runs `COMMAND set NAME VALUE`, which must return when the name servers have the TXT
//! record, and later `COMMAND remove NAME VALUE`.
//!
//! A process without listeners gets the certificates, and it alone writes the state. Only the superuser can read its
//! files. Until there is a certificate, Fulmar serves a self-signed one, and the error log says so. New certificates are
//! served without a reload. A certificate is renewed after two thirds of its life, one that is valid for less than ten days
//! after half of it, and sooner or later if the authority suggests a time (ARI, RFC 9773). A certificate that another
//! authority issued, one for tests say, is replaced at once. After a failure the pause grows from a minute to a day. A damaged file costs a renewal.
//! `fulmar certificates` lists names, issuers, remaining days and errors.
//!
//! nginx: none
//!
//! ```conf
//! acme_issuer example {
//!     uri https://acme.example.com/directory;
//!     challenge http-01;
//! }
//! server {
//!     listen 8080;
//!     server_name localhost;
//!     return 301 https://$host$request_uri;
//! }
//! ```
//!
//! ```http
//! GET /.well-known/acme-challenge/unknown HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! ```

mod issuer;

use super::ssl;
use crate::shared::issued::{self, Issued};
use acme::{
    Challenge, Issuer, KeyKind, Order, Plan, SIZE, certificate_name, find_certificate, find_token, inspect,
};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic, Span, Word, value};
use contract::{
    Args, Body, Config, Directive, Exchange, Handler, Identity, Loading, Module, Origin, Pem, PemSource,
    PemValue, Phase, Rule, SERVER_NAME, ScopeBuilder, ServerName, Step, View,
};
use http::{Method, Status};
use net::SharedBytes;
use std::path::Path;
use std::sync::Arc;
use tls::{Handshakes, Pair, SelfSigned};

/// Certificates from an authority.
pub static MODULE: Module = Module {
    name: "acme",
    directives: &[&ACME_ISSUER, &ACME_CERTIFICATE, &ACME_SHARED_ZONE],
    variables: &[],
    compile: Some(compile),
};

/// `acme_issuer NAME { … }`
pub static ACME_ISSUER: Directive<Arc<Issuer>> = Directive::new("acme_issuer", issuer::parse)
    .within(Contexts::HTTP)
    .block(Arity::Exactly(1))
    .rule(Rule::Gather)
    .help("Defines an authority that issues certificates.");

/// `acme_certificate ISSUER [NAME …] [key=KIND]`
pub static ACME_CERTIFICATE: Directive<Requested> = Directive::new("acme_certificate", parse_certificate)
    .within(Contexts::SERVER)
    .args(Arity::AtLeast(1))
    .help("Requests a certificate from an issuer, for these names, or for those of the server.");

/// `acme_shared_zone zone=NAME:SIZE`
pub static ACME_SHARED_ZONE: Directive<usize> = Directive::new("acme_shared_zone", parse_zone)
    .within(Contexts::HTTP)
    .default("zone=ngx_acme_shared:256k")
    .help("How much memory answers to challenges may take. The name of the zone has no effect.");

/// What `acme_certificate` asks for.
pub struct Requested {
    issuer: String,
    names: Vec<String>,
    key: KeyKind,
}

const KEYS: [(&str, KeyKind); 8] = [
    ("ecdsa", KeyKind::Ecdsa256),
    ("ecdsa:256", KeyKind::Ecdsa256),
    ("ecdsa:384", KeyKind::Ecdsa384),
    ("ecdsa:521", KeyKind::Ecdsa521),
    ("rsa", KeyKind::Rsa2048),
    ("rsa:2048", KeyKind::Rsa2048),
    ("rsa:3072", KeyKind::Rsa3072),
    ("rsa:4096", KeyKind::Rsa4096),
];

/// The authority that `auto` means, if no other one is configured.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The least memory for answers, in bytes.
const ZONE_MIN: u64 = 8 * 4096;

/// The longest token of an authority that is looked for.
const TOKEN_MAX: usize = 128;

fn parse_certificate(args: &Args<'_>, _: &mut Loading) -> Result<Requested, Diagnostic> {
    let (first, rest) = (args.word(0)?, args.words().get(1..).unwrap_or_default());
    let mut requested = Requested { issuer: first.to_string(), names: Vec::new(), key: KeyKind::default() };
    for word in rest {
        match word.text.strip_prefix(b"key=") {
            Some(kind) => {
                let kind = Word { text: kind.into(), quoted: false, span: word.span };
                requested.key = value::choice(&kind, &KEYS).map_err(|error| error.at(args.node, word))?;
            }
            None => requested.names.push(word.to_string()),
        }
    }
    Ok(requested)
}

fn parse_zone(args: &Args<'_>, _: &mut Loading) -> Result<usize, Diagnostic> {
    let word = args.word(0)?;
    let size = word.text.strip_prefix(b"zone=").and_then(|zone| {
        let colon = zone.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0)?;
        let size = Word { text: zone[colon + 1..].into(), quoted: false, span: word.span };
        value::size(&size).ok()
    });
    let size = size.filter(|&size| size >= ZONE_MIN).and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| args.invalid(word))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.context() != Contexts::SERVER {
        return Ok(());
    }
    if view.is_anywhere(&ACME_ISSUER) {
        builder.handle(Phase::ServerRewrite, Answers(shared(view)?));
    }
    let Some(policy) = builder.policy.tls.as_deref_mut() else { return Ok(()) };
    let is_issued = |(pem, _): &(PemValue, PemValue)| issued::of(pem).is_some();
    if view.is_anywhere(&ACME_ISSUER) || policy.certificates.iter().any(is_issued) {
        policy.handshakes = Some(Arc::new(Answers(shared(view)?)));
    }
    for (certificate, key) in &mut policy.certificates {
        let (marked, key_marked) = (issued::of(certificate), issued::of(key));
        if marked != key_marked {
            let text =
                "\"$acme_certificate\" and \"$acme_certificate_key\" stand for a pair: use both or none";
            return Err(Diagnostic::emerg(text).at(certificate.span()));
        }
        let Some(order) = marked.map(|marked| order(view, &marked, certificate.span())).transpose()? else {
            continue;
        };
        let [chain, private] = sources(&order, view.origin(), certificate.span())?;
        *certificate = PemValue::Fixed(Pem { source: chain, span: certificate.span() });
        *key = PemValue::Fixed(Pem { source: private, span: key.span() });
    }
    Ok(())
}

/// The files of a certificate and its key, or texts of self-signed ones until there are files.
fn sources(order: &Order, origin: &Origin, at: Span) -> Result<[PemSource; 2], Diagnostic> {
    let path = order.path();
    if origin.inputs.read(&path).is_ok_and(|text| inspect(&text).is_some()) {
        return Ok([PemSource::File(path.clone()), PemSource::File(path)]);
    }
    let names: Vec<&str> = order.names.iter().map(String::as_str).collect();
    let identity = Identity::default().bytes("self-signed").bytes(names.join(" "));
    let made = origin.share(identity, || SelfSigned::new(&names));
    let failed = |reason| Diagnostic::emerg(format!("cannot make a certificate: {reason}")).at(at);
    let made = made.map_err(failed)?;
    Ok([&made.certificate, &made.key].map(|text| PemSource::Text(text.as_bytes().into())))
}

/// The memory with the answers, the same one for all servers and after reloads.
fn shared(view: &View<'_>) -> Result<Arc<SharedBytes>, Diagnostic> {
    let size = view.get(&ACME_SHARED_ZONE).copied().unwrap_or(SIZE);
    let identity = Identity::default().bytes("acme").number(size as u128);
    let made = view.origin().share(identity, || SharedBytes::new(size));
    made.map_err(|error| {
        Diagnostic::emerg(format!("memfd_create() failed ({})", net::system_message(&error)))
    })
}

/// All certificates that a configuration wants from authorities, and the memory with the answers to challenges; `None` if
/// it wants none.
///
/// # Errors
/// A server has no name that a certificate could have, or names an issuer that is not there.
pub fn plan(config: &Config) -> Result<Option<(Plan, Arc<SharedBytes>)>, Diagnostic> {
    let mut plan = Plan::default();
    let mut answers = None;
    let http = config.view(Config::MAIN).inner().filter(|level| level.context() == Contexts::HTTP);
    for view in http.flat_map(|http| http.inner()).filter(|level| level.context() == Contexts::SERVER) {
        let written = view.all(&ssl::SSL_CERTIFICATE);
        let marked = written.iter().filter_map(|written| Some((issued::of(written.value)?, written.span)));
        let named = view.written(&ACME_CERTIFICATE).map(|written| (Issued::Named, written.span));
        for (marked, span) in named.into_iter().chain(marked) {
            plan.add(order(&view, &marked, span)?);
            answers = Some(shared(&view)?);
        }
    }
    Ok(answers.map(|answers| (plan, answers)))
}

/// What a server wants.
fn order(view: &View<'_>, issued: &Issued, at: Span) -> Result<Order, Diagnostic> {
    let issuers = view.all(&ACME_ISSUER);
    match issued {
        Issued::Automatic(state) => {
            let issuer = match &issuers[..] {
                [only] => Arc::clone(only.value),
                [] => Arc::new(lets_encrypt(state)),
                _ => {
                    let text = "\"auto\" needs exactly one \"acme_issuer\"; there are several";
                    let hint = "write acme_certificate ISSUER; and $acme_certificate in place of auto";
                    return Err(Diagnostic::emerg(text).at(at).hint(hint));
                }
            };
            let names = names(view, &issuer.challenge, at)?;
            Ok(Order { issuer, names, key: KeyKind::default() })
        }
        Issued::Named => {
            let Some(requested) = view.written(&ACME_CERTIFICATE) else {
                let text = "\"$acme_certificate\" is used without an \"acme_certificate\" in the same server";
                return Err(Diagnostic::emerg(text).at(at));
            };
            let Requested { issuer, names: listed, key } = requested.value;
            let found = issuers.iter().find(|written| written.value.name == *issuer);
            let Some(found) = found else {
                let text = format!("issuer \"{issuer}\" is missing");
                return Err(Diagnostic::emerg(text).at(requested.span));
            };
            let issuer = Arc::clone(found.value);
            let names = match &listed[..] {
                [] => names(view, &issuer.challenge, requested.span)?,
                listed => checked(listed, &issuer.challenge, requested.span)?,
            };
            Ok(Order { issuer, names, key: *key })
        }
    }
}

fn lets_encrypt(state: &Path) -> Issuer {
    Issuer {
        uri: LETS_ENCRYPT.to_owned(),
        challenge: Challenge::TlsAlpn,
        state: state.to_owned(),
        accepts_terms: true,
        ..issuer::unset(issued::DEFAULT)
    }
}

/// The names of a server. Those that stand for no host, and patterns, are left out.
fn names(view: &View<'_>, challenge: &Challenge, at: Span) -> Result<Vec<String>, Diagnostic> {
    let written = view.here(&SERVER_NAME);
    let texts = written.iter().flat_map(|written| written.value).filter_map(|name| match name {
        ServerName::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ServerName::Regex(_) => None,
    });
    let texts: Vec<String> = texts.filter(|text| !text.is_empty() && text != "_").collect();
    if texts.is_empty() {
        let text = "the server has no name that a certificate could have";
        return Err(Diagnostic::emerg(text).at(at).hint("write server_name NAME; in the server"));
    }
    checked(&texts, challenge, at)
}

/// Names as certificates have them. `.example.org` means that host and `www.example.org`, as nginx has it.
fn checked(names: &[String], challenge: &Challenge, at: Span) -> Result<Vec<String>, Diagnostic> {
    let mut all = Vec::new();
    for name in names {
        let both = name.strip_prefix('.').map(|host| vec![format!("www.{host}"), host.to_owned()]);
        for name in both.unwrap_or_else(|| vec![name.clone()]) {
            let found = certificate_name(&name, challenge);
            let found = found.ok_or_else(|| unusable(&name, at))?;
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    Ok(all)
}

fn unusable(name: &str, at: Span) -> Diagnostic {
    let (text, hint) = if name.contains('*') {
        let text = format!("a certificate for \"{name}\" needs the challenge dns-01");
        (text, "write challenge dns-01 COMMAND; in acme_issuer, or list names without a wildcard")
    } else {
        let text = format!("no authority issues a certificate for \"{name}\"");
        (text, "name a host of a public domain, or an IP address")
    };
    Diagnostic::emerg(text).at(at).hint(hint)
}

/// Answers authorities before anything else of the server is looked at.
#[derive(Debug)]
struct Answers(Arc<SharedBytes>);

impl Handler for Answers {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let token = exchange.request.path.strip_prefix(acme::PREFIX);
        let token = token.filter(|token| (1..=TOKEN_MAX).contains(&token.len()));
        let Some(text) = token.and_then(|token| find_token(token, &self.0)) else { return Step::Next };
        if !matches!(exchange.request.method, Method::Get | Method::Head) {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.content_type = Some(Bytes::from_static(b"application/octet-stream"));
        response.content_length = Some(text.len() as u64);
        Step::Respond(Body::bytes(text))
    }
}

impl Handshakes for Answers {
    fn protocol(&self) -> &[u8] {
        acme::PROTOCOL
    }

    fn find(&self, name: &str) -> Option<Pair> {
        let (certificate, key) = find_certificate(name, &self.0)?;
        Pair::from_pem(certificate.as_bytes(), key.as_bytes(), b"").ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::PemSource;

    const ISSUER: &str = "acme_issuer one { uri https://acme.example/dir; state_path /nowhere/one; }";
    const PAIR: &str = "ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;";

    fn certificate(text: &str) -> String {
        let site = Site::server(text);
        let exchange = site.get("/");
        let policy = exchange.scope.policy.tls.as_deref().unwrap();
        assert_eq!(policy.certificates.len(), 1);
        match &policy.certificates[0].0.fixed().unwrap().source {
            PemSource::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => other.to_string(),
        }
    }

    fn error(text: &str) -> String {
        Site::try_server(text).err().unwrap_or_else(|| panic!("no error: {text}"))
    }

    #[test]
    fn self_signed_certificate_is_served_until_there_is_one() {
        let auto = certificate("server_name a.example; ssl_certificate auto;");
        assert!(auto.starts_with("-----BEGIN CERTIFICATE-----"), "{auto}");
        let named = certificate(&format!("{ISSUER} server_name a.example; acme_certificate one; {PAIR}"));
        assert!(named.starts_with("-----BEGIN CERTIFICATE-----"), "{named}");
    }

    #[test]
    fn names_and_issuers_are_checked() {
        let with = |text: &str| error(&format!("{ISSUER} {text}"));
        assert_eq!(error("ssl_certificate auto;"), "the server has no name that a certificate could have");
        assert_eq!(error("server_name _ ~x; ssl_certificate auto;"), {
            "the server has no name that a certificate could have"
        });
        assert_eq!(error("server_name localhost; ssl_certificate auto;"), {
            "no authority issues a certificate for \"localhost\""
        });
        assert_eq!(with("server_name *.a.example; ssl_certificate auto;"), {
            "a certificate for \"*.a.example\" needs the challenge dns-01"
        });
        let unknown = with(&format!("server_name a.example; acme_certificate two; {PAIR}"));
        assert_eq!(unknown, "issuer \"two\" is missing");
        assert_eq!(with(&format!("server_name a.example; {PAIR}")), {
            "\"$acme_certificate\" is used without an \"acme_certificate\" in the same server"
        });
        let half = "ssl_certificate $acme_certificate; ssl_certificate_key /k;";
        assert!(with(&format!("server_name a.example; acme_certificate one; {half}")).contains("use both"));
        let two = "acme_issuer two { uri https://b.example/dir; }";
        assert!(with(&format!("{two} server_name a.example; ssl_certificate auto;")).contains("several"));
    }
}
