//! TLS without sockets: bytes in, bytes out. It is the one place that knows the TLS library.
//!
//! A connection begins as a [`Hello`], which reads the client's first message and tells the name that is asked
//! for. The caller chooses a [`ServerPolicy`] by it and goes on with a [`Session`], to which it gives the same
//! bytes again. A session owns keys and no buffers: bytes that arrive, records to send and content all live in
//! buffers of the caller, who borrows them while there is something in them.
//!
//! A connection that we open is a [`Session`] from its start, under a [`ClientPolicy`]. A connection of QUIC is a
//! [`QuicSession`], which gives keys to the caller.
//!
//! TLS 1.2 (RFC 5246) and 1.3 (RFC 8446) are spoken; neither compression nor renegotiation. Servers may take early data.

#![forbid(unsafe_code)]

mod certificate;
mod chain;
mod ciphers;
mod client;
mod compression;
mod distinguished_name;
mod encrypted_key;
mod extensions;
mod hello;
mod local_authority;
mod name_constraints;
mod noted;
mod ocsp;
mod offered;
mod pair_cache;
mod peer;
mod pem;
mod policy;
mod preread;
mod quic;
mod revocation;
mod rotation;
mod self_signed;
mod session;
mod signatures;
#[cfg(test)]
mod testing;
mod ticket_keys;
mod tickets;
mod validity;
mod verdict;
mod verifier;
mod x509;

pub use certificate::{LoadError, Pair, chain_issuer};
pub use ciphers::are_suites;
pub use client::{ClientPolicy, ClientSettings};
pub use hello::{ClientHello, Hello, Rejection};
pub use local_authority::LocalAuthority;
pub use ocsp::{
    OCSP_ANSWER_MAX, OcspError, OcspFinding, OcspQuestion, OcspScope, OcspState, OcspSubject, Staple,
    Stapling, StatusCheck, StatusSettings,
};
pub use offered::Offered;
pub use pair_cache::{PairCache, PairCacheLimits};
pub use peer::PeerCertificate;
pub use policy::{Choices, ClientCheck, Handshakes, PolicyError, RECORD_MAX, ServerPolicy, Settings};
pub use preread::{Prefix, Preread};
pub use quic::{
    DirectionKeys, HeaderKey, InitialSecrets, PacketKey, QuicFailure, QuicHello, QuicKeys, QuicSession,
    ResetKey, SealingKey, TamperedPacket, TokenKey,
};
pub use self_signed::SelfSigned;
pub use session::{Failure, Negotiated, Processed, Session};
pub use signatures::are_signatures;
pub use ticket_keys::TicketKey;
pub use validity::{Nearness, Validity, served, set_served};
pub use verdict::Verdict;
pub use verifier::{Authorities, Trust, TrustError};

/// Seeds the random numbers of this process, which takes some 40 ms: the first handshake would wait for that.
pub fn seed() {
    // Where it fails handshakes do, too, and say so.
    let _ = aws_lc_rs::rand::fill(&mut [0]);
}
