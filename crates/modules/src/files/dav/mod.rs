//! Changes files by the WebDAV methods PUT, DELETE, MKCOL, COPY and MOVE.
//!
//! `dav_methods` lists the methods that a location allows. Other methods, such as PROPFIND and LOCK, are not supported,
//! as in nginx. Limit who may use the methods, for example with `limit_except` and `auth_basic`.
//!
//! - **PUT** replaces a file when its whole body has arrived. A client that disconnects changes nothing. If the file is on
//!   the file system of `client_body_temp_path`, a long body is not copied. A `Date` header sets the time of the file's last
//!   change. A request with `Content-Range` gets 501.
//! - **DELETE** removes a file, or a directory with all that is in it if the URI ends with a slash. `min_delete_depth 3`
//!   allows it only for URIs with at least three parts, such as `/users/ada/notes.txt`.
//! - **MKCOL** makes a directory. The URI must end with a slash.
//! - **COPY** and **MOVE** take the path of the new file from `Destination`, which must name this host. As in nginx the path
//!   leads to a file by the `root` or `alias` of the location of the request, and the access rules of other locations do not
//!   apply. `Overwrite: F` keeps a file that exists. COPY leaves out the symbolic links in a directory.
//!
//! With `create_full_put_path on`, PUT makes missing directories; otherwise the request gets 409. New files get the
//! permissions of `dav_access`, and new directories also the right to enter them.
//!
//! No request may change the root itself, or follow a symbolic link at the end of a path to a directory. Symbolic links on
//! the way are followed, unless `disable_symlinks` or `symlinks inside` denies them; both also deny links at the end.
//! Directories may be nested 100 levels deep.
//!
//! With `htaccess on`, requests for `.htaccess` and `.htpasswd` files get 403, and so do DELETE, COPY and MOVE of a
//! directory that contains one. The settings of `.htaccess` files must also allow the path in `Destination`.
//!
//! nginx: --with-http_dav_module
//!
//! ```file html/files/old.txt
//! old
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /files/ {
//!         dav_methods PUT DELETE MKCOL COPY MOVE;
//!         create_full_put_path on;
//!         dav_access group:rw all:r;
//!     }
//! }
//! ```
//!
//! ```http
//! PUT /files/new.txt HTTP/1.1
//! Host: localhost:8080
//! Content-Length: 3
//!
//! new
//!
//! HTTP/1.1 201 Created
//! Content-Length: 0
//! Location: *
//! ---
//! MKCOL /files/letters/ HTTP/1.1
//! Host: localhost:8080
//!
//! HTTP/1.1 201 Created
//! ---
//! MOVE /files/new.txt HTTP/1.1
//! Host: localhost:8080
//! Destination: /files/letters/new.txt
//!
//! HTTP/1.1 204 No Content
//! ---
//! GET /files/letters/new.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 3
//!
//! new
//! ---
//! DELETE /files/letters/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 204 No Content
//! ---
//! PROPFIND /files/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 405 Not Allowed
//! ```

mod delete;
mod put;
mod target;
mod transfer;
mod tree;

use crate::files::symlinks::Links;
use crate::shared::apache::judging;
use crate::shared::per_directory::are_files_judged;
use crate::shared::per_directory::hidden::Hidden;
use crate::shared::placing;
use conf::{Arity, Contexts, Diagnostic, Word, value};
use contract::{
    Args, Body, Content, Directive, Event, Exchange, Handler, Loading, Module, Outcome, Phase, Reach,
    ScopeBuilder, Step, Subrequest, View, Work,
};
use delete::Depth;
use http::{Method, Status, escape};
use put::Put;
use rustix::fs::Mode;
use std::rc::Rc;
use std::sync::Arc;
use target::{Refusal, Target};
use transfer::Transfer;

/// Files that clients may change.
pub static MODULE: Module = Module {
    name: "dav",
    directives: &[&DAV_METHODS, &CREATE_FULL_PUT_PATH, &DAV_ACCESS, &MIN_DELETE_DEPTH],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `dav_methods off | METHOD …`
pub static DAV_METHODS: Directive<u32> = Directive::new("dav_methods", parse_methods)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .default("off")
    .help("The methods that may change files: `PUT`, `DELETE`, `MKCOL`, `COPY` and `MOVE`.");

/// `create_full_put_path on | off`
pub static CREATE_FULL_PUT_PATH: Directive<bool> = Directive::flag("create_full_put_path")
    .within(LEVELS)
    .default("off")
    .help("Whether PUT makes the directories of a file that are missing.");

/// `dav_access USERS:PERMISSIONS …`
pub static DAV_ACCESS: Directive<u32> = Directive::new("dav_access", upstream::parse_access)
    .within(LEVELS)
    .args(Arity::Range(1, 3))
    .default("user:rw")
    .help("The permissions of new files and directories.");

/// `min_delete_depth NUMBER`
pub static MIN_DELETE_DEPTH: Directive<u64> = Directive::number("min_delete_depth")
    .within(LEVELS)
    .default("0")
    .help("How many parts the path of a DELETE request must have at least.");

const METHODS: [(&str, u32, Method); 5] = [
    ("put", 1, Method::Put),
    ("delete", 2, Method::Delete),
    ("mkcol", 4, Method::Mkcol),
    ("copy", 8, Method::Copy),
    ("move", 16, Method::Move),
];
const OFF: u32 = 32;

fn parse_methods(args: &Args<'_>, loading: &mut Loading) -> Result<u32, Diagnostic> {
    let [put, delete, mkcol, copy, r#move] = METHODS.map(|(name, bit, _)| (name, bit));
    let duplicate = |word: &Word| {
        let message = format!("duplicate value \"{word}\"");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
    };
    value::bitmask(args.words(), &[put, delete, mkcol, copy, r#move, ("off", OFF)], duplicate)
        .map_err(|(error, word)| error.at(args.node, word))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let methods = view.get(&DAV_METHODS).copied().unwrap_or(OFF) & !OFF;
    if methods == 0 {
        return Ok(());
    }
    let settings = Settings {
        methods,
        creates_path: view.get(&CREATE_FULL_PUT_PATH).copied().unwrap_or(false),
        access: view.get(&DAV_ACCESS).copied().unwrap_or(0o600),
        min_delete_depth: view.get(&MIN_DELETE_DEPTH).copied().unwrap_or(0),
        links: Links::of(view),
        hidden: Hidden::in_scope(view),
        is_overlaid: are_files_judged(view),
    };
    builder.handle(Phase::Content, Dav(Arc::new(settings)));
    Ok(())
}

/// What clients may do.
struct Settings {
    methods: u32,
    creates_path: bool,
    access: u32,
    min_delete_depth: u64,
    links: Links,
    hidden: Option<Hidden>,
    /// Whether `.htaccess` files judge the path in `Destination`, too.
    is_overlaid: bool,
}

impl Settings {
    /// The permissions of new directories.
    fn directory_mode(&self) -> Mode {
        Mode::from_raw_mode(placing::directory_mode(self.access))
    }
}

/// What a request did.
#[derive(Debug)]
enum Done {
    /// It made a file or a directory.
    Made {
        /// Whether the response names it.
        has_location: bool,
    },
    /// It removed or replaced something.
    Changed,
}

struct Dav(Arc<Settings>);

/// The path in `Destination`, while it is judged.
struct Judged(Vec<u8>);

impl Handler for Dav {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let method = exchange.request.method;
        match METHODS.iter().any(|&(_, bit, known)| known == method && self.0.methods & bit != 0) {
            true => self.begin(exchange).unwrap_or_else(|refusal| Step::Finish(refusal.tell(exchange))),
            false => Step::Next,
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let step = match outcome {
            Outcome::Done => self.put(exchange),
            Outcome::Subresponse(judged) => match exchange.attached::<Judged>() {
                Some(path) if judging::passes(&judged.exchange) => self.transfer(exchange, &path.0),
                _ => Err(Refusal::new(Status::FORBIDDEN, "\"Destination\" is forbidden by .htaccess files")),
            },
            Outcome::Job(result) => match result.downcast::<Result<Done, Refusal>>() {
                Ok(result) => result.map(|done| answer(exchange, &done)),
                Err(_) => Ok(Step::Finish(Status::INTERNAL_SERVER_ERROR)),
            },
            Outcome::Failed(status) => Ok(Step::Finish(status)),
            _ => Ok(Step::Finish(Status::INTERNAL_SERVER_ERROR)),
        };
        step.unwrap_or_else(|refusal| Step::Finish(refusal.tell(exchange)))
    }
}

impl Dav {
    fn begin(&self, exchange: &mut Exchange) -> Result<Step, Refusal> {
        let method = exchange.request.method;
        if method == Method::Put {
            put::judge(exchange)?;
            return Ok(explained(exchange).unwrap_or(Step::Await(Work::RequestBody)));
        }
        if exchange.request.chunked || exchange.request.content_length.is_some_and(|length| length > 0) {
            let name = method.name().unwrap_or_default();
            let message = format!("{name} with body is unsupported");
            return Err(Refusal::new(Status::UNSUPPORTED_MEDIA_TYPE, message));
        }
        match method {
            Method::Delete => self.delete(exchange),
            Method::Mkcol => self.make_collection(exchange),
            _ => {
                let path = transfer::destination(exchange)?;
                if !self.0.is_overlaid {
                    return self.transfer(exchange, &path);
                }
                exchange.attach(Reach::Own, Rc::new(Judged(path.clone())));
                let wanted = Subrequest { same_method: true, ..Subrequest::get(path, Content::Judged) };
                Ok(Step::Await(Work::Subrequest(wanted)))
            }
        }
    }

    fn put(&self, exchange: &mut Exchange) -> Result<Step, Refusal> {
        let target = Target::of(exchange, &self.0, &exchange.request.path)?;
        let put = Put::new(exchange, target)?;
        Ok(self.start(exchange, move |settings| put.act(settings)))
    }

    fn make_collection(&self, exchange: &mut Exchange) -> Result<Step, Refusal> {
        if !exchange.request.path.ends_with(b"/") {
            return Err(Refusal::new(Status::CONFLICT, "MKCOL can create a collection only"));
        }
        let target = Target::of(exchange, &self.0, &exchange.request.path)?;
        Ok(self.start(exchange, move |settings| put::make_collection(&target, settings)))
    }

    fn transfer(&self, exchange: &mut Exchange, path: &[u8]) -> Result<Step, Refusal> {
        let transfer = Transfer::new(exchange, &self.0, path)?;
        Ok(self.start(exchange, move |settings| transfer.act(settings)))
    }

    fn delete(&self, exchange: &mut Exchange) -> Result<Step, Refusal> {
        // The slash at the end of a directory does not begin a part.
        let uri = &exchange.request.path;
        let inner = uri.strip_suffix(b"/").unwrap_or(uri);
        let parts = inner.iter().filter(|&&byte| byte == b'/').count();
        if (parts as u64) < self.0.min_delete_depth {
            let message = format!("insufficient URI depth:{parts} to DELETE");
            return Err(Refusal::new(Status::CONFLICT, message));
        }
        let depth = Depth::of(exchange)?;
        let target = Target::of(exchange, &self.0, &exchange.request.path)?;
        Ok(self.start(exchange, move |settings| delete::act(&target, depth, settings)))
    }

    /// Acts off the event loop: a disk is slow, and a directory may hold much.
    fn start(
        &self,
        exchange: &Exchange,
        act: impl FnOnce(&Settings) -> Result<Done, Refusal> + Send + 'static,
    ) -> Step {
        let settings = Arc::clone(&self.0);
        explained(exchange)
            .unwrap_or_else(|| Step::Await(Work::Job(Box::new(move || Box::new(act(&settings))))))
    }
}

/// The end of a request that is only explained.
fn explained(exchange: &Exchange) -> Option<Step> {
    exchange.connection.events.as_ref()?;
    exchange.tell(|| Event::new("dav", "the request would change files; an explanation does not"));
    Some(Step::Finish(Status::NO_CONTENT))
}

fn answer(exchange: &mut Exchange, done: &Done) -> Step {
    let Done::Made { has_location } = *done else { return Step::Finish(Status::NO_CONTENT) };
    if has_location {
        let mut location = Vec::new();
        escape::path(&exchange.request.path, &mut location);
        exchange.response.location = Some(location.into());
    }
    exchange.response.status = Status::CREATED;
    exchange.response.content_length = Some(0);
    Step::Respond(Body::Empty)
}

#[cfg(test)]
mod tests {
    use super::target::Failure;
    use crate::testing::{Site, status};
    use contract::{Phase, Step, Work};
    use http::{Method, Status};
    use rustix::io::Errno;

    #[test]
    fn methods_that_are_not_allowed_are_left_to_others() {
        let run = |text, method| {
            let site = Site::location(text);
            let mut exchange = site.get("/a");
            exchange.request.method = method;
            site.run(Phase::Content, &mut exchange)
        };
        assert!(matches!(run("dav_methods PUT;", Method::Put), Step::Await(Work::RequestBody)));
        assert!(matches!(run("dav_methods delete;", Method::Delete), Step::Await(Work::Job(_))));
        for text in ["", "dav_methods off;", "dav_methods off PUT;", "dav_methods MKCOL;"] {
            let expected = if text.contains("off PUT") { 0 } else { 405 };
            assert_eq!(status(&run(text, Method::Put)), expected, "{text}");
        }
    }

    #[test]
    fn errors_of_the_system_have_statuses() {
        let status_of = |error: Errno| {
            let failure = Failure { call: "mkdir", path: b"/x".into(), error: error.into() };
            let site = Site::location("");
            failure.refuse(Status::CONFLICT).tell(&site.get("/")).0
        };
        let rows = [
            (Errno::NOENT, 409),
            (Errno::NOTDIR, 409),
            (Errno::NAMETOOLONG, 409),
            (Errno::ACCESS, 403),
            (Errno::PERM, 403),
            (Errno::LOOP, 403),
            (Errno::EXIST, 405),
            (Errno::NOSPC, 507),
            (Errno::DQUOT, 507),
            (Errno::IO, 500),
        ];
        for (error, expected) in rows {
            assert_eq!(status_of(error), expected, "{error}");
        }
    }
}
