//! What requests may have: `LimitRequestBody` and `AcceptPathInfo`.

use crate::apache::mod_mime::has_program;
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::{environment, in_file, last, methods, variables, wrong};
use conf::{Arity, Diagnostic};
use contract::{
    Args, Budget, Directive, Exchange, Handler, Loading, Phase, Reroute, ScopeBuilder, Spent, Step, View,
};
use http::Status;

/// `LimitRequestBody BYTES`
pub(crate) static LIMIT_REQUEST_BODY: Directive<u64> =
    in_file(Directive::new("LimitRequestBody", parse_limit)).args(Arity::Exactly(1)).help(
        "The longest body of a request, in bytes; 0 is no limit. `client_max_body_size` limits it, too.",
    );

/// `AcceptPathInfo On | Off | Default`
pub(crate) static ACCEPT_PATH_INFO: Directive<Option<bool>> =
    in_file(Directive::new("AcceptPathInfo", parse_path_info)).args(Arity::Exactly(1)).help(
        "Whether a path may continue after the name of a file, as in `/index.php/page`. Without it, only programs take it.",
    );

fn parse_limit(args: &Args<'_>, _: &mut Loading) -> Result<u64, Diagnostic> {
    let word = args.word(0)?;
    let number = word.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| wrong(args, "no number of bytes", word))
}

fn parse_path_info(args: &Args<'_>, _: &mut Loading) -> Result<Option<bool>, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"default" => Ok(None),
        b"on" => Ok(Some(true)),
        b"off" => Ok(Some(false)),
        _ => Err(wrong(args, "an unknown value", word)),
    }
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    if let Some(limit) = last(view, &LIMIT_REQUEST_BODY).filter(|&limit| limit > 0) {
        let whole = &mut builder.policy.request_body.client_max_body_size;
        *whole = Some(whole.map_or(limit, |whole| whole.min(limit)));
        builder.handle(Phase::Preaccess, Limit { limit });
    }
    let has_program = has_program(view);
    match last(view, &ACCEPT_PATH_INFO).flatten() {
        Some(is_accepted) if !is_accepted || !has_program => {
            builder.handle(Phase::Precontent, PathInfo { is_accepted });
        }
        _ => {}
    }
}

/// Rejects a body whose length is known to be too long. The policy bounds the others while they are read.
struct Limit {
    limit: u64,
}

impl Handler for Limit {
    fn run(&self, exchange: &mut Exchange) -> Step {
        match exchange.request.content_length {
            Some(length) if length > self.limit => Step::Finish(exchange.refuse_long_body(length)),
            _ => Step::Next,
        }
    }
}

/// Rejects what a path has after the name of a file, or takes it away for a file that is sent.
struct PathInfo {
    is_accepted: bool,
}

impl Handler for PathInfo {
    fn run(&self, exchange: &mut Exchange) -> Step {
        match self.apply(exchange, &exchange.budget()) {
            Ok(step) => step,
            Err(spent) => Failure::from(spent).refuse(exchange),
        }
    }
}

impl PathInfo {
    fn apply(&self, exchange: &Exchange, budget: &Budget) -> Result<Step, Spent> {
        let Ok(file) = exchange.path() else { return Ok(Step::Next) };
        let end = variables::file_end(exchange, &file, budget)?;
        if end == file.len() {
            return Ok(Step::Next);
        }
        if !methods::is_fetched(exchange) {
            return Ok(Step::Next);
        }
        if !self.is_accepted {
            return Ok(Step::Finish(Status::NOT_FOUND));
        }
        let (path, info) = (&exchange.request.path, &file[end..]);
        let metadata = variables::metadata(exchange, &file[..end], budget)?;
        let is_file = metadata.is_some_and(|metadata| metadata.is_file());
        match path.strip_suffix(info).filter(|_| is_file) {
            // The file may belong to another location, such as that of programs: it must not be sent from this one.
            Some(path) => {
                // As in Apache the rules have seen the whole path.
                environment::of(exchange).ended.set(true);
                let (path, args) = (path.to_vec(), exchange.request.args.clone());
                Ok(Step::Reroute(Reroute::Uri { path, args }))
            }
            None => Ok(Step::Next),
        }
    }
}
