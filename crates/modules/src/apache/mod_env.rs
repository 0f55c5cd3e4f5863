//! Sets and removes variables of the environment in `.htaccess` files.
//!
//! The variables are set after access is checked and paths are rewritten. Programs behind `fastcgi_pass` get them.
//! At the same time `HTTPS` (`on`) and `SSL_TLS_SNI` are set over TLS, as mod_ssl does, and `HTTP2` (`on`) over HTTP/2.
//! `PassEnv` passes a variable of the server's environment if the configuration of the server names it in
//! [`env`](process.md): a site sees nothing else of that environment.
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

use crate::connection::process::{ENV, environment};
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::environment::{of, warn_if_reserved};
use crate::shared::apache::in_all_files;
use conf::{Arity, Diagnostic};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Step, View,
};
use http::Version;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Variables of the environment.
pub static MODULE: Module = Module {
    name: "mod_env",
    directives: &[&SET_ENV, &PASS_ENV, &UNSET_ENV],
    variables: &[],
    compile: Some(compile),
};

/// `SetEnv NAME [VALUE]`
pub(crate) static SET_ENV: Directive<Setting> = in_all_files(Directive::new("SetEnv", parse_set))
    .args(Arity::Range(1, 2))
    .slot("SetEnv")
    .help("Sets a variable of the environment, after rewriting.");

/// `PassEnv NAME …`
pub(crate) static PASS_ENV: Directive<Setting> = in_all_files(Directive::new("PassEnv", parse_pass))
    .args(Arity::AtLeast(1))
    .slot("SetEnv")
    .help("Passes variables of the server's environment, if `env` in the server's configuration names them.");

/// `UnsetEnv NAME …`
pub(crate) static UNSET_ENV: Directive<Setting> = in_all_files(Directive::new("UnsetEnv", parse_unset))
    .args(Arity::AtLeast(1))
    .slot("SetEnv")
    .help("Takes back variables that `SetEnv` and `PassEnv` set, also those of outer directories.");

/// A name and a value.
pub(crate) type Variable = (Box<[u8]>, Box<[u8]>);

/// One directive.
#[derive(Clone, Debug)]
pub(crate) enum Setting {
    /// `SetEnv`
    Set(Box<[u8]>, Box<[u8]>),
    /// `PassEnv`
    Pass(Vec<Box<[u8]>>),
    /// `UnsetEnv`
    Unset(Vec<Box<[u8]>>),
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let settings = settings(view);
    // What mod_ssl and mod_http2 set is there without any setting.
    if !settings.is_empty() || view.context().is_per_directory() {
        builder.handle(Phase::Precontent, Late { settings });
    }
    Ok(())
}

/// What is set after rewriting.
pub(crate) fn settings(view: &View<'_>) -> Arc<[Variable]> {
    let mut levels: Vec<_> = view.levels().map(|level| level.here(&SET_ENV)).collect();
    levels.reverse();
    let mut settings = Vec::new();
    for level in levels {
        let written: Vec<Setting> = level.into_iter().map(|setting| setting.value.clone()).collect();
        for setting in &written {
            match setting {
                Setting::Set(name, value) => settings.push((name.clone(), value.clone())),
                Setting::Pass(names) => settings.extend(passed(view, names)),
                Setting::Unset(_) => {}
            }
        }
        // As in Apache a variable that another directive sets stays, and all of a level's are set before.
        for setting in &written {
            if let Setting::Unset(names) = setting {
                settings.retain(|(name, _)| !names.iter().any(|unset| unset.eq_ignore_ascii_case(name)));
            }
        }
    }
    settings.into()
}

/// What the variables of these names are set to in the environment of the worker.
fn passed(view: &View<'_>, names: &[Box<[u8]>]) -> Vec<Variable> {
    let written: Vec<_> = view.all(&ENV).iter().map(|env| env.value.clone()).collect();
    let known = environment(&written, std::env::vars_os());
    let find = |name: &[u8]| known.iter().find(|(known, _)| known.as_bytes() == name);
    let set = |(name, value): &(OsString, OsString)| (name.as_bytes().into(), value.as_bytes().into());
    names.iter().filter_map(|name| find(name)).map(set).collect()
}

fn parse_set(args: &Args<'_>, loading: &mut Loading) -> Result<Setting, Diagnostic> {
    let name = args.word(0)?.text.clone();
    let value = args.words().get(1).map(|word| word.text.clone()).unwrap_or_default();
    warn_if_reserved(args, &name, &value, loading);
    Ok(Setting::Set(name, value))
}

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<Setting, Diagnostic> {
    let names: Vec<Box<[u8]>> = args.words().iter().map(|word| word.text.clone()).collect();
    names.iter().for_each(|name| warn_if_reserved(args, name, b"", loading));
    Ok(Setting::Pass(names))
}

fn parse_unset(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    Ok(Setting::Unset(args.words().iter().map(|word| word.text.clone()).collect()))
}

struct Late {
    settings: Arc<[Variable]>,
}

impl Handler for Late {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_plain = !exchange.connection.secure && exchange.request.head.version != Version::Http2;
        if self.settings.is_empty() && is_plain {
            return Step::Next;
        }
        let budget = exchange.budget();
        let _running = budget.run();
        match apply(exchange, &self.settings, &budget) {
            Ok(()) => Step::Next,
            Err(failure) => failure.refuse(exchange),
        }
    }
}

/// Sets what the connection and the settings say. As in Apache what `SetEnvIf` and rules have set stays.
pub(crate) fn apply(exchange: &Exchange, settings: &[Variable], budget: &Budget) -> Result<(), Failure> {
    describe_connection(exchange, budget)?;
    let environment = of(exchange);
    let is_new: Vec<bool> = settings.iter().map(|(name, _)| !environment.has(name)).collect();
    for ((name, value), _) in settings.iter().zip(is_new).filter(|(_, is_new)| *is_new) {
        budget.step(0)?;
        environment.set(name, value)?;
    }
    Ok(())
}

/// Sets what mod_ssl and mod_http2 say of a connection. As in Apache rewrite rules and access rules come before, and what
/// they have set does not stay.
fn describe_connection(exchange: &Exchange, budget: &Budget) -> Result<(), Failure> {
    let environment = of(exchange);
    if exchange.connection.secure {
        budget.step(0)?;
        environment.set(b"HTTPS", b"on")?;
        let tls = exchange.connection.tls.as_deref();
        if let Some(name) = tls.and_then(|tls| tls.server_name.as_deref()) {
            environment.set(b"SSL_TLS_SNI", name.as_bytes())?;
        }
    }
    if exchange.request.head.version == Version::Http2 {
        environment.set(b"HTTP2", b"on")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::settings;
    use crate::connection::process::ENV;
    use crate::testing::main_level;
    use contract::Config;

    #[test]
    fn only_variables_that_the_server_names_are_passed() {
        let (config, _) = main_level("env STAGE=production; env SECRET_IS_NOT_SET;").unwrap();
        let view = config.view(Config::MAIN);
        assert_eq!(view.all(&ENV).len(), 2);
        let names = ["STAGE", "HOME", "SECRET_IS_NOT_SET"].map(|name| name.as_bytes().into());
        let passed = super::passed(&view, &names);
        assert!(matches!(&passed[..], [(name, value)] if (&**name, &**value) == (b"STAGE", b"production")));
        assert!(settings(&view).is_empty());
    }
}
