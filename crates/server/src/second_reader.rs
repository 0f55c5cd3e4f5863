//! A site whose plan no language made: a second reader, without nginx's text, is compiled and serves.

use crate::serving::Serving;
use bytes::Bytes;
use conf::{Contexts, Diagnostic, FileId, Span};
use contract::{
    AnyDirective, Body, Config, Directive, Exchange, Handler, Loading, LocationKind, LocationName, Module,
    Phase, Piece, Rule, ScopeBuilder, SectionId, ServerName, Step, View,
};
use net::{Endpoint, SocketAddress};
use site::{Application, Chooser, ListenPlan, Loaded, LocationPlan, Plan, Protocols, ServerPlan, Site};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

const NOWHERE: Span = Span { file: FileId(0), start: 0, end: 0, line: 1 };

static PAGES: Module = Module { name: "pages", directives: &[&PAGE], variables: &[], compile: Some(compile) };

static PAGE: Directive<Bytes> = Directive::new("page", |args, _| Err(args.error("comes from no text")))
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .rule(Rule::Value);

struct Page(Bytes);

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(page) = view.get(&PAGE) {
        builder.handle(Phase::Content, Page(page.clone()));
    }
    Ok(())
}

impl Handler for Page {
    fn run(&self, exchange: &mut Exchange) -> Step {
        exchange.response.content_length = Some(self.0.len() as u64);
        Step::Respond(Body::Piece(Piece::Bytes(self.0.clone())))
    }
}

/// Reads hosts with their pages. The path of a page is that of a location.
struct Reader {
    config: Config,
    plan: Plan,
}

impl Reader {
    fn new() -> Reader {
        Reader { config: Config::within(inputs::origin()), plan: Plan::default() }
    }

    fn level(&mut self, around: SectionId, context: Contexts, page: &'static str) -> SectionId {
        let level = self.config.open(around, context);
        let directive: &'static dyn AnyDirective = &PAGE;
        let page = Box::new(Bytes::from_static(page.as_bytes()));
        self.config.store(level, directive.info(), page, NOWHERE).unwrap();
        level
    }

    fn host(&mut self, name: &str, page: &'static str, (path, page_there): (&str, &'static str)) {
        let section = self.level(Config::MAIN, Contexts::SERVER, page);
        let inner = self.level(section, Contexts::LOCATION, page_there);
        let location = LocationPlan {
            name: LocationName { kind: LocationKind::Prefix, text: path.as_bytes().into() },
            regex: None,
            section: inner,
            span: NOWHERE,
            inner: Vec::new(),
            limited: None,
        };
        self.plan.servers.push(ServerPlan {
            section,
            span: NOWHERE,
            names: vec![ServerName::Text(name.as_bytes().into())],
            chooser: Chooser::Locations(vec![location]),
        });
    }

    /// All hosts at one address; the default is the one with this place.
    fn at(mut self, address: SocketAddr, default: usize) -> Loaded {
        self.plan.listens.push(ListenPlan {
            endpoint: Endpoint::stream(SocketAddress::Inet(address)),
            options: None,
            protocols: Protocols::of(Application::Http),
            servers: (0..self.plan.servers.len()).map(|server| (server, NOWHERE)).collect(),
            default,
        });
        Loaded {
            config: Arc::new(self.config),
            loading: Loading::new(Path::new("/"), Path::new("/")),
            plan: Ok(self.plan),
            sources: conf::Sources::default(),
            error: None,
            further: Vec::new(),
        }
    }
}

/// The body of the answer.
fn answer(serving: &Serving, host: &str, path: &str) -> String {
    let mut stream = serving.connect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

#[test]
fn a_plan_without_a_text_is_served() {
    let mut reader = Reader::new();
    reader.host("one.example", "first", ("/in/", "first inside"));
    reader.host("two.example", "second", ("/in/", "second inside"));
    let site = |address| Site::compile(&mut reader.at(address, 1), &[&PAGES]).unwrap();
    let serving = Serving::of(site, 100);
    for (host, path, page) in [
        ("one.example", "/", "first"),
        ("one.example", "/in/a", "first inside"),
        ("two.example", "/", "second"),
        ("two.example", "/in/a", "second inside"),
        ("other.example", "/in/a", "second inside"),
    ] {
        assert_eq!(answer(&serving, host, path), page, "{host}{path}");
    }
    serving.end().unwrap();
}
