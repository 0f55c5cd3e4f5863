//! Rules of `.htaccess` files, carried out: whatever they say of a request, they end, and lead to paths and queries of
//! bounded length. The first line is the target of the request, the others are directives.

use std::path::Path;

use conf::apache;
use contract::{Exchange, Phase, Reroute, Step};
use http::{RequestHead, Version};

use crate::served;

/// Longer ones only take longer.
const BYTES_MAX: usize = 2048;

/// As many internal redirects as the engine allows.
const TURNS_MAX: usize = 10;

/// The longest text that rules make.
const TEXT_MAX: usize = 64 * 1024;

/// Holds the rules to it.
pub fn run(input: &[u8]) {
    let mut lines = input.splitn(2, |&byte| byte == b'\n');
    let (target, rules) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if input.len() > BYTES_MAX || target.contains(&b' ') {
        return;
    }
    let text = [b"RewriteEngine on\n", rules].concat();
    let loaded = apache::parse(Path::new("/nowhere/.htaccess"), text);
    let Some(mut exchange) = served::exchange_below(&loaded.nodes, head(target)) else { return };
    for _ in 0..TURNS_MAX {
        let Some((path, args)) = turn(&mut exchange) else { return };
        assert!(path.len() <= TEXT_MAX && args.as_ref().is_none_or(|args| args.len() <= TEXT_MAX));
        (exchange.request.path, exchange.request.args) = (path, args);
        exchange.routing.internal = true;
    }
}

/// A GET of a target.
pub(crate) fn head(target: &[u8]) -> RequestHead {
    let line = [b"GET /", target, b" HTTP/1.1"].concat();
    let mut head = RequestHead::new();
    head.set_line(&line, (4, 5 + target.len()), Version::Http11);
    head.fields.push(b"Host", b"www.example.com").expect("a field");
    head
}

/// Runs the handlers until one leads elsewhere.
pub(crate) fn turn(exchange: &mut Exchange) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let scope = std::sync::Arc::clone(&exchange.scope);
    for phase in [Phase::Rewrite, Phase::Preaccess, Phase::Access, Phase::Precontent] {
        for handler in scope.handlers(phase) {
            match handler.run(exchange) {
                Step::Next => {}
                Step::Reroute(Reroute::Uri { path, args } | Reroute::Internal { path, args }) => {
                    return Some((path, args));
                }
                _ => return None,
            }
        }
    }
    None
}
