//! Checks the `Referer` header: `valid_referers` and `$invalid_referer`.
//!
//! `$invalid_referer` is empty if the request's `Referer` matches a value of the list, and `1` otherwise. A value
//! is one of:
//!
//! - a host, with an optional wildcard at its start or end, and an optional path with which the path of the
//!   referring page must begin;
//! - `server_names`: all names of the server;
//! - a regular expression that starts with `~`, for the text after the scheme; upper and lower case are equal;
//! - `none`: requests without the header;
//! - `blocked`: values without `http://` or `https://`, as some firewalls leave them.
//!
//! This keeps other sites from embedding images of this site. It is no access control: a client can send any
//! `Referer`, and with `none` it can leave it out.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     server_name www.example.com;
//!     location /images/ {
//!         valid_referers none server_names *.example.org example.net/gallery;
//!         if ($invalid_referer) { return 403; }
//!         return 200 shown;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /images/a HTTP/1.1
//! Host: www.example.com
//! Referer: https://a.example.org/page
//!
//! HTTP/1.1 200 OK
//!
//! shown
//! ---
//! GET /images/a HTTP/1.1
//! Host: www.example.com
//! Referer: https://example.net/other
//!
//! HTTP/1.1 403 Forbidden
//! ```

use conf::value::HostNames;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{
    Args, Directive, Exchange, Loading, Module, Regex, Regexes, Rule, SERVER_NAME, ScopeBuilder, ServerName,
    Variable, View,
};
use std::sync::Arc;

/// Pages that may link here.
pub static MODULE: Module = Module {
    name: "referer",
    directives: &[&VALID_REFERERS, &REFERER_HASH_MAX_SIZE, &REFERER_HASH_BUCKET_SIZE],
    variables: &[Variable::new("invalid_referer", invalid_referer)],
    compile: Some(compile),
};

const HERE: Contexts = Contexts::SERVER.or(Contexts::LOCATION);

/// `valid_referers none | blocked | server_names | HOST[/PATH] | ~REGEX …`
pub static VALID_REFERERS: Directive<Referers> = Directive::new("valid_referers", parse)
    .within(HERE)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .help("The pages that may link to this location.");

/// `referer_hash_max_size NUMBER`
pub static REFERER_HASH_MAX_SIZE: Directive<u64> = Directive::number("referer_hash_max_size")
    .within(HERE)
    .default("2048")
    .help("Accepted and not needed: tables grow as they have to.");

/// `referer_hash_bucket_size NUMBER`
pub static REFERER_HASH_BUCKET_SIZE: Directive<u64> = Directive::number("referer_hash_bucket_size")
    .within(HERE)
    .default("64")
    .help("Accepted and not needed: tables grow as they have to.");

/// The words of `valid_referers`.
pub struct Referers {
    entries: Vec<Entry>,
    /// Patterns of what follows the scheme.
    pages: Arc<Regexes>,
}

/// A word that is no pattern.
enum Entry {
    /// Requests without the field.
    None,
    /// Values without a scheme.
    Blocked,
    /// The server's own names.
    ServerNames,
    /// A host in lower case, and how the path has to begin.
    Host {
        /// The host, perhaps with a wildcard.
        name: Box<[u8]>,
        /// The beginning of the path; empty for any.
        path: Box<[u8]>,
    },
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Referers, Diagnostic> {
    let (mut entries, mut pages) = (Vec::new(), Vec::new());
    for word in args.words() {
        match &*word.text {
            b"~" => {
                let error = Diagnostic::emerg("empty regex in \"~\"");
                return Err(error.at(args.node.span).under(word.span));
            }
            [b'~', pattern @ ..] => pages.push(loading.regex(word, pattern, true)?),
            _ => entries.push(entry(args, word)?),
        }
    }
    Ok(Referers { entries, pages: Arc::new(Regexes::new(pages)) })
}

fn entry(args: &Args<'_>, word: &Word) -> Result<Entry, Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    Ok(match &*word.text {
        b"" => return Err(error("invalid referer \"\"".into())),
        b"none" => Entry::None,
        b"blocked" => Entry::Blocked,
        b"server_names" => Entry::ServerNames,
        text => {
            let end = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
            let (name, path) = text.split_at(end);
            let name: Box<[u8]> = name.to_ascii_lowercase().into();
            if HostNames::default().insert(&name, ()).is_err() {
                return Err(error(format!("invalid hostname or wildcard \"{word}\"")));
            }
            Entry::Host { name, path: path.into() }
        }
    })
}

/// No host is longer.
const HOST_MAX: usize = 256;

