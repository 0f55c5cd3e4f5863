//! Resuming sessions: tickets that clients keep, and sessions that are kept for them.
//!
//! All policies of a process seal tickets with the same keys, which are replaced every six hours and live as long
//! again for opening. A ticket names the certificate that it was given under and its time, and is worth nothing to a
//! server with another certificate or after the session's timeout.

use rustls::Error;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest state of a session that is sealed, in bytes. It has the certificates of a client who showed some.
const STATE_MAX: usize = 16 * 1024;

/// The length of a stamp in front of the state.
const STAMP_SIZE: usize = 32 + 8;

static SEAL: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();

/// Tickets of one policy.
#[derive(Debug)]
pub(crate) struct Tickets {
    seal: Arc<dyn ProducesTickets>,
    stamp: Stamp,
}

/// Sessions of one policy, kept in memory.
#[derive(Debug)]
pub(crate) struct Sessions {
    cache: Arc<ServerSessionMemoryCache>,
    stamp: Stamp,
}

/// Whose a session is and how long it is good for.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) owner: [u8; 32],
    pub(crate) timeout: Duration,
}

impl Tickets {
    pub(crate) fn new(stamp: Stamp) -> Result<Tickets, Error> {
        let seal = match SEAL.get() {
            Some(seal) => Arc::clone(seal),
            None => {
                let made = rustls::crypto::aws_lc_rs::Ticketer::new()?;
                // It opens no ticket longer than the longest that it sealed. A worker that is new has sealed none
                // and yet is to know those of the worker before it.
                let _ = made.encrypt(&[0; STATE_MAX + STAMP_SIZE]);
                Arc::clone(SEAL.get_or_init(|| made))
            }
        };
        Ok(Tickets { seal, stamp })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.stamp.timeout.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        (plain.len() <= STATE_MAX).then(|| self.seal.encrypt(&self.stamp.put(plain)))?
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.stamp.check(&self.seal.decrypt(cipher)?).map(<[u8]>::to_vec)
    }
}

impl Sessions {
    pub(crate) fn new(count: usize, stamp: Stamp) -> Sessions {
        Sessions { cache: ServerSessionMemoryCache::new(count), stamp }
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        value.len() <= STATE_MAX && self.cache.put(key, self.stamp.put(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.stamp.check(&self.cache.get(key)?).map(<[u8]>::to_vec)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.stamp.check(&self.cache.take(key)?).map(<[u8]>::to_vec)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl Stamp {
    fn put(&self, plain: &[u8]) -> Vec<u8> {
        [&self.owner[..], &now().to_be_bytes(), plain].concat()
    }

    fn check<'a>(&self, stamped: &'a [u8]) -> Option<&'a [u8]> {
        let (owner, rest) = stamped.split_first_chunk::<32>()?;
        let (time, plain) = rest.split_first_chunk()?;
        let age = now().checked_sub(u64::from_be_bytes(*time))?;
        (*owner == self.owner && age <= self.timeout.as_secs()).then_some(plain)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(owner: u8, seconds: u64) -> Tickets {
        Tickets::new(Stamp { owner: [owner; 32], timeout: Duration::from_secs(seconds) }).unwrap()
    }

    #[test]
    fn a_ticket_is_for_its_certificate_and_time() {
        let ticket = tickets(1, 300).encrypt(b"state").unwrap();
        assert_eq!(tickets(1, 300).decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(tickets(2, 300).decrypt(&ticket), None);
        let mut forged = ticket.clone();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        assert_eq!(tickets(1, 300).decrypt(&forged), None);
        let stamp = Stamp { owner: [1; 32], timeout: Duration::from_secs(300) };
        let old = [&[1; 32][..], &(now() - 301).to_be_bytes(), b"state"].concat();
        assert_eq!(stamp.check(&old), None);
        let future = [&[1; 32][..], &(now() + 10).to_be_bytes(), b"state"].concat();
        assert_eq!(stamp.check(&future), None);
    }

    #[test]
    fn a_kept_session_is_taken_once() {
        let sessions = Sessions::new(4, Stamp { owner: [1; 32], timeout: Duration::from_secs(300) });
        assert!(sessions.put(b"id".to_vec(), b"state".to_vec()));
        assert_eq!(sessions.get(b"id").as_deref(), Some(&b"state"[..]));
        assert_eq!(sessions.take(b"id").as_deref(), Some(&b"state"[..]));
        assert_eq!(sessions.take(b"id"), None);
    }
}
