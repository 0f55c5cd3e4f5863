//! One request and its response, on their way through the server.

use crate::{
    Budget, Connection, Definition, Event, FileIdentity, Overlaid, Peer, Scope, VariableId, VariableTable,
};
use bytes::Bytes;
use conf::value::Captures;
use http::{Fields, Method, RequestHead, ResponseHead, Status};
use journal::clock::Time;
use journal::{About, ErrorLog, Level};
use std::any::{Any, TypeId};
use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The head as it came.
    pub head: Box<RequestHead>,
    /// The target without scheme and host, as it came (`$request_uri`).
    pub uri: Vec<u8>,
    /// The method that is answered; an error page makes it GET.
    pub method: Method,
    /// The decoded and normalised path (`$uri`).
    pub path: Vec<u8>,
    /// The query without `?` (`$args`).
    pub args: Option<Vec<u8>>,
    /// The host that was asked for, in lower case, without its port; empty where none was named.
    pub host: Vec<u8>,
    /// The port after the host (`$request_port`).
    pub port: Option<u16>,
    /// The length of the body, where it is known.
    pub content_length: Option<u64>,
    /// Whether the body is chunked.
    pub chunked: bool,
    /// The body, once [`Work::RequestBody`](crate::Work::RequestBody) was done.
    pub body: Option<RequestBody>,
    /// How much of the body was handed on as it came, where [`Work::RequestStream`](crate::Work::RequestStream) did not
    /// find it whole.
    pub streaming: Option<Streaming>,
    /// How many bytes of the request were read (`$request_length`).
    pub length: u64,
    /// Whether it came before the response to the one before it was sent (`$pipe`).
    pub pipelined: bool,
}

impl Request {
    /// A request of which nothing is known.
    pub fn new() -> Request {
        Request::default()
    }

    /// Makes it what [`Request::new`] gives, and keeps the memory.
    pub fn clear(&mut self) {
        let Request {
            head,
            uri,
            method,
            path,
            args,
            host,
            port,
            content_length,
            chunked,
            body,
            streaming,
            length,
            pipelined,
        } = self;
        head.clear();
        uri.clear();
        path.clear();
        host.clear();
        (*method, *args, *port) = (Method::Other, None, None);
        (*content_length, *chunked, *body, *streaming) = (None, false, None, None);
        (*length, *pipelined) = (0, false);
    }
}

/// How much of a request's body was handed on as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// Nothing.
    Untouched,
    /// A part of it.
    Begun,
    /// All of it.
    Over,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum RequestBody {
    /// All of it.
    Memory(Bytes),
    /// A file without a name, since it was longer than `client_body_buffer_size`.
    File {
        /// The file.
        file: Arc<File>,
        /// How many bytes it has.
        length: u64,
    },
}

impl RequestBody {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            RequestBody::Memory(bytes) => bytes.len() as u64,
            RequestBody::File { length, .. } => *length,
        }
    }

    /// The body, where it is in memory (`$request_body`).
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            RequestBody::Memory(bytes) => Some(bytes),
            RequestBody::File { .. } => None,
        }
    }
}

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

/// One request and its response.
pub struct Exchange {
    /// The connection.
    pub connection: Rc<Connection>,
    /// The request.
    pub request: Request,
    /// The head of the response.
    pub response: ResponseHead,
    /// The server's name that the configuration gives (`$server_name`).
    pub server_name: Arc<[u8]>,
    /// The scope whose settings count now.
    pub scope: Arc<Scope>,
    /// The scope that applied before, or to an earlier request.
    pub scope_before: Arc<Scope>,
    /// When the first byte of the request came.
    pub started: Time,
    /// Whether this is, by now, an internal redirect.
    pub internal: bool,
    /// Whether the URI still belongs to the location that it chose.
    pub valid_location: bool,
    /// Whether `try_files` found the URI's file below an alias of a regex location, to whose text the
    /// URI is then appended; an internal redirect ends it.
    pub uri_behind_alias: bool,
    /// The error whose page is being served.
    pub error: Option<Status>,
    /// Whether a page took the place of an error already.
    pub error_page_used: Replaced,
    /// What was sent.
    pub wire: Wire,
    /// A note that a handler leaves for its own `resume`.
    pub note: usize,
    /// Whether the request was made inside of the server, for the content of another one.
    pub subrequest: bool,
    /// The file that the content is, from its first byte to its last, where it is one.
    pub file: Option<FileIdentity>,
    /// The variables that the configuration uses.
    pub variables: Arc<VariableTable>,
    /// Made when something is kept, so that most requests do without.
    kept: OnceCell<Rc<Kept>>,
    /// What the latest search for `.htaccess` files found.
    pub overlaid: Option<Rc<Overlaid>>,
    /// What is attached to this exchange alone.
    own: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    evaluating: Cell<u32>,
    /// How many values were computed for the one that is asked for.
    evaluated: Cell<u32>,
    captured: RefCell<Option<Captured>>,
    /// Memory that a feature left for a further request.
    left: RefCell<Option<Box<dyn Any>>>,
    /// Early hints that the engine did not take yet.
    hints: RefCell<Vec<Fields>>,
}

