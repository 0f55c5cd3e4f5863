//! What the directives of `.htaccess` files share.

pub(crate) mod bounded;
pub(crate) mod environment;
pub(crate) mod expression;
pub(crate) mod glob;
pub(crate) mod judging;
pub(crate) mod lookup;
pub(crate) mod methods;
pub(crate) mod place;
pub(crate) mod refusing;
mod reserved;
pub(crate) mod short_size;
pub(crate) mod urls;
pub(crate) mod variables;

use conf::value::{Language, Pattern};
use conf::{Arity, Contexts, Diagnostic, Span, Word};
use contract::{Args, Directive, Loading, Rule, View};
use std::path::Path;
use std::sync::Arc;

/// Steps of backtracking that a pattern in such a file may take: far fewer than the administrator's own.
pub(crate) const STEPS_MAX: u32 = 20_000;

/// Where lines for the files of directories stand: also outside of directories, where they are for all files of a server.
const FILES: Contexts = Contexts::PER_DIRECTORY.or(Contexts::VIRTUAL_HOST);

/// A directive of `.htaccess` files. The innermost file that has the directive overrides the others.
pub(crate) const fn in_file<T>(directive: Directive<T>) -> Directive<T> {
    directive.within(FILES).rule(Rule::List)
}

/// As [`in_file`], for a directive that has another meaning outside of directories, or none.
pub(crate) const fn in_directory<T>(directive: Directive<T>) -> Directive<T> {
    directive.within(Contexts::PER_DIRECTORY).rule(Rule::List)
}

/// A directive of `.htaccess` files. An inner file adds to the outer ones.
pub(crate) const fn in_all_files<T>(directive: Directive<T>) -> Directive<T> {
    directive.within(FILES).rule(Rule::Gather)
}

/// A directive of `.htaccess` files that has no effect; `why` begins with these words and gives the reason.
pub(crate) const fn without_effect(name: &'static str, arity: Arity, why: &'static str) -> Directive<()> {
    Directive::new(name, |_, _| Ok(())).within(FILES).rule(Rule::Never).repeats().args(arity).help(why)
}

/// The values of a directive, as inherited by its rule.
pub(crate) fn values<T: Clone>(view: &View<'_>, directive: &Directive<T>) -> Vec<T> {
    view.all(directive).into_iter().map(|written| written.value.clone()).collect()
}

/// The value of a directive that counts: the last one of the innermost file that has it.
pub(crate) fn last<T: Clone>(view: &View<'_>, directive: &Directive<T>) -> Option<T> {
    values(view, directive).pop()
}

/// The directory of the file that is being read, with a slash at its end.
pub(crate) fn directory(args: &Args<'_>, loading: &Loading) -> Result<Box<[u8]>, Diagnostic> {
    let file = loading.htaccess.path.as_deref().ok_or_else(|| args.error("is not in a directory"))?;
    let directory = file.parent().unwrap_or(Path::new("/")).as_os_str().as_encoded_bytes();
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    Ok([directory, slash].concat().into())
}

/// The share of the memory for settings that may be used before further patterns are compiled on demand: one in so many.
const COMPILED_SHARE: usize = 8;

/// A pattern, as Apache compiles it by default.
pub(crate) fn pattern(
    args: &Args<'_>,
    loading: &mut Loading,
    word: &Word,
    text: &[u8],
    ignore_case: bool,
) -> Result<Arc<Pattern>, Diagnostic> {
    // Compiled, a list of thousands of patterns does not fit into memory. Few subjects contain the text that such a pattern
    // requires, so a request compiles few of them.
    let (used, max) = loading.memory_bytes;
    let compile = if used > max / COMPILED_SHARE { Pattern::on_demand } else { Pattern::limited };
    let pattern = compile(text, ignore_case, Language::Apache, STEPS_MAX);
    held(loading, pattern.map_err(|error| error.at(args.node, word))?, args.node.span)
}

/// A pattern that has its memory counted.
pub(crate) fn held(loading: &mut Loading, pattern: Pattern, place: Span) -> Result<Arc<Pattern>, Diagnostic> {
    loading.hold(pattern.size_bytes(), place)?;
    Ok(Arc::new(pattern))
}

/// An error about a word of a directive.
pub(crate) fn wrong(args: &Args<'_>, what: &str, word: &Word) -> Diagnostic {
    args.error(&format!("has {what} \"{word}\""))
}
