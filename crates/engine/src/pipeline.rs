//! The way of one request through the handlers of its scopes. This is the only place that performs a
//! [`Step`]; it does no I/O, so that a test can drive it without a socket.

use crate::error_page::{self, Replacement};
use crate::keepalive;
use crate::redirect;
use crate::served;
use contract::{
    Body, Content, Event, Exchange, Handler, LocationKind, Outcome, Phase, Replaced, RequestBody, Reroute,
    Scope, Source, Step, Subrequest, Work,
};
use http::{Method, Status};
use journal::Level;
use site::Location;
use site::Server;
use std::sync::Arc;

/// How much of a URI a message has, in bytes: its line has no room for more.
const SHOWN_MAX: usize = 2048;

/// How often a request may be sent elsewhere inside of the server.
const REROUTE_LIMIT: u32 = 10;

/// A request on its way.
pub struct Flow {
    /// The request and its response.
    pub exchange: Exchange,
    server: Arc<Server>,
    stage: Stage,
    /// The scope whose handlers run; the exchange's own may change in the middle of a phase.
    running: Arc<Scope>,
    /// The scope whose handlers ran before, or for an earlier request.
    ran: Arc<Scope>,
    next: usize,
    waiting: Option<Arc<dyn Handler>>,
    reroutes: u32,
    /// What a rule of the access phase said against the request, under `satisfy any`.
    denied: Option<Status>,
    /// Whether the request ends where its content would begin.
    is_judged: bool,
    /// Content that an error took the place of, and that is read to its end all the same: it is kept for others.
    unsent: Option<Box<dyn Source>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handlers(Phase),
    FindLocation,
}

/// How far a request came.
pub enum Progress {
    /// The exchange's response head is final, and so is this body.
    Respond(Body),
    /// The connection is closed without a response.
    Close,
    /// Work that must be done before [`Flow::resume`].
    Wait(Work),
}

impl Flow {
    /// A request at the start of its way in a virtual server.
    pub fn new(mut exchange: Exchange, server: Arc<Server>) -> Flow {
        exchange.serve_as(&server.name);
        exchange.scope = Arc::clone(&server.scope);
        let (running, ran) = (Arc::clone(&server.scope), Arc::clone(&server.scope));
        Flow {
            exchange,
            server,
            stage: Stage::Handlers(Phase::ServerRewrite),
            running,
            ran,
            next: 0,
            waiting: None,
            reroutes: 0,
            denied: None,
            is_judged: false,
            unsent: None,
        }
    }

    /// Goes to another virtual server, before anything was done in the first one.
    pub fn choose(&mut self, server: &Arc<Server>) {
        if !Arc::ptr_eq(&self.server, server) {
            self.start(server);
        }
    }

    /// Logs a method that the server that was chosen does not know, and gives the status to answer with.
    pub fn unknown_method(&self) -> Option<Status> {
        let is_known = self.exchange.request.method != Method::Connect || self.server.opens_tunnels;
        (!is_known).then(|| {
            self.exchange.log(Level::Info, "client sent CONNECT method");
            Status::METHOD_NOT_ALLOWED
        })
    }

    /// The server that was chosen.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Sets a request on its way that has none after it.
    #[inline]
    pub fn start(&mut self, server: &Arc<Server>) {
        point(&mut self.server, server);
        self.exchange.serve_as(&server.name);
        site::enter(&mut self.exchange, &server.scope);
        self.follow();
        let rewrites = !server.scope.handlers(Phase::ServerRewrite).is_empty();
        self.stage = if rewrites { Stage::Handlers(Phase::ServerRewrite) } else { Stage::FindLocation };
    }

    /// Forgets the request, and keeps the memory for another one, which is to be [started](Flow::start).
    pub fn clear(&mut self) {
        let Flow {
            exchange,
            server: _,
            stage,
            running: _,
            ran: _,
            next,
            waiting,
            reroutes,
            denied,
            is_judged,
            unsent,
        } = self;
        exchange.clear();
        *stage = Stage::Handlers(Phase::ServerRewrite);
        (*next, *waiting, *reroutes, *denied, *is_judged) = (0, None, 0, None, false);
        *unsent = None;
    }

