//! Apache's `.htaccess` files.
//!
//! With `htaccess on` a location reads the `.htaccess` files on the way from its root to a file, as Apache
//! does with `AllowOverride All`. What the files set counts over what the location sets, an inner directory's
//! file over an outer one's; what they do not set stays the location's. A change counts from the next request
//! on. Files whose names start with `.ht` are never sent.
//!
//! A file with a mistake, or with a directive that is not honoured, makes its directory answer 500, and the
//! error log says which file and line; one that cannot be read makes it answer 403. See
//! [.htaccess files](../htaccess.md) for what is honoured, the limits and the differences.
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

mod bounded;
mod charset;
mod conditional;
mod content;
mod documents;
mod environment;
mod expires;
mod fields;
mod order;
mod redirect;
mod require;
mod rewrite;
mod version;

use crate::files::symlinks::Links;
use conf::value::Pattern;
use conf::{Contexts, Diagnostic, Word};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Overlay, Phase, Rule, ScopeBuilder, Step, View,
};
use http::Status;
use journal::Level;
use std::sync::Arc;

pub(crate) use environment::for_programs;

/// Apache's `.htaccess` files.
pub static MODULE: Module = Module {
    name: "htaccess",
    directives: &[
        &HTACCESS,
        &conditional::IF_MODULE,
        &conditional::IF_DEFINE,
        &conditional::IF_VERSION,
        &conditional::FILES,
        &conditional::FILES_MATCH,
        &conditional::LIMIT,
        &conditional::LIMIT_EXCEPT,
        &conditional::IF,
        &rewrite::ENGINE,
        &rewrite::BASE,
        &rewrite::CONDITION,
        &rewrite::RULE,
        &require::REQUIRE,
        &require::REQUIRE_ALL,
        &require::REQUIRE_ANY,
        &require::REQUIRE_NONE,
        &order::ORDER,
        &order::ALLOW,
        &order::DENY,
        &order::SATISFY,
        &redirect::REDIRECT,
        &redirect::REDIRECT_MATCH,
        &redirect::REDIRECT_PERMANENT,
        &redirect::REDIRECT_TEMP,
        &documents::ERROR_DOCUMENT,
        &fields::HEADER,
        &fields::REQUEST_HEADER,
        &expires::ACTIVE,
        &expires::BY_TYPE,
        &expires::DEFAULT,
        &content::DIRECTORY_INDEX,
        &content::OPTIONS,
        &content::ADD_TYPE,
        &content::FORCE_TYPE,
        &content::DEFAULT_TYPE,
        &content::FILE_ETAG,
        &content::SERVER_SIGNATURE,
        &content::INDEX_IGNORE,
        &content::INDEX_OPTIONS,
        &charset::ADD_DEFAULT_CHARSET,
        &charset::ADD_CHARSET,
        &environment::SET_ENV,
        &environment::UNSET_ENV,
        &environment::SET_ENV_IF,
        &environment::SET_ENV_IF_NO_CASE,
        &environment::BROWSER_MATCH,
        &environment::BROWSER_MATCH_NO_CASE,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `htaccess on | off`
pub static HTACCESS: Directive<bool> = Directive::flag("htaccess")
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .default("off")
    .help("Whether the `.htaccess` files beside the content count.");

/// Steps of backtracking that a pattern in such a file may take: far fewer than the administrator's own.
const STEPS_MAX: u32 = 20_000;

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.get(&HTACCESS).copied().unwrap_or(false) {
        return Ok(());
    }
    let selections = &conditional::FILES;
    builder.policy.overlay = Some(Overlay { section: view.section(), file_name: ".htaccess", selections });
    builder.policy.overlay_opener = Links::of(view).opener();
    builder.handle(Phase::Preaccess, Hidden);
    if view.context() == Contexts::HTACCESS {
        environment::compile(view, builder);
        require::compile(view, builder);
        order::compile(view, builder);
        content::compile(view, builder);
        rewrite::compile(view, builder);
        redirect::compile(view, builder);
        environment::compile_late(view, builder);
        documents::compile(view, builder);
        charset::compile(view, builder);
        expires::compile(view, builder);
        fields::compile(view, builder);
    }
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

/// A directive of `.htaccess` files. The innermost file that has the directive overrides the others.
const fn in_file<T>(directive: Directive<T>) -> Directive<T> {
    directive.within(Contexts::HTACCESS).rule(Rule::List)
}

/// A directive of `.htaccess` files. An inner file adds to the outer ones.
const fn in_all_files<T>(directive: Directive<T>) -> Directive<T> {
    directive.within(Contexts::HTACCESS).rule(Rule::Gather)
}

/// The values of a directive, as inherited by its rule.
fn values<T: Clone>(view: &View<'_>, directive: &Directive<T>) -> Vec<T> {
    view.all(directive).into_iter().map(|written| written.value.clone()).collect()
}

fn pattern(
    args: &Args<'_>,
    loading: &mut Loading,
    word: &Word,
    text: &[u8],
    ignore_case: bool,
) -> Result<Arc<Pattern>, Diagnostic> {
    let pattern =
        Pattern::limited(text, ignore_case, STEPS_MAX).map_err(|error| error.at(args.node, word))?;
    loading.hold(pattern.size_bytes(), args.node.span)?;
    Ok(Arc::new(pattern))
}

/// An error about a word of a directive.
fn wrong(args: &Args<'_>, what: &str, word: &Word) -> Diagnostic {
    args.error(&format!("has {what} \"{word}\""))
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
