//! Redirects paths in `.htaccess` files.
//!
//! A redirect of an inner directory has precedence over one of an outer directory.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! Redirect 301 /old http://example.com/new
//! RedirectMatch 410 "\.php$"
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
//! GET /old/page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: http://example.com/new/page
//! ---
//! GET /a.php HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 410 Gone
//! ```

use crate::shared::apache::bounded::{Failure, append, find};
use crate::shared::apache::lookup;
use crate::shared::apache::place::Place;
use crate::shared::apache::urls::{escape_uri, has_scheme, own_url};
use crate::shared::apache::{in_directory, last, pattern, wrong};
use crate::shared::per_directory::RelativeRedirects;
use conf::value::{self, Captures, Pattern};
use conf::{Arity, Diagnostic, Word};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Module, Phase, ScopeBuilder, Step, View,
};
use http::Status;
use std::sync::Arc;

/// Redirects.
pub static MODULE: Module = Module {
    name: "mod_alias",
    directives: &[&REDIRECT, &REDIRECT_MATCH, &REDIRECT_PERMANENT, &REDIRECT_TEMP, &REDIRECT_RELATIVE],
    variables: &[],
    compile: Some(compile),
};

/// `Redirect [STATUS] PATH [URL]`
pub(crate) static REDIRECT: Directive<Redirect> =
    in_directory(Directive::new("Redirect", |args, loading| parse(args, loading, None, false)))
        .args(Arity::Range(2, 3))
        .slot("htaccess redirect")
        .help("Redirects a path and all paths below it.");

/// `RedirectMatch [STATUS] PATTERN [URL]`
pub(crate) static REDIRECT_MATCH: Directive<Redirect> =
    in_directory(Directive::new("RedirectMatch", |args, loading| parse(args, loading, None, true)))
        .args(Arity::Range(2, 3))
        .slot("htaccess redirect")
        .help("Redirects paths that match a pattern.");

/// `RedirectPermanent PATH URL`
pub(crate) static REDIRECT_PERMANENT: Directive<Redirect> =
    in_directory(Directive::new("RedirectPermanent", |args, loading| {
        parse(args, loading, Some(Status::MOVED_PERMANENTLY), false)
    }))
    .args(Arity::Exactly(2))
    .slot("htaccess redirect")
    .help("As `Redirect permanent`.");

/// `RedirectTemp PATH URL`
pub(crate) static REDIRECT_TEMP: Directive<Redirect> =
    in_directory(Directive::new("RedirectTemp", |args, loading| {
        parse(args, loading, Some(Status::FOUND), false)
    }))
    .args(Arity::Exactly(2))
    .slot("htaccess redirect")
    .help("As `Redirect temp`.");