    /// A request inside of the server, to the same virtual server, on behalf of this one.
    pub fn subrequest(&self, wanted: Subrequest) -> Flow {
        let parent = &self.exchange;
        let mut request = parent.request.clone();
        request.path = wanted.path;
        request.args = wanted.args;
        if !wanted.same_method {
            request.method = Method::Get;
        }
        request.body = request.body.filter(|_| wanted.with_body);
        // No `Content-Length: 0` if the client declared no body.
        let is_announced = request.content_length.is_some() || request.chunked;
        request.content_length = request.body.as_ref().filter(|_| is_announced).map(RequestBody::length);
        request.chunked = false;
        request.streaming = None;
        let mut exchange = parent.inner(request);
        exchange.routing.internal = true;
        if !wanted.repeats {
            let is_judged = wanted.content == Content::Judged;
            return Flow { is_judged, ..Flow::new(exchange, Arc::clone(&self.server)) };
        }
        exchange.repeat(parent);
        let mut flow = Flow::new(exchange, Arc::clone(&self.server));
        flow.exchange.scope = Arc::clone(&parent.scope);
        flow.enter(Stage::Handlers(Phase::Content));
        flow
    }

    /// Runs handlers until there is a response or something to wait for.
    pub fn run(&mut self) -> Progress {
        loop {
            match self.next_step() {
                None | Some(Step::Next) => {}
                Some(step) => {
                    if let Some(progress) = self.perform(step) {
                        return progress;
                    }
                }
            }
        }
    }

    /// Goes on after the work that [`Progress::Wait`] asked for.
    pub fn resume(&mut self, outcome: Outcome) -> Progress {
        let Some(handler) = self.waiting.take() else { return self.run() };
        let step = match outcome {
            Outcome::Failed(status) => Step::Finish(status),
            outcome => handler.resume(&mut self.exchange, outcome),
        };
        if self.exchange.connection.debug {
            self.tell_step(&step);
        }
        if let Step::Await(_) = step {
            self.waiting = Some(handler);
        }
        match self.perform(step) {
            Some(progress) => progress,
            None => self.run(),
        }
    }

    /// Ends the request with a status that the connection found, before or after handlers ran.
    pub fn fail(&mut self, status: Status) -> Progress {
        self.finish(status).unwrap_or_else(|| self.run())
    }

    /// As [`Flow::fail`], without what an error page would wait for: such an answer is not worth it.
    pub fn fail_at_once(&mut self, status: Status) -> Body {
        match self.fail(status) {
            Progress::Respond(body) => body,
            Progress::Wait(_) | Progress::Close => Body::Empty,
        }
    }

    /// Sends the request on its way once more, after its response (`post_action`), where that is asked for.
    pub fn follow_up(&mut self) -> Option<Progress> {
        let target = self.exchange.scope.policy.post_action.clone()?;
        let reroute = match target.starts_with(b"/") {
            true => {
                let (path, args) = error_page::split_args(&target);
                Reroute::Internal { path, args }
            }
            false => Reroute::Named(target),
        };
        Some(self.reroute(reroute).unwrap_or_else(|| self.run()))
    }

    /// Whether there is content that the client does not get, but that is read to its end.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// The content that the client does not get, but that is read to its end.
    pub(crate) fn take_unsent(&mut self) -> Option<Box<dyn Source>> {
        self.unsent.take()
    }

    /// Lets the filters add what they know only when all content was sent.
    pub fn end(&mut self) {
        self.follow();
        for filter in self.running.filters() {
            filter.end(&mut self.exchange);
        }
    }

