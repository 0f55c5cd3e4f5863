//! Sends files that were compressed beforehand with brotli, zstd or gzip.
//!
//! With `brotli_static`, `zstd_static` or `gzip_static`, a client gets `page.html.br`, `page.html.zst` or
//! `page.html.gz` instead of `page.html`, with the media type of `page.html`. Fulmar sends the existing file in the
//! coding that the client prefers. If the client has no preference, the order is brotli, zstd, gzip. The length is
//! known, ranges work, and nothing is compressed while serving. Give the files the same time. `gzip_vary on` adds
//! `Vary: Accept-Encoding`.
//!
//! With `htaccess on`, a compressed file that the rules of `.htaccess` files deny is not sent.
//!
//! differs: brotli and zstd are third-party modules in nginx.
//!
//! ```file html/page.html
//! plain
//! ```
//!
//! ```file html/page.html.br
//! brotli
//! ```
//!
//! ```file html/page.html.gz
//! gzip
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     brotli_static on;
//!     zstd_static on;
//!     gzip_static on;
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: gzip, deflate, br, zstd
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Content-Length: 7
//! Content-Encoding: br
//!
//! brotli
//! ---
//! GET /page.html HTTP/1.1
//! Host: localhost
//! Accept-Encoding: zstd, gzip;q=0.9, br;q=0.8
//!
//! HTTP/1.1 200 OK
//! Content-Encoding: gzip
//!
//! gzip
//! ```

use crate::files::gzip_static::GZIP_STATIC;
use crate::files::open_file_cache::{Files, Kind, Opened};
use crate::files::static_files;
use crate::shared::apache::judging;
use crate::shared::compression::{Accept, Coding, FULL, Mode, Rules, Weight, varies};
use crate::shared::files;
use crate::shared::per_directory::are_files_judged;
use crate::transform::brotli::BROTLI_STATIC;
use crate::transform::zstd::ZSTD_STATIC;
use conf::Diagnostic;
use contract::{Directive, Exchange, Handler, Module, Outcome, Phase, Reach, ScopeBuilder, Step, View};
use http::{Method, Status};
use journal::Level;
use rustix::io::Errno;
use std::io;
use std::rc::Rc;

/// Files that were compressed beforehand.
pub static MODULE: Module =
    Module { name: "precompressed", directives: &[], variables: &[], compile: Some(compile) };

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let form = |coding: Coding, directive: &Directive<Mode>| {
        let mode = view.get(directive).copied().filter(|&mode| mode != Mode::Off)?;
        let rules = (coding == Coding::Gzip).then(|| Rules::new(view));
        Some(Form { coding, always: mode == Mode::Always, rules })
    };
    let forms = [
        form(Coding::Brotli, &BROTLI_STATIC),
        form(Coding::Zstd, &ZSTD_STATIC),
        form(Coding::Gzip, &GZIP_STATIC),
    ];
    if forms.iter().any(Option::is_some) {
        let is_judged = are_files_judged(view);
        let files = Files::of(view);
        builder.handle(Phase::Content, Precompressed { forms, vary: varies(view), files, is_judged });
    }
    Ok(())
}

struct Precompressed {
    /// Those that are usually smaller come first.
    forms: [Option<Form>; 3],
    /// Whether `Vary` is sent.
    vary: bool,
    files: Files,
    /// Whether the rules of `.htaccess` files count for the compressed file, too.
    is_judged: bool,
}

/// A compressed file that the rules of `.htaccess` files are asked about.
struct Asked {
    /// The position of its form.
    form: usize,
    /// The forms that they refused.
    refused: [bool; 3],
}

/// A form of files that may stand next to the plain one.
struct Form {
    coding: Coding,
    /// Whether it is for clients that do not accept it, too.
    always: bool,
    /// Which clients get it, where not all do that accept it.
    rules: Option<Rules>,
}

impl Handler for Precompressed {
    fn run(&self, exchange: &mut Exchange) -> Step {
        self.search(exchange, [false; 3])
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let (Outcome::Subresponse(answer), Some(asked)) = (outcome, exchange.attached::<Asked>()) else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        let Some(form) = self.forms[asked.form].as_ref().filter(|_| judging::passes(&answer.exchange)) else {
            let mut refused = asked.refused;
            refused[asked.form] = true;
            return self.search(exchange, refused);
        };
        let served = files::with_path(exchange, |exchange, path| {
            path.extend_from_slice(form.coding.extension().as_bytes());
            Ok(match self.open(exchange, path) {
                Some(opened) => send(exchange, path, &opened, form.coding),
                None => Step::Next,
            })
        });
        served.unwrap_or_else(Step::Finish)
    }
}

