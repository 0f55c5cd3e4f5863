//! Reads Apache's `.htaccess` files.
//!
//! With `htaccess on`, a location reads the `.htaccess` files of all directories from its root to the file, as Apache
//! does with `AllowOverride All`. Settings of a file override those of the location, and those of an inner directory
//! override those of an outer one. A change applies to the next request. Files whose names start with `.ht` are never
//! sent.
//!
//! If a file has an error, or a directive that is not supported, its directory answers 500, and the error log names
//! the file and the line. If a file cannot be read, its directory answers 403. [.htaccess files](../htaccess.md)
//! lists the supported directives, the limits and the differences.
//!
//! nginx: none
//!
//! ```file html/.htaccess
//! RewriteEngine On
//! RewriteCond %{REQUEST_FILENAME} !-f
//! RewriteRule ^pages/(.+)$ page.txt?name=$1 [L,QSA]
//! Redirect 301 /moved http://example.com/there
//! Header set X-From .htaccess
//! ErrorDocument 404 "Nothing here."
//! ```
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```file html/private/.htaccess
//! Require all denied
//! ```
//!
//! ```file html/private/a.txt
//! secret
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         htaccess on;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /pages/one HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-From: .htaccess
//!
//! page
//! ---
//! GET /moved/a HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: http://example.com/there/a
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//!
//! Nothing here.
//! ---
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /.htaccess HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::apache::apache_core::{documents, sections};
use crate::files::symlinks::Links;
use conf::{Contexts, Diagnostic};
use contract::{Directive, Exchange, Handler, Module, Overlay, Phase, ScopeBuilder, Step, View};
use http::Status;
use journal::Level;

/// Apache's `.htaccess` files.
pub static MODULE: Module =
    Module { name: "htaccess", directives: &[&HTACCESS], variables: &[], compile: Some(compile) };

/// `htaccess on | off`
pub static HTACCESS: Directive<bool> = Directive::flag("htaccess")
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .default("off")
    .help("Whether Fulmar reads `.htaccess` files.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.get(&HTACCESS).copied().unwrap_or(false) {
        return Ok(());
    }
    let selections = &sections::FILES;
    builder.policy.overlay = Some(Overlay { section: view.section(), file_name: ".htaccess", selections });
    builder.policy.overlay_opener = Links::of(view).opener();
    builder.handle(Phase::Preaccess, Hidden);
    documents::remember(view, builder);
    Ok(())
}

/// Keeps the files with settings, and those with passwords, to ourselves.
struct Hidden;

impl Handler for Hidden {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let mut segments = exchange.request.path.split(|&byte| byte == b'/');
        if !segments.any(|segment| segment.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b".ht"))) {
            return Step::Next;
        }
        exchange.log(Level::Error, "access forbidden: a name that starts with \".ht\"");
        Step::Finish(Status::FORBIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::Hidden;
    use crate::testing::{Site, status};
    use contract::{Handler, Phase};

    #[test]
    fn off_is_not_there() {
        let scope = Site::location("htaccess off;").get("/").scope.clone();
        assert!(scope.policy.overlay.is_none() && scope.handlers(Phase::Preaccess).is_empty());
        assert!(Site::location("htaccess on;").get("/").scope.policy.overlay.is_some());
    }

    #[test]
    fn names_that_start_so_are_hidden() {
        let site = Site::location("htaccess on;");
        let verdict = |path: &str| status(&Hidden.run(&mut site.get(path)));
        let paths = ["/.htaccess", "/a/.htpasswd", "/.HTACCESS", "/.ht/a", "/a.htaccess", "/.h"];
        assert_eq!(paths.map(verdict), [403, 403, 403, 403, 0, 0]);
    }
}
