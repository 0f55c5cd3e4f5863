//! The contract of handlers, bodies and scopes, tried on the cases that break naive designs: each is a
//! feature in miniature, driven through the real loader, compiler and pipeline without a socket.

use crate::pipeline::{Flow, Progress};
use bytes::Bytes;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    Args, Body, Config, Content, Directive, Exchange, Filter, Handler, Loading, Module, Outcome, Phase,
    Piece, Pull, Reach, Request, RequestBody, Reroute, Rule, ScopeBuilder, SectionId, Source, Step,
    Subrequest, Template, Turn, View, Work,
};
use http::Status;
use site::testing;
use site::{Loaded, Reader};
use site::{Scopes, Site};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

const ANYWHERE: Contexts =
    Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(IFS).or(Contexts::HTACCESS);
const IFS: Contexts = Contexts::SERVER_IF.or(Contexts::LOCATION_IF);

fn template(args: &Args<'_>, loading: &mut Loading) -> Result<Template, Diagnostic> {
    loading.template(args.word(0)?)
}

/// Every miniature directive takes one text; a handler is compiled where it is set.
const fn miniature(name: &'static str) -> Directive<Template> {
    Directive::new(name, template).within(ANYWHERE)
}

static BODY: Directive<Template> = miniature("body").rule(Rule::Unnamed);
static AUTH: Directive<Template> = miniature("auth");
static DELAY: Directive<Template> = miniature("delay");
static TRY: Directive<Template> = miniature("try").rule(Rule::Never);
static ACCEL: Directive<Template> = miniature("accel").rule(Rule::Unnamed);
static PASSWORD: Directive<Template> = miniature("password");
static SSI: Directive<Template> = miniature("ssi");
static UPPER: Directive<Template> = miniature("upper");
static SLICE: Directive<Template> = miniature("slice").rule(Rule::Unnamed);
static MIRROR: Directive<Template> = miniature("mirror");
static HINTS: Directive<Template> = miniature("hints");
static IF: Directive<(Template, SectionId)> = Directive::new("when", |args, loading| {
    let section = args.opened.ok_or_else(|| args.error("has no block"))?;
    Ok((template(args, loading)?, section))
})
.within(ANYWHERE)
.opens(Arity::Exactly(1), IFS)
.rule(Rule::Never)
.repeats();

static MINIATURES: Module = Module {
    name: "miniatures",
    directives: &[&BODY, &AUTH, &DELAY, &TRY, &ACCEL, &PASSWORD, &SSI, &UPPER, &SLICE, &MIRROR, &HINTS, &IF],
    variables: &[contract::Variable::new("uri", |exchange, _, out| {
        out.extend_from_slice(&exchange.request.path);
        true
    })],
    compile: Some(compile),
};

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    for when in view.all(&IF) {
        let (condition, section) = when.value;
        let scope = builder.inner.get(section).cloned();
        builder.handle(Phase::Rewrite, Conditional { condition: condition.clone(), scope });
    }
    let mut add = |phase, directive: &Directive<Template>, make: fn(Template) -> Miniature| {
        if let Some(text) = view.get(directive) {
            builder.handle(phase, make(text.clone()));
        }
    };
    add(Phase::Preaccess, &DELAY, |_| Miniature::Delay);
    add(Phase::Access, &AUTH, Miniature::Auth);
    add(Phase::Access, &PASSWORD, Miniature::Password);
    add(Phase::Precontent, &MIRROR, Miniature::Mirror);
    add(Phase::Precontent, &TRY, Miniature::Try);
    add(Phase::Content, &ACCEL, Miniature::Accel);
    add(Phase::Content, &SLICE, Miniature::Slice);
    add(Phase::Content, &BODY, Miniature::Body);
    if let Some(condition) = view.get(&HINTS) {
        builder.policy.sending.early_hints = [condition.clone()].into();
    }
    if view.get(&SSI).is_some() {
        builder.filter(Wrap(|inner| Box::new(Include { inner, open: None })));
    }
    if view.get(&UPPER).is_some() {
        builder.filter(Wrap(|inner| Box::new(Upper { inner })));
    }
    Ok(())
}

