//! Corrects the names of files that are misspelt in a path, as `.htaccess` files say: `CheckSpelling`.
//!
//! If a path names no file, and a file of its directory has the name in another case, or with one letter that is wrong,
//! missing, too many or in the wrong place, the client is redirected to that file. If several files are meant as well as
//! each other, or have only the part before the dot in common, the client gets a list of them (300).
//!
//! nginx: none
//!
//! ```file html/Manual.txt
//! manual
//! ```
//!
//! ```file html/.htaccess
//! CheckSpelling On
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
//! GET /manaul.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: *
//! ```

use crate::apache::mod_negotiation::{Missing, choices, missing};
use crate::files::symlinks::{Links, Way};
use crate::shared::apache::lookup;
use crate::shared::apache::urls::{escape_uri, own_url};
use crate::shared::apache::{in_file, last};
use crate::shared::directories::Directory;
use crate::shared::per_directory::hidden::Hidden;
use conf::value::flag;
use conf::{Arity, Diagnostic};
use contract::{Directive, Exchange, Handler, Module, Outcome, Phase, ScopeBuilder, Step, View, Work};
use http::{Method, Status};
use std::os::unix::ffi::OsStrExt;

/// Misspelt names.
pub static MODULE: Module = Module {
    name: "mod_speling",
    directives: &[&CHECK_SPELLING, &CASE_ONLY, &BASENAME_MATCH],
    variables: &[],
    compile: Some(compile),
};

