//! The first message of a client whose connection is passed on as it is: what it asks for, read without answering.
//!
//! [`Hello`](crate::Hello) reads only what the server can answer. This reads every version since SSL 2, as much of it
//! as chooses where a connection goes.

/// The record that carries a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The message that begins a handshake (RFC 8446, section 4.1.2).
const CLIENT_HELLO: u8 = 1;

/// The length of a record's header.
const RECORD_HEADER: usize = 5;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// What the first message of a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preread {
    /// Major and minor number of the highest version that it names.
    version: [u8; 2],
    /// The server's name as the client wrote it (RFC 6066, section 3); empty if it names none.
    pub server_name: Box<[u8]>,
    /// The application protocols, joined by commas, the preferred one first (ALPN, RFC 7301).
    pub alpn: Box<[u8]>,
}

/// What the bytes that a client has sent so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// The start of a first message, which is not whole yet.
    Partial,
    /// A first message.
    Hello(Preread),
    /// Something else.
    Other,
}

impl Preread {
    /// The version in OpenSSL's words; empty if it is unknown.
    pub fn version(&self) -> &'static str {
        match self.version {
            [0, 2] => "SSLv2",
            [3, 0] => "SSLv3",
            [3, 1] => "TLSv1",
            [3, 2] => "TLSv1.1",
            [3, 3] => "TLSv1.2",
            [3, 4] => "TLSv1.3",
            _ => "",
        }
    }

    /// Reads a first message from what a client has sent so far. The message may come in several records.
    pub fn read(bytes: &[u8]) -> Prefix {
        if let Some(version) = version_2(bytes) {
            return Prefix::Hello(Preread { version, ..Preread::default() });
        }
        let message = match message(bytes) {
            Ok(message) => message,
            Err(prefix) => return prefix,
        };
        match parse(&message) {
            Some(preread) => Prefix::Hello(preread),
            None => Prefix::Other,
        }
    }
}

/// The version that a first message in the form of SSL 2 names.
fn version_2(bytes: &[u8]) -> Option<[u8; 2]> {
    match *bytes {
        [first, _, CLIENT_HELLO, major @ (0 | 3), minor, ..] if first & 0x80 != 0 => Some([major, minor]),
        _ => None,
    }
}

/// The message without its header, put together from its records.
fn message(bytes: &[u8]) -> Result<Vec<u8>, Prefix> {
    let (mut rest, mut message) = (bytes, Vec::new());
    loop {
        if let Some(&[kind, one, two, three]) = message.first_chunk() {
            if kind != CLIENT_HELLO {
                return Err(Prefix::Other);
            }
            let length = usize::from(one) << 16 | usize::from(two) << 8 | usize::from(three);
            if let Some(whole) = message.get(4..4 + length) {
                return Ok(whole.to_vec());
            }
        }
        match *rest {
            [first, ..] if first != HANDSHAKE && (first & 0x80 == 0 || rest.len() >= RECORD_HEADER) => {
                return Err(Prefix::Other);
            }
            [_, major, ..] if rest[0] == HANDSHAKE && major != 3 => return Err(Prefix::Other),
            [_, _, _, high, low, ..] => {
                let end = RECORD_HEADER + usize::from(u16::from_be_bytes([high, low]));
                let Some(content) = rest.get(RECORD_HEADER..end) else { return Err(Prefix::Partial) };
                message.extend_from_slice(content);
                rest = &rest[end..];
            }
            _ => return Err(Prefix::Partial),
        }
    }
}

/// Takes a whole message apart; none where it breaks its own rules.
fn parse(message: &[u8]) -> Option<Preread> {
    let mut rest = Reader(message);
    let version = rest.take(2)?;
    let mut preread = Preread { version: [version[0], version[1]], ..Preread::default() };
    // The random bytes, the session, the ciphers, the compression.
    rest.take(32)?;
    rest.short_list()?;
    rest.list()?;
    rest.short_list()?;
    // Extensions, without which old clients end. As in nginx, their whole length is not compared.
    if !rest.0.is_empty() {
        rest.take(2)?;
    }
    while !rest.0.is_empty() {
        let (kind, length) = (rest.number()?, rest.number()?);
        // As in nginx, the lengths inside of an extension that is read count.
        match kind {
            SERVER_NAME if preread.server_name.is_empty() => preread.server_name = name(&mut rest)?,
            ALPN if preread.alpn.is_empty() => preread.alpn = protocols(&mut rest)?,
            SUPPORTED_VERSIONS => {
                rest.short_list()?;
                preread.version = [3, 4];
            }
            _ => {
                rest.take(length.into())?;
            }
        }
    }
    Some(preread)
}