/// The pages that may link to a scope.
#[derive(Default)]
struct Valid {
    none: bool,
    blocked: bool,
    /// Hosts, with the beginning of the path.
    hosts: HostNames<Box<[u8]>>,
    /// Patterns of hosts.
    names: Vec<Arc<Regex>>,
    /// Patterns of all that follows the scheme.
    pages: Vec<Arc<Regexes>>,
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&VALID_REFERERS);
    let Some(first) = written.first() else { return Ok(()) };
    let mut valid = Valid::default();
    for use_of in &written {
        if use_of.value.pages.iter().len() > 0 {
            valid.pages.push(Arc::clone(&use_of.value.pages));
        }
        for entry in &use_of.value.entries {
            valid.add(view, entry).map_err(|message| Diagnostic::emerg(message).at(use_of.span))?;
        }
    }
    let has_hosts = !(valid.hosts.is_empty() && valid.names.is_empty() && valid.pages.is_empty());
    if !has_hosts && (valid.none || valid.blocked) {
        let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without \
                       any valid referer";
        return Err(Diagnostic::emerg(message).at(first.span));
    }
    builder.keep(valid);
    Ok(())
}

impl Valid {
    fn add(&mut self, view: &View<'_>, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::None => self.none = true,
            Entry::Blocked => self.blocked = true,
            Entry::Host { name, path } => self.host(name, path)?,
            Entry::ServerNames => {
                for name in view.all(&SERVER_NAME).iter().flat_map(|written| written.value) {
                    match name {
                        ServerName::Text(name) => self.host(name, b"")?,
                        ServerName::Regex(regex) => self.names.push(Arc::clone(regex)),
                    }
                }
            }
        }
        Ok(())
    }

    fn host(&mut self, name: &[u8], path: &[u8]) -> Result<(), String> {
        self.hosts.insert(name, path.into()).map_err(|error| error.message(name))
    }

    fn admits(&self, referer: Option<&[u8]>) -> bool {
        let Some(referer) = referer else { return self.none };
        let Some(page) = without_scheme(referer) else { return self.blocked };
        let end = page.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(page.len());
        if end > HOST_MAX {
            return false;
        }
        let host = page[..end].to_ascii_lowercase();
        let path = page.iter().position(|&byte| byte == b'/').map_or(&b""[..], |at| &page[at..]);
        if let Some(beginning) = self.hosts.get(&host) {
            return path.starts_with(beginning);
        }
        self.names.iter().any(|regex| regex.is_match(&host))
            || self.pages.iter().any(|patterns| patterns.find(page).is_some())
    }
}

/// What follows the scheme of a URL; shorter than this nginx takes nothing for one.
fn without_scheme(referer: &[u8]) -> Option<&[u8]> {
    const SHORTEST: usize = "http://i.ru".len();
    let schemes = [&b"http://"[..], b"https://"];
    let start =
        |scheme: &[u8]| referer.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let scheme = schemes.into_iter().find(|scheme| start(scheme)).filter(|_| referer.len() >= SHORTEST)?;
    Some(&referer[scheme.len()..])
}

fn invalid_referer(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let referer = exchange.request.head.fields.get("Referer");
    if exchange.scope.kept::<Valid>().is_some_and(|valid| !valid.admits(referer)) {
        out.push(b'1');
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    fn verdicts(referers: &str, values: &[&str]) -> String {
        let site = Site::location(&format!(
            "valid_referers {referers}; map $uri $x {{ default x$invalid_referer; }}"
        ));
        let verdict = |value: &&str| {
            let mut exchange = site.get("/");
            if *value != "-" {
                exchange.request.head.fields.push(b"Referer", value.as_bytes()).unwrap();
            }
            if site.variable("x", &exchange) == "x1" { '-' } else { '+' }
        };
        values.iter().map(verdict).collect()
    }

    #[test]
    fn hosts_wildcards_paths_and_patterns() {
        let values = [
            "http://a.example/",
            "HTTPS://A.example:8080/x",
            "http://b.example/",
            "http://x.b.example/",
            "http://c.example/p/q",
            "http://c.example/q",
            "http://d.any/",
            "http://e.example/zoo",
            "-",
            "masked",
        ];
        let referers = "a.example *.b.example c.example/p d.* ~/z";
        assert_eq!(verdicts(referers, &values), "++-++-++--");
        assert_eq!(verdicts(&format!("none blocked {referers}"), &values[8..]), "++");
        assert_eq!(verdicts("a.example", &["http://a", "http://a.example"]), "-+");
    }

    #[test]
    fn many_patterns_of_several_directives() {
        let values = [
            "http://a.example/",
            "http://x.example/B",
            "http://x.example/cc",
            "http://x.example/d",
            "http://x.ab/",
        ];
        let referers = "~^a\\. ~/b$ ~(?=c)cc; valid_referers ~/D ~q ~r host";
        assert_eq!(verdicts(referers, &values), "++++-");
        assert_eq!(verdicts("~q ~r ~s host", &values), "-----");
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("valid_referers ~;"), "empty regex in \"~\"");
        assert_eq!(Site::error("valid_referers \"\";"), "invalid referer \"\"");
        assert_eq!(Site::error("valid_referers a.*.b;"), "invalid hostname or wildcard \"a.*.b\"");
        assert_eq!(Site::error("valid_referers a A;"), "conflicting parameter \"a\"");
        assert!(Site::error("valid_referers none;").contains("without any valid referer"));
    }
}
