//! The application's head as the client sees it.

use crate::shared::gateway::{Counting, log_dropped, media_type, reason};
use crate::shared::validators;
use bytes::Bytes;
use contract::Exchange;
use fcgi::Head;
use http::{Fields, KnownName, Method, Repeated, Status, parse_number};
use upstream::{Kind, Settings};

/// The answer of an application.
pub(crate) struct Answer<'a> {
    pub(crate) head: &'a Head,
    /// The length of the content, where the head announces it.
    pub(crate) length: Option<u64>,
    /// The media type of the last answer. It is reused if this answer has the same.
    pub(crate) media_type: &'a mut Bytes,
}

/// The length of content that the fields announce.
///
/// # Errors
/// A message for the error log: an invalid length, two lengths, or a length with a transfer coding.
pub(crate) fn announced(fields: &Fields) -> Result<Option<u64>, String> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let written = match fields.only(KnownName::ContentLength) {
        Ok(None) => return Ok(None),
        Ok(Some(written)) => written,
        Err(Repeated) => {
            let texts: Vec<_> = fields.all("Content-Length").take(2).map(text).collect();
            return Err(format!(
                "upstream sent duplicate header line: \"Content-Length: {}\", previous value: \
                 \"Content-Length: {}\"",
                texts[1], texts[0]
            ));
        }
    };
    if fields.only(KnownName::TransferEncoding) != Ok(None) {
        let message = "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
        return Err(message.to_owned());
    }
    let invalid =
        || format!("upstream sent invalid \"Content-Length\" header: \"Content-Length: {}\"", text(written));
    parse_number(written).map(Some).ok_or_else(invalid)
}

/// Sets status, headers and length of the response from the answer, and from `fields`, which are the answer's headers as
/// they are to be passed on.
pub(crate) fn describe(settings: &Settings, exchange: &mut Exchange, answer: Answer<'_>, fields: &Fields) {
    let Answer { head, length, media_type: before } = answer;
    let is_judged = leaves_conditions(exchange, head);
    exchange.wire.relayed = !is_judged;
    let reason = reason(exchange, head.status, &head.reason).filter(|(_, text)| !text.is_empty());
    let response = &mut exchange.response;
    (response.status, response.reason) = (head.status, reason);
    response.content_length = length;
    let mut counting = Counting::default();
    let mut too_long = None;
    for field in fields.iter() {
        let kind = Kind::of(&field);
        if !counting.counts(kind) || kind == Kind::Own || settings.hidden.has_field(kind, &field) {
            continue;
        }
        if kind == Kind::ContentType {
            response.content_type = media_type(field.value, before);
        } else {
            too_long = response.fields.push_checked(&field).err().map(|_| field.name).or(too_long);
        }
    }
    if let Some(name) = too_long {
        log_dropped(exchange, name, "application", "all headers are too long");
    }
    if is_judged {
        validators::adopt(&mut exchange.response);
    }
}

/// Whether this server judges the conditions of the request, as Apache does for programs: the program sent no `Status` of
/// its own.
fn leaves_conditions(exchange: &Exchange, head: &Head) -> bool {
    exchange.scope.policy.overlay.is_some()
        && matches!(exchange.request.method, Method::Get | Method::Head)
        && head.status == Status::OK
        && head.reason.is_empty()
}

/// `Ok` if the answer has content that is passed on. Otherwise (HEAD, 204, 304 …) `Err`, with the number of bytes that arrived
/// behind the head (`held`), or with `None` if such bytes do not count.
pub(crate) fn has_content(exchange: &Exchange, head: &Head, held: usize) -> Result<(), Option<usize>> {
    let is_head = exchange.request.method == Method::Head;
    if !is_head && !head.status.is_bodiless() {
        return Ok(());
    }
    // nginx treats a 204 or 304 as one that may have content if its status line has a reason phrase.
    let has_reason = !is_head && exchange.response.reason().is_some();
    Err(has_reason.then_some(held))
}

#[cfg(test)]
mod tests {
    use super::announced;
    use http::Fields;

    #[test]
    fn one_length_and_nothing_beside_it() {
        let of = |fields: &[(&str, &str)]| {
            let mut list = Fields::new();
            fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()).unwrap());
            announced(&list).map_err(|message| message.split(' ').nth(2).unwrap_or_default().to_owned())
        };
        assert_eq!(of(&[("A", "b")]), Ok(None));
        assert_eq!(of(&[("content-length", "0")]), Ok(Some(0)));
        for value in ["", "-1", "+1", "1 ", "0x1", "1,1", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(of(&[("Content-Length", value)]), Err("invalid".into()), "{value:?}");
        }
        assert_eq!(of(&[("Content-Length", "1"), ("Content-Length", "1")]), Err("duplicate".into()));
        let both = of(&[("Content-Length", "1"), ("Transfer-Encoding", "chunked")]);
        assert_eq!(both, Err("\"Content-Length\"".into()));
    }
}
