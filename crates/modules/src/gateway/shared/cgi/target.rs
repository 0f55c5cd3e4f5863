//! What `fastcgi_pass`, `scgi_pass` and `uwsgi_pass` say: an address or a group, after a scheme where there is one.

use crate::gateway::resolver::{self, Finder};
use crate::shared::secured::SharedPolicy;
use conf::value::{self, Address, Host, ValueError};
use conf::{Diagnostic, Word};
use contract::{Args, Exchange, Loading, Template, View};
use http::Status;
use journal::Level;
use std::borrow::Cow;
use std::sync::Arc;
use upstream::{ClientTls, Group, TlsOptions};

/// How a protocol is spoken to a server, and how logs call that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// What logs show in front of an address: `uwsgi://`
    pub(crate) prefix: &'static str,
    /// Whether the prefix may stand in the configuration, too.
    pub(crate) is_written: bool,
    /// Whether connections are encrypted.
    pub(crate) is_secure: bool,
}

/// The schemes of a protocol; the first one counts where none is written.
pub(crate) type Schemes = &'static [Scheme];

/// The value of such a directive.
#[derive(Clone, Debug)]
pub struct Pass {
    text: Box<[u8]>,
    /// With variables, which make it known only when a request comes.
    template: Option<Template>,
    schemes: Schemes,
    policy: SharedPolicy,
}

/// The servers of a scope's requests.
pub(crate) enum Target {
    /// Always the same.
    Fixed(Place),
    /// Chosen for each request: one of the groups, an address, or a name that is looked up.
    Chosen(Chosen),
}

/// How servers are chosen for each request.
pub(crate) struct Chosen {
    template: Template,
    schemes: Schemes,
    groups: Vec<Arc<Group>>,
    finder: Finder,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) group: Arc<Group>,
    pub(crate) scheme: &'static Scheme,
    /// The host without a port: the name of the group, or of the server.
    pub(crate) host: Arc<str>,
}

pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading, schemes: Schemes) -> Result<Pass, Diagnostic> {
    parse_word(args.word(0)?, args, loading, schemes)
}

/// As [`parse`], for a word that may stand for one that was not written.
pub(crate) fn parse_word(
    word: &Word,
    args: &Args<'_>,
    loading: &mut Loading,
    schemes: Schemes,
) -> Result<Pass, Diagnostic> {
    let template = word.text.contains(&b'$').then(|| loading.template(word)).transpose()?;
    match template {
        None => {
            let parsed = address(split(&word.text, schemes).1);
            drop(parsed.map_err(|error| error.at(args.node, word))?);
        }
        Some(_) => crate::shared::trust::warn_of_choice(args, loading),
    }
    Ok(Pass { text: word.text.clone(), template, schemes, policy: SharedPolicy::default() })
}

impl Pass {
    /// Whether a request can influence the choice of the server.
    pub(crate) fn is_chosen(&self) -> bool {
        self.template.is_some()
    }

    /// What was written.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// How servers are spoken to over TLS, if they may be.
    pub(crate) fn policy(
        &self,
        view: &View<'_>,
        options: &TlsOptions,
    ) -> Result<Option<Arc<ClientTls>>, Diagnostic> {
        let may_be_secure = self.template.is_some() || split(&self.text, self.schemes).0.is_secure;
        may_be_secure.then(|| self.policy.of(view, options, &[])).transpose()
    }

    /// The servers, as far as they are known before a request comes.
    ///
    /// # Errors
    /// The servers are not known; the message has no place.
    pub(crate) fn target(&self, view: &View<'_>) -> Result<Target, Diagnostic> {
        let groups = crate::gateway::upstream::groups(view);
        match &self.template {
            Some(template) => Ok(Target::Chosen(Chosen {
                template: template.clone(),
                schemes: self.schemes,
                groups,
                finder: Finder::new(view),
            })),
            None => {
                let known = |name: &str, address: &Address| resolver::known(name, address, view.origin());
                let found = find(&self.text, self.schemes, &groups, known).map(Target::Fixed);
                found.map_err(|message| resolver::not_found(message, &groups))
            }
        }
    }
}

