//! Passes requests to gRPC servers, or to other servers that use HTTP/2.
//!
//! `grpc_pass` names a server or an `upstream`, with or without `grpc://`. With `grpcs://` the connection is
//! encrypted; the `grpc_ssl_…` directives work as the `proxy_ssl_…` directives do. The server's certificate is not
//! verified unless `grpc_ssl_verify` is on. The request keeps its URI. If the argument contains variables, the
//! server is chosen for each request.
//!
//! All kinds of calls work: unary calls, and streams in one or both directions. Bodies are passed on as they arrive,
//! in both directions at once, no faster than the receiver reads them. The trailers of a response (`grpc-status`)
//! reach the client. gRPC clients need HTTP/2: write `http2 on` next to `listen`, with or without TLS. Other
//! clients may use HTTP/1.1, as in the second example.
//!
//! The server gets the host that is written in `grpc_pass`, or the name of the `upstream`, as `:authority`, unless
//! `grpc_set_header Host` sets another one. It gets the client's headers, except those of the connection, such as
//! `Keep-Alive`. `grpc_set_header` adds or replaces a header; an empty value removes it. A level with its own
//! `grpc_set_header` inherits none.
//!
//! With an `upstream` block, each worker thread sends up to 100 calls at a time over one connection, or fewer if the
//! server allows fewer, and opens another connection for more. A slow client does not delay the others. `keepalive`
//! sets how many idle connections are kept. Without an `upstream` block, or with `keepalive 0`, each call has its own
//! connection.
//!
//! If a server fails, the call goes to the next server of the group, as `grpc_next_upstream` says. A call that
//! was sent already is sent again only if the server says that it did not process it (GOAWAY or REFUSED_STREAM), or if
//! `grpc_next_upstream` contains `non_idempotent`. If all servers fail, the
//! client gets 502, or 504 after a timeout; gRPC clients show both as `UNAVAILABLE`. `grpc_read_timeout` limits the
//! time between two reads from the server: make it longer for streams with pauses.
//!
//! The first example sends a gRPC status with its own message in place of 502 and 504. The second one accepts other
//! clients, too.
//!
//! ```nginx
//! server {
//!     listen 50051;
//!     http2 on;
//!     location /helloworld.Greeter/ {
//!         grpc_pass grpc://127.0.0.1:50052;
//!         error_page 502 504 = @unavailable;
//!     }
//!     location @unavailable {
//!         internal;
//!         default_type application/grpc;
//!         add_header grpc-status 14;
//!         add_header grpc-message "unavailable";
//!         return 204;
//!     }
//! }
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         grpc_pass 127.0.0.1:8081;
//!         grpc_set_header X-Via edge;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     http2 on;
//!     location / {
//!         return 200 "$request_method $request_uri over $server_protocol via $http_x_via\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page?x=1 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! GET /page?x=1 over HTTP/2.0 via edge
//! ```

use super::proxy::{Pass, SetField, Streaming, compile_streaming, parse_grpc};
use conf::{Arity, Contexts, Diagnostic};
use contract::{AnyDirective, Directive, Module, Rule, ScopeBuilder, View};
use upstream::{Names, Options, STREAMING_OPTION_COUNT, TLS_OPTION_COUNT, TlsOptions, joined};

/// Requests passed to gRPC servers.
pub static MODULE: Module =
    Module { name: "grpc", directives: &DIRECTIVES, variables: &[], compile: Some(compile) };

static NAMES: Names = Names::new("grpc_");
static OPTIONS: Options = Options::new(&NAMES);
static TLS: TlsOptions = TlsOptions::new(&NAMES);

static DIRECTIVES: [&dyn AnyDirective; 2 + TLS_OPTION_COUNT + STREAMING_OPTION_COUNT] =
    joined(&[&[&GRPC_PASS, &GRPC_SET_HEADER], &TLS.list(), &OPTIONS.streaming()]);

/// `grpc_pass [grpc://|grpcs://]ADDRESS`
pub static GRPC_PASS: Directive<Pass> = Directive::new("grpc_pass", parse_grpc)
    .within(Contexts::LOCATION.or(Contexts::LOCATION_IF))
    .rule(Rule::Unnamed)
    .help(
        "The server that requests are passed to: an address, `unix:PATH`, or the name of an `upstream`, over TLS with \
         `grpcs://` in front.",
    );

/// `grpc_set_header NAME VALUE`
pub static GRPC_SET_HEADER: Directive<SetField> = Directive::new("grpc_set_header", SetField::parse)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .args(Arity::Exactly(2))
    .rule(Rule::List)
    .help("A header of the forwarded request; an empty value removes it.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let directives = Streaming {
        name: MODULE.name,
        pass: &GRPC_PASS,
        set_header: &GRPC_SET_HEADER,
        options: &OPTIONS,
        tls: &TLS,
    };
    compile_streaming(view, builder, &directives)
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("grpc_pass app/uri;"), "URI part is not allowed in \"grpc_pass\"");
        assert_eq!(Site::error("grpc_pass grpcs://a:1/;"), "URI part is not allowed in \"grpc_pass\"");
        assert_eq!(Site::error("grpc_set_header a:b c;"), "invalid parameter \"a:b\"");
    }
}
