//! The protocols of an address.

/// The protocols that the parameters of `listen` enable on an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols(u8);

impl Protocols {
    /// HTTP/1 in clear.
    pub const NONE: Protocols = Protocols(0);
    /// Connections begin with a TLS handshake (`ssl`).
    pub const SSL: Protocols = Protocols(1);
    /// Connections begin with a header of the PROXY protocol (`proxy_protocol`).
    pub const PROXY: Protocols = Protocols(1 << 1);

    /// Clients may speak HTTP/2 (`http2`).
    pub const HTTP2: Protocols = Protocols(1 << 2);

    /// Connections are passed on as they are (`stream`).
    pub const STREAM: Protocols = Protocols(1 << 3);

    const PARAMETERS: [(&[u8], Protocols); 3] =
        [(b"ssl", Protocols::SSL), (b"proxy_protocol", Protocols::PROXY), (b"http2", Protocols::HTTP2)];

    /// The protocol that a parameter of `listen` enables.
    pub(crate) fn of_parameter(name: &[u8]) -> Option<Protocols> {
        Protocols::PARAMETERS.iter().find_map(|(known, protocol)| (*known == name).then_some(*protocol))
    }

    /// The protocols of both.
    #[must_use]
    pub const fn or(self, other: Protocols) -> Protocols {
        Protocols(self.0 | other.0)
    }

    /// Whether all of the others are among these.
    pub const fn has(self, other: Protocols) -> bool {
        self.0 & other.0 == other.0
    }
}
