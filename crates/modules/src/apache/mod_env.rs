//! Sets and removes variables of the environment in `.htaccess` files.
//!
//! The variables are set after access is checked and paths are rewritten. Programs behind `fastcgi_pass` get them.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! SetEnv STAGE production
//! Header set X-Stage %{STAGE}e
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
//! X-Stage: production
//!
//! a
//! ```

use crate::shared::apache::bounded::Failure;
use crate::shared::apache::environment::{of, warn_if_reserved};
use crate::shared::apache::{in_all_files, values};
use conf::{Arity, Diagnostic};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Step, View,
};
use std::sync::Arc;

/// Variables of the environment.
pub static MODULE: Module =
    Module { name: "mod_env", directives: &[&SET_ENV, &UNSET_ENV], variables: &[], compile: Some(compile) };

/// `SetEnv NAME [VALUE]`
pub(crate) static SET_ENV: Directive<Setting> = in_all_files(Directive::new("SetEnv", parse_set))
    .args(Arity::Range(1, 2))
    .slot("SetEnv")
    .help("Sets a variable of the environment, after rewriting.");

/// `UnsetEnv NAME …`
pub(crate) static UNSET_ENV: Directive<Setting> = in_all_files(Directive::new("UnsetEnv", parse_unset))
    .args(Arity::AtLeast(1))
    .slot("SetEnv")
    .help("Takes variables out of the environment, after rewriting.");

/// One directive.
#[derive(Clone, Debug)]
pub(crate) enum Setting {
    /// `SetEnv`
    Set(Box<[u8]>, Box<[u8]>),
    /// `UnsetEnv`
    Unset(Vec<Box<[u8]>>),
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let settings = settings(view);
    if !settings.is_empty() {
        builder.handle(Phase::Precontent, Late { settings });
    }
    Ok(())
}

/// What is set after rewriting.
pub(crate) fn settings(view: &View<'_>) -> Arc<[Setting]> {
    values(view, &SET_ENV).into()
}

fn parse_set(args: &Args<'_>, loading: &mut Loading) -> Result<Setting, Diagnostic> {
    let name = args.word(0)?.text.clone();
    let value = args.words().get(1).map(|word| word.text.clone()).unwrap_or_default();
    warn_if_reserved(args, &name, &value, loading);
    Ok(Setting::Set(name, value))
}

fn parse_unset(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    Ok(Setting::Unset(args.words().iter().map(|word| word.text.clone()).collect()))
}

struct Late {
    settings: Arc<[Setting]>,
}

impl Handler for Late {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let budget = Budget::of(exchange);
        let _running = budget.run();
        match apply(exchange, &self.settings, &budget) {
            Ok(()) => Step::Next,
            Err(failure) => failure.refuse(exchange),
        }
    }
}

/// Sets what `SetEnv` and `UnsetEnv` say.
pub(crate) fn apply(exchange: &Exchange, settings: &[Setting], budget: &Budget) -> Result<(), Failure> {
    let environment = of(exchange);
    for setting in settings {
        budget.step(0)?;
        match setting {
            Setting::Set(name, value) => environment.set(name, value)?,
            Setting::Unset(names) => names.iter().for_each(|name| environment.unset(name)),
        }
    }
    Ok(())
}
