//! TLS for QUIC (RFC 9001): messages of the handshake in, messages and keys out. QUIC carries them in its frames and
//! encrypts its packets itself, so there are no records here.

mod hello;
mod keys;
mod secrets;
mod session;

pub use hello::QuicHello;
pub use keys::{DirectionKeys, HeaderKey, InitialSecrets, PacketKey, QuicKeys, TamperedPacket};
pub use secrets::{ResetKey, SealingKey, TokenKey};
pub use session::{QuicFailure, QuicSession};
