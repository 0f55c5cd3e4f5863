//! Asks OCSP responders about certificates of clients (`ssl_ocsp`).

use super::IN_BOTH;
use super::responder::Responder;
use super::values::parse_responder_of_clients;
use crate::gateway::resolver::resolving;
use crate::shared::lru::Lru;
use crate::shared::zones::{Shards, ZoneSpec};
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Loading, ScopeBuilder, TlsPolicy, VerifyClient, View};
use journal::clock::Time;
use journal::{ErrorLog, Level};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tls::{OcspFinding, OcspQuestion, OcspScope, OcspState, StatusCheck, StatusSettings, Verdict};
use upstream::Resolving;

/// How many bytes of a zone a state takes.
const STATE_BYTES: u64 = 256;

/// `ssl_ocsp on | off | leaf`
pub(super) static SSL_OCSP: Directive<Option<OcspScope>> = Directive::new("ssl_ocsp", |args, _| {
    const CHOICES: [(&str, Option<OcspScope>); 3] =
        [("off", None), ("on", Some(OcspScope::Chain)), ("leaf", Some(OcspScope::Leaf))];
    args.value(0, |word| value::choice(word, &CHOICES))
})
.within(IN_BOTH)
.default("off")
.help("Whether OCSP responders are asked about the certificates of clients: about all, or about a client's own one only.");

/// `ssl_ocsp_responder URL`
pub(super) static SSL_OCSP_RESPONDER: Directive<Box<str>> =
    Directive::new("ssl_ocsp_responder", parse_responder_of_clients)
        .within(IN_BOTH)
        .help("The URL of the OCSP responder that is asked, in place of those that certificates name.");

/// `ssl_ocsp_cache off | shared:NAME:SIZE`
pub(super) static SSL_OCSP_CACHE: Directive<Option<ZoneSpec>> = Directive::new("ssl_ocsp_cache", parse_cache)
    .within(IN_BOTH)
    .args(Arity::Exactly(1))
    .default("off")
    .help("Where answers are kept until they are over, for all threads.");

/// Has responders asked about the clients of a server, if that is wanted.
///
/// # Errors
/// The server accepts certificates of unknown authorities, of which no responder can be asked.
pub(super) fn configure(
    view: &View<'_>,
    builder: &ScopeBuilder,
    policy: &mut TlsPolicy,
) -> Result<(), Diagnostic> {
    let Some(written) = view.written(&SSL_OCSP) else { return Ok(()) };
    let Some(scope) = *written.value else { return Ok(()) };
    if policy.verify == VerifyClient::OptionalNoCa {
        let message = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
        return Err(Diagnostic::emerg(message).at(written.span));
    }
    let settings = StatusSettings { scope, responder: view.get(&SSL_OCSP_RESPONDER).cloned() };
    let kept = view.get(&SSL_OCSP_CACHE).and_then(Option::as_ref).map(|spec| {
        let made: Result<_, std::convert::Infallible> =
            view.origin().share(spec.identity("ssl_ocsp_cache"), || Ok(Kept::new(spec)));
        let Ok(kept) = made;
        kept
    });
    let log = builder.policy.error_log.clone();
    policy.status_check = Some(Arc::new(Asking { settings, kept, resolving: resolving(view), log }));
    Ok(())
}

fn parse_cache(args: &Args<'_>, _: &mut Loading) -> Result<Option<ZoneSpec>, Diagnostic> {
    let word = args.word(0)?;
    if word.is("off") {
        return Ok(None);
    }
    let rest =
        word.text.strip_prefix(b"shared:").filter(|rest| rest.first().is_some_and(|&byte| byte != b':'));
    let rest = rest.ok_or_else(|| {
        let message = format!("invalid OCSP cache \"{word}\"");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    })?;
    ZoneSpec::parse(args, word, rest).map(Some)
}

/// Asks responders for one server.
struct Asking {
    settings: StatusSettings,
    kept: Option<Arc<Kept>>,
    /// How the names of responders are looked up; by the system if there is no `resolver`.
    resolving: Option<Resolving>,
    log: ErrorLog,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl StatusCheck for Asking {
    fn settings(&self) -> &StatusSettings {
        &self.settings
    }

    fn check(
        self: Arc<Self>,
        questions: Vec<OcspQuestion>,
    ) -> Pin<Box<dyn Future<Output = Option<Verdict>>>> {
        Box::pin(async move {
            for question in &questions {
                match self.state(question).await {
                    Some(OcspState::Good) => {}
                    Some(OcspState::Revoked) => return Some(Verdict::REVOKED),
                    Some(OcspState::Unknown) => return Some(Verdict::STATUS_UNKNOWN),
                    None => return Some(Verdict::STATUS_FAILED),
                }
            }
            None
        })
    }
}

impl Asking {
    /// The state of a certificate; `None` if it cannot be learned.
    async fn state(&self, question: &OcspQuestion) -> Option<OcspState> {
        let key = question.certificate_id();
        if let Some(known) = self.kept.as_ref().and_then(|kept| kept.get(key)) {
            return Some(known);
        }
        let url = self.settings.responder.as_deref().or(question.responder()).unwrap_or_default();
        match self.ask(question, url).await {
            Ok(found) => {
                if let (Some(kept), Some(end)) = (&self.kept, found.ends) {
                    kept.put(key, found.state, end);
                }
                Some(found.state)
            }
            Err(reason) => {
                let message = format!("{reason} while requesting certificate status, responder: {url}");
                self.log.write(Level::Error, &message);
                None
            }
        }
    }

