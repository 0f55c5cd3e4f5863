//! The server itself.

use super::lists::put;
use contract::Exchange;
use contract::clock::{self, Time};
use std::sync::LazyLock;

/// The version of nginx whose behaviour is followed.
const NGINX_VERSION: &str = "1.31.5";

pub(super) fn server_name(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(&exchange.server_name, out)
}

pub(super) fn hostname(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim_end().to_ascii_lowercase()
    });
    put(&*NAME, out)
}

pub(super) fn nginx_version(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(NGINX_VERSION, out)
}

pub(super) fn pid(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(std::process::id().to_string(), out)
}

pub(super) fn msec(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let now = Time::now();
    put(format!("{}.{:03}", now.seconds, now.milliseconds), out)
}

pub(super) fn time_local(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(clock::log_time(Time::now()), out)
}

pub(super) fn time_iso8601(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(clock::iso8601(Time::now()), out)
}
