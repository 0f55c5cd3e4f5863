//! The server of a session is learned from answers: `sticky learn`.

use super::{first_value, unknown, variable, wrong};
use crate::shared::bounded::Bounded;
use crate::shared::zones::{Shards, ZoneSpec};
use ::upstream::{Learns, Lesson, Sticky};
use conf::value::time_ms;
use conf::{Diagnostic, Word};
use contract::{Args, Exchange, Loading, Origin, VariableId};
use journal::clock::Time;
use md5::{Digest, Md5};
use std::sync::Arc;

/// How servers of sessions are learned.
#[derive(Clone)]
pub(in crate::gateway::upstream) struct Learning {
    zone: ZoneSpec,
    timeout_ms: u64,
    /// The variables that may hold the session of a request.
    lookup: Vec<VariableId>,
    /// The variables that may hold the session that an answer begins.
    create: Vec<VariableId>,
    learns: Learns,
}

/// How long a session lasts without a request, in milliseconds, unless `timeout` says otherwise.
const TIMEOUT_MS: u64 = 600_000;

/// How many sessions that are over are dropped for a new one, so that no request pays for a million.
const OVER_AT_ONCE: usize = 8;

/// What nginx spends on a session besides its key, in bytes.
const SESSION_ACCOUNT: usize = 121;

impl Learning {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Learning, Diagnostic> {
        let (mut zone, mut timeout_ms, mut learns) = (None, None, Learns::AtEnd);
        let (mut lookup, mut create) = (Vec::new(), Vec::new());
        for word in args.words().iter().skip(1) {
            let wrong = |message: &str| wrong(args, word, message);
            let text = &word.text;
            if let Some(rest) = text.strip_prefix(b"zone=") {
                match rest.iter().position(|&byte| byte == b':') {
                    None => return Err(wrong("zone size is not specified")),
                    Some(0) => return Err(wrong("zone name is not specified")),
                    Some(_) => {}
                }
                let spec = ZoneSpec::parse(args, word, rest)?;
                if zone.replace(spec).is_some() {
                    return Err(wrong("duplicate zone"));
                }
            } else if let Some(rest) = text.strip_prefix(b"timeout=") {
                let time = time_ms(&Word { text: rest.into(), ..*word }).ok().filter(|&time| time > 0);
                if timeout_ms.replace(time.ok_or_else(|| wrong("invalid timeout"))?).is_some() {
                    return Err(wrong("duplicate timeout"));
                }
            } else if let Some(rest) = text.strip_prefix(b"create=") {
                create.push(required(args, (word, rest, "create"), loading)?);
            } else if let Some(rest) = text.strip_prefix(b"lookup=") {
                lookup.push(required(args, (word, rest, "lookup"), loading)?);
            } else if word.is("header") {
                learns = Learns::AtHead;
            } else {
                return Err(unknown(args, word));
            }
        }
        let missing = |name: &str| {
            let message = format!("\"sticky\" directive \"{name}\" parameter is not specified");
            Diagnostic::emerg(message).at(args.node.span)
        };
        match () {
            () if lookup.is_empty() => Err(missing("lookup")),
            () if create.is_empty() => Err(missing("create")),
            () => {
                let zone = zone.ok_or_else(|| missing("zone"))?;
                Ok(Learning { zone, timeout_ms: timeout_ms.unwrap_or(TIMEOUT_MS), lookup, create, learns })
            }
        }
    }

    pub(super) fn zone_name(&self) -> &[u8] {
        &self.zone.name
    }
}

fn required(
    args: &Args<'_>,
    (word, text, name): (&Word, &[u8], &str),
    loading: &mut Loading,
) -> Result<VariableId, Diagnostic> {
    if !text.starts_with(b"$") {
        return Err(wrong(args, word, &format!("missing variable in the \"{name}\" parameter")));
    }
    variable(args, (word, text), loading)
}

/// What a group learns.
pub(super) struct Learn {
    learning: Learning,
    /// The sessions, by the MD5 hashes of their names. They outlive a configuration where the next one has the same zone in
    /// the same group.
    sessions: Arc<Shards<Bounded<Session>>>,
}

/// What is known of a session.
struct Session {
    /// What its server is known by.
    route: Box<[u8]>,
    /// When its last request ended, in milliseconds of uptime.
    last_ms: u64,
}

impl Learn {
    pub(super) fn new(learning: Learning, group: &str, origin: &Origin) -> Learn {
        let zone = &learning.zone;
        let make = || Shards::new(zone, |capacity| Bounded::new(capacity, SESSION_ACCOUNT));
        let sessions = origin.keep(zone.identity(group), make);
        Learn { learning, sessions }
    }

