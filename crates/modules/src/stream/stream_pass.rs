//! Lets connections of `stream` go on at another address of this server.
//!
//! `pass` names an address that a `listen` of `stream` or `http` has, as `ADDRESS:PORT`, `[ADDRESS]:PORT` or
//! `unix:PATH`, also with variables. The connection goes on there as if it had come to that address: no second connection
//! is opened, and the client's address stays. What was read already, such as the first message of TLS (`ssl_preread`), is
//! kept, so the other address may have `ssl`. If `listen … ssl` ended the encryption before, the other address must not
//! have `ssl`; there, `$ssl_` variables and `$scheme` tell of the encryption.
//!
//! The session ends when the connection is passed on. As in nginx, `access_log` gets no line for it: the address at which
//! the connection goes on logs it. If no `listen` has the address, the connection is closed, and the error log says so. A
//! connection is passed on ten times at most.
//!
//! With `ssl_preread` and `map` one port serves several server names:
//!
//! ```conf
//! events {
//! }
//! stream {
//!     map $ssl_preread_server_name $port {
//!         default          127.0.0.1:8081;
//!         app.example.com  127.0.0.1:8082;
//!     }
//!     server {
//!         listen 8080;
//!         ssl_preread on;
//!         pass $port;
//!     }
//!     server {
//!         listen 127.0.0.1:8082;
//!         proxy_pass 192.0.2.1:8443;
//!     }
//! }
//! http {
//!     access_log off;
//!     server {
//!         listen 127.0.0.1:8081;
//!         return 200 "http\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! http
//! ```

use conf::value::{self, Host};
use conf::{Contexts, Diagnostic};
use contract::{
    Args, Body, Directive, Event, Exchange, Handler, Loading, Module, PassTo, Reach, Rule, ScopeBuilder,
    Step, Template, View,
};
use http::Status;
use journal::Level;
use net::SocketAddress;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// Connections that go on at another address.
pub static MODULE: Module =
    Module { name: "stream_pass", directives: &[&PASS], variables: &[], compile: Some(compile) };

/// `pass ADDRESS`
pub static PASS: Directive<Pass> = Directive::new("pass", parse)
    .within(Contexts::STREAM_SERVER)
    .rule(Rule::Never)
    .help("The address of this server at which connections go on: an address with a port, or `unix:PATH`.");

/// Where connections go on.
#[derive(Clone, Debug)]
pub enum Pass {
    /// At one address.
    Fixed(SocketAddress),
    /// At one that is found for each connection.
    Variable(Template),
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    let word = args.word(0)?;
    let template = loading.template(word)?;
    if template.constant().is_none() {
        return Ok(Pass::Variable(template));
    }
    address(&word.text).map(Pass::Fixed).map_err(|reason| {
        let message = format!("{reason} in \"{word}\" of the \"pass\" directive");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    })
}

/// The address that a text means, or why it means none.
fn address(text: &[u8]) -> Result<SocketAddress, &'static str> {
    let (address, rest) = value::target(text, 0).map_err(|_| "invalid address")?;
    match &address.host {
        _ if !rest.is_empty() => Err("invalid address"),
        Host::Unix(path) => Ok(SocketAddress::Unix(OsStr::from_bytes(path).into())),
        Host::Name(_) => Err("host not found"),
        Host::Ip(_) if address.port == 0 => Err("no port"),
        Host::Ip(ip) => Ok(SocketAddress::Inet((*ip, address.port).into())),
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(pass) = view.get(&PASS) {
        builder.content(view.place(&PASS), pass.clone());
    }
    Ok(())
}

impl Handler for Pass {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let address = match self {
            Pass::Fixed(address) => address.clone(),
            Pass::Variable(template) => {
                let text = template.evaluate(exchange);
                match address(&text) {
                    Ok(address) => address,
                    Err(reason) => {
                        let shown = String::from_utf8_lossy(&text);
                        exchange.log(Level::Error, &format!("{reason} in pass \"{shown}\""));
                        return Step::Finish(Status::INTERNAL_SERVER_ERROR);
                    }
                }
            }
        };
        exchange.tell(|| Event::new("pass", format!("the connection goes on at {address}")));
        exchange.attach(Reach::Own, Rc::new(PassTo(address)));
        Step::Respond(Body::Empty)
    }
}
