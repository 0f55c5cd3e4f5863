//! Sessions of datagrams.

use contract::Exchange;

/// Whether a session of `stream` consists of datagrams. All sessions of an address share one socket, so that none of them
/// can be asked about.
pub(crate) fn is_datagrams(exchange: &Exchange) -> bool {
    exchange.connection.probe.is_none()
}
