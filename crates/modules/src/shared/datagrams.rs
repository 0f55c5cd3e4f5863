//! Sessions of datagrams.

use contract::{Carrier, Exchange};

/// Whether a session of `stream` consists of datagrams.
pub(crate) fn is_datagrams(exchange: &Exchange) -> bool {
    exchange.connection.carrier == Carrier::Datagrams
}

#[cfg(test)]
mod tests {
    use super::is_datagrams;
    use crate::testing::Site;
    use contract::{Carrier, Connection};

    /// A connection of HTTP/3, and one that is only explained, have no socket to ask about, either.
    #[test]
    fn only_sessions_of_udp_are_datagrams() {
        let is = |carrier: Carrier| {
            let mut exchange = Site::location("").get("/");
            exchange.connection = Connection { carrier, ..(*exchange.connection).clone() }.into();
            is_datagrams(&exchange)
        };
        assert!(is(Carrier::Datagrams));
        assert!(!is(Carrier::Other));
    }
}
