//! What `proxy_pass` says: a server or a group, and the URI that takes the place of the location's.

use ::upstream::{Group, Keepalive, Server, resolve};
use conf::value::{self, Host};
use conf::{Contexts, Diagnostic};
use contract::inputs::System;
use contract::log::Level;
use contract::{Args, Exchange, Loading, LocationKind, Template, View};
use http::Status;
use std::sync::Arc;

/// The value of `proxy_pass`.
#[derive(Clone, Debug)]
pub struct Pass {
    /// As it was written.
    pub(super) text: Box<[u8]>,
    /// With variables, which make it known only when a request comes.
    template: Option<Template>,
}

/// Where one request goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) group: Arc<Group>,
    /// What stands in `Host` (`$proxy_host`).
    pub(super) host: Box<str>,
    /// `$proxy_port`
    pub(super) port: Box<str>,
    /// Empty if there is none.
    pub(super) uri: Vec<u8>,
}

const PORT: u16 = 80;

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    let word = args.word(0)?;
    let text = word.text.clone();
    if text.contains(&b'$') {
        crate::shared::trust::warn_of_choice(args, loading);
        warn_of_https(args, loading);
        return Ok(Pass { text, template: Some(loading.template(word)?) });
    }
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let rest = without_scheme(&text).map_err(|scheme| match scheme {
        BadScheme::Https => {
            error(format!("{} (nothing is encrypted on the way to other servers)", scheme.message()))
                .hint(INSTEAD)
        }
        BadScheme::Unknown => error(scheme.message().to_owned()),
    })?;
    let (_, uri) = value::target(rest, PORT).map_err(|why| why.at(args.node, word))?;
    let in_location = args.context == Contexts::LOCATION;
    let is_plain = loading
        .location
        .as_ref()
        .is_none_or(|location| !matches!(location.kind, LocationKind::Regex | LocationKind::Named));
    let may_replace = in_location && is_plain;
    if !uri.is_empty() && !may_replace {
        return Err(error(
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named \
             location, or inside \"if\" statement, or inside \"limit_except\" block"
                .to_owned(),
        ));
    }
    Ok(Pass { text, template: None })
}

/// Why a URL is nothing to pass to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BadScheme {
    Https,
    Unknown,
}

impl BadScheme {
    fn message(self) -> &'static str {
        match self {
            BadScheme::Https => "\"https://\" in \"proxy_pass\" is not built yet",
            BadScheme::Unknown => "invalid URL prefix",
        }
    }
}

const INSTEAD: &str = "pass to \"http://\" where the network is trusted, or to a program on this host that encrypts, \
                       such as stunnel";

/// Warns where a scheme that a variable gives may be, or is, `https`.
fn warn_of_https(args: &Args<'_>, loading: &mut Loading) {
    let Ok(word) = args.word(0) else { return };
    let parts = value::Template::new(&word.text).map(|template| template.parts).unwrap_or_default();
    let which = match parts.first() {
        _ if without_scheme(&word.text) == Err(BadScheme::Https) => "requests",
        Some(value::Part::Variable(name)) if **name == *"scheme" => "requests that came over TLS",
        Some(value::Part::Variable(name)) if loading.https_variables.contains(&**name) => "requests",
        _ => return,
    };
    let warning = Diagnostic::warn(format!("{} ({which} are answered 500)", BadScheme::Https.message()));
    loading.note(warning.at(args.node.span).under(word.span).hint(INSTEAD));
}

fn without_scheme(text: &[u8]) -> Result<&[u8], BadScheme> {
    let starts = |scheme: &str| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    };
    match (starts("http://"), starts("https://")) {
        (Some(rest), _) => Ok(rest),
        (None, Some(_)) => Err(BadScheme::Https),
        (None, None) => Err(BadScheme::Unknown),
    }
}

