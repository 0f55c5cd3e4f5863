//! What the library does not report about a handshake: who signed it by which scheme, and which session began or was
//! resumed. What signs, checks signatures and makes tickets leaves it on the thread, and the session takes it after each step.

use crate::tickets::ID_SIZE;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static SEEN: Cell<Noted> = const { Cell::new(Noted { own: None, peer: None, session: None }) };
}

/// The schemes of a handshake's signatures, and the identifier of the session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) own: Option<SignatureScheme>,
    pub(crate) peer: Option<SignatureScheme>,
    pub(crate) session: Option<[u8; ID_SIZE]>,
}

impl Noted {
    /// Notes that the peer signed.
    pub(crate) fn saw_peer(scheme: SignatureScheme) {
        SEEN.set(Noted { peer: Some(scheme), ..SEEN.get() });
    }

    /// Notes which session began or is resumed.
    pub(crate) fn saw_session(id: [u8; ID_SIZE]) {
        SEEN.set(Noted { session: Some(id), ..SEEN.get() });
    }

    /// The session of the handshake that goes on on this thread.
    pub(crate) fn session() -> Option<[u8; ID_SIZE]> {
        SEEN.get().session
    }

    /// Begins a step of the handshake that this belongs to.
    pub(crate) fn begin(&self) {
        SEEN.set(*self);
    }

    /// Takes what happened in the step.
    pub(crate) fn update(&mut self) {
        *self = SEEN.take();
    }
}

/// A key that notes what it signs by.
#[derive(Debug)]
pub(crate) struct Noting(pub(crate) Arc<dyn SigningKey>);

impl SigningKey for Noting {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(NotingSigner(self.0.choose_scheme(offered)?)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct NotingSigner(Box<dyn Signer>);

impl Signer for NotingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        SEEN.set(Noted { own: Some(self.0.scheme()), ..SEEN.get() });
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
