//! The end-to-end tests: one binary, a module an area.

// Tests report by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// A table of requests is one long value, not long logic.
#![allow(clippy::too_many_lines)]

mod acme;
mod allocations;
mod balancing;
mod body_files;
mod cache_calls;
mod cache_faults;
mod cache_index;
mod cache_memory;
mod cache_rules;
mod cache_waiting;
mod caching;
mod catalogue;
mod certbot;
mod compression;
mod configurations;
mod dav;
mod differences;
mod differential;
mod explain;
mod failover;
mod fastcgi;
mod filters;
mod fmt;
mod following;
mod gateways;
mod grpc;
mod half_close;
mod htaccess;
mod http2;
mod httpd;
mod includes;
mod lint;
mod logs;
mod manual;
mod members;
mod memory;
mod migrate;
mod names;
mod node;
mod packaging;
mod pairs;
mod patterns;
mod process;
mod proxy;
mod proxy_protocol;
mod purging;
mod scaling;
mod services;
mod setup;
mod status;
mod sticky;
mod stock;
mod stream;
mod stream_bulk;
mod stream_services;
mod stream_tls;
mod stream_udp;
mod stream_udp_workers;
mod throttling;
mod tls;
mod uploads;
mod upstream_tls;
mod uris;
mod variables;
mod wordpress;
