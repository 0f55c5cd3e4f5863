//! Files that were compressed beforehand.
//!
//! With `gzip_static on` a client that accepts gzip is sent `page.html.gz` in place of `page.html`, if it
//! is there, with the media type of `page.html`. Unlike with `gzip` the length is known, parts can be
//! asked for, and nothing is compressed while serving. The two files should have the same time. `always`
//! sends the compressed file to every client, whether or not it accepts it. `gzip_vary`, `gzip_proxied`,
//! `gzip_http_version` and `gzip_disable` count as they do for `gzip`.
//!
//! differs: it is always there, where nginx has to be built with it.
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

use crate::gzip::{LEVELS, Rules};
use crate::open_file_cache::{Files, Kind};
use crate::shared::files;
use crate::static_files;
use conf::{Diagnostic, value};
use contract::log::Level;
use contract::{Directive, Exchange, Handler, Module, Phase, ScopeBuilder, Step, View};
use http::{Method, Status};
use rustix::io::Errno;
use std::io;

/// Files that were compressed beforehand.
pub static MODULE: Module =
    Module { name: "gzip_static", directives: &[&GZIP_STATIC], variables: &[], compile: Some(compile) };

/// `gzip_static on | off | always`
pub static GZIP_STATIC: Directive<Mode> =
    Directive::new("gzip_static", |args, _| args.value(0, |word| value::choice(word, &MODES)))
        .within(LEVELS)
        .default("off")
        .help("Whether a file with `.gz` behind its name is sent in place of a file.");

/// When compressed files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the word of that name")]
pub enum Mode {
    Off,
    On,
    Always,
}

const MODES: [(&str, Mode); 3] = [("off", Mode::Off), ("on", Mode::On), ("always", Mode::Always)];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let mode = view.get(&GZIP_STATIC).copied().unwrap_or(Mode::Off);
    if mode != Mode::Off {
        let (files, rules) = (Files::of(view), Rules::new(view));
        builder.handle(Phase::Content, GzipStatic { always: mode == Mode::Always, rules, files });
    }
    Ok(())
}

struct GzipStatic {
    always: bool,
    rules: Rules,
    files: Files,
}

impl Handler for GzipStatic {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_ours = matches!(exchange.request.method, Method::Get | Method::Head);
        if !is_ours || exchange.request.path.ends_with(b"/") {
            return Step::Next;
        }
        let accepted = self.always || self.rules.allow(exchange);
        // Even for who gets the plain file, caches must be told that there is another.
        if accepted || self.rules.vary { self.serve(exchange, accepted) } else { Step::Next }
    }
}

impl GzipStatic {
    fn serve(&self, exchange: &mut Exchange, accepted: bool) -> Step {
        let served = files::with_path(exchange, |exchange, path| Ok(self.at(exchange, path, accepted)));
        served.unwrap_or_else(Step::Finish)
    }

    fn at(&self, exchange: &mut Exchange, path: &mut Vec<u8>, accepted: bool) -> Step {
        path.extend_from_slice(b".gz");
        let opened = match self.files.open(exchange, path) {
            Ok(opened) => opened,
            Err(error) => {
                log_failure(exchange, path, &error);
                return Step::Next;
            }
        };
        if !self.always {
            exchange.response.vary |= self.rules.vary;
        }
        if !accepted || opened.kind == Kind::Directory {
            return Step::Next;
        }
        if opened.kind != Kind::File {
            let path = String::from_utf8_lossy(path).into_owned();
            exchange.log(Level::Crit, &format!("\"{path}\" is not a regular file"));
            return Step::Finish(Status::NOT_FOUND);
        }
        static_files::describe(exchange, &opened);
        // Neither name nor value can break a field.
        let _ = exchange.response.fields.push(b"Content-Encoding", b"gzip");
        Step::Respond(opened.body(exchange.is_head()))
    }
}

/// That there is no such file is what mostly happens, and no failure.
fn log_failure(exchange: &Exchange, path: &[u8], error: &io::Error) {
    let level = match files::errno(error) {
        _ if files::is_missing(error) => return,
        Some(Errno::ACCESS | Errno::MLINK | Errno::LOOP) => Level::Error,
        _ => Level::Crit,
    };
    exchange.log(level, &files::failed("open", path, error));
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Exchange, Phase, Step};
    use http::Method;

    fn site(settings: &str) -> Site {
        let site = Site::location(&format!("types {{ text/css css; }} {settings}"));
        site.file("a.css", "plain");
        site.file("a.css.gz", "compressed");
        site.file("b.css", "plain");
        site.file("c.css", "plain");
        std::fs::create_dir(site.root().join("c.css.gz")).unwrap();
        site
    }

    fn get(site: &Site, target: &str, accept: &str) -> (Exchange, String) {
        let mut exchange = site.get(target);
        exchange.request.head.fields.push(b"Accept-Encoding", accept.as_bytes()).unwrap();
        let Step::Respond(body) = site.run(Phase::Content, &mut exchange) else { panic!("{target}") };
        (exchange, body_text(&body))
    }

    #[test]
    fn the_compressed_file_with_the_type_of_the_plain_one() {
        let (exchange, text) = get(&site("gzip_static on;"), "/a.css", "gzip");
        let response = &exchange.response;
        assert_eq!((text.as_str(), response.content_length), ("compressed", Some(10)));
        assert_eq!(response.content_type.as_deref(), Some(&b"text/css"[..]));
        assert_eq!(response.fields.get("content-encoding"), Some(&b"gzip"[..]));
        let time = response.last_modified.unwrap();
        assert_eq!(response.etag.as_deref(), Some(format!("\"{time:x}-a\"").as_bytes()));
        assert!(response.accept_ranges && !response.vary);
    }

    #[test]
    fn who_gets_which() {
        let of = |settings: &str, target: &str, accept: &str| {
            let (exchange, text) = get(&site(settings), target, accept);
            (text, exchange.response.vary)
        };
        let plain = |vary| ("plain".to_owned(), vary);
        let compressed = |vary| ("compressed".to_owned(), vary);
        assert_eq!(of("", "/a.css", "gzip"), plain(false));
        assert_eq!(of("gzip_static on;", "/a.css", "br"), plain(false));
        assert_eq!(of("gzip_static on; gzip_vary on;", "/a.css", "br"), plain(true));
        assert_eq!(of("gzip_static on; gzip_vary on;", "/a.css", "gzip"), compressed(true));
        assert_eq!(of("gzip_static on; gzip_vary on;", "/b.css", "gzip"), plain(false));
        assert_eq!(of("gzip_static on;", "/c.css", "gzip"), plain(false), "a directory is no such file");
        assert_eq!(of("gzip_static always; gzip_vary on;", "/a.css", "br"), compressed(false));
    }

    #[test]
    fn other_methods_are_for_the_plain_file() {
        let site = site("gzip_static always;");
        let mut exchange = site.get("/a.css");
        exchange.request.method = Method::Post;
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 405);
    }

    #[test]
    fn a_pipe_is_refused() {
        let site = site("gzip_static always;");
        let path = site.root().join("pipe.gz");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/pipe"))), 404);
    }
}
