//! Requests passed to another server over HTTP.
//!
//! `proxy_pass` names a server or an `upstream`. Without a URI behind it the request goes on with the URI
//! that the client sent; with one, that takes the place of the location's prefix. With variables, the whole
//! URL is computed for each request; a name in it has to be that of an `upstream`. A request for a
//! location's prefix without its last slash is redirected to the location. `https://` is not built yet: nothing
//! is encrypted on the way to other servers. Where the network is not trusted, a program on this host that
//! encrypts, such as stunnel, can stand between.
//!
//! The other server sees HTTP/1.1, `Host: $proxy_host`, and the client's fields but for those that concern
//! only the client's own connection, and for `X-Accel-…`; `proxy_set_header` adds to that or replaces it,
//! and with an empty value takes away. A level with a `proxy_set_header` of its own inherits none. The
//! body's length is always the true one.
//!
//! With `proxy_request_buffering off` the body of a request goes on as it comes, no faster than the other server
//! takes it, in chunks where its length is not known. The other server may answer before it has all of it; the
//! client's connection then ends behind the answer. Such a request is sent once: no other server is asked.
//!
//! Responses are taken from the server as fast as it sends them: into `proxy_buffers`, then into a file of up
//! to `proxy_max_temp_file_size`; with `proxy_buffering off` no faster than the client takes them. Where no
//! response comes, another server of the group is asked, as `proxy_next_upstream` says; a request that may
//! have had an effect is not sent twice. In the end the client gets 502, or 504 where the time was over. A
//! response that ends before its length is cut off for the client, too.
//!
//! `Location` and `Refresh` are rewritten by `proxy_redirect` so that they lead back here. A response
//! with `X-Accel-Redirect` makes an internal redirect; `X-Accel-Buffering: no` turns buffering off.
//! Connections change their protocol (WebSocket) where the client asks for it, `proxy_set_header` passes
//! `Upgrade` and `Connection` on, and the other server answers 101.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /app/ {
//!         proxy_pass http://127.0.0.1:8081/inner/;
//!         proxy_set_header Host $host;
//!         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     location /inner/ {
//!         return 200 "$request_uri for $http_x_forwarded_for at $http_host\n";
//!     }
//!     location /inner/moved {
//!         return 302 http://127.0.0.1:8081/inner/new;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /app/page?x=1 HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 200 OK
//!
//! /inner/page?x=1 for 127.0.0.1 at example.com
//! ---
//! GET /app HTTP/1.1
//! Host: example.com
//!
//! HTTP/1.1 301 Moved Permanently
//! ```

mod redirect;
mod request;
mod response;
mod talk;
mod target;

use crate::shared::answers::{
    accel_redirect, accel_settings, answered, body_to_read, has_body_file, intercept, is_buffered,
    is_idempotent,
};
use ::upstream::{
    Call, Content, Failures, Group, Link, Names, OPTION_COUNT, Options, Reader, Settings, Upload,
};
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{
    AnyDirective, Args, Body, Directive, Event, Exchange, Handler, Loading, LocationKind, LocationName,
    Module, Outcome, Rule, ScopeBuilder, Step, Template, Variable, View,
};
use http::{Status, Version};
use redirect::Redirect;
use std::sync::Arc;
use talk::{HttpContent, Received, talk};
use target::{Pass, Target};

/// Requests passed to another server over HTTP.
pub static MODULE: Module =
    Module { name: "proxy", directives: &DIRECTIVES, variables: VARIABLES, compile: Some(compile) };

static NAMES: Names = Names::new("proxy_");
static OPTIONS: Options = Options::new(&NAMES);

const OWN_COUNT: usize = 6;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + OPTION_COUNT] = OPTIONS.behind([
    &PROXY_PASS,
    &PROXY_REDIRECT,
    &PROXY_SET_HEADER,
    &PROXY_HTTP_VERSION,
    &PROXY_METHOD,
    &PROXY_SET_BODY,
]);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `proxy_pass URL`
pub static PROXY_PASS: Directive<Pass> = Directive::new("proxy_pass", target::parse)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF).or(Contexts::LIMIT_EXCEPT))
    .rule(Rule::Unnamed)
    .help("The server or group that requests are passed to, over http only, and the URI that replaces the location's.");

/// `proxy_redirect off | default | FROM TO`
pub static PROXY_REDIRECT: Directive<Redirect> = Directive::new("proxy_redirect", redirect::parse)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .rule(Rule::List)
    .default("default")
    .help("How `Location` and `Refresh` of a response are rewritten.");

