//! TLS of clients.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustls::client::{ClientConnection, Resumption};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, HandshakeKind};

use super::plan::TlsPlan;
use crate::measure::tls;

/// What the TLS connections of a thread share: sessions above all.
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// TLS of one connection.
pub(super) struct Session(ClientConnection);

impl Tls {
    /// For the connections of the thread that calls it, which is then ready for handshakes. Fails where the host is no
    /// name of a server.
    pub(super) fn new(plan: &TlsPlan) -> anyhow::Result<Tls> {
        tls::seed()?;
        let mut config = tls::configuration()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption =
            if plan.resume { Resumption::in_memory_sessions(256) } else { Resumption::disabled() };
        Ok(Tls { config: Arc::new(config), name: ServerName::try_from(plan.host.clone())? })
    }

    /// Begins a connection.
    pub(super) fn session(&self) -> Result<Session, Error> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        connection.set_buffer_limit(None);
        Ok(Session(connection))
    }
}

impl Session {
    /// Whether no request can be sent yet.
    pub(super) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether the handshake resumed a session.
    pub(super) fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Takes bytes from the wire and appends the content to `plain`.
    pub(super) fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes)?;
            let state = self.0.process_new_packets().map_err(io::Error::other)?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut plain[before..])?;
        }
        Ok(())
    }

    /// Whether something is to be sent.
    pub(super) fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Takes all of a request for sending.
    pub(super) fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(bytes)
    }

    /// Sends what is queued: false if the socket takes no more of it now.
    pub(super) fn flush(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let mut socket = Socket(socket);
        while self.0.wants_write() {
            match self.0.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that the connection ends. Some servers forget the session otherwise. It may be lost: nobody waits for it.
    pub(super) fn close(&mut self, socket: impl AsFd) {
        self.0.send_close_notify();
        let _unheard = self.flush(socket);
    }
}

struct Socket<F>(F);

impl<F: AsFd> Write for Socket<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, bytes, rustix::net::SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
