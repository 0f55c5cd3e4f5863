//! Tries files in order, with a fallback if none exists.
//!
//! Fulmar looks for each name but the last below `root` or `alias`. A name that ends with a slash stands for a
//! directory. The first file that exists becomes the URI, and the location continues with it.
//!
//! If none exists, the last argument decides: a path is an internal redirect, with its own query if it has one;
//! `@name` is a named location; `=404` is a status.
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/fallback.txt
//! fallback
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         try_files $uri $uri.txt /fallback.txt;
//!     }
//!     location /strict/ {
//!         try_files $uri =404;
//!     }
//!     location /named/ {
//!         try_files $uri @app;
//!     }
//!     location @app {
//!         return 200 app;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /a HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ---
//! GET /none HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! fallback
//! ---
//! GET /strict/none HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! ---
//! GET /named/none HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! app
//! ```

use crate::files::open_file_cache::{Files, Kind};
use crate::shared::files;
use crate::shared::per_directory::hidden::Hidden;
use conf::value::number;
use conf::{Arity, Contexts, Diagnostic, Span, Word};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, LocationKind, MapError, Module, Phase, Reach,
    Reroute, Root, Rule, ScopeBuilder, Step, Template, View,
};
use http::Status;
use journal::Level;
use std::rc::Rc;

/// Files tried in order.
pub static MODULE: Module =
    Module { name: "try_files", directives: &[&TRY_FILES], variables: &[], compile: Some(compile) };

/// `try_files NAME … LAST`
pub static TRY_FILES: Directive<TryFiles> = Directive::new("try_files", parse_try_files)
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .args(Arity::AtLeast(2))
    .rule(Rule::Never)
    .help("Serves the first of some files that exists, or else goes to the last argument.");

/// What `try_files` says.
#[derive(Clone, Debug)]
pub struct TryFiles {
    candidates: Box<[Candidate]>,
    last: Last,
}

#[derive(Clone, Debug)]
struct Candidate {
    name: Template,
    is_directory: bool,
}

#[derive(Clone, Debug)]
enum Last {
    Target(Template),
    Status(Status),
}

fn parse_try_files(args: &Args<'_>, loading: &mut Loading) -> Result<TryFiles, Diagnostic> {
    let Some((last, words)) = args.words().split_last() else { return Err(args.error("has no target")) };
    let mut candidate = |word: &Word| {
        let stripped = word.text.strip_suffix(b"/");
        let name = Word { text: stripped.unwrap_or(&word.text).into(), ..*word };
        Ok(Candidate { name: loading.template(&name)?, is_directory: stripped.is_some() })
    };
    let candidates = words.iter().map(&mut candidate).collect::<Result<_, Diagnostic>>()?;
    let last = match last.text.strip_prefix(b"=") {
        Some(code) => Last::Status(parse_code(args, last, code)?),
        None => Last::Target(loading.template(last)?),
    };
    Ok(TryFiles { candidates, last })
}

fn parse_code(args: &Args<'_>, word: &Word, code: &[u8]) -> Result<Status, Diagnostic> {
    let digits = Word { text: code.into(), ..*word };
    match number(&digits).ok().and_then(|code| u16::try_from(code).ok()) {
        Some(code) if code <= 999 => Ok(Status(code)),
        _ => {
            let message = format!("invalid code \"{word}\"");
            Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
        }
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(written) = view.written(&TRY_FILES) {
        let root = &builder.policy.root;
        let bare = Root { alias: None, ..root.clone() };
        let files = written.value.clone();
        let (lookup, hidden, place) = (Files::of(view), Hidden::in_scope(view), written.span);
        builder.handle(Phase::Precontent, Tries { files, bare, lookup, hidden, place });
    }
    Ok(())
}

struct Tries {
    files: TryFiles,
    /// The root, or the directory of the alias, that every name is appended to.
    bare: Root,
    lookup: Files,
    /// What must not be sent: the path of the request was checked before, the names here were not.
    hidden: Option<Hidden>,
    place: Span,
}

impl Handler for Tries {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_found = |found: &Found| found.place == self.place && *found.path == *exchange.request.path;
        if exchange.attached::<Found>().is_some_and(|found| is_found(&found)) {
            return Step::Next;
        }
        self.first(exchange).unwrap_or_else(Step::Finish)
    }
}

