//! Messages (RFC 1035, section 4).

use crate::error::Unusable;
use crate::name::{NAME_MAX, Name};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of the Internet.
const IN: u16 = 1;

/// The flag of a query that asks the server to ask others.
const RECURSION_DESIRED: u16 = 0x0100;

/// The flag of a response that did not fit.
const TRUNCATED: u16 = 0x0200;

/// The bits of the flags that a response to a standard query has to have: QR, OPCODE and the reserved ones.
const RESPONSE_MASK: u16 = 0xf870;
const RESPONSE: u16 = 0x8000;

/// How many records of one message are used.
const RECORDS_MAX: usize = 4096;

/// What a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses (RFC 3596).
    Aaaa,
    /// Services (RFC 2782).
    Srv,
}

impl Kind {
    pub(crate) fn number(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
            Kind::Srv => 33,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::Aaaa => "AAAA",
            Kind::Srv => "SRV",
        }
    }
}

const CNAME: u16 = 5;

/// A service: a host and a port (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Hosts with a lower number come first.
    pub priority: u16,
    /// The share of a host among those of one priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host.
    pub target: Name,
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: Name,
    pub(crate) ttl_s: u32,
    pub(crate) data: Data,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Address(IpAddr),
    Service(Service),
    /// The owner is another name for this one.
    Alias(Name),
    Other,
}

/// Writes a question.
pub(crate) fn encode(id: u16, name: &Name, kind: Kind) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.as_str().len() + 18);
    for number in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    name.encode(&mut out);
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&IN.to_be_bytes());
    out
}

/// A response whose records were not read yet.
pub(crate) struct Response<'a> {
    pub(crate) id: u16,
    pub(crate) code: u8,
    pub(crate) is_truncated: bool,
    /// The name of the question, and the number of what it is for.
    pub(crate) name: Name,
    pub(crate) kind: u16,
    records: u16,
    reader: Reader<'a>,
}

impl<'a> Response<'a> {
    /// Reads a response up to its records.
    pub(crate) fn read(message: &'a [u8]) -> Result<Response<'a>, Unusable> {
        let mut reader = Reader { message, at: 0 };
        let (id, flags, questions, records) =
            (reader.number()?, reader.number()?, reader.number()?, reader.number()?);
        reader.take(4)?;
        if flags & RESPONSE_MASK != RESPONSE {
            return Err(Unusable::Flags { id, flags });
        }
        let code = u8::try_from(flags & 0xf).unwrap_or(0);
        if !matches!(code, 0 | 2..=5) {
            return Err(Unusable::Error { code, id });
        }
        if questions != 1 {
            return Err(Unusable::Questions);
        }
        let name = reader.name()?;
        let (kind, class) = (reader.number()?, reader.number()?);
        if class != IN {
            return Err(Unusable::Unexpected(name.to_string()));
        }
        Ok(Response { id, code, is_truncated: flags & TRUNCATED != 0, name, kind, records, reader })
    }

    /// Reads the records of the answer.
    pub(crate) fn records(mut self) -> Result<Vec<Record>, Unusable> {
        let count = usize::from(self.records).min(RECORDS_MAX);
        (0..count).map(|_| self.reader.record()).collect()
    }
}

/// A place in a message.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Unusable> {
        let taken = self.message.get(self.at..).and_then(|rest| rest.get(..count)).ok_or(Unusable::Short)?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, Unusable> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A name, which may end with a reference to an earlier part of the message (section 4.1.4).
    fn name(&mut self) -> Result<Name, Unusable> {
        let mut text = String::new();
        let mut place = Reader { message: self.message, at: self.at };
        let mut end = None;
        // Every reference leads to a place before the one where this part of the name begins, so that there is an end.
        let mut begin = self.at;
        loop {
            let length = place.take(1)?[0];
            match length {
                0 => break,
                1..=63 => push_label(&mut text, place.take(usize::from(length))?)?,
                0xc0.. => {
                    let low = place.take(1)?[0];
                    end.get_or_insert(place.at);
                    let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                    if target >= begin {
                        return Err(Unusable::Name);
                    }
                    (place.at, begin) = (target, target);
                }
                _ => return Err(Unusable::Name),
            }
        }
        self.at = end.unwrap_or(place.at);
        Name::new(&text).ok_or(Unusable::Name)
    }

    fn record(&mut self) -> Result<Record, Unusable> {
        let owner = self.name()?;
        let (kind, class) = (self.number()?, self.number()?);
        let ttl = u32::from(self.number()?) << 16 | u32::from(self.number()?);
        // One with its first bit set counts as 0 (RFC 2181, section 8).
        let ttl_s = if ttl > i32::MAX.unsigned_abs() { 0 } else { ttl };
        let length = usize::from(self.number()?);
        let start = self.at;
        let bytes = self.take(length)?;
        let mut inside = Reader { message: self.message, at: start };
        let data = match kind {
            _ if class != IN => Data::Other,
            1 => {
                let octets = <[u8; 4]>::try_from(bytes).map_err(|_| Unusable::Record("A"))?;
                Data::Address(Ipv4Addr::from(octets).into())
            }
            28 => {
                let octets = <[u8; 16]>::try_from(bytes).map_err(|_| Unusable::Record("AAAA"))?;
                Data::Address(Ipv6Addr::from(octets).into())
            }
            33 => {
                let (priority, weight, port) = (inside.number()?, inside.number()?, inside.number()?);
                inside.service(priority, weight, port)?
            }
            CNAME => Data::Alias(inside.name()?),
            _ => Data::Other,
        };
        if inside.at > start + length {
            return Err(Unusable::Short);
        }
        Ok(Record { owner, ttl_s, data })
    }

