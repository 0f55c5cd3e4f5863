//! The handlers of files.

use super::{Kind, Line, SET_HANDLER, describe, lines, of_path, said};
use crate::gateway::{fastcgi, proxy, scgi, uwsgi};
use crate::shared::apache::{last, variables};
use contract::{Exchange, Handler, Step, View};
use http::Status;
use journal::Level;

/// The handler of pages with commands, whose files are sent all the same.
const SERVER_PARSED: &[u8] = b"server-parsed";

/// Which files are pages with commands by their handler.
pub(crate) struct Parsed {
    /// All files of the level.
    pub(crate) all: bool,
    lines: Vec<Line>,
}

impl Parsed {
    /// What a level says; none if no file is such a page.
    pub(crate) fn of(view: &View<'_>) -> Option<Parsed> {
        let set = last(view, &SET_HANDLER);
        let lines = if set.is_some() { Vec::new() } else { lines(view) };
        let is_meant = |line: &Line| {
            line.kind == Kind::Handler
                && line.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(SERVER_PARSED))
        };
        let all = set.is_some_and(|set| set.eq_ignore_ascii_case(SERVER_PARSED));
        (all || lines.iter().any(is_meant)).then_some(Parsed { all, lines })
    }

    /// Whether the file of a path is one of them.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let handlers = of_path(path).filter_map(|extension| said(&self.lines, Kind::Handler, extension));
        let handler = handlers.last().and_then(|line| line.value.as_deref());
        self.all || handler.is_some_and(|handler| handler.eq_ignore_ascii_case(SERVER_PARSED))
    }
}

/// The handlers of files.
pub(crate) struct Chosen {
    pub(super) lines: Vec<Line>,
    /// `SetHandler`
    pub(super) set: Option<Box<[u8]>>,
}

impl Chosen {
    /// What a level says.
    pub(crate) fn of(view: &View<'_>) -> Chosen {
        Chosen { lines: lines(view), set: last(view, &SET_HANDLER) }
    }

    /// The handler of the file of a path. As in Apache, `SetHandler none` leaves the choice to the extensions.
    pub(crate) fn handler(&self, path: &[u8]) -> Option<&[u8]> {
        let is_none = self.set.as_ref().is_some_and(|handler| handler.eq_ignore_ascii_case(b"none"));
        if is_none { self.by_extension(path).flatten() } else { self.said(path).flatten() }
    }

    /// What is said of the file's handler, if anything is: its name, or that it has none.
    fn said(&self, path: &[u8]) -> Option<Option<&[u8]>> {
        match &self.set {
            Some(handler) if handler.eq_ignore_ascii_case(b"none") => self.by_extension(path).or(Some(None)),
            Some(handler) => Some(Some(handler)),
            None => self.by_extension(path),
        }
    }

    fn by_extension(&self, path: &[u8]) -> Option<Option<&[u8]>> {
        let said = of_path(path).filter_map(|extension| said(&self.lines, Kind::Handler, extension));
        said.last().map(|line| line.value.as_deref())
    }
}

/// Keeps files that are programs from being sent, and files that are none from being run.
pub(super) struct Handlers {
    pub(super) chosen: Chosen,
    /// Whether the location passes requests to a program or another server.
    pub(super) has_program: bool,
    /// Whether a media type names a program. As in Apache, the type of a file without a handler is its handler.
    pub(super) has_program_type: bool,
}

impl Handlers {
    /// Whether the file of a path is a program by its media type.
    fn is_program_by_type(&self, exchange: &Exchange, path: &[u8]) -> bool {
        self.has_program_type
            && (is_program_type(&exchange.media_type(path))
                || describe(&exchange.scope, path)
                    .media_type
                    .is_some_and(|media_type| is_program_type(&media_type)))
    }
}

impl Handler for Handlers {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let path = &exchange.request.path;
        // What a handler that a file names would do is up to the location. A directory has none.
        let wanted = match self.chosen.said(path) {
            Some(Some(handler)) => Some(is_program(handler)),
            _ if self.is_program_by_type(exchange, path) => Some(true),
            said => said.map(|_| false),
        };
        let is_refused = wanted.is_some_and(|wanted| wanted != self.has_program) && !path.ends_with(b"/");
        if !is_refused {
            return Step::Next;
        }
        if wanted == Some(true) && is_missing(exchange) {
            return Step::Finish(Status::NOT_FOUND);
        }
        exchange.log(Level::Error, "access forbidden: the handler of the file is not that of its location");
        Step::Finish(Status::FORBIDDEN)
    }
}

/// Whether a level passes requests to a program or another server.
pub(crate) fn has_program(view: &View<'_>) -> bool {
    view.get(&fastcgi::FASTCGI_PASS).is_some()
        || view.get(&proxy::PROXY_PASS).is_some()
        || view.get(&uwsgi::UWSGI_PASS).is_some()
        || view.get(&scgi::SCGI_PASS).is_some()
}

/// Whether the request's file does not exist.
fn is_missing(exchange: &Exchange) -> bool {
    let budget = exchange.budget();
    let _running = budget.run();
    exchange.path().is_ok_and(|path| variables::is_missing(exchange, &path, &budget).unwrap_or(false))
}

/// Whether files with this handler are programs. Apache sends files whose handler it does not know, which depends on the
/// modules that it loads. So what is named as the handlers of such modules are is a program.
fn is_program(handler: &[u8]) -> bool {
    let name = handler.to_ascii_lowercase();
    if [SERVER_PARSED, b"default-handler", b"none"].contains(&&*name) {
        return false;
    }
    let starts: [&[u8]; 14] = [
        b"application/x-httpd",
        b"application/x-lsphp",
        b"fastcgi",
        b"fcgid",
        b"jsp",
        b"lua",
        b"mod_",
        b"mod-",
        b"perl",
        b"php",
        b"proxy:",
        b"python",
        b"server-",
        b"tcl",
    ];
    let ends: [&[u8]; 5] = [b"-handler", b"-program", b"-script", b"-servlet", b"-status"];
    starts.iter().any(|start| name.starts_with(start))
        || ends.iter().any(|end| name.ends_with(end))
        || name == b"type-map"
        || name == b"send-as-is"
}

/// Whether files with this media type are programs, since a module takes it as a handler.
pub(crate) fn is_program_type(media_type: &[u8]) -> bool {
    let name = media_type.to_ascii_lowercase();
    let starts: [&[u8]; 4] =
        [b"application/x-httpd", b"application/x-lsphp", b"application/x-php", b"x-mapp-php"];
    starts.iter().any(|start| name.starts_with(start))
}
