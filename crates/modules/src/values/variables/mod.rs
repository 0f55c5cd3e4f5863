//! Lists the variables that every request has.
//!
//! Directives whose text may contain variables can use any of these: what the client sent (`$request_uri`,
//! `$arg_NAME`, `$http_NAME`, `$cookie_NAME`), how the server understood it (`$uri`, `$request_filename`), the
//! response (`$status`, `$sent_http_NAME`), the connection (`$remote_addr`, `$server_port`), and the server itself
//! (`$hostname`, `$pid`, `$time_local`). Dashes of a header's name become underscores: `$http_user_agent` is the
//! header `User-Agent`. Several headers of one name are joined by commas, several `Cookie` headers by semicolons.
//!
//! `$nginx_version` is the version of nginx whose behaviour Fulmar follows. `$server_software` is for applications that
//! write rules for the server: `Apache/…` where [`htaccess`](htaccess.md) is on, elsewhere `nginx/…`.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         return 200 "$request_method $uri$is_args$args a=$arg_a b=$cookie_b c=$http_x_c\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /x/../y?a=1&b=2 HTTP/1.1
//! Host: localhost
//! Cookie: b=3; c=4
//! X-C: 5
//! X-C: 6
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/plain
//!
//! GET /y?a=1&b=2 a=1 b=3 c=5, 6
//! ```

mod client;
mod lists;
mod request;
mod response;
mod server;
pub(crate) mod user;

pub(crate) use client::remote_addr;
pub(crate) use lists::joined;
pub(crate) use request::{argument, cookie, http_field, remote_user, request_line, request_time};
pub(crate) use response::{body_bytes_sent, status};

use contract::{Module, Variable};

/// The variables that every request has.
pub static MODULE: Module =
    Module { name: "variables", directives: &[], variables: VARIABLES, compile: None };

static VARIABLES: &[Variable] = &[
    // What the client sent.
    Variable::family("http_", request::http_field),
    Variable::family("arg_", request::argument),
    Variable::family("cookie_", request::cookie),
    Variable::new("args", request::args),
    Variable::new("query_string", request::args),
    Variable::new("is_args", request::is_args),
    Variable::new("request", request::request_line),
    Variable::new("request_uri", request::request_uri),
    Variable::new("request_method", request::request_method),
    Variable::new("server_protocol", request::server_protocol),
    Variable::new("host", request::host),
    Variable::new("request_port", request::request_port),
    Variable::new("is_request_port", request::is_request_port),
    Variable::new("content_length", request::content_length),
    Variable::new("content_type", request::content_type),
    Variable::new("remote_user", request::remote_user),
    Variable::new("request_body", request::request_body),
    Variable::new("request_body_file", request::request_body_file),
    Variable::new("request_length", request::request_length),
    Variable::new("request_id", request::request_id),
    Variable::new("request_time", request::request_time),
    // What was made of it.
    Variable::new("uri", request::uri),
    Variable::new("document_uri", request::uri),
    Variable::new("document_root", request::document_root),
    Variable::new("realpath_root", request::realpath_root),
    Variable::new("request_filename", request::request_filename),
    // What is answered.
    Variable::family("sent_http_", response::sent_field),
    Variable::family("sent_trailer_", response::sent_trailer),
    Variable::new("status", response::status).everywhere(),
    Variable::new("bytes_sent", response::bytes_sent).everywhere(),
    Variable::new("body_bytes_sent", response::body_bytes_sent),
    Variable::new("request_completion", response::request_completion),
    // The connection.
    Variable::new("remote_addr", client::remote_addr).everywhere(),
    Variable::new("remote_port", client::remote_port).everywhere(),
    Variable::new("binary_remote_addr", client::binary_remote_addr).everywhere(),
    Variable::new("server_addr", client::server_addr).everywhere(),
    Variable::new("server_port", client::server_port).everywhere(),
    Variable::new("scheme", client::scheme),
    Variable::new("https", client::https),
    Variable::new("connection", client::connection).everywhere(),
    Variable::new("connection_requests", client::connection_requests),
    Variable::new("connection_time", client::connection_time),
    Variable::new("pipe", client::pipe),
    Variable::new("tcpinfo_rtt", |exchange, _, out| client::tcpinfo(exchange, "rtt", out)),
    Variable::new("tcpinfo_rttvar", |exchange, _, out| client::tcpinfo(exchange, "rttvar", out)),
    Variable::new("tcpinfo_snd_cwnd", |exchange, _, out| client::tcpinfo(exchange, "snd_cwnd", out)),
    Variable::new("tcpinfo_rcv_space", |exchange, _, out| client::tcpinfo(exchange, "rcv_space", out)),
    // The server.
    Variable::new("server_name", server::server_name).everywhere(),
    Variable::new("hostname", server::hostname).everywhere(),
    Variable::new("nginx_version", server::nginx_version).everywhere(),
    Variable::new("server_software", server::server_software),
    Variable::new("pid", server::pid).everywhere(),
    Variable::new("msec", server::msec).everywhere(),
    Variable::new("time_local", server::time_local).everywhere(),
    Variable::new("time_iso8601", server::time_iso8601).everywhere(),
    Variable::new("date_local", server::date_local),
    Variable::new("date_gmt", server::date_gmt),
];