/// `proxy_set_header NAME VALUE`
pub static PROXY_SET_HEADER: Directive<SetField> = Directive::new("proxy_set_header", parse_set_header)
    .within(LEVELS)
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .default("Host $proxy_host")
    .help("A field of the request that the other server gets; an empty value takes it away.");

/// `proxy_http_version 1.0 | 1.1`
pub static PROXY_HTTP_VERSION: Directive<Version> = Directive::new("proxy_http_version", parse_version)
    .within(LEVELS)
    .default("1.1")
    .help("The version of HTTP that the other server is spoken to in.");

/// `proxy_method NAME`
pub static PROXY_METHOD: Directive<Template> =
    Directive::new("proxy_method", |args, loading| loading.template(args.word(0)?))
        .within(LEVELS)
        .help("The method of the request, in place of the client's.");

/// `proxy_set_body TEXT`
pub static PROXY_SET_BODY: Directive<Template> =
    Directive::new("proxy_set_body", |args, loading| loading.template(args.word(0)?))
        .within(LEVELS)
        .help("The body of the request, in place of the client's.");

/// A field to set.
#[derive(Clone)]
pub struct SetField {
    name: Box<[u8]>,
    value: Template,
}

fn parse_set_header(args: &Args<'_>, loading: &mut Loading) -> Result<SetField, Diagnostic> {
    let word = args.word(0)?;
    if word.text.is_empty() || !word.text.iter().all(|&byte| byte.is_ascii_graphic() && byte != b':') {
        return Err(args.invalid(word));
    }
    Ok(SetField { name: word.text.clone(), value: loading.template(args.word(1)?)? })
}

fn parse_version(args: &Args<'_>, _: &mut Loading) -> Result<Version, Diagnostic> {
    args.value(0, |word| value::choice(word, &[("1.0", Version::Http10), ("1.1", Version::Http11)]))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let Some(written) = view.written(&PROXY_PASS) else { return Settings::check(view, &OPTIONS) };
    let settings = Settings::new(view, &OPTIONS)?;
    let pass = written.value.clone();
    let fixed = pass.fixed(view).map_err(|error| error.at(written.span))?;
    let name = builder.name.as_ref();
    let location = name.filter(|name| name.kind != LocationKind::Named);
    let location: Box<[u8]> = location.map_or_else(Box::default, |name| name.text.clone());
    builder.policy.redirects.to_slash = name.is_some_and(LocationName::ends_with_slash);
    let tag = crate::upstream::tag(view, &location, pass.text());
    let proxy = Proxy {
        redirects: redirects(view, &pass, fixed.as_ref(), &location)?,
        groups: if pass.is_dynamic() { crate::upstream::groups(view).into() } else { Box::default() },
        fields: view.all(&PROXY_SET_HEADER).into_iter().map(|written| written.value.clone()).collect(),
        version: view.get(&PROXY_HTTP_VERSION).copied().unwrap_or(Version::Http11),
        method: view.get(&PROXY_METHOD).cloned(),
        body: view.get(&PROXY_SET_BODY).cloned(),
        settings: Arc::new(settings),
        tag,
        pass,
        fixed,
        location,
    };
    builder.content(view.place(&PROXY_PASS), proxy);
    Ok(())
}

fn redirects(
    view: &View<'_>,
    pass: &Pass,
    fixed: Option<&Target>,
    location: &[u8],
) -> Result<Box<[redirect::Rule]>, Diagnostic> {
    let back = || {
        let target = fixed?;
        let rule = match target.uri.is_empty() {
            true => redirect::Rule::back(&[&pass.text[..], b"/"].concat(), b"/"),
            false => redirect::Rule::back(&pass.text, location),
        };
        Some(rule)
    };
    let written = view.all(&PROXY_REDIRECT);
    if written.is_empty() {
        return Ok(back().into_iter().collect());
    }
    let mut rules = Vec::new();
    for written in written {
        match written.value {
            Redirect::Off => {}
            Redirect::Text(rule) => rules.push(rule.clone()),
            Redirect::Default => rules.push(back().ok_or_else(|| {
                let message = "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with \
                               variables";
                Diagnostic::emerg(message).at(written.span)
            })?),
        }
    }
    Ok(rules.into())
}