/// `CheckSpelling On | Off`
pub(crate) static CHECK_SPELLING: Directive<bool> =
    in_file(Directive::new("CheckSpelling", |args, _| args.value(0, flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether a path that names no file leads to one whose name is nearly the same.");

/// `CheckCaseOnly On | Off`
pub(crate) static CASE_ONLY: Directive<bool> =
    in_file(Directive::new("CheckCaseOnly", |args, _| args.value(0, flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether only capital and small letters may be mixed up.");

/// `CheckBasenameMatch On | Off`
pub(crate) static BASENAME_MATCH: Directive<bool> =
    in_file(Directive::new("CheckBasenameMatch", |args, _| args.value(0, flag)))
        .args(Arity::Flag)
        .default("on")
        .help("Whether a file also matches if only its name up to the first dot is the same.");

/// Names of a directory that are looked at, and that a list can have.
const NAMES_MAX: usize = 10_000;
const LIST_MAX: usize = 100;

/// What may differ.
#[derive(Clone, Copy)]
struct Rules {
    case_only: bool,
    basename: bool,
}

/// How a name differs from the one that was asked for; the smaller the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    Case,
    Transposition,
    MissingLetter,
    SpareLetter,
    WrongLetter,
    /// Only the part before the first dot is the same.
    Extension,
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if last(view, &CHECK_SPELLING).unwrap_or(false) {
        let case_only = last(view, &CASE_ONLY).unwrap_or(false);
        let basename = last(view, &BASENAME_MATCH).unwrap_or(true);
        let rules = Rules { case_only, basename };
        builder
            .handle(Phase::Precontent, Speller { rules, links: Links::of(view), hidden: Hidden::of(view) });
    }
    Ok(())
}

struct Speller {
    rules: Rules,
    links: Links,
    hidden: Hidden,
}

impl Handler for Speller {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_get = matches!(exchange.request.method, Method::Get | Method::Head);
        if !is_get || exchange.subrequest || lookup::is_lookup(exchange) {
            return Step::Next;
        }
        let missing = match missing(exchange) {
            Ok(Some(missing)) => missing,
            Ok(None) => return Step::Next,
            Err(failure) => return failure.refuse(exchange),
        };
        let (rules, way) = (self.rules, self.links.way(exchange, &missing.directory));
        let hidden = self.hidden.clone();
        Step::Await(Work::Job(Box::new(move || Box::new(look(&missing, rules, way, &hidden)))))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Ok(Some(missing)) = missing(exchange) else { return Step::Next };
        let Outcome::Job(result) = outcome else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        let Ok(names) = result.downcast::<Vec<(Difference, Vec<u8>)>>() else { return Step::Next };
        match &names[..] {
            [] => Step::Next,
            [(difference, name), rest @ ..]
                if *difference != Difference::Extension
                    && rest.first().is_none_or(|(next, _)| next != difference) =>
            {
                let mut target = Vec::new();
                escape_uri(&[&missing.uri[..], name, &missing.rest].concat(), &mut target);
                if let Some(args) = exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
                    target.push(b'?');
                    target.extend_from_slice(args);
                }
                exchange.response.location = Some(own_url(exchange, &target).into());
                Step::Finish(Status::MOVED_PERMANENTLY)
            }
            names => choices(exchange, names.iter().map(|(_, name)| &name[..])),
        }
    }
}

/// Looks for names that are nearly the missing one, the best first. This blocks for the disk.
fn look(missing: &Missing, rules: Rules, way: Way, hidden: &Hidden) -> Vec<(Difference, Vec<u8>)> {
    let mut names = Vec::new();
    let Ok(mut directory) = Directory::open(&missing.directory, way) else { return names };
    for _ in 0..NAMES_MAX {
        let Some(Ok(item)) = directory.next(true) else { break };
        let name = item.file_name();
        let name = name.as_bytes();
        // Names that are never sent are not suggested either.
        if let Some(difference) = difference(&missing.name, name, rules).filter(|_| !hidden.has(name)) {
            names.push((difference, name.to_vec()));
        }
    }
    names.sort();
    names.truncate(LIST_MAX);
    names
}

/// How a name differs from the one that was asked for, if it may be the one that was meant.
fn difference(asked: &[u8], name: &[u8], rules: Rules) -> Option<Difference> {
    if asked.eq_ignore_ascii_case(name) {
        return Some(Difference::Case);
    }
    let by_letters = if rules.case_only { None } else { misspelling(asked, name) };
    let base = |name: &[u8]| name.split(|&byte| byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    by_letters.or_else(|| (rules.basename && base(asked) == base(name)).then_some(Difference::Extension))
}

/// The one letter in which two names differ.
fn misspelling(asked: &[u8], name: &[u8]) -> Option<Difference> {
    let common = asked.iter().zip(name).take_while(|(left, right)| left.eq_ignore_ascii_case(right)).count();
    let (asked, name) = (&asked[common..], &name[common..]);
    let is_same = |left: Option<&[u8]>, right: Option<&[u8]>| {
        left.zip(right).is_some_and(|(left, right)| left.eq_ignore_ascii_case(right))
    };
    let is_swapped = || match (asked, name) {
        ([a, b, left @ ..], [c, d, right @ ..]) => {
            a.eq_ignore_ascii_case(d) && b.eq_ignore_ascii_case(c) && left.eq_ignore_ascii_case(right)
        }
        _ => false,
    };
    if is_swapped() {
        Some(Difference::Transposition)
    } else if is_same(asked.get(1..), name.get(1..)) {
        Some(Difference::WrongLetter)
    } else if is_same(asked.get(1..), Some(name)) {
        Some(Difference::SpareLetter)
    } else if is_same(Some(asked), name.get(1..)) {
        Some(Difference::MissingLetter)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Difference, Rules, difference};

    #[test]
    fn names_that_are_nearly_the_same() {
        let all = Rules { case_only: false, basename: true };
        let judge = |name: &str| difference(b"manual.txt", name.as_bytes(), all);
        for (name, expected) in [
            ("Manual.TXT", Some(Difference::Case)),
            ("maunal.txt", Some(Difference::Transposition)),
            ("mannual.txt", Some(Difference::MissingLetter)),
            ("manul.txt", Some(Difference::SpareLetter)),
            ("manval.txt", Some(Difference::WrongLetter)),
            ("manual.html", Some(Difference::Extension)),
            ("manual", Some(Difference::Extension)),
            ("guide.txt", None),
            ("", None),
        ] {
            assert_eq!(judge(name), expected, "{name}");
        }
        let case_only = Rules { case_only: true, basename: false };
        assert_eq!(difference(b"a.txt", b"b.txt", case_only), None);
        assert_eq!(difference(b"a.txt", b"A.txt", case_only), Some(Difference::Case));
    }
}
