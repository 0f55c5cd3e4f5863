//! Requests as features see them, without a connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use conf::{Contexts, Node, parse_bytes};
use contract::{
    AnyDirective, Args, Config, Connection, Exchange, Loading, Peer, Policy, Request, Root, Scope,
    ScopeBuilder, Template, VariableTable,
};
use http::RequestHead;
use http::uri::{Target, parse_target};

type Made = (Arc<Scope>, Arc<VariableTable>);

/// The exchange of a request with this head, under these settings, which have to be right.
pub(crate) fn exchange(settings: &'static str, head: RequestHead) -> Exchange {
    in_scope(made(settings), head)
}

/// The exchange of a request with this head, under those directives of a `.htaccess` file that are right. None if they do
/// not fit together.
pub(crate) fn exchange_below(nodes: &[Node], head: RequestHead) -> Option<Exchange> {
    let known = || modules::ALL.iter().flat_map(|module| module.directives);
    let mut loading = Loading::new(Path::new("/"), Path::new("/"));
    loading.htaccess.path = Some(Path::new("/nowhere/.htaccess").into());
    let mut config = Config::within(inputs::origin());
    let section = config.open(Config::MAIN, Contexts::HTACCESS);
    for node in nodes.iter().filter(|node| node.block.is_none()) {
        let name = node.name.to_string();
        let is_meant = |directive: &&&'static dyn AnyDirective| {
            let info = directive.info();
            info.contexts.intersects(Contexts::HTACCESS) && info.name.eq_ignore_ascii_case(&name)
        };
        let Some(directive) = known().find(is_meant) else { continue };
        let info = directive.info();
        if !info.shape.arity.admits(node.args.len()) {
            continue;
        }
        let args = Args { node, context: Contexts::HTACCESS, opened: None };
        if let Ok(value) = directive.parse(&args, &mut loading) {
            config.store(section, directive.info(), value, node.span).ok()?;
        }
    }
    let mut builder = ScopeBuilder::new(None, policy());
    for compile in modules::ALL.iter().filter_map(|module| module.compile) {
        compile(&config.view(section), &mut builder).ok()?;
    }
    let variables: Vec<_> = modules::ALL.iter().flat_map(|module| module.variables).copied().collect();
    let table = loading.variables.finish(&variables, &mut |unknown, _| Err(unknown)).expect("variables");
    Some(in_scope((Arc::new(builder.finish()), Arc::new(table)), head))
}

fn in_scope((scope, variables): Made, head: RequestHead) -> Exchange {
    let mut target = Target::default();
    if parse_target(head.target(), true, &mut target).is_err() {
        target = Target::default();
    }
    let request = Request {
        uri: head.target().to_vec(),
        method: head.method(),
        path: target.path,
        args: Some(target.args),
        host: target.host.name,
        port: target.host.port,
        head: Box::new(head),
        ..Request::new()
    };
    let connection = Connection::new(Peer::Inet(([127, 0, 0, 1], 1).into()), Peer::Unix(None));
    Exchange::new(Rc::new(connection), request, scope, variables)
}

/// What the settings come to, once a thread.
fn made(settings: &'static str) -> Made {
    thread_local! {
        static MADE: RefCell<HashMap<&'static str, Made>> = RefCell::default();
    }
    MADE.with_borrow_mut(|made| made.entry(settings).or_insert_with(|| compile(settings)).clone())
}

fn compile(settings: &str) -> Made {
    let loaded = parse_bytes(settings.as_bytes());
    let mut loading = Loading::new(Path::new("/"), Path::new("/"));
    let mut config = Config::within(inputs::origin());
    let known = || modules::ALL.iter().flat_map(|module| module.directives);
    for node in &loaded.nodes {
        let name = node.name.to_string();
        let directive: &'static dyn AnyDirective =
            *known().find(|directive| directive.info().name == name).expect("a directive");
        let args = Args { node, context: Contexts::LOCATION, opened: None };
        let value = directive.parse(&args, &mut loading).expect("a value");
        config.store(Config::MAIN, directive.info(), value, node.span).expect("a setting");
    }
    let mut builder = ScopeBuilder::new(None, policy());
    for compile in modules::ALL.iter().filter_map(|module| module.compile) {
        compile(&config.view(Config::MAIN), &mut builder).expect("settings that fit");
    }
    let variables: Vec<_> = modules::ALL.iter().flat_map(|module| module.variables).copied().collect();
    let table = loading.variables.finish(&variables, &mut |unknown, _| Err(unknown)).expect("variables");
    (Arc::new(builder.finish()), Arc::new(table))
}

fn policy() -> Policy {
    let root = Root { path: Template::literal(b"/nowhere"), alias: None, prefix: Path::new("/").into() };
    Policy::new(root)
}