impl Tries {
    fn first(&self, exchange: &mut Exchange) -> Result<Step, Status> {
        for candidate in &self.files.candidates {
            let name = self.name(exchange, &candidate.name)?;
            let path = self.bare.map(exchange, &name).map_err(|error| files::map_failed(exchange, error))?;
            if self.is_there(exchange, &path, candidate.is_directory) {
                self.tell(exchange, || format!("\"{}\" is there", String::from_utf8_lossy(&name)));
                return Ok(self.enter(exchange, name, candidate.is_directory));
            }
        }
        match &self.files.last {
            Last::Status(status) => {
                self.tell(exchange, || format!("no such file: {}", status.0));
                Err(*status)
            }
            Last::Target(target) => {
                let target = self.name(exchange, target)?;
                self.tell(exchange, || {
                    format!("no such file: goes to \"{}\"", String::from_utf8_lossy(&target))
                });
                Ok(go_to(target))
            }
        }
    }

    fn tell(&self, exchange: &Exchange, text: impl FnOnce() -> String) {
        exchange.tell(|| Event::new("try_files", text()).at(Some(self.place)));
    }

    /// The name to look up. Behind an alias a name that is made of the URI loses what the alias replaces.
    fn name(&self, exchange: &Exchange, template: &Template) -> Result<Vec<u8>, Status> {
        let mut name = template.evaluate(exchange);
        let Some(alias) = &exchange.scope.policy.root.alias else { return Ok(name) };
        if !exchange.routing.valid_location {
            return Err(files::map_failed(exchange, MapError::AliasAfterRewrite));
        }
        let replaced = exchange.request.path.get(..alias.text.len()).unwrap_or_default();
        if alias.kind != LocationKind::Regex && template.constant().is_none() && name.starts_with(replaced) {
            name.drain(..replaced.len());
        }
        Ok(name)
    }

    /// Makes what was found the URI. The settings in `.htaccess` files that were chosen for another path do
    /// not count for it: they are chosen again, in the same location.
    fn enter(&self, exchange: &mut Exchange, name: Vec<u8>, is_directory: bool) -> Step {
        if self.hidden.is_none() {
            set_path(exchange, name, is_directory);
            return Step::Next;
        }
        let before = exchange.request.path.clone();
        set_path(exchange, name, is_directory);
        let denied = self.hidden.as_ref().and_then(|hidden| hidden.deny(exchange, &exchange.request.path));
        if let Some(denied) = denied {
            return denied;
        }
        if exchange.scope.policy.overlay.is_none() {
            return Step::Next;
        }
        if exchange.routing.uri_below_alias {
            let message = "\"try_files\" after an \"alias\" with captures has no path for .htaccess files";
            exchange.log(Level::Error, message);
            return Step::Finish(Status::FORBIDDEN);
        }
        if exchange.request.path == before {
            return Step::Next;
        }
        exchange.attach(
            Reach::Own,
            Rc::new(Found { place: self.place, path: exchange.request.path.as_slice().into() }),
        );
        Step::Reroute(Reroute::Settings)
    }

    fn is_there(&self, exchange: &Exchange, path: &[u8], is_directory: bool) -> bool {
        match self.lookup.look(exchange, path) {
            Ok(opened) => (opened.kind == Kind::Directory) == is_directory,
            Err(error) => {
                if !files::is_missing(&error) {
                    exchange.log(Level::Crit, &files::failed("stat", path, &error));
                }
                false
            }
        }
    }
}

/// What a directive found where files have settings: it does not look for that path again.
struct Found {
    place: Span,
    path: Box<[u8]>,
}

/// Makes a name the path.
fn set_path(exchange: &mut Exchange, name: Vec<u8>, is_directory: bool) {
    let scope = &exchange.scope;
    match &scope.policy.root.alias {
        None => exchange.request.path = name,
        Some(alias) if alias.kind != LocationKind::Regex => {
            let length = alias.text.len();
            exchange.request.path.truncate(length);
            exchange.request.path.extend_from_slice(&name);
        }
        Some(_) if is_directory => {}
        Some(_) => {
            exchange.request.path = name;
            exchange.routing.uri_below_alias = true;
        }
    }
}

