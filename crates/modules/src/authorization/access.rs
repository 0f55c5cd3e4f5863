//! Allows or denies clients by address.
//!
//! The rules are checked in order; the first rule that matches the client's address decides. If no rule matches,
//! the client is allowed. `all` matches every client, `unix:` matches all clients of Unix sockets. A level with a
//! rule inherits none of the outer rules. The time of a check does not grow with the number of networks. `satisfy`
//! combines addresses with passwords.
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

use crate::shared::addresses::{Addresses, Painting};
use crate::shared::networks::network;
use conf::{Contexts, Diagnostic, Span};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Peer, Phase, Rule as Inherit, ScopeBuilder,
    Step, View,
};
use http::Status;
use ipnet::IpNet;
use journal::Level;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Access by address.
pub static MODULE: Module =
    Module { name: "access", directives: &[&ALLOW, &DENY], variables: &[], compile: Some(compile) };

const EVERYWHERE: Contexts = Contexts::HTTP
    .or(Contexts::SERVER)
    .or(Contexts::LOCATION)
    .or(Contexts::LIMIT_EXCEPT)
    .or(Contexts::ALL_STREAM);

/// `allow ADDRESS`
pub static ALLOW: Directive<Rule> =
    Directive::new("allow", |args, loading| Ok(Rule::new(true, parse_who(args, loading)?)))
        .within(EVERYWHERE)
        .rule(Inherit::List)
        .slot("access")
        .help("Allows the clients of an address or a network, of unix:, or all.");

/// `deny ADDRESS`
pub static DENY: Directive<Rule> =
    Directive::new("deny", |args, loading| Ok(Rule::new(false, parse_who(args, loading)?)))
        .within(EVERYWHERE)
        .rule(Inherit::List)
        .slot("access")
        .help("Denies the clients of an address or a network, of unix:, or all.");

/// One rule.
#[derive(Debug)]
pub struct Rule {
    grants: bool,
    who: Who,
    /// What the whole list comes to that this is the first rule of: it is made once for all levels that inherit it.
    list: OnceLock<Arc<Rules>>,
}

impl Rule {
    fn new(grants: bool, who: Who) -> Rule {
        Rule { grants, who, list: OnceLock::new() }
    }
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
    if let Some(first) = view.written(&ALLOW) {
        let rules = first.value.list.get_or_init(|| Arc::new(Rules::new(view)));
        builder.handle(Phase::Access, Access(Arc::clone(rules)));
    }
    Ok(())
}

/// A list of rules, of which the first one that holds decides.
#[derive(Debug)]
struct Rules {
    /// Whether each grants access, and where it stands.
    rules: Box<[(bool, Span)]>,
    /// The rule that decides about each address.
    addresses: Addresses<u32>,
    /// The rule about clients of Unix sockets.
    unix: u32,
    /// Whether there are rules for IPv4: then IPv4 clients of IPv6 sockets are judged by them.
    has_v4: bool,
}

/// No rule.
const NOBODY: u32 = u32::MAX;

impl Rules {
    fn new(view: &View<'_>) -> Rules {
        let rules = view.all(&ALLOW);
        let (mut painting, mut unix, mut has_v4) = (Painting::all(NOBODY), NOBODY, false);
        // Where several hold, what is painted last counts: that is the first one.
        for (rule, index) in rules.iter().zip(0..).collect::<Vec<_>>().into_iter().rev() {
            match rule.value.who {
                Who::All => (painting, unix, has_v4) = (Painting::all(index), index, true),
                Who::Unix => unix = index,
                Who::Network(network) => {
                    painting.paint(network, index);
                    has_v4 |= matches!(network, IpNet::V4(_));
                }
            }
        }
        let rules = rules.iter().map(|rule| (rule.value.grants, rule.span)).collect();
        Rules { rules, addresses: painting.finish(), unix, has_v4 }
    }

    /// The rule that decides about a client.
    fn find(&self, client: &Peer) -> Option<(bool, Span)> {
        let index = match client {
            Peer::Unix(_) => Some(self.unix),
            Peer::Inet(address) => match address.ip() {
                IpAddr::V6(ip) if !self.has_v4 => self.addresses.get_v6(ip),
                ip => self.addresses.get(ip),
            },
        };
        self.rules.get(index? as usize).copied()
    }
}

struct Access(Arc<Rules>);

impl Handler for Access {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let Some((grants, place)) = self.0.find(&exchange.connection.peer) else { return Step::Next };
        exchange.tell(|| {
            let text = if grants { "the client may come in" } else { "the client is kept out" };
            Event::new("access", text).at(Some(place)).with("client", exchange.connection.peer.address())
        });
        if grants {
            return Step::Allow;
        }
        if !exchange.scope.policy.satisfy_any {
            exchange.log(Level::Error, "access forbidden by rule");
        }
        Step::Finish(Status::FORBIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Peer, Phase, Step};
    use ipnet::IpNet;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

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
    fn rules_of_one_family_say_nothing_about_the_other() {
        let site = Site::location("deny ::ffff:0:0/96; allow 2001:db8::/32;");
        assert_eq!(verdict(&site, inet("::ffff:10.0.0.2")), '-', "there are no rules for IPv4");
        assert_eq!(verdict(&site, inet("10.0.0.2")), '?');
        let site = Site::location("deny ::ffff:0:0/96; allow 10.0.0.0/8;");
        assert_eq!(verdict(&site, inet("::ffff:10.0.0.2")), '+');
        assert_eq!(verdict(&site, inet("::ffff:11.0.0.2")), '?');
    }

    proptest! {
        /// The table comes to what a look at rule by rule comes to.
        #[test]
        fn as_if_every_rule_was_looked_at(
            rules in prop::collection::vec((any::<bool>(), any::<u8>(), 24u8..=32, 0u8..20), 1..30),
            asked in prop::collection::vec(any::<u8>(), 20),
        ) {
            let net = |low: u8, bits| IpNet::new(Ipv4Addr::new(10, 0, 0, low).into(), bits).unwrap().trunc();
            let text: String = rules
                .iter()
                .map(|&(grants, low, bits, all)| {
                    let word = if grants { "allow" } else { "deny" };
                    let who = if all == 0 { "all".to_owned() } else { net(low, bits).to_string() };
                    format!("{word} {who};")
                })
                .collect();
            let site = Site::location(&text);
            for low in asked {
                let ip = IpAddr::from(Ipv4Addr::new(10, 0, 0, low));
                let holds = |&&(_, low, bits, all): &&(bool, u8, u8, u8)| all == 0 || net(low, bits).contains(&ip);
                let expected = rules.iter().find(holds).map_or('?', |rule| if rule.0 { '+' } else { '-' });
                prop_assert_eq!(verdict(&site, Peer::Inet((ip, 1).into())), expected, "{} {}", text, ip);
            }
        }
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