struct Conditional {
    condition: Template,
    scope: Option<Arc<contract::Scope>>,
}

impl Handler for Conditional {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let holds = exchange.request.path.ends_with(&self.condition.evaluate(exchange));
        if let (true, Some(scope)) = (holds, &self.scope) {
            exchange.scope = Arc::clone(scope);
        }
        Step::Next
    }
}

/// The features; each asks for another kind of work.
enum Miniature {
    Auth(Template),
    Delay,
    Password(Template),
    Mirror(Template),
    Try(Template),
    Accel(Template),
    Slice(Template),
    Body(Template),
}

fn ask(path: Vec<u8>) -> Step {
    Step::Await(Work::Subrequest(Subrequest::get(path, Content::Collected)))
}

impl Handler for Miniature {
    fn run(&self, exchange: &mut Exchange) -> Step {
        match self {
            Miniature::Mirror(_) if exchange.routing.internal => Step::Next,
            Miniature::Auth(uri) => ask(uri.evaluate(exchange)),
            Miniature::Delay => Step::Await(Work::Sleep(std::time::Duration::from_secs(1))),
            Miniature::Password(secret) => {
                let secret = secret.evaluate(exchange);
                Step::Await(Work::Job(Box::new(move || Box::new(secret == b"right"))))
            }
            Miniature::Mirror(_) => Step::Await(Work::RequestBody),
            Miniature::Try(uri) => {
                let path = uri.evaluate(exchange);
                Step::Reroute(Reroute::Internal { path, args: None })
            }
            Miniature::Accel(uri) => {
                let uri = uri.evaluate(exchange);
                Step::Await(Work::Job(Box::new(move || Box::new(uri))))
            }
            Miniature::Slice(uri) => {
                let pieces = Slices { uri: uri.evaluate(exchange), next: 0, ready: None };
                Step::Respond(Body::Source(Box::new(pieces)))
            }
            Miniature::Body(text) => Step::Respond(Body::bytes(text.evaluate(exchange))),
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        match (self, outcome) {
            (Miniature::Auth(_), Outcome::Subresponse(answer))
                if answer.exchange.response.status == Status::OK =>
            {
                Step::Next
            }
            (Miniature::Auth(_), Outcome::Subresponse(answer)) => {
                Step::Finish(answer.exchange.response.status)
            }
            (Miniature::Password(_), Outcome::Job(right)) => match right.downcast_ref() {
                Some(true) => Step::Next,
                _ => Step::Finish(Status::UNAUTHORIZED),
            },
            // The body is read once; the copy's request and the main request share it.
            (Miniature::Mirror(uri), Outcome::Done) if exchange.attached::<Mirrored>().is_none() => {
                exchange.attach(Reach::Own, Rc::new(Mirrored));
                let copy = Subrequest::get(uri.evaluate(exchange), Content::Unused);
                Step::Await(Work::Aside(vec![Subrequest { with_body: true, same_method: true, ..copy }]))
            }
            (Miniature::Accel(_), Outcome::Job(uri)) => {
                let path = *uri.downcast::<Vec<u8>>().unwrap();
                Step::Reroute(Reroute::Internal { path, args: None })
            }
            _ => Step::Next,
        }
    }
}

/// The copy of a request was made.
struct Mirrored;

/// `slice`: a body of subrequests, each asked for when the one before was taken.
struct Slices {
    uri: Vec<u8>,
    next: u8,
    ready: Option<Bytes>,
}

impl Source for Slices {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        if let Some(content) = self.ready.take() {
            return Pull::Piece(Piece::Bytes(content));
        }
        if self.next == 3 {
            return Pull::End;
        }
        self.next += 1;
        let path = [&*self.uri, &[b'0' + self.next]].concat();
        Pull::Await(Work::Subrequest(Subrequest::get(path, Content::Collected)))
    }

