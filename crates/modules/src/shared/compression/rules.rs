//! Who gets compressed content: `gzip_vary`, `gzip_proxied`, `gzip_http_version`, `gzip_disable`. They hold for `gzip`,
//! `gunzip` and `gzip_static` alike.

use super::{Accept, Coding, LEVELS};
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Exchange, Loading, Regex, Rule, View};
use http::Version;
use http::browser::is_msie6;
use journal::clock::Time;

/// `gzip_vary on | off`
pub(crate) static GZIP_VARY: Directive<bool> = Directive::flag("gzip_vary")
    .within(LEVELS)
    .default("off")
    .help("Whether `Vary: Accept-Encoding` is sent, for caches in front of the server.");

/// `gzip_proxied off | any | CONDITION …`
pub(crate) static GZIP_PROXIED: Directive<u32> = Directive::new("gzip_proxied", parse_proxied)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("off")
    .help("When requests that came through a proxy get compressed content.");

/// `gzip_http_version 1.0 | 1.1`
pub(crate) static GZIP_HTTP_VERSION: Directive<Version> =
    Directive::new("gzip_http_version", |args, _| args.value(0, |word| value::choice(word, &VERSIONS)))
        .within(LEVELS)
        .default("1.1")
        .help("The lowest version of HTTP that gets compressed content.");

/// `gzip_disable PATTERN … | msie6`
pub(crate) static GZIP_DISABLE: Directive<Disabled> = Directive::new("gzip_disable", parse_disable)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .help("Clients that never get compressed content, by patterns of their `User-Agent`.");

const VERSIONS: [(&str, Version); 2] = [("1.0", Version::Http10), ("1.1", Version::Http11)];

const OFF: u32 = 1;
const EXPIRED: u32 = 2;
const NO_CACHE: u32 = 4;
const NO_STORE: u32 = 8;
const PRIVATE: u32 = 16;
const NO_LAST_MODIFIED: u32 = 32;
const NO_ETAG: u32 = 64;
const AUTH: u32 = 128;
const ANY: u32 = 256;

const CONDITIONS: [(&str, u32); 9] = [
    ("off", OFF),
    ("expired", EXPIRED),
    ("no-cache", NO_CACHE),
    ("no-store", NO_STORE),
    ("private", PRIVATE),
    ("no_last_modified", NO_LAST_MODIFIED),
    ("no_etag", NO_ETAG),
    ("auth", AUTH),
    ("any", ANY),
];

/// Clients that one `gzip_disable` names.
#[derive(Clone, Default)]
pub(crate) struct Disabled {
    patterns: Vec<Regex>,
    msie6: bool,
}

fn parse_proxied(args: &Args<'_>, loading: &mut Loading) -> Result<u32, Diagnostic> {
    let duplicate = |word: &conf::Word| {
        let message = format!("duplicate value \"{word}\"");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
    };
    value::bitmask(args.words(), &CONDITIONS, duplicate).map_err(|(error, word)| error.at(args.node, word))
}

fn parse_disable(args: &Args<'_>, loading: &mut Loading) -> Result<Disabled, Diagnostic> {
    let mut disabled = Disabled::default();
    for word in args.words() {
        if word.is("msie6") {
            disabled.msie6 = true;
        } else {
            disabled.patterns.push(loading.regex(word, &word.text, true)?);
        }
    }
    Ok(disabled)
}

/// Whether `Vary` says in a scope that the content depends on what the client accepts.
pub(crate) fn varies(view: &View<'_>) -> bool {
    view.get(&GZIP_VARY).copied().unwrap_or(false)
}

/// Who gets compressed content in a scope.
pub(crate) struct Rules {
    version: Version,
    proxied: u32,
    patterns: Vec<Regex>,
    msie6: bool,
}

impl Rules {
    pub(crate) fn new(view: &View<'_>) -> Rules {
        let proxied = view.all(&GZIP_PROXIED).iter().fold(0, |all, written| all | written.value);
        let disabled = view.all(&GZIP_DISABLE);
        // The patterns of a level override those of the outer levels; `msie6` of an outer level stays in effect.
        let msie6 = view.nearest(&GZIP_DISABLE, |disabled| disabled.msie6.then_some(()));
        Rules {
            version: view.get(&GZIP_HTTP_VERSION).copied().unwrap_or(Version::Http11),
            proxied: if proxied == 0 { OFF } else { proxied },
            patterns: disabled.iter().flat_map(|disabled| &disabled.value.patterns).cloned().collect(),
            msie6: msie6.is_some(),
        }
    }

    /// Whether the client of this exchange accepts gzip and gets it.
    pub(crate) fn accept(&self, exchange: &Exchange) -> bool {
        Accept::of(&exchange.request.head.fields).weight(Coding::Gzip.name()) > 0 && self.allow(exchange)
    }

    /// Whether the client of this exchange gets gzip if it accepts it. The fields of the response count, too.
    pub(crate) fn allow(&self, exchange: &Exchange) -> bool {
        let head = &exchange.request.head;
        let agent = head.fields.get("user-agent").unwrap_or_default();
        if exchange.subrequest || self.msie6 && is_msie6(agent) || head.version < self.version {
            return false;
        }
        if head.fields.get("via").is_some() && !self.allow_proxy(exchange) {
            return false;
        }
        agent.is_empty() || !self.patterns.iter().any(|pattern| pattern.is_match(agent))
    }

    /// Whether a proxy in front of the server gets compressed content, which it might give to others.
    fn allow_proxy(&self, exchange: &Exchange) -> bool {
        let has = |condition| self.proxied & condition != 0;
        let response = &exchange.response;
        if has(OFF) {
            return false;
        }
        if has(ANY) || has(AUTH) && exchange.request.head.fields.get("authorization").is_some() {
            return true;
        }
        if let Some(expires) = response.fields.get("expires") {
            return has(EXPIRED) && is_past(expires, response.fields.get("date"));
        }
        if response.fields.get("cache-control").is_some() {
            let listed = |name| response.fields.all("cache-control").any(|value| has_directive(value, name));
            return has(NO_CACHE) && listed("no-cache")
                || has(NO_STORE) && listed("no-store")
                || has(PRIVATE) && listed("private");
        }
        // A file's own time is not what the condition is about, as in nginx.
        let made_here = response.last_modified.is_some() && exchange.file.is_none();
        let last_modified = made_here || response.fields.get("last-modified").is_some();
        let etag = response.etag.is_some() || response.fields.get("etag").is_some();
        !(has(NO_LAST_MODIFIED) && last_modified || has(NO_ETAG) && etag)
    }
}

fn is_past(expires: &[u8], date: Option<&[u8]>) -> bool {
    let now = match date {
        None => Some(Time::now().seconds),
        Some(date) => http::parse_date(date),
    };
    match (http::parse_date(expires), now) {
        (Some(expires), Some(now)) => expires < now,
        _ => false,
    }
}

/// Whether a `Cache-Control` field has this directive.
fn has_directive(value: &[u8], name: &str) -> bool {
    value
        .split(|byte| matches!(byte, b',' | b';'))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::has_directive;
    use crate::testing::Site;

    #[test]
    fn directives_of_caches() {
        assert!(has_directive(b"max-age=1, No-Store", "no-store"));
        assert!(!has_directive(b"no-storex, x-no-store", "no-store"));
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("gzip_proxied some;"), "invalid value \"some\"");
        assert_eq!(Site::error("gzip_http_version 2;"), "invalid value \"2\"");
        assert!(
            Site::error("gzip_disable (;").contains("pcre2_compile"),
            "{}",
            Site::error("gzip_disable (;")
        );
    }
}
