//! Files that were compressed beforehand.
//!
//! With `gzip_static on` a client that accepts gzip is sent `page.html.gz` in place of `page.html`, if it
//! is there, with the media type of `page.html`. Unlike with `gzip` the length is known, parts can be
//! asked for, and nothing is compressed while serving. The two files should have the same time. `always`
//! sends the compressed file to every client, whether or not it accepts it. `gzip_vary`, `gzip_proxied`,
//! `gzip_http_version` and `gzip_disable` count as they do for `gzip`. Which file is sent where there are several is
//! said at [precompressed](precompressed.md).
//!
//! It is always there, where nginx has to be built with it.
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

use crate::files::precompressed::{self, Mode};
use crate::transform::coding::LEVELS;
use contract::{Directive, Module};

/// Files that were compressed beforehand.
pub static MODULE: Module =
    Module { name: "gzip_static", directives: &[&GZIP_STATIC], variables: &[], compile: None };

/// `gzip_static on | off | always`
pub static GZIP_STATIC: Directive<Mode> = Directive::new("gzip_static", precompressed::parse)
    .within(LEVELS)
    .default("off")
    .help("Whether a file with `.gz` behind its name is sent in place of a file.");
