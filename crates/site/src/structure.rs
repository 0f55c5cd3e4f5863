//! Divides a configuration into servers and locations: `http`, `server`, `location`, `listen`, `server_name`, `include`.
//!
//! **Server.** A request goes to one of the servers whose `listen` has the address and port of the connection. Among
//! these, the host of the request decides, in this order: an exact `server_name`; the longest name that begins with a
//! wildcard (`*.example.org`); the longest name that ends with one (`www.*`); the first regular expression in the file
//! that matches (`~^www\d+\.example\.org$`). If no name matches, the request goes to the `default_server` of the address,
//! or to its first server.
//!
//! **Location.** `location = /path` matches only this path, and is chosen at once. Otherwise Fulmar looks for the longest
//! prefix that matches. If that location has `^~`, it is chosen. If not, the regular expressions are tried in the order of
//! the file (`~`, or `~*` to ignore case), and the first one that matches is chosen. If none matches, the location with
//! the longest prefix is chosen. `location @name` is only for internal redirects. `limit_except` is for all methods
//! except the listed ones; `GET` includes `HEAD`.
//!
//! **listen.** The argument is an address, a port, both, or `unix:PATH`. Parameters of the server are `default_server`, `ssl`
//! and `proxy_protocol`; for HTTP/2 write `http2 on`. Parameters of the socket are `backlog`, `rcvbuf`, `sndbuf`,
//! `reuseport`, `deferred`, `fastopen`, `ipv6only`, `so_keepalive`, `multipath` and `bind`.
//!
//! **include.** A relative path starts at the directory of the main file. It is no error if a pattern such as
//! `sites/*.conf` matches no file.
//!
//! **include_template** (Fulmar only) does the same, and replaces `$NAME` and `${NAME}` by the value of that variable in the
//! environment in which Fulmar was started. Names that the environment does not have stay as they are, so `$host` stays a variable
//! of the request. A value is inserted as it is: it may contain several words and directives. `-s stop`, `quit` and `reopen` do not
//! need the environment; `-s reload` uses that of the running server.
//!
//! The example belongs inside `http { … }`. A main file that begins with `server` blocks is accepted, too: Fulmar reads it
//! as the content of `http`, and says so in a notice.
//!
//! ```conf
//! server {
//!     listen 8080 default_server;
//!     return 200 "default server\n";
//! }
//! server {
//!     listen 8080;
//!     server_name example.org *.example.org;
//!     location = /a.php {
//!         return 200 "exact path\n";
//!     }
//!     location / {
//!         return 200 "prefix\n";
//!     }
//!     location ^~ /files/ {
//!         return 200 "longer prefix\n";
//!     }
//!     location ~ \.php$ {
//!         return 200 "regular expression\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: other.example
//!
//! HTTP/1.1 200 OK
//!
//! default server
//! ---
//! GET /a.php HTTP/1.1
//! Host: example.org
//!
//! HTTP/1.1 200 OK
//!
//! exact path
//! ---
//! GET /b.php HTTP/1.1
//! Host: www.example.org
//!
//! HTTP/1.1 200 OK
//!
//! regular expression
//! ---
//! GET /files/b.php HTTP/1.1
//! Host: example.org
//!
//! HTTP/1.1 200 OK
//!
//! longer prefix
//! ---
//! GET /other HTTP/1.1
//! Host: example.org
//!
//! HTTP/1.1 200 OK
//!
//! prefix
//! ```

use crate::listens::{ListenSpec, parse_listen};
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    AnyDirective, Args, Directive, Loading, LocationKind, LocationName, Regex, Rule, SERVER_NAME, SectionId,
};
use http::Method;

/// The directives of the structure.
pub static STRUCTURE: &[&dyn AnyDirective] =
    &[&HTTP, &STREAM, &SERVER, &LOCATION, &LIMIT_EXCEPT, &LISTEN, &SERVER_NAME];

/// `http { … }`
pub static HTTP: Directive<SectionId> = Directive::new("http", opened)
    .within(Contexts::MAIN)
    .opens(Arity::None, Contexts::HTTP)
    .rule(Rule::Never)
    .help("Contains all directives about HTTP.");

/// `stream { … }`
pub(crate) static STREAM: Directive<SectionId> = Directive::new("stream", opened)
    .within(Contexts::MAIN)
    .opens(Arity::None, Contexts::STREAM)
    .rule(Rule::Never)
    .help("Contains all directives about passing on connections.");

/// `server { … }`
pub static SERVER: Directive<SectionId> = Directive::new("server", opened)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .opens(Arity::None, Contexts::SERVER.or(Contexts::STREAM_SERVER))
    .rule(Rule::Never)
    .repeats()
    .help("A virtual server, chosen by address, port and host name.");

/// `location … { … }`
pub static LOCATION: Directive<LocationSpec> = Directive::new("location", parse_location)
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .opens(Arity::Range(1, 2), Contexts::LOCATION)
    .rule(Rule::Never)
    .repeats()
    .help("Settings for the URIs that match a prefix, a path or a regular expression.");

/// `limit_except METHOD … { … }`
pub(crate) static LIMIT_EXCEPT: Directive<LimitExcept> = Directive::new("limit_except", parse_limit_except)
    .within(Contexts::LOCATION)
    .opens(Arity::AtLeast(1), Contexts::LIMIT_EXCEPT)
    .rule(Rule::Never)
    .help("Settings for all methods except these.");

