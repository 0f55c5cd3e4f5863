//! Sites and exchanges without sockets, for tests.

use crate::languages::load;
use crate::load::{Loaded, Options};
use crate::site::Site;
use conf::Memory;
use contract::{
    Connection, Exchange, Loading, Module, NoBody, Peer, Policy, Pull, Request, ScopeBuilder, Source, Turn,
    Variables,
};
use http::{Method, RequestHead, Version};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

/// What this text inside of `http` is, or the message about what is wrong with it.
pub fn site(text: &str, modules: &[&'static Module]) -> Result<(Loaded, Site), String> {
    let inputs = Memory::default().with("/etc/x.conf", format!("http {{ {text} }}"));
    let options = Options {
        path: "/etc/x.conf".into(),
        prefix: "/etc".into(),
        globals: None,
        apache: Default::default(),
    };
    let mut loaded = load(&inputs, &options, modules, Loading::new(Path::new("/etc"), Path::new("/etc")));
    if let Some(error) = &loaded.error {
        return Err(error.message.clone());
    }
    let site = Site::compile(&mut loaded, modules).map_err(|error| error.message)?;
    Ok((loaded, site))
}

/// A request with a path and a host, both as they are after parsing.
pub fn request(method: &str, path: &str, host: &str) -> Request {
    let mut head = RequestHead::new();
    let (start, end) = (method.len() + 1, method.len() + 1 + path.len());
    head.set_line(format!("{method} {path} HTTP/1.1").as_bytes(), (start, end), Version::Http11);
    Request {
        method: Method::from_bytes(method.as_bytes()),
        uri: path.as_bytes().into(),
        path: path.as_bytes().to_vec(),
        host: host.as_bytes().to_vec(),
        head: Box::new(head),
        ..Request::new()
    }
}

/// The first request of a connection that came to this address.
pub fn connection(local: &str) -> Connection {
    let client = Peer::Inet(SocketAddr::from(([127, 0, 0, 1], 1024)));
    Connection::new(client, local.parse().map_or(Peer::Unix(None), Peer::Inet))
}

/// A GET in a scope whose settings are the defaults with these changes.
pub fn exchange(path: &str, host: &str, change: impl FnOnce(&mut Policy)) -> Exchange {
    exchange_at("127.0.0.1:8080", path, host, change)
}

/// As [`exchange`], at another local address.
pub fn exchange_at(local: &str, path: &str, host: &str, change: impl FnOnce(&mut Policy)) -> Exchange {
    let root = contract::Root {
        path: contract::Template::literal(b"html"),
        alias: None,
        prefix: PathBuf::from("/etc"),
    };
    let mut policy = Policy::new(root);
    change(&mut policy);
    let scope = Arc::new(ScopeBuilder::new(None, policy).finish());
    let variables = Variables::new()
        .finish(&[], &mut |unknown, _| Err(unknown))
        .unwrap_or_else(|error| panic!("{}", error.message));
    let request = request("GET", path, host);
    Exchange::new(Rc::new(connection(local)), request, scope, Arc::new(variables))
}

/// Asks a source that waits for no other server, and needs no request.
pub fn pull(source: &mut dyn Source) -> Pull {
    let mut exchange = exchange("/", "localhost", |_| {});
    let mut cx = Context::from_waker(Waker::noop());
    source.pull(&mut Turn { cx: &mut cx, exchange: &mut exchange, body: &mut NoBody })
}

/// A site whose only server has this content.
pub fn served(server: &str) -> Arc<Site> {
    let (_, site) = site(&format!("server {{ listen 127.0.0.1:1; {server} }}"), &[])
        .unwrap_or_else(|error| panic!("{error}"));
    Arc::new(site)
}
