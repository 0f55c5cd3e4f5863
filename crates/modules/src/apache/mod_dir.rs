//! Sets in `.htaccess` files which file answers for a directory.
//!
//! These directives replace [`index`](index.md).
//!
//! nginx: none
//!
//! ```file html/start.txt
//! start
//! ```
//!
//! ```file html/.htaccess
//! DirectoryIndex index.php start.txt
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
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! start
//! ```

use crate::apache::mod_alias::status_of;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::lookup;
use crate::shared::apache::urls::{escape_uri, is_url, own_url};
use crate::shared::apache::{in_file, methods, variables, without_effect, wrong};
use crate::shared::per_directory::{fallback, fallback_for, has_slash, slot};
use conf::{Arity, Diagnostic, value};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Spent, Step, Template,
    View,
};
use http::{Method, Status};

/// Which file answers for a directory.
pub static MODULE: Module = Module {
    name: "mod_dir",
    directives: &[
        &DIRECTORY_INDEX,
        &DIRECTORY_INDEX_REDIRECT,
        &DIRECTORY_SLASH,
        &FALLBACK_RESOURCE,
        &DIRECTORY_CHECK_HANDLER,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `DirectoryIndex NAME …`; it takes the place of `index`.
pub(crate) static DIRECTORY_INDEX: Directive<Vec<Template>> =
    in_file(Directive::new("DirectoryIndex", parse_index))
        .args(Arity::AtLeast(1))
        .slot("index")
        .help("The files that answer for a directory, in the order in which they are tried.");

/// `DirectoryIndexRedirect on | off | permanent | temp | seeother | STATUS`
pub(crate) static DIRECTORY_INDEX_REDIRECT: Directive<Option<Status>> =
    in_file(Directive::new("DirectoryIndexRedirect", parse_index_redirect))
        .args(Arity::Exactly(1))
        .slot(slot::INDEX_REDIRECT)
        .help("Whether a directory is redirected to its index, and with which status.");

/// `DirectorySlash On | Off`
pub(crate) static DIRECTORY_SLASH: Directive<bool> =
    in_file(Directive::new("DirectorySlash", |args, _| args.value(0, value::flag)))
        .args(Arity::AtLeast(1))
        .slot(slot::SLASH)
        .default("on")
        .help("Whether a directory without a final slash is redirected to the path with it.");

/// `FallbackResource PATH | disabled`
pub(crate) static FALLBACK_RESOURCE: Directive<Option<Box<[u8]>>> =
    in_file(Directive::new("FallbackResource", parse_fallback))
        .args(Arity::Exactly(1))
        .slot(slot::FALLBACK)
        .help("The path that answers where there is no file.");

/// `DirectoryCheckHandler On | Off`
pub(crate) static DIRECTORY_CHECK_HANDLER: Directive<()> = without_effect(
    "DirectoryCheckHandler",
    Arity::AtLeast(1),
    "Has no effect: an index comes before other content.",
);

/// Each of these names costs a call of the file system.
const INDEXES_MAX: usize = 100;

fn parse_index(args: &Args<'_>, _: &mut Loading) -> Result<Vec<Template>, Diagnostic> {
    match args.words() {
        [word] if word.text.eq_ignore_ascii_case(b"disabled") => Ok(Vec::new()),
        words if words.len() > INDEXES_MAX => Err(args.error(&format!("has more than {INDEXES_MAX} names"))),
        words => Ok(words.iter().map(|word| Template::literal(&word.text)).collect()),
    }
}

fn parse_index_redirect(args: &Args<'_>, _: &mut Loading) -> Result<Option<Status>, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"on" => Ok(Some(Status::FOUND)),
        b"off" => Ok(None),
        _ => match status_of(word).filter(|status| status.is_redirection()) {
            Some(status) => Ok(Some(status)),
            None => Err(wrong(args, "no status of a redirect:", word)),
        },
    }
}

fn parse_fallback(args: &Args<'_>, _: &mut Loading) -> Result<Option<Box<[u8]>>, Diagnostic> {
    let word = args.word(0)?;
    if word.text.eq_ignore_ascii_case(b"disabled") {
        return Ok(None);
    }
    if is_url(&word.text) {
        return Err(wrong(args, "no path:", word));
    }
    Ok(Some(word.text.clone()))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(path) = fallback(view) {
        builder.handle(Phase::Precontent, Fallback { path });
    }
    if !has_slash(view) {
        builder.handle(Phase::Content, WithoutSlash);
    }
    Ok(())
}

/// Redirects a directory to the path with its slash.
///
/// # Errors
/// The budget is spent.
pub(crate) fn to_slash(exchange: &mut Exchange, file: &[u8], budget: &Budget) -> Result<Step, Spent> {
    if exchange.request.path.ends_with(b"/") || !is_directory(exchange, file, budget)? {
        return Ok(Step::Next);
    }
    let mut path = Vec::new();
    escape_uri(&exchange.request.path, &mut path);
    path.push(b'/');
    if let Some(args) = exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
        path.push(b'?');
        path.extend_from_slice(args);
    }
    exchange.response.location = Some(own_url(exchange, &path).into());
    Ok(Step::Finish(Status::MOVED_PERMANENTLY))
}

fn is_directory(exchange: &Exchange, path: &[u8], budget: &Budget) -> Result<bool, Spent> {
    Ok(variables::metadata(exchange, path, budget)?.is_some_and(|metadata| metadata.is_dir()))
}

/// As in Apache a directory that may be asked for without its slash has no index then.
struct WithoutSlash;

impl Handler for WithoutSlash {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let Ok(path) = exchange.path() else { return Step::Next };
        if exchange.request.path.ends_with(b"/") {
            return Step::Next;
        }
        match is_directory(exchange, &path, &exchange.budget()) {
            Ok(true) if !methods::is_fetched(exchange) => methods::answer_for_directory(exchange),
            Ok(true) if exchange.request.method == Method::Post => Step::Finish(Status::NOT_FOUND),
            Ok(true) => Step::Finish(Status::FORBIDDEN),
            Ok(false) => Step::Next,
            Err(spent) => Failure::from(spent).refuse(exchange),
        }
    }
}

struct Fallback {
    path: Box<[u8]>,
}

impl Handler for Fallback {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let path = fallback_for(&self.path, &exchange.request.path);
        let is_fallback = lookup::is_fallback(exchange);
        if lookup::is_lookup(exchange) && !is_fallback {
            return Step::Next;
        }
        // In Apache the search for a relative path has no end then.
        let has_end = self.path.starts_with(b"/") || !is_fallback;
        if exchange.request.path == path && has_end {
            return Step::Next;
        }
        let Ok(file) = exchange.path() else { return Step::Next };
        // A file with path info is there, too.
        match variables::is_missing(exchange, &file, &exchange.budget()) {
            Ok(true) => {}
            Ok(false) => return Step::Next,
            Err(spent) => return Failure::from(spent).refuse(exchange),
        }
        match exchange.request.path == path {
            true => Step::Finish(Status::INTERNAL_SERVER_ERROR),
            false => lookup::fall_back(exchange, path),
        }
    }
}
