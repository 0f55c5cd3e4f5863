//! Who signed a handshake, and by which scheme. The library does not report it, so what signs and what checks
//! signatures leaves it on the thread, and the session takes it after each step.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static SEEN: Cell<Signatures> = const { Cell::new(Signatures { own: None, peer: None }) };
}

/// The schemes of a handshake's signatures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signatures {
    pub(crate) own: Option<SignatureScheme>,
    pub(crate) peer: Option<SignatureScheme>,
}

impl Signatures {
    /// Notes that the peer signed.
    pub(crate) fn saw_peer(scheme: SignatureScheme) {
        SEEN.set(Signatures { peer: Some(scheme), ..SEEN.get() });
    }

    /// Adds what happened on this thread since this was last called.
    pub(crate) fn update(&mut self) {
        let seen = SEEN.take();
        *self = Signatures { own: seen.own.or(self.own), peer: seen.peer.or(self.peer) };
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
        SEEN.set(Signatures { own: Some(self.0.scheme()), ..SEEN.get() });
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
