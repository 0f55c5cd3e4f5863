//! The host that a request is for.

use contract::Exchange;

/// The host of an absolute target or of `Host`, or the server's name.
pub(crate) fn host(exchange: &Exchange) -> &[u8] {
    let named = &exchange.request.host;
    if named.is_empty() { exchange.server_name() } else { named }
}

/// Appends the [`host`], with the port if the request names one.
pub(crate) fn host_and_port(exchange: &Exchange, out: &mut Vec<u8>) {
    out.extend_from_slice(host(exchange));
    if let Some(port) = exchange.request.port {
        out.push(b':');
        http::write_number(port.into(), 1, out);
    }
}
