//! Passes requests to applications that use FastCGI, such as PHP-FPM.
//!
//! `fastcgi_pass` sends requests to an address, a Unix socket, or an `upstream` block. If it contains variables, the
//! application is chosen for each request. The application gets the parameters of `fastcgi_param`; with
//! `if_not_empty`, an empty parameter is left out.
//!
//! Request headers become parameters, too: `HTTP_` and the name in capital letters. Several headers of one name are
//! joined by commas. `HTTP_HOST` is the host of the request in lower case: of an absolute URL, of `Host`, or else the
//! server's name. A `fastcgi_param` replaces the header of its name; `fastcgi_param HTTP_X_ID ""` removes that header.
//! The header `Proxy` is never passed on, because applications would use it as a setting. If two names differ only by
//! a hyphen and an underscore, only the one with the hyphen is passed on.
//!
//! `fastcgi_split_path_info` separates the script from the path that follows it. Its two captures are
//! `$fastcgi_script_name` and `$fastcgi_path_info`. Without it `$fastcgi_script_name` is the URI, with
//! `fastcgi_index` added after a final slash. Check that the script exists before you pass its name: otherwise the
//! application may run `/image.jpg` for `/image.jpg/x.php`.
//!
//! ```file html/app.php
//! <?php
//! ```
//!
//! `fastcgi_store` writes responses to files that stay ([proxy](proxy.md)).
//! `fastcgi_cache` keeps responses for further requests; it needs a `fastcgi_cache_key` ([caching](../caching.md)).
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
//! Fulmar reads the whole request body before it sends the request, so `$content_length` is also correct for chunked
//! bodies. With `fastcgi_request_buffering off` it passes the body on as it arrives, no faster than the application
//! reads it; a body that did not arrive with the head then has a length only if the client sent one.
//!
//! `fastcgi_buffer_size` limits the head of a response, `fastcgi_buffers` its content in memory, and
//! `fastcgi_max_temp_file_size` its content on disk. With `fastcgi_buffering off` the content is passed on as it
//! arrives. The application's standard error goes to the error log: at most 2 KiB for each message and 64 KiB for
//! each request. If the application breaks the protocol, or closes the connection too early, the client gets 502, or
//! its connection is closed if the response has begun. With `fastcgi_keep_conn on` connections are kept, if the
//! `upstream` keeps any.

mod dialogue;
mod script;

use crate::gateway::shared::cgi::params::{self, Encoder, Param};
use crate::gateway::shared::cgi::response::{self, Answer};
use crate::gateway::shared::cgi::target::{self, Pass, Scheme, Target};
use crate::gateway::upstream_deny;
use crate::shared::cached::{keeper, purge};
use crate::shared::gateway::{Gateway, Protocol, is_idempotent, redirect_to_slash, upload};
use conf::value::Pattern;
use conf::{Arity, Contexts, Diagnostic};
use contract::{
    AnyDirective, Args, Directive, Event, Exchange, Loading, Module, Rule, ScopeBuilder, Variable, View, Work,
};
use dialogue::Records;
use http::{Fields, Status};
use journal::Level;
use std::sync::Arc;
use upstream::{Conversation, Names, OPTION_COUNT, Options, Settings, Upload, joined};

/// Applications that speak FastCGI.
pub static MODULE: Module =
    Module { name: "fastcgi", directives: &DIRECTIVES, variables: VARIABLES, compile: Some(compile) };

static NAMES: Names = Names::new("fastcgi_");
static OPTIONS: Options = Options::new(&NAMES);

const OWN_COUNT: usize = 6;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + OPTION_COUNT] = joined(&[
    &[
        &FASTCGI_PASS,
        &FASTCGI_PARAM,
        &FASTCGI_INDEX,
        &FASTCGI_SPLIT_PATH_INFO,
        &FASTCGI_KEEP_CONN,
        &FASTCGI_CATCH_STDERR,
    ],
    &OPTIONS.list(),
]);

static VARIABLES: &[Variable] = &[
    Variable::new("fastcgi_script_name", script::script_name),
    Variable::new("fastcgi_path_info", script::path_info),
];

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `fastcgi_pass ADDRESS`
pub static FASTCGI_PASS: Directive<Pass> = Directive::new("fastcgi_pass", parse_pass)
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
        .help("The pattern whose captures are `$fastcgi_script_name` and `$fastcgi_path_info`.");

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

const SCHEME: Scheme = Scheme { prefix: "fastcgi://", is_written: false, is_secure: false };

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    target::parse(args, loading, &[SCHEME])
}

