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

/// `access plus 1 month 2 days`, or `A86400` and `M86400`.
fn parse_age(args: &Args<'_>, words: &[Word]) -> Result<Age, Diagnostic> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string().to_ascii_lowercase()).collect();
    let text = texts.join(" ");
    let bad = || args.error(&format!("has no time \"{text}\""));
    let short = |modified, digits: &str| {
        let seconds = digits.parse().map_err(|_| bad())?;
        Ok(Age { modified, seconds })
    };
    if let Some(digits) = text.strip_prefix('a').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return short(false, digits);
    }
    if let Some(digits) = text.strip_prefix('m').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return short(true, digits);
    }
    let mut parts = text.split_ascii_whitespace().peekable();
    let modified = match parts.next() {
        Some("access" | "now") => false,
        Some("modification") => true,
        _ => return Err(bad()),
    };
    parts.next_if_eq(&"plus");
    let mut seconds: i64 = 0;
    while let Some(count) = parts.next() {
        let count: i64 = count.parse().map_err(|_| bad())?;
        let unit = parts.next().and_then(unit).ok_or_else(bad)?;
        seconds = count.checked_mul(unit).and_then(|part| seconds.checked_add(part)).ok_or_else(bad)?;
    }
    Ok(Age { modified, seconds })
}

fn unit(name: &str) -> Option<i64> {
    const DAY: i64 = 24 * 60 * 60;
    match name.strip_suffix('s').unwrap_or(name) {
        "year" => Some(365 * DAY),
        "month" => Some(30 * DAY),
        "week" => Some(7 * DAY),
        "day" => Some(DAY),
        "hour" => Some(60 * 60),
        "minute" | "min" => Some(60),
        "second" | "sec" => Some(1),
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
        let expires = from.saturating_add(age.seconds);
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
    }
}