/// How many computed variables may wait for each other. More is a circle.
const EVALUATING_MAX: u32 = 100;

/// How many values may be computed for one. A circle of variables that use each other twice has no end.
const EVALUATED_MAX: u32 = 10_000;

/// What a request and the requests inside of the server on its behalf have in common.
#[derive(Default)]
pub(crate) struct Kept {
    slots: RefCell<Vec<Option<Box<[u8]>>>>,
    attached: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    pub(crate) budget: Rc<Budget>,
}

impl Kept {
    /// Forgets all and keeps the memory; `false` if another request still uses it.
    fn clear(kept: &mut Rc<Kept>) -> bool {
        let Some(Kept { slots, attached, budget }) = Rc::get_mut(kept) else { return false };
        slots.get_mut().clear();
        attached.get_mut().clear();
        Rc::get_mut(budget).map(|budget| *budget = Budget::default()).is_some()
    }
}

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
            server_name: Arc::default(),
            scope_before: Arc::clone(&scope),
            scope,
            started: Time::now(),
            internal: false,
            valid_location: true,
            uri_behind_alias: false,
            error: None,
            error_page_used: Replaced::No,
            wire: Wire::default(),
            note: 0,
            subrequest: false,
            file: None,
            variables,
            kept: OnceCell::new(),
            overlaid: None,
            own: RefCell::new(Vec::new()),
            evaluating: Cell::new(0),
            evaluated: Cell::new(0),
            captured: RefCell::new(None),
            left: RefCell::new(None),
            hints: RefCell::new(Vec::new()),
        }
    }

    /// Ends the exchange, and with it all that is attached to it. The memory stays for another one.
    pub fn clear(&mut self) {
        let Exchange {
            connection: _,
            request,
            response,
            server_name: _,
            scope: _,
            scope_before: _,
            started: _,
            internal,
            valid_location,
            uri_behind_alias,
            error,
            error_page_used,
            wire,
            note,
            subrequest,
            file,
            variables: _,
            kept,
            overlaid,
            own,
            evaluating,
            evaluated,
            captured,
            left: _,
            hints,
        } = self;
        // What is attached may look at nothing of the exchange when it ends.
        if kept.get_mut().is_some_and(|kept| !Kept::clear(kept)) {
            *kept = OnceCell::new();
        }
        own.get_mut().clear();
        request.clear();
        response.clear(Status::OK);
        (*internal, *valid_location, *uri_behind_alias) = (false, true, false);
        (*error, *error_page_used) = (None, Replaced::No);
        (*wire, *note, *subrequest, *file, *overlaid) = (Wire::default(), 0, false, None, None);
        (*evaluating.get_mut(), *evaluated.get_mut()) = (0, 0);
        *captured.get_mut() = None;
        hints.get_mut().clear();
    }

    /// Takes up another connection, or the same, after [`Exchange::clear`].
    pub fn take_up(&mut self, connection: &Rc<Connection>, variables: &Arc<VariableTable>, started: Time) {
        if !Rc::ptr_eq(&self.connection, connection) {
            self.connection = Rc::clone(connection);
        }
        if !Arc::ptr_eq(&self.variables, variables) {
            self.variables = Arc::clone(variables);
        }
        self.started = started;
    }

    /// An exchange for a request inside of the server, on behalf of this one. The two share the
    /// variables that were set, and what is attached, except what belongs to one of them only.
    #[must_use]
    pub fn inner(&self, request: Request) -> Exchange {
        let variables = Arc::clone(&self.variables);
        let inner = Exchange::new(Rc::clone(&self.connection), request, Arc::clone(&self.scope), variables);
        Exchange { kept: Rc::clone(self.kept()).into(), subrequest: true, ..inner }
    }

    /// Makes this a repetition of a request: it counts as the same one, in the same location, and is for the same part.
    pub fn repeat(&mut self, other: &Exchange) {
        last::<PartStart>(&other.own.borrow()).into_iter().for_each(|part| self.attach_own_shared(part));
        (self.internal, self.valid_location) = (other.internal, other.valid_location);
        self.uri_behind_alias = other.uri_behind_alias;
        *self.captured.get_mut() = other.captured.borrow().clone();
    }

    /// Keeps a value until the exchange ends; its destructor runs then. A feature attaches its own types. All requests
    /// inside of the server on behalf of this one share it: what is about the client, or decided once for all of them.
    pub fn attach<T: 'static>(&self, value: T) {
        self.attach_shared(Rc::new(value));
    }

    /// Attaches as [`Exchange::attach`] does what has its memory already.
    pub fn attach_shared<T: 'static>(&self, value: Rc<T>) {
        self.kept().attached.borrow_mut().push((TypeId::of::<T>(), value));
    }

    /// Keeps a value as [`Exchange::attach`] does, for this exchange alone: what is about the way that it
    /// is answered. Another one may be answered at the same time, and must not see it.
    pub fn attach_own<T: 'static>(&self, value: T) {
        self.attach_own_shared(Rc::new(value));
    }

    /// Attaches as [`Exchange::attach_own`] does what has its memory already.
    #[inline]
    pub fn attach_own_shared<T: 'static>(&self, value: Rc<T>) {
        self.own.borrow_mut().push((TypeId::of::<T>(), value));
    }

    /// Sends a response with these fields ahead of the final one (103, RFC 8297), if the settings of the scope allow it.
    pub fn hint(&self, fields: Fields) {
        self.hints.borrow_mut().push(fields);
    }

    /// Whether there are early hints that were not taken yet.
    #[inline]
    pub fn has_hints(&mut self) -> bool {
        !self.hints.get_mut().is_empty()
    }

    /// The early hints that were not taken yet.
    pub fn take_hints(&mut self) -> Vec<Fields> {
        std::mem::take(self.hints.get_mut())
    }

    /// Leaves memory for a further request, in place of what was left before. Nothing of this request may be told by it.
    /// It may point to the site, which it does not outlive.
    pub fn leave(&self, memory: Box<dyn Any>) {
        let before = self.left.replace(Some(memory));
        drop(before);
    }

    /// Memory of this type that an earlier request left.
    pub fn left<T: 'static>(&self) -> Option<Box<T>> {
        self.left.take()?.downcast().ok()
    }

    /// The value of a type that was attached last; what is attached to this exchange alone comes first.
    #[inline]
    pub fn attached<T: 'static>(&self) -> Option<Rc<T>> {
        last(&self.own.borrow()).or_else(|| self.attached_to_all())
    }

    /// As [`Exchange::attached`], of what the request and all those on its behalf have in common.
    #[inline]
    pub fn attached_to_all<T: 'static>(&self) -> Option<Rc<T>> {
        last(&self.kept.get()?.attached.borrow())
    }

    pub(crate) fn kept(&self) -> &Rc<Kept> {
        self.kept.get_or_init(Rc::default)
    }

    /// Appends a variable's value; `false` where it has none.
    pub fn variable(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        match self.variables.definition(id) {
            Definition::Get(get, rest) => get(self, rest, out),
            Definition::Slot => self.slot(id, out),
            Definition::Evaluated(source) => {
                if self.slot(id, out) {
                    return true;
                }
                let depth = self.evaluating.get();
                let count = if depth == 0 { 1 } else { self.evaluated.get() + 1 };
                self.evaluated.set(count);
                if depth == EVALUATING_MAX || count > EVALUATED_MAX {
                    let name = self.variables.name(id);
                    self.log(Level::Error, &format!("cycle while evaluating variable \"{name}\""));
                    return false;
                }
                let start = out.len();
                self.evaluating.set(depth + 1);
                let found = source.evaluate(self, out);
                self.evaluating.set(depth);
                if self.connection.debug {
                    self.tell(|| variable(self.variables.name(id), &out[start..]));
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
        let mut slots = self.kept().slots.borrow_mut();
        if slots.len() < self.variables.len() {
            slots.resize(self.variables.len(), None);
        }
        if let Some(slot) = slots.get_mut(id.0 as usize) {
            *slot = Some(value.into());
        }
    }

    fn slot(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        let Some(kept) = self.kept.get() else { return false };
        let slots = kept.slots.borrow();
        let value = slots.get(id.0 as usize).and_then(Option::as_deref);
        value.inspect(|value| out.extend_from_slice(value)).is_some()
    }

    /// Keeps the captures of the pattern that matched last.
    pub fn set_captures(&self, groups: Captures, subject: &[u8]) {
        *self.captured.borrow_mut() = Some(Captured { groups, subject: subject.into() });
    }

    /// Appends a capture of the pattern that matched last; `false` where it took no part.
    pub fn capture(&self, index: u8, out: &mut Vec<u8>) -> bool {
        let captured = self.captured.borrow();
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

    /// The scope's error log with what nginx tells of the request, for work that goes on without it.
    pub fn request_log(&self) -> RequestLog {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let has_line = !self.request.head.line().is_empty();
        // Without a request line and a name, the address tells most about the server.
        let server = match (&self.connection.local, self.server_name.is_empty() && !has_line) {
            (Peer::Inet(local), true) => local.to_string(),
            (Peer::Unix(Some(path)), true) => format!("unix:{}", text(path)),
            _ => text(&self.server_name),
        };
        let mut about = vec![("client", self.connection.peer.address()), ("server", server)];
        if has_line {
            about.push(("request", text(self.request.head.line())));
        }
        if self.subrequest {
            about.push(("subrequest", text(&self.request.path)));
        }
        let fields = [("host", "host"), ("referer", "referrer")]
            .into_iter()
            .filter_map(|(name, shown)| self.request.head.fields.get(name).map(|value| (shown, text(value))));
        RequestLog {
            log: match self.connection.debug {
                true => self.scope.policy.error_log.in_detail(),
                false => self.scope.policy.error_log.clone(),
            },
            connection: self.connection.serial,
            about,
            fields: fields.collect(),
        }
    }
}

/// The last value of a type.
#[inline]
fn last<T: 'static>(attached: &[(TypeId, Rc<dyn Any>)]) -> Option<Rc<T>> {
    let (_, found) = attached.iter().rev().find(|(kind, _)| *kind == TypeId::of::<T>())?;
    Rc::clone(found).downcast().ok()
}

/// A variable got its value.
fn variable(name: &str, value: &[u8]) -> Event {
    let text = format!("${name} is \"{}\"", String::from_utf8_lossy(value));
    Event::new("variable", text).with("name", name).with("value", value)
}

/// An error log together with what nginx tells of a request.
#[derive(Clone, Debug)]
pub struct RequestLog {
    log: ErrorLog,
    connection: u64,
    about: Vec<(&'static str, String)>,
    fields: Vec<(&'static str, String)>,
}

impl RequestLog {
    /// Writes a line; `upstream` is the URL of the server that was asked on behalf of the request.
    pub fn write(&self, level: Level, message: &str, upstream: Option<&str>) {
        let mut members: Vec<(&str, &str)> = Vec::new();
        members.extend(self.about.iter().map(|(name, value)| (*name, &**value)));
        members.extend(upstream.map(|url| ("upstream", url)));
        members.extend(self.fields.iter().map(|(name, value)| (*name, &**value)));
        let about = About { connection: Some(self.connection), members: &members };
        self.log.write_about(level, message, &about);
    }
}
