//! One request and its response, on their way through the server.

use crate::attached::Attached;
use crate::{
    Budget, Connection, Definition, Event, FileIdentity, Overlaid, Reach, Request, Scope, VariableId,
    VariableTable,
};
use bytes::Bytes;
use conf::value::Captures;
use http::{Fields, Method, ResponseHead, Status};
use journal::Level;
use journal::clock::Time;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// What is known of the way a response goes out.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// Whether the connection stays open.
    pub keep_alive: bool,
    /// Whether the body is chunked.
    pub chunked: bool,
    /// Whether it was decided what is answered.
    pub answered: bool,
    /// Whether the answer is another server's, which has judged the conditions of the request already.
    pub relayed: bool,
    /// Whether the content is read to its end although the client does not take it: it is kept for others.
    pub outlasts: bool,
    /// Whether the head is on its way.
    pub head_sent: bool,
    /// Bytes sent (`$bytes_sent`).
    pub bytes: u64,
    /// Bytes of the head among them.
    pub head_bytes: u64,
    /// How many bytes a second are sent (`$limit_rate`), where something said so; 0 is any number.
    pub limit_rate: Option<u64>,
}

/// Where the part of the content starts that a request is for, in bytes, as long as that is known.
pub struct PartStart(pub Option<u64>);

/// Whether a page took the place of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// None, or the server's own.
    No,
    /// One that the configuration names.
    Once,
    /// One that a `.htaccess` file names. If it fails, the first error is answered.
    Kept,
}

/// The way of a request between locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Whether this is, by now, an internal redirect.
    pub internal: bool,
    /// Whether the URI still belongs to the location that it chose.
    pub valid_location: bool,
    /// Whether `try_files` found the URI's file below an alias of a regex location, to whose text the
    /// URI is then appended; an internal redirect ends it.
    pub uri_below_alias: bool,
}

impl Default for Routing {
    /// A request as the client sent it.
    fn default() -> Routing {
        Routing { internal: false, valid_location: true, uri_below_alias: false }
    }
}

/// One request and its response.
pub struct Exchange {
    /// The connection.
    pub connection: Rc<Connection>,
    /// The request.
    pub request: Request,
    /// The head of the response.
    pub response: ResponseHead,
    /// The scope whose settings count now.
    pub scope: Arc<Scope>,
    /// The scope that applied before, or to an earlier request.
    pub scope_before: Arc<Scope>,
    /// The way of the request between locations.
    pub routing: Routing,
    /// The error whose page is being served.
    pub error: Option<Status>,
    /// Whether a page took the place of an error already.
    pub error_page_used: Replaced,
    /// What was sent.
    pub wire: Wire,
    /// Whether the request was made inside of the server, for the content of another one.
    pub subrequest: bool,
    /// The file that the content is, from its first byte to its last, where it is one.
    pub file: Option<FileIdentity>,
    /// What the latest search for `.htaccess` files found.
    pub overlaid: Option<Rc<Overlaid>>,
    server: Served,
    attached: Attached,
    evaluation: Evaluation,
}

/// Where a request is served, and since when. Only the engine sets it.
struct Served {
    name: Arc<[u8]>,
    variables: Arc<VariableTable>,
    started: Time,
}

/// The variables that are being computed, and the match of a pattern that they may refer to.
#[derive(Default)]
struct Evaluation {
    depth: Cell<u32>,
    /// How many values were computed for the one that is asked for.
    count: Cell<u32>,
    captured: RefCell<Option<Captured>>,
}

/// How many computed variables may wait for each other. More is a circle.
const EVALUATING_MAX: u32 = 100;

/// How many values may be computed for one. A circle of variables that use each other twice has no end.
const EVALUATED_MAX: u32 = 10_000;

#[derive(Clone)]
struct Captured {
    groups: Captures,
    subject: Box<[u8]>,
}

impl Exchange {
    /// A request that nothing was decided about.
    pub fn new(
        connection: Rc<Connection>,
        request: Request,
        scope: Arc<Scope>,
        variables: Arc<VariableTable>,
    ) -> Exchange {
        Exchange {
            connection,
            request,
            response: ResponseHead::new(Status::OK),
            scope_before: Arc::clone(&scope),
            scope,
            routing: Routing::default(),
            error: None,
            error_page_used: Replaced::No,
            wire: Wire::default(),
            subrequest: false,
            file: None,
            overlaid: None,
            server: Served { name: Arc::default(), variables, started: Time::now() },
            attached: Attached::default(),
            evaluation: Evaluation::default(),
        }
    }

