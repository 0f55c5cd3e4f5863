//! Answers conditional requests: `etag`, `if_modified_since`.
//!
//! Files are sent with `Last-Modified` and, unless `etag` is off, with an entity tag of their time and size. A
//! request with `If-None-Match` or `If-Modified-Since` gets 304 without content if the client has the current
//! content. A request with `If-Match` or `If-Unmodified-Since` gets 412 if the content has changed.
//! `if_modified_since` chooses how times are compared: `exact`, `before` (304 also if the file is older than the client's time) or `off`
//! (times are not compared). Responses of `proxy_pass` or `fastcgi_pass` are not changed, because the upstream server
//! got the conditions. With [`htaccess on`](htaccess.md#htaccess) Fulmar judges conditions as Apache does, those of
//! [programs](../htaccess.md#conditional-requests) too. Conditions for cached responses are evaluated here, with `proxy_cache_rules rfc9111` by
//! [its rules](../caching.md#the-rules-of-rfc-9111). In the example, the `*` after `Last-Modified:` stands for the time of
//! the file; the `*` after `If-Match:` is sent as it is.
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     if_modified_since before;
//!     etag off;
//! }
//! ```
//!
//! ```http
//! GET /page.txt HTTP/1.1
//! Host: localhost
//! If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT
//!
//! HTTP/1.1 304 Not Modified
//! Last-Modified: *
//! ---
//! GET /page.txt HTTP/1.1
//! Host: localhost
//! If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT
//!
//! HTTP/1.1 412 Precondition Failed
//! ---
//! GET /page.txt HTTP/1.1
//! Host: localhost
//! If-Match: *
//!
//! HTTP/1.1 200 OK
//!
//! page
//! ```

use crate::shared::cached::Cached;
use conf::{Contexts, Diagnostic, value};
use contract::{Body, Directive, Exchange, Filter, Module, ScopeBuilder, View};
use http::{Fields, ResponseHead, Status};
use journal::clock::Time;

/// Conditional requests.
pub static MODULE: Module = Module {
    name: "not_modified",
    directives: &[&ETAG, &IF_MODIFIED_SINCE],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `etag on | off`
pub static ETAG: Directive<bool> =
    Directive::flag("etag").within(LEVELS).default("on").help("Whether files get an entity tag.");

/// `if_modified_since off | exact | before`
pub static IF_MODIFIED_SINCE: Directive<IfModifiedSince> =
    Directive::new("if_modified_since", |args, _| args.value(0, |word| value::choice(word, &COMPARISONS)))
        .within(LEVELS)
        .default("exact")
        .help("How the time of `If-Modified-Since` is compared.");

/// What is done about If-Modified-Since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// It is ignored.
    Off,
    /// The times must be the same.
    Exact,
    /// The content must not be newer.
    Before,
}

const COMPARISONS: [(&str, IfModifiedSince); 3] =
    [("off", IfModifiedSince::Off), ("exact", IfModifiedSince::Exact), ("before", IfModifiedSince::Before)];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    view.assign(&ETAG, &mut builder.policy.etag);
    builder.filter(NotModified { since: view.get(&IF_MODIFIED_SINCE).copied() });
    Ok(())
}

/// Answers conditional requests (RFC 9110, section 13).
struct NotModified {
    /// How times are compared, if the configuration says so.
    since: Option<IfModifiedSince>,
}

/// What the conditions of a request come to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Send,
    NotModified,
    Failed,
}

impl Filter for NotModified {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if exchange.response.status != Status::OK || exchange.wire.relayed {
            return body;
        }
        let verdict = verdict(exchange, self.since);
        // A program runs to its end: a client that has its page may still have asked for work.
        let is_program = exchange.scope.policy.overlay.is_some() && matches!(body, Body::Source(_));
        match verdict {
            Verdict::Send => return body,
            Verdict::NotModified => {
                let response = &mut exchange.response;
                response.status = Status::NOT_MODIFIED;
                response.content_type = None;
                response.content_length = None;
                response.accept_ranges = false;
                response.fields.remove("content-encoding");
            }
            // Nothing of what was meant to be sent is left for the error's page.
            Verdict::Failed => exchange.response = ResponseHead::new(Status::PRECONDITION_FAILED),
        }
        exchange.wire.outlasts |= is_program;
        // Content that is kept for others is read all the same.
        if exchange.wire.outlasts { body } else { Body::Empty }
    }
}