fn go_to(mut target: Vec<u8>) -> Step {
    if target.starts_with(b"@") {
        return Step::Reroute(Reroute::Named(target.into()));
    }
    let args = target.iter().position(|&byte| byte == b'?').map(|mark| {
        let args = target[mark + 1..].to_vec();
        target.truncate(mark);
        args
    });
    Step::Reroute(Reroute::Internal { path: target, args })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{LocationKind, Phase, Reroute, Step};

    /// The URI that the request goes on with, or where it goes instead.
    fn run(site: &Site, target: &str) -> String {
        let mut exchange = site.get(target);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match site.run(Phase::Precontent, &mut exchange) {
            Step::Next => text(&exchange.request.path),
            Step::Reroute(Reroute::Internal { path, args }) => {
                format!("-> {} ? {}", text(&path), text(&args.unwrap_or_default()))
            }
            Step::Reroute(Reroute::Named(name)) => text(&name),
            step => status(&step).to_string(),
        }
    }

    #[test]
    fn files_directories_and_the_last() {
        let site = Site::location("try_files $uri $uri.html $uri/ /last?x=$uri&y;");
        site.file("a", "");
        site.file("b.html", "");
        site.file("dir/c", "");
        assert_eq!(run(&site, "/a"), "/a");
        assert_eq!(run(&site, "/b?q"), "/b.html");
        assert_eq!(run(&site, "/dir"), "/dir");
        assert_eq!(run(&site, "/dir/"), "/dir/");
        assert_eq!(run(&site, "/none"), "-> /last ? x=/none&y");
    }

    #[test]
    fn status_and_named_location() {
        assert_eq!(run(&Site::location("try_files $uri =404;"), "/a"), "404");
        assert_eq!(run(&Site::location("try_files $uri @app;"), "/a"), "@app");
        assert_eq!(Site::error("try_files $uri =x;"), "invalid code \"=x\"");
        assert_eq!(Site::error("try_files $uri =1000;"), "invalid code \"=1000\"");
    }

    #[test]
    fn behind_an_alias_names_lose_the_prefix() {
        let site = Site::named(LocationKind::Prefix, "/x/", "alias sub/; try_files $uri /b /x/c$args;");
        site.file("sub/a", "");
        assert_eq!(run(&site, "/x/a"), "/x/a");
        assert_eq!(run(&site, "/x/none?q"), "-> cq ? ", "even the last one");
        site.file("sub/b", "");
        assert_eq!(run(&site, "/x/none"), "/x//b");
        let mut exchange = site.get("/x/a");
        exchange.routing.valid_location = false;
        assert_eq!(status(&site.run(Phase::Precontent, &mut exchange)), 500);
    }

    #[test]
    fn the_alias_of_a_pattern_is_followed_by_the_name() {
        let site = Site::named(LocationKind::Regex, "x", "alias sub; try_files $uri =404;");
        site.file("sub/x", "here");
        let mut exchange = site.get("/x");
        assert!(matches!(site.run(Phase::Precontent, &mut exchange), Step::Next));
        assert!(matches!(site.run(Phase::Content, &mut exchange), Step::Respond(_)));
        assert_eq!(run(&site, "/y"), "404");
        let mut exchange = site.get("/x");
        exchange.routing.valid_location = false;
        assert!(exchange.path().is_err(), "an alias of a URI that was rewritten is none");
    }

    #[test]
    fn files_with_settings_are_not_sent() {
        const PATHS: [&str; 5] = ["/x?.htaccess", "/x?sub/.htpasswd", "/x?acl", "/x?a", "/x?none"];
        let verdicts = |text: &str| {
            let site = Site::location(&format!("{text} try_files /$args =404;"));
            for name in ["a", "acl", ".htaccess", "sub/.htpasswd"] {
                site.file(name, "");
            }
            PATHS.map(|path| run(&site, path))
        };
        assert_eq!(verdicts("htaccess_file acl;"), ["403", "403", "403", "/a", "404"]);
        let overridden = verdicts("htaccess on; htaccess_override None;");
        assert_eq!(overridden, ["403", "403", "/acl", "/a", "404"]);
        let without = verdicts("");
        assert_eq!(without, ["/.htaccess", "/sub/.htpasswd", "/acl", "/a", "404"], "as in nginx");
    }

    #[test]
    fn a_query_cannot_climb() {
        let site = Site::location("try_files /sub/$args =404;");
        assert_eq!(run(&site, "/?../../etc/passwd"), "403");
    }
}
