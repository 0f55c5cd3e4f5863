//! The line that keeps sessions with their servers: `sticky`.

mod cookie;
mod learn;

use super::UPSTREAM;
use ::upstream::Sticky;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Loading, Origin, Rule, VariableId, View};
use cookie::Cookie;
use learn::{Learn, Learning};
use std::sync::Arc;

/// `sticky cookie NAME [PARAMETER …]`, `sticky route VARIABLE …`, `sticky learn PARAMETER …`
pub(super) static STICKY: Directive<Way> = Directive::new("sticky", parse)
    .within(Contexts::UPSTREAM)
    .args(Arity::AtLeast(2))
    .rule(Rule::Never)
    .help("Keeps the requests of a session with one server, which a cookie names, a variable, or what was learned.");

/// How sessions are kept with their servers.
#[derive(Clone)]
pub(super) enum Way {
    /// The request names the server.
    Named(Arc<dyn Sticky>),
    /// The request names the session.
    Learned(Learning),
}

impl Way {
    /// What a group does that has this name.
    pub(super) fn of_group(&self, group: &str, origin: &Origin) -> Arc<dyn Sticky> {
        match self {
            Way::Named(sticky) => Arc::clone(sticky),
            Way::Learned(learning) => Arc::new(Learn::new(learning.clone(), group, origin)),
        }
    }
}

/// The variables that may name a server (`sticky route`).
struct Route(Vec<VariableId>);

impl Sticky for Route {
    fn session(&self, exchange: &Exchange) -> Vec<u8> {
        first_value(&self.0, exchange)
    }

    fn route(&self, session: &[u8]) -> Option<Vec<u8>> {
        Some(session.to_vec())
    }
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Way, Diagnostic> {
    let word = args.word(0)?;
    match &*word.text {
        b"cookie" => Ok(Way::Named(Arc::new(Cookie::parse(args, loading)?))),
        b"route" => {
            let names = args.words().iter().skip(1);
            let variables = names.map(|word| variable(args, (word, &word.text), loading));
            Ok(Way::Named(Arc::new(Route(variables.collect::<Result<_, _>>()?))))
        }
        b"learn" => Ok(Way::Learned(Learning::parse(args, loading)?)),
        _ => Err(unknown(args, word)),
    }
}

fn unknown(args: &Args<'_>, word: &Word) -> Diagnostic {
    error(args, word, format!("unknown parameter \"{word}\""))
}

/// The error about a parameter.
fn wrong(args: &Args<'_>, word: &Word, message: &str) -> Diagnostic {
    error(args, word, format!("\"sticky\" directive {message}"))
}

fn error(args: &Args<'_>, word: &Word, message: String) -> Diagnostic {
    Diagnostic::emerg(message).at(args.node.span).under(word.span)
}

/// The variable that a text such as `$name` in a word names.
fn variable(
    args: &Args<'_>,
    (word, text): (&Word, &[u8]),
    loading: &mut Loading,
) -> Result<VariableId, Diagnostic> {
    let name = text.strip_prefix(b"$").filter(|name| !name.is_empty());
    let shown = String::from_utf8_lossy(text);
    let name = name.ok_or_else(|| error(args, word, format!("invalid variable name \"{shown}\"")))?;
    Ok(loading.variables.refer(&String::from_utf8_lossy(name), Some(word.span)))
}

/// The value of the first variable that has one.
fn first_value(variables: &[VariableId], exchange: &Exchange) -> Vec<u8> {
    let mut value = Vec::new();
    for &variable in variables {
        if exchange.variable(variable, &mut value) && !value.is_empty() {
            break;
        }
        value.clear();
    }
    value
}

/// Checks that no two groups have their sessions in one zone.
pub(super) fn check_zones(http: &View<'_>) -> Result<(), Diagnostic> {
    let mut zones: Vec<(&[u8], &str)> = Vec::new();
    for block in http.here(&UPSTREAM) {
        for written in http.at(block.value.section).here(&STICKY) {
            let Way::Learned(learning) = written.value else { continue };
            let name = learning.zone_name();
            if let Some((_, group)) = zones.iter().find(|(other, _)| *other == name) {
                let name = String::from_utf8_lossy(name);
                let message = format!("sticky zone \"{name}\" is already used in upstream \"{group}\"");
                return Err(Diagnostic::emerg(message).at(written.span));
            }
            zones.push((name, &block.value.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn parameters() {
        for (sticky, error) in [
            ("sticky cookies a;", "unknown parameter \"cookies\""),
            ("sticky cookie a; sticky route $arg_a;", "\"sticky\" directive is duplicate"),
            ("sticky cookie \"\";", "\"sticky\" directive empty cookie name"),
            ("sticky cookie a paths=/;", "unknown parameter \"paths=/\""),
            ("sticky cookie a domain=;", "\"sticky\" directive no value for \"domain\""),
            ("sticky cookie a path=;", "\"sticky\" directive no value for \"path\""),
            ("sticky cookie a path=/ path=/;", "\"sticky\" directive parameter \"path\" is duplicate"),
            ("sticky cookie a secure secure;", "\"sticky\" directive parameter \"secure\" is duplicate"),
            ("sticky cookie a expires=x;", "\"sticky\" directive invalid \"expires\" parameter value"),
            ("sticky cookie a samesite=some;", "\"sticky\" directive invalid \"samesite\" parameter value"),
            ("sticky route a;", "invalid variable name \"a\""),
            ("sticky route $;", "invalid variable name \"$\""),
            ("sticky route $none;", "unknown \"none\" variable"),
            ("sticky learn lookup=$arg_a;", "\"sticky\" directive \"create\" parameter is not specified"),
            ("sticky learn create=$arg_a;", "\"sticky\" directive \"lookup\" parameter is not specified"),
            ("sticky learn create=a;", "\"sticky\" directive missing variable in the \"create\" parameter"),
            (
                "sticky learn create=$arg_a lookup=$arg_a;",
                "\"sticky\" directive \"zone\" parameter is not specified",
            ),
            ("sticky learn zone=:1m;", "\"sticky\" directive zone name is not specified"),
            ("sticky learn zone=a:1k;", "zone \"zone=a:1k\" is too small"),
            ("sticky learn zone=a:1m zone=b:1m;", "\"sticky\" directive duplicate zone"),
            ("sticky learn timeout=0;", "\"sticky\" directive invalid timeout"),
            ("sticky learn timeout=1s timeout=1s;", "\"sticky\" directive duplicate timeout"),
            ("sticky learn some;", "unknown parameter \"some\""),
        ] {
            let text = format!("upstream u {{ server 127.0.0.1; {sticky} }}");
            assert_eq!(Site::error(&text), error, "{sticky}");
        }
        for (parameter, error) in [
            ("route=", "route is empty"),
            ("route=123456789012345678901234567890123", "route is longer than 32"),
            ("drain=1", "invalid parameter \"drain=1\""),
            ("route", "invalid parameter \"route\""),
        ] {
            let text = format!("upstream u {{ server 127.0.0.1 {parameter}; }}");
            assert_eq!(Site::error(&text), error, "{parameter}");
        }
    }

    #[test]
    fn two_groups_have_two_zones() {
        let group = |name: &str| {
            let learn = "sticky learn create=$arg_a lookup=$arg_a zone=z:1m;";
            format!("upstream {name} {{ server 127.0.0.1; {learn} }}")
        };
        let error = "sticky zone \"z\" is already used in upstream \"a\"";
        assert_eq!(Site::error(&(group("a") + &group("b"))), error);
    }
}
