//! Connection identifiers name the thread that has the connection. Only the server can read that.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use std::sync::Arc;
use std::time::Duration;
use tls::ResetKey;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the process among those of this server.
    pub generation: u16,
    /// The number of the thread in its process.
    pub thread: u16,
}

/// Writes places into connection identifiers, and reads them.
#[derive(Clone, Debug)]
pub struct Places(Arc<ResetKey>);

/// How many random bytes an identifier begins with. They select the mask of the rest.
const RANDOM: usize = 8;

/// How long a place is, and how long the check that follows it, in bytes.
const PLACE: usize = 4;
const CHECK: usize = 4;

/// How long an identifier is, in bytes.
const LENGTH: usize = RANDOM + PLACE + CHECK;

/// Set in the first byte of a packet with a long head (RFC 8999, section 5.1).
const LONG_HEAD: u8 = 0x80;

impl Places {
    /// With this secret, which all processes of the server know. It has no other use.
    pub fn new(secret: &[u8; 32]) -> Places {
        Places(Arc::new(ResetKey::new(secret)))
    }

    /// The place of the connection that a datagram is for. `None` if the identifier in it is not one of ours, as in a
    /// client's first packets.
    pub fn of_datagram(&self, datagram: &[u8]) -> Option<Place> {
        let (&first, rest) = datagram.split_first()?;
        if first & LONG_HEAD == 0 {
            return self.read(rest.get(..LENGTH)?);
        }
        // The version, and the length of the identifier.
        let (&length, rest) = rest.get(4..)?.split_first()?;
        self.read(rest.get(..usize::from(length))?)
    }

    fn read(&self, id: &[u8]) -> Option<Place> {
        let (random, rest) = id.split_at_checked(RANDOM)?;
        let &[a, b, c, d] = rest.first_chunk::<PLACE>()?;
        let [generation, thread] = [[a, b], [c, d]].map(u16::from_be_bytes);
        let masked = Place { generation, thread };
        let mask = self.0.sign(random);
        let place = hidden(masked, &mask);
        (self.write(random, place)[..] == *id).then_some(place)
    }

    fn write(&self, random: &[u8], place: Place) -> Vec<u8> {
        let mask = self.0.sign(random);
        let Place { generation, thread } = hidden(place, &mask);
        let place_bytes = [place.generation.to_be_bytes(), place.thread.to_be_bytes()].concat();
        let check = self.0.sign(&[random, &place_bytes].concat());
        let hidden = [generation.to_be_bytes(), thread.to_be_bytes()].concat();
        [random, &hidden, &check[..CHECK]].concat()
    }
}

/// A place under a mask. Twice the same mask gives the place again.
fn hidden(place: Place, mask: &[u8; 32]) -> Place {
    Place {
        generation: place.generation ^ u16::from_be_bytes([mask[0], mask[1]]),
        thread: place.thread ^ u16::from_be_bytes([mask[2], mask[3]]),
    }
}

/// Makes the identifiers of one thread.
pub(crate) struct Generator {
    pub(crate) places: Places,
    pub(crate) place: Place,
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = RandomConnectionIdGenerator::new(RANDOM).generate_cid();
        ConnectionId::new(&self.places.write(&random, self.place))
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        if self.places.read(cid) == Some(self.place) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Generator, LENGTH, Place, Places};
    use quinn_proto::ConnectionIdGenerator;

    #[test]
    fn identifiers_name_their_place_to_the_server_only() {
        let place = Place { generation: 258, thread: 3 };
        let places = Places::new(&[1; 32]);
        let mut generator = Generator { places: places.clone(), place };
        let (one, other) = (generator.generate_cid(), generator.generate_cid());
        assert_eq!((one.len(), generator.cid_len()), (LENGTH, LENGTH));
        assert_ne!(one[8..], other[8..], "a place looks different in each identifier");

        let short = [&[0x40], &one[..], b"content"].concat();
        let long = [&[0xc0, 0, 0, 0, 1, 16], &one[..], b"content"].concat();
        assert_eq!([places.of_datagram(&short), places.of_datagram(&long)], [Some(place); 2]);
        assert_eq!(Places::new(&[2; 32]).of_datagram(&short), None);
        assert!(generator.validate(&one).is_ok());
        assert!(Generator { places, place: Place { thread: 4, ..place } }.validate(&one).is_err());
    }

    #[test]
    fn changed_identifiers_are_not_ours() {
        let places = Places::new(&[1; 32]);
        let mut generator = Generator { places: places.clone(), place: Place { generation: 1, thread: 1 } };
        let packet = [&[0x40], &generator.generate_cid()[..]].concat();
        for at in 1..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            assert_eq!(places.of_datagram(&changed), None, "{at}");
            assert_eq!(places.of_datagram(&packet[..at]), None, "{at}");
        }
        for garbage in
            [&[][..], &[0xc0], &[0xc0, 0, 0, 0, 1], &[0xc0, 0, 0, 0, 1, 255, 1], &[0xc0, 0, 0, 0, 1, 0]]
        {
            assert_eq!(places.of_datagram(garbage), None);
        }
    }
}