    /// Runs the handlers of the log phase.
    pub fn log(&mut self) {
        self.exchange.tell(|| {
            let (status, bytes) = (self.exchange.response.status.0, self.exchange.wire.bytes);
            Event::new("answer", format!("answered with {status}, {bytes} bytes in all"))
        });
        self.follow();
        for handler in self.running.handlers(Phase::Log) {
            handler.run(&mut self.exchange);
        }
    }

    /// The step of the next handler that has something to say, or `None` where a stage ended and the next one begins.
    fn next_step(&mut self) -> Option<Step> {
        let Stage::Handlers(phase) = self.stage else { return self.find_location() };
        for handler in self.running.handlers(phase).get(self.next..).unwrap_or_default() {
            self.next += 1;
            let step = handler.run(&mut self.exchange);
            if self.exchange.connection.debug {
                self.tell_step(&step);
            }
            match step {
                Step::Next => {}
                Step::Await(work) => {
                    self.waiting = Some(Arc::clone(handler));
                    return Some(Step::Await(work));
                }
                step => return Some(step),
            }
        }
        self.end_of(phase)
    }

    fn end_of(&mut self, phase: Phase) -> Option<Step> {
        match phase {
            Phase::ServerRewrite => {
                self.enter(Stage::FindLocation);
                None
            }
            Phase::Rewrite => self.reach(Phase::Preaccess),
            // Access was checked for the request that it belongs to.
            Phase::Preaccess if self.exchange.subrequest => self.reach(Phase::Precontent),
            Phase::Preaccess => self.reach(Phase::Access),
            Phase::Access if self.denied.is_some() => self.deny(),
            Phase::Access => self.reach(Phase::Precontent),
            Phase::Precontent if self.is_judged => Some(Step::Respond(Body::Empty)),
            Phase::Precontent => self.reach(Phase::Content),
            Phase::Content | Phase::Log => Some(self.no_content()),
        }
    }

    /// Goes on with a phase, or with the next one where nothing was configured for it.
    fn reach(&mut self, phase: Phase) -> Option<Step> {
        self.enter(Stage::Handlers(phase));
        if self.running.handlers(phase).is_empty() { self.end_of(phase) } else { None }
    }

    /// Ends the access phase where, under `satisfy any`, nothing was said in favour of the request.
    fn deny(&mut self) -> Option<Step> {
        let denied = self.denied.take();
        self.enter(Stage::Handlers(Phase::Precontent));
        if denied == Some(Status::FORBIDDEN) {
            self.exchange.log(Level::Error, "access forbidden by rule");
        }
        denied.map(|status| self.refusal(status))
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.next = 0;
        self.follow();
    }

    /// Makes the exchange's scope the one that runs.
    fn follow(&mut self) {
        site::change(&mut self.running, &mut self.ran, &self.exchange.scope);
    }

    /// No handler had content: a directory without an index, or nothing at all.
    fn no_content(&mut self) -> Step {
        let uri = &self.exchange.request.path;
        if !uri.is_empty() && !uri.ends_with(b"/") {
            return Step::Finish(Status::NOT_FOUND);
        }
        let path = self.exchange.path().unwrap_or_default();
        let shown = String::from_utf8_lossy(&path).into_owned();
        self.exchange.log(Level::Error, &format!("directory index of \"{shown}\" is forbidden"));
        Step::Finish(Status::FORBIDDEN)
    }

    fn find_location(&mut self) -> Option<Step> {
        if let Some(location) = self.server.locations.slash_redirect(&self.exchange.request.path) {
            let location = Arc::clone(location);
            self.exchange.scope = Arc::clone(location.scope_for(self.exchange.request.method));
            return Some(redirect::to_slash(&mut self.exchange, &location.name.text));
        }
        let found = self.server.locations.find(&self.exchange, &self.exchange.request.path);
        let Ok(location) = found else {
            site::enter(&mut self.exchange, &self.server.scope);
            return Some(Step::Finish(Status::INTERNAL_SERVER_ERROR));
        };
        let method = self.exchange.request.method;
        let scope = location.map_or(&self.server.scope, |location| location.scope_for(method));
        site::enter(&mut self.exchange, scope);
        served::note(&self.exchange);
        self.tell_location(location);
        let policy = &self.exchange.scope.policy;
        if policy.internal && !self.exchange.routing.internal {
            return Some(Step::Finish(Status::NOT_FOUND));
        }
        let limit = policy.request_body.client_max_body_size;
        // What was too long for another location already is not there any more.
        let is_discarded =
            matches!(&self.exchange.request.body, Some(RequestBody::Memory(bytes)) if bytes.is_empty());
        if let (Some(limit), Some(length)) = (limit, self.exchange.request.content_length)
            && length > limit
            && !is_discarded
        {
            return Some(Step::Finish(self.exchange.refuse_long_body(length)));
        }
        self.reach(Phase::Rewrite)
    }

