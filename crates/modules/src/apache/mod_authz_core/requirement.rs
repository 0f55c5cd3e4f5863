//! One requirement, and whether a request meets it.

use crate::shared::apache::expression::Expression;
use crate::shared::apache::methods::METHODS;
use crate::shared::apache::place::Place;
use crate::shared::apache::{environment, in_directory, variables, wrong};
use crate::shared::networks::in_network;
use conf::value::subnet;
use conf::{Arity, Diagnostic, Node, Word};
use contract::{Args, Budget, Directive, Exchange, Loading, Methods, Peer};
use ipnet::IpNet;
use std::sync::Arc;

/// `Require [not] WHAT …`
pub(crate) static REQUIRE: Directive<Requirement> = in_directory(Directive::new("Require", alone))
    .args(Arity::AtLeast(1))
    .slot("htaccess require")
    .help("The clients that are allowed: all granted, all denied, ip, local, env, method, expr, valid-user, user or group.");

/// What is required.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// The methods that it counts for; none for all.
    methods: Option<Arc<Methods>>,
    negated: bool,
    what: What,
    /// The line of the file; none for a requirement inside of a section.
    place: Option<Arc<Place>>,
}

#[derive(Clone, Debug)]
enum What {
    All(bool),
    Networks(Vec<IpNet>),
    Local,
    Variables(Vec<Box<[u8]>>),
    Methods(Vec<Box<[u8]>>),
    Expression(Arc<Expression>),
    ValidUser,
    Users(Vec<Box<[u8]>>),
    Groups(Vec<Box<[u8]>>),
    Group(Kind, Vec<Requirement>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    All,
    Any,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    Denied,
    Neutral,
    /// It depends on who the user is, which is not known yet.
    NeedsUser,
}

/// The request that has to meet requirements.
pub(super) struct Asker<'a> {
    pub(super) exchange: &'a Exchange,
    /// The user, whose password was right, and its groups.
    pub(super) user: Option<(&'a [u8], &'a [Vec<u8>])>,
}

/// Outside of sections one requirement is enough, so that what is not required has no effect.
pub(super) fn alone(args: &Args<'_>, loading: &mut Loading) -> Result<Requirement, Diagnostic> {
    let requirement = one(args, loading)?;
    if requirement.negated {
        return Err(args.error("has no effect with \"not\" outside of <RequireAll>"));
    }
    let place = Some(Arc::new(Place::new(args, loading)));
    Ok(Requirement { methods: loading.htaccess.methods.clone(), place, ..requirement })
}

fn one(args: &Args<'_>, loading: &mut Loading) -> Result<Requirement, Diagnostic> {
    let (negated, words) = match args.words() {
        [first, rest @ ..] if first.text.eq_ignore_ascii_case(b"not") => (true, rest),
        words => (false, words),
    };
    let Some((kind, rest)) = words.split_first() else { return Err(args.error("requires nothing")) };
    let texts = || rest.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
    let what = match (kind.text.to_ascii_lowercase().as_slice(), rest) {
        (b"all", [word]) if word.text.eq_ignore_ascii_case(b"granted") => What::All(true),
        (b"all", [word]) if word.text.eq_ignore_ascii_case(b"denied") => What::All(false),
        (b"ip", [_, ..]) => {
            What::Networks(rest.iter().map(|word| network(args, word)).collect::<Result<_, _>>()?)
        }
        (b"local", []) => What::Local,
        (b"env", [_, ..]) => What::Variables(texts()),
        (b"method", [_, ..]) => {
            What::Methods(rest.iter().map(|word| method(args, word)).collect::<Result<_, _>>()?)
        }
        (b"valid-user", _) => What::ValidUser,
        (b"user", [_, ..]) => What::Users(texts()),
        (b"group", [_, ..]) => What::Groups(texts()),
        (b"expr", [_, ..]) => What::Expression(Arc::new(Expression::parse(args, loading, rest)?)),
        (b"host" | b"forward-dns", _) => {
            let error = wrong(args, "a requirement that needs the resolver,", kind);
            return Err(error.hint("use addresses: \"Require ip\""));
        }
        _ => return Err(wrong(args, "a requirement that is not supported,", kind)),
    };
    Ok(Requirement { methods: None, negated, what, place: None })
}

fn network(args: &Args<'_>, word: &Word) -> Result<IpNet, Diagnostic> {
    subnet(word).map_err(|_| wrong(args, "neither an address nor a network:", word))
}

/// A method. Apache takes HEAD for GET, on both sides.
fn method(args: &Args<'_>, word: &Word) -> Result<Box<[u8]>, Diagnostic> {
    if !METHODS.iter().any(|name| word.is(name)) {
        return Err(wrong(args, "an unknown method", word));
    }
    Ok(as_get(&word.text).into())
}

fn has_method(names: &[Box<[u8]>], method: &[u8]) -> bool {
    names.iter().any(|name| **name == *as_get(method))
}

fn as_get(method: &[u8]) -> &[u8] {
    if method == b"HEAD" { b"GET" } else { method }
}

pub(super) fn group(args: &Args<'_>, kind: Kind, loading: &mut Loading) -> Result<Requirement, Diagnostic> {
    let inner = |node: &Node| inner(args, node, loading);
    let list = args.node.children().iter().map(inner).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() {
        return Err(args.error("holds no requirement"));
    }
    if kind != Kind::All && list.iter().any(Requirement::is_negative) {
        return Err(args.error("holds negations that have no effect there"));
    }
    let (methods, place) = (loading.htaccess.methods.clone(), Some(Arc::new(Place::new(args, loading))));
    Ok(Requirement { methods, negated: false, what: What::Group(kind, list), place })
}

