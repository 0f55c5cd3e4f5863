//! Tells clients in `.htaccess` files how long content stays fresh (`Expires`, `Cache-Control: max-age`).
//!
//! A time counts from the request (`access`, `now`) or from the last change of the file (`modification`).
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/style.css
//! p {}
//! ```
//!
//! ```file html/.htaccess
//! ExpiresActive On
//! ExpiresByType text/css "access plus 1 month"
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//!     types { text/css css; text/plain txt; }
//! }
//! ```
//!
//! ```http
//! GET /style.css HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Cache-Control: max-age=2592000
//! Expires: *
//!
//! p {}
//! ---
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ```

use crate::shared::apache::{in_all_files, in_file, values};
use crate::transform::headers::expires::{max_age, push_expires};
use conf::{Arity, Diagnostic, Word, value};
use contract::{Args, Body, Directive, Exchange, Filter, Module, ScopeBuilder, View};
use journal::clock::Time;

/// When content is stale.
pub static MODULE: Module = Module {
    name: "mod_expires",
    directives: &[&ACTIVE, &BY_TYPE, &DEFAULT],
    variables: &[],
    compile: Some(compile),
};

/// `ExpiresActive On | Off`
pub(crate) static ACTIVE: Directive<bool> =
    in_file(Directive::new("ExpiresActive", |args, _| args.value(0, value::flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether responses say when they expire.");

/// `ExpiresByType TYPE TIME`
pub(crate) static BY_TYPE: Directive<ByType> = in_all_files(Directive::new("ExpiresByType", |args, _| {
    Ok(ByType {
        media_type: args.word(0)?.text.to_ascii_lowercase().into(),
        age: parse_age(args, &args.words()[1..])?,
    })
}))
.args(Arity::AtLeast(2))
.help("When content of a media type expires.");

/// `ExpiresDefault TIME`
pub(crate) static DEFAULT: Directive<Age> =
    in_file(Directive::new("ExpiresDefault", |args, _| parse_age(args, args.words())))
        .args(Arity::AtLeast(1))
        .help("When content of all other media types expires.");

/// When content of a media type is stale.
#[derive(Clone, Debug)]
pub(crate) struct ByType {
    media_type: Box<[u8]>,
    age: Age,
}

/// Seconds after the request, or after the last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    modified: bool,
    seconds: i64,
}

/// `access plus 1 month 2 days`, or `A86400` and `M86400`. As in Apache the first letter of a word counts.
fn parse_age(args: &Args<'_>, words: &[Word]) -> Result<Age, Diagnostic> {
    let texts: Vec<String> = words.iter().map(Word::to_string).collect();
    let text = texts.join(" ");
    let bad = || args.error(&format!("has no time \"{text}\""));
    if let Some(rest) = text.strip_prefix(['A', 'M']) {
        // Also of "Access plus 1 day", Apache reads the number after the capital: none.
        return Ok(Age { modified: text.starts_with('M'), seconds: leading_number(rest).ok_or_else(bad)? });
    }
    let mut parts = text.split_ascii_whitespace().peekable();
    let modified = match parts.next().map(first_letter) {
        Some(b'a' | b'n') => false,
        Some(b'm') => true,
        _ => return Err(bad()),
    };
    parts.next_if(|word| first_letter(word) == b'p');
    let mut seconds: i64 = 0;
    while let Some(word) = parts.next() {
        let count = leading_number(word).filter(|_| first_letter(word).is_ascii_digit()).ok_or_else(bad)?;
        let unit = parts.next().and_then(unit).ok_or_else(bad)?;
        seconds = count.checked_mul(unit).and_then(|part| seconds.checked_add(part)).ok_or_else(bad)?;
    }
    Ok(Age { modified, seconds })
}

fn first_letter(word: &str) -> u8 {
    word.as_bytes().first().map_or(0, u8::to_ascii_lowercase)
}

/// The number at the start of a text, 0 if there is none; nothing if it is too large.
fn leading_number(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let digits = &text[..end];
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// A unit of time. As in Apache only its first letters count.
fn unit(name: &str) -> Option<i64> {
    const DAY: i64 = 24 * 60 * 60;
    match name.to_ascii_lowercase().as_bytes() {
        [b'y', ..] => Some(365 * DAY),
        [b'm', b'o', ..] => Some(30 * DAY),
        [b'w', ..] => Some(7 * DAY),
        [b'd', ..] => Some(DAY),
        [b'h', ..] => Some(60 * 60),
        [b'm', b'i', ..] => Some(60),
        [b's', ..] => Some(1),
        _ => None,
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if values(view, &ACTIVE).pop().unwrap_or(false) {
        // The last line for a type overrides the others. A type with parameters matches none.
        let by_type = values(view, &BY_TYPE).into_iter().rev();
        let by_type = by_type.filter(|line| !line.media_type.contains(&b';'));
        builder.filter(Expires { by_type: by_type.collect(), default: values(view, &DEFAULT).pop() });
    }
    Ok(())
}

struct Expires {
    by_type: Vec<ByType>,
    default: Option<Age>,
}

impl Filter for Expires {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_set = exchange.response.fields.get("expires").is_some();
        if is_set || exchange.response.status.is_error() {
            return body;
        }
        let Some(age) = self.of_type(exchange.response.content_type.as_deref()) else { return body };
        let now = Time::now().seconds;
        let from = match (age.modified, exchange.response.last_modified) {
            (false, _) => now,
            (true, Some(modified)) => modified,
            (true, None) => return body,
        };
        // As in Apache nothing expired before now.
        let expires = from.saturating_add(age.seconds).max(now);
        let fields = &mut exchange.response.fields;
        let left = expires.saturating_sub(now);
        let Some(present) = fields.get("cache-control") else {
            push_expires(fields, expires, Some(left));
            return body;
        };
        let joined = [present, &max_age(left)].join(&b", "[..]);
        // What was there was a field already; all else is digits and letters.
        let _ = fields.set("Cache-Control", &joined);
        push_expires(fields, expires, None);
        body
    }
}

impl Expires {
    fn of_type(&self, content_type: Option<&[u8]>) -> Option<Age> {
        let text = content_type.unwrap_or_default();
        // Most types have no parameters, and are written in lower case.
        if let Some(line) = self.by_type.iter().find(|line| *line.media_type == *text) {
            return Some(line.age);
        }
        let essence = text.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let exact = self.by_type.iter().find(|line| line.media_type.eq_ignore_ascii_case(essence));
        let starts =
            |start: &[u8]| essence.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
        let wide = || self.by_type.iter().find(|line| line.media_type.strip_suffix(b"*").is_some_and(starts));
        exact.or_else(wide).map(|line| line.age).or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn units() {
        assert_eq!(unit("months"), Some(2_592_000));
        assert_eq!(unit("year"), Some(31_536_000));
        assert_eq!(unit("fortnight"), None);
        assert_eq!(
            ["yr", "year?", "mo", "min", "m", ""].map(unit),
            [Some(31_536_000), Some(31_536_000), Some(2_592_000), Some(60), None, None]
        );
    }
}
