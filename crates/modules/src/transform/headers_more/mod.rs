//! Sets and removes headers of responses and requests: `more_set_headers` and the other directives of the
//! headers-more module.
//!
//! `more_set_headers 'NAME: VALUE'` sets a header of the response, whatever its status, and replaces all headers of
//! that name; an empty value removes them. `more_clear_headers NAME` removes headers; a `*` at the end stands for any
//! text. `Server`, `Content-Type`, `Location`, `ETag` and `Last-Modified` can be set and removed like others. A
//! directive may contain several headers. `-s '404 500'` limits it to these statuses, `-t 'text/html text/css'` to
//! these media types. With `-a` the header is added instead of replaced. Directives of outer levels run first, then
//! those of inner levels. `add_header` runs after them.
//!
//! `more_set_input_headers` and `more_clear_input_headers` do the same to the headers of the request, after its
//! rewrites, so that upstream servers and variables get the changed headers. `-r` only replaces existing headers, and
//! `-t` compares the request's `Content-Type`.
//!
//! `Content-Length`, `Transfer-Encoding` and `Connection` cannot be changed, because they say where a message ends.
//! `Date` of a response can be set, but not removed.
//!
//! ```file html/page.html
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     more_set_headers 'Server: mine' 'X-Frame-Options: DENY';
//!     more_set_headers -s 404 'X-Missing: $uri';
//!     location /page.html {
//!         more_clear_headers 'X-Frame-*' ETag;
//!         more_set_input_headers 'X-Asked: yes';
//!         more_set_headers 'X-Was-Asked: $http_x_asked';
//!     }
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Server: mine
//! X-Was-Asked: yes
//!
//! page
//! ---
//! GET /none HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! Server: mine
//! X-Frame-Options: DENY
//! X-Missing: /none
//! ```

mod written;

pub use written::Written;

use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Filter, Handler, Module, Phase, Rule, ScopeBuilder, Step, View};
use http::uri::Host;
use http::{Fields, Status};
use journal::Level;
use written::{Field, Form, Name};

/// Fields of responses and requests.
pub static MODULE: Module = Module {
    name: "headers_more",
    directives: &[&MORE_SET_HEADERS, &MORE_CLEAR_HEADERS, &MORE_SET_INPUT_HEADERS, &MORE_CLEAR_INPUT_HEADERS],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF);

/// The slots in which what sets and what clears keep their order.
const RESPONSE: &str = "more_headers";
const REQUEST: &str = "more_input_headers";

/// `more_set_headers [-t TYPES] [-s STATUSES] [-a] 'NAME: VALUE' …`
pub static MORE_SET_HEADERS: Directive<Written> = Directive::new("more_set_headers", |args, loading| {
    Written::parse(args, loading, Form { options: b"tsa", clears: false })
})
.slot(RESPONSE)
.within(LEVELS)
.args(Arity::AtLeast(1))
.rule(Rule::Gather)
.help("Headers that are set in responses.");

/// `more_clear_headers [-t TYPES] [-s STATUSES] NAME …`
pub static MORE_CLEAR_HEADERS: Directive<Written> = Directive::new("more_clear_headers", |args, loading| {
    Written::parse(args, loading, Form { options: b"ts", clears: true })
})
.slot(RESPONSE)
.within(LEVELS)
.args(Arity::AtLeast(1))
.rule(Rule::Gather)
.help("Headers that are removed from responses.");

/// `more_set_input_headers [-r] [-t TYPES] 'NAME: VALUE' …`
pub static MORE_SET_INPUT_HEADERS: Directive<Written> =
    Directive::new("more_set_input_headers", |args, loading| {
        Written::parse(args, loading, Form { options: b"tr", clears: false })
    })
    .slot(REQUEST)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::Gather)
    .help("Headers that are set in requests.");

/// `more_clear_input_headers [-t TYPES] NAME …`
pub static MORE_CLEAR_INPUT_HEADERS: Directive<Written> =
    Directive::new("more_clear_input_headers", |args, loading| {
        Written::parse(args, loading, Form { options: b"t", clears: true })
    })
    .slot(REQUEST)
    .within(LEVELS)
    .args(Arity::AtLeast(1))
    .rule(Rule::Gather)
    .help("Headers that are removed from requests.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let lines = values(view, &MORE_SET_HEADERS);
    if !lines.is_empty() {
        builder.filter(Responses { lines });
    }
    let lines = values(view, &MORE_SET_INPUT_HEADERS);
    if !lines.is_empty() {
        builder.handle(Phase::Preaccess, Requests { lines });
    }
    Ok(())
}

fn values(view: &View<'_>, directive: &Directive<Written>) -> Vec<Written> {
    view.all(directive).into_iter().map(|written| written.value.clone()).collect()
}

struct Responses {
    lines: Vec<Written>,
}

