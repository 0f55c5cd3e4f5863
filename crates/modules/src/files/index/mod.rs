//! Sets the index files of directories.
//!
//! If a URI ends with a slash, Fulmar tries the names in order. The first file that exists is served by an internal
//! redirect, so that another location can handle it, such as the one for `.php`. Names may contain variables. For a
//! name that starts with a slash, Fulmar does not look for a file: it redirects to that path.
//!
//! If no index file exists, the directory is listed (`autoindex`), or the answer is 403.
//!
//! ```file html/index.txt
//! start
//! ```
//!
//! ```file html/empty/.keep
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     index none.txt index.txt;
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 6
//!
//! start
//! ---
//! GET /empty/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /missing/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! ```

mod missing;

use crate::files::open_file_cache::{Files, Kind};
use crate::files::static_files::with_slash;
use crate::shared::apache::lookup::{Asked, Search, fall_back};
use crate::shared::apache::urls::{canonical, escape_uri, own_url};
use crate::shared::apache::{judging, methods};
use crate::shared::files;
use crate::shared::per_directory;
use conf::{Arity, Contexts, Diagnostic, Span};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Outcome, Phase, Reach, Reroute, Rule,
    ScopeBuilder, Step, Template, View, Written,
};
use http::Status;
use journal::Level;
use missing::{has_form, is, not_found, refuse_search};
use rustix::io::Errno;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Index files.
pub static MODULE: Module =
    Module { name: "index", directives: &[&INDEX], variables: &[], compile: Some(compile) };

/// `index NAME …`
pub static INDEX: Directive<Vec<Template>> = Directive::new("index", parse_index)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .default("index.html")
    .help("The files that answer for a directory, in the order in which they are tried.");

fn parse_index(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<Template>, Diagnostic> {
    let words = args.words();
    let mut names = Vec::new();
    for (position, word) in words.iter().enumerate() {
        if word.text.is_empty() {
            let message = "index \"\" in \"index\" directive is invalid";
            return Err(Diagnostic::emerg(message).at(args.node.span).under(word.span));
        }
        if word.text.starts_with(b"/") && position + 1 < words.len() {
            let message = "only the last index in \"index\" directive should be absolute";
            loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
        }
        names.push(loading.template(word)?);
    }
    Ok(names)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let written = view.all(&INDEX);
    let is_public = view.level_of(&INDEX).is_some_and(|level| level.context().is_per_directory());
    let names = |written: &Written<'_, Vec<Template>>| -> Vec<_> {
        // A place refers to the main configuration only.
        let place = (!is_public).then_some(written.span);
        written.value.iter().map(|name| Name { text: name.clone(), place }).collect()
    };
    // As in Apache `disabled` takes away the names before it.
    let mut names =
        written.iter().map(names).fold(Vec::new(), |before: Vec<Name>, more| match more.is_empty() {
            true => more,
            false => before.into_iter().chain(more).collect(),
        });
    if written.is_empty() {
        names.push(Name { text: Template::literal(b"index.html"), place: None });
    }
    let is_overlaid = view.context().is_per_directory();
    let fallback = per_directory::fallback(view);
    let negotiates = per_directory::options::negotiates(view);
    let (redirect, files) = (per_directory::index_redirect(view), Files::of(view));
    let has_slash = per_directory::has_slash(view);
    let takes_all_methods = per_directory::are_files_judged(view);
    let names = names.into();
    let index = Index {
        names,
        is_public,
        is_overlaid,
        takes_all_methods,
        negotiates,
        redirect,
        has_slash,
        fallback,
        files,
    };
    builder.handle(Phase::Content, index);
    Ok(())
}

