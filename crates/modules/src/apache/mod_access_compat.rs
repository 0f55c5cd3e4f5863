//! Allows and denies access in `.htaccess` files in the words of Apache 2.2: `Order`, `Allow`, `Deny`.
//!
//! Names of hosts are not looked up: a directive with one is a mistake, and the directory answers 500.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! <Files "*.bak">
//! Order allow,deny
//! Deny from all
//! </Files>
//! ```
//!
//! ```file html/b.bak
//! b
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ---
//! GET /b.bak HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::apache::mod_authz_core::requirement::REQUIRE;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::place::Place;
use crate::shared::apache::{environment, in_directory, refusing, values, variables, wrong};
use crate::shared::networks::in_network;
use conf::value::{choice, subnet};
use conf::{Arity, Diagnostic, Node};
use contract::{
    Args, Budget, Directive, Event, Exchange, Handler, Loading, Methods, Module, Phase, ScopeBuilder, Step,
    View,
};
use http::Status;
use ipnet::IpNet;
use journal::Level;
use std::sync::Arc;

/// Access as Apache 2.2 wrote it.
pub static MODULE: Module = Module {
    name: "mod_access_compat",
    directives: &[&ORDER, &ALLOW, &DENY, &SATISFY],
    variables: &[],
    compile: Some(compile),
};

/// `Order allow,deny | deny,allow | mutual-failure`
pub(crate) static ORDER: Directive<Limited> = in_directory(Directive::new("Order", parse_order))
    .args(Arity::Exactly(1))
    .slot("htaccess order")
    .help("Whether `Allow` or `Deny` counts last, and the default for other clients.");

/// `Allow from WHO …`
pub(crate) static ALLOW: Directive<Limited> = in_directory(Directive::new("Allow", parse_allow))
    .args(Arity::AtLeast(2))
    .slot("htaccess order")
    .help("Allows all, addresses, networks, or requests with a variable of the environment.");

/// `Deny from WHO …`
pub(crate) static DENY: Directive<Limited> = in_directory(Directive::new("Deny", |args, loading| {
    Ok(limited(args, loading, Line::Deny(parse_who(args)?)))
}))
.args(Arity::AtLeast(2))
.slot("htaccess order")
.help("Denies all, addresses, networks, or requests with a variable of the environment.");

/// `Satisfy All | Any`
pub(crate) static SATISFY: Directive<Satisfying> = in_directory(Directive::new("Satisfy", parse_satisfy))
    .args(Arity::Exactly(1))
    .help("Whether `Allow` and `Deny` and `Require` must all let a client pass (`All`), or one is enough (`Any`).");

/// A directive, the methods that it counts for (none for all), and where it stands.
pub(crate) type Limited = (Option<Arc<Methods>>, Line, Arc<Place>);

/// The methods that a `Satisfy` counts for, none for all, and whether it is `Any`.
pub(crate) type Satisfying = (Option<Arc<Methods>>, bool);

/// One directive.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// `Order`: whether `Allow` counts last, so that others get in.
    Order(bool),
    /// `Allow`
    Allow(Vec<Who>),
    /// `Deny`
    Deny(Vec<Who>),
}

/// Whom a rule names.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// All clients.
    All,
    /// Clients of a network.
    Network(IpNet),
    /// Requests with a variable, or without.
    Variable(Box<[u8]>, bool),
}

fn limited(args: &Args<'_>, loading: &Loading, line: Line) -> Limited {
    (loading.htaccess.methods.clone(), line, Arc::new(Place::new(args, loading)))
}

fn parse_order(args: &Args<'_>, loading: &mut Loading) -> Result<Limited, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"deny,allow" => Ok(limited(args, loading, Line::Order(true))),
        b"allow,deny" | b"mutual-failure" => Ok(limited(args, loading, Line::Order(false))),
        _ => Err(wrong(args, "an unknown order", word)),
    }
}

fn parse_satisfy(args: &Args<'_>, loading: &mut Loading) -> Result<Satisfying, Diagnostic> {
    let is_any = args.value(0, |word| choice(word, &[("all", false), ("any", true)]))?;
    Ok((loading.htaccess.methods.clone(), is_any))
}

/// Apache takes `*` for the name of a host, which no client has. `Deny` with it is an error: it was meant to deny all.
fn parse_allow(args: &Args<'_>, loading: &mut Loading) -> Result<Limited, Diagnostic> {
    let Some(star) = args.words().iter().skip(1).find(|word| word.is("*")) else {
        return Ok(limited(args, loading, Line::Allow(parse_who(args)?)));
    };
    let message = "\"Allow from *\" lets no client in, as in Apache: \"*\" is not the name of a host";
    let note = Diagnostic::warn(message).at(args.node.span).under(star.span);
    loading.note(note.hint("to let all clients in, write \"Allow from all\""));
    let others = args.words().iter().filter(|word| !word.is("*")).cloned().collect();
    let node = Node { args: others, ..args.node.clone() };
    let who = if node.args.len() > 1 { parse_who(&Args { node: &node, ..*args })? } else { Vec::new() };
    Ok(limited(args, loading, Line::Allow(who)))
}

/// Names of hosts are not looked up; an unknown word is an error, so all requests are denied.
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

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(rules) = Rules::of(view) {
        // As with `Require`: `satisfy any` must not override it, and it counts for subrequests, too.
        builder.handle(Phase::Preaccess, rules);
    }
    Ok(())
}

