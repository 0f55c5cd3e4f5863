//! A connection of `stream` that goes on at another address of this server (`pass`), as if it had come there.

use super::byte_stream::ByteStream;
use super::client::{Client, ip_of, peer_of};
use super::session;
use contract::Connection;
use http::Status;
use journal::Level;
use net::{Endpoint, SocketAddress, SocketType};
use site::{Site, Wrapping};
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

/// The address that connections to this one arrive at.
fn find(site: &Site, to: &SocketAddress) -> Option<usize> {
    let receives = |own: &Endpoint| {
        own.transport == SocketType::Stream
            && match (&own.address, to) {
                (SocketAddress::Inet(own), SocketAddress::Inet(to)) if own.ip().is_unspecified() => {
                    own.is_ipv4() == to.is_ipv4() && own.port() == to.port()
                }
                (own, to) => own == to,
            }
    };
    // The socket of a special address takes precedence, as in the kernel.
    let is_exact = |own: &Endpoint| own.transport == SocketType::Stream && own.address == *to;
    let exact = site.listens.iter().position(|listen| is_exact(&listen.endpoint));
    exact.or_else(|| site.listens.iter().position(|listen| receives(&listen.endpoint)))
}

/// The bytes of a connection that arrives at an address with this wrapping. A handshake, where one follows, begins with what
/// was read.
fn wrapped(bytes: ByteStream, wrapping: Wrapping) -> ByteStream {
    let ByteStream { transport, mut input, output, send_timeout, is_held, clear_by_mistake, passes } = bytes;
    let transport = match transport {
        Transport::Plain(stream) if wrapping.tls => {
            let mut transport = Transport::encrypted(stream);
            if let Transport::Tls(tls) = &mut transport
                && !wrapping.proxy_header
            {
                tls.begin(std::mem::take(&mut input));
            }
            transport
        }
        other => other,
    };
    ByteStream { transport, input, output, send_timeout, is_held, clear_by_mistake, passes: passes + 1 }
}
