//! Resuming sessions: tickets that clients keep, and sessions that are kept for them.
//!
//! Policies of a process with the same timeout of sessions seal tickets with the same keys, which [`Rotation`] replaces.
//! A ticket names the certificate that it was given under and its time, and is worth nothing to a
//! server with another certificate or after the session's timeout. Keys of files replace those of the process.

use crate::noted::Noted;
use crate::rotation::Rotation;
use crate::ticket_keys::Seal;
use crate::{Choices, TicketKey};
use aws_lc_rs::rand;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::{Error, ServerConfig};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest state of a session that is sealed, in bytes. It has the certificates of a client who showed some.
const STATE_MAX: usize = 16 * 1024;

/// How many sessions are kept where clients may send early data, unless the configuration says so.
const EARLY_SESSIONS: usize = 20_480;

/// The length of the identifier of a session.
pub(crate) const ID_SIZE: usize = 32;

/// The longest time for which a client may be told to keep a ticket, in seconds (RFC 8446, section 4.6.1).
const LIFETIME_MAX: u64 = 7 * 24 * 60 * 60;

/// How sessions of a virtual server are resumed, whichever its certificates are.
#[derive(Debug)]
pub(crate) struct Resumption {
    seal: Option<Arc<Seal>>,
    sessions: Option<Arc<ServerSessionMemoryCache>>,
    timeout: Duration,
}

impl Resumption {
    /// Sessions that early data may come with are kept, and each is resumed once: a replayed message finds none
    /// (RFC 8446, section 8.1). A ticket could be used any number of times.
    pub(crate) fn new(choices: &Choices, takes_early_data: bool) -> Result<Resumption, Error> {
        let keeps_all = takes_early_data && choices.tickets && choices.cached_sessions == 0;
        let count = if keeps_all { EARLY_SESSIONS } else { choices.cached_sessions };
        let seal = match choices.tickets && !takes_early_data {
            true => {
                let own = Rotation::of(choices.session_timeout).ok_or(Error::FailedToGetRandomBytes)?;
                Some(Arc::new(Seal::new(own)))
            }
            false => None,
        };
        Ok(Resumption {
            seal,
            sessions: (count > 0).then(|| ServerSessionMemoryCache::new(count)),
            timeout: choices.session_timeout,
        })
    }

    /// Has tickets sealed with the first of these keys, and opened by each one.
    pub(crate) fn set_keys(&self, keys: Vec<TicketKey>) {
        if let Some(seal) = &self.seal {
            seal.set(keys);
        }
    }

    /// Has the sessions of this owner resumed.
    pub(crate) fn apply(&self, config: &mut ServerConfig, owner: [u8; 32]) {
        let stamp = Stamp { owner, timeout: self.timeout };
        config.session_storage = match &self.sessions {
            None => Arc::new(NoServerSessionStorage {}),
            Some(cache) => Arc::new(Sessions { cache: Arc::clone(cache), stamp: stamp.clone() }),
        };
        if let Some(seal) = &self.seal {
            config.ticketer = Arc::new(Tickets { seal: Arc::clone(seal), stamp });
        }
    }
}

/// Tickets of one policy.
#[derive(Debug)]
pub(crate) struct Tickets {
    seal: Arc<Seal>,
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

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.stamp.timeout.as_secs().min(LIFETIME_MAX)).unwrap_or_default()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        (plain.len() <= STATE_MAX).then(|| self.seal.seal(&self.stamp.put(plain)?))?
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.stamp.check(&self.seal.open(cipher)?).map(<[u8]>::to_vec)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let stamped = (value.len() <= STATE_MAX).then(|| self.stamp.put(&value)).flatten();
        stamped.is_some_and(|stamped| self.cache.put(key, stamped))
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
    /// A session keeps its identifier when it is resumed, and all of its tickets have it.
    fn put(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let id = match Noted::session() {
            Some(id) => id,
            None => {
                let mut id = [0; ID_SIZE];
                rand::fill(&mut id).ok()?;
                Noted::saw_session(id);
                id
            }
        };
        Some([&self.owner[..], &now().to_be_bytes(), &id, plain].concat())
    }

    fn check<'a>(&self, stamped: &'a [u8]) -> Option<&'a [u8]> {
        let (owner, rest) = stamped.split_first_chunk::<32>()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (id, plain) = rest.split_first_chunk()?;
        let age = now().checked_sub(u64::from_be_bytes(*time))?;
        (*owner == self.owner && age <= self.timeout.as_secs()).then(|| {
            Noted::saw_session(*id);
            plain
        })
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
        let stamp = Stamp { owner: [owner; 32], timeout: Duration::from_secs(seconds) };
        let own = Rotation::of(stamp.timeout).unwrap();
        Tickets { seal: Arc::new(Seal::new(own)), stamp }
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
        let old = [&[1; 32][..], &(now() - 301).to_be_bytes(), &[0; ID_SIZE], b"state"].concat();
        assert_eq!(stamp.check(&old), None);
        let future = [&[1; 32][..], &(now() + 10).to_be_bytes(), &[0; ID_SIZE], b"state"].concat();
        assert_eq!(stamp.check(&future), None);
    }

    #[test]
    fn clients_keep_tickets_for_a_week_at_most() {
        assert_eq!(tickets(1, 300).lifetime(), 300);
        assert_eq!(tickets(1, 31_536_000).lifetime(), 604_800);
    }

    #[test]
    fn keys_that_are_replaced_open_tickets_until_they_are_gone() {
        let key = |first| TicketKey::new(&[first; 80]).unwrap();
        let tickets = tickets(1, 300);
        let own = tickets.encrypt(b"state").unwrap();
        tickets.seal.set(vec![key(1)]);
        assert_eq!(tickets.decrypt(&own), None, "keys of files replace those of the process");
        let earlier = tickets.encrypt(b"state").unwrap();
        tickets.seal.set(vec![key(2), key(1)]);
        let later = tickets.encrypt(b"state").unwrap();
        assert!(later.starts_with(&[2; 16]));
        for ticket in [&earlier, &later] {
            assert_eq!(tickets.decrypt(ticket).as_deref(), Some(&b"state"[..]));
        }
        tickets.seal.set(vec![key(3), key(2)]);
        assert_eq!(tickets.decrypt(&earlier), None);
    }

    #[test]
    fn sessions_keep_their_identifiers() {
        Noted::default().update();
        let tickets = tickets(1, 300);
        let [one, two] = [1, 2].map(|_| tickets.encrypt(b"state").unwrap());
        let mut noted = Noted::default();
        noted.update();
        assert!(noted.session.is_some() && Noted::session().is_none());
        for ticket in [one, two] {
            tickets.decrypt(&ticket).unwrap();
            assert_eq!(Noted::session(), noted.session);
        }
        Noted::default().update();
        tickets.encrypt(b"state").unwrap();
        assert!(Noted::session() != noted.session);
    }

    #[test]
    fn a_kept_session_is_taken_once() {
        let stamp = Stamp { owner: [1; 32], timeout: Duration::from_secs(300) };
        let sessions = Sessions { cache: ServerSessionMemoryCache::new(4), stamp };
        assert!(sessions.put(b"id".to_vec(), b"state".to_vec()));
        assert_eq!(sessions.get(b"id").as_deref(), Some(&b"state"[..]));
        assert_eq!(sessions.take(b"id").as_deref(), Some(&b"state"[..]));
        assert_eq!(sessions.take(b"id"), None);
    }
}
