//! The server itself.

use super::lists::{put, put_number, put_thousandths};
use contract::Exchange;
use journal::clock::{self, Time};

/// The version of nginx whose behaviour is followed.
const NGINX_VERSION: &str = "1.31.5";

pub(super) fn server_name(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(exchange.server_name(), out)
}

pub(super) fn hostname(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(net::host::name(), out)
}

pub(super) fn nginx_version(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(NGINX_VERSION, out)
}

pub(super) fn server_software(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    match exchange.scope.policy.overlay.is_some() {
        true => out.extend_from_slice(&crate::shared::apache::variables::server_software()),
        false => out.extend_from_slice(format!("nginx/{NGINX_VERSION} (Fulmar)").as_bytes()),
    }
    true
}

pub(super) fn pid(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_number(std::process::id(), out)
}

pub(super) fn msec(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let now = Time::now();
    put_thousandths((now.seconds.unsigned_abs(), now.milliseconds.into()), out)
}

pub(super) fn time_local(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    clock::write_log_time(Time::now(), out);
    true
}

pub(super) fn time_iso8601(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    clock::write_iso8601(Time::now(), out);
    true
}

pub(super) fn date_local(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(clock::format(Time::now().seconds, true, SSI_DATE), out)
}

pub(super) fn date_gmt(_: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(clock::format(Time::now().seconds, false, SSI_DATE), out)
}

/// How dates are written as long as no page with `ssi` asks for another form.
const SSI_DATE: &str = "%A, %d-%b-%Y %H:%M:%S %Z";
