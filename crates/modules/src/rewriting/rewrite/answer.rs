//! The `return` directive.

use super::replacement::is_url;
use crate::shared::scratch::with_scratch;
use bytes::Bytes;
use conf::value::number;
use conf::{Diagnostic, Word};
use contract::{Args, Body, Exchange, Loading, Step, Template};
use http::Status;

/// A status with a text or a URL.
#[derive(Clone, Debug)]
pub struct Answer {
    status: Status,
    text: Template,
    /// The text, where it has no variables: all responses share it.
    constant: Option<Bytes>,
}

impl Answer {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Answer, Diagnostic> {
        let first = args.word(0)?;
        match (status(first), args.words()) {
            (Some(status), [_]) => Ok(Answer::new(status, Template::literal(b""))),
            (Some(status), [_, text, ..]) => Ok(Answer::new(status, loading.template(text)?)),
            (None, [url]) if is_url(&url.text) && number(url).is_err() => {
                Ok(Answer::new(Status::FOUND, loading.template(url)?))
            }
            _ => {
                let message = format!("invalid return code \"{first}\"");
                Err(Diagnostic::emerg(message).at(args.node.span).under(first.span))
            }
        }
    }

    fn new(status: Status, text: Template) -> Answer {
        let constant = text.constant().map(Bytes::copy_from_slice);
        Answer { status, text, constant }
    }

    /// An error without a text is left to error pages; the target of a redirect is the response's
    /// location; all else is sent as it is.
    pub(super) fn give(&self, exchange: &mut Exchange) -> Step {
        if self.status >= Status::BAD_REQUEST && self.constant.as_ref().is_some_and(Bytes::is_empty) {
            return Step::Finish(self.status);
        }
        exchange.response.status = self.status;
        exchange.wire.answered = true;
        if matches!(self.status.0, 301 | 302 | 303 | 307 | 308) {
            exchange.response.location = Some(self.write(exchange, |url| url.into()));
            return Step::Finish(self.status);
        }
        let text = self.constant.clone().unwrap_or_else(|| self.write(exchange, Bytes::copy_from_slice));
        // Another server that sent the request here may have said what it is.
        if exchange.response.content_type.is_none() {
            let media_type = exchange.media_type(&exchange.request.path);
            exchange.response.content_type = Some(media_type).filter(|media_type| !media_type.is_empty());
        }
        let response = &mut exchange.response;
        response.content_length = Some(text.len() as u64);
        Step::Respond(Body::bytes(text))
    }

    fn write<T>(&self, exchange: &mut Exchange, keep: impl FnOnce(&[u8]) -> T) -> T {
        with_scratch(|text| {
            self.text.write(exchange, text);
            keep(text)
        })
    }
}

fn status(word: &Word) -> Option<Status> {
    let code = number(word).ok().and_then(|code| u16::try_from(code).ok())?;
    (code <= 999).then_some(Status(code))
}