    async fn ask(&self, question: &OcspQuestion, url: &str) -> Result<OcspFinding, String> {
        if url.is_empty() {
            return Err("no OCSP responder URL in certificate".to_owned());
        }
        let responder = Responder::parse(url)?;
        let answer = responder.ask(&question.request(), self.resolving.as_ref(), &self.log).await?;
        question.read(&answer).map_err(|error| error.to_string())
    }
}

/// States of certificates, by what responders know them by.
struct Kept(Shards<Part>);

struct Part {
    states: Lru<(OcspState, i64)>,
    max: u64,
}

impl Kept {
    fn new(spec: &ZoneSpec) -> Kept {
        Kept(Shards::new(spec, |bytes| Part { states: Lru::default(), max: (bytes / STATE_BYTES).max(1) }))
    }

    /// A state that is not over.
    fn get(&self, key: &[u8]) -> Option<OcspState> {
        let mut part = self.0.of(key);
        let (state, end) = *part.states.get(key)?;
        if end < Time::now().seconds {
            part.states.remove(key);
            return None;
        }
        Some(state)
    }

    fn put(&self, key: &[u8], state: OcspState, end: i64) {
        let mut part = self.0.of(key);
        part.states.remove(key);
        while part.states.len() as u64 >= part.max {
            part.states.pop_oldest();
        }
        part.states.insert(key, (state, end));
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;
    use crate::shared::zones::ZoneSpec;
    use crate::testing::Site;
    use journal::clock::Time;
    use tls::{OcspScope, OcspState, StatusSettings};

    const SERVER: &str =
        "ssl_certificate a.pem; ssl_certificate_key a.key; ssl_verify_client on; ssl_client_certificate b;";

    fn settings(text: &str) -> Option<StatusSettings> {
        let site = Site::server(&format!("{SERVER}{text}")).get("/");
        let policy = site.scope.policy.tls.as_deref().cloned().unwrap();
        policy.status_check.map(|check| check.settings().clone())
    }

    #[test]
    fn certificates_are_checked_as_configured() {
        assert_eq!(settings(""), None);
        assert_eq!(settings("ssl_ocsp off;"), None);
        let of = |text: &str| settings(text).map(|settings| (settings.scope, settings.responder.is_some()));
        assert_eq!(of("ssl_ocsp on;"), Some((OcspScope::Chain, false)));
        let more = "ssl_ocsp leaf; ssl_ocsp_responder http://a.example/x; ssl_ocsp_cache shared:a:1m;";
        assert_eq!(of(more), Some((OcspScope::Leaf, true)));
    }

    #[test]
    fn mistakes_are_errors() {
        for (text, error) in [
            ("ssl_ocsp maybe;", "invalid value \"maybe\""),
            (
                "ssl_ocsp_responder https://a;",
                "invalid OCSP responder \"https://a\": the URL must begin with \"http://\"",
            ),
            ("ssl_ocsp_cache on;", "invalid OCSP cache \"on\""),
            ("ssl_ocsp_cache shared::1m;", "invalid OCSP cache \"shared::1m\""),
            ("ssl_ocsp_cache shared:a:1k;", "zone \"shared:a:1k\" is too small"),
        ] {
            assert_eq!(Site::error(text), error);
        }
        let error = Site::error(&format!("{} ssl_ocsp on;", SERVER.replace(" on;", " optional_no_ca;")));
        assert_eq!(error, "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"");
    }

    #[test]
    fn states_are_kept_until_they_are_over_and_as_many_as_fit() {
        let kept = Kept::new(&ZoneSpec::sized(64 * 1024));
        let now = Time::now().seconds;
        kept.put(b"a", OcspState::Revoked, now + 1000);
        kept.put(b"b", OcspState::Good, now - 1);
        assert_eq!((kept.get(b"a"), kept.get(b"b")), (Some(OcspState::Revoked), None));
        kept.put(b"a", OcspState::Good, now + 1000);
        assert_eq!(kept.get(b"a"), Some(OcspState::Good));
        (0..10_000_u32).for_each(|at| kept.put(&at.to_be_bytes(), OcspState::Good, now + 1000));
        let left = (0..10_000_u32).filter(|at| kept.get(&at.to_be_bytes()).is_some()).count();
        assert!((10..1000).contains(&left) && kept.get(b"a").is_none(), "{left}");
    }
}