/// Passes requests on.
struct Proxy {
    pass: Pass,
    fixed: Option<Target>,
    groups: Box<[Arc<Group>]>,
    location: Box<[u8]>,
    settings: Arc<Settings>,
    fields: Box<[SetField]>,
    version: Version,
    method: Option<Template>,
    body: Option<Template>,
    redirects: Box<[redirect::Rule]>,
    tag: usize,
}

/// `$proxy_host` and `$proxy_port` of the request that is being passed on.
struct Passing(Target);

impl Handler for Proxy {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if (self.settings.pass_request_body || self.body.is_some() || has_body_file(exchange))
            && let Some(work) = body_to_read(exchange, self.streams(exchange))
        {
            return Step::Await(work);
        }
        self.start(exchange).unwrap_or_else(Step::Finish)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        match answered(outcome) {
            None => self.start(exchange).unwrap_or_else(Step::Finish),
            Some(Ok((answer, link, url))) => self.answer(exchange, answer, link, url),
            Some(Err(status)) => Step::Finish(status),
        }
    }
}

impl Proxy {
    /// Whether the body goes on as it comes. One of unknown length needs chunks.
    fn streams(&self, exchange: &Exchange) -> bool {
        let can_say_so = !exchange.request.chunked || self.version == Version::Http11;
        !self.settings.request_buffering && self.body.is_none() && can_say_so
    }

    fn start(&self, exchange: &mut Exchange) -> Result<Step, Status> {
        let target = match &self.fixed {
            Some(target) => target.clone(),
            None => self.pass.dynamic(exchange, &self.groups)?,
        };
        exchange.attach_own(Passing(target.clone()));
        let uri = request::uri(self, exchange, &target);
        let prepared = request::prepare(self, exchange, &target, &uri)?;
        let key = target.group.key(exchange);
        // Nothing is evaluated behind this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("http://{}{}", target.group.name, String::from_utf8_lossy(&uri));
            let event = Event::new("proxy", format!("passes the request to {url}"));
            event.with("upstream", url).with("head", &prepared.head)
        });
        let call = Call {
            group: Arc::clone(&target.group),
            key,
            settings: Arc::clone(&self.settings),
            log: exchange.request_log(),
            attempts: crate::upstream::attempts(exchange),
            scheme: "http://",
            uri: String::from_utf8_lossy(&uri).into_owned(),
            is_idempotent: is_idempotent(exchange),
            stream: prepared.upload.as_ref().and_then(Upload::stream).cloned(),
            tag: self.tag,
        };
        let talk = async move |call: &Call, link: &mut Link| talk(link, &prepared, &call.settings).await;
        let fault = |received: &Received| Failures::of_status(received.head.status);
        Ok(Step::Await(call.work(talk, fault)))
    }

    fn answer(&self, exchange: &mut Exchange, received: Received, link: Link, url: String) -> Step {
        let attempts = crate::upstream::attempts(exchange);
        attempts.set_fields(received.head.fields.clone());
        let Received { head, .. } = &received;
        accel_settings(&self.settings, exchange, &head.fields);
        if let Some(step) = accel_redirect(&self.settings, exchange, &head.fields) {
            return step;
        }
        if let Some(step) = intercept(&self.settings, exchange, head.status, &head.fields) {
            return step;
        }
        let buffered = is_buffered(&self.settings, &head.fields);
        response::describe(self, exchange, head, &received.framing);
        if head.status == Status::SWITCHING_PROTOCOLS {
            return Step::Respond(Body::Tunnel(link.into_tunnel(self.settings.read_timeout)));
        }
        let decoder = HttpContent::new(&received);
        let settings = Arc::clone(&self.settings);
        let log = exchange.request_log();
        let reader = Reader { link: Some(link), decoder, settings, log, url };
        Step::Respond(Content::body(reader, buffered))
    }
}

static VARIABLES: &[Variable] = &[
    Variable::new("proxy_host", |exchange, _, out| passing(exchange, out, |target| &target.host)),
    Variable::new("proxy_port", |exchange, _, out| passing(exchange, out, |target| &target.port)),
    Variable::new("proxy_add_x_forwarded_for", add_x_forwarded_for),
];

fn passing(exchange: &Exchange, out: &mut Vec<u8>, part: impl Fn(&Target) -> &str) -> bool {
    let passing = exchange.attached::<Passing>();
    passing.inspect(|passing| out.extend_from_slice(part(&passing.0).as_bytes())).is_some()
}

/// What the client says of those before it, and the client itself.
fn add_x_forwarded_for(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    for value in exchange.request.head.fields.all("X-Forwarded-For") {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    crate::variables::remote_addr(exchange, "", out)
}
