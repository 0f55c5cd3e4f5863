//! Cookies that a rule sets: the flag `CO`.

use super::context::Context;
use super::text::Text;
use crate::shared::apache::bounded::Failure;
use conf::{Diagnostic, Word};
use contract::{Args, Exchange, Reach};
use journal::clock::Time;
use std::cell::RefCell;

/// `[CO=name:value:domain[:minutes[:path[:secure[:httponly[:samesite]]]]]]`, or with `;` in place of each `:` where it
/// starts with one.
#[derive(Clone, Debug)]
pub(super) struct Cookie {
    text: Text,
}

/// The names of the cookies that the rules of a request set. Each counts once.
#[derive(Default)]
struct Set(RefCell<Vec<String>>);

impl Cookie {
    pub(super) fn parse(args: &Args<'_>, text: &str) -> Result<Cookie, Diagnostic> {
        Ok(Cookie { text: Text::parse(args, &Word::new(text, args.node.span), text.as_bytes())? })
    }

    /// The cookie's name and the value of `Set-Cookie`; none without a domain.
    pub(super) fn line(&self, context: &Context<'_>) -> Result<Option<(String, String)>, Failure> {
        let text = String::from_utf8_lossy(&self.text.evaluate(context)?).into_owned();
        let (text, separator) = match text.strip_prefix(';') {
            Some(text) => (text, ';'),
            None => (text.as_str(), ':'),
        };
        let mut parts = text.split(separator).filter(|part| !part.is_empty());
        let (Some(name), Some(value), Some(domain)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(None);
        };
        let minutes: i64 = parts.next().and_then(|minutes| minutes.parse().ok()).unwrap_or(0);
        let mut line = format!("{name}={value}; path={}; domain={domain}", parts.next().unwrap_or("/"));
        if minutes != 0 {
            line += &format!(
                "; expires={}",
                date(Time::now().seconds.saturating_add(minutes.saturating_mul(60)))
            );
        }
        let is = |part: Option<&str>, word: &str| {
            part.is_some_and(|part| {
                part == "1" || ["true", word].iter().any(|on| part.eq_ignore_ascii_case(on))
            })
        };
        if is(parts.next(), "secure") {
            line += "; secure";
        }
        if is(parts.next(), "HttpOnly") {
            line += "; HttpOnly";
        }
        if let Some(site) = parts.next().filter(|site| *site != "0" && !site.eq_ignore_ascii_case("false")) {
            line += &format!("; SameSite={site}");
        }
        Ok(Some((name.to_owned(), line)))
    }
}

/// Adds a cookie to the response, unless an earlier rule set one of its name.
pub(super) fn set(exchange: &mut Exchange, (name, line): (String, String)) {
    let known = exchange.attached_or(Reach::Shared, Set::default);
    if known.0.borrow().contains(&name) {
        return;
    }
    known.0.borrow_mut().push(name);
    // A value that is no field's is left out.
    let _ = exchange.response.fields.push(b"Set-Cookie", line.as_bytes());
}

/// A moment as Netscape wrote it: `Wed, 09-Nov-1999 23:12:40 GMT`.
fn date(seconds: i64) -> String {
    let text = http::format_date(seconds);
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (weekday, day, month, year, time) = (word(), word(), word(), word(), word());
    format!("{weekday} {day}-{month}-{year} {time} GMT")
}