    /// Reports the location and the path as an event.
    fn tell_location(&self, location: Option<&Arc<Location>>) {
        self.exchange.tell(|| {
            let path = &self.exchange.request.path;
            let considered = self.server.locations.considered(path, location);
            let path = String::from_utf8_lossy(path);
            let event = match location {
                Some(location) => {
                    let name = String::from_utf8_lossy(&location.name.text);
                    let event = Event::new("location", format!("location \"{name}\" for \"{path}\""));
                    event.at(Some(location.place)).with("location", &location.name.text)
                }
                None => Event::new("location", format!("no location for \"{path}\"")),
            };
            event.with("uri", &self.exchange.request.path).among(considered)
        });
    }

    /// Tells what the handler said that ran last.
    fn tell_step(&self, step: &Step) {
        let Stage::Handlers(phase) = self.stage else { return };
        let owner = self.running.owner(phase, self.next.saturating_sub(1));
        let judges = matches!(phase, Phase::Preaccess | Phase::Access);
        let text = match step {
            Step::Next if judges => "allows the request".to_owned(),
            Step::Allow => "grants access".to_owned(),
            Step::Finish(status) if judges => format!("refuses the request with {}", status.0),
            Step::Finish(status) => format!("ends with {}", status.0),
            Step::Await(Work::Sleep(delay)) => format!("lets the request wait for {delay:?}"),
            Step::Next | Step::Respond(_) | Step::Reroute(_) | Step::Await(_) => return,
        };
        self.exchange.tell(|| Event::new(owner, text));
    }

    /// Performs a step; `None` means that handlers run on.
    fn perform(&mut self, step: Step) -> Option<Progress> {
        let in_access = self.stage == Stage::Handlers(Phase::Access);
        let any = in_access && self.exchange.scope.policy.satisfy_any;
        match step {
            Step::Next => None,
            Step::Allow => {
                if any {
                    self.denied = None;
                    self.exchange.response.fields.remove("www-authenticate");
                    self.exchange.response.fields.remove("proxy-authenticate");
                    self.enter(Stage::Handlers(Phase::Precontent));
                }
                None
            }
            Step::Finish(status) if any && (status == Status::FORBIDDEN || asks_for_password(status)) => {
                if !self.denied.is_some_and(asks_for_password) {
                    self.denied = Some(status);
                }
                None
            }
            Step::Finish(status) if in_access && asks_for_password(status) => {
                self.enter(Stage::Handlers(Phase::Precontent));
                let step = self.refusal(status);
                self.perform(step)
            }
            Step::Finish(status) => self.finish(status),
            Step::Respond(body) => Some(self.respond(body)),
            Step::Reroute(reroute) => self.reroute(reroute),
            Step::Await(work) => Some(Progress::Wait(work)),
        }
    }

    /// Ends a request that the access phase refused. Who guesses passwords has to wait for the answer.
    fn refusal(&mut self, status: Status) -> Step {
        let delay = self.exchange.scope.policy.auth_delay;
        if !asks_for_password(status) || delay.is_zero() {
            return Step::Finish(status);
        }
        self.exchange.log(Level::Info, "delaying unauthorized request");
        self.waiting = Some(Arc::new(Unauthorized(status)));
        Step::Await(Work::Sleep(delay))
    }

