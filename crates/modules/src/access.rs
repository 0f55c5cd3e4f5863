//! Lets clients in or keeps them out by their address.
//!
//! The rules are read in the order they are written; the first one whose network holds the client's
//! address decides. A client that no rule names is let in. `all` stands for everybody, `unix:` for all
//! clients of Unix sockets. One rule in a location hides all rules around it. See `satisfy` for how this
//! goes together with passwords.
//!
//! ```file html/open.txt
//! welcome
//! ```
//!
//! ```file html/closed/a.txt
//! secret
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         allow 127.0.0.0/8;
//!         allow ::1;
//!         deny all;
//!     }
//!     location /closed/ {
//!         deny all;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /open.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! welcome
//! ---
//! GET /closed/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::shared::networks::network;
use conf::{Contexts, Diagnostic};
use contract::log::Level;
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Peer, Phase, Rule as Inherit, ScopeBuilder, Step,
    View,
};
use http::Status;
use ipnet::IpNet;
use std::net::IpAddr;

/// Access by address.
pub static MODULE: Module =
    Module { name: "access", directives: &[&ALLOW, &DENY], variables: &[], compile: Some(compile) };

const EVERYWHERE: Contexts =
    Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LIMIT_EXCEPT);

/// `allow ADDRESS`
pub static ALLOW: Directive<Rule> =
    Directive::new("allow", |args, loading| Ok(Rule { grants: true, who: parse_who(args, loading)? }))
        .within(EVERYWHERE)
        .rule(Inherit::List)
        .slot("access")
        .help("Lets in the clients of an address, a network, unix: or all.");

/// `deny ADDRESS`
pub static DENY: Directive<Rule> =
    Directive::new("deny", |args, loading| Ok(Rule { grants: false, who: parse_who(args, loading)? }))
        .within(EVERYWHERE)
        .rule(Inherit::List)
        .slot("access")
        .help("Keeps out the clients of an address, a network, unix: or all.");

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    grants: bool,
    who: Who,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    All,
    Unix,
    Network(IpNet),
}

fn parse_who(args: &Args<'_>, loading: &mut Loading) -> Result<Who, Diagnostic> {
    let word = args.word(0)?;
    match &*word.text {
        b"all" => Ok(Who::All),
        b"unix:" => Ok(Who::Unix),
        _ => {
            let network = network(args.node, word, loading).map_err(|error| error.at(args.node, word))?;
            Ok(Who::Network(network.net))
        }
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let rules: Box<[Rule]> = view.all(&ALLOW).into_iter().map(|written| *written.value).collect();
    if !rules.is_empty() {
        builder.handle(Phase::Access, Access { rules });
    }
    Ok(())
}

struct Access {
    rules: Box<[Rule]>,
}

impl Handler for Access {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let peer = self.family(&exchange.connection.peer);
        match self.rules.iter().find(|rule| rule.who.holds(peer)) {
            None => Step::Next,
            Some(rule) if rule.grants => Step::Allow,
            Some(_) => {
                if !exchange.scope.policy.satisfy_any {
                    exchange.log(Level::Error, "access forbidden by rule");
                }
                Step::Finish(Status::FORBIDDEN)
            }
        }
    }
}

impl Access {
    /// The client's address, none for a Unix socket. An IPv4 client of an IPv6 socket is judged by the
    /// rules for IPv4 where there are any.
    fn family(&self, peer: &Peer) -> Option<IpAddr> {
        let Peer::Inet(address) = peer else { return None };
        let is_about_ipv4 = |rule: &Rule| matches!(rule.who, Who::All | Who::Network(IpNet::V4(_)));
        match address.ip() {
            ip @ IpAddr::V6(_) if self.rules.iter().any(is_about_ipv4) => Some(ip.to_canonical()),
            ip => Some(ip),
        }
    }
}

impl Who {
    fn holds(self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Who::All, _) | (Who::Unix, None) => true,
            (Who::Network(net), Some(ip)) => net.contains(&ip),
            (Who::Unix, Some(_)) | (Who::Network(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Peer, Phase, Step};

    /// `+` for allowed, `-` for refused, `?` where no rule decides.
    fn verdict(site: &Site, peer: Peer) -> char {
        match site.run(Phase::Access, &mut site.request("/", peer)) {
            Step::Allow => '+',
            Step::Finish(status) if status.0 == 403 => '-',
            Step::Next => '?',
            _ => '!',
        }
    }

    fn inet(ip: &str) -> Peer {
        Peer::Inet((ip.parse::<std::net::IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let site = Site::location("deny 10.0.0.1; allow 10.0.0.0/8; allow 2001:db8::/32; deny unix:;");
        let verdicts: String = ["10.0.0.1", "10.0.0.2", "11.0.0.1", "2001:db8::5", "::1", "::ffff:10.0.0.2"]
            .iter()
            .map(|ip| verdict(&site, inet(ip)))
            .collect();
        assert_eq!(verdicts, "-+?+?+");
        assert_eq!(verdict(&site, Peer::Unix(None)), '-');
    }

    #[test]
    fn all_is_everybody() {
        let site = Site::location("deny all;");
        assert_eq!(verdict(&site, inet("10.0.0.1")), '-');
        assert_eq!(verdict(&site, inet("::1")), '-');
        assert_eq!(verdict(&site, Peer::Unix(None)), '-');
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for wrong in ["localhost", "10.0.0.0/33", "ALL", "10.0.0", ""] {
            assert_eq!(Site::error(&format!("allow \"{wrong}\";")), format!("invalid parameter \"{wrong}\""));
        }
    }
}
