//! Applications that speak FastCGI, such as PHP-FPM.
//!
//! `fastcgi_pass` sends requests to an address, a Unix socket, or an `upstream` block; with variables it is
//! chosen for each request. The application is told what `fastcgi_param` says: a parameter can be left out
//! where its value is empty. The fields of the request become parameters, too: `HTTP_` and the name in
//! capital letters, fields of one name joined by commas. `Proxy` is never passed on, since applications
//! would take it for a setting of their own; and where names differ by a hyphen and an underscore only, the
//! one with the hyphen counts.
//!
//! `fastcgi_split_path_info` tells a script apart from the path behind it. Its two captures are
//! `$fastcgi_script_name` and `$fastcgi_path_info`; without it the first is the URI, with `fastcgi_index`
//! behind a final slash. A script should be known to exist before it is named to the application, which may
//! take `/image.jpg/x.php` for the image otherwise:
//!
//! ```file html/app.php
//! <?php
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!
//!     location ~ \.php(/|$) {
//!         fastcgi_split_path_info ^(.+?\.php)(/.*)$;
//!         set $path_info $fastcgi_path_info;
//!         try_files $fastcgi_script_name =404;
//!
//!         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
//!         fastcgi_param PATH_INFO $path_info;
//!         fastcgi_param REQUEST_METHOD $request_method;
//!         fastcgi_param QUERY_STRING $query_string;
//!         fastcgi_param HTTPS $https if_not_empty;
//!         fastcgi_pass unix:no-application.sock;
//!         error_page 502 = @down;
//!     }
//!     location @down {
//!         return 200 "$uri: nobody listens\n";
//!     }
//!     location /split/ {
//!         fastcgi_split_path_info ^/split(/.+\.cgi)(.*)$;
//!         fastcgi_index start.cgi;
//!         return 200 "$fastcgi_script_name [$fastcgi_path_info]\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /app.php/more HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! /app.php: nobody listens
//! ---
//! GET /none.php HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! ---
//! GET /split/a.cgi/b HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! /a.cgi [/b]
//! ---
//! GET /split/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! /split/start.cgi []
//! ```
//!
//! The body of a request is read whole before the application is asked, so that `$content_length` is right
//! for chunked bodies, too; with `fastcgi_request_buffering off` it goes on as it comes, no faster than the
//! application takes it, and one whose end did not come with its start has a length only if the client told it.
//! An answer is bounded as a proxied one is: its head by `fastcgi_buffer_size`, its
//! content by `fastcgi_buffers` and, on disk, by `fastcgi_max_temp_file_size`; `fastcgi_buffering off` hands
//! on what comes as it comes. What the application says on its standard error goes to the error log: at most
//! 2 KiB a message and 64 KiB a request. An application that breaks the protocol, or closes the connection
//! before its answer has ended, is answered for with 502 or, where the answer is on its way, by cutting the
//! client's connection. A connection is kept with `fastcgi_keep_conn on`, where the `upstream` keeps any.

mod content;
mod params;
mod response;
mod script;
mod talk;
mod target;

use crate::shared::answers::{
    accel_redirect, accel_settings, answered, body_to_read, has_body_file, intercept, is_buffered,
    is_idempotent, upload,
};
use conf::value::Pattern;
use conf::{Arity, Contexts, Diagnostic};
use contract::log::Level;
use contract::policy::ScriptPolicy;
use contract::{
    AnyDirective, Args, Body, Directive, Event, Exchange, Handler, Loading, LocationName, Module, Outcome,
    Rule, ScopeBuilder, Step, Variable, View,
};
use http::{Method, Status};
use params::Param;
use std::sync::Arc;
use talk::{Answer, Request};
use target::{Pass, Target};
use upstream::{Call, Content, Failures, Link, Names, OPTION_COUNT, Options, Reader, Settings, Upload};

/// Applications that speak FastCGI.
pub static MODULE: Module =
    Module { name: "fastcgi", directives: &DIRECTIVES, variables: VARIABLES, compile: Some(compile) };

static NAMES: Names = Names::new("fastcgi_");
static OPTIONS: Options = Options::new(&NAMES);

const OWN_COUNT: usize = 6;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + OPTION_COUNT] = OPTIONS.behind([
    &FASTCGI_PASS,
    &FASTCGI_PARAM,
    &FASTCGI_INDEX,
    &FASTCGI_SPLIT_PATH_INFO,
    &FASTCGI_KEEP_CONN,
    &FASTCGI_CATCH_STDERR,
]);

static VARIABLES: &[Variable] = &[
    Variable::new("fastcgi_script_name", script::script_name),
    Variable::new("fastcgi_path_info", script::path_info),
];

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `fastcgi_pass ADDRESS`
pub static FASTCGI_PASS: Directive<Pass> = Directive::new("fastcgi_pass", target::parse)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF))
    .rule(Rule::Unnamed)
    .help(
        "The application that requests are passed to: an address, `unix:PATH`, or the name of an `upstream`.",
    );

/// `fastcgi_param NAME VALUE [if_not_empty]`
pub static FASTCGI_PARAM: Directive<Param> = Directive::new("fastcgi_param", params::parse)
    .within(LEVELS)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .help("A parameter of the request; with `if_not_empty` it is left out where its value is empty.");

/// `fastcgi_index NAME`
pub static FASTCGI_INDEX: Directive<Box<[u8]>> = Directive::new("fastcgi_index", parse_text)
    .within(LEVELS)
    .help("What `$fastcgi_script_name` adds to a URI that ends with a slash.");

/// `fastcgi_split_path_info PATTERN`
pub static FASTCGI_SPLIT_PATH_INFO: Directive<Arc<Pattern>> =
    Directive::new("fastcgi_split_path_info", script::parse_split)
        .within(LEVELS)
        .help("What captures `$fastcgi_script_name` and `$fastcgi_path_info` in a URI.");

