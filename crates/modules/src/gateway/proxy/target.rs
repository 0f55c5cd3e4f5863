//! What `proxy_pass` says: a server or a group, and the URI that takes the place of the location's.

use super::url::Url;
use crate::gateway::resolver::{self, Finder};
use crate::shared::secured::SharedPolicy;
use ::upstream::{ClientTls, Group, TlsOptions};
use conf::value::{self, Host};
use conf::{Contexts, Diagnostic};
use contract::{Args, Exchange, Loading, LocationKind, View};
use http::Status;
use journal::Level;
use std::sync::Arc;

/// The value of `proxy_pass`.
#[derive(Clone, Debug)]
pub struct Pass {
    /// As it was written.
    pub(super) text: Box<[u8]>,
    /// With variables, which make it known only when a request comes.
    url: Option<Url>,
    policy: SharedPolicy,
    family: Family,
}

/// The schemes that a directive knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// `http://` and `https://`
    Http,
    /// `grpc://`, which may be left out, and `grpcs://`
    Grpc,
}

/// What a host in a variable can be, besides an address.
pub(super) struct Hosts {
    groups: Box<[Arc<Group>]>,
    /// How other hosts are found.
    finder: Finder,
}

impl Hosts {
    pub(super) fn new(view: &View<'_>) -> Hosts {
        let groups = crate::gateway::upstream::groups(view).into();
        Hosts { groups, finder: Finder::new(view) }
    }
}

/// Where one request goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    /// The host without a port: the name of the group, or of the server.
    pub(super) name: Arc<str>,
    pub(super) group: Arc<Group>,
    /// What stands in `Host` (`$proxy_host`).
    pub(super) host: Box<str>,
    /// `$proxy_port`
    pub(super) port: Box<str>,
    /// Empty if there is none.
    pub(super) uri: Vec<u8>,
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    let word = args.word(0)?;
    let text = word.text.clone();
    if text.contains(&b'$') {
        crate::shared::trust::warn_of_choice(args, loading);
        let url = Some(Url::new(word, loading)?);
        return Ok(Pass { text, url, policy: SharedPolicy::default(), family: Family::Http });
    }
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let no_scheme = || error(BAD_SCHEME.to_owned()).hint("begin it with http:// or https://");
    let (scheme, rest) = Family::Http.split(&text).ok_or_else(no_scheme)?;
    let (_, uri) = value::target(rest, scheme.port()).map_err(|why| why.at(args.node, word))?;
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
    Ok(Pass { text, url: None, policy: SharedPolicy::default(), family: Family::Http })
}

/// The value of `grpc_pass`, which has no URI.
pub(crate) fn parse_grpc(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    let (word, family) = (args.word(0)?, Family::Grpc);
    let (text, policy) = (word.text.clone(), SharedPolicy::default());
    if text.contains(&b'$') {
        crate::shared::trust::warn_of_choice(args, loading);
        return Ok(Pass { text, url: Some(Url::new(word, loading)?), policy, family });
    }
    let error = |message: &str| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let (scheme, rest) = family.split(&text).ok_or_else(|| error(BAD_SCHEME))?;
    let (_, uri) = value::target(rest, scheme.port()).map_err(|why| why.at(args.node, word))?;
    if !uri.is_empty() {
        return Err(error(NO_URI).hint("remove the path after the host: the request keeps its URI"));
    }
    Ok(Pass { text, url: None, policy, family })
}

const NO_URI: &str = "URI part is not allowed in \"grpc_pass\"";

const BAD_SCHEME: &str = "invalid URL prefix";

/// The protocol under HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    Http,
    Https,
    Grpc,
    Grpcs,
}

impl Scheme {
    /// With what a URL starts.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Scheme::Http => "http://",
            Scheme::Https => "https://",
            Scheme::Grpc => "grpc://",
            Scheme::Grpcs => "grpcs://",
        }
    }

    /// Whether servers are spoken to over TLS.
    pub(super) fn is_secure(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Grpcs)
    }

    fn port(self) -> u16 {
        if self.is_secure() { 443 } else { 80 }
    }
}

