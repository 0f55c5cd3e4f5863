//! Allows and denies access in `.htaccess` files: `Require`, alone or in `<RequireAll>`, `<RequireAny>` and
//! `<RequireNone>`.
//!
//! Outside of a section, a request needs to meet one `Require`.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/private/a.txt
//! secret
//! ```
//!
//! ```file html/private/.htaccess
//! <RequireAll>
//! Require all granted
//! Require not local
//! </RequireAll>
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
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

pub(crate) mod requirement;

use crate::apache::mod_access_compat::{self, Rules};
use crate::apache::mod_auth_basic::{Basic, Proof};
use crate::apache::mod_auth_digest;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::variables::User;
use crate::shared::apache::{in_directory, last, refusing, variables};
use conf::value::{choice, flag};
use conf::{Arity, Diagnostic};
use contract::{Directive, Exchange, Handler, Module, Outcome, Phase, Reach, ScopeBuilder, Step, View};
use http::Status;
use journal::Level;
use requirement::{Asker, Kind, REQUIRE, Requirement, Verdict, group};
use std::rc::Rc;

/// Access rules.
pub static MODULE: Module = Module {
    name: "mod_authz_core",
    directives: &[&REQUIRE, &REQUIRE_ALL, &REQUIRE_ANY, &REQUIRE_NONE, &AUTH_MERGING, &SEND_FORBIDDEN],
    variables: &[],
    compile: Some(compile),
};

/// `<RequireAll>`
pub(crate) static REQUIRE_ALL: Directive<Requirement> =
    section(Directive::new("RequireAll", |args, loading| group(args, Kind::All, loading)))
        .help("Requirements of which none may fail.");

/// `<RequireAny>`
pub(crate) static REQUIRE_ANY: Directive<Requirement> =
    section(Directive::new("RequireAny", |args, loading| group(args, Kind::Any, loading)))
        .help("Requirements of which one is enough.");

/// `<RequireNone>`
pub(crate) static REQUIRE_NONE: Directive<Requirement> =
    section(Directive::new(
        "RequireNone",
        |args, _| Err(args.error("has no effect outside of <RequireAll>")),
    ))
    .help("Requirements of which none may be met.");

/// `AuthMerging Off | And | Or`
pub(crate) static AUTH_MERGING: Directive<Merging> =
    in_directory(Directive::new("AuthMerging", |args, _| {
        let table = [("off", Merging::Off), ("and", Merging::And), ("or", Merging::Or)];
        args.value(0, |word| choice(word, &table))
    }))
    .args(Arity::Exactly(1))
    .help("Whether the requirements of outer directories count besides those of this one.");

