//! The lines that say how connections to the servers of a group are kept.

use ::upstream::Keepalive;
use conf::value::number;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Loading, Rule, View};
use std::time::Duration;

/// `keepalive NUMBER [local]`
pub(super) static KEEPALIVE: Directive<(usize, bool)> = Directive::new("keepalive", parse_keepalive)
    .within(Contexts::UPSTREAM)
    .args(Arity::Range(1, 2))
    .rule(Rule::Never)
    .default("32 local")
    .help("How many idle connections each thread keeps; 0 means none.");

/// `keepalive_requests NUMBER`
pub(super) static KEEPALIVE_REQUESTS: Directive<u64> = Directive::number("keepalive_requests")
    .slot("upstream keepalive_requests")
    .within(Contexts::UPSTREAM)
    .rule(Rule::Never)
    .default("1000")
    .help("How many requests go over one connection.");

/// `keepalive_time TIME`
pub(super) static KEEPALIVE_TIME: Directive<Duration> = Directive::time("keepalive_time")
    .slot("upstream keepalive_time")
    .within(Contexts::UPSTREAM)
    .rule(Rule::Never)
    .default("1h")
    .help("How long a connection is used.");

/// `keepalive_timeout TIME`
pub(super) static KEEPALIVE_TIMEOUT: Directive<Duration> = Directive::time("keepalive_timeout")
    .slot("upstream keepalive_timeout")
    .within(Contexts::UPSTREAM)
    .rule(Rule::Never)
    .default("60s")
    .help("How long an idle connection is kept.");

/// How the connections of an `upstream` block are kept.
pub(super) fn of_block(block: &View<'_>) -> Keepalive {
    let mut keepalive = Keepalive::DEFAULT;
    if let Some(&(connections, local)) = block.get(&KEEPALIVE) {
        (keepalive.connections, keepalive.local) = (connections, local);
    }
    block.assign(&KEEPALIVE_REQUESTS, &mut keepalive.requests);
    block.assign(&KEEPALIVE_TIME, &mut keepalive.time);
    block.assign(&KEEPALIVE_TIMEOUT, &mut keepalive.timeout);
    keepalive
}

fn parse_keepalive(args: &Args<'_>, _: &mut Loading) -> Result<(usize, bool), Diagnostic> {
    let word = args.word(0)?;
    let invalid = |word: &Word| {
        let message = format!("invalid value \"{word}\" in \"keepalive\" directive");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    let count = number(word).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| invalid(word))?;
    match args.words().get(1) {
        None => Ok((count, false)),
        Some(word) if word.is("local") => Ok((count, true)),
        Some(word) => Err(args.invalid(word)),
    }
}
