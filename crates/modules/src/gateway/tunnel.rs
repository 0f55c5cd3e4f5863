//! Tunnels to other servers for clients that send CONNECT: `tunnel_pass`.
//!
//! Clients that use Fulmar as a forward proxy ask for a tunnel by `CONNECT host:port`. Without parameters `tunnel_pass`
//! connects to the host and the port of the request, which is `$host:$request_port`; hosts need a `resolver`. A
//! parameter is an address, `unix:PATH`, or the name of an `upstream`, also with variables. The client gets the status 200
//! when the connection stands. From then on Fulmar passes on bytes in both directions, until both sides have ended their
//! sending or both are silent for `tunnel_read_timeout`. After the end of one side the other may be silent for 60 seconds at
//! most.
//!
//! An open proxy gives attackers a way into your network. So a tunnel to a server that the request chooses is
//! rejected (403) unless the same place has an access rule: `allow`, `deny`, `auth_basic` or `auth_request`. Also
//! limit the hosts and ports, with `map` and `if`, and deny the addresses of your network with
//! [`upstream_deny internal`](upstream_deny.md). Write `allow all;` if every client may use the proxy. A fixed
//! server needs no access rule. With `auth_basic` the client gets 407, and sends its password as
//! `Proxy-Authorization`.
//!
//! CONNECT gets 405 in servers without `tunnel_pass`, in HTTP/1.0 and in HTTP/2, and with all other directives that
//! pass requests on. With `tunnel_pass`, other methods get 405. On the server level `tunnel_pass` applies if no
//! location is chosen; locations do not inherit it.
//!
//! ```conf
//! map $host:$request_port $may_be_reached {
//!     example.org:443 1;
//! }
//! server {
//!     listen 8080;
//!     resolver 127.0.0.53;
//!     allow all;
//!     if ($may_be_reached != 1) {
//!         return 403;
//!     }
//!     tunnel_pass;
//! }
//! ```
//!
//! ```http
//! CONNECT example.com:443 HTTP/1.1
//! Host: example.com:443
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::gateway::shared::cgi::target::{self, Pass, Scheme, Target};
use crate::gateway::upstream_deny;
use crate::shared::connected::Connected;
use crate::shared::gateway::{Gateway, Protocol};
use ::upstream::{Conversation, Failures, Names, Options, Settings};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Phase, Rule, ScopeBuilder, Step, View, Work,
};
use http::{Fields, Method, Status};
use journal::Level;
use std::sync::Arc;

/// Tunnels to other servers.
pub static MODULE: Module = Module {
    name: "tunnel",
    directives: &[
        &TUNNEL_PASS,
        &TUNNEL_NEXT_UPSTREAM,
        &TUNNEL_SEND_LOWAT,
        &OPTIONS.next_upstream_tries,
        &OPTIONS.next_upstream_timeout,
        &OPTIONS.connect_timeout,
        &OPTIONS.send_timeout,
        &OPTIONS.read_timeout,
        &OPTIONS.buffer_size,
        &OPTIONS.bind,
        &OPTIONS.socket_keepalive,
        &OPTIONS.socket_rcvbuf,
        &OPTIONS.socket_sndbuf,
    ],
    variables: &[],
    compile: Some(compile),
};

static NAMES: Names = Names::new("tunnel_");
static OPTIONS: Options = Options::new(&NAMES);

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `tunnel_pass [ADDRESS]`
pub static TUNNEL_PASS: Directive<Pass> = Directive::new("tunnel_pass", parse_pass)
    .within(Contexts::SERVER.or(Contexts::LOCATION).or(Contexts::LOCATION_IF))
    .args(Arity::Range(0, 1))
    .rule(Rule::Unnamed)
    .help("The server of the tunnel: an address, `unix:PATH`, or an `upstream`; by default the one in the request.");

/// `tunnel_next_upstream FAILURE …`
pub static TUNNEL_NEXT_UPSTREAM: Directive<Failures> =
    Directive::new("tunnel_next_upstream", |args, loading| Failures::parse(args, loading, &FAILURES))
        .within(LEVELS)
        .args(Arity::AtLeast(1))
        .rule(Rule::List)
        .default("error timeout")
        .help("After which failures the next server is tried: `error`, `timeout`, `off`.");