impl Filter for Responses {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        for line in &self.lines {
            let response = &exchange.response;
            let media_type = match response.status {
                // It names none any more, and is about a file that has one.
                Status::NOT_MODIFIED => Some(exchange.media_type(&exchange.request.path)),
                _ => response.content_type.clone(),
            };
            if line.counts(media_type.as_deref(), Some(response.status.0)) {
                line.fields.iter().for_each(|field| change_response(exchange, field, line.adds));
            }
        }
        body
    }
}

/// Fields of which a response has one at most.
const SINGLE: [&[u8]; 5] = [b"server", b"content-type", b"location", b"etag", b"last-modified"];

fn change_response(exchange: &mut Exchange, field: &Field, adds: bool) {
    let value = field.value(exchange);
    let name = match &field.name {
        Name::Exact(name) => &**name,
        Name::Beginning(_) => "",
    };
    let is_single = SINGLE.iter().any(|single| single.eq_ignore_ascii_case(name.as_bytes()));
    if !adds || is_single {
        clear(exchange, &field.name);
    }
    let Some(value) = value else { return };
    let response = &mut exchange.response;
    match &*name.to_ascii_lowercase() {
        "content-type" => response.content_type = Some(value.into()),
        "location" => response.location = Some(value.into()),
        "etag" => response.etag = Some(value.into()),
        // An error page has no modification time to send.
        "last-modified" if is_canonical_date(&value) && !response.status.is_error() => {
            response.last_modified = http::parse_date(&value);
        }
        "accept-ranges" if value.eq_ignore_ascii_case(b"bytes") => response.accept_ranges = true,
        _ => push(exchange, name, &value),
    }
}

/// Takes away what a name means, of what the server adds itself, too.
fn clear(exchange: &mut Exchange, name: &Name) {
    remove(&mut exchange.response.fields, name);
    let response = &mut exchange.response;
    if name.means(b"etag") {
        response.etag = None;
    }
    if name.means(b"location") {
        response.location = None;
    }
    let Name::Exact(exact) = name else { return };
    match &*exact.to_ascii_lowercase() {
        "server" => exchange.response.omits_server = true,
        "content-type" => response.content_type = None,
        "last-modified" => response.last_modified = None,
        "accept-ranges" => response.accept_ranges = false,
        _ => {}
    }
}

fn is_canonical_date(value: &[u8]) -> bool {
    http::parse_date(value).is_some_and(|time| http::format_date(time).as_bytes() == value)
}

fn push(exchange: &mut Exchange, name: &str, value: &[u8]) {
    if exchange.response.fields.push(name.as_bytes(), value).is_err() {
        exchange.log(Level::Error, &format!("\"{name}\" is no name of a field, it is left out"));
    }
}

fn remove(fields: &mut Fields, name: &Name) {
    match name {
        Name::Exact(name) => fields.remove(name),
        Name::Beginning(_) => {
            let meant: Vec<String> = fields
                .iter()
                .filter(|field| name.means(field.name))
                .filter_map(|field| String::from_utf8(field.name.to_vec()).ok())
                .collect();
            meant.iter().for_each(|name| fields.remove(name));
        }
    }
}

struct Requests {
    lines: Vec<Written>,
}

impl Handler for Requests {
    fn run(&self, exchange: &mut Exchange) -> Step {
        for line in &self.lines {
            if line.counts(exchange.request.head.fields.get("content-type"), None) {
                line.fields.iter().for_each(|field| change_request(exchange, field, line.only_replaces));
            }
        }
        Step::Next
    }
}

fn change_request(exchange: &mut Exchange, field: &Field, only_replaces: bool) {
    let value = field.value(exchange);
    let fields = &mut exchange.request.head.fields;
    let is_there = fields.iter().any(|there| field.name.means(there.name));
    if only_replaces && !is_there {
        return;
    }
    remove(fields, &field.name);
    let (Name::Exact(name), Some(value)) = (&field.name, value) else { return };
    // What a request has passed on is a field: the name was checked when it was read.
    let _ = fields.push(name.as_bytes(), &value);
    if name.eq_ignore_ascii_case("host") {
        name_host(exchange, &value);
    }
}

