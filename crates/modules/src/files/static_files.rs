//! Serves files.
//!
//! The file is the one to which `root` or `alias` maps the URI. Only GET and HEAD are allowed; other methods get
//! 405. With `htaccess on`, POST gets the file, and OPTIONS the allowed methods, as in Apache. A directory without a slash at the end is redirected to its name with the slash. A directory without an
//! index file and without a listing gets 403.
//!
//! The media type follows from the extension (`types`), and the entity tag from the file's time and size (`etag`).
//! Symbolic links are followed. Devices, pipes and sockets are never served.
//!
//! ```file html/hello.txt
//! hello
//! ```
//!
//! ```file html/sub/one.txt
//! one
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     types { text/plain txt; }
//! }
//! ```
//!
//! ```http
//! GET /hello.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/plain
//! Content-Length: 6
//! Accept-Ranges: bytes
//! ETag: *
//! Last-Modified: *
//!
//! hello
//! ---
//! GET /sub HTTP/1.1
//! Host: localhost:8080
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: *
//! ---
//! GET /sub/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! ---
//! PUT /hello.txt HTTP/1.1
//! Host: localhost
//! Content-Length: 0
//!
//! HTTP/1.1 405 Not Allowed
//! ```

use crate::files::open_file_cache::{Files, Kind, Opened};
use crate::logging::error_log::logs_missing;
use crate::shared::apache::methods;
use crate::shared::apache::urls::own_url;
use crate::shared::files;
use crate::shared::per_directory::{RelativeRedirects, are_files_judged};
use conf::Diagnostic;
use contract::{Exchange, Handler, Module, Phase, ScopeBuilder, Step, View};
use http::{Method, Status, escape};
use journal::Level;
use rustix::io::Errno;
use std::io;
use std::rc::Rc;

/// Files of a directory.
pub static MODULE: Module =
    Module { name: "static_files", directives: &[], variables: &[], compile: Some(compile) };

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let is_overlaid = are_files_judged(view);
    builder.handle(Phase::Content, StaticFiles { files: Files::of(view), is_overlaid });
    Ok(())
}

struct StaticFiles {
    files: Files,
    /// Whether `.htaccess` files count, even if there are none. Methods are answered as by Apache then.
    is_overlaid: bool,
}

impl Handler for StaticFiles {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_known = matches!(exchange.request.method, Method::Get | Method::Head | Method::Post);
        if !is_known && !self.is_overlaid {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        let uri = &exchange.request.path;
        // An empty one names no file, not even the root: `try_files` may lead to it.
        if uri.is_empty() || uri.ends_with(b"/") {
            return match exchange.request.method {
                // Apache lists a directory for GET only.
                Method::Post if self.is_overlaid => Step::Finish(Status::NOT_FOUND),
                _ if is_known => Step::Next,
                _ => methods::answer_for_directory(exchange),
            };
        }
        let served = files::with_path(exchange, |exchange, path| self.serve(exchange, path));
        match served {
            // A directory has its slash before a method counts.
            Err(status) if !is_known && status != Status::MOVED_PERMANENTLY => methods::answer(exchange),
            served => served.unwrap_or_else(Step::Finish),
        }
    }
}

impl StaticFiles {
    fn serve(&self, exchange: &mut Exchange, path: &[u8]) -> Result<Step, Status> {
        let opened = self.files.open(exchange, path).map_err(|error| open_failed(exchange, path, &error))?;
        if opened.kind == Kind::Directory {
            let location = with_slash(exchange, &exchange.request.path);
            let is_full = exchange.scope.kept::<RelativeRedirects>().is_some();
            let location = if is_full { own_url(exchange, &location) } else { location };
            exchange.response.location = Some(location.into());
            return Err(Status::MOVED_PERMANENTLY);
        }
        if opened.kind != Kind::File {
            let path = String::from_utf8_lossy(path).into_owned();
            exchange.log(Level::Crit, &format!("\"{path}\" is not a regular file"));
            return Err(Status::NOT_FOUND);
        }
        match exchange.request.method {
            Method::Get | Method::Head => {}
            Method::Post if self.is_overlaid => {}
            _ => return Err(Status::METHOD_NOT_ALLOWED),
        }
        describe(exchange, &opened);
        Ok(Step::Respond(opened.body(exchange.is_head())))
    }
}

