//! A connection of `stream` that goes on at another address of this server (`pass`), as if it had come there.

use super::byte_stream::ByteStream;
use super::client::{Client, ip_of, peer_of};
use super::session;
use contract::Connection;
use http::Status;
use journal::Level;
use net::{SocketAddress, SocketType};
use site::{Listen, Site, Wrapping};
use std::cell::Cell;
use wire::Transport;

/// How often a connection may go on at another address: two that pass to each other would never end.
const PASSES_MAX: u8 = 10;

/// The connection at this address, with what was read of it and not used; none if that is not possible, which the error
/// log tells.
pub(super) fn pass(client: Client, bytes: ByteStream, to: &SocketAddress) -> Option<(Client, ByteStream)> {
    let info = Connection { local: peer_of(to), requests: Cell::new(0), ..(*client.info).clone() };
    let found =
        find(&client.serving.site, to).ok_or_else(|| (Status::OK, format!("port not found for \"{to}\"")));
    let allowed = found.and_then(|listen| {
        let wrapping = client.serving.site.listens[listen].hosts(ip_of(&info.local)).protocols.wrapping;
        let is_encrypted = matches!(bytes.transport, Transport::Tls(_));
        if bytes.passes == PASSES_MAX {
            return Err((Status::INTERNAL_SERVER_ERROR, "stream pass cycle".to_owned()));
        }
        if is_encrypted && wrapping.tls {
            let reason = format!("\"{to}\" has ssl, and the encryption of the connection has ended here");
            return Err((Status::INTERNAL_SERVER_ERROR, reason));
        }
        Ok((listen, wrapping))
    });
    let (listen, wrapping) = match allowed {
        Ok(allowed) => allowed,
        Err((status, message)) => {
            client.log(Level::Error, &format!("{message} while passing connection to port"));
            session::log_unopened(&client, status);
            return None;
        }
    };
    let Client { counted, serving, .. } = client;
    counted.activity.waits();
    Some((Client::new(counted, serving, listen, info), wrapped(bytes, wrapping)))
}

/// The address that connections to this one arrive at. The socket of a special address takes precedence, as in the kernel.
fn find(site: &Site, to: &SocketAddress) -> Option<usize> {
    let place = |receives: &dyn Fn(&SocketAddress) -> bool| {
        site.listens.iter().position(|Listen { endpoint, .. }| {
            endpoint.transport == SocketType::Stream && receives(&endpoint.address)
        })
    };
    place(&|own| own == to).or_else(|| place(&|own| is_wildcard_of(own, to)))
}

/// Whether an address is all those of the other one's family, with the same port.
fn is_wildcard_of(own: &SocketAddress, to: &SocketAddress) -> bool {
    let (SocketAddress::Inet(own), SocketAddress::Inet(to)) = (own, to) else { return false };
    own.ip().is_unspecified() && own.is_ipv4() == to.is_ipv4() && own.port() == to.port()
}

/// The bytes of a connection that arrives at an address with this wrapping. A handshake, where one follows, begins with what
/// was read.
fn wrapped(mut bytes: ByteStream, wrapping: Wrapping) -> ByteStream {
    bytes.passes += 1;
    if !wrapping.tls {
        return bytes;
    }
    let Transport::Plain(stream) = bytes.transport else { return bytes };
    let mut transport = Transport::encrypted(stream);
    if let Transport::Tls(tls) = &mut transport
        && !wrapping.proxy_header
    {
        tls.begin(std::mem::take(&mut bytes.input));
    }
    ByteStream { transport, ..bytes }
}
