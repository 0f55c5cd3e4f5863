//! Sends files that were compressed beforehand with gzip.
//!
//! With `gzip_static on`, a client that accepts gzip gets `page.html.gz` instead of `page.html`, if that file exists,
//! with the media type of `page.html`. Unlike with `gzip`, the length is known, ranges work, and nothing is
//! compressed while serving. Give both files the same time. With `always` every client gets the compressed file, also
//! one that does not accept it. `gzip_vary`, `gzip_proxied`, `gzip_http_version` and `gzip_disable` apply as they do
//! for `gzip`. [precompressed](precompressed.md) says which file is sent if there are several.
//!
//! nginx: --with-http_gzip_static_module
//!
//! ```file html/page.html
//! plain
//! ```
//!
//! ```file html/page.html.gz
//! compressed
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     gzip_static on;
//!     gzip_vary on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Content-Length: 11
//! Vary: Accept-Encoding
//! ETag: *
//! Content-Encoding: gzip
//!
//! compressed
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 6
//! Vary: Accept-Encoding
//!
//! plain
//! ```

use crate::shared::compression::{LEVELS, Mode, parse_mode};
use contract::{Directive, Module};

/// Files that were compressed beforehand.
pub static MODULE: Module =
    Module { name: "gzip_static", directives: &[&GZIP_STATIC], variables: &[], compile: None };

/// `gzip_static on | off | always`
pub static GZIP_STATIC: Directive<Mode> = Directive::new("gzip_static", parse_mode)
    .within(LEVELS)
    .default("off")
    .help("Whether the compressed file `NAME.gz` is sent instead of the file.");