    /// Ends the exchange, and with it all that is attached to it. The memory stays for another one.
    pub fn clear(&mut self) {
        let Exchange {
            connection: _,
            request,
            response,
            scope: _,
            scope_before: _,
            routing,
            error,
            error_page_used,
            wire,
            subrequest,
            file,
            overlaid,
            server: _,
            attached,
            evaluation: Evaluation { depth, count, captured },
        } = self;
        // What is attached may look at nothing of the exchange when it ends.
        attached.clear();
        request.clear();
        response.clear(Status::OK);
        (*routing, *error, *error_page_used) = (Routing::default(), None, Replaced::No);
        (*wire, *subrequest, *file, *overlaid) = (Wire::default(), false, None, None);
        (*depth.get_mut(), *count.get_mut()) = (0, 0);
        *captured.get_mut() = None;
    }

    /// Takes up another connection, or the same, after [`Exchange::clear`].
    pub fn take_up(&mut self, connection: &Rc<Connection>, variables: &Arc<VariableTable>, started: Time) {
        if !Rc::ptr_eq(&self.connection, connection) {
            self.connection = Rc::clone(connection);
        }
        if !Arc::ptr_eq(&self.server.variables, variables) {
            self.server.variables = Arc::clone(variables);
        }
        self.server.started = started;
    }

    /// Names the virtual server that serves the request.
    #[inline]
    pub fn serve_as(&mut self, server_name: &Arc<[u8]>) {
        if !Arc::ptr_eq(&self.server.name, server_name) {
            self.server.name = Arc::clone(server_name);
        }
    }

    /// The server's name that the configuration gives (`$server_name`).
    pub fn server_name(&self) -> &[u8] {
        &self.server.name
    }

    /// When the first byte of the request came.
    pub fn started(&self) -> Time {
        self.server.started
    }

    /// The variables that the configuration uses.
    pub fn variables(&self) -> &VariableTable {
        &self.server.variables
    }

    /// An exchange for a request inside of the server, on behalf of this one. The two share the
    /// variables that were set, and what is attached, except what belongs to one of them only.
    #[must_use]
    pub fn inner(&self, request: Request) -> Exchange {
        let variables = Arc::clone(&self.server.variables);
        let inner = Exchange::new(Rc::clone(&self.connection), request, Arc::clone(&self.scope), variables);
        Exchange { attached: Attached::sharing(&self.attached), subrequest: true, ..inner }
    }

    /// Makes this a repetition of a request: it counts as the same one, in the same location, and is for the same part.
    pub fn repeat(&mut self, other: &Exchange) {
        let part = other.attached.own::<PartStart>();
        part.into_iter().for_each(|part| self.attach(Reach::Own, part));
        self.routing = other.routing;
        *self.evaluation.captured.get_mut() = other.evaluation.captured.borrow().clone();
    }