    fn finish(&mut self, status: Status) -> Option<Progress> {
        if matches!(status, Status::CLOSE | Status::REQUEST_TIMEOUT | Status::CLIENT_CLOSED) {
            self.exchange.response.status = status;
            return Some(Progress::Close);
        }
        if self.is_judged {
            self.exchange.response.status = status;
            return Some(Progress::Respond(Body::Empty));
        }
        if status == Status::NOT_FOUND {
            self.tell_lost_alias();
        }
        let may_reroute = self.reroutes <= REROUTE_LIMIT;
        match error_page::replace(&mut self.exchange, status, may_reroute) {
            Replacement::Page(body) => Some(self.respond(body)),
            Replacement::Reroute(reroute) => self.reroute(reroute),
        }
    }

    /// Logs why nothing was found, where a location with a pattern came before one with an alias.
    fn tell_lost_alias(&self) {
        let Exchange { scope, request, .. } = &self.exchange;
        let Some(name) = scope.name.as_ref().filter(|name| name.kind == LocationKind::Regex) else { return };
        if scope.policy.root.alias.is_some() {
            return;
        }
        if let Some(lost) = self.server.locations.lost_alias(&request.path) {
            let [path, lost, name] =
                [&request.path[..], &lost.name.text, &name.text].map(String::from_utf8_lossy);
            let message = format!(
                "\"{path}\" is below the alias of location \"{lost}\", but location \"{name}\" comes first and has \
                 another root: write a location for it inside of \"{lost}\""
            );
            self.exchange.log(Level::Error, &message);
        }
    }

    fn respond(&mut self, body: Body) -> Progress {
        let exchange = &mut self.exchange;
        // A program that makes the page may give another status, where a `.htaccess` file names it.
        let is_own = exchange.error_page_used == Replaced::Kept && exchange.response.status != Status::OK;
        if let Some(status) = exchange.error.filter(|_| !is_own) {
            exchange.response.status = status;
        }
        self.exchange.wire.answered = true;
        self.exchange.wire.keep_alive &= keepalive::is_allowed(&self.exchange);
        self.follow();
        let mut body = body;
        let inside = self.exchange.subrequest;
        for filter in self.running.filters().iter().filter(|filter| !inside || filter.is_for_subrequests()) {
            let before = self.exchange.response.status;
            body = filter.apply(&mut self.exchange, body);
            let status = self.exchange.response.status;
            if status != before && status.is_error() && !before.is_error() {
                if let Body::Source(source) = body
                    && std::mem::take(&mut self.exchange.wire.outlasts)
                {
                    self.unsent = Some(source);
                }
                return self.fail(status);
            }
        }
        if let Some(location) = &self.exchange.response.location
            && let Some(url) = redirect::complete(&self.exchange, location)
        {
            self.exchange.response.location = Some(url);
        }
        Progress::Respond(body)
    }

