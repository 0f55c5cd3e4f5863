//! The handler: how a request is passed on, and what its answer comes to.

use super::cookies::Cookies;
use super::dialogue::HttpDialogue;
use super::redirect;
use super::request::{self, OwnFields};
use super::response;
use super::target::{Hosts, Pass, Scheme, Target};
use crate::shared::cached;
use crate::shared::gateway::{Protocol, is_idempotent};
use crate::shared::secured::secured;
use ::upstream::{ClientTls, Conversation, Settings};
use contract::{Event, Exchange, Template, Work};
use http::{Fields, Status, Version};
use std::rc::Rc;
use std::sync::Arc;

/// Passes requests on.
pub(super) struct Proxy {
    pub(super) pass: Pass,
    pub(super) fixed: Option<Arc<Target>>,
    /// What variables can name.
    pub(super) hosts: Option<Hosts>,
    pub(super) location: Box<[u8]>,
    pub(super) settings: Arc<Settings>,
    pub(super) own: OwnFields,
    /// The same for a request whose response may be kept.
    pub(super) own_kept: Option<OwnFields>,
    pub(super) version: Version,
    pub(super) method: Option<Template>,
    pub(super) body: Option<Template>,
    pub(super) passes_trailers: bool,
    pub(super) redirects: Box<[redirect::Rule]>,
    pub(super) cookies: Cookies,
    /// How servers are spoken to over TLS, if they may be.
    pub(super) policy: Option<Arc<ClientTls>>,
    pub(super) server_name: Option<Template>,
    pub(super) tag: usize,
}

/// `$proxy_host` and `$proxy_port` of the request that is being passed on.
pub(super) struct Passing(pub(super) Arc<Target>);

impl Proxy {
    /// Where a request goes.
    fn target(&self, exchange: &Exchange) -> Result<Arc<Target>, Status> {
        match (&self.hosts, &self.fixed) {
            (Some(hosts), _) => self.pass.dynamic(exchange, hosts).map(Arc::new),
            (None, Some(fixed)) => Ok(Arc::clone(fixed)),
            (None, None) => Err(Status::INTERNAL_SERVER_ERROR),
        }
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
        self.settings.pass_request_body || self.body.is_some()
    }

    /// A body of unknown length needs chunks.
    fn streams(&self, exchange: &Exchange) -> bool {
        let can_say_so = !exchange.request.chunked || self.version == Version::Http11;
        !self.settings.request_buffering && self.body.is_none() && can_say_so
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let target = &self.target(exchange)?;
        let mut conversation = Conversation::<HttpDialogue>::new(exchange, &target.group, &self.settings);
        exchange.attach_own_shared(conversation.dialogue.passing(target));
        request::write_uri(self, exchange, target, &mut conversation.call.uri);
        request::prepare(self, exchange, target, &mut conversation)?;
        let key = target.group.key(exchange);
        let Conversation { call, dialogue, .. } = &mut *conversation;
        (dialogue.limit, dialogue.passes_trailers) = (self.settings.buffer_size, self.passes_trailers);
        (call.scheme, call.is_idempotent, call.tag) =
            (target.scheme.prefix(), is_idempotent(exchange), self.tag);
        let policy = self.policy.as_ref().filter(|_| target.scheme == Scheme::Https);
        call.secured =
            policy.map(|policy| secured(policy, self.server_name.as_ref(), &target.name, exchange));
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("{}{}{}", call.scheme, target.group.name, String::from_utf8_lossy(&call.uri));
            let event = Event::new("proxy", format!("passes the request to {url}"));
            event.with("upstream", url).with("head", &dialogue.request)
        });
        Ok(conversation.work(key))
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

    /// As in nginx: the URL that is asked for.
    fn write_key(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<bool, Status> {
        let target = self.target(exchange)?;
        out.extend_from_slice(target.scheme.prefix().as_bytes());
        out.extend_from_slice(target.host.as_bytes());
        let mut uri = Vec::new();
        request::write_uri(self, exchange, &target, &mut uri);
        out.extend_from_slice(&uri);
        Ok(true)
    }

    fn rewritten(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        self.cookies.rewrite_all(exchange, fields)
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut HttpDialogue, fields: &Fields) {
        response::describe(self, exchange, dialogue, fields);
    }

    fn switches(dialogue: &HttpDialogue) -> bool {
        dialogue.head.status == Status::SWITCHING_PROTOCOLS
    }
}