    fn is_over(&self, session: &Session, now_ms: u64) -> bool {
        now_ms.saturating_sub(session.last_ms) >= self.learning.timeout_ms
    }

    /// Drops some of the sessions that are over, then the oldest ones until there is room for one more.
    fn make_room(&self, sessions: &mut Bounded<Session>, key: &[u8], now_ms: u64) {
        for _ in 0..OVER_AT_ONCE {
            if !sessions.oldest().is_some_and(|session| self.is_over(session, now_ms)) {
                break;
            }
            sessions.drop_oldest();
        }
        while !sessions.has_room(key) && sessions.drop_oldest() {}
    }
}

fn key(session: &[u8]) -> [u8; 16] {
    Md5::digest(session).into()
}

impl Sticky for Learn {
    fn session(&self, exchange: &Exchange) -> Vec<u8> {
        first_value(&self.learning.lookup, exchange)
    }

    fn route(&self, session: &[u8]) -> Option<Vec<u8>> {
        let key = key(session);
        let mut sessions = self.sessions.of(&key);
        let known = sessions.get(&key)?;
        (!self.is_over(known, Time::now().uptime_ms)).then(|| known.route.to_vec())
    }

    fn learns(&self) -> Option<Learns> {
        Some(self.learning.learns)
    }

    fn begun(&self, exchange: &Exchange) -> Vec<u8> {
        first_value(&self.learning.create, exchange)
    }

    fn learn(&self, lesson: &Lesson, route: &[u8]) {
        let (key, now_ms) = (key(&lesson.session), Time::now().uptime_ms);
        let mut sessions = self.sessions.of(&key);
        match sessions.get(&key) {
            Some(known) if lesson.is_begun || !self.is_over(known, now_ms) => {
                if *known.route != *route {
                    known.route = route.into();
                }
                known.last_ms = now_ms;
            }
            None if lesson.is_begun => {
                self.make_room(&mut sessions, &key, now_ms);
                if sessions.has_room(&key) {
                    sessions.insert(&key, Session { route: route.into(), last_ms: now_ms });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Learn, Learning};
    use crate::shared::zones::ZoneSpec;
    use ::upstream::{Learns, Lesson, Sticky};
    use std::sync::Arc;

    fn learn() -> Learn {
        let learning = Learning {
            zone: ZoneSpec::sized(8 * 4096),
            timeout_ms: u64::MAX,
            lookup: Vec::new(),
            create: Vec::new(),
            learns: Learns::AtEnd,
        };
        Learn::new(learning, "group", &inputs::origin())
    }

    fn lesson(session: usize, is_begun: bool) -> Lesson {
        Lesson { session: session.to_string().into(), is_begun }
    }

    #[test]
    fn a_full_zone_drops_the_oldest_sessions() {
        let learn = learn();
        for session in 0..1000 {
            learn.learn(&lesson(session, true), b"a");
            learn.learn(&lesson(0, true), b"b");
        }
        let known = (0..1000).filter(|session| learn.route(session.to_string().as_bytes()).is_some()).count();
        assert!((50..200).contains(&known), "{known}");
        assert_eq!(learn.route(b"0").as_deref(), Some(&b"b"[..]), "it was used all the time");
        assert_eq!(learn.route(b"999").as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn one_request_drops_only_some_sessions_that_are_over() {
        let learn = learn();
        (0..40).for_each(|session| learn.learn(&lesson(session, true), b"a"));
        let learning = Learning { timeout_ms: 0, ..learn.learning.clone() };
        let over = Learn { learning, sessions: Arc::clone(&learn.sessions) };
        let known =
            || (0..40).filter(|session: &usize| learn.route(session.to_string().as_bytes()).is_some());
        over.learn(&lesson(40, true), b"a");
        assert_eq!(known().count(), 32);
    }

    #[test]
    fn a_session_that_is_over_has_to_begin_again() {
        let learn = learn();
        let learning = Learning { timeout_ms: 0, ..learn.learning.clone() };
        let over = Learn { learning, sessions: Arc::clone(&learn.sessions) };
        learn.learn(&lesson(1, true), b"a");
        assert!(learn.route(b"1").is_some() && over.route(b"1").is_none());
        over.learn(&lesson(1, false), b"b");
        assert_eq!(learn.route(b"1").as_deref(), Some(&b"a"[..]), "the request alone begins none");
        learn.learn(&lesson(2, false), b"b");
        assert!(learn.route(b"2").is_none());
        over.learn(&lesson(1, true), b"b");
        assert_eq!(learn.route(b"1").as_deref(), Some(&b"b"[..]));
    }
}