impl Target {
    /// The servers of one request.
    pub(crate) fn place(&self, exchange: &Exchange) -> Result<Cow<'_, Place>, Status> {
        let chosen = match self {
            Target::Fixed(place) => return Ok(Cow::Borrowed(place)),
            Target::Chosen(chosen) => chosen,
        };
        let text = chosen.template.evaluate(exchange);
        let found =
            find(&text, chosen.schemes, &chosen.groups, |name, address| chosen.finder.group(name, address));
        found.map(Cow::Owned).map_err(|message| {
            exchange.log(Level::Error, &message);
            let unknown = message.starts_with(resolver::NO_RESOLVER);
            if unknown { Status::BAD_GATEWAY } else { Status::INTERNAL_SERVER_ERROR }
        })
    }
}

/// The group of this name, or one of the addresses that the text names. Connections to the latter serve one
/// request each.
fn find(
    text: &[u8],
    schemes: Schemes,
    groups: &[Arc<Group>],
    group: impl Fn(&str, &Address) -> Result<Arc<Group>, String>,
) -> Result<Place, String> {
    let (scheme, text) = split(text, schemes);
    let address = address(text).map_err(|error| error.to_string())?;
    let shown = String::from_utf8_lossy(text);
    let is_unix = matches!(address.host, Host::Unix(_));
    if !address.has_port && !is_unix {
        let named = groups.iter().find(|group| group.name.eq_ignore_ascii_case(&shown));
        let named = named.ok_or_else(|| format!("no port in upstream \"{shown}\""))?;
        return Ok(Place { group: Arc::clone(named), scheme, host: Arc::clone(&named.name) });
    }
    let host = match &address.host {
        Host::Unix(_) => "localhost".into(),
        Host::Name(name) => (&**name).into(),
        Host::Ip(_) => shown.rsplit_once(':').map_or(&*shown, |(ip, _)| ip).into(),
    };
    Ok(Place { group: group(&shown, &address)?, scheme, host })
}

/// The scheme, and the address after it.
fn split(text: &[u8], schemes: Schemes) -> (&'static Scheme, &[u8]) {
    let after = |scheme: &Scheme| {
        let (start, rest) = text.split_at_checked(scheme.prefix.len())?;
        (scheme.is_written && start.eq_ignore_ascii_case(scheme.prefix.as_bytes())).then_some(rest)
    };
    let written = schemes.iter().find_map(|scheme| after(scheme).map(|rest| (scheme, rest)));
    written.unwrap_or((&schemes[0], text))
}

fn address(text: &[u8]) -> Result<Address, ValueError> {
    match value::target(text, 0)? {
        (address, []) => Ok(address),
        _ => Err(ValueError::Address("invalid host")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Scheme, find};
    use crate::gateway::resolver::Finder;
    use std::sync::Arc;
    use upstream::{Group, Keepalive, Server};

    const SCHEMES: &[Scheme] = &[
        Scheme { prefix: "plain://", is_written: true, is_secure: false },
        Scheme { prefix: "secure://", is_written: true, is_secure: true },
    ];

    #[test]
    fn groups_and_addresses() {
        let server = Server::new(net::SocketAddress::Inet("127.0.0.1:1".parse().unwrap()));
        let groups = [Arc::new(Group::new("php", vec![server], Keepalive::DEFAULT))];
        let found = |name: &str, address: &conf::value::Address| Finder::default().group(name, address);
        let name = |text: &str| {
            find(text.as_bytes(), SCHEMES, &groups, found).map(|place| place.group.name.to_string())
        };
        assert_eq!(name("PHP"), Ok("php".into()));
        assert_eq!(name("127.0.0.1:9000"), Ok("127.0.0.1:9000".into()));
        assert_eq!(name("unix:/run/php.sock"), Ok("unix:/run/php.sock".into()));
        assert_eq!(name("other"), Err("no port in upstream \"other\"".into()));
        assert_eq!(name("PLAIN://php"), Ok("php".into()));
        let secure = find(b"secure://127.0.0.1:9000", SCHEMES, &[], found).unwrap();
        assert_eq!((&*secure.group.name, &*secure.host), ("127.0.0.1:9000", "127.0.0.1"));
        assert!(secure.scheme.is_secure && name("other://php").is_err());
        assert!(name("127.0.0.1:9000/uri").is_err() && name("127.0.0.1:99999").is_err());
    }
}
