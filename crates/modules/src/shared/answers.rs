//! What the answers of other servers have in common, whatever protocol they came by.

use bytes::Bytes;
use conf::value::size_in_text;
use contract::log::Level;
use contract::policy::BodyFile;
use contract::{Exchange, Outcome, Reroute, Step, Work};
use h1::{is_unsafe_uri, unescape_uri};
use http::{Field, Fields, Method, Status};
use upstream::{Answered, Ignored, Settings, Upload};

/// Fields that an internal redirect by `X-Accel-Redirect` keeps.
const KEPT: [&str; 6] =
    ["content-disposition", "set-cookie", "cache-control", "expires", "accept-ranges", "content-language"];

/// Fields that an answer has once: of several, the first counts (nginx's list).
const SINGLE: [&str; 7] = ["content-type", "date", "etag", "last-modified", "location", "refresh", "server"];

/// Whether the body has to be there although it is not passed on: its file is what the other server is told of.
pub(crate) fn has_body_file(exchange: &Exchange) -> bool {
    exchange.scope.policy.request_body.client_body_in_file_only != BodyFile::WhenLong
}

/// What has to be waited for before the request's body can be passed on; `streams` tells whether it need not be
/// whole. A subrequest has its parent's body, or none.
pub(crate) fn body_to_read(exchange: &Exchange, streams: bool) -> Option<Work> {
    let request = &exchange.request;
    let has_body = request.chunked || request.content_length.is_some_and(|length| length > 0);
    let is_unread = request.body.is_none() && request.stream.is_none() && !exchange.subrequest;
    (has_body && is_unread).then_some(if streams { Work::RequestStream } else { Work::RequestBody })
}

/// The request's body as it is passed on, whole or as it comes.
///
/// # Errors
/// A part of it went to another server already.
pub(crate) fn upload(exchange: &Exchange) -> Result<Option<Upload>, Status> {
    let request = &exchange.request;
    match &request.stream {
        None => Ok(request.body.clone().map(Upload::Whole)),
        Some(stream) if stream.is_untouched() => Ok(Some(Upload::Stream(stream.clone()))),
        Some(_) => {
            exchange.log(Level::Error, "the body of the request was passed on to another server already");
            Err(Status::BAD_GATEWAY)
        }
    }
}

/// The answer that a handler is resumed with; `None` where it is the request's body that is there.
pub(crate) fn answered<A: 'static>(outcome: Outcome) -> Option<Answered<A>> {
    let failed = Err(Status::INTERNAL_SERVER_ERROR);
    match outcome {
        Outcome::Done => None,
        Outcome::Task(result) => Some(result.downcast().map_or(failed, |answered| *answered)),
        _ => Some(failed),
    }
}

/// Whether the request may be sent twice (RFC 9110, section 9.2.2; nginx's list).
pub(crate) fn is_idempotent(exchange: &Exchange) -> bool {
    !matches!(exchange.request.method, Method::Post | Method::Lock | Method::Patch)
}

/// The fields of an answer that count.
pub(crate) fn counting(fields: &Fields) -> impl Iterator<Item = Field<'_>> {
    let counts = |at: usize, field: &Field<'_>| {
        let is_known = |earlier: Field<'_>| earlier.name.eq_ignore_ascii_case(field.name);
        !SINGLE.iter().any(|name| field.is(name)) || !fields.iter().take(at).any(is_known)
    };
    fields.iter().enumerate().filter(move |(at, field)| counts(*at, field)).map(|(_, field)| field)
}

/// An answer's own words for its status, unless an `error_page` has given it another one: that has words of its own.
pub(crate) fn reason(exchange: &Exchange, status: Status, text: &[u8]) -> Option<(Status, Box<[u8]>)> {
    exchange.error.is_none().then(|| (status, text.trim_ascii().into()))
}

/// The media type that an answer says it has; an empty one says nothing.
pub(crate) fn media_type(value: &[u8]) -> Option<Bytes> {
    (!value.is_empty()).then(|| Bytes::copy_from_slice(value))
}

/// Where the other server sends the request instead of answering it itself.
pub(crate) fn accel_redirect(settings: &Settings, exchange: &mut Exchange, fields: &Fields) -> Option<Step> {
    let uri = fields.get("X-Accel-Redirect")?;
    if settings.ignored.has(Ignored::REDIRECT) {
        return None;
    }
    for field in fields.iter().filter(|field| KEPT.iter().any(|name| field.is(name))) {
        let _ = exchange.response.fields.push(field.name, field.value);
    }
    exchange.response.content_type = fields.get("Content-Type").and_then(media_type);
    if uri.starts_with(b"@") {
        return Some(Step::Reroute(Reroute::Named(uri.into())));
    }
    if is_unsafe_uri(uri) || !uri.starts_with(b"/") {
        let shown = String::from_utf8_lossy(uri).into_owned();
        exchange.log(Level::Error, &format!("unsafe URI \"{shown}\" was detected"));
        return Some(Step::Finish(Status::NOT_FOUND));
    }
    if exchange.request.method != Method::Head {
        exchange.request.method = Method::Get;
    }
    let mark = uri.iter().position(|&byte| byte == b'?');
    let mut path = Vec::new();
    unescape_uri(&uri[..mark.unwrap_or(uri.len())], &mut path);
    let args = mark.map(|mark| uri[mark + 1..].to_vec());
    Some(Step::Reroute(Reroute::Internal { path, args }))
}

/// The step of a status whose place an `error_page` takes.
pub(crate) fn intercept(
    settings: &Settings,
    exchange: &mut Exchange,
    status: Status,
    fields: &Fields,
) -> Option<Step> {
    let pages = &exchange.scope.policy.error_pages;
    if !settings.intercept_errors
        || status.0 < 300
        || !pages.iter().any(|page| page.statuses.contains(&status))
    {
        return None;
    }
    for value in fields.all("WWW-Authenticate").filter(|_| status == Status::UNAUTHORIZED) {
        let _ = exchange.response.fields.push(b"WWW-Authenticate", value);
    }
    Some(Step::Finish(status))
}

/// The charset that another server wants a response to have (`X-Accel-Charset`); attached to the exchange.
pub(crate) struct NamedCharset(pub(crate) Bytes);

/// Sets how fast the response is sent and which charset it gets, where the answer says so.
pub(crate) fn accel_settings(settings: &Settings, exchange: &mut Exchange, fields: &Fields) {
    let said = fields.get("X-Accel-Limit-Rate").filter(|_| !settings.ignored.has(Ignored::LIMIT_RATE));
    // Digits without a unit, as in nginx.
    let digits = said.filter(|text| text.iter().all(u8::is_ascii_digit));
    if let Some(rate) = digits.and_then(size_in_text) {
        exchange.wire.limit_rate = Some(rate);
    }
    let charset = fields.get("X-Accel-Charset").filter(|_| !settings.ignored.has(Ignored::CHARSET));
    if let Some(charset) = charset.filter(|name| !name.is_empty()) {
        exchange.attach_own(NamedCharset(Bytes::copy_from_slice(charset)));
    }
}

/// Whether the answer is taken from the server as fast as it comes; the answer itself may say so.
pub(crate) fn is_buffered(settings: &Settings, fields: &Fields) -> bool {
    let said = fields.get("X-Accel-Buffering").filter(|_| !settings.ignored.has(Ignored::BUFFERING));
    match said {
        Some(value) if value.eq_ignore_ascii_case(b"no") => false,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
        _ => settings.buffering,
    }
}