    fn reroute(&mut self, reroute: Reroute) -> Option<Progress> {
        self.reroutes += 1;
        // A location that a request passes through has its say about the connection, too.
        self.exchange.wire.keep_alive &= keepalive::is_allowed(&self.exchange);
        if self.reroutes > REROUTE_LIMIT {
            // Each turn may have made it longer.
            let shown =
                |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(SHOWN_MAX)]).into_owned();
            let doing = match &reroute {
                Reroute::Location | Reroute::Settings => {
                    format!("processing \"{}\"", shown(&self.exchange.request.path))
                }
                Reroute::Internal { path, .. } | Reroute::Uri { path, .. } => {
                    format!("internally redirecting to \"{}\"", shown(path))
                }
                Reroute::Named(name) => format!("redirect to named location \"{}\"", shown(name)),
            };
            let message = format!("rewrite or internal redirection cycle while {doing}");
            self.exchange.log(Level::Error, &message);
            return self.finish(Status::INTERNAL_SERVER_ERROR);
        }
        self.tell_reroute(&reroute);
        match reroute {
            Reroute::Location => {
                self.stage = Stage::FindLocation;
                None
            }
            Reroute::Settings => {
                self.exchange.scope = site::without_settings(&self.exchange);
                self.enter(Stage::Handlers(Phase::Rewrite));
                // Only the last handler, which chooses the settings.
                self.next = self.running.handlers(Phase::Rewrite).len().saturating_sub(1);
                None
            }
            Reroute::Internal { path, args } => {
                self.exchange.routing.internal = true;
                self.go_to(path, args);
                self.exchange.scope = Arc::clone(&self.server.scope);
                self.enter(Stage::Handlers(Phase::ServerRewrite));
                None
            }
            Reroute::Uri { path, args } => {
                self.exchange.routing.internal = false;
                self.go_to(path, args);
                self.stage = Stage::FindLocation;
                None
            }
            Reroute::Named(name) => self.enter_named(&name),
        }
    }

    /// Tells where processing goes on.
    fn tell_reroute(&self, reroute: &Reroute) {
        self.exchange.tell(|| {
            let (text, uri) = match reroute {
                Reroute::Location => ("another location is looked for", &self.exchange.request.path[..]),
                Reroute::Settings => {
                    ("the settings of another path are looked for", &self.exchange.request.path[..])
                }
                Reroute::Internal { path, .. } => ("an internal redirect", &path[..]),
                Reroute::Uri { path, .. } => ("another URI", &path[..]),
                Reroute::Named(name) => ("a named location", &name[..]),
            };
            let text = format!("{text}: \"{}\"", String::from_utf8_lossy(uri));
            Event::new("redirect", text).with("uri", uri)
        });
    }

    /// Replaces the requested URI by another one.
    fn go_to(&mut self, path: Vec<u8>, args: Option<Vec<u8>>) {
        let exchange = &mut self.exchange;
        exchange.routing.valid_location = true;
        exchange.routing.uri_below_alias = false;
        exchange.response.vary = false;
        exchange.request.path = path;
        exchange.request.args = args;
    }

    fn enter_named(&mut self, name: &[u8]) -> Option<Progress> {
        if self.exchange.request.path.is_empty() {
            let message =
                format!("empty URI in redirect to named location \"{}\"", String::from_utf8_lossy(name));
            self.exchange.log(Level::Error, &message);
            return self.finish(Status::INTERNAL_SERVER_ERROR);
        }
        let Some(location) = self.server.named.get(name) else {
            let message = format!("could not find named location \"{}\"", String::from_utf8_lossy(name));
            self.exchange.log(Level::Error, &message);
            return self.finish(Status::INTERNAL_SERVER_ERROR);
        };
        debug_assert_eq!(location.name.kind, LocationKind::Named);
        self.exchange.routing.internal = true;
        self.exchange.scope = Arc::clone(location.scope_for(self.exchange.request.method));
        self.exchange.tell(|| {
            let text = format!("location \"{}\"", String::from_utf8_lossy(name));
            Event::new("location", text).at(Some(location.place)).with("location", name)
        });
        self.enter(Stage::Handlers(Phase::Rewrite));
        None
    }
}

/// Points to what another pointer points to. Most often it does already, and counting owners is not free.
fn point<T: ?Sized>(to: &mut Arc<T>, from: &Arc<T>) {
    if !Arc::ptr_eq(to, from) {
        *to = Arc::clone(from);
    }
}

/// Whether a refusal asks for a password: of this server, or of this proxy.
fn asks_for_password(status: Status) -> bool {
    matches!(status, Status::UNAUTHORIZED | Status::PROXY_AUTHENTICATION_REQUIRED)
}

/// Ends a request whose refusal was delayed.
struct Unauthorized(Status);

impl Handler for Unauthorized {
    fn run(&self, _: &mut Exchange) -> Step {
        Step::Finish(self.0)
    }

    fn resume(&self, exchange: &mut Exchange, _: Outcome) -> Step {
        self.run(exchange)
    }
}