/// The conditions of a request (RFC 9110, section 13.1).
struct Conditions<'a> {
    matches: Option<&'a [u8]>,
    unmodified_since: Option<&'a [u8]>,
    none_match: Option<&'a [u8]>,
    modified_since: Option<&'a [u8]>,
}

impl<'a> Conditions<'a> {
    /// `None` if the request has no condition.
    fn of(fields: &'a Fields) -> Option<Conditions<'a>> {
        let conditions = Conditions {
            matches: fields.get("if-match"),
            unmodified_since: fields.get("if-unmodified-since"),
            none_match: fields.get("if-none-match"),
            modified_since: fields.get("if-modified-since"),
        };
        let Conditions { matches, unmodified_since, none_match, modified_since } = &conditions;
        let all = [matches, unmodified_since, none_match, modified_since];
        all.iter().any(|condition| condition.is_some()).then_some(conditions)
    }
}

fn verdict(exchange: &Exchange, how: Option<IfModifiedSince>) -> Verdict {
    let response = &exchange.response;
    let Some(conditions) = Conditions::of(&exchange.request.head.fields) else { return Verdict::Send };
    let is_apache = exchange.scope.policy.overlay.is_some();
    let usual = if is_apache { IfModifiedSince::Before } else { IfModifiedSince::Exact };
    let how = how.unwrap_or(usual);
    if Cached::has_rfc9111(exchange) {
        return verdict_of_cache(response, &conditions, how);
    }
    let Conditions { matches, unmodified_since, none_match, modified_since } = conditions;
    let unmodified = |since: &[u8]| match http::parse_date(since) {
        Some(time) => response.last_modified.is_some_and(|modified| time >= modified),
        // Apache ignores an invalid time, for nginx the content has changed since.
        None => is_apache,
    };
    let tag = response.etag.as_deref();
    let is_other = |list: &[u8]| !is_listed(list, tag, false);
    if unmodified_since.is_some_and(|since| !unmodified(since)) || matches.is_some_and(is_other) {
        return Verdict::Failed;
    }
    if modified_since.is_none() && none_match.is_none() {
        return Verdict::Send;
    }
    // Apache ignores a time that is still to come (RFC 9110, section 13.1.3).
    let latest = if is_apache { Time::now().seconds } else { i64::MAX };
    let modified =
        modified_since.is_some_and(|since| is_modified(since, response.last_modified, (how, latest)));
    let other_tag = none_match.is_some_and(|list| !is_listed(list, tag, true));
    if modified || other_tag { Verdict::Send } else { Verdict::NotModified }
}

/// The verdict of a cache by RFC 9111, section 4.3.2. `If-Match` and `If-Unmodified-Since` are for the origin server. If there
/// is `If-None-Match`, `If-Modified-Since` does not count.
fn verdict_of_cache(response: &ResponseHead, conditions: &Conditions<'_>, how: IfModifiedSince) -> Verdict {
    let how = if how == IfModifiedSince::Off { how } else { IfModifiedSince::Before };
    let date = || response.fields.get("date").and_then(http::parse_date);
    let is_current = match (conditions.none_match, conditions.modified_since) {
        (Some(list), _) => is_listed(list, response.etag.as_deref(), true),
        (None, Some(since)) => !is_modified(since, response.last_modified.or_else(date), (how, i64::MAX)),
        (None, None) => false,
    };
    if is_current { Verdict::NotModified } else { Verdict::Send }
}

/// Whether the content has changed since a time. A time that is invalid, or later than the latest one that counts, says nothing.
fn is_modified(since: &[u8], last_modified: Option<i64>, (how, latest): (IfModifiedSince, i64)) -> bool {
    let Some(last_modified) = last_modified else { return true };
    let since = http::parse_date(since).filter(|time| *time <= latest).unwrap_or(-1);
    match how {
        IfModifiedSince::Off => true,
        IfModifiedSince::Exact => since != last_modified,
        IfModifiedSince::Before => since < last_modified,
    }
}

/// Whether a list of entity tags has this tag, or is `*`. Where `weak` is set, two tags are the same even
/// if one of them or both are weak (RFC 9110, section 8.8.3.2).
fn is_listed(list: &[u8], tag: Option<&[u8]>, weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(tag) = tag else { return false };
    let strong = |tag: &'_ [u8]| match tag.strip_prefix(b"W/") {
        Some(rest) if weak => rest.to_vec(),
        _ => tag.to_vec(),
    };
    let tag = strong(tag);
    let mut rest = list;
    while !rest.is_empty() {
        rest = if weak { rest.strip_prefix(b"W/").unwrap_or(rest) } else { rest };
        if let Some(after) = rest.strip_prefix(&tag[..])
            && matches!(after.trim_ascii_start().first(), None | Some(b','))
        {
            return true;
        }
        let comma = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
        let skipped = rest[comma..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b',')).count();
        rest = &rest[comma + skipped..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Verdict, is_listed};
    use crate::testing::Site;
    use contract::Body;
    use http::Status;
    use std::sync::Arc;

