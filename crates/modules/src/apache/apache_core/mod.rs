//! Sections, options and error documents of `.htaccess` files: the directives of Apache's core.
//!
//! `<IfModule>` is true for the modules of Apache that have a page here. `<Files>` and `<FilesMatch>` compare the
//! name of the file, `<Limit>` and `<LimitExcept>` the method.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/config.inc
//! secret
//! ```
//!
//! ```file html/.htaccess
//! ErrorDocument 404 "Nothing here."
//! <Files "*.inc">
//! Require all denied
//! </Files>
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
//! GET /config.inc HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//!
//! Nothing here.
//! ```

mod charset;
pub(crate) mod content;
mod digest;
pub(crate) mod documents;
mod etag;
mod requests;
pub(crate) mod sections;

use conf::Diagnostic;
use contract::{Module, ScopeBuilder, View};

/// The directives of Apache's core.
pub static MODULE: Module = Module {
    name: "apache_core",
    directives: &[
        &sections::IF_MODULE,
        &sections::IF_DEFINE,
        &sections::IF_FILE,
        &sections::IF_DIRECTIVE,
        &sections::IF_SECTION,
        &sections::FILES,
        &sections::FILES_MATCH,
        &sections::LOCATION,
        &sections::LOCATION_MATCH,
        &sections::LIMIT,
        &sections::LIMIT_EXCEPT,
        &sections::IF,
        &sections::ELSE_IF,
        &sections::ELSE,
        &documents::ERROR_DOCUMENT,
        &content::OPTIONS,
        &content::FORCE_TYPE,
        &content::DEFAULT_TYPE,
        &etag::FILE_ETAG,
        &content::SERVER_SIGNATURE,
        &charset::ADD_DEFAULT_CHARSET,
        &requests::LIMIT_REQUEST_BODY,
        &requests::ACCEPT_PATH_INFO,
    ],
    variables: &[],
    compile: Some(compile),
};

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.context().is_per_directory() {
        content::compile(view, builder);
        documents::compile(view, builder);
        charset::compile(view, builder);
        etag::compile(view, builder);
        requests::compile(view, builder);
    }
    Ok(())
}