/// The rules that let a client pass without meeting requirements, for the methods with `Satisfy Any`.
pub(crate) fn alternative(view: &View<'_>) -> Option<Rules> {
    let satisfy = Satisfy::of(view);
    (!satisfy.0.is_empty()).then(|| Rules::of(view).unwrap_or(Rules { satisfy, ..Rules::default() }))
}

/// For which methods the rules or the requirements are enough: each `Satisfy`. It is empty if both have to let a client pass, or if there are no requirements.
#[derive(Default)]
struct Satisfy(Vec<Satisfying>);

impl Satisfy {
    fn of(view: &View<'_>) -> Satisfy {
        let Some(level) = nearest(view) else { return Satisfy::default() };
        let written: Vec<_> = level.here(&SATISFY).into_iter().map(|written| written.value.clone()).collect();
        let counts = written.iter().any(|(_, is_any)| *is_any) && !values(view, &REQUIRE).is_empty();
        Satisfy(if counts { written } else { Vec::new() })
    }

    /// Whether one of both is enough for the method of a request.
    fn is_any(&self, exchange: &Exchange) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let method = variables::method(exchange);
        let counts = |(methods, _): &&Satisfying| methods.as_ref().is_none_or(|methods| methods.has(method));
        self.0.iter().rfind(counts).is_some_and(|(_, is_any)| *is_any)
    }
}

/// The innermost level that has one of these directives. As in Apache none of an outer level counts then.
fn nearest<'v>(view: &View<'v>) -> Option<View<'v>> {
    view.levels().find(|level| !level.here(&ORDER).is_empty() || !level.here(&SATISFY).is_empty())
}

/// The rules of a level. Without any, all clients pass.
#[derive(Default)]
pub(crate) struct Rules {
    lines: Vec<Limited>,
    satisfy: Satisfy,
    /// What an answer costs of a [`Budget`].
    units: u32,
}

impl Handler for Rules {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if self.satisfy.is_any(exchange) {
            // The handler of the requirements asks these rules.
            return Step::Next;
        }
        if let Err(spent) = exchange.budget().spend(self.units) {
            return Failure::from(spent).refuse(exchange);
        }
        if self.passes(exchange) || refusing::is_let_in(exchange) {
            return Step::Next;
        }
        self.tell(exchange);
        exchange.log(Level::Error, "access forbidden by rule of a .htaccess file");
        refusing::refuse(exchange, Status::FORBIDDEN)
    }
}

impl Rules {
    fn of(view: &View<'_>) -> Option<Rules> {
        let written = nearest(view)?.here(&ORDER);
        let lines: Vec<Limited> = written.into_iter().map(|line| line.value.clone()).collect();
        let units = |(_, line, _): &Limited| match line {
            Line::Order(_) => 1,
            Line::Allow(who) | Line::Deny(who) => who.iter().map(Who::units).fold(1, u32::saturating_add),
        };
        let units = lines.iter().map(units).fold(0, u32::saturating_add);
        (!lines.is_empty()).then(|| Rules { lines, satisfy: Satisfy::of(view), units })
    }

    /// What an answer costs of a [`Budget`].
    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Whether `Satisfy Any` counts, and the rules let a client pass.
    pub(crate) fn are_enough(&self, exchange: &Exchange) -> bool {
        self.satisfy.is_any(exchange) && self.passes(exchange)
    }

    /// Whether the rules let a client pass.
    fn passes(&self, exchange: &Exchange) -> bool {
        let (mut allow_last, mut allowed, mut denied) = (true, false, false);
        for (line, _) in self.lines_for(exchange) {
            match line {
                Line::Order(last) => allow_last = *last,
                Line::Allow(who) => allowed |= who.iter().any(|who| who.holds(exchange)),
                Line::Deny(who) => denied |= who.iter().any(|who| who.holds(exchange)),
            }
        }
        if allow_last { allowed || !denied } else { allowed && !denied }
    }

    /// The lines that count for the method of a request.
    fn lines_for<'r>(&'r self, exchange: &Exchange) -> impl Iterator<Item = (&'r Line, &'r Place)> {
        let method = variables::method(exchange);
        let counts = |(methods, ..): &&Limited| methods.as_ref().is_none_or(|methods| methods.has(method));
        self.lines.iter().filter(counts).map(|(_, line, place)| (line, &**place))
    }

    /// Names the line by which a client does not pass: a `Deny` that names it, or else the `Order`.
    fn tell(&self, exchange: &Exchange) {
        exchange.tell(|| {
            let (mut deny, mut order) = (None, None);
            for (line, place) in self.lines_for(exchange) {
                match line {
                    Line::Deny(who) if who.iter().any(|who| who.holds(exchange)) => deny = Some(place),
                    Line::Order(_) => order = Some(place),
                    _ => {}
                }
            }
            match (deny, order) {
                (Some(place), _) => place.event("deny", "the line names the client".to_owned()),
                (None, Some(place)) => {
                    place.event("order", "the line lets in only clients that \"Allow\" names".to_owned())
                }
                // Without an `Order`, only a `Deny` refuses.
                (None, None) => Event::new("deny", "the client is refused"),
            }
        });
    }
}

impl Who {
    /// How much work its verdict is: a variable is looked for among all of them.
    fn units(&self) -> u32 {
        if let Who::Variable(..) = self { Budget::STEP } else { 1 }
    }

    fn holds(&self, exchange: &Exchange) -> bool {
        match self {
            Who::All => true,
            Who::Network(net) => in_network(exchange, net),
            Who::Variable(name, set) => environment::get(exchange, name).is_some() == *set,
        }
    }
}
