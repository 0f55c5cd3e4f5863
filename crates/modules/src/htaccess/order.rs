//! Access as Apache 2.2 wrote it: `Order`, `Allow from`, `Deny from`.

use super::{environment, in_file, wrong};
use conf::value::subnet;
use conf::{Arity, Diagnostic};
use contract::log::Level;
use contract::{Args, Directive, Exchange, Handler, Loading, Peer, Phase, ScopeBuilder, Step, View};
use http::Status;
use ipnet::IpNet;

/// `Order allow,deny | deny,allow | mutual-failure`
pub(super) static ORDER: Directive<Line> = in_file(Directive::new("Order", parse_order))
    .args(Arity::Exactly(1))
    .slot("htaccess order")
    .help("Which of `Allow` and `Deny` counts last, and what becomes of those that neither names.");

/// `Allow from WHO …`
pub(super) static ALLOW: Directive<Line> =
    in_file(Directive::new("Allow", |args, _| Ok(Line::Allow(parse_who(args)?))))
        .args(Arity::AtLeast(2))
        .slot("htaccess order")
        .help("Lets in all, addresses, networks, or requests with a variable of the environment.");

/// `Deny from WHO …`
pub(super) static DENY: Directive<Line> =
    in_file(Directive::new("Deny", |args, _| Ok(Line::Deny(parse_who(args)?))))
        .args(Arity::AtLeast(2))
        .slot("htaccess order")
        .help("Keeps out all, addresses, networks, or requests with a variable of the environment.");

/// `Satisfy All`
pub(super) static SATISFY: Directive<()> = in_file(Directive::new("Satisfy", parse_satisfy))
    .args(Arity::Exactly(1))
    .help("`All`, which is how it is anyway.");

/// One directive.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// `Order`: whether `Allow` counts last, so that others get in.
    Order(bool),
    /// `Allow`
    Allow(Vec<Who>),
    /// `Deny`
    Deny(Vec<Who>),
}

/// Whom a rule names.
#[derive(Clone, Debug)]
pub(super) enum Who {
    /// Everybody.
    All,
    /// Clients of a network.
    Network(IpNet),
    /// Requests with a variable, or without.
    Variable(Box<[u8]>, bool),
}

fn parse_order(args: &Args<'_>, _: &mut Loading) -> Result<Line, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"deny,allow" => Ok(Line::Order(true)),
        b"allow,deny" | b"mutual-failure" => Ok(Line::Order(false)),
        _ => Err(wrong(args, "an unknown order", word)),
    }
}

fn parse_satisfy(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    let word = args.word(0)?;
    if word.text.eq_ignore_ascii_case(b"all") {
        Ok(())
    } else {
        Err(wrong(args, "an unsupported value", word))
    }
}

/// Names of hosts are not looked up; what is not understood is an error, so that nobody passes.
fn parse_who(args: &Args<'_>) -> Result<Vec<Who>, Diagnostic> {
    let (Some(from), names) = (args.words().first(), args.words().get(1..).unwrap_or_default()) else {
        return Err(args.error("has no \"from\""));
    };
    if !from.text.eq_ignore_ascii_case(b"from") {
        return Err(args.error("has no \"from\""));
    }
    let who = |word: &conf::Word| {
        let text = word.text.to_ascii_lowercase();
        match text.strip_prefix(b"env=") {
            Some(_) => Ok(match word.text[4..].strip_prefix(b"!") {
                Some(name) => Who::Variable(name.into(), false),
                None => Who::Variable(word.text[4..].into(), true),
            }),
            None if text == b"all" => Ok(Who::All),
            None => match subnet(word) {
                Ok(net) => Ok(Who::Network(net)),
                Err(_) => Err(wrong(args, "neither an address nor a network:", word)),
            },
        }
    };
    names.iter().map(who).collect()
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let lines: Vec<Line> = view.all(&ORDER).into_iter().map(|written| written.value.clone()).collect();
    if lines.is_empty() {
        return;
    }
    let mut rules = Rules { allow_last: true, allow: Vec::new(), deny: Vec::new() };
    for line in lines {
        match line {
            Line::Order(allow_last) => rules.allow_last = allow_last,
            Line::Allow(who) => rules.allow.extend(who),
            Line::Deny(who) => rules.deny.extend(who),
        }
    }
    builder.handle(Phase::Access, rules);
}

struct Rules {
    allow_last: bool,
    allow: Vec<Who>,
    deny: Vec<Who>,
}

impl Handler for Rules {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let named = |list: &[Who]| list.iter().any(|who| who.holds(exchange));
        let passes = match self.allow_last {
            true => named(&self.allow) || !named(&self.deny),
            false => named(&self.allow) && !named(&self.deny),
        };
        if passes {
            return Step::Next;
        }
        exchange.log(Level::Error, "access forbidden by rule of a .htaccess file");
        Step::Finish(Status::FORBIDDEN)
    }
}

impl Who {
    fn holds(&self, exchange: &Exchange) -> bool {
        match self {
            Who::All => true,
            Who::Network(net) => in_network(exchange, net),
            Who::Variable(name, set) => environment::get(exchange, name).is_some() == *set,
        }
    }
}

/// Whether the client's address is in a network.
pub(super) fn in_network(exchange: &Exchange, net: &IpNet) -> bool {
    match &exchange.connection.peer {
        Peer::Inet(address) => net.contains(&address.ip().to_canonical()),
        Peer::Unix(_) => false,
    }
}
