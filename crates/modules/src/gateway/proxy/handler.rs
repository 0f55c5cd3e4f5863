//! The handler: how a request is passed on, and what its answer comes to.

use super::cookies::Cookies;
use super::dialogue::HttpDialogue;
use super::redirect;
use super::request::{self, OwnFields};
use super::response::{self, Answer};
use super::route::Route;
use crate::shared::cached;
use crate::shared::gateway::Protocol;
use crate::shared::proxy_header::ProxyHeader;
use ::upstream::Settings;
use conf::Diagnostic;
use contract::{Directive, Exchange, Template, View, Work};
use http::{Fields, Status, Version};
use std::rc::Rc;
use std::sync::Arc;

/// Passes requests on.
pub(super) struct Proxy {
    /// The name of the module.
    pub(super) name: &'static str,
    pub(super) route: Route,
    pub(super) settings: Arc<Settings>,
    pub(super) own: OwnFields,
    /// The same for a request whose response may be kept.
    pub(super) own_kept: Option<OwnFields>,
    pub(super) version: Version,
    pub(super) method: Option<Template>,
    pub(super) body: Option<Template>,
    pub(super) passes_trailers: bool,
    /// Whether servers learn that the client reads trailers.
    pub(super) passes_te: bool,
    pub(super) redirects: Box<[redirect::Rule]>,
    pub(super) cookies: Cookies,
    pub(super) server_name: Option<Template>,
    /// What connections to servers begin with.
    pub(super) header: ProxyHeader,
}

/// The header that begins connections, each of which is for one client.
pub(super) fn header(
    view: &View<'_>,
    directive: &'static Directive<ProxyHeader>,
    version: Version,
) -> Result<ProxyHeader, Diagnostic> {
    let Some(written) = view.written(directive) else { return Ok(ProxyHeader::Off) };
    if version == Version::Http2 && *written.value != ProxyHeader::Off {
        let message = "\"proxy_protocol\" does not work with \"proxy_http_version 2\", whose connections are shared by clients";
        return Err(Diagnostic::emerg(message)
            .at(written.span)
            .hint("set \"proxy_http_version\" to 1.1 here"));
    }
    Ok(*written.value)
}

impl Proxy {
    /// Writes the key of a response that is kept. As in nginx it is the URL that is asked for.
    pub(super) fn write_url(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        let target = self.route.target(exchange)?;
        out.extend_from_slice(target.scheme.prefix().as_bytes());
        out.extend_from_slice(target.host.as_bytes());
        request::write_uri(self, exchange, &target, out);
        Ok(true)
    }

    /// What the configuration says of the fields of a request.
    pub(super) fn own(&self, exchange: &Exchange) -> &OwnFields {
        let kept = self.own_kept.as_ref().filter(|_| cached::is_kept(exchange));
        kept.unwrap_or(&self.own)
    }
}

impl Protocol for Proxy {
    type Dialogue = HttpDialogue;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn needs_body(&self) -> bool {
        self.reads_body()
    }

    fn streams(&self, exchange: &Exchange) -> bool {
        self.passes_body_on(exchange)
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        self.ask_by::<HttpDialogue>(exchange)
    }

    fn head(dialogue: &mut HttpDialogue) -> (Status, &mut Fields) {
        (dialogue.head.status, &mut dialogue.head.fields)
    }

    fn reason(dialogue: &HttpDialogue) -> &[u8] {
        &dialogue.head.reason
    }

    fn restore(dialogue: &mut HttpDialogue, head: &cache::Head) {
        (dialogue.head.status, dialogue.head.fields) = (head.status, head.fields.clone());
        dialogue.head.reason = head.reason.to_vec();
        dialogue.framing.announced = Some(head.length);
    }

    fn write_key(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        self.write_url(exchange, out)
    }

    fn rewritten(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        self.cookies.rewrite_all(exchange, fields)
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut HttpDialogue, fields: &Fields) {
        let HttpDialogue { head, framing, media_type, .. } = dialogue;
        let answer =
            Answer { status: head.status, reason: &head.reason, length: framing.announced, media_type };
        response::describe(self, exchange, answer, fields);
    }

    fn switches(dialogue: &HttpDialogue) -> bool {
        dialogue.head.status == Status::SWITCHING_PROTOCOLS
    }
}
