//! Directives of the protocols in their usual shapes.

use conf::{Contexts, Diagnostic, value};
use contract::{Args, Directive, Loading};
use std::time::Duration;

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

pub(crate) const fn of<T>(directive: Directive<T>, help: &'static str) -> Directive<T> {
    directive.within(LEVELS).help(help)
}

pub(crate) const fn time(
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Directive<Duration> {
    of(Directive::time(name), help).default(default)
}

pub(crate) const fn flag(name: &'static str, default: &'static str, help: &'static str) -> Directive<bool> {
    of(Directive::flag(name), help).default(default)
}

pub(crate) const fn size(name: &'static str, default: &'static str, help: &'static str) -> Directive<u64> {
    of(Directive::size(name), help).default(default)
}

pub(crate) fn bits(
    args: &Args<'_>,
    loading: &mut Loading,
    table: &[(&'static str, u32)],
) -> Result<u32, Diagnostic> {
    let duplicate = |word: &conf::Word| {
        let message = format!("duplicate value \"{word}\"");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
    };
    value::bitmask(args.words(), table, duplicate).map_err(|(error, word)| error.at(args.node, word))
}
