//! The directives that give a configuration its structure.

use crate::listens::{ListenSpec, parse_listen};
use conf::{Arity, Contexts, Diagnostic};
use contract::{AnyDirective, Args, Directive, Loading, LocationKind, LocationName, Regex, Rule, SectionId};
use http::Method;
use std::sync::Arc;

/// The directives of the structure.
pub static STRUCTURE: &[&dyn AnyDirective] =
    &[&HTTP, &SERVER, &LOCATION, &LIMIT_EXCEPT, &LISTEN, &SERVER_NAME];

/// `http { … }`
pub(crate) static HTTP: Directive<SectionId> = Directive::new("http", opened)
    .within(Contexts::MAIN)
    .opens(Arity::None, Contexts::HTTP)
    .rule(Rule::Never)
    .help("Holds everything about serving HTTP.");

/// `server { … }`
pub(crate) static SERVER: Directive<SectionId> = Directive::new("server", opened)
    .within(Contexts::HTTP)
    .opens(Arity::None, Contexts::SERVER)
    .rule(Rule::Never)
    .repeats()
    .help("A virtual server, chosen by address, port and host name.");

/// `location … { … }`
pub(crate) static LOCATION: Directive<LocationSpec> = Directive::new("location", parse_location)
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .opens(Arity::Range(1, 2), Contexts::LOCATION)
    .rule(Rule::Never)
    .repeats()
    .help("What holds for the URIs that match a prefix, a path or a regular expression.");

/// `limit_except METHOD … { … }`
pub(crate) static LIMIT_EXCEPT: Directive<LimitExcept> = Directive::new("limit_except", parse_limit_except)
    .within(Contexts::LOCATION)
    .opens(Arity::AtLeast(1), Contexts::LIMIT_EXCEPT)
    .rule(Rule::Never)
    .help("What holds for all methods but these.");

/// `listen ADDRESS …`
pub(crate) static LISTEN: Directive<ListenSpec> = Directive::new("listen", parse_listen)
    .within(Contexts::SERVER)
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .repeats()
    .default("*:80")
    .help("An address and port, or a Unix socket, that the server answers on.");

/// `server_name NAME …`
pub(crate) static SERVER_NAME: Directive<Vec<ServerName>> = Directive::new("server_name", parse_server_name)
    .within(Contexts::SERVER)
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .repeats()
    .default("\"\"")
    .help("The host names that the server answers to: exact, with a wildcard, or by regular expression.");

/// A `location` with its block.
pub(crate) struct LocationSpec {
    pub(crate) name: LocationName,
    pub(crate) regex: Option<Regex>,
    pub(crate) section: SectionId,
}

/// A `limit_except` with its block.
pub(crate) struct LimitExcept {
    methods: Vec<Method>,
    pub(crate) section: SectionId,
}

impl LimitExcept {
    /// The methods that are not limited.
    pub(crate) fn methods(&self) -> &[Method] {
        &self.methods
    }
}

/// One name of a virtual server.
#[derive(Clone)]
pub(crate) enum ServerName {
    /// A host name in lower case, perhaps with a wildcard, or a text such as `_` that no host has.
    Text(Box<[u8]>),
    /// `~pattern`
    Regex(Arc<Regex>),
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

fn parse_server_name(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<ServerName>, Diagnostic> {
    args.words().iter().map(|word| server_name(word, args, loading)).collect()
}

fn server_name(word: &conf::Word, args: &Args<'_>, loading: &mut Loading) -> Result<ServerName, Diagnostic> {
    if let Some(pattern) = word.text.strip_prefix(b"~") {
        if pattern.is_empty() {
            return Err(Diagnostic::emerg("empty regex in server name \"~\"".to_owned()).at(args.node.span));
        }
        // A host is lower case by the time it is compared, so a pattern with capitals ignores case.
        let ignore_case = pattern.iter().any(u8::is_ascii_uppercase);
        return Ok(ServerName::Regex(Arc::new(loading.regex(word, pattern, ignore_case)?)));
    }
    let name = match &*word.text {
        b"$hostname" => hostname(),
        text => text.to_ascii_lowercase(),
    };
    if name.contains(&b'/') || name.contains(&0) {
        let message = format!("server name \"{word}\" has suspicious symbols");
        loading.note(Diagnostic::warn(message).at(args.node.span));
    }
    // What else is wrong with a wildcard matters where names are told apart.
    match &*name {
        b"." | [b'*'] | [b'*', b'.'] => {}
        [b'*', second, ..] if *second != b'.' => {}
        _ => return Ok(ServerName::Text(name.into())),
    }
    Err(Diagnostic::emerg(format!("server name \"{word}\" is invalid")).at(args.node.span))
}

/// The machine's name in lower case.
pub(crate) fn hostname() -> Vec<u8> {
    let uname = rustix::system::uname();
    uname.nodename().to_bytes().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::STRUCTURE;
    use conf::catalogue;

    #[test]
    fn directives_stand_where_nginx_has_them() {
        for info in STRUCTURE.iter().map(|directive| directive.info()) {
            let mut entries = catalogue::entries(info.name);
            let theirs = entries.find(|entry| entry.contexts.intersects(info.contexts)).unwrap();
            assert_eq!(info.contexts, theirs.contexts, "contexts of {}", info.name);
            let counts = |shape: conf::Shape| (0..10).filter(move |count| shape.arity.admits(*count));
            assert!(counts(info.shape).eq(counts(theirs.shape)), "{}", info.name);
            assert_eq!(info.shape.block, theirs.shape.block, "block of {}", info.name);
        }
    }
}