fn inner(outer: &Args<'_>, node: &Node, loading: &mut Loading) -> Result<Requirement, Diagnostic> {
    let args = Args { node, ..*outer };
    let name = node.name.text.to_ascii_lowercase();
    match (name.as_slice(), &node.block) {
        (b"require", None) => one(&args, loading),
        (b"requireall", Some(_)) => group(&args, Kind::All, loading),
        (b"requireany", Some(_)) => group(&args, Kind::Any, loading),
        (b"requirenone", Some(_)) => group(&args, Kind::None, loading),
        _ => Err(args.error("cannot stand among requirements")),
    }
}

impl Requirement {
    /// Says where it stands, and whether it is met.
    pub(super) fn tell(&self, asker: &Asker<'_>) {
        let Some(place) = &self.place else { return };
        asker.exchange.tell(|| {
            let text = match self.verdict(asker) {
                Verdict::Granted => "the requirement is met",
                Verdict::NeedsUser => "the requirement needs a user",
                Verdict::Denied | Verdict::Neutral => "the requirement is not met",
            };
            place.event("require", text.to_owned())
        });
    }

    /// Whether it can only keep clients out.
    fn is_negative(&self) -> bool {
        self.negated || matches!(self.what, What::Group(Kind::None, _))
    }

    pub(super) fn counts(&self, method: &[u8]) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.has(method))
    }

    /// Whether every request meets it.
    pub(super) fn is_always_met(&self) -> bool {
        self.methods.is_none() && !self.negated && matches!(self.what, What::All(true))
    }

    /// How much work its verdict is: a variable is looked for among all of them.
    pub(super) fn units(&self) -> u32 {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        match &self.what {
            What::All(_) | What::Local | What::ValidUser => 1,
            What::Networks(list) => count(list.len()),
            What::Methods(list) | What::Users(list) | What::Groups(list) => count(list.len()),
            What::Variables(names) => count(names.len()).saturating_mul(Budget::STEP),
            What::Expression(_) => Budget::STEP,
            What::Group(_, list) => list.iter().map(Requirement::units).fold(1, u32::saturating_add),
        }
    }

    pub(super) fn is_about_groups(&self) -> bool {
        match &self.what {
            What::Groups(_) => true,
            What::Group(_, list) => list.iter().any(Requirement::is_about_groups),
            _ => false,
        }
    }

    pub(super) fn is_about_users(&self) -> bool {
        match &self.what {
            What::ValidUser | What::Users(_) | What::Groups(_) => true,
            What::Group(_, list) => list.iter().any(Requirement::is_about_users),
            _ => false,
        }
    }

    pub(super) fn verdict(&self, asker: &Asker<'_>) -> Verdict {
        let exchange = asker.exchange;
        let has = |names: &[Box<[u8]>], name: &[u8]| names.iter().any(|other| **other == *name);
        let verdict = match &self.what {
            What::ValidUser | What::Users(_) | What::Groups(_) if asker.user.is_none() => Verdict::NeedsUser,
            What::ValidUser => Verdict::Granted,
            What::Users(names) => of(asker.user.is_some_and(|(user, _)| has(names, user))),
            What::Groups(names) => {
                of(asker.user.is_some_and(|(_, groups)| groups.iter().any(|group| has(names, group))))
            }
            What::All(granted) => of(*granted),
            What::Networks(list) => of(list.iter().any(|net| in_network(exchange, net))),
            What::Local => of(is_local(exchange)),
            What::Variables(names) => of(names.iter().any(|name| environment::get(exchange, name).is_some())),
            What::Methods(names) => of(has_method(names, variables::method(exchange))),
            What::Expression(expression) => match expression.holds(exchange, &exchange.budget()) {
                Ok(false) if expression.names_user() => Verdict::NeedsUser,
                Ok(holds) => of(holds),
                // What takes too long denies, with "not", too.
                Err(_) => return Verdict::Denied,
            },
            What::Group(kind, list) => kind.judge(list.iter().map(|inner| inner.verdict(asker))),
        };
        match (self.negated, verdict) {
            (false, verdict) => verdict,
            (true, Verdict::Granted) => Verdict::Denied,
            (true, _) => Verdict::Neutral,
        }
    }
}

fn of(granted: bool) -> Verdict {
    if granted { Verdict::Granted } else { Verdict::Denied }
}

impl Kind {
    pub(super) fn judge(self, verdicts: impl Iterator<Item = Verdict>) -> Verdict {
        let (mut granted, mut denied, mut needs_user) = (false, false, false);
        // All of them are asked, so that a request costs the same whatever it gets.
        for verdict in verdicts {
            granted |= verdict == Verdict::Granted;
            denied |= verdict == Verdict::Denied;
            needs_user |= verdict == Verdict::NeedsUser;
        }
        match self {
            Kind::All if denied => Verdict::Denied,
            Kind::All if needs_user => Verdict::NeedsUser,
            Kind::All | Kind::Any if granted => Verdict::Granted,
            Kind::Any if needs_user => Verdict::NeedsUser,
            Kind::Any if denied => Verdict::Denied,
            Kind::None if granted => Verdict::Denied,
            _ => Verdict::Neutral,
        }
    }
}

/// Whether the client is on this machine, or has the address that it came to.
fn is_local(exchange: &Exchange) -> bool {
    let connection = &exchange.connection;
    match (&connection.peer, &connection.local) {
        (Peer::Inet(peer), Peer::Inet(local)) => {
            peer.ip().to_canonical().is_loopback() || peer.ip() == local.ip()
        }
        _ => true,
    }
}