/// `tunnel_send_lowat SIZE`
pub static TUNNEL_SEND_LOWAT: Directive<u64> = Directive::size("tunnel_send_lowat")
    .within(LEVELS)
    .default("0")
    .help("Accepted; the kernel decides when it takes more data.");

const FAILURES: [(&str, Failures); 3] =
    [("error", Failures::ERROR), ("timeout", Failures::TIMEOUT), ("off", Failures::OFF)];

/// Logs show addresses alone.
static SCHEMES: [Scheme; 1] = [Scheme { prefix: "", is_written: false, is_secure: false }];

/// What the client asked for.
const ASKED_FOR: &[u8] = b"$host:$request_port";

fn parse_pass(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    if !args.words().is_empty() {
        return target::parse(args, loading, &SCHEMES);
    }
    let word = Word { text: ASKED_FOR.into(), ..args.node.name.clone() };
    target::parse_word(&word, args, loading, &SCHEMES)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.policy.opens_tunnels = builder.inner.values().any(|inner| inner.policy.opens_tunnels);
    let Some(written) = view.written(&TUNNEL_PASS) else { return Ok(()) };
    builder.policy.opens_tunnels = true;
    if written.value.is_chosen() && !builder.handles(Phase::Access) {
        builder.content(view.place(&TUNNEL_PASS), Closed);
        return Ok(());
    }
    let mut settings = Settings::streaming(view, &OPTIONS);
    settings.pass_request_body = false;
    settings.connecting.denied = upstream_deny::of(view, written.value.is_chosen());
    settings.next_upstream.failures =
        Failures::chosen(&view.all(&TUNNEL_NEXT_UPSTREAM)).unwrap_or(settings.next_upstream.failures);
    let target = written.value.target(view).map_err(|error| error.at(written.span))?;
    builder.content(view.place(&TUNNEL_PASS), Gateway(Tunnels { target, settings: Arc::new(settings) }));
    Ok(())
}

/// Opens no tunnel, because no access rule limits the clients.
struct Closed;

impl Handler for Closed {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.request.method != Method::Connect {
            return Step::Finish(Status::METHOD_NOT_ALLOWED);
        }
        let rules = "\"allow\", \"deny\", \"auth_basic\" or \"auth_request\"";
        exchange
            .log(Level::Error, &format!("\"tunnel_pass\" is closed, because no {rules} limits the clients"));
        Step::Finish(Status::FORBIDDEN)
    }
}

/// Opens tunnels.
struct Tunnels {
    target: Target,
    settings: Arc<Settings>,
}

impl Protocol for Tunnels {
    type Dialogue = Connected;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn takes(&self, method: Method) -> bool {
        method == Method::Connect
    }

    fn ask(&self, exchange: &mut Exchange) -> Result<Work, Status> {
        let place = self.target.place(exchange)?;
        let conversation = Conversation::<Connected>::new(exchange, &place.group, &self.settings);
        let key = place.group.key(exchange);
        // Nothing is evaluated after this: an explanation ends with it.
        exchange.tell(|| {
            let name = &place.group.name;
            Event::new("tunnel", format!("opens a tunnel to {name}")).with("upstream", &**name)
        });
        Ok(conversation.work(key))
    }

    fn head(dialogue: &mut Connected) -> (Status, &mut Fields) {
        (Status::OK, &mut dialogue.fields)
    }

    fn reason(_: &Connected) -> &[u8] {
        b""
    }

    fn restore(_: &mut Connected, _: &cache::Head) {}

    fn describe(&self, exchange: &mut Exchange, _: &mut Connected, _: &Fields) {
        exchange.response.status = Status::OK;
    }

    fn switches(_: &Connected) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("tunnel_pass app;"), "no port in upstream \"app\"");
        assert_eq!(Site::error("tunnel_next_upstream http_500;"), "invalid value \"http_500\"");
    }
}
