//! Sets how responses are sent.
//!
//! `send_timeout` limits the time between two writes that the client accepts. With `send_min_rate` (Fulmar only),
//! it limits the total waiting time, plus one second for each that many bytes: a client that reads a byte now and
//! then cannot hold a connection for ever. Time that the server itself needs does not count.
//!
//! With `chunked_transfer_encoding off`, content of unknown length ends when the connection closes, as in HTTP/1.0,
//! for clients that do not understand chunks.
//!
//! With `sendfile`, the kernel sends files, at most `sendfile_max_chunk` at a time. `tcp_nodelay` is accepted and
//! has no effect: small packets are always sent at once.
//!
//! ```file html/big.txt
//! content
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     sendfile on;
//!     sendfile_max_chunk 512k;
//!     send_timeout 10s;
//! }
//! ```
//!
//! ```http
//! GET /big.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 8
//!
//! content
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Directive, Module, ScopeBuilder, View};
use std::time::Duration;

/// How responses are sent.
pub static MODULE: Module = Module {
    name: "sending",
    directives: &[
        &SEND_TIMEOUT,
        &SEND_MIN_RATE,
        &SENDFILE,
        &SENDFILE_MAX_CHUNK,
        &CHUNKED_TRANSFER_ENCODING,
        &TCP_NODELAY,
    ],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `send_timeout TIME`
pub static SEND_TIMEOUT: Directive<Duration> = Directive::time("send_timeout")
    .within(LEVELS)
    .default("60s")
    .help("How long a client may pause while it reads a response.");

/// `send_min_rate SIZE`
pub static SEND_MIN_RATE: Directive<u64> = Directive::size("send_min_rate").within(LEVELS).default("0").help(
    "How many bytes a second a client has to take of a response, beyond `send_timeout`; 0 is any number.",
);

/// `sendfile on | off`
pub static SENDFILE: Directive<bool> = Directive::flag("sendfile")
    .within(LEVELS.or(Contexts::LOCATION_IF))
    .default("off")
    .help("Whether the kernel sends files.");

/// `sendfile_max_chunk SIZE`
pub static SENDFILE_MAX_CHUNK: Directive<u64> = Directive::size("sendfile_max_chunk")
    .within(LEVELS)
    .default("2m")
    .help("How much of a file one call may send; 0 is any amount.");

/// `chunked_transfer_encoding on | off`
pub static CHUNKED_TRANSFER_ENCODING: Directive<bool> = Directive::flag("chunked_transfer_encoding")
    .within(LEVELS)
    .default("on")
    .help("Whether content of unknown length is sent in chunks.");

/// `tcp_nodelay on | off`
pub static TCP_NODELAY: Directive<bool> = Directive::flag("tcp_nodelay")
    .within(LEVELS)
    .default("on")
    .help("Accepted and not needed: small packets are always sent at once.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.sending;
    view.assign(&SEND_TIMEOUT, &mut policy.send_timeout);
    view.assign(&SEND_MIN_RATE, &mut policy.send_min_rate);
    view.assign(&SENDFILE, &mut policy.sendfile);
    view.assign(&SENDFILE_MAX_CHUNK, &mut policy.sendfile_max_chunk);
    view.assign(&CHUNKED_TRANSFER_ENCODING, &mut policy.chunked);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use std::time::Duration;

    #[test]
    fn settings_reach_the_policy() {
        let site = Site::location(
            "sendfile on; sendfile_max_chunk 0; send_timeout 3; send_min_rate 1k; tcp_nodelay off;",
        );
        let policy = &site.get("/").scope.policy.sending;
        assert!(policy.sendfile && policy.chunked);
        assert_eq!(policy.sendfile_max_chunk, 0);
        assert_eq!((policy.send_timeout, policy.send_min_rate), (Duration::from_secs(3), 1024));
        assert_eq!(
            Site::error("sendfile maybe;"),
            "invalid value \"maybe\" in \"sendfile\" directive, it must be \"on\" or \"off\""
        );
    }
}