    /// Keeps a value until the exchanges that it reaches have ended; its destructor runs then. A feature attaches
    /// its own types.
    #[inline]
    pub fn attach<T: 'static>(&self, reach: Reach, value: Rc<T>) {
        self.attached.add(reach, value);
    }

    /// The value of a type that was attached last; what is attached to this exchange alone comes first.
    #[inline]
    pub fn attached<T: 'static>(&self) -> Option<Rc<T>> {
        self.attached.get()
    }

    /// The value of a type that was attached last, or this one, which is attached then.
    pub fn attached_or<T: 'static>(&self, reach: Reach, make: impl FnOnce() -> T) -> Rc<T> {
        self.attached().unwrap_or_else(|| {
            let made = Rc::new(make());
            self.attach(reach, Rc::clone(&made));
            made
        })
    }

    /// Sends an interim response ahead of the final one, such as 103 (RFC 8297), if the settings of the scope allow it.
    pub fn hint(&self, status: Status, fields: Fields) {
        self.attached.hints.borrow_mut().push((status, fields));
    }

    /// Whether there are early hints that were not taken yet.
    #[inline]
    pub fn has_hints(&mut self) -> bool {
        !self.attached.hints.get_mut().is_empty()
    }

    /// The early hints that were not taken yet.
    pub fn take_hints(&mut self) -> Vec<(Status, Fields)> {
        std::mem::take(self.attached.hints.get_mut())
    }

    /// Leaves memory for a further request, in place of what was left before. Nothing of this request may be told by it.
    /// It may point to the site, which it does not outlive.
    pub fn leave(&self, memory: Box<dyn Any>) {
        self.attached.leave(memory);
    }

    /// Memory of this type that an earlier request left.
    pub fn left<T: 'static>(&self) -> Option<Box<T>> {
        self.attached.left()
    }

    pub(crate) fn budget_cell(&self) -> &Rc<Budget> {
        &self.attached.shared().budget
    }

    /// Appends a variable's value; `false` where it has none.
    pub fn variable(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        match self.server.variables.definition(id) {
            Definition::Get(get, rest) => get(self, rest, out),
            Definition::Slot => self.slot(id, out),
            Definition::Evaluated(source) => {
                if self.slot(id, out) {
                    return true;
                }
                let depth = self.evaluation.depth.get();
                let count = if depth == 0 { 1 } else { self.evaluation.count.get() + 1 };
                self.evaluation.count.set(count);
                if depth == EVALUATING_MAX || count > EVALUATED_MAX {
                    let name = self.server.variables.name(id);
                    self.log(Level::Error, &format!("cycle while evaluating variable \"{name}\""));
                    return false;
                }
                let start = out.len();
                self.evaluation.depth.set(depth + 1);
                let found = source.evaluate(self, out);
                self.evaluation.depth.set(depth);
                if self.connection.debug {
                    self.tell(|| variable(self.server.variables.name(id), &out[start..]));
                }
                if found && !source.is_volatile() {
                    self.set_slot(id, &out[start..]);
                }
                found
            }
        }
    }

    /// Sets a variable that has a slot.
    pub fn set_slot(&self, id: VariableId, value: &[u8]) {
        let mut slots = self.attached.shared().slots.borrow_mut();
        if slots.len() < self.server.variables.len() {
            slots.resize(self.server.variables.len(), None);
        }
        if let Some(slot) = slots.get_mut(id.0 as usize) {
            *slot = Some(value.into());
        }
    }

    fn slot(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        let Some(shared) = self.attached.shared_so_far() else { return false };
        let slots = shared.slots.borrow();
        let value = slots.get(id.0 as usize).and_then(Option::as_deref);
        value.inspect(|value| out.extend_from_slice(value)).is_some()
    }

    /// Keeps the captures of the pattern that matched last.
    pub fn set_captures(&self, groups: Captures, subject: &[u8]) {
        *self.evaluation.captured.borrow_mut() = Some(Captured { groups, subject: subject.into() });
    }

    /// Appends a capture of the pattern that matched last; `false` where it took no part.
    pub fn capture(&self, index: u8, out: &mut Vec<u8>) -> bool {
        let captured = self.evaluation.captured.borrow();
        let Some(captured) = captured.as_ref() else { return false };
        let value = captured.groups.get(usize::from(index), &captured.subject);
        value.inspect(|value| out.extend_from_slice(value)).is_some()
    }

    /// The path that the URI maps to.
    pub fn path(&self) -> Result<Vec<u8>, crate::MapError> {
        match self.known_path() {
            Some(known) => Ok(known.path.clone()),
            None => self.scope.policy.root.map(self, &self.request.path),
        }
    }

    /// The same path, if the search for `.htaccess` files made it and neither the scope nor the URI has changed since.
    pub fn known_path(&self) -> Option<&Rc<Overlaid>> {
        let is_same = |known: &&Rc<Overlaid>| {
            known.scope.as_ptr() == Arc::as_ptr(&self.scope) && known.uri() == Some(&self.request.path)
        };
        self.overlaid.as_ref().filter(is_same)
    }

    /// The media type that the scope gives a path.
    pub fn media_type(&self, path: &[u8]) -> Bytes {
        let policy = &self.scope.policy;
        policy.types.of_path(path).unwrap_or(&policy.default_type).clone()
    }

    /// Whether the response has no content because of the method.
    pub fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }

    /// Writes to the scope's error log, with what nginx tells of the request.
    pub fn log(&self, level: Level, message: &str) {
        if self.connection.debug || self.scope.policy.error_log.shows(level) {
            match &self.connection.events {
                Some(events) => events.add(Event::new("log", message).with("level", level.name())),
                None => self.request_log().write(level, message, None),
            }
        }
    }

    /// Logs that the request's body is longer than allowed, and gives the status of the answer.
    pub fn refuse_long_body(&self, length: u64) -> Status {
        self.log(Level::Error, &format!("client intended to send too large body: {length} bytes"));
        Status::CONTENT_TOO_LARGE
    }

    /// Reports a step to the debug log or to an explanation. Without either, `event` is not called.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.connection.debug || self.scope.policy.error_log.shows(Level::Debug) {
            match &self.connection.events {
                Some(events) => events.add(event()),
                None => self.request_log().write(Level::Debug, &event().text, None),
            }
        }
    }
}

/// A variable got its value.
fn variable(name: &str, value: &[u8]) -> Event {
    let text = format!("${name} is \"{}\"", String::from_utf8_lossy(value));
    Event::new("variable", text).with("name", name).with("value", value)
}