    /// The rest of a service; the root as its target says that there is no such service (RFC 2782).
    fn service(&mut self, priority: u16, weight: u16, port: u16) -> Result<Data, Unusable> {
        if self.message.get(self.at) == Some(&0) {
            self.at += 1;
            return Ok(Data::Other);
        }
        let target = self.name()?;
        Ok(Data::Service(Service { priority, weight, port, target }))
    }
}

/// Appends a label to a name. A dot in it would make it two.
fn push_label(text: &mut String, label: &[u8]) -> Result<(), Unusable> {
    let label = std::str::from_utf8(label).map_err(|_| Unusable::Name)?;
    if label.contains('.') || text.len() + 1 + label.len() > NAME_MAX + 1 {
        return Err(Unusable::Name);
    }
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(label);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Data, Kind, Response, encode};
    use crate::error::Unusable;
    use crate::name::Name;
    use crate::testing::{Message, name};

    fn records(message: &[u8]) -> Result<Vec<Data>, Unusable> {
        let records = Response::read(message)?.records()?;
        Ok(records.into_iter().map(|record| record.data).collect())
    }

    #[test]
    fn questions_are_written() {
        let message = encode(0x1234, &name("a.bc"), Kind::Aaaa);
        assert_eq!(message, b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x1c\0\x01");
    }

    #[test]
    fn records_are_read() {
        let message = Message::to(7, "a.b", Kind::A)
            .with(b"\xc0\x0c", 1, 60, &[127, 0, 0, 1])
            .with(b"\x01x\xc0\x0e", 28, 60, &[1; 16])
            .with(b"\xc0\x0c", 5, 60, b"\x01c\xc0\x0e")
            .with(b"\xc0\x0c", 33, 60, b"\0\x01\0\x02\0\x50\x01d\xc0\x0e")
            .with(b"\xc0\x0c", 16, 60, b"text")
            .bytes();
        let shown = format!("{:?}", records(&message).unwrap());
        assert_eq!(
            shown,
            "[Address(127.0.0.1), Address(101:101:101:101:101:101:101:101), Alias(Name(\"c.b\")), \
             Service(Service { priority: 1, weight: 2, port: 80, target: Name(\"d.b\") }), Other]"
        );
    }

    #[test]
    fn messages_that_are_no_answers() {
        let good = Message::to(7, "a.b", Kind::A).with(b"\xc0\x0c", 1, 60, &[127, 0, 0, 1]).bytes();
        for length in 0..good.len() {
            assert_eq!(records(&good[..length]), Err(Unusable::Short), "{length}");
        }
        let patched = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            records(&message).unwrap_err()
        };
        assert!(matches!(patched(2, 0x01), Unusable::Flags { .. }), "a query");
        assert_eq!(patched(3, 0x81), Unusable::Error { code: 1, id: 7 });
        assert_eq!(patched(3, 0x86), Unusable::Error { code: 6, id: 7 });
        assert_eq!(patched(5, 2), Unusable::Questions);
        assert_eq!(patched(12, 0x40), Unusable::Name, "a reserved kind of label");
        assert_eq!(patched(13, b'.'), Unusable::Name, "a dot in a label");
        assert!(matches!(patched(20, 3), Unusable::Unexpected(_)), "another class");
    }

    #[test]
    fn references_lead_backwards() {
        let with_owner = |owner: &[u8]| {
            let message = Message::to(7, "a", Kind::A).with(owner, 1, 60, &[127, 0, 0, 1]).bytes();
            records(&message)
        };
        // The owner of the record stands at 19.
        for (owner, is_valid) in [
            (&b"\xc0\x0c"[..], true),
            (b"\xc0\x13", false),
            (b"\x01b\xc0\x13", false),
            (b"\xc0\xff", false),
            (b"\xff\xff", false),
            (b"\0", false),
        ] {
            assert_eq!(with_owner(owner).is_ok(), is_valid, "{owner:?}");
        }
        // Two references that lead to each other.
        let message = Message::to(7, "a", Kind::A)
            .with(b"\xc0\x0c", 16, 60, b"\xc0\x21")
            .with(b"\xc0\x1f", 1, 60, &[127, 0, 0, 1])
            .bytes();
        assert_eq!(records(&message), Err(Unusable::Name));
    }

    #[test]
    fn long_names_and_wrong_lengths() {
        let label = [&[63][..], &[b'a'; 63]].concat();
        let target = |count: usize| {
            let target = [label.repeat(count), vec![0]].concat();
            records(&Message::to(7, "a", Kind::A).with(b"\xc0\x0c", 5, 60, &target).bytes())
        };
        assert_eq!(target(4), Ok(vec![Data::Alias(Name::new(&vec!["a".repeat(63); 4].join(".")).unwrap())]));
        assert_eq!(target(5), Err(Unusable::Name));
        for (kind, data) in [(1, &b"\x7f\0\0"[..]), (28, b"1234"), (33, b"\0\x01"), (5, b"\x01")] {
            let message = Message::to(7, "a", Kind::A).with(b"\xc0\x0c", kind, 60, data).bytes();
            assert!(records(&message).is_err(), "{kind}");
        }
    }
}
