//! Passes requests to applications that use the uwsgi protocol, such as Python applications in uWSGI.
//!
//! `uwsgi_pass` sends requests to an address, a Unix socket, or an `upstream` block, with or without `uwsgi://`. If
//! it contains variables, the application is chosen for each request. With `suwsgi://` the connection is encrypted;
//! the `uwsgi_ssl_…` directives work as those of `proxy_ssl_…`. As with those, the certificate is not verified unless
//! `uwsgi_ssl_verify` is on.
//!
//! The application gets the parameters of `uwsgi_param`, then the request headers as `HTTP_…` parameters, by the
//! rules of `fastcgi_param`. All of them together have at most 65,535 bytes: a larger request gets 500. Each
//! connection serves one request.
//!
//! The response starts with CGI headers, or with a status line such as `HTTP/1.1 200 OK`. Its content ends after its
//! `Content-Length`, or with the connection. An application that switches the protocol (WebSocket) gets a tunnel to
//! the client, if the client asked for one.
//!
//! Fulmar reads the whole request body before it sends the request. With `uwsgi_request_buffering off` it passes the
//! body on as it arrives; a chunked body is still read first, because the application needs its length
//! (`CONTENT_LENGTH`).
//!
//! `uwsgi_store` writes responses to files that stay ([proxy](proxy.md)).
//! `uwsgi_cache` keeps responses for further requests; it needs a `uwsgi_cache_key` ([caching](../caching.md)).
//!
//! The example is a Django project in uWSGI, which listens on a Unix socket. Fulmar serves the static files
//! (`collectstatic`) and the users' uploads itself. The header tells Django that the client uses HTTPS, if
//! `SECURE_PROXY_SSL_HEADER` names it:
//!
//! ```nginx
//! server {
//!     listen 80;
//!     server_name shop.example;
//!     client_max_body_size 75m;
//!     location /static/ {
//!         alias /srv/shop/static/;
//!     }
//!     location /media/ {
//!         alias /srv/shop/media/;
//!     }
//!     location / {
//!         include uwsgi_params;
//!         uwsgi_param HTTP_X_FORWARDED_PROTO $scheme;
//!         uwsgi_pass unix:/run/shop/uwsgi.sock;
//!     }
//! }
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         uwsgi_param SCRIPT_NAME "";
//!         uwsgi_param PATH_INFO $document_uri;
//!         uwsgi_param REQUEST_METHOD $request_method;
//!         uwsgi_param QUERY_STRING $query_string;
//!         uwsgi_param CONTENT_TYPE $content_type;
//!         uwsgi_param CONTENT_LENGTH $content_length;
//!         uwsgi_param SERVER_PROTOCOL $server_protocol;
//!         uwsgi_pass uwsgi://unix:no-application.sock;
//!         error_page 502 = @down;
//!     }
//!     location @down {
//!         return 200 "$uri: no application listens\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! /page: no application listens
//! ```

use crate::gateway::shared::cgi::application::{self, Asking, Directives, Language};
use crate::gateway::shared::cgi::params::{self, Encoder, Param};
use crate::gateway::shared::cgi::target::{self, Pass, Scheme};
use conf::value;
use conf::{Arity, Contexts, Diagnostic};
use contract::{AnyDirective, Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use upstream::{Names, OPTION_COUNT, Options, TLS_OPTION_COUNT, TlsOptions, joined};

/// Applications that speak uwsgi.
pub static MODULE: Module =
    Module { name: "uwsgi", directives: &DIRECTIVES, variables: &[], compile: Some(compile) };

static NAMES: Names = Names::new("uwsgi_");
static OPTIONS: Options = Options::new(&NAMES);
static TLS: TlsOptions = TlsOptions::new(&NAMES);

const OWN_COUNT: usize = 5;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + TLS_OPTION_COUNT + OPTION_COUNT] = joined(&[
    &[&UWSGI_PASS, &UWSGI_PARAM, &UWSGI_STRING, &UWSGI_MODIFIER1, &UWSGI_MODIFIER2],
    &TLS.list(),
    &OPTIONS.list(),
]);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `uwsgi_pass [uwsgi://|suwsgi://]ADDRESS`
pub static UWSGI_PASS: Directive<Pass> = Directive::new("uwsgi_pass", parse_pass)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF))
    .rule(Rule::Unnamed)
    .help(
        "The application that requests are passed to: an address, `unix:PATH`, or the name of an `upstream`, over TLS \
         with `suwsgi://` in front.",
    );

/// `uwsgi_param NAME VALUE [if_not_empty]`
pub static UWSGI_PARAM: Directive<Param> = Directive::new("uwsgi_param", params::parse)
    .within(LEVELS)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .help("A parameter of the request; with `if_not_empty` it is left out where its value is empty.");