    const OLD: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const OLDER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn ask(text: &str, fields: &[(&str, &str)]) -> Verdict {
        let mut exchange = Site::location(text).get("/");
        exchange.response.last_modified = Some(784_111_777);
        exchange.response.etag = Some(b"W/\"a\"".as_slice().into());
        for (name, value) in fields {
            exchange.request.head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let scope = Arc::clone(&exchange.scope);
        scope.filters().iter().fold(Body::Empty, |body, filter| filter.apply(&mut exchange, body));
        match exchange.response.status {
            Status::NOT_MODIFIED => Verdict::NotModified,
            Status::PRECONDITION_FAILED => Verdict::Failed,
            _ => Verdict::Send,
        }
    }

    #[test]
    fn times() {
        assert_eq!(ask("", &[("If-Modified-Since", SAME)]), Verdict::NotModified);
        assert_eq!(ask("", &[("If-Modified-Since", OLD)]), Verdict::Send, "newer, but not the same");
        assert_eq!(ask("if_modified_since before;", &[("If-Modified-Since", OLD)]), Verdict::NotModified);
        assert_eq!(ask("if_modified_since before;", &[("If-Modified-Since", SAME)]), Verdict::NotModified);
        assert_eq!(ask("if_modified_since before;", &[("If-Modified-Since", OLDER)]), Verdict::Send);
        assert_eq!(ask("if_modified_since off;", &[("If-Modified-Since", SAME)]), Verdict::Send);
        assert_eq!(ask("", &[("If-Modified-Since", "never")]), Verdict::Send);
        assert_eq!(ask("", &[("If-Unmodified-Since", SAME)]), Verdict::Send);
        assert_eq!(ask("", &[("If-Unmodified-Since", OLDER)]), Verdict::Failed);
        assert_eq!(ask("", &[("If-Unmodified-Since", "never")]), Verdict::Failed);
    }

    #[test]
    fn both_have_to_say_that_nothing_changed() {
        assert_eq!(ask("", &[("If-None-Match", "\"a\"")]), Verdict::NotModified);
        let other = [("If-None-Match", "\"b\""), ("If-Modified-Since", SAME)];
        assert_eq!(ask("", &other), Verdict::Send);
        let older = [("If-None-Match", "\"a\""), ("If-Modified-Since", OLDER)];
        assert_eq!(ask("", &older), Verdict::Send);
        assert_eq!(ask("", &[("If-Match", "\"a\"")]), Verdict::Failed, "a weak tag never matches here");
        assert_eq!(ask("", &[("If-Match", "W/\"a\"")]), Verdict::Send);
    }

    #[test]
    fn lists() {
        let tag = Some(&b"\"a\""[..]);
        assert!(is_listed(b"\"x\", W/\"a\" ,\"y\"", tag, true));
        assert!(is_listed(b"\"x\",\"a\"", tag, false));
        assert!(!is_listed(b"W/\"a\"", tag, false));
        assert!(!is_listed(b"\"a\"x", tag, true));
        assert!(is_listed(b"*", None, true));
        assert!(!is_listed(b"\"a\"", None, true));
        assert!(!is_listed(b"", tag, true));
    }
}
