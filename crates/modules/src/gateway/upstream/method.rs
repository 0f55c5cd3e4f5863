//! The lines that say how the server of a request is chosen.

use ::upstream::{LeastTime, Method, Until};
use conf::value::choice;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Directive, Loading, Rule, View, Written};

/// In `upstream` blocks of `http` and of `stream`.
const IN_BOTH: Contexts = Contexts::UPSTREAM.or(Contexts::STREAM_UPSTREAM);

/// `least_conn`
pub(super) static LEAST_CONN: Directive<Method> = method("least_conn", |_, _| Ok(Method::LeastConnections))
    .within(IN_BOTH)
    .args(Arity::Exactly(0))
    .help("Chooses the server with the fewest requests for its weight.");

/// `least_time header | last_byte [inflight]`
pub(super) static LEAST_TIME: Directive<Method> = method("least_time", parse_least_time)
    .args(Arity::Range(1, 2))
    .help("Chooses the server whose responses take the least time for its weight and its requests.");

/// `least_time connect | first_byte | last_byte [inflight]`
pub(super) static STREAM_LEAST_TIME: Directive<Method> = method("least_time", parse_least_time_of_stream)
    .within(Contexts::STREAM_UPSTREAM)
    .args(Arity::Range(1, 2))
    .help("Chooses the server whose connections take the least time for its weight and its connections.");

/// `ip_hash`
pub(super) static IP_HASH: Directive<Method> = method("ip_hash", |_, _| Ok(Method::Network))
    .args(Arity::Exactly(0))
    .help("Sends clients of one network to the same server.");

/// `hash TEXT [consistent]`
pub(super) static HASH: Directive<Method> = method("hash", parse_hash)
    .within(IN_BOTH)
    .args(Arity::Range(1, 2))
    .help("Sends requests with the same text to the same server. With `consistent`, most texts keep their server when the group changes.");

/// `random [two [least_conn]]`
pub(super) static RANDOM: Directive<Method> = method("random", parse_random)
    .within(IN_BOTH)
    .args(Arity::Range(0, 2))
    .help("Chooses a random server; with `two`, the better one of two.");

/// The methods take each other's place.
const fn method(
    name: &'static str,
    parse: fn(&Args<'_>, &mut Loading) -> Result<Method, Diagnostic>,
) -> Directive<Method> {
    Directive::new(name, parse).slot("upstream method").within(Contexts::UPSTREAM).rule(Rule::Never).repeats()
}

fn parse_hash(args: &Args<'_>, loading: &mut Loading) -> Result<Method, Diagnostic> {
    let text = loading.template(args.word(0)?)?;
    match args.words().get(1) {
        None => Ok(Method::Hash(text)),
        Some(word) if word.is("consistent") => Ok(Method::Ring(text)),
        Some(word) => Err(args.invalid(word)),
    }
}

fn parse_least_time(args: &Args<'_>, _: &mut Loading) -> Result<Method, Diagnostic> {
    least_time(args, &[("header", Until::Answer), ("last_byte", Until::LastByte)])
}

fn parse_least_time_of_stream(args: &Args<'_>, _: &mut Loading) -> Result<Method, Diagnostic> {
    let choices =
        [("connect", Until::Answer), ("first_byte", Until::FirstByte), ("last_byte", Until::LastByte)];
    least_time(args, &choices)
}

fn least_time(args: &Args<'_>, choices: &[(&'static str, Until)]) -> Result<Method, Diagnostic> {
    let in_flight = match args.words() {
        [_, word] if !word.is("inflight") => return Err(args.invalid(word)),
        words => words.len() == 2,
    };
    let until = args.value(0, |word| choice(word, choices))?;
    Ok(Method::LeastTime(LeastTime { until, in_flight }))
}

fn parse_random(args: &Args<'_>, _: &mut Loading) -> Result<Method, Diagnostic> {
    match args.words() {
        [] => Ok(Method::Random),
        [two, rest @ ..] if two.is("two") => match rest {
            [word] if !word.is("least_conn") => Err(args.invalid(word)),
            _ => Ok(Method::RandomTwo),
        },
        [word, ..] => Err(args.invalid(word)),
    }
}

/// As in nginx, a server behind the line of a method that knows no backups can be none.
pub(super) fn check_backups(block: &View<'_>) -> Result<(), Diagnostic> {
    let methods = block.here(&LEAST_CONN);
    for server in block.here(&super::SERVER).iter().filter(|server| server.value.has_backup()) {
        let is_before = |method: &&Written<'_, Method>| {
            method.span.file == server.span.file && method.span.start < server.span.start
        };
        let before = methods.iter().rev().find(is_before);
        let knows = |method: &Method| {
            matches!(method, Method::RoundRobin | Method::LeastConnections | Method::LeastTime(_))
        };
        if before.is_some_and(|method| !knows(method.value)) {
            let message = "balancing method does not support parameter \"backup\"";
            return Err(Diagnostic::emerg(message).at(server.span));
        }
    }
    Ok(())
}
