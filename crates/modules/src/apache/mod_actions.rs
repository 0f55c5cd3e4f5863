//! Passes files of a media type or handler to a script, in `.htaccess` files.
//!
//! `Action` sends a request for such a file to the path of the script, followed by the path of the file. The location of
//! the script decides what runs it. A path that leads to no location with a program gets a file or 404.
//!
//! nginx: none
//!
//! ```file html/.htaccess
//! AddHandler shout .shout
//! Action shout /script.txt virtual
//! AcceptPathInfo On
//! ```
//!
//! ```file html/script.txt
//! The script.
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
//! GET /a.shout HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! The script.
//! ```

use crate::apache::mod_mime::Chosen;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::{environment, in_all_files, values, variables, wrong};
use conf::{Arity, Diagnostic};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Phase, Reach, Reroute, ScopeBuilder, Step, View,
};
use http::Status;
use journal::Level;
use std::rc::Rc;

/// Scripts for files.
pub static MODULE: Module =
    Module { name: "mod_actions", directives: &[&ACTION], variables: &[], compile: Some(compile) };

/// `Action TYPE | HANDLER PATH [virtual]`
pub(crate) static ACTION: Directive<Action> = in_all_files(Directive::new("Action", parse))
    .args(Arity::Range(2, 3))
    .help("The path of the script that answers for files of a media type or handler.");

/// A script for files.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    /// The media type or the handler.
    name: Box<[u8]>,
    script: Box<[u8]>,
    /// Whether the file may be missing.
    is_virtual: bool,
}

/// As in Apache, a request may be passed to a script so many times.
const TIMES_MAX: usize = 2;

fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Action, Diagnostic> {
    let (name, script) = (args.word(0)?, args.word(1)?);
    if !script.text.starts_with(b"/") {
        return Err(wrong(args, "no path from the root:", script));
    }
    let is_virtual = match args.words().get(2) {
        None => false,
        Some(word) if word.text.eq_ignore_ascii_case(b"virtual") => true,
        Some(word) => return Err(wrong(args, "an unknown parameter", word)),
    };
    Ok(Action { name: name.text.to_ascii_lowercase().into(), script: script.text.clone(), is_virtual })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let mut actions = values(view, &ACTION);
    if !actions.is_empty() {
        // The last line for a name overrides the others.
        actions.reverse();
        builder.handle(Phase::Precontent, Scripts { actions, chosen: Chosen::of(view) });
    }
    Ok(())
}

struct Scripts {
    actions: Vec<Action>,
    chosen: Chosen,
}

/// How often the request was passed to a script.
struct Passed(usize);

impl Handler for Scripts {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let times = exchange.attached::<Passed>().map_or(0, |passed| passed.0);
        let Some(action) = self.action(exchange).filter(|_| times < TIMES_MAX) else { return Step::Next };
        match action.applies(exchange) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => {
                exchange.log(Level::Error, "the file of an action does not exist");
                return Step::Finish(Status::NOT_FOUND);
            }
            Ok(None) => return Step::Next,
            Err(failure) => return failure.refuse(exchange),
        }
        let environment = environment::of(exchange);
        if let Err(failure) = environment.set(b"HANDLER", &action.name) {
            return failure.refuse(exchange);
        }
        let request = &exchange.request;
        environment.redirect((&request.path, request.args.as_deref()), Status::OK);
        exchange.attach(Reach::Own, Rc::new(Passed(times + 1)));
        let path = [&action.script, &request.path[..]].concat();
        Step::Reroute(Reroute::Uri { path, args: request.args.clone() })
    }
}

impl Scripts {
    /// The action for the file of a request.
    fn action(&self, exchange: &Exchange) -> Option<&Action> {
        let path = &exchange.request.path;
        let find = |name: &[u8]| self.actions.iter().find(|action| action.name.eq_ignore_ascii_case(name));
        match self.chosen.handler(path) {
            Some(handler) => find(handler),
            None => {
                let media_type = exchange.media_type(path);
                find(media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii())
            }
        }
    }
}

impl Action {
    /// Whether the file that the script is for exists, or need not; none for a directory.
    fn applies(&self, exchange: &Exchange) -> Result<Option<bool>, Failure> {
        let Ok(path) = exchange.path() else { return Ok(None) };
        let budget = exchange.budget();
        let end = variables::file_end(exchange, &path, &budget)?;
        let metadata = variables::metadata(exchange, &path[..end], &budget)?;
        let is_directory = metadata.as_ref().is_some_and(std::fs::Metadata::is_dir);
        Ok((!is_directory).then_some(self.is_virtual || metadata.is_some()))
    }
}