/// Changes the host of a request. An invalid host changes the header only.
fn name_host(exchange: &mut Exchange, value: &[u8]) {
    let mut host = Host::default();
    if host.parse(value).is_ok() {
        (exchange.request.host, exchange.request.port) = (host.name, host.port);
    } else {
        let value = String::from_utf8_lossy(value);
        exchange.log(Level::Warn, &format!("\"{value}\" is no host, and the request keeps its own"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{Body, Exchange, Phase};
    use http::{Fields, Status};

    fn lines(fields: &Fields) -> Vec<String> {
        let text = String::from_utf8_lossy;
        fields.iter().map(|field| format!("{}: {}", text(field.name), text(field.value))).collect()
    }

    fn answered(conf: &str, status: u16) -> Exchange {
        let site = Site::location(conf);
        let mut exchange = site.get("/?a=1%0d");
        let response = &mut exchange.response;
        response.status = Status(status);
        response.content_type = Some("text/html; charset=x".into());
        response.etag = Some("\"a\"".into());
        response.last_modified = Some(784_111_777);
        response.fields.push(b"X-One", b"1").unwrap();
        response.fields.push(b"X-Two", b"2").unwrap();
        let scope = std::sync::Arc::clone(&exchange.scope);
        scope.filters().iter().fold(Body::Empty, |body, filter| filter.apply(&mut exchange, body));
        exchange
    }

    fn fields(conf: &str) -> Vec<String> {
        lines(&answered(conf, 200).response.fields)
    }

    #[test]
    fn set_replace_add_and_clear() {
        assert_eq!(
            fields("more_set_headers 'X-One:  new' X-Two 'X-Three: $arg_a';"),
            ["X-One: new", "X-Three: 1%0d"]
        );
        assert_eq!(fields("more_set_headers -a 'X-One: 3';"), ["X-One: 1", "X-Two: 2", "X-One: 3"]);
        assert_eq!(fields("more_clear_headers 'x-*';"), [""; 0]);
        assert_eq!(fields("more_set_headers 'X-One: $arg_none';"), ["X-Two: 2"]);
        assert_eq!(
            fields("more_set_headers 'A: 1'; more_clear_headers A; more_set_headers 'B: $uri';"),
            ["X-One: 1", "X-Two: 2", "B: /"]
        );
    }

    #[test]
    fn conditions() {
        let is_set = |options: &str, status| {
            let exchange = answered(&format!("more_set_headers {options} 'A: 1';"), status);
            exchange.response.fields.get("a").is_some()
        };
        assert!(is_set("", 500));
        assert!(is_set("-s '404 500'", 500) && !is_set("-s 404,500", 200));
        assert!(is_set("-t 'text/plain Text/HTML'", 200) && !is_set("-t text/css", 200));
        assert!(is_set("-t text/html -s 200", 200) && !is_set("-t text/html -s 201", 200));
    }

    #[test]
    fn what_the_server_adds_itself() {
        let all = "more_clear_headers ETag Last-Modified Content-Type Server;";
        let exchange = answered(all, 200);
        let response = &exchange.response;
        assert!(
            response.etag.is_none() && response.last_modified.is_none() && response.content_type.is_none()
        );
        assert!(exchange.response.omits_server);
        let set = "more_set_headers 'Etag: \"b\"' 'Content-Type: a/b' 'Server: c' 'Last-Modified: soon';";
        let exchange = answered(set, 200);
        let response = &exchange.response;
        assert_eq!(response.etag.as_deref(), Some(&b"\"b\""[..]));
        assert_eq!(response.content_type.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(lines(&response.fields)[2..], ["Server: c", "Last-Modified: soon"]);
        let date = "more_set_headers 'Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT';";
        assert_eq!(answered(date, 200).response.last_modified, Some(784_111_778));
    }

    #[test]
    fn a_level_does_what_is_outside_of_it_first() {
        let site = Site::location(
            "more_set_headers 'A: 1' 'B: 1'; if ($arg_x) { more_clear_headers A; more_set_headers 'C: 1'; }",
        );
        let scope = site.inner();
        let mut exchange = site.get("/");
        scope.filters().iter().fold(Body::Empty, |body, filter| filter.apply(&mut exchange, body));
        assert_eq!(lines(&exchange.response.fields), ["B: 1", "C: 1"]);
    }

    #[test]
    fn requests() {
        let run = |conf: &str| {
            let site = Site::location(conf);
            let mut exchange = site.get("/?a=x");
            exchange.request.head.fields.push(b"X-One", b"1").unwrap();
            exchange.request.head.fields.push(b"X-Two", b"2").unwrap();
            site.run(Phase::Preaccess, &mut exchange);
            let host = String::from_utf8_lossy(&exchange.request.host).into_owned();
            (lines(&exchange.request.head.fields), host)
        };
        assert_eq!(run("more_set_input_headers 'x-one: $arg_a';").0, ["X-Two: 2", "x-one: x"]);
        assert_eq!(run("more_set_input_headers -r 'X-Three: 3' 'X-Two: 3';").0, ["X-One: 1", "X-Two: 3"]);
        assert_eq!(run("more_clear_input_headers X-*;").0, [""; 0]);
        assert_eq!(run("more_clear_input_headers -t text/css X-*;").0.len(), 2);
        assert_eq!(run("more_set_input_headers 'Host: Other:81';").1, "other");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(Site::error("more_set_headers -x a;"), "invalid option name: \"-x\"");
        assert_eq!(Site::error("more_clear_headers -a a;"), "invalid option name: \"-a\"");
        assert_eq!(Site::error("more_set_headers -s 4x 'A: b';"), "invalid status code in \"4x\"");
        assert_eq!(Site::error("more_set_headers ': b';"), "invalid header name in \": b\"");
        assert_eq!(Site::error("more_set_headers -s 404;"), "\"more_set_headers\" directive names no field");
        assert_eq!(Site::error("more_set_headers -s;"), "the option has no argument");
        for name in ["Content-Length: 3", "transfer-encoding", "Connection: close"] {
            assert!(
                Site::error(&format!("more_set_headers '{name}';")).contains("cannot be changed"),
                "{name}"
            );
        }
    }
}
