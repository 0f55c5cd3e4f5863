//! A question to name servers, in one or two messages.

use crate::error::{Code, Unusable};
use crate::message::{Data, Kind, Record, Response, Service, encode};
use crate::name::Name;
use std::net::IpAddr;
use std::sync::Arc;

/// How many names of a chain of aliases are followed within one message.
const ALIASES_MAX: usize = 50;

/// How many addresses or services one answer may have. Further ones are not used.
const ITEMS_MAX: usize = 1024;

/// What is asked about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Its addresses.
    Addresses,
    /// Its services.
    Services,
}

/// What a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Addresses, IPv4 first; at least one.
    Addresses(Arc<[IpAddr]>),
    /// Services; at least one.
    Services(Arc<[Service]>),
    /// Another name, which has to be asked about.
    Alias(Name),
}

/// An answer, and how long it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The answer.
    pub answer: Answer,
    /// The shortest of the times that its records give, in seconds.
    pub ttl_s: u32,
}

/// A question to name servers.
#[derive(Debug)]
pub struct Query {
    name: Name,
    parts: Vec<Part>,
}

/// One message of a query.
#[derive(Debug)]
pub struct Part {
    kind: Kind,
    id: u16,
    message: Vec<u8>,
    by_tcp: bool,
    reply: Option<Result<Records, Code>>,
}

/// What the records of one response say.
#[derive(Debug, Default)]
struct Records {
    addresses: Vec<IpAddr>,
    services: Vec<Service>,
    /// The end of a chain of aliases, if that has neither.
    alias: Option<Name>,
    ttl_s: Option<u32>,
}

impl Query {
    /// A query about a name with a part for each of these kinds. Every part has a random id.
    pub fn new(name: Name, kinds: &[Kind], mut random: impl FnMut() -> u16) -> Query {
        let part = |&kind| {
            let id = random();
            Part { kind, id, message: encode(id, &name, kind), by_tcp: false, reply: None }
        };
        let parts = kinds.iter().map(part).collect();
        Query { name, parts }
    }

    /// The messages that have no response yet: those to send in datagrams, or those to send over TCP because the response
    /// does not fit into a datagram.
    pub fn messages(&self, by_tcp: bool) -> impl Iterator<Item = &[u8]> {
        let waits = move |part: &&Part| part.reply.is_none() && part.by_tcp == by_tcp;
        self.parts.iter().filter(waits).map(|part| &*part.message)
    }

    /// Reads a message that came in a datagram or over TCP. Returns the message that has to be sent over TCP, if the
    /// response does not fit into a datagram.
    ///
    /// # Errors
    /// The message does not count.
    pub fn receive(&mut self, message: &[u8], by_tcp: bool) -> Result<Option<&[u8]>, Unusable> {
        let response = Response::read(message)?;
        let waits = |part: &&mut Part| part.kind.number() == response.kind && part.reply.is_none();
        let part = self.parts.iter_mut().find(waits).filter(|_| response.name == self.name);
        let Some(part) = part else { return Err(Unusable::Unexpected(response.name.to_string())) };
        if response.id != part.id {
            return Err(Unusable::Id { id: response.id, name: response.name.to_string() });
        }
        if response.is_truncated {
            if by_tcp || part.by_tcp {
                return Err(Unusable::Unexpected(response.name.to_string()));
            }
            part.by_tcp = true;
            return Ok(Some(&part.message));
        }
        part.reply = Some(match Code::of_number(response.code) {
            Some(code) => Err(code),
            None => Ok(Records::new(&response.records()?, &self.name, part.kind)?),
        });
        Ok(None)
    }

    /// The answer when all parts have their responses. An error of one part is the error of all, unless another part has
    /// addresses: many name servers answer SERVFAIL or NXDOMAIN for AAAA where they have an A record.
    pub fn outcome(&self) -> Option<Result<Found, Code>> {
        let replies: Option<Vec<_>> = self.parts.iter().map(|part| part.reply.as_ref()).collect();
        let replies = replies?;
        let good: Vec<&Records> = replies.iter().filter_map(|reply| reply.as_ref().ok()).collect();
        let error = replies.iter().find_map(|reply| reply.as_ref().err());
        match error {
            Some(code) if good.iter().all(|records| records.addresses.is_empty()) => Some(Err(*code)),
            _ => Some(join(&good)),
        }
    }
}

