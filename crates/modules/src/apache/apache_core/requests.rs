//! What requests may have: `LimitRequestBody` and `AcceptPathInfo`.

use crate::shared::apache::bounded::Failure;
use crate::shared::apache::{in_file, last, variables, wrong};
use conf::{Arity, Diagnostic};
use contract::{Args, Budget, Directive, Exchange, Handler, Loading, Phase, ScopeBuilder, Step, View};
use http::Status;

/// `LimitRequestBody BYTES`
pub(crate) static LIMIT_REQUEST_BODY: Directive<u64> =
    in_file(Directive::new("LimitRequestBody", parse_limit)).args(Arity::Exactly(1)).help(
        "The longest body of a request, in bytes; 0 is no limit. `client_max_body_size` limits it, too.",
    );

/// `AcceptPathInfo On | Off | Default`
pub(crate) static ACCEPT_PATH_INFO: Directive<bool> =
    in_file(Directive::new("AcceptPathInfo", parse_path_info)).args(Arity::Exactly(1)).help(
        "`Off` answers 404 where the path continues after the name of a file, as in `/index.php/page`.",
    );

fn parse_limit(args: &Args<'_>, _: &mut Loading) -> Result<u64, Diagnostic> {
    let word = args.word(0)?;
    let number = word.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| wrong(args, "no number of bytes", word))
}

fn parse_path_info(args: &Args<'_>, _: &mut Loading) -> Result<bool, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"on" | b"default" => Ok(true),
        b"off" => Ok(false),
        _ => Err(wrong(args, "an unknown value", word)),
    }
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    if let Some(limit) = last(view, &LIMIT_REQUEST_BODY).filter(|&limit| limit > 0) {
        let whole = &mut builder.policy.request_body.client_max_body_size;
        *whole = Some(whole.map_or(limit, |whole| whole.min(limit)));
        builder.handle(Phase::Preaccess, Limit { limit });
    }
    if last(view, &ACCEPT_PATH_INFO) == Some(false) {
        builder.handle(Phase::Precontent, WithoutPathInfo);
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

struct WithoutPathInfo;

impl Handler for WithoutPathInfo {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let Ok(path) = exchange.path() else { return Step::Next };
        match variables::file_end(exchange, &path, &Budget::of(exchange)) {
            Ok(end) if end < path.len() => Step::Finish(Status::NOT_FOUND),
            Ok(_) => Step::Next,
            Err(spent) => Failure::from(spent).refuse(exchange),
        }
    }
}