/// `RedirectRelative On | Off`
pub(crate) static REDIRECT_RELATIVE: Directive<bool> =
    in_directory(Directive::new("RedirectRelative", |args, _| args.value(0, value::flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether a redirect to a path is sent as the path, without scheme and host.");

/// One redirect.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    status: Status,
    /// Whether a target that is a path is sent as it is: `RedirectRelative`.
    is_relative: bool,
    from: From,
    /// None where the status is no redirection.
    to: Option<Box<[u8]>>,
    place: Arc<Place>,
}

#[derive(Clone, Debug)]
enum From {
    Path(Box<[u8]>),
    Pattern(Arc<Pattern>),
}

fn parse(
    args: &Args<'_>,
    loading: &mut Loading,
    status: Option<Status>,
    by_pattern: bool,
) -> Result<Redirect, Diagnostic> {
    let (status, words) = match (status, args.words()) {
        (None, [first, rest @ ..]) => match status_of(first) {
            Some(status) => (status, rest),
            None => (Status::FOUND, args.words()),
        },
        (Some(status), words) => (status, words),
        (None, []) => return Err(args.error("has no path")),
    };
    let (from, to) = match words {
        [from] if !status.is_redirection() => (from, None),
        [from, to] if status.is_redirection() => (from, Some(to)),
        _ => return Err(args.error("has a URL where its status needs none, or none where it needs one")),
    };
    if let Some(to) = to
        && !has_scheme(&to.text)
        && !to.text.starts_with(b"/")
    {
        return Err(wrong(args, "neither a URL nor a path:", to));
    }
    let from = match by_pattern {
        true => From::Pattern(pattern(args, loading, from, &from.text, false)?),
        false if from.text.starts_with(b"/") => From::Path(from.text.clone()),
        false => return Err(wrong(args, "no path:", from)),
    };
    let (to, place) = (to.map(|to| to.text.clone()), Arc::new(Place::new(args, loading)));
    Ok(Redirect { status, is_relative: false, from, to, place })
}

pub(crate) fn status_of(word: &Word) -> Option<Status> {
    match word.text.to_ascii_lowercase().as_slice() {
        b"permanent" => Some(Status::MOVED_PERMANENTLY),
        b"temp" => Some(Status::FOUND),
        b"seeother" => Some(Status::SEE_OTHER),
        b"gone" => Some(Status(410)),
        text if text.first().is_some_and(u8::is_ascii_digit) => {
            let code: u16 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (300..600).contains(&code).then_some(Status(code))
        }
        _ => None,
    }
}

/// The redirects of all directories. It is not a [`Rule`](contract::Rule): Apache tries the redirects of the innermost
/// directory first, and those of one directory in the order in which they are written.
pub(crate) fn redirects(view: &View<'_>) -> Arc<[Redirect]> {
    let written = view.levels().flat_map(|level| level.here(&REDIRECT));
    let is_relative = last(view, &REDIRECT_RELATIVE).unwrap_or(false);
    written.map(|redirect| Redirect { is_relative, ..redirect.value.clone() }).collect()
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let redirects = redirects(view);
    if last(view, &REDIRECT_RELATIVE) == Some(true) {
        builder.policy.redirects.absolute_redirect = false;
        builder.keep(RelativeRedirects);
    }
    if !redirects.is_empty() {
        builder.handle(Phase::Precontent, Redirects { redirects });
    }
    Ok(())
}

struct Redirects {
    redirects: Arc<[Redirect]>,
}

impl Handler for Redirects {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let budget = exchange.budget();
        let _running = budget.run();
        apply(exchange, &self.redirects, &budget)
    }
}

/// Answers with the first redirect whose path or pattern matches the path of the request.
pub(crate) fn apply(exchange: &mut Exchange, redirects: &[Redirect], budget: &Budget) -> Step {
    for redirect in redirects {
        match redirect.target(&exchange.request.path, budget) {
            Ok(None) => {}
            Ok(Some(target)) => return redirect.answer(exchange, target),
            Err(failure) => return failure.refuse(exchange),
        }
    }
    Step::Next
}

impl Redirect {
    fn answer(&self, exchange: &mut Exchange, mut target: Vec<u8>) -> Step {
        exchange.tell(|| self.place.event("redirect", format!("the request ends with {}", self.status.0)));
        if self.to.is_some() {
            if let Some(args) = exchange.request.args.as_ref().filter(|_| !target.contains(&b'?')) {
                target.push(b'?');
                target.extend_from_slice(args);
            }
            if target.starts_with(b"/") && !self.is_relative {
                target = own_url(exchange, &target);
            }
            exchange.response.location = Some(target.into());
        }
        lookup::refuse(exchange, self.status)
    }

    /// Where a path is redirected to; none if it is not.
    fn target(&self, path: &[u8], budget: &Budget) -> Result<Option<Vec<u8>>, Failure> {
        let to = self.to.as_deref().unwrap_or_default();
        match &self.from {
            From::Path(from) => {
                budget.spend(1)?;
                Ok(below(from, path).map(|rest| {
                    let mut target = to.to_vec();
                    escape_uri(rest, &mut target);
                    target
                }))
            }
            From::Pattern(pattern) => {
                let mut captures = Captures::default();
                let found = find(pattern, path, &mut captures, budget)?;
                found.then(|| replaced(to, &captures, path)).transpose()
            }
        }
    }
}

/// What a path has below another one: whole segments only.
fn below<'a>(from: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(from)?;
    let ends = rest.is_empty() || rest.starts_with(b"/") || from.ends_with(b"/");
    ends.then_some(rest)
}

/// A URL with `$0` to `$9` and `&` replaced by what a pattern captured.
fn replaced(to: &[u8], captures: &Captures, path: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut rest = to;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'$', [digit @ b'0'..=b'9', tail @ ..]) => {
                let mut group = Vec::new();
                escape_uri(captures.get(usize::from(digit - b'0'), path).unwrap_or_default(), &mut group);
                append(&mut out, &group)?;
                rest = tail;
            }
            (b'\\', [next @ (b'$' | b'&'), tail @ ..]) => {
                append(&mut out, &[*next])?;
                rest = tail;
            }
            _ => append(&mut out, &[*byte])?,
        }
    }
    Ok(out)
}
