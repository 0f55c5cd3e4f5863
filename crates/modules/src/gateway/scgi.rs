//! Passes requests to applications that use SCGI.
//!
//! `scgi_pass` sends requests to an address, a Unix socket, or an `upstream` block; with variables it is chosen for each
//! request. The application gets the length of the body first (`CONTENT_LENGTH`), then the parameters of `scgi_param`,
//! then the fields of the request as `HTTP_…` parameters, by the rules of `fastcgi_param`. A connection serves one
//! request. `CONTENT_LENGTH` is the length of the body that is sent: 0 with `scgi_pass_request_body off`.
//!
//! The response starts with CGI headers, or with a status line such as `HTTP/1.1 200 OK`. Its content ends after its
//! `Content-Length`, or with the connection. An application that switches the protocol (status 101) gets a tunnel to
//! the client, if the client asked for one.
//!
//! Fulmar reads the whole request body before it sends the request. With `scgi_request_buffering off` it passes the
//! body on as it arrives; a chunked body is still read first, because its length must be known.
//!
//! `scgi_store` writes responses to files that stay ([proxy](proxy.md)).
//! `scgi_cache` keeps responses for further requests; it needs a `scgi_cache_key` ([caching](../caching.md)).
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         scgi_param SCRIPT_NAME "";
//!         scgi_param PATH_INFO $uri;
//!         scgi_param REQUEST_METHOD $request_method;
//!         scgi_param QUERY_STRING $query_string;
//!         scgi_param SERVER_PROTOCOL $server_protocol;
//!         scgi_param HTTPS $https if_not_empty;
//!         scgi_pass unix:no-application.sock;
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
use conf::{Arity, Contexts, Diagnostic};
use contract::{AnyDirective, Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use http::write_number;
use upstream::{Names, OPTION_COUNT, Options, joined};

/// Applications that speak SCGI.
pub static MODULE: Module =
    Module { name: "scgi", directives: &DIRECTIVES, variables: &[], compile: Some(compile) };

static NAMES: Names = Names::new("scgi_");
static OPTIONS: Options = Options::new(&NAMES);

const OWN_COUNT: usize = 2;

static DIRECTIVES: [&dyn AnyDirective; OWN_COUNT + OPTION_COUNT] =
    joined(&[&[&SCGI_PASS, &SCGI_PARAM], &OPTIONS.list()]);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `scgi_pass ADDRESS`
pub static SCGI_PASS: Directive<Pass> = Directive::new("scgi_pass", parse_pass)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF))
    .rule(Rule::Unnamed)
    .help(
        "The application that requests are passed to: an address, `unix:PATH`, or the name of an `upstream`.",
    );

/// `scgi_param NAME VALUE [if_not_empty]`
pub static SCGI_PARAM: Directive<Param> = Directive::new("scgi_param", params::parse)
    .within(LEVELS)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .help("A parameter of the request; with `if_not_empty` it is left out where its value is empty.");

static SCHEMES: [Scheme; 1] = [Scheme { prefix: "scgi://", is_written: false, is_secure: false }];

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    target::parse(args, loading, &SCHEMES)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let directives = Directives { pass: &SCGI_PASS, param: &SCGI_PARAM, options: &OPTIONS, tls: None };
    application::compile(view, builder, &directives, Scgi)
}

/// Writes requests as SCGI has them: a netstring of names and values, each with a final NUL, then the body.
struct Scgi;

impl Language for Scgi {
    const NAME: &'static str = "scgi";

    fn write(&self, asking: &Asking<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let mut pairs = Pairs(Vec::with_capacity(1024));
        pairs.write(b"CONTENT_LENGTH", true, |value| write_number(asking.length, 1, value))?;
        params::encode(asking.exchange, asking.params, asking.passes_fields, &mut pairs)?;
        write_number(pairs.0.len() as u64, 1, out);
        out.push(b':');
        out.extend_from_slice(&pairs.0);
        out.push(b',');
        Ok(())
    }
}

/// The parameters of a request.
struct Pairs(Vec<u8>);

/// How long all parameters may be together, in bytes.
const LIMIT: usize = 16 * 1024 * 1024;

impl Encoder for Pairs {
    type Error = String;

    fn write(
        &mut self,
        name: &[u8],
        keeps_empty: bool,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, String> {
        let before = self.0.len();
        self.0.extend_from_slice(name);
        self.0.push(0);
        let start = self.0.len();
        value(&mut self.0);
        if self.0.len() == start && !keeps_empty {
            self.0.truncate(before);
            return Ok(false);
        }
        // A NUL would end the value, and what follows it would be a parameter of the client's choice.
        if name.contains(&0) || self.0[start..].contains(&0) {
            return Err("scgi request has a parameter with a NUL byte".to_owned());
        }
        self.0.push(0);
        if self.0.len() > LIMIT {
            return Err(format!("scgi request is too big: {}", self.0.len()));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoder, Pairs};
    use crate::testing::Site;

    #[test]
    fn names_and_values_end_with_a_nul() {
        let mut pairs = Pairs(Vec::new());
        let mut write = |name: &str, keeps, text: &[u8]| {
            pairs.write(name.as_bytes(), keeps, |value| value.extend_from_slice(text))
        };
        assert_eq!(write("A", true, b"b"), Ok(true));
        assert_eq!(write("B", false, b""), Ok(false));
        assert_eq!(write("C", true, b""), Ok(true));
        assert!(write("D", true, b"a\0E\0f").is_err());
        assert!(pairs.0.starts_with(b"A\0b\0C\0\0"));
    }

    #[test]
    fn messages() {
        assert_eq!(Site::error("scgi_pass app;"), "no port in upstream \"app\"");
        assert_eq!(Site::error("scgi_param A b if_empty;"), "invalid parameter \"if_empty\"");
        assert_eq!(Site::error("scgi_buffers 1 4k;"), "there must be at least 2 \"scgi_buffers\"");
    }
}