    fn resume(&mut self, outcome: Outcome) {
        if let Outcome::Subresponse(answer) = outcome {
            self.ready = Some(answer.content);
        }
    }
}

/// A filter that wraps the body.
struct Wrap(fn(Box<dyn Source>) -> Box<dyn Source>);

impl Filter for Wrap {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        exchange.response.content_length = None;
        let inner: Box<dyn Source> = match body {
            Body::Source(source) => source,
            Body::Tunnel(_) => unreachable!("no tunnel here"),
            Body::Piece(piece) => Box::new(Listed(vec![piece].into_iter())),
            Body::Pieces(pieces) => Box::new(Listed(pieces.into_iter())),
            Body::Empty => Box::new(Listed(Vec::new().into_iter())),
        };
        exchange.response.expects_trailers = true;
        Body::Source((self.0)(inner))
    }

    fn end(&self, exchange: &mut Exchange) {
        let _ = exchange.response.trailers.push(b"X-Wrapped", b"yes");
    }
}

struct Listed(std::vec::IntoIter<Piece>);

impl Source for Listed {
    fn pull(&mut self, _: &mut Turn<'_, '_>) -> Pull {
        self.0.next().map_or(Pull::End, Pull::Piece)
    }

    fn resume(&mut self, _: Outcome) {}
}

/// SSI: a piece that starts with `!` is replaced by the content of the URI after it.
struct Include {
    inner: Box<dyn Source>,
    open: Option<Bytes>,
}

impl Source for Include {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        if let Some(content) = self.open.take() {
            return Pull::Piece(Piece::Bytes(content));
        }
        match self.inner.pull(turn) {
            Pull::Piece(Piece::Bytes(bytes)) if bytes.starts_with(b"!") => {
                let path = bytes[1..].to_vec();
                Pull::Await(Work::Subrequest(Subrequest::get(path, Content::Collected)))
            }
            other => other,
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Subresponse(answer) => self.open = Some(answer.content),
            other => self.inner.resume(other),
        }
    }
}

/// Stands for gzip: changes every byte of whatever is inside, and hands waiting through.
struct Upper {
    inner: Box<dyn Source>,
}

impl Source for Upper {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        match self.inner.pull(turn) {
            Pull::Piece(Piece::Bytes(bytes)) => Pull::Piece(Piece::Bytes(bytes.to_ascii_uppercase().into())),
            other => other,
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        self.inner.resume(outcome);
    }
}

/// The body of a request, as far as it is in memory.
fn body(flow: &Flow) -> Option<Bytes> {
    flow.exchange.request.body.as_ref().and_then(RequestBody::bytes).cloned()
}

/// A loaded configuration and a driver that does work on the spot.
/// A site whose only server has this content.
pub(crate) fn site(server: &str) -> Arc<Site> {
    Bench::new(server).site
}

struct Bench {
    loaded: Loaded,
    site: Arc<Site>,
    slept: Cell<u64>,
    subrequests: Cell<u64>,
}

impl Bench {
    fn new(server: &str) -> Bench {
        let text = format!("server {{ listen 127.0.0.1:1; {server} }}");
        let (loaded, site) = testing::site(&text, &[&MINIATURES]).unwrap();
        let site = Arc::new(site);
        Bench { loaded, site, slept: Cell::new(0), subrequests: Cell::new(0) }
    }

    fn flow(&self, path: &str) -> Flow {
        let request = Request { content_length: Some(4), ..testing::request("GET", path, "localhost") };
        let connection = testing::connection("127.0.0.1:1");
        let server = Arc::clone(self.site.listens[0].hosts(None).default_server());
        let scope = Arc::clone(&server.scope);
        let exchange = Exchange::new(Rc::new(connection), request, scope, Arc::clone(&self.site.variables));
        Flow::new(exchange, server)
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut flow = self.flow(path);
        self.drive(&mut flow)
    }