/// `uwsgi_string TEXT`
pub static UWSGI_STRING: Directive<Box<[u8]>> =
    Directive::new("uwsgi_string", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .help("The string after the parameters in the uwsgi block.");

/// `uwsgi_modifier1 NUMBER`
pub static UWSGI_MODIFIER1: Directive<u64> = Directive::new("uwsgi_modifier1", parse_modifier)
    .within(LEVELS)
    .default("0")
    .help("The first modifier of the uwsgi block, which selects the plugin.");

/// `uwsgi_modifier2 NUMBER`
pub static UWSGI_MODIFIER2: Directive<u64> = Directive::number("uwsgi_modifier2")
    .within(LEVELS)
    .default("0")
    .help("The second modifier of the uwsgi block.");

static SCHEMES: [Scheme; 2] = [
    Scheme { prefix: "uwsgi://", is_written: true, is_secure: false },
    Scheme { prefix: "suwsgi://", is_written: true, is_secure: true },
];

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    target::parse(args, loading, &SCHEMES)
}

fn parse_modifier(args: &Args<'_>, _: &mut Loading) -> Result<u64, Diagnostic> {
    args.value(0, |word| value::bounded(word, 0, Some(255)))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let directives =
        Directives { pass: &UWSGI_PASS, param: &UWSGI_PARAM, options: &OPTIONS, tls: Some(&TLS) };
    let modifier = |directive| view.get(directive).map_or(0, |number: &u64| number.to_le_bytes()[0]);
    let uwsgi = Uwsgi {
        modifiers: [modifier(&UWSGI_MODIFIER1), modifier(&UWSGI_MODIFIER2)],
        string: view.get(&UWSGI_STRING).cloned().unwrap_or_default(),
    };
    application::compile(view, builder, &directives, uwsgi)
}

/// Writes requests as uwsgi has them: four bytes with the length of the parameters, the parameters, then the body.
struct Uwsgi {
    modifiers: [u8; 2],
    string: Box<[u8]>,
}

impl Language for Uwsgi {
    const NAME: &'static str = "uwsgi";

    fn write(&self, asking: &Asking<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        out.extend_from_slice(&[self.modifiers[0], 0, 0, self.modifiers[1]]);
        params::encode(asking.exchange, asking.params, asking.passes_fields, &mut Pairs(out))?;
        out.extend_from_slice(&self.string);
        let length = out.len() - (start + 4);
        let bytes = u16::try_from(length).map_err(|_| too_big(length))?.to_le_bytes();
        out[start + 1..start + 3].copy_from_slice(&bytes);
        Ok(())
    }
}

fn too_big(length: usize) -> String {
    format!("uwsgi request is too big: {length}")
}

/// The parameters of a request: each name and each value after its length.
struct Pairs<'a>(&'a mut Vec<u8>);

impl Encoder for Pairs<'_> {
    type Error = String;

    fn write(
        &mut self,
        name: &[u8],
        keeps_empty: bool,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, String> {
        let out = &mut *self.0;
        let before = out.len();
        let length = |length: usize| u16::try_from(length).map(u16::to_le_bytes).map_err(|_| too_big(length));
        out.extend_from_slice(&length(name.len())?);
        out.extend_from_slice(name);
        let start = out.len() + 2;
        out.extend_from_slice(&[0, 0]);
        value(out);
        if out.len() == start && !keeps_empty {
            out.truncate(before);
            return Ok(false);
        }
        let length = length(out.len() - start)?;
        out[start - 2..start].copy_from_slice(&length);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoder, Pairs};
    use crate::testing::Site;

    #[test]
    fn names_and_values_follow_their_lengths() {
        let mut out = Vec::new();
        let mut pairs = Pairs(&mut out);
        let mut write =
            |name: &[u8], keeps, text: &[u8]| pairs.write(name, keeps, |value| value.extend_from_slice(text));
        assert_eq!(write(b"A", true, b"bc"), Ok(true));
        assert_eq!(write(b"B", false, b""), Ok(false));
        assert_eq!(write(&[b'C'; 300], true, b""), Ok(true));
        assert_eq!(write(b"D", true, &[b'd'; 65536]).unwrap_err(), "uwsgi request is too big: 65536");
        let expected = [&b"\x01\0A\x02\0bc\x2c\x01"[..], &[b'C'; 300], b"\0\0"].concat();
        assert!(out.starts_with(&expected));
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("uwsgi_pass app;"), "no port in upstream \"app\"");
        assert_eq!(Site::error("uwsgi_pass suwsgi://app;"), "no port in upstream \"app\"");
        assert_eq!(Site::error("uwsgi_modifier1 256;"), "value must be between 0 and 255");
        assert_eq!(Site::error("uwsgi_param A b if_empty;"), "invalid parameter \"if_empty\"");
    }
}
