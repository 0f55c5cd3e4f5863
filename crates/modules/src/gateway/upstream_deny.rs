//! Denies addresses where a request chooses the server.
//!
//! If the address of a server contains variables, as in `proxy_pass http://$host` or `tunnel_pass`, a client may choose a
//! host in your network: `localhost`, a database, or the metadata of a cloud. A `map` of names helps where few names are
//! allowed. Where any name is allowed, only the address that it has tells where a request goes.
//!
//! `upstream_deny internal` denies all addresses that are not on the public internet: loopback (`127.0.0.0/8`, `::1`),
//! private (`10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`, `100.64.0.0/10`, `fc00::/7`), link-local (`169.254.0.0/16`
//! with the metadata of clouds at `169.254.169.254`, `fe80::/10`), `0.0.0.0/8`, multicast and reserved ones, and Unix
//! sockets. Networks in CIDR notation deny further addresses, such as public ones of your own: write those of the machine
//! itself. IPv6 addresses that lead to an IPv4 address are judged by that one: mapped (`::ffff:10.0.0.1`), NAT64
//! (`64:ff9b::/96`) and 6to4 (`2002::/16`). If your network has its own NAT64 prefix, list it.
//!
//! Fulmar judges the address that it is about to connect to, after the host was looked up. So a name server cannot
//! return another address between the check and the connection. The client gets 403, and the error log names the
//! address. No other server is tried.
//!
//! The directive applies to every gateway whose server contains variables: `proxy_pass`, `grpc_pass`, `fastcgi_pass`,
//! `scgi_pass`, `uwsgi_pass`, `tunnel_pass`, and `proxy_pass` of `stream`. It does not apply to servers
//! that the configuration names without variables. An `upstream` that a variable names is judged, too. In a location whose
//! variables only lead to servers of yours, write `upstream_deny off`.
//!
//! nginx: none
//!
//! ```conf
//! server {
//!     listen 8080;
//!     upstream_deny internal 192.0.2.0/24;
//!     location / {
//!         proxy_pass http://$http_host;
//!     }
//!     location /app/ {
//!         proxy_pass http://127.0.0.1:8081;
//!     }
//! }
//! server {
//!     listen 127.0.0.1:8081;
//!     return 200 "the application\n";
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: 169.254.169.254
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET / HTTP/1.1
//! Host: 127.0.0.1:8081
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /app/ HTTP/1.1
//! Host: 127.0.0.1:8081
//!
//! HTTP/1.1 200 OK
//!
//! the application
//! ```

use crate::shared::networks::network;
use ::upstream::Denied;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Directive, Loading, Module, View};
use std::sync::Arc;

/// Addresses that requests cannot choose.
pub static MODULE: Module =
    Module { name: "upstream_deny", directives: &[&UPSTREAM_DENY], variables: &[], compile: None };

/// `upstream_deny internal | ADDRESS | NETWORK … | off`
pub static UPSTREAM_DENY: Directive<Arc<Denied>> = Directive::new("upstream_deny", parse)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::ALL_STREAM))
    .args(Arity::AtLeast(1))
    .default("off")
    .help("The addresses that are denied where the server contains variables: `internal` for all that are not public, and networks.");

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<Denied>, Diagnostic> {
    if let [word] = args.words()
        && word.is("off")
    {
        return Ok(Arc::default());
    }
    let (mut internal, mut networks) = (false, Vec::new());
    for word in args.words() {
        if word.is("internal") {
            internal = true;
        } else {
            networks.push(network(args.node, word, loading).map_err(|_| args.invalid(word))?);
        }
    }
    Ok(Arc::new(Denied { internal, networks: networks.into() }))
}

/// The addresses that are denied to a scope: none where no request chooses the server.
pub(crate) fn of(view: &View<'_>, is_chosen: bool) -> Option<Arc<Denied>> {
    let denied = view.get(&UPSTREAM_DENY).filter(|_| is_chosen)?;
    (denied.internal || !denied.networks.is_empty()).then(|| Arc::clone(denied))
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn messages() {
        assert_eq!(Site::error("upstream_deny private;"), "invalid parameter \"private\"");
        assert_eq!(Site::error("upstream_deny off internal;"), "invalid parameter \"off\"");
        assert_eq!(Site::error("upstream_deny 10.0.0.0/33;"), "invalid parameter \"10.0.0.0/33\"");
        Site::location("upstream_deny internal 203.0.113.0/24 2001:db8::/32 10.1.2.3;");
    }
}