    fn drive(&self, flow: &mut Flow) -> (u16, String) {
        let mut progress = flow.run();
        let body = loop {
            match progress {
                Progress::Respond(body) => break body,
                Progress::Wait(work) => {
                    let outcome = self.perform(flow, work);
                    progress = flow.resume(outcome);
                }
                Progress::Close => return (444, String::new()),
            }
        };
        let mut content = Vec::new();
        self.collect(flow, body, &mut content);
        (flow.exchange.response.status.0, String::from_utf8(content).unwrap())
    }

    fn collect(&self, flow: &mut Flow, body: Body, content: &mut Vec<u8>) {
        let take = |piece: Piece, content: &mut Vec<u8>| match piece {
            Piece::Bytes(bytes) => content.extend_from_slice(&bytes),
            Piece::File { .. } => unreachable!("no file here"),
        };
        match body {
            Body::Empty | Body::Tunnel(_) => {}
            Body::Piece(piece) => take(piece, content),
            Body::Pieces(pieces) => pieces.into_iter().for_each(|piece| take(piece, content)),
            Body::Source(mut source) => loop {
                match testing::pull(&mut *source) {
                    Pull::Piece(piece) => take(piece, content),
                    Pull::Await(work) => {
                        let outcome = self.perform(flow, work);
                        source.resume(outcome);
                    }
                    Pull::End => return,
                    Pull::Pending { .. } | Pull::Failed => panic!("a body that failed"),
                }
            },
        }
    }

    fn perform(&self, flow: &mut Flow, work: Work) -> Outcome {
        match work {
            Work::Sleep(time) => {
                self.slept.set(self.slept.get() + time.as_secs());
                Outcome::Done
            }
            Work::RequestBody => {
                flow.exchange.request.body = Some(RequestBody::Memory(Bytes::from_static(b"data")));
                Outcome::Done
            }
            Work::Subrequest(wanted) => {
                self.subrequests.set(self.subrequests.get() + 1);
                let mut inner = flow.subrequest(wanted);
                assert_eq!(body(&inner), None, "it is a separate request");
                let (_, content) = self.drive(&mut inner);
                let exchange = Box::new(inner.exchange);
                Outcome::Subresponse(contract::Subresponse { exchange, content: content.into() })
            }
            Work::Aside(wanted) => {
                for wanted in wanted {
                    self.subrequests.set(self.subrequests.get() + 1);
                    let mut inner = flow.subrequest(wanted);
                    assert_eq!((body(&inner), body(flow)), (Some("data".into()), Some("data".into())));
                    self.drive(&mut inner);
                }
                Outcome::Done
            }
            Work::Yield(_) => Outcome::Done,
            Work::Job(job) => Outcome::Job(job()),
            Work::Task(_) | Work::Upstream { .. } | Work::RequestStream => {
                unreachable!("no other server here")
            }
        }
    }
}

#[test]
fn auth_request_passes_a_status_on() {
    let bench = Bench::new(
        "location /yes { auth /ok; body in; } location /no { auth /missing; body in; }
         location /ok { body fine; }",
    );
    assert_eq!(bench.get("/yes"), (200, "in".into()));
    assert_eq!(bench.get("/no").0, 404);
}

#[test]
fn a_delayed_request_goes_on_after_its_delay() {
    let bench = Bench::new("location / { delay 1s; body late; }");
    assert_eq!(bench.get("/"), (200, "late".into()));
    assert_eq!(bench.slept.get(), 1);
}

#[test]
fn try_files_and_accel_are_reroutes_and_cycles_end() {
    let bench = Bench::new(
        "location /try { try /end; } location /accel { accel /end; } location /end { body end; }
         location /loop { try /loop; }",
    );
    assert_eq!(bench.get("/try"), (200, "end".into()));
    assert_eq!(bench.get("/accel"), (200, "end".into()));
    assert_eq!(bench.get("/loop").0, 500);
}

