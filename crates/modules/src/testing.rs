//! A site without sockets, for the tests of features: configuration text in, exchanges and steps out.

use conf::{Contexts, Node};
use contract::{
    AnyDirective, Args, Body, Config, Connection, Definition, Exchange, Loading, LocationKind, LocationName,
    NoBody, Outcome, Peer, Phase, Piece, Policy, Pull, Request, Root, SERVER_NAME, Scope, ScopeBuilder,
    SectionId, Source, Step, Task, Template, Turn, Variable, VariableId, VariableTable,
};
use http::{RequestHead, Version};
use journal::{LogFile, LogFiles};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tempfile::TempDir;

/// A server with one location, `/`, whose root is an empty directory.
pub(crate) struct Site {
    root: TempDir,
    scope: Arc<Scope>,
    inner: Option<Arc<Scope>>,
    logs: LogFiles,
    variables: Arc<VariableTable>,
    ids: HashMap<&'static str, VariableId>,
}

/// Names that [`Site::variable`] may be asked for.
const PROBES: [&str; 2] = ["x", "y"];

impl Site {
    /// A site with these directives in its location, or, where they cannot stand there, in `http`.
    pub(crate) fn location(text: &str) -> Site {
        Site::named(LocationKind::Prefix, "/", text)
    }

    /// As [`Site::location`], with a location of this kind and name.
    pub(crate) fn named(kind: LocationKind, name: &str, text: &str) -> Site {
        let name = LocationName { kind, text: name.as_bytes().into() };
        Site::load(text, Contexts::LOCATION, Some(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A site with these directives in its server.
    pub(crate) fn server(text: &str) -> Site {
        Site::load(text, Contexts::SERVER, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Site::server`]; the error is the message about what is wrong.
    pub(crate) fn try_server(text: &str) -> Result<Site, String> {
        Site::load(text, Contexts::SERVER, None)
    }

    /// The message about what is wrong with these directives.
    pub(crate) fn error(text: &str) -> String {
        let name = LocationName { kind: LocationKind::Prefix, text: b"/"[..].into() };
        Site::load(text, Contexts::LOCATION, Some(name)).err().unwrap_or_else(|| panic!("no error: {text}"))
    }

    fn load(text: &str, context: Contexts, name: Option<LocationName>) -> Result<Site, String> {
        let root = tempfile::tempdir().map_err(|error| error.to_string())?;
        let loaded = conf::parse_bytes(text.as_bytes());
        if let Some(error) = loaded.error {
            return Err(error.message);
        }
        let mut reader = Reader::new(root.path());
        reader.loading.location = name;
        let mut section = reader.open(Config::MAIN, Contexts::HTTP);
        let http = section;
        section = reader.open(section, Contexts::SERVER);
        if context == Contexts::LOCATION {
            section = reader.open(section, Contexts::LOCATION);
        }
        for node in &loaded.nodes {
            let fits = |directive: &&dyn AnyDirective| directive.info().contexts.intersects(context);
            let (section, context) =
                if find(node, fits).is_some() { (section, context) } else { (http, Contexts::HTTP) };
            reader.node(node, section, context)?;
        }
        reader.compile(http)?;
        let scope = reader.compile(section)?;
        let inner = reader.inner.get(&section).and_then(|inner| inner.first());
        let inner = inner.map(|&inner| reader.compile(inner)).transpose()?;
        let logs = reader.loading.logs.clone();
        let ids = PROBES.map(|name| {
            let unset = Definition::Get(|_, _, _| false, "".into());
            (name, reader.loading.variables.define_if_new(name, unset))
        });
        let known: Vec<Variable> = crate::ALL.iter().flat_map(|module| module.variables).copied().collect();
        let known: Vec<Variable> = known.into_iter().chain(STAND_INS).collect();
        let variables = reader
            .loading
            .variables
            .finish(&known, &mut |unknown, _| Err(unknown))
            .map_err(|error| error.message)?;
        Ok(Site { root, scope, inner, logs, variables: Arc::new(variables), ids: ids.into() })
    }

    /// The document root.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The scope of the first `if` block.
    pub(crate) fn inner(&self) -> Arc<Scope> {
        Arc::clone(self.inner.as_ref().unwrap())
    }

    /// Opens the log files that are below the root.
    pub(crate) fn open_logs(&self) {
        let own = |file: &Arc<LogFile>| file.path().is_some_and(|path| path.starts_with(self.root()));
        self.logs.iter().filter(own).for_each(|file| file.open().unwrap());
    }

    /// Writes what the log files gathered.
    pub(crate) fn flush_logs(&self) {
        assert_eq!(self.logs.flush(), [""; 0]);
    }

    /// Writes a file below the root, with the directories that lead to it.
    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A GET of this target, whose path is taken as it is, from 127.0.0.1.
    pub(crate) fn get(&self, target: &str) -> Exchange {
        self.request(target, Peer::Inet("127.0.0.1:1024".parse().unwrap()))
    }

    /// A GET of this target from this client.
    pub(crate) fn request(&self, target: &str, peer: Peer) -> Exchange {
        let (path, args) = match target.split_once('?') {
            Some((path, args)) => (path, Some(args.as_bytes().to_vec())),
            None => (target, None),
        };
        let mut head = RequestHead::new();
        let line = format!("GET {target} HTTP/1.1");
        head.set_line(line.as_bytes(), (4, 4 + target.len()), Version::Http11);
        let request = Request {
            method: head.method(),
            head: head.into(),
            uri: target.as_bytes().into(),
            path: path.as_bytes().to_vec(),
            args,
            host: b"localhost".to_vec(),
            ..Request::new()
        };
        let connection = Connection::new(peer, Peer::Inet("127.0.0.1:8080".parse().unwrap()));
        let (scope, variables) = (Arc::clone(&self.scope), Arc::clone(&self.variables));
        Exchange::new(Rc::new(connection), request, scope, variables)
    }

    /// The value of `$x` or `$y`.
    pub(crate) fn variable(&self, name: &str, exchange: &Exchange) -> String {
        let mut out = Vec::new();
        exchange.variable(self.ids[name], &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Runs the handlers of a phase until one has something to say.
    pub(crate) fn run(&self, phase: Phase, exchange: &mut Exchange) -> Step {
        let scope = Arc::clone(&exchange.scope);
        let steps = scope.handlers(phase).iter().map(|handler| handler.run(exchange));
        steps.into_iter().find(|step| !matches!(step, Step::Next)).unwrap_or(Step::Next)
    }
}

/// The status that a step ends with, or zero.
pub(crate) fn status(step: &Step) -> u16 {
    match step {
        Step::Finish(status) => status.0,
        _ => 0,
    }
}

/// A body that is in memory, as text.
pub(crate) fn body_text(body: &Body) -> String {
    let bytes: Vec<u8> = body
        .pieces()
        .unwrap_or_default()
        .iter()
        .flat_map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::File { .. } => Vec::new(),
        })
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What these directives of the main level say, with the messages of their warnings, or the message
/// about what is wrong with them.
pub(crate) fn main_level(text: &str) -> Result<(Config, Vec<String>), String> {
    let loaded = conf::parse_bytes(text.as_bytes());
    let mut reader = Reader::new(Path::new("/prefix"));
    loaded.nodes.iter().try_for_each(|node| reader.node(node, Config::MAIN, Contexts::MAIN))?;
    let notes = reader.loading.notes.into_iter().map(|note| note.message);
    Ok((reader.config, notes.collect()))
}

/// Variables that every test may use, whichever features there are.
const STAND_INS: [Variable; 2] = [
    Variable::new("uri", |exchange, _, out| {
        out.extend_from_slice(&exchange.request.path);
        true
    }),
    Variable::new("args", |exchange, _, out| {
        let args = exchange.request.args.as_deref();
        args.inspect(|args| out.extend_from_slice(args)).is_some()
    }),
];

struct Reader {
    config: Config,
    loading: Loading,
    inner: HashMap<SectionId, Vec<SectionId>>,
}

impl Reader {
    fn new(prefix: &Path) -> Reader {
        let mut loading = Loading::new(prefix, prefix);
        loading.modules = crate::ALL.into();
        Reader { config: Config::within(inputs::origin()), loading, inner: HashMap::new() }
    }

    fn open(&mut self, parent: SectionId, context: Contexts) -> SectionId {
        let section = self.config.open(parent, context);
        self.inner.entry(parent).or_default().push(section);
        section
    }

    fn node(&mut self, node: &Node, section: SectionId, context: Contexts) -> Result<(), String> {
        let directive = find(node, |directive| directive.info().contexts.intersects(context))
            .ok_or_else(|| format!("\"{}\" is not allowed here", node.name))?;
        directive.info().shape.check(node).map_err(|error| error.message)?;
        let opened = directive.info().opens.map(|opens| {
            let inner = match (opens.contains(Contexts::SERVER_IF), context == Contexts::SERVER) {
                (true, true) => Contexts::SERVER_IF,
                (true, false) => Contexts::LOCATION_IF,
                (false, _) => opens,
            };
            self.open(section, inner)
        });
        let value = directive
            .parse(&Args { node, context, opened }, &mut self.loading)
            .map_err(|error| error.message)?;
        self.config.store(section, directive.info(), value, node.span).map_err(|error| error.message)?;
        if let Some(opened) = opened {
            let inner = self.config.context(opened);
            node.children().iter().try_for_each(|child| self.node(child, opened, inner))?;
        }
        Ok(())
    }

    fn compile(&self, section: SectionId) -> Result<Arc<Scope>, String> {
        let prefix = self.loading.prefix.clone();
        let path = Template::literal(prefix.as_os_str().as_encoded_bytes());
        let mut builder =
            ScopeBuilder::new(self.loading.location.clone(), Policy::new(Root { path, alias: None, prefix }));
        builder.logs = self.loading.logs.clone();
        for &inner in self.inner.get(&section).map(Vec::as_slice).unwrap_or_default() {
            builder.inner.insert(inner, self.compile(inner)?);
        }
        for compile in crate::ALL.iter().filter_map(|module| module.compile) {
            compile(&self.config.view(section), &mut builder).map_err(|error| error.message)?;
        }
        Ok(Arc::new(builder.finish()))
    }
}

fn find(node: &Node, fits: impl Fn(&&'static dyn AnyDirective) -> bool) -> Option<&'static dyn AnyDirective> {
    let shared: &'static dyn AnyDirective = &SERVER_NAME;
    let mut own = crate::ALL.iter().flat_map(|module| module.directives).copied().chain([shared]);
    own.find(|directive| node.is(directive.info().name) && fits(directive))
}

/// Asks a source that waits for no other server, and needs no request.
pub(crate) fn pull(source: &mut dyn Source) -> Pull {
    let mut exchange = Site::location("").get("/");
    let mut cx = Context::from_waker(Waker::noop());
    source.pull(&mut Turn { cx: &mut cx, exchange: &mut exchange, body: &mut NoBody })
}

/// Does the work of a task, which is soon done.
pub(crate) fn finish(mut task: Box<dyn Task>, exchange: &mut Exchange) -> Outcome {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match task.poll(&mut Turn { cx: &mut cx, exchange, body: &mut NoBody }) {
            Poll::Ready(Ok(())) => return Outcome::Task(task.into_outcome()),
            Poll::Ready(Err(status)) => return Outcome::Failed(status),
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
