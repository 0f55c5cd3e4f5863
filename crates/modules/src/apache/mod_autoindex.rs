//! Settings of listings in `.htaccess` files.
//!
//! Listings look as [`autoindex_format`](autoindex.md) says, and `Options` says whether there are any.
//!
//! nginx: none
//!
//! ```file html/files/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! Options +Indexes
//! IndexIgnore *
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
//! GET /files/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::apache::apache_core::content;
use crate::shared::apache::in_file;
use conf::Arity;
use contract::{Directive, Module, View};

/// Listings.
pub static MODULE: Module = Module {
    name: "mod_autoindex",
    directives: &[&INDEX_IGNORE, &INDEX_OPTIONS],
    variables: &[],
    compile: None,
};

/// `IndexIgnore NAME …`
pub(crate) static INDEX_IGNORE: Directive<()> = in_file(Directive::new("IndexIgnore", |_, _| Ok(())))
    .args(Arity::AtLeast(1))
    .help("Files that a listing leaves out: here the directory is not listed at all.");

/// `IndexOptions OPTION …`
pub(crate) static INDEX_OPTIONS: Directive<()> = in_file(Directive::new("IndexOptions", |_, _| Ok(())))
    .args(Arity::AtLeast(1))
    .help("Has no effect: listings look as `autoindex_format` says.");

/// Whether directories are listed, where a file says so.
pub(crate) fn lists_directories(view: &View<'_>) -> Option<bool> {
    // A listing must not show files that are to be hidden, and it cannot hide single files.
    match view.get(&INDEX_IGNORE) {
        Some(()) => Some(false),
        None => content::lists_directories(view),
    }
}