/// `listen ADDRESS …`
pub(crate) static LISTEN: Directive<ListenSpec> = Directive::new("listen", parse_listen)
    .within(Contexts::SERVER.or(Contexts::STREAM_SERVER))
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .repeats()
    .default("*:80")
    .help("An address and port, or a Unix socket, that the server answers on.");

/// A `location` with its block.
pub struct LocationSpec {
    pub name: LocationName,
    pub regex: Option<Regex>,
    pub section: SectionId,
}

/// A `limit_except` with its block.
pub(crate) struct LimitExcept {
    methods: Vec<Method>,
    pub section: SectionId,
}

impl LimitExcept {
    /// The methods that are not limited.
    pub(crate) fn methods(&self) -> &[Method] {
        &self.methods
    }
}

fn opened(args: &Args<'_>, _: &mut Loading) -> Result<SectionId, Diagnostic> {
    args.opened.ok_or_else(|| args.error("has no opening \"{\""))
}

fn parse_location(args: &Args<'_>, loading: &mut Loading) -> Result<LocationSpec, Diagnostic> {
    let section = opened(args, loading)?;
    let first = args.word(0)?;
    let (modifier, word, text) = match args.words() {
        [modifier, word] => (&*modifier.text, word, &*word.text),
        _ => split_modifier(&first.text)
            .map_or((&b""[..], first, &*first.text), |(modifier, text)| (modifier, first, text)),
    };
    let kind = match modifier {
        b"" if text.starts_with(b"@") => LocationKind::Named,
        b"" => LocationKind::Prefix,
        b"=" => LocationKind::Exact,
        b"^~" => LocationKind::PrefixOnly,
        b"~" | b"~*" => LocationKind::Regex,
        _ => {
            let message = format!("invalid location modifier \"{}\"", String::from_utf8_lossy(modifier));
            return Err(Diagnostic::emerg(message).at(args.node.span));
        }
    };
    let regex = match kind {
        LocationKind::Regex => Some(loading.regex(word, text, modifier == b"~*")?),
        _ => None,
    };
    let name = LocationName { kind, text: text.into() };
    check_nesting(args, loading, &name)?;
    loading.location = Some(name.clone());
    Ok(LocationSpec { name, regex, section })
}

fn split_modifier(text: &[u8]) -> Option<(&[u8], &[u8])> {
    [&b"="[..], b"^~", b"~*", b"~"]
        .into_iter()
        .find_map(|modifier| text.strip_prefix(modifier).map(|rest| (modifier, rest)))
}

fn check_nesting(args: &Args<'_>, loading: &Loading, name: &LocationName) -> Result<(), Diagnostic> {
    let Some(outer) = &loading.location else { return Ok(()) };
    let show = |name: &LocationName| String::from_utf8_lossy(&name.text).into_owned();
    let complain = |message: String| Err(Diagnostic::emerg(message).at(args.node.span));
    let (inner_text, outer_text) = (show(name), show(outer));
    match (outer.kind, name.kind) {
        (LocationKind::Exact, _) => complain(format!(
            "location \"{inner_text}\" cannot be inside the exact location \"{outer_text}\""
        )),
        (LocationKind::Named, _) => complain(format!(
            "location \"{inner_text}\" cannot be inside the named location \"{outer_text}\""
        )),
        (_, LocationKind::Named) => {
            complain(format!("named location \"{inner_text}\" can be on the server level only"))
        }
        (_, LocationKind::Regex) => Ok(()),
        _ if name.text.starts_with(&outer.text) => Ok(()),
        _ => complain(format!("location \"{inner_text}\" is outside location \"{outer_text}\"")),
    }
}

fn parse_limit_except(args: &Args<'_>, loading: &mut Loading) -> Result<LimitExcept, Diagnostic> {
    let section = opened(args, loading)?;
    let method = |word: &conf::Word| match Method::from_bytes(&word.text.to_ascii_uppercase()) {
        Method::Other | Method::Connect | Method::Trace => {
            let message = format!("invalid method \"{word}\"");
            Err(Diagnostic::emerg(message).at(args.node.span))
        }
        method => Ok(method),
    };
    let methods = args.words().iter().map(method).collect::<Result<_, _>>()?;
    Ok(LimitExcept { methods, section })
}

#[cfg(test)]
mod tests {
    use super::STRUCTURE;
    use conf::{Contexts, catalogue};

    #[test]
    fn directives_stand_where_nginx_has_them() {
        for info in STRUCTURE.iter().map(|directive| directive.info()) {
            let entries = catalogue::entries(info.name);
            let all: Vec<_> = entries.filter(|entry| entry.contexts.intersects(info.contexts)).collect();
            let contexts = all.iter().fold(Contexts::EMPTY, |contexts, entry| contexts.or(entry.contexts));
            assert_eq!(info.contexts, contexts, "contexts of {}", info.name);
            let theirs = all.first().unwrap();
            let counts = |shape: conf::Shape| (0..10).filter(move |count| shape.arity.admits(*count));
            assert!(counts(info.shape).eq(counts(theirs.shape)), "{}", info.name);
            assert_eq!(info.shape.block, theirs.shape.block, "block of {}", info.name);
        }
    }
}