#[cfg(test)]
mod tests {
    use super::VARIABLES;
    use crate::testing::Site;
    use contract::Exchange;

    fn shows(exchange: &Exchange, name: &str) -> Option<String> {
        let fits = |variable: &&contract::Variable| match variable.family {
            true => name.starts_with(variable.name),
            false => name == variable.name,
        };
        let variable = VARIABLES.iter().find(fits).unwrap();
        let rest = if variable.family { &name[variable.name.len()..] } else { "" };
        let mut out = Vec::new();
        (variable.get)(exchange, rest, &mut out).then(|| String::from_utf8(out).unwrap())
    }

    fn get(target: &str, fields: &[(&str, &str)], name: &str) -> Option<String> {
        let mut exchange = Site::location("").get(target);
        for (name, value) in fields {
            exchange.request.head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        shows(&exchange, name)
    }

    #[test]
    fn arguments_ignore_case_and_need_an_equals_sign() {
        assert_eq!(get("/?A=1&a=2", &[], "arg_a").as_deref(), Some("1"));
        assert_eq!(get("/?ba=1&a&a=", &[], "arg_a").as_deref(), Some(""));
        assert_eq!(get("/?a", &[], "arg_a"), None);
        assert_eq!(get("/", &[], "arg_a"), None);
        assert_eq!(get("/?a=b=c", &[], "arg_a").as_deref(), Some("b=c"));
    }

    #[test]
    fn cookies_are_found_in_any_field() {
        let fields = [("Cookie", "x=1; ab=2"), ("Cookie", "A = 3 ;c=4")];
        assert_eq!(get("/", &fields, "cookie_a").as_deref(), Some("3 "));
        assert_eq!(get("/", &fields, "cookie_ab").as_deref(), Some("2"));
        assert_eq!(get("/", &fields, "cookie_c").as_deref(), Some("4"));
        assert_eq!(get("/", &fields, "cookie_b"), None);
        assert_eq!(get("/", &fields, "http_cookie").as_deref(), Some("x=1; ab=2; A = 3 ;c=4"));
    }

    #[test]
    fn fields_are_joined() {
        let fields = [("X-Forwarded-For", "1"), ("x-forwarded-for", "2")];
        assert_eq!(get("/", &fields, "http_x_forwarded_for").as_deref(), Some("1, 2"));
        assert_eq!(get("/", &fields, "http_x_forwarded"), None);
    }

    #[test]
    fn a_query_may_be_missing_or_empty() {
        assert_eq!(get("/", &[], "args"), None);
        assert_eq!(get("/?", &[], "args").as_deref(), Some(""));
        assert_eq!(get("/?", &[], "is_args").as_deref(), Some(""));
        assert_eq!(get("/?a", &[], "is_args").as_deref(), Some("?"));
    }

    #[test]
    fn the_user_of_basic_authentication() {
        let user = |value| get("/", &[("Authorization", value)], "remote_user");
        assert_eq!(user("Basic dTpw").as_deref(), Some("u"));
        assert_eq!(user("basic   dTpw").as_deref(), Some("u"));
        assert_eq!(user("Basic dQ=="), None, "no colon");
        assert_eq!(user("Basic OnA="), None, "nothing before it");
        assert_eq!(user("Basic !"), None);
        assert_eq!(user("Bearer dTpw"), None);
    }

    #[test]
    fn what_is_sent_is_seen_with_what_the_server_adds() {
        let mut exchange = Site::location("").get("/");
        exchange.response.content_length = Some(7);
        exchange.wire.keep_alive = true;
        exchange.response.fields.push(b"X-A", b"1").unwrap();
        exchange.response.fields.push(b"x-a", b"2").unwrap();
        let shows = |name| shows(&exchange, name);
        assert_eq!(shows("sent_http_content_length").as_deref(), Some("7"));
        assert_eq!(shows("sent_http_connection").as_deref(), Some("keep-alive"));
        assert_eq!(shows("sent_http_x_a").as_deref(), Some("1, 2"));
        assert_eq!(shows("sent_http_etag"), None);
        exchange.wire.chunked = true;
        assert_eq!(super::tests::shows(&exchange, "sent_http_content_length"), None);
    }

    #[test]
    fn a_request_keeps_its_id() {
        let site = Site::location("");
        let (one, two) = (site.get("/"), site.get("/"));
        assert_eq!(shows(&one, "request_id").unwrap().len(), 32);
        assert_eq!(shows(&one, "request_id"), shows(&one, "request_id"));
        assert_ne!(shows(&one, "request_id"), shows(&two, "request_id"));
    }
}