struct Index {
    names: Box<[Name]>,
    /// Whether the names come from a `.htaccess` file. They may then lead only where a client may go itself.
    is_public: bool,
    /// Whether such a file is there at all. It may refuse an index, and Apache then tries the next name.
    is_overlaid: bool,
    /// Whether methods are answered as by Apache: such files count, even if there are none.
    takes_all_methods: bool,
    /// Whether a name that is missing may have other forms: `Options +MultiViews`.
    negotiates: bool,
    /// The status with which the client is redirected to the index: `DirectoryIndexRedirect`.
    redirect: Option<Status>,
    /// Whether a directory without its slash is redirected to the path with it.
    has_slash: bool,
    /// The path that such a file names for directories without an index.
    fallback: Option<Box<[u8]>>,
    files: Files,
}

struct Name {
    text: Template,
    /// Where it is written.
    place: Option<Span>,
}

impl Handler for Index {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if !(methods::is_fetched(exchange) || self.takes_all_methods)
            || !exchange.request.path.ends_with(b"/")
        {
            return Step::Next;
        }
        let search = if self.is_overlaid { Search::of(exchange) } else { None };
        let (start, refused) = search.map_or((0, None), |search| (search.next, search.refused.get()));
        self.search(exchange, start, refused)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let (search, asked) = (exchange.attached::<Search>(), exchange.attached::<Asked>());
        let (Outcome::Subresponse(answer), Some(search), Some(asked)) = (outcome, search, asked) else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        let path = asked.path.take();
        let judged = answer.exchange.response;
        // Other statuses are those of the location, which does not answer for an index that does not exist.
        let is_final = matches!(judged.status, Status::UNAUTHORIZED | Status::INTERNAL_SERVER_ERROR);
        let answered = asked.answered.take().or(is_final.then_some(judged.status));
        match answered {
            Some(status) if search.ends_with(status) => {
                for challenge in judged.fields.all("www-authenticate") {
                    // It was a field already, so that it is a good one.
                    let _ = exchange.response.fields.push(b"WWW-Authenticate", challenge);
                }
                exchange.response.location = judged.location;
                Step::Finish(status)
            }
            Some(status) if status != Status::NOT_FOUND => self.search(exchange, search.next, Some(status)),
            // An index that is a directory is redirected to its slash.
            _ if search.is_directory && self.has_slash => {
                exchange.response.location = Some(own_url(exchange, &with_slash(exchange, &path)).into());
                Step::Finish(Status::MOVED_PERMANENTLY)
            }
            _ => match self.fallback_file(exchange) {
                // As in Apache it takes the place of the first index that is missing.
                Some(path) => self.fall_back(exchange, path),
                None => self.search(exchange, search.next, search.refused.get()),
            },
        }
    }
}

/// What is at the name of an index.
enum Named {
    /// The index.
    Index(usize, Vec<u8>),
    /// No file, but maybe a directory; the rules of `.htaccess` files may refuse or redirect the name.
    Missing(usize, Vec<u8>, bool),
}

impl Index {
    /// Looks for an index from a name on. The status is that which one of the names before was refused with.
    fn search(&self, exchange: &mut Exchange, start: usize, refused: Option<Status>) -> Step {
        let named = match self.find(exchange, start) {
            Ok(Some(named)) => named,
            Ok(None) => return self.without(exchange, refused),
            Err(Status::NOT_FOUND) if !methods::is_fetched(exchange) => return methods::answer(exchange),
            Err(status) => return Step::Finish(status),
        };
        let args = exchange.request.args.clone();
        let search = |index: Vec<u8>, position: usize| Search {
            directory: (exchange.request.path.clone(), args.clone()),
            scope: Some(Arc::clone(&exchange.scope)),
            index,
            next: position + 1,
            is_last: position + 1 == self.names.len(),
            error: exchange.error,
            refused: Cell::new(refused),
            is_back: Cell::new(false),
            is_fallback: false,
            is_directory: false,
        };
        match named {
            Named::Missing(position, path, is_directory) => {
                exchange.attach(Reach::Own, Rc::new(Search { is_directory, ..search(Vec::new(), position) }));
                if exchange.attached::<Asked>().is_none() {
                    exchange.attach(Reach::Shared, Rc::new(Asked::default()));
                }
                if let Some(asked) = exchange.attached::<Asked>() {
                    asked.path.replace(path.clone());
                    asked.scope.replace(Some(Arc::clone(&exchange.scope)));
                }
                Step::Await(judging::ask_with(path, args))
            }
            Named::Index(_, path) if let Some(status) = self.redirect => redirect(exchange, &path, status),
            Named::Index(position, path) => {
                if self.is_overlaid {
                    exchange.attach(Reach::Own, Rc::new(search(path.clone(), position)));
                }
                Step::Reroute(match self.is_public {
                    true => Reroute::Uri { path, args },
                    false => Reroute::Internal { path, args },
                })
            }
        }
    }