impl Pass {
    /// What was written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The target, if no variable has a say in it.
    pub(super) fn fixed(&self, view: &View<'_>) -> Result<Option<Target>, Diagnostic> {
        if self.template.is_some() {
            return Ok(None);
        }
        let groups = crate::upstream::groups(view);
        let rest = without_scheme(&self.text).unwrap_or_default();
        target(rest, &groups, |address| {
            let found = resolve(address, &*view.origin().inputs)?;
            Ok(found.into_iter().map(Server::new).collect())
        })
        .map(Some)
        .map_err(Diagnostic::emerg)
    }

    /// The target for one request.
    pub(super) fn dynamic(&self, exchange: &Exchange, groups: &[Arc<Group>]) -> Result<Target, Status> {
        let text = self.template.as_ref().map(|template| template.evaluate(exchange)).unwrap_or_default();
        let found = without_scheme(&text).map_err(|scheme| scheme.message().to_owned()).and_then(|rest| {
            target(rest, groups, |address| match &address.host {
                Host::Name(name) => Err(format!("no resolver defined to resolve {name}")),
                _ => Ok(resolve(address, &System)?.into_iter().map(Server::new).collect()),
            })
        });
        found.map_err(|message| {
            exchange.log(Level::Error, &message);
            match message.starts_with("no resolver") {
                true => Status::BAD_GATEWAY,
                false => Status::INTERNAL_SERVER_ERROR,
            }
        })
    }

    /// Whether variables have a say.
    pub(super) fn is_dynamic(&self) -> bool {
        self.template.is_some()
    }
}

fn target(
    rest: &[u8],
    groups: &[Arc<Group>],
    look_up: impl Fn(&value::Address) -> Result<Vec<Server>, String>,
) -> Result<Target, String> {
    let (address, uri) = value::target(rest, PORT).map_err(|error| error.to_string())?;
    let uri = uri.to_vec();
    let written = &rest[..rest.len() - uri.len()];
    let shown = String::from_utf8_lossy(written).into_owned();
    let name = match &address.host {
        Host::Unix(_) => "localhost".to_owned(),
        Host::Name(name) => name.to_string(),
        Host::Ip(_) => {
            shown.rsplit_once(':').filter(|_| address.has_port).map_or(shown.clone(), |(ip, _)| ip.to_owned())
        }
    };
    let (host, port) = match &address.host {
        Host::Unix(_) => (name.clone(), String::new()),
        _ if address.port == PORT => (name.clone(), PORT.to_string()),
        _ => (format!("{name}:{}", address.port), address.port.to_string()),
    };
    let named = groups.iter().find(|group| !address.has_port && group.name.eq_ignore_ascii_case(&name));
    let group = match named.filter(|_| !matches!(address.host, Host::Unix(_))) {
        Some(group) => Arc::clone(group),
        None => {
            let mut servers = look_up(&address)?;
            // A group of one name's addresses: the pool that a block has is not for it.
            servers.iter_mut().for_each(|server| server.backup = false);
            let name =
                if matches!(address.host, Host::Unix(_)) { shown.trim_end_matches(':') } else { &host };
            Arc::new(Group::new(name, servers, Keepalive::NONE))
        }
    };
    Ok(Target { group, host: host.into(), port: port.into(), uri })
}

/// A word without a place, for tests.
#[cfg(test)]
pub(super) fn example(text: &str) -> Result<Target, String> {
    target(text.as_bytes(), &[], |address| {
        resolve(address, &System).map(|all| all.into_iter().map(Server::new).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::example;

    #[test]
    fn hosts_ports_and_uris() {
        for (text, host, port, uri) in [
            ("127.0.0.1", "127.0.0.1", "80", ""),
            ("127.0.0.1:80/", "127.0.0.1", "80", "/"),
            ("127.0.0.1:8080/a?b", "127.0.0.1:8080", "8080", "/a?b"),
            ("[::1]:81/x", "[::1]:81", "81", "/x"),
            ("unix:/tmp/s:/uri", "localhost", "", "/uri"),
            ("unix:/tmp/s", "localhost", "", ""),
        ] {
            let target = example(text).unwrap();
            assert_eq!((&*target.host, &*target.port), (host, port), "{text}");
            assert_eq!(target.uri, uri.as_bytes(), "{text}");
        }
    }
}
