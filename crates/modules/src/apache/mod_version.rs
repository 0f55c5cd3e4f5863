//! Applies sections of `.htaccess` files for certain versions of Apache only.
//!
//! The version is that of the Apache whose behaviour Fulmar follows: 2.4.71.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! <IfVersion >= 2.4>
//! Header set X-Version "2.4 or later"
//! </IfVersion>
//! <IfVersion < 2.4>
//! Header set X-Version old
//! </IfVersion>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-Version: 2.4 or later
//!
//! a
//! ```

use crate::apache::apache_core::sections;
use crate::shared::apache::{VERSION, VERSION_TEXT, pattern, wrong};
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Counted, Directive, Loading, Module};
use std::cmp::Ordering;

/// Sections by Apache's version.
pub static MODULE: Module =
    Module { name: "mod_version", directives: &[&IF_VERSION], variables: &[], compile: None };

/// `<IfVersion [[!]OPERATOR] VERSION>`
pub(crate) static IF_VERSION: Directive<Counted> = Directive::new("IfVersion", |args, loading| {
    Ok(sections::counted(holds(args, loading)?))
})
.within(Contexts::HTACCESS)
.splices(Arity::Range(1, 2))
.repeats()
.help("A section that counts for a version of Apache, which is the one whose behaviour is followed here.");

/// Whether a section counts: `[[!]OPERATOR] VERSION`.
fn holds(args: &Args<'_>, loading: &mut Loading) -> Result<bool, Diagnostic> {
    use Ordering::{Equal, Greater, Less};
    let (operator, word) = match args.words() {
        [version] => (&b"="[..], version),
        _ => (&*args.word(0)?.text, args.word(1)?),
    };
    let (negated, operator) = match operator.strip_prefix(b"!") {
        Some(operator) => (true, operator),
        None => (false, operator),
    };
    let inner = word.text.strip_prefix(b"/").and_then(|text| text.strip_suffix(b"/"));
    let wanted: &[Ordering] = match (operator, inner) {
        (b"~", None) => return matches(args, loading, &word.text).map(|holds| holds != negated),
        (b"=" | b"==", Some(text)) => return matches(args, loading, text).map(|holds| holds != negated),
        (b"=" | b"==", None) => &[Equal],
        (b">", None) => &[Greater],
        (b">=", None) => &[Greater, Equal],
        (b"<", None) => &[Less],
        (b"<=", None) => &[Less, Equal],
        _ => return Err(wrong(args, "an unknown operator before", word)),
    };
    let version = version(&word.to_string()).ok_or_else(|| wrong(args, "no version:", word))?;
    Ok(wanted.contains(&VERSION.cmp(&version)) != negated)
}

fn matches(args: &Args<'_>, loading: &mut Loading, text: &[u8]) -> Result<bool, Diagnostic> {
    Ok(pattern(args, loading, args.word(args.words().len() - 1)?, text, false)?
        .is_match(VERSION_TEXT.as_bytes()))
}

/// `MAJOR[.MINOR[.PATCH]]`; what is missing is zero.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut version = [0; 3];
    let mut parts = text.split('.');
    for place in &mut version {
        match parts.next() {
            Some(part) => *place = part.parse().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions() {
        assert_eq!(version("2.4"), Some([2, 4, 0]));
        assert_eq!(version("2.4.10"), Some([2, 4, 10]));
        assert_eq!(["", "x", "2.", "2.4.1.1"].map(version), [None; 4]);
    }
}