/// `AuthzSendForbiddenOnFailure On | Off`
pub(crate) static SEND_FORBIDDEN: Directive<bool> =
    in_directory(Directive::new("AuthzSendForbiddenOnFailure", |args, _| args.value(0, flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether a user who does not meet the requirements gets 403 and no second question.");

/// How the requirements of a level and those around it count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// Only those of the level count.
    Off,
    And,
    Or,
}

const fn section(directive: Directive<Requirement>) -> Directive<Requirement> {
    in_directory(directive).block(Arity::None).slot("htaccess require")
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(rules) = merged(view) {
        let (is_open, needs_groups) = (rules.grant_all(), rules.has(Requirement::is_about_groups));
        let alternative = mod_access_compat::alternative(view);
        let units = rules.units().saturating_add(alternative.as_ref().map_or(0, Rules::units));
        let sends_forbidden = last(view, &SEND_FORBIDDEN).unwrap_or(false);
        let basic = Basic::of(view);
        if !is_open && rules.has(Requirement::is_about_users) {
            builder.notes.extend(basic.as_ref().and_then(|basic| basic.doubt(view, &builder.policy.root)));
        }
        // Not in the access phase: `satisfy any` must not override it, and it counts for subrequests, too.
        builder.handle(
            Phase::Preaccess,
            Required { rules, is_open, units, basic, needs_groups, sends_forbidden, alternative },
        );
    }
    Ok(())
}

/// The requirements that count for a level. Those of an inner level take the place of the outer ones, unless
/// `AuthMerging` of the same level joins them. As in Apache, `AuthMerging Off` without a requirement takes the outer ones
/// away.
fn merged(view: &View<'_>) -> Option<Merged> {
    let mut levels: Vec<_> = view.levels().collect();
    levels.reverse();
    let mut rules = None;
    for level in levels {
        let merging = level.here(&AUTH_MERGING).last().map(|written| *written.value);
        let list: Vec<_> = level.here(&REQUIRE).into_iter().map(|written| written.value.clone()).collect();
        if list.is_empty() {
            rules = rules.filter(|_| merging != Some(Merging::Off));
            continue;
        }
        let here = Merged::One(list);
        rules = Some(match (merging, rules) {
            (Some(Merging::And), Some(outer)) => Merged::Both(Kind::All, Box::new([outer, here])),
            (Some(Merging::Or), Some(outer)) => Merged::Both(Kind::Any, Box::new([outer, here])),
            _ => here,
        });
    }
    rules
}

/// Requirements of one level or of several.
enum Merged {
    /// One of these has to hold, of those that count for the method.
    One(Vec<Requirement>),
    Both(Kind, Box<[Merged; 2]>),
}

impl Merged {
    /// The verdict of the requirements that count for the method, if any does.
    fn judge(&self, asker: &Asker<'_>) -> Option<Verdict> {
        match self {
            Merged::One(list) => {
                let method = variables::method(asker.exchange);
                let mut counting = list.iter().filter(|requirement| requirement.counts(method)).peekable();
                counting.peek()?;
                Some(Kind::Any.judge(counting.map(|requirement| requirement.verdict(asker))))
            }
            Merged::Both(kind, both) => {
                let verdicts: Vec<_> = both.iter().filter_map(|rules| rules.judge(asker)).collect();
                (!verdicts.is_empty()).then(|| kind.judge(verdicts.into_iter()))
            }
        }
    }

    /// Names the requirements that count for the method.
    fn tell(&self, asker: &Asker<'_>) {
        match self {
            Merged::One(list) => {
                let method = variables::method(asker.exchange);
                let counting = list.iter().filter(|requirement| requirement.counts(method));
                counting.for_each(|requirement| requirement.tell(asker));
            }
            Merged::Both(_, both) => both.iter().for_each(|rules| rules.tell(asker)),
        }
    }

    /// Whether every request is granted.
    fn grant_all(&self) -> bool {
        match self {
            Merged::One(list) => list.iter().any(Requirement::is_always_met),
            Merged::Both(Kind::All, both) => both.iter().all(Merged::grant_all),
            Merged::Both(_, both) => both.iter().any(Merged::grant_all),
        }
    }

    fn units(&self) -> u32 {
        match self {
            Merged::One(list) => list.iter().map(Requirement::units).fold(1, u32::saturating_add),
            Merged::Both(_, both) => both.iter().map(Merged::units).fold(1, u32::saturating_add),
        }
    }

    fn has(&self, is_such: fn(&Requirement) -> bool) -> bool {
        match self {
            Merged::One(list) => list.iter().any(is_such),
            Merged::Both(_, both) => both.iter().any(|rules| rules.has(is_such)),
        }
    }
}

struct Required {
    rules: Merged,
    /// Whether they grant every request.
    is_open: bool,
    /// What an answer costs of a [`Budget`].
    units: u32,
    /// How users prove who they are.
    basic: Option<Basic>,
    needs_groups: bool,
    /// Whether a user who does not meet the requirements gets 403.
    sends_forbidden: bool,
    /// With `Satisfy Any`: the rules that let clients pass, too.
    alternative: Option<Rules>,
}

impl Handler for Required {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if self.is_open {
            refusing::pass(exchange);
            return Step::Next;
        }
        if let Err(spent) = exchange.budget().spend(self.units) {
            return Failure::from(spent).refuse(exchange);
        }
        let has_alternative = self.alternative.as_ref().is_some_and(|rules| rules.are_enough(exchange));
        if has_alternative || refusing::is_let_in(exchange) {
            return Step::Next;
        }
        let asker = Asker { exchange, user: None };
        let verdict = self.rules.judge(&asker);
        if !matches!(verdict, None | Some(Verdict::Granted)) {
            self.rules.tell(&asker);
        }
        match verdict {
            None | Some(Verdict::Granted) => Step::Next,
            Some(Verdict::NeedsUser) => match &self.basic {
                Some(basic) => {
                    let proof = basic.start(exchange, self.needs_groups);
                    let step = self.act(exchange, basic, proof);
                    refusing::noted(exchange, step)
                }
                None => {
                    exchange
                        .log(Level::Error, "a .htaccess file requires a user, without \"AuthType Basic\"");
                    Step::Finish(Status::INTERNAL_SERVER_ERROR)
                }
            },
            Some(Verdict::Denied | Verdict::Neutral) => {
                exchange.log(Level::Error, "access forbidden by a requirement of a .htaccess file");
                refusing::refuse(exchange, Status::FORBIDDEN)
            }
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Some(basic) = &self.basic else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        let proof = basic.go_on(exchange, outcome, self.needs_groups);
        let step = self.act(exchange, basic, proof);
        refusing::noted(exchange, step)
    }
}

impl Required {
    /// Goes on if the user meets the requirements, and asks for another user if not.
    fn act(&self, exchange: &mut Exchange, basic: &Basic, proof: Proof) -> Step {
        let (user, groups) = match proof {
            Proof::User(user, groups) => (user, groups),
            Proof::Step(step) => return step,
        };
        exchange.attach(Reach::Own, Rc::new(User { name: user.clone(), kind: basic.kind() }));
        let verdict = self.rules.judge(&Asker { exchange, user: Some((&user, &groups)) });
        if verdict == Some(Verdict::Granted) {
            mod_auth_digest::confirm(exchange);
            return Step::Next;
        }
        self.rules.tell(&Asker { exchange, user: Some((&user, &groups)) });
        let user = String::from_utf8_lossy(&user);
        exchange.log(
            Level::Error,
            &format!("user \"{user}\" does not meet the requirements of a .htaccess file"),
        );
        match self.sends_forbidden && verdict != Some(Verdict::NeedsUser) {
            true => refusing::refuse(exchange, Status::FORBIDDEN),
            false => basic.challenge(exchange),
        }
    }
}
