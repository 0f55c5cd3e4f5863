//! Says in `.htaccess` files who may: `Require`, alone or in `<RequireAll>`, `<RequireAny>` and `<RequireNone>`.
//!
//! Outside of a section one requirement that holds is enough.
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

mod requirement;

use crate::apache::mod_access_compat::{self, Rules};
use crate::apache::mod_auth_basic::{Basic, Proof};
use crate::apache::mod_auth_digest;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::variables::User;
use crate::shared::apache::{in_file, refusing, values};
use conf::{Arity, Diagnostic};
use contract::{Budget, Directive, Exchange, Handler, Module, Outcome, Phase, ScopeBuilder, Step, View};
use http::Status;
use journal::Level;
use requirement::{Asker, Kind, Requirement, Verdict, alone, group};

/// Who may.
pub static MODULE: Module = Module {
    name: "mod_authz_core",
    directives: &[&REQUIRE, &REQUIRE_ALL, &REQUIRE_ANY, &REQUIRE_NONE],
    variables: &[],
    compile: Some(compile),
};

/// `Require [not] WHAT …`
pub(crate) static REQUIRE: Directive<Requirement> = in_file(Directive::new("Require", alone))
    .args(Arity::AtLeast(1))
    .slot("htaccess require")
    .help("Who may: all granted, all denied, ip, local, env, method, expr, valid-user, user or group.");

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
    .help("Requirements of which none may hold.");

const fn section(directive: Directive<Requirement>) -> Directive<Requirement> {
    in_file(directive).block(Arity::None).slot("htaccess require")
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let list = values(view, &REQUIRE);
    if !list.is_empty() {
        let units = list.iter().map(Requirement::units).fold(1, u32::saturating_add);
        let needs_groups = list.iter().any(Requirement::is_about_groups);
        let alternative = mod_access_compat::alternative(view);
        let units = units.saturating_add(alternative.as_ref().map_or(0, Rules::units));
        // Not in the access phase: `satisfy any` must not override it, and it counts for subrequests, too.
        builder.handle(
            Phase::Preaccess,
            Required { list, units, basic: Basic::of(view), needs_groups, alternative },
        );
    }
    Ok(())
}

struct Required {
    /// One of these has to hold, of those that count for the method.
    list: Vec<Requirement>,
    /// What an answer costs of a [`Budget`].
    units: u32,
    /// How users prove who they are.
    basic: Option<Basic>,
    needs_groups: bool,
    /// With `Satisfy Any`: the rules that let clients pass, too.
    alternative: Option<Rules>,
}

impl Handler for Required {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if let Err(spent) = Budget::of(exchange).spend(self.units) {
            return Failure::from(spent).refuse(exchange);
        }
        let has_alternative = self.alternative.as_ref().is_some_and(|rules| rules.passes(exchange));
        if has_alternative || refusing::is_document(exchange) {
            return Step::Next;
        }
        match self.judge(&Asker { exchange, user: None }) {
            None | Some(Verdict::Granted) => Step::Next,
            Some(Verdict::NeedsUser) => match &self.basic {
                Some(basic) => {
                    let proof = basic.start(exchange, self.needs_groups);
                    self.act(exchange, basic, proof)
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
        self.act(exchange, basic, proof)
    }
}

impl Required {
    /// The verdict of the requirements that count for the method, if any does.
    fn judge(&self, asker: &Asker<'_>) -> Option<Verdict> {
        let method = asker.exchange.request.head.method_name();
        let mut counting = self.list.iter().filter(|requirement| requirement.counts(method)).peekable();
        counting.peek()?;
        Some(Kind::Any.judge(counting.map(|requirement| requirement.verdict(asker))))
    }

    /// Goes on if the user meets the requirements, and asks for another user if not.
    fn act(&self, exchange: &mut Exchange, basic: &Basic, proof: Proof) -> Step {
        let (user, groups) = match proof {
            Proof::User(user, groups) => (user, groups),
            Proof::Step(step) => return step,
        };
        if self.judge(&Asker { exchange, user: Some((&user, &groups)) }) == Some(Verdict::Granted) {
            mod_auth_digest::confirm(exchange);
            exchange.attach_own(User { name: user, kind: basic.kind() });
            return Step::Next;
        }
        let user = String::from_utf8_lossy(&user);
        exchange.log(
            Level::Error,
            &format!("user \"{user}\" does not meet the requirements of a .htaccess file"),
        );
        basic.challenge(exchange)
    }
}