impl Precompressed {
    /// Looks for a form but for those that are refused.
    fn search(&self, exchange: &mut Exchange, refused: [bool; 3]) -> Step {
        let is_ours = matches!(exchange.request.method, Method::Get | Method::Head);
        let uri = &exchange.request.path;
        if !is_ours || uri.is_empty() || uri.ends_with(b"/") {
            return Step::Next;
        }
        let served = files::with_path(exchange, |exchange, path| Ok(self.serve(exchange, path, refused)));
        served.unwrap_or_else(Step::Finish)
    }

    /// Looks for the forms in the order in which the client wants them.
    fn serve(&self, exchange: &mut Exchange, path: &mut Vec<u8>, refused: [bool; 3]) -> Step {
        let mut weights = self.forms.each_ref().map(|form| form.as_ref().map(|form| form.weight(exchange)));
        for (weight, _) in weights.iter_mut().zip(refused).filter(|(_, refused)| *refused) {
            *weight = None;
        }
        let plain = path.len();
        // Of equal weights the first counts.
        while let Some((at, weight)) = heaviest(&weights) {
            weights[at] = None;
            // A response with the plain file has `Vary`, too: caches must know that there is another form.
            let Some(form) = self.forms[at].as_ref().filter(|_| weight > 0 || self.vary) else { continue };
            path.truncate(plain);
            path.extend_from_slice(form.coding.extension().as_bytes());
            let Some(opened) = self.open(exchange, path) else { continue };
            exchange.response.vary |= self.vary && !form.always;
            if weight == 0 || opened.kind == Kind::Directory {
                continue;
            }
            if self.is_judged {
                exchange.attach(Reach::Own, Rc::new(Asked { form: at, refused }));
                let uri = [&exchange.request.path[..], form.coding.extension().as_bytes()].concat();
                return Step::Await(judging::ask(uri));
            }
            return send(exchange, path, &opened, form.coding);
        }
        Step::Next
    }

    fn open(&self, exchange: &Exchange, path: &[u8]) -> Option<Rc<Opened>> {
        let opened = self.files.open(exchange, path);
        opened.inspect_err(|error| log_failure(exchange, path, error)).ok()
    }
}

/// The place of the greatest weight, and the weight.
fn heaviest(weights: &[Option<Weight>; 3]) -> Option<(usize, Weight)> {
    let known = weights.iter().enumerate().filter_map(|(at, weight)| weight.map(|weight| (at, weight)));
    known.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl Form {
    /// How much the client wants it; who gets it always wants nothing more.
    fn weight(&self, exchange: &Exchange) -> Weight {
        if self.always {
            return FULL + 1;
        }
        let weight = Accept::of(&exchange.request.head.fields).weight(self.coding.name());
        let allowed = weight > 0
            && !exchange.subrequest
            && self.rules.as_ref().is_none_or(|rules| rules.allow(exchange));
        if allowed { weight } else { 0 }
    }
}

fn send(exchange: &mut Exchange, path: &[u8], opened: &Opened, coding: Coding) -> Step {
    if opened.kind != Kind::File {
        let path = String::from_utf8_lossy(path).into_owned();
        exchange.log(Level::Crit, &format!("\"{path}\" is not a regular file"));
        return Step::Finish(Status::NOT_FOUND);
    }
    static_files::describe(exchange, opened);
    // Neither name nor value can break a field.
    let _ = exchange.response.fields.push(b"Content-Encoding", coding.name().as_bytes());
    Step::Respond(opened.body(exchange.is_head()))
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
    fn the_file_in_the_coding_that_is_wanted_most() {
        let site = |settings: &str| {
            let site = site(settings);
            for (name, text) in [("a.css.br", "brotli"), ("a.css.zst", "zstd"), ("b.css.zst", "zstd")] {
                site.file(name, text);
            }
            site
        };
        let all = "brotli_static on; zstd_static on; gzip_static on;";
        let of = |settings: &str, target: &str, accept: &str| get(&site(settings), target, accept).1;
        assert_eq!(of(all, "/a.css", "gzip, zstd, br"), "brotli");
        assert_eq!(of(all, "/a.css", "gzip, zstd, br;q=0.1"), "zstd");
        assert_eq!(of(all, "/a.css", "gzip;q=0.2, br;q=0.1"), "compressed");
        assert_eq!(of(all, "/b.css", "gzip, zstd;q=0.1, br"), "zstd", "the others are not there");
        assert_eq!(of("gzip_static on; zstd_static on;", "/a.css", "br, gzip"), "compressed");
        assert_eq!(of("gzip_static on; zstd_static always;", "/a.css", "gzip"), "zstd");
        assert_eq!(of(all, "/a.css", "*"), "plain");
        let (exchange, text) = get(&site("brotli_static on; gzip_vary on;"), "/a.css", "gzip");
        assert!(text == "plain" && exchange.response.vary);
        let (exchange, _) = get(&site(all), "/a.css", "br");
        assert_eq!(exchange.response.fields.get("content-encoding"), Some(&b"br"[..]));
        assert_eq!(exchange.response.content_type.as_deref(), Some(&b"text/css"[..]));
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