    /// The path of `FallbackResource`, if it is that of a file.
    fn fallback_file(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let path = per_directory::fallback_for(self.fallback.as_deref()?, &exchange.request.path);
        let file = files::map(exchange, &path).ok()?;
        let is_file = self.files.look(exchange, &file).is_ok_and(|opened| opened.kind == Kind::File);
        is_file.then_some(path)
    }

    fn fall_back(&self, exchange: &mut Exchange, path: Vec<u8>) -> Step {
        match self.redirect {
            Some(status) => redirect(exchange, &path, status),
            None => fall_back(exchange, path),
        }
    }

    /// What happens to a directory without an index.
    fn without(&self, exchange: &mut Exchange, refused: Option<Status>) -> Step {
        match (refused, &self.fallback) {
            (Some(status), _) => Step::Finish(status),
            // As in Apache, `DirectoryIndex disabled` also disables the path for directories.
            _ if self.names.is_empty() => Step::Next,
            (None, Some(named)) => {
                let path = per_directory::fallback_for(named, &exchange.request.path);
                if path == exchange.request.path {
                    return Step::Next;
                }
                self.fall_back(exchange, path)
            }
            _ => Step::Next,
        }
    }

    /// The first name that has an index, or that the rules may refuse, and its URI.
    fn find(&self, exchange: &Exchange, start: usize) -> Result<Option<Named>, Status> {
        if self.names.is_empty() {
            let directory = files::map(exchange, &exchange.request.path)?;
            self.check_directory(exchange, &directory, &directory)?;
        }
        for (position, name) in self.names.iter().enumerate().skip(start) {
            let (name, place) = (name.text.evaluate(exchange), name.place);
            if name.starts_with(b"/") && !self.is_overlaid {
                tell(exchange, &name, place);
                return Ok(Some(Named::Index(position, name)));
            }
            let directory = files::map(exchange, &exchange.request.path)?;
            let (uri, file) = match self.is_overlaid && (name.starts_with(b"/") || climbs(&name)) {
                // As in Apache the name may lead to another directory of the site.
                true if name.starts_with(b"/") => {
                    // Only a directory has an index.
                    self.check_directory(exchange, &directory, &directory)?;
                    let uri = canonical(&name);
                    let Ok(file) = files::map(exchange, &uri) else {
                        return Ok(Some(Named::Index(position, uri)));
                    };
                    (uri, file)
                }
                true => {
                    let uri = canonical(&[&exchange.request.path[..], &name].concat());
                    let file = files::map(exchange, &uri)?;
                    (uri, file)
                }
                false => ([&exchange.request.path[..], &name].concat(), join(exchange, &directory, &name)?),
            };
            let mut is_directory = false;
            match self.files.look(exchange, &file) {
                // Apache takes files only.
                Ok(opened) if self.is_overlaid && opened.kind == Kind::Directory => is_directory = true,
                Ok(_) => {
                    tell(exchange, &uri, place);
                    return Ok(Some(Named::Index(position, uri)));
                }
                Err(error) => {
                    refuse_search(exchange, &file, &error)?;
                    // Elsewhere the options of another directory count.
                    let below = file.strip_prefix(&directory[..]).filter(|_| self.negotiates);
                    if below.is_some_and(|name| has_form(&directory, name)) {
                        return Ok(Some(Named::Index(position, uri)));
                    }
                }
            }
            if position == 0 {
                self.check_directory(exchange, &directory, &file)?;
            }
            if self.is_overlaid {
                return Ok(Some(Named::Missing(position, uri, is_directory)));
            }
        }
        Ok(None)
    }