/// The file of a request whose content another feature makes of it; `None` for what is no file.
pub(crate) fn requested(files: &Files, exchange: &mut Exchange) -> Result<Option<Rc<Opened>>, Status> {
    if !matches!(exchange.request.method, Method::Get | Method::Head) {
        return Err(Status::METHOD_NOT_ALLOWED);
    }
    if exchange.request.path.ends_with(b"/") {
        return Ok(None);
    }
    files::with_path(exchange, |exchange, path| {
        let opened = files.open(exchange, path).map_err(|error| open_failed(exchange, path, &error))?;
        Ok(Some(opened).filter(|opened| opened.kind == Kind::File))
    })
}

fn open_failed(exchange: &Exchange, path: &[u8], error: &io::Error) -> Status {
    let (level, status) = match files::errno(error) {
        _ if files::is_missing(error) => (Level::Error, Status::NOT_FOUND),
        Some(Errno::ACCESS | Errno::MLINK | Errno::LOOP) => (Level::Error, Status::FORBIDDEN),
        _ => (Level::Crit, Status::INTERNAL_SERVER_ERROR),
    };
    if status != Status::NOT_FOUND || logs_missing(exchange) {
        exchange.log(level, &files::failed("open", path, error));
    }
    status
}

/// The path of a directory with its slash, and the query of the request.
pub(crate) fn with_slash(exchange: &Exchange, path: &[u8]) -> Vec<u8> {
    let mut location = Vec::new();
    escape::path(path, &mut location);
    location.push(b'/');
    if let Some(args) = exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
        location.push(b'?');
        location.extend_from_slice(args);
    }
    location
}

/// Sets the head for a file, with the media type of the name that was asked for.
pub(crate) fn describe(exchange: &mut Exchange, opened: &Opened) {
    // A server that left the content to this one by `X-Accel-Redirect` may have said what it is.
    if exchange.response.content_type.is_none() {
        let media_type = exchange.media_type(&exchange.request.path);
        exchange.response.content_type = Some(media_type).filter(|media_type| !media_type.is_empty());
    }
    let etag = exchange.scope.policy.etag;
    exchange.file = Some(opened.identity);
    let response = &mut exchange.response;
    response.status = Status::OK;
    response.content_length = Some(opened.identity.size());
    response.last_modified = Some(opened.identity.modified());
    response.etag = etag.then(|| opened.tag());
    response.accept_ranges = true;
    response.memo = opened.memo();
}

/// Sets the head for content of this length that is made of a file. As in nginx the entity tag has the
/// length.
pub(crate) fn describe_part(exchange: &mut Exchange, opened: &Opened, length: u64) {
    describe(exchange, opened);
    exchange.file = None;
    let response = &mut exchange.response;
    response.memo = None;
    response.content_length = Some(length);
    if response.etag.is_some() {
        response.etag = Some(opened.tag_of_part(length));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Phase, Step};
    use http::{Method, Status};

    fn site() -> Site {
        let site = Site::location("");
        site.file("a.txt", "hello");
        site.file("sub dir/x", "x");
        site
    }

    #[test]
    fn a_file_with_its_validators() {
        let site = site();
        let mut exchange = site.get("/a.txt");
        let Step::Respond(body) = site.run(Phase::Content, &mut exchange) else { panic!() };
        assert_eq!(body_text(&body), "hello");
        let response = &exchange.response;
        assert_eq!((response.status, response.content_length), (Status::OK, Some(5)));
        let mtime = response.last_modified.unwrap();
        assert_eq!(response.etag.as_deref(), Some(format!("\"{mtime:x}-5\"").as_bytes()));
        assert!(response.accept_ranges);
    }

    #[test]
    fn what_is_no_file() {
        let site = site();
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/b.txt"))), 404);
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/a.txt/b"))), 404);
        assert!(matches!(site.run(Phase::Content, &mut site.get("/sub dir/")), Step::Next));
        let mut exchange = site.get("/sub dir?a=%20");
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 301);
        assert_eq!(exchange.response.location.as_deref(), Some(&b"/sub%20dir/?a=%20"[..]));
    }

    #[test]
    fn methods_are_judged_in_order() {
        let site = site();
        let run = |method, target| {
            let mut exchange = site.get(target);
            exchange.request.method = method;
            status(&site.run(Phase::Content, &mut exchange))
        };
        assert_eq!(run(Method::Put, "/b.txt"), 405);
        assert_eq!(run(Method::Post, "/b.txt"), 404);
        assert_eq!(run(Method::Post, "/a.txt"), 405);
        assert_eq!(run(Method::Delete, "/"), 405);
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let site = site();
        let path = site.root().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/pipe"))), 404);
    }

    #[test]
    fn a_rewritten_path_cannot_climb() {
        let site = site();
        let mut exchange = site.get("/a.txt");
        exchange.request.path = b"/../etc/passwd".to_vec();
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 403);
    }
}