/// `fastcgi_keep_conn on | off`
pub static FASTCGI_KEEP_CONN: Directive<bool> = Directive::flag("fastcgi_keep_conn")
    .within(LEVELS)
    .default("off")
    .help("Whether the application is asked to keep connections open, for other requests.");

/// `fastcgi_catch_stderr TEXT`
pub static FASTCGI_CATCH_STDERR: Directive<Box<[u8]>> =
    Directive::new("fastcgi_catch_stderr", parse_text).within(LEVELS).rule(Rule::List).help(
        "What makes an answer invalid where the application says it on its standard error before the head.",
    );

fn parse_text(args: &Args<'_>, _: &mut Loading) -> Result<Box<[u8]>, Diagnostic> {
    Ok(args.word(0)?.text.clone())
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.script = ScriptPolicy {
        split: view.get(&FASTCGI_SPLIT_PATH_INFO).cloned(),
        index: view.get(&FASTCGI_INDEX).cloned().unwrap_or_default(),
    };
    let Some(written) = view.written(&FASTCGI_PASS) else { return Settings::check(view, &OPTIONS) };
    let settings = Settings::new(view, &OPTIONS)?;
    let target = written.value.target(view).map_err(|message| Diagnostic::emerg(message).at(written.span))?;
    builder.policy.redirects.to_slash = builder.name.as_ref().is_some_and(LocationName::ends_with_slash);
    let location = builder.name.as_ref().map_or(&b""[..], |name| &name.text);
    let tag = crate::upstream::tag(view, location, written.value.text());
    let application = Application {
        target,
        params: view.all(&FASTCGI_PARAM).into_iter().map(|written| written.value.clone()).collect(),
        caught: view.all(&FASTCGI_CATCH_STDERR).into_iter().map(|written| written.value.clone()).collect(),
        keep: view.get(&FASTCGI_KEEP_CONN).copied().unwrap_or(false),
        settings: Arc::new(settings),
        tag,
    };
    builder.content(view.place(&FASTCGI_PASS), application);
    Ok(())
}

/// Passes requests to an application.
struct Application {
    target: Target,
    params: Box<[Param]>,
    caught: Arc<[Box<[u8]>]>,
    keep: bool,
    settings: Arc<Settings>,
    tag: usize,
}

impl Handler for Application {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if (self.settings.pass_request_body || has_body_file(exchange))
            && let Some(work) = body_to_read(exchange, !self.settings.request_buffering)
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

impl Application {
    /// Begins to ask.
    fn start(&self, exchange: &mut Exchange) -> Result<Step, Status> {
        let group = self.target.group(exchange)?;
        let request = self.prepare(exchange)?;
        let key = group.key(exchange);
        // Nothing is evaluated behind this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("fastcgi://{}", group.name);
            let script = params::value(exchange, &self.params, b"SCRIPT_FILENAME");
            let script = script.unwrap_or_default();
            let text = format!("passes \"{}\" to {url}", String::from_utf8_lossy(&script));
            Event::new("fastcgi", text).with("upstream", url).with("script", script)
        });
        let call = Call {
            key,
            group,
            settings: Arc::clone(&self.settings),
            log: exchange.request_log(),
            attempts: crate::upstream::attempts(exchange),
            scheme: "fastcgi://",
            uri: String::new(),
            is_idempotent: is_idempotent(exchange),
            stream: request.upload.as_ref().and_then(Upload::stream).cloned(),
            tag: self.tag,
        };
        let talk = async move |call: &Call, link: &mut Link| {
            let url = call.url_of(link);
            request.talk(link, &call.settings, url).await
        };
        let fault = |answer: &Answer| Failures::of_status(answer.head.status);
        Ok(Step::Await(call.work(talk, fault)))
    }

    fn prepare(&self, exchange: &Exchange) -> Result<Request, Status> {
        let params = params::collect(exchange, &self.params, self.settings.pass_request_headers);
        let params = params.map_err(|error| {
            exchange.log(Level::Alert, &error.to_string());
            Status::INTERNAL_SERVER_ERROR
        })?;
        let mut head = Vec::new();
        fcgi::encode_begin(self.keep, &mut head);
        params.encode(&mut head);
        let upload = if self.settings.pass_request_body { upload(exchange)? } else { None };
        let caught = Arc::clone(&self.caught);
        Ok(Request { head, upload, caught, keep: self.keep, log: exchange.request_log() })
    }

    /// Passes an answer on to the client.
    fn answer(&self, exchange: &mut Exchange, answer: Answer, link: Link, url: String) -> Step {
        let Answer { head, length, mut content } = answer;
        crate::upstream::attempts(exchange).set_fields(head.fields.clone());
        accel_settings(&self.settings, exchange, &head.fields);
        if let Some(step) = accel_redirect(&self.settings, exchange, &head.fields) {
            return step;
        }
        if let Some(step) = intercept(&self.settings, exchange, head.status, &head.fields) {
            return step;
        }
        let buffered = is_buffered(&self.settings, &head.fields);
        response::describe(&self.settings, exchange, &head, length);
        let is_head = exchange.request.method == Method::Head;
        if is_head || head.status.is_bodiless() {
            // nginx takes one with words for one that may have content.
            if !is_head && exchange.response.reason().is_some() {
                link.content_arrived(content.held() + link.input.len());
            }
            return Step::Respond(Body::Empty);
        }
        content.announce(length);
        let (settings, log) = (Arc::clone(&self.settings), exchange.request_log());
        let reader = Reader { link: Some(link), decoder: content, settings, log, url };
        Step::Respond(Content::body(reader, buffered))
    }
}