    /// Tells a directory without an index from one that does not exist.
    fn check_directory(&self, exchange: &Exchange, directory: &[u8], file: &[u8]) -> Result<(), Status> {
        match self.files.look(exchange, directory) {
            Ok(opened) if opened.kind == Kind::Directory => Ok(()),
            Ok(_) => {
                exchange.log(Level::Alert, &is(directory, "not a directory"));
                Err(Status::INTERNAL_SERVER_ERROR)
            }
            Err(error) => match files::errno(&error) {
                // The file was looked for without being refused, so the directory may be searched.
                Some(Errno::ACCESS) => Ok(()),
                Some(Errno::LOOP | Errno::MLINK) => Err(Status::FORBIDDEN),
                Some(Errno::NOENT | Errno::NOTDIR) => Err(not_found(exchange, file, &error)),
                _ => {
                    exchange.log(Level::Crit, &files::failed("stat", directory, &error));
                    Err(Status::INTERNAL_SERVER_ERROR)
                }
            },
        }
    }
}

/// Redirects a directory to its index.
fn redirect(exchange: &mut Exchange, path: &[u8], status: Status) -> Step {
    let mut target = Vec::new();
    escape_uri(path, &mut target);
    exchange.response.location = Some(own_url(exchange, &target).into());
    Step::Finish(status)
}

fn tell(exchange: &Exchange, uri: &[u8], place: Option<Span>) {
    let text = || format!("goes to \"{}\"", String::from_utf8_lossy(uri));
    exchange.tell(|| Event::new("index", text()).at(place));
}

/// The path of an index. A name that contains text of a client must not lead out of the directory.
fn join(exchange: &Exchange, directory: &[u8], name: &[u8]) -> Result<Vec<u8>, Status> {
    if name.contains(&0) || climbs(name) {
        return Err(files::map_failed(exchange, contract::MapError::Unsafe));
    }
    Ok([directory, name].concat())
}

fn climbs(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, status};
    use contract::{Phase, Reroute, Step};

    fn target(site: &Site, target: &str) -> Option<String> {
        match site.run(Phase::Content, &mut site.get(target)) {
            Step::Reroute(Reroute::Internal { path, args }) => {
                let args = args.map(|args| format!("?{}", String::from_utf8_lossy(&args)));
                Some(String::from_utf8_lossy(&path).into_owned() + &args.unwrap_or_default())
            }
            _ => None,
        }
    }

    #[test]
    fn the_first_name_that_exists() {
        let site = Site::location("index a.html; index none$args b.html /last;");
        site.file("b.html", "");
        site.file("sub/x", "");
        assert_eq!(target(&site, "/?q=1").as_deref(), Some("/b.html?q=1"));
        assert_eq!(target(&site, "/sub/").as_deref(), Some("/last"));
        site.file("a.html", "");
        assert_eq!(target(&site, "/").as_deref(), Some("/a.html"));
    }

    #[test]
    fn a_directory_that_is_not_there() {
        let site = Site::location("");
        site.file("file", "");
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/none/"))), 404);
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/file/"))), 404);
        assert!(matches!(site.run(Phase::Content, &mut site.get("/")), Step::Next));
    }

    #[test]
    fn a_name_cannot_climb() {
        let site = Site::location("index $args;");
        site.file("sub/x", "");
        assert_eq!(status(&site.run(Phase::Content, &mut site.get("/sub/?../../etc/passwd"))), 403);
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(Site::error("index a \"\";"), "index \"\" in \"index\" directive is invalid");
    }
}