/// What the parts of an answer say together.
fn join(all: &[&Records]) -> Result<Found, Code> {
    let ttl_s = all.iter().filter_map(|part| part.ttl_s).min().unwrap_or(0);
    let addresses: Arc<[IpAddr]> = all.iter().flat_map(|part| part.addresses.iter().copied()).collect();
    let services: Arc<[Service]> = all.iter().flat_map(|part| part.services.iter().cloned()).collect();
    // As in nginx, the alias in the last response counts, where both should have the same one.
    let alias = all.last().and_then(|part| part.alias.clone());
    let answer = match alias {
        _ if !addresses.is_empty() => Answer::Addresses(addresses),
        _ if !services.is_empty() => Answer::Services(services),
        Some(alias) => Answer::Alias(alias),
        None => return Err(Code::NotFound),
    };
    Ok(Found { answer, ttl_s })
}

impl Records {
    /// Those that belong to a name, or to what it is an alias for.
    fn new(records: &[Record], name: &Name, kind: Kind) -> Result<Records, Unusable> {
        let mut all = Records::default();
        let mut current = name;
        for _ in 0..ALIASES_MAX {
            let alias = records.iter().find_map(|record| match &record.data {
                Data::Alias(target) if record.owner == *current => Some((target, record.ttl_s)),
                _ => None,
            });
            let Some((target, ttl_s)) = alias else { break };
            all.lasts(ttl_s);
            current = target;
        }
        for record in records.iter().filter(|record| record.owner == *current).take(ITEMS_MAX) {
            match &record.data {
                Data::Address(ip) if ip.is_ipv4() == (kind == Kind::A) && kind != Kind::Srv => {
                    all.addresses.push(*ip);
                }
                Data::Service(service) if kind == Kind::Srv => all.services.push(service.clone()),
                _ => continue,
            }
            all.lasts(record.ttl_s);
        }
        let is_empty = all.addresses.is_empty() && all.services.is_empty();
        all.alias = (is_empty && all.ttl_s.is_some()).then(|| current.clone());
        match is_empty && all.alias.is_none() && !records.is_empty() {
            true => Err(Unusable::NoRecord(kind.as_str())),
            false => Ok(all),
        }
    }

    fn lasts(&mut self, ttl_s: u32) {
        self.ttl_s = Some(self.ttl_s.map_or(ttl_s, |least| least.min(ttl_s)));
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Found, Query};
    use crate::error::{Code, Unusable};
    use crate::message::Kind;
    use crate::testing::{Message, name};
    use std::net::IpAddr;

    /// A query about the addresses of `a.b`, whose parts have the ids 1 and 2.
    fn query() -> Query {
        let mut id = 0;
        Query::new(name("a.b"), &[Kind::A, Kind::Aaaa], || {
            id += 1;
            id
        })
    }

    fn v4(id: u16) -> Message {
        Message::to(id, "a.b", Kind::A)
    }

    fn v6() -> Message {
        Message::to(2, "a.b", Kind::Aaaa)
    }

    fn addresses(all: &[&str], ttl_s: u32) -> Found {
        let all: Vec<IpAddr> = all.iter().map(|text| text.parse().unwrap()).collect();
        Found { answer: Answer::Addresses(all.into()), ttl_s }
    }

    /// The outcome of these two responses, in both orders.
    fn outcome(first: Message, second: Message) -> Result<Found, Code> {
        let messages = [first.bytes(), second.bytes()];
        let outcomes = [[0, 1], [1, 0]].map(|order| {
            let mut query = query();
            for index in order {
                assert_eq!(query.outcome(), None);
                assert_eq!(query.receive(&messages[index], false), Ok(None));
            }
            query.outcome().unwrap()
        });
        assert_eq!(outcomes[0], outcomes[1]);
        outcomes[0].clone()
    }

    const OWN: &[u8] = b"\xc0\x0c";

    #[test]
    fn both_families_count() {
        let v4_with = |ttl| v4(1).with(OWN, 1, ttl, &[127, 0, 0, 1]);
        let v6_with = |ttl| v6().with(OWN, 28, ttl, &[0; 16]);
        assert_eq!(outcome(v4_with(60), v6_with(30)), Ok(addresses(&["127.0.0.1", "::"], 30)));
        assert_eq!(outcome(v4_with(60), v6()), Ok(addresses(&["127.0.0.1"], 60)));
        assert_eq!(outcome(v4(1), v6_with(1)), Ok(addresses(&["::"], 1)));
        assert_eq!(outcome(v4_with(0xffff_ffff), v6()), Ok(addresses(&["127.0.0.1"], 0)));
        assert_eq!(outcome(v4(1), v6()), Err(Code::NotFound));
    }

