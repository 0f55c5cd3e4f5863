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
use crate::shared::apache::{pattern, wrong};
use conf::apache::{VERSION_TEXT, is_version};
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Counted, Directive, Loading, Module};

/// Sections by Apache's version.
pub static MODULE: Module =
    Module { name: "mod_version", directives: &[&IF_VERSION], variables: &[], compile: None };

/// `<IfVersion [[!]OPERATOR] VERSION>`
pub(crate) static IF_VERSION: Directive<Counted> = Directive::new("IfVersion", |args, loading| {
    let matches = |text: &[u8]| matches(args, loading, text);
    let wrong = |what: &str, word: &conf::Word| wrong(args, what, word);
    Ok(sections::counted(is_version(args.words(), matches, wrong)?))
})
.within(Contexts::PER_DIRECTORY)
.splices(Arity::Range(1, 2))
.repeats()
.help("A section that counts for a version of Apache, which is the one whose behaviour is followed here.");

fn matches(args: &Args<'_>, loading: &mut Loading, text: &[u8]) -> Result<bool, Diagnostic> {
    Ok(pattern(args, loading, args.word(args.words().len() - 1)?, text, false)?
        .is_match(VERSION_TEXT.as_bytes()))
}
