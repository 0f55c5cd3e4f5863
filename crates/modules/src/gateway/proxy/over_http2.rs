//! Requests passed on over HTTP/2.

use super::cookies::Cookies;
use super::handler::Proxy;
use super::http2_dialogue::Http2Dialogue;
use super::request::{OwnFields, SetField};
use super::response::{self, Answer};
use super::route::Route;
use super::target::Pass;
use crate::gateway::upstream_deny;
use crate::shared::gateway::{Gateway, Protocol};
use crate::shared::proxy_header::ProxyHeader;
use ::upstream::{Options, Settings, TlsOptions};
use conf::Diagnostic;
use contract::{Directive, Exchange, ScopeBuilder, View, Work};
use http::{Fields, Status, Version};
use std::rc::Rc;
use std::sync::Arc;

/// The name of the protocol in a TLS handshake (RFC 9113, section 3.2).
pub(super) const ALPN: &[u8] = b"h2";

/// The directives of a protocol over HTTP/2 that changes nothing of requests and responses.
pub(crate) struct Streaming {
    /// The name of the module.
    pub(crate) name: &'static str,
    pub(crate) pass: &'static Directive<Pass>,
    pub(crate) set_header: &'static Directive<SetField>,
    pub(crate) options: &'static Options,
    pub(crate) tls: &'static TlsOptions,
}

/// Adds the handler of a scope that passes requests and responses on over HTTP/2 as they come.
pub(crate) fn compile_streaming(
    view: &View<'_>,
    builder: &mut ScopeBuilder,
    directives: &Streaming,
) -> Result<(), Diagnostic> {
    let Streaming { name, pass, set_header, options, tls } = *directives;
    let Some(route) = Route::compile(view, builder, (pass, tls), Some(ALPN))? else { return Ok(()) };
    let set: Vec<SetField> = view.all(set_header).into_iter().map(|written| written.value.clone()).collect();
    let mut settings = Settings::streaming(view, options);
    settings.connecting.denied = upstream_deny::of(view, route.pass.is_dynamic());
    let proxy = Proxy {
        name,
        redirects: Box::default(),
        cookies: Cookies::default(),
        own_kept: None,
        own: OwnFields::new(&set, (Version::Http2, route.fixed.as_deref())),
        version: Version::Http2,
        method: None,
        body: None,
        passes_trailers: true,
        passes_te: true,
        settings: Arc::new(settings),
        header: ProxyHeader::Off,
        server_name: view.get(&tls.name).cloned(),
        route,
    };
    builder.content(view.place(pass), Gateway(Http2Proxy(proxy)));
    Ok(())
}

/// Passes requests on over HTTP/2.
pub(super) struct Http2Proxy(pub(super) Proxy);

impl Protocol for Http2Proxy {
    type Dialogue = Http2Dialogue;

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn needs_body(&self) -> bool {
        self.0.reads_body()
    }

    fn streams(&self, exchange: &Exchange) -> bool {
        self.0.passes_body_on(exchange)
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        self.0.ask_by::<Http2Dialogue>(exchange)
    }

    fn head(dialogue: &mut Http2Dialogue) -> (Status, &mut Fields) {
        (dialogue.status.unwrap_or(Status::BAD_GATEWAY), &mut dialogue.fields)
    }

    fn reason(dialogue: &Http2Dialogue) -> &[u8] {
        dialogue.status.unwrap_or(Status::BAD_GATEWAY).reason().as_bytes()
    }

    fn restore(dialogue: &mut Http2Dialogue, head: &cache::Head) {
        (dialogue.status, dialogue.fields) = (Some(head.status), head.fields.clone());
        dialogue.length = Some(head.length);
    }

    fn write_key(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        self.0.write_url(exchange, out)
    }

    fn rewritten(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        self.0.cookies.rewrite_all(exchange, fields)
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Http2Dialogue, fields: &Fields) {
        let Http2Dialogue { status, length, media_type, .. } = dialogue;
        let status = status.unwrap_or(Status::BAD_GATEWAY);
        let answer = Answer { status, reason: status.reason().as_bytes(), length: *length, media_type };
        response::describe(&self.0, exchange, answer, fields);
    }
}