#[test]
fn a_slow_hash_runs_off_the_loop() {
    let bench = Bench::new(
        "location /right { password right; body in; } location /wrong { password guess; body in; }",
    );
    assert_eq!(bench.get("/right"), (200, "in".into()));
    assert_eq!(bench.get("/wrong").0, 401);
}

#[test]
fn an_include_inside_a_compressed_body() {
    let bench = Bench::new("location / { ssi on; upper on; body !/part; } location /part { body included; }");
    assert_eq!(bench.get("/"), (200, "INCLUDED".into()));
}

#[test]
fn slices_are_asked_for_one_by_one() {
    let bench = Bench::new("location / { slice /part; } location /part { body $uri; }");
    let mut flow = bench.flow("/");
    let Progress::Respond(Body::Source(mut source)) = flow.run() else { panic!("no source") };
    assert_eq!(bench.subrequests.get(), 0, "nothing is asked for before it can be sent");
    assert!(matches!(testing::pull(&mut *source), Pull::Await(_)));
    assert_eq!(bench.get("/"), (200, "/part1/part2/part3".into()));
}

#[test]
fn a_mirror_shares_the_body() {
    let bench = Bench::new("location / { mirror /copy; body main; } location /copy { body copied; }");
    assert_eq!(bench.get("/"), (200, "main".into()));
    assert_eq!(bench.subrequests.get(), 1);
}

#[test]
fn an_if_block_is_a_scope_that_takes_over() {
    let bench = Bench::new(
        "location / { body out; when /x { body in; } when /y { auth /none; } } location /none { }",
    );
    assert_eq!(bench.get("/"), (200, "out".into()));
    assert_eq!(bench.get("/x"), (200, "in".into()));
    assert_eq!(bench.get("/y").0, 404, "what the block does not set is the location's");
}

#[test]
fn a_scope_compiled_while_serving() {
    let bench = Bench::new("location / { body out; auth /ok; } location /ok { body ok; }");
    let mut flow = bench.flow("/dir/file");
    let modules: &[&Module] = &[&MINIATURES];
    let base = Arc::clone(&bench.loaded.config);
    let mut overlay = Config::over(&base, inputs::origin());
    let main = base.view(Config::MAIN);
    let http = *main.get(&site::HTTP).unwrap();
    let server = *main.at(http).here(&site::SERVER)[0].value;
    let location = main.at(server).here(&site::LOCATION)[0].value.section;
    let directory = overlay.open(location, Contexts::HTACCESS);
    let text = conf::apache::parse(Path::new("/.htaccess"), b"body 'from a file'".to_vec());
    let loading = Loading::new(Path::new("/"), Path::new("/"));
    let mut reader = Reader::new(modules, overlay, loading);
    reader.block(&text.nodes, directory, Contexts::HTACCESS).unwrap();
    let scopes = Scopes::new(&reader.config, modules, Path::new("/"), &reader.loading.logs);
    let scope = scopes.scope(directory, None).unwrap();
    assert_eq!(scope.handlers(Phase::Access).len(), 1, "what the location sets is inherited");
    assert_eq!(scope.handlers(Phase::Content).len(), 1);
    flow.exchange.scope = Arc::clone(&scope);
    let Step::Respond(body) = scope.handlers(Phase::Content)[0].run(&mut flow.exchange) else {
        panic!("no content");
    };
    assert_eq!(body.length(), Some(11));
}

#[test]
fn what_is_off_does_not_exist() {
    let bench = Bench::new("location / { }");
    let scope = Arc::clone(&bench.site.listens[0].hosts(None).default_server().scope);
    for phase in [Phase::ServerRewrite, Phase::Rewrite, Phase::Preaccess, Phase::Access, Phase::Content] {
        assert!(scope.handlers(phase).is_empty());
    }
    assert!(scope.filters().is_empty());
}