impl Family {
    /// The scheme of a URL and what follows it.
    fn split(self, text: &[u8]) -> Option<(Scheme, &[u8])> {
        let (schemes, usual) = match self {
            Family::Http => ([Scheme::Http, Scheme::Https], None),
            Family::Grpc => ([Scheme::Grpc, Scheme::Grpcs], Some(Scheme::Grpc)),
        };
        let written = schemes.into_iter().find_map(|scheme| {
            let (start, rest) = text.split_at_checked(scheme.prefix().len())?;
            start.eq_ignore_ascii_case(scheme.prefix().as_bytes()).then_some((scheme, rest))
        });
        written.or_else(|| usual.map(|scheme| (scheme, text)))
    }
}

impl Pass {
    /// What was written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The target, if it does not contain a variable.
    pub(super) fn fixed(&self, view: &View<'_>) -> Result<Option<Target>, Diagnostic> {
        if self.url.is_some() {
            return Ok(None);
        }
        let groups = crate::gateway::upstream::groups(view);
        let (scheme, rest) = self.family.split(&self.text).ok_or_else(|| Diagnostic::emerg(BAD_SCHEME))?;
        target((scheme, rest), &groups, |name, address| resolver::known(name, address, view.origin()))
            .map(Some)
            .map_err(|message| resolver::not_found(message, &groups))
    }

    /// The target for one request.
    pub(super) fn dynamic(&self, exchange: &Exchange, hosts: &Hosts) -> Result<Target, Status> {
        let text = self.url.as_ref().map(|url| url.evaluate(exchange)).unwrap_or_default();
        let found =
            self.family.split(&text).ok_or_else(|| BAD_SCHEME.to_owned()).and_then(|(scheme, rest)| {
                target((scheme, rest), &hosts.groups, |name, address| hosts.finder.group(name, address))
            });
        found.map_err(|message| {
            exchange.log(Level::Error, &message);
            match message.starts_with(resolver::NO_RESOLVER) {
                true => Status::BAD_GATEWAY,
                false => Status::INTERNAL_SERVER_ERROR,
            }
        })
    }

    /// How servers are spoken to over TLS, if they may be. They are offered these protocols (ALPN).
    pub(super) fn policy(
        &self,
        view: &View<'_>,
        options: &TlsOptions,
        protocols: &[&[u8]],
    ) -> Result<Option<Arc<ClientTls>>, Diagnostic> {
        let is_clear = self.family.split(&self.text).is_some_and(|(scheme, _)| !scheme.is_secure());
        let may_be_secure = self.is_dynamic() || !is_clear;
        may_be_secure.then(|| self.policy.of(view, options, protocols)).transpose()
    }

    /// Whether it contains variables.
    pub(super) fn is_dynamic(&self) -> bool {
        self.url.is_some()
    }
}

fn target(
    (scheme, rest): (Scheme, &[u8]),
    groups: &[Arc<Group>],
    look_up: impl Fn(&str, &value::Address) -> Result<Arc<Group>, String>,
) -> Result<Target, String> {
    let (address, uri) = value::target(rest, scheme.port()).map_err(|error| error.to_string())?;
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
        _ if address.port == scheme.port() => (name.clone(), address.port.to_string()),
        _ => (format!("{name}:{}", address.port), address.port.to_string()),
    };
    let named = groups.iter().find(|group| !address.has_port && group.name.eq_ignore_ascii_case(&name));
    let group = match named.filter(|_| !matches!(address.host, Host::Unix(_))) {
        Some(group) => Arc::clone(group),
        None => {
            let group =
                if matches!(address.host, Host::Unix(_)) { shown.trim_end_matches(':') } else { &host };
            look_up(group, &address)?
        }
    };
    Ok(Target { scheme, name: name.into(), group, host: host.into(), port: port.into(), uri })
}

/// `$proxy_host` and `$proxy_port` of the request that is being passed on.
pub(super) struct Passing(pub(super) Arc<Target>);

/// A word without a place, for tests.
#[cfg(test)]
pub(super) fn example(text: &str) -> Result<Target, String> {
    target((Scheme::Http, text.as_bytes()), &[], |name, address| Finder::default().group(name, address))
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