/// The first name of the list, which must be that of a host.
fn name(message: &mut Reader<'_>) -> Option<Box<[u8]>> {
    let mut names = Reader(message.list()?);
    (names.take(1)? == [0]).then_some(())?;
    names.list().map(Box::from)
}

fn protocols(message: &mut Reader<'_>) -> Option<Box<[u8]>> {
    let (mut list, mut joined) = (Reader(message.list()?), Vec::new());
    while !list.0.is_empty() {
        let protocol = list.short_list().filter(|protocol| !protocol.is_empty())?;
        if !joined.is_empty() {
            joined.push(b',');
        }
        joined.extend_from_slice(protocol);
    }
    Some(joined.into())
}

/// The rest of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// What follows its own length, of two bytes.
    fn list(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }

    /// What follows its own length, of one byte.
    fn short_list(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Prefix, Preread};

    fn listed(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &listed(content)].concat()
    }

    /// The content of a message of TLS 1.2 with these extensions.
    fn content(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut content = [&[3, 3][..], &[7; 32], &[0], &listed(&[0x13, 0x01]), &[1, 0]].concat();
        if !extensions.is_empty() {
            content.extend(listed(&extensions.concat()));
        }
        content
    }

    /// A message in records of this size.
    fn records(content: &[u8], size: usize) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        let message = [&[1][..], &length[1..], content].concat();
        message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &listed(part)].concat()).collect()
    }

    fn named(name: &[u8]) -> Vec<u8> {
        extension(0, &listed(&[&[0][..], &listed(name)].concat()))
    }

    fn read(extensions: &[Vec<u8>]) -> Prefix {
        Preread::read(&records(&content(extensions), 4096))
    }

    #[test]
    fn a_message_tells_name_protocols_and_version() {
        let alpn = extension(16, &listed(b"\x02h2\x08http/1.1"));
        let versions = extension(43, &[2, 3, 4]);
        let extensions = [extension(10, &[0, 2, 0, 29]), named(b"Example.com"), alpn, versions];
        let Prefix::Hello(preread) = read(&extensions) else { panic!("no message") };
        assert_eq!(&*preread.server_name, b"Example.com");
        assert_eq!(&*preread.alpn, b"h2,http/1.1");
        assert_eq!(preread.version(), "TLSv1.3");
        let Prefix::Hello(bare) = read(&[]) else { panic!("no message") };
        assert_eq!((bare.version(), bare.server_name.len(), bare.alpn.len()), ("TLSv1.2", 0, 0));
    }

    #[test]
    fn a_message_may_come_in_small_records_and_small_pieces() {
        let whole = read(&[named(b"a.test")]);
        for size in [1, 3, 7, 50] {
            let bytes = records(&content(&[named(b"a.test")]), size);
            assert_eq!(Preread::read(&bytes), whole, "{size}");
            for end in 0..bytes.len() {
                assert_eq!(Preread::read(&bytes[..end]), Prefix::Partial, "{size}, {end}");
            }
        }
    }

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        for bytes in
            [&b"G"[..], b"SSH-2.0", &[22, 1], &[22, 2, 0, 0, 0], &[22, 3, 1, 0, 4, 2, 0, 0, 0], b"\x80...."]
        {
            assert_eq!(Preread::read(bytes), Prefix::Other, "{bytes:?}");
        }
        assert_eq!(Preread::read(b""), Prefix::Partial);
        assert_eq!(Preread::read(&[0x80, 0x2e, 1]), Prefix::Partial);
    }

    #[test]
    fn the_form_of_ssl_2_tells_a_version() {
        let version = |bytes: &[u8]| match Preread::read(bytes) {
            Prefix::Hello(preread) => preread.version(),
            _ => "no message",
        };
        assert_eq!(version(&[0x80, 0x2e, 1, 0, 2]), "SSLv2");
        assert_eq!(version(&[0x80, 0x2e, 1, 3, 1, 0]), "TLSv1");
    }

    #[test]
    fn a_message_that_breaks_its_rules_is_none() {
        let wrong = [
            extension(0, &listed(&[&[1][..], &listed(b"a.test")].concat())),
            extension(0, &[0, 9, 0, 0, 9]),
            extension(16, &listed(&[0])),
            extension(16, &listed(b"\x05h2")),
        ];
        for extension in wrong {
            assert_eq!(read(std::slice::from_ref(&extension)), Prefix::Other, "{extension:?}");
        }
        for cut in 0..content(&[]).len() {
            let bytes = records(&content(&[])[..cut], 4096);
            assert_eq!(Preread::read(&bytes), Prefix::Other, "{cut}");
        }
    }
}