    #[test]
    fn addresses_of_one_family_count_if_the_other_one_is_an_error() {
        let v4_with = v4(1).with(OWN, 1, 60, &[127, 0, 0, 1]);
        assert_eq!(outcome(v4_with, v6().code(2)), Ok(addresses(&["127.0.0.1"], 60)));
        let v6_with = v6().with(OWN, 28, 60, &[0; 16]);
        assert_eq!(outcome(v4(1).code(3), v6_with), Ok(addresses(&["::"], 60)));
        assert_eq!(outcome(v4(1), v6().code(2)), Err(Code::ServerFailure));
        assert_eq!(outcome(v4(1).code(3), v6()), Err(Code::NotFound));
    }

    #[test]
    fn aliases_are_followed_within_a_message() {
        let alias = |message: Message| message.with(OWN, 5, 20, b"\x01c\xc0\x0e");
        let answer = alias(v4(1)).with(b"\x01c\xc0\x0e", 1, 60, &[127, 0, 0, 2]);
        assert_eq!(outcome(answer, alias(v6())), Ok(addresses(&["127.0.0.2"], 20)));
        let to = |target: &str, ttl_s| Ok(Found { answer: Answer::Alias(name(target)), ttl_s });
        assert_eq!(outcome(v4(1), alias(v6())), to("c.b", 20));
        assert_eq!(outcome(alias(v4(1)), v6()), Err(Code::NotFound));
        assert_eq!(outcome(v4(1), alias(v6()).with(OWN, 28, 9, &[0; 16])), to("c.b", 20));
        // A circle has an end, which is any of its names.
        let circle = alias(v4(1)).with(b"\x01c\xc0\x0e", 5, 20, OWN);
        assert!(query().receive(&circle.bytes(), false).is_ok_and(|tcp| tcp.is_none()));
    }

    #[test]
    fn records_of_other_names_do_not_count() {
        let stranger = v4(1).with(b"\x01x\xc0\x0e", 1, 60, &[127, 0, 0, 1]);
        let mut query = query();
        assert_eq!(query.receive(&stranger.bytes(), false), Err(Unusable::NoRecord("A")));
        assert_eq!(query.messages(false).count(), 2, "the question is still open");
        let mut other = query_of_services();
        let addresses = Message::to(1, "_a._tcp.b", Kind::Srv).with(OWN, 1, 60, &[127, 0, 0, 1]);
        assert_eq!(other.receive(&addresses.bytes(), false), Err(Unusable::NoRecord("SRV")));
    }

    #[test]
    fn lies_do_not_count() {
        let answer = |message: Message| message.with(OWN, 1, 60, &[127, 0, 0, 1]).bytes();
        let mut query = query();
        for (lie, error) in [
            (answer(v4(2)), "wrong ident 2 in DNS response for a.b"),
            (answer(Message::to(1, "a.c", Kind::A)), "unexpected DNS response for a.c"),
            (answer(Message::to(1, "a.b", Kind::Srv)), "unexpected DNS response for a.b"),
        ] {
            assert_eq!(query.receive(&lie, false).unwrap_err().to_string(), error);
        }
        assert_eq!(query.receive(&answer(v4(1)), false), Ok(None));
        assert!(query.receive(&answer(v4(1)), false).is_err(), "it has its answer");
        assert_eq!(query.messages(false).count(), 1);
    }

    #[test]
    fn truncated_responses_come_over_tcp() {
        let mut query = query();
        let question = query.receive(&v4(1).truncated().bytes(), false).unwrap().unwrap().to_vec();
        assert_eq!(query.messages(true).collect::<Vec<_>>(), [question]);
        assert_eq!(query.messages(false).count(), 1);
        assert!(query.receive(&v4(1).truncated().bytes(), true).is_err());
        let whole = v4(1).with(OWN, 1, 60, &[127, 0, 0, 1]).bytes();
        assert_eq!(query.receive(&whole, true), Ok(None));
        assert_eq!(query.receive(&v6().bytes(), false), Ok(None));
        assert_eq!(query.outcome(), Some(Ok(addresses(&["127.0.0.1"], 60))));
    }

    fn query_of_services() -> Query {
        Query::new(name("_a._tcp.b"), &[Kind::Srv], || 1)
    }

    #[test]
    fn services() {
        let mut query = query_of_services();
        let answer = Message::to(1, "_a._tcp.b", Kind::Srv)
            .with(OWN, 33, 60, b"\0\x01\0\x02\0\x50\x01d\0")
            .with(OWN, 33, 50, b"\0\x01\0\x02\0\x50\0")
            .bytes();
        assert_eq!(query.receive(&answer, false), Ok(None));
        let found = query.outcome().unwrap().unwrap();
        assert!(matches!(&found.answer, Answer::Services(all) if all.len() == 1 && all[0].port == 80));
        assert_eq!(found.ttl_s, 60);
    }
}
