//! Says in `.htaccess` files which file answers for a directory.
//!
//! It takes the place of [`index`](index.md).
//!
//! nginx: none
//!
//! ```file html/start.txt
//! start
//! ```
//!
//! ```file html/.htaccess
//! DirectoryIndex index.php start.txt
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
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! start
//! ```

use crate::shared::apache::in_file;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Loading, Module, Template};

/// Which file answers for a directory.
pub static MODULE: Module =
    Module { name: "mod_dir", directives: &[&DIRECTORY_INDEX], variables: &[], compile: None };

/// `DirectoryIndex NAME …`; it takes the place of `index`.
pub(crate) static DIRECTORY_INDEX: Directive<Vec<Template>> =
    in_file(Directive::new("DirectoryIndex", parse_index))
        .args(Arity::AtLeast(1))
        .slot("index")
        .help("The files that answer for a directory, in the order in which they are tried.");

/// Each of these names costs a call of the file system.
const INDEXES_MAX: usize = 100;

fn parse_index(args: &Args<'_>, _: &mut Loading) -> Result<Vec<Template>, Diagnostic> {
    match args.words() {
        [word] if word.text.eq_ignore_ascii_case(b"disabled") => Ok(Vec::new()),
        words if words.len() > INDEXES_MAX => Err(args.error(&format!("has more than {INDEXES_MAX} names"))),
        words => Ok(words.iter().map(|word| Template::literal(&word.text)).collect()),
    }
}
