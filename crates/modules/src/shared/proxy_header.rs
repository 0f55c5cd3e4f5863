//! The header of the PROXY protocol that a server gets before anything else, with the client's address.

use conf::Diagnostic;
use conf::value::choice;
use contract::{Args, Exchange, Loading, Peer, Tls};
use proxy_protocol::{
    Certificate, Encryption, append_binary_header, append_datagram_header, append_proxy_header,
};
use std::net::SocketAddr;

/// Which header of the PROXY protocol servers get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// None.
    #[default]
    Off,
    /// A line of text.
    Version1,
    /// A binary one, which tells of the client's encryption, too.
    Version2,
}

impl ProxyHeader {
    /// Reads `on | off | v2`.
    ///
    /// # Errors
    /// The word is another one.
    pub(crate) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<ProxyHeader, Diagnostic> {
        const CHOICES: [(&str, ProxyHeader); 3] =
            [("off", ProxyHeader::Off), ("on", ProxyHeader::Version1), ("v2", ProxyHeader::Version2)];
        args.value(0, |word| choice(word, &CHOICES))
    }

    /// Appends the header for the client of this exchange, if servers get one.
    pub(crate) fn append(self, exchange: &Exchange, out: &mut Vec<u8>) {
        match self {
            ProxyHeader::Off => {}
            ProxyHeader::Version1 => append_proxy_header(addresses(exchange), out),
            ProxyHeader::Version2 => {
                let encryption = exchange.connection.tls.as_deref().map(encryption);
                append_binary_header(addresses(exchange), encryption.as_ref(), out);
            }
        }
    }

    /// As [`ProxyHeader::append`], for a session of datagrams.
    pub(crate) fn append_for_datagrams(self, exchange: &Exchange, out: &mut Vec<u8>) {
        match self {
            ProxyHeader::Version2 => append_datagram_header(addresses(exchange), out),
            ProxyHeader::Off | ProxyHeader::Version1 => self.append(exchange, out),
        }
    }
}

/// What a header tells of the client's encryption.
fn encryption(tls: &Tls) -> Encryption {
    let certificate = tls.agreed.client.as_ref().map(|client| Certificate {
        name: client.common_name(),
        fault: client.fault.map_or(0, |fault| fault.number().into()),
    });
    Encryption {
        server_name: tls.server_name.clone(),
        alpn: tls.agreed.alpn.clone(),
        version: tls.agreed.protocol,
        cipher: tls.agreed.cipher,
        is_resumed: tls.agreed.resumed,
        certificate,
    }
}

/// The addresses of client and server that a header tells; none if the client came by a Unix socket.
fn addresses(exchange: &Exchange) -> Option<(SocketAddr, SocketAddr)> {
    match (&exchange.connection.peer, &exchange.connection.local) {
        (Peer::Inet(client), Peer::Inet(server)) => Some((*client, *server)),
        _ => None,
    }
}