fn parse_text(args: &Args<'_>, _: &mut Loading) -> Result<Box<[u8]>, Diagnostic> {
    Ok(args.word(0)?.text.clone())
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let (split, index) = (view.get(&FASTCGI_SPLIT_PATH_INFO), view.get(&FASTCGI_INDEX));
    if split.is_some() || index.is_some() {
        builder.keep(script::Script { split: split.cloned(), index: index.cloned().unwrap_or_default() });
    }
    keeper::serve(view, builder, &OPTIONS)?;
    purge::compile(view, builder, &OPTIONS)?;
    let Some(written) = view.written(&FASTCGI_PASS) else { return Settings::check(view, &OPTIONS) };
    let mut settings = Settings::new(view, &OPTIONS)?;
    settings.connecting.denied = upstream_deny::of(view, written.value.is_chosen());
    let target = written.value.target(view).map_err(|error| error.at(written.span))?;
    redirect_to_slash(builder);
    let location = builder.name.as_ref().map_or(&b""[..], |name| &name.text);
    let tag = crate::gateway::upstream::tag(view, location, written.value.text());
    let application = Application {
        target,
        params: view.all(&FASTCGI_PARAM).into_iter().map(|written| written.value.clone()).collect(),
        caught: view.all(&FASTCGI_CATCH_STDERR).into_iter().map(|written| written.value.clone()).collect(),
        keep: view.get(&FASTCGI_KEEP_CONN).copied().unwrap_or(false),
        settings: Arc::new(settings),
        tag,
    };
    builder.content(view.place(&FASTCGI_PASS), Gateway(application));
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

impl Protocol for Application {
    type Dialogue = Records;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let place = self.target.place(exchange)?;
        let group = &place.group;
        let mut conversation = Conversation::<Records>::new(exchange, group, &self.settings);
        let Conversation { call, dialogue, .. } = &mut *conversation;
        dialogue.prepare(&self.caught, self.keep, self.settings.buffers.head);
        self.write_records(exchange, &mut dialogue.request)?;
        call.upload = if self.settings.pass_request_body { upload(exchange)? } else { Upload::None };
        (call.scheme, call.is_idempotent, call.tag) =
            (place.scheme.prefix, is_idempotent(exchange), self.tag);
        let key = group.key(exchange);
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let url = format!("fastcgi://{}", group.name);
            let script = params::value(exchange, &self.params, b"SCRIPT_FILENAME");
            let script = script.unwrap_or_default();
            let text = format!("passes \"{}\" to {url}", String::from_utf8_lossy(&script));
            Event::new("fastcgi", text).with("upstream", url).with("script", script)
        });
        Ok(conversation.work(key))
    }

    fn head(dialogue: &mut Records) -> (Status, &mut Fields) {
        (dialogue.head.status, &mut dialogue.head.fields)
    }

    fn reason(dialogue: &Records) -> &[u8] {
        &dialogue.head.reason
    }

    fn restore(dialogue: &mut Records, head: &cache::Head) {
        (dialogue.head.status, dialogue.head.fields) = (head.status, head.fields.clone());
        dialogue.head.reason = head.reason.to_vec();
        dialogue.length = Some(head.length);
    }

    fn describe(&self, exchange: &mut Exchange, dialogue: &mut Records, fields: &Fields) {
        let Records { head, length, media_type, .. } = dialogue;
        let answer = Answer { head, length: *length, media_type };
        response::describe(&self.settings, exchange, answer, fields);
    }

    fn has_content(&self, exchange: &Exchange, dialogue: &Records) -> Result<(), Option<usize>> {
        response::has_content(exchange, &dialogue.head, dialogue.held())
    }
}

impl Application {
    /// Writes the records of the start and of the parameters.
    fn write_records(&self, exchange: &Exchange, out: &mut Vec<u8>) -> Result<(), Status> {
        fcgi::encode_begin(self.keep, out);
        let mut params = fcgi::Params::begin(out);
        let passes = self.settings.pass_request_headers;
        params::encode(exchange, &self.params, passes, &mut params).map_err(|error| {
            exchange.log(Level::Alert, &error.to_string());
            Status::INTERNAL_SERVER_ERROR
        })?;
        params.end();
        Ok(())
    }
}

impl Encoder for fcgi::Params<'_> {
    type Error = fcgi::TooLong;

    const IS_FOR_PHP: bool = true;

    fn write(
        &mut self,
        name: &[u8],
        keeps_empty: bool,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, fcgi::TooLong> {
        fcgi::Params::write(self, name, keeps_empty, value)
    }
}
