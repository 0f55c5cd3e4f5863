//! Which requests remove a kept response (`proxy_cache_purge`), in the words of nginx's commercial edition and of the
//! module cache_purge.

use conf::value::{Network, cidr};
use conf::{Contexts, Diagnostic, Word};
use contract::{Args, Exchange, Loading, Peer, Template};
use http::Status;

/// One use of `proxy_cache_purge`.
#[derive(Clone, Debug)]
pub enum Purge {
    /// No request.
    Off,
    /// `VALUE …`: requests for which one of these is neither empty nor `0`.
    If(Vec<Template>),
    /// `on` or `METHOD`, and `from` clients: requests with this method.
    Method(Box<[u8]>, Clients),
    /// `ZONE KEY`: requests for the location itself. Each removes the response with this key.
    Key(Box<[u8]>, Template),
}

/// The clients whose requests may remove responses.
#[derive(Clone, Debug)]
pub enum Clients {
    /// All of them.
    All,
    /// Those of these networks.
    From(Box<[Network]>),
}

impl Purge {
    /// The status for a request that removes the response with its key; none for a usual request.
    ///
    /// # Errors
    /// The status for a client that may not remove anything.
    pub fn status(uses: &[Purge], exchange: &Exchange) -> Result<Option<Status>, Status> {
        for purge in uses {
            match purge {
                Purge::If(values) if values.iter().any(|value| is_set(value, exchange)) => {
                    return Ok(Some(Status::NO_CONTENT));
                }
                Purge::Method(method, clients) if **method == *exchange.request.head.method_name() => {
                    let is_allowed = clients.has(&exchange.connection.peer);
                    return if is_allowed { Ok(Some(Status::OK)) } else { Err(Status::FORBIDDEN) };
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Clients {
    fn has(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Clients::All, _) => true,
            (Clients::From(networks), Peer::Inet(address)) => {
                networks.iter().any(|network| network.net.contains(&address.ip()))
            }
            (Clients::From(_), Peer::Unix(_)) => false,
        }
    }
}

/// Whether a text is neither empty nor `0`.
pub fn is_set(template: &Template, exchange: &Exchange) -> bool {
    !matches!(&*template.evaluate(exchange), b"" | b"0")
}

/// A value with a variable is a condition, as in the commercial edition. Other words are those of the module.
pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Purge, Diagnostic> {
    let words = args.words();
    let templates = words.iter().map(|word| loading.template(word)).collect::<Result<Vec<_>, _>>()?;
    let is_condition = templates.first().is_some_and(|value| value.constant().is_none());
    match words {
        _ if is_condition => Ok(Purge::If(templates)),
        [word] if word.is("off") => Ok(Purge::Off),
        [zone, _] => match templates.into_iter().nth(1) {
            Some(key) if args.context == Contexts::LOCATION => Ok(Purge::Key(zone.text.clone(), key)),
            _ => Err(args.error("with a zone and a key is allowed in a location only")),
        },
        [method, rest @ ..] => {
            let method = if method.is("on") { &b"PURGE"[..] } else { &*method.text };
            Ok(Purge::Method(method.into(), clients(args, rest)?))
        }
        [] => Err(args.error("invalid number of arguments")),
    }
}

/// `from all`, or `from NETWORK …`; nothing means all clients.
fn clients(args: &Args<'_>, words: &[Word]) -> Result<Clients, Diagnostic> {
    match words {
        [] => Ok(Clients::All),
        [from, all] if from.is("from") && all.is("all") => Ok(Clients::All),
        [from, networks @ ..] if from.is("from") && !networks.is_empty() => {
            let network = |word: &Word| cidr(word).map_err(|error| error.at(args.node, word));
            networks.iter().map(network).collect::<Result<_, _>>().map(Clients::From)
        }
        [word, ..] => {
            let hint = "write \"from\" and networks; \"cache_api\" removes all responses of a zone";
            Err(args.invalid(word).hint(hint))
        }
    }
}
