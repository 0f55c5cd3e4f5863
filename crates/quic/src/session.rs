//! The server's end of a handshake. The client's first message names the server; only then is the policy known.

use crate::crypto;
use quinn_proto::crypto::{ExportKeyingMaterialError, KeyPair, Keys, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use std::any::Any;
use std::sync::Arc;
use tls::{ClientHello, InitialSecrets, QuicFailure, QuicHello, QuicSession, ServerPolicy};

/// Chooses the policy for a client's first message: one of [`ServerPolicy::for_quic`]. `None` rejects the client, because
/// its name is not served.
pub type ChoosePolicy = Arc<dyn Fn(&ClientHello) -> Option<Arc<ServerPolicy>> + Send + Sync>;

/// The version of QUIC that is spoken (RFC 9000).
pub(crate) const VERSION: u32 = 1;

/// Alerts (RFC 8446, section 6.2).
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// Starts the sessions of an endpoint.
pub(crate) struct Sessions {
    pub(crate) initial: Arc<InitialSecrets>,
    pub(crate) choose: ChoosePolicy,
}

struct Session {
    initial: Arc<InitialSecrets>,
    choose: ChoosePolicy,
    state: State,
}

enum State {
    /// The first message is not whole. With our transport parameters.
    Collecting(QuicHello, Vec<u8>),
    Chosen(Box<QuicSession>),
}

impl quinn_proto::crypto::ServerConfig for Sessions {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION {
            return Err(UnsupportedVersion);
        }
        Ok(crypto::keys(self.initial.server_keys(dst_cid)))
    }

    fn retry_tag(&self, _version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn quinn_proto::crypto::Session> {
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        Box::new(Session {
            initial: Arc::clone(&self.initial),
            choose: Arc::clone(&self.choose),
            state: State::Collecting(QuicHello::new(), parameters),
        })
    }
}

impl Session {
    fn chosen(&self) -> Option<&QuicSession> {
        match &self.state {
            State::Collecting(..) => None,
            State::Chosen(session) => Some(session),
        }
    }

    fn chosen_mut(&mut self) -> Option<&mut QuicSession> {
        match &mut self.state {
            State::Collecting(..) => None,
            State::Chosen(session) => Some(session),
        }
    }
}

impl quinn_proto::crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        crypto::keys(match side {
            Side::Server => self.initial.server_keys(dst_cid),
            Side::Client => self.initial.client_keys(dst_cid),
        })
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let session = self.chosen().filter(|session| !session.is_handshaking())?;
        Some(Box::new(session.negotiated()))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(
        &self,
    ) -> Option<(Box<dyn quinn_proto::crypto::HeaderKey>, Box<dyn quinn_proto::crypto::PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.chosen().is_none_or(QuicSession::is_handshaking)
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let (hello, parameters) = match &mut self.state {
            State::Chosen(session) => return session.read(buf).map(|()| false).map_err(error),
            State::Collecting(hello, parameters) => (hello, parameters),
        };
        let Some(client) = hello.read(buf).map_err(error)? else { return Ok(false) };
        let policy = (self.choose)(&client)
            .ok_or_else(|| alert(UNRECOGNIZED_NAME, "the name is not served".to_owned()))?;
        let session = QuicSession::accept(&policy, std::mem::take(parameters));
        let mut session = session.map_err(|failure| alert(INTERNAL_ERROR, failure.to_string()))?;
        session.read(hello.bytes()).map_err(error)?;
        self.state = State::Chosen(Box::new(session));
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(parameters) = self.chosen().and_then(QuicSession::peer_parameters) else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut { parameters })?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.chosen_mut()?.write(buf).map(crypto::keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn quinn_proto::crypto::PacketKey>>> {
        let (local, remote) = self.chosen_mut()?.next_keys()?;
        Some(crypto::pair(local, remote))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.initial.is_valid_retry(orig_dst_cid, &[header, payload].concat())
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let is_exported = self.chosen().is_some_and(|session| session.export(output, label, context));
        if is_exported { Ok(()) } else { Err(ExportKeyingMaterialError) }
    }
}

fn error(failure: QuicFailure) -> TransportError {
    let reason = failure.failure.to_string();
    match failure.alert {
        Some(code) => alert(code, reason),
        None => TransportError { code: TransportErrorCode::PROTOCOL_VIOLATION, frame: None, reason },
    }
}

fn alert(code: u8, reason: String) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(code), frame: None, reason }
}
