//! Passing requests to an application whose protocol is a block with the environment, then the body, and an
//! answer that starts with a head: SCGI and uwsgi.

use super::dialogue::Block;
use super::params::Param;
use super::response::{self, Answer};
use super::target::{Pass, Target};
use crate::gateway::upstream_deny;
use crate::shared::cached::{keeper, purge};
use crate::shared::gateway::{Gateway, Protocol, is_idempotent, redirect_to_slash, upload};
use crate::shared::secured::secured;
use conf::Diagnostic;
use contract::{Directive, Event, Exchange, ScopeBuilder, Template, View, Work};
use http::{Fields, Status};
use journal::Level;
use std::sync::Arc;
use upstream::{ClientTls, Conversation, Options, Settings, TlsOptions, Upload};

/// How such a protocol writes a request.
pub(crate) trait Language: Send + Sync + 'static {
    /// The protocol's name.
    const NAME: &'static str;

    /// Appends the block for a request with a body of so many bytes.
    ///
    /// # Errors
    /// The line for the error log: the request cannot be written.
    fn write(&self, asking: &Asking<'_>, out: &mut Vec<u8>) -> Result<(), String>;
}

/// A request that is to be written.
pub(crate) struct Asking<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) params: &'a [Param],
    /// Whether the fields of the client become parameters.
    pub(crate) passes_fields: bool,
    /// How long the body is that follows, in bytes.
    pub(crate) length: u64,
}

/// The directives of a protocol.
pub(crate) struct Directives {
    pub(crate) pass: &'static Directive<Pass>,
    pub(crate) param: &'static Directive<Param>,
    pub(crate) options: &'static Options,
    /// Those about TLS, if the protocol can be spoken over it.
    pub(crate) tls: Option<&'static TlsOptions>,
}

/// Passes requests to an application.
struct Application<L> {
    language: L,
    target: Target,
    params: Box<[Param]>,
    settings: Arc<Settings>,
    /// How servers are spoken to over TLS, if they may be.
    policy: Option<Arc<ClientTls>>,
    server_name: Option<Template>,
    tag: usize,
}

/// Adds the handler of a scope that passes requests on.
pub(crate) fn compile<L: Language>(
    view: &View<'_>,
    builder: &mut ScopeBuilder,
    directives: &Directives,
    language: L,
) -> Result<(), Diagnostic> {
    let Directives { pass, param, options, tls } = *directives;
    keeper::serve(view, builder, options)?;
    purge::compile(view, builder, options)?;
    let Some(written) = view.written(pass) else { return Settings::check(view, options) };
    let mut settings = Settings::new(view, options)?;
    settings.connecting.denied = upstream_deny::of(view, written.value.is_chosen());
    let target = written.value.target(view).map_err(|error| error.at(written.span))?;
    redirect_to_slash(builder);
    let location = builder.name.as_ref().map_or(&b""[..], |name| &name.text);
    let tag = crate::gateway::upstream::tag(view, location, written.value.text());
    let policy = tls.map(|tls| written.value.policy(view, tls)).transpose();
    let application = Application {
        language,
        target,
        params: view.all(param).into_iter().map(|written| written.value.clone()).collect(),
        settings: Arc::new(settings),
        policy: policy
            .map_err(|error| if error.span.is_some() { error } else { error.at(written.span) })?
            .flatten(),
        server_name: tls.and_then(|tls| view.get(&tls.name)).cloned(),
        tag,
    };
    builder.content(view.place(pass), Gateway(application));
    Ok(())
}

impl<L: Language> Protocol for Application<L> {
    type Dialogue = Block;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The length of the body stands in front of it, or among the parameters.
    fn streams(&self, exchange: &Exchange) -> bool {
        !self.settings.buffers.of_request && !exchange.request.chunked
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let place = self.target.place(exchange)?;
        let mut conversation = Conversation::<Block>::new(exchange, &place.group, &self.settings);
        let Conversation { call, dialogue, .. } = &mut *conversation;
        call.upload = if self.settings.pass_request_body { upload(exchange)? } else { Upload::None };
        let length = match &call.upload {
            Upload::Whole(body) => body.length(),
            Upload::Stream => exchange.request.content_length.unwrap_or(0),
            Upload::None => 0,
        };
        let passes_fields = self.settings.pass_request_headers;
        let asking = Asking { exchange, params: &self.params, passes_fields, length };
        self.language.write(&asking, &mut dialogue.request).map_err(|message| {
            exchange.log(Level::Error, &message);
            Status::INTERNAL_SERVER_ERROR
        })?;
        dialogue.limit = self.settings.buffers.head;
        dialogue.asks_upgrade = !exchange.subrequest && exchange.request.head.fields.get("Upgrade").is_some();
        (call.scheme, call.is_idempotent, call.tag) =
            (place.scheme.prefix, is_idempotent(exchange), self.tag);
        let policy = self.policy.as_ref().filter(|_| place.scheme.is_secure);
        call.secured = policy.map(|policy| secured(policy, self.server_name.as_ref(), &place.host, exchange));
        let key = place.group.key(exchange);
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("{}{}", place.scheme.prefix, place.group.name);
            Event::new(L::NAME, format!("passes the request to {url}")).with("upstream", url)
        });
        Ok(conversation.work(key))
    }

    fn head(dialogue: &mut Block) -> (Status, &mut Fields) {
        (dialogue.head.status, &mut dialogue.head.fields)
    }

    fn reason(dialogue: &Block) -> &[u8] {
        &dialogue.head.reason
    }

    fn restore(dialogue: &mut Block, head: &cache::Head) {
        (dialogue.head.status, dialogue.head.fields) = (head.status, head.fields.clone());
        dialogue.head.reason = head.reason.to_vec();
        dialogue.length = Some(head.length);
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Block, fields: &Fields) {
        let Block { head, length, media_type, .. } = dialogue;
        let answer = Answer { head, length: *length, media_type };
        response::describe(&self.settings, exchange, answer, fields);
    }

    fn switches(dialogue: &Block) -> bool {
        dialogue.head.status == Status::SWITCHING_PROTOCOLS
    }

    fn has_content(&self, exchange: &Exchange, dialogue: &Block) -> Result<(), Option<usize>> {
        response::has_content(exchange, &dialogue.head, 0)
    }
}
