//! SETTINGS (RFC 9114, section 7.2.4; RFC 9204, section 5; RFC 9220, section 3).

use crate::frame::{kind, write_frame};
use crate::{Code, Failure, varint};

const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
const MAX_FIELD_SECTION_SIZE: u64 = 6;
const QPACK_BLOCKED_STREAMS: u64 = 7;
const ENABLE_CONNECT_PROTOCOL: u64 = 8;
const H3_DATAGRAM: u64 = 0x33;

/// What a list of fields counts besides its texts, in bytes: that of 256 fields (RFC 9114, section 4.2.2).
const LIST_OVERHEAD: usize = 8 * 1024;

/// What we allow a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnSettings {
    pub(crate) table_capacity: usize,
    pub(crate) blocked_streams: usize,
    /// How long the names and values of a section may be together, in bytes.
    pub(crate) list_size: usize,
    /// Whether we answer extended CONNECT.
    pub(crate) connects: bool,
}

impl OwnSettings {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut settings = vec![
            (QPACK_MAX_TABLE_CAPACITY, self.table_capacity),
            (MAX_FIELD_SECTION_SIZE, self.list_size.saturating_add(LIST_OVERHEAD)),
            (QPACK_BLOCKED_STREAMS, self.blocked_streams),
        ];
        if self.connects {
            settings.push((ENABLE_CONNECT_PROTOCOL, 1));
        }
        let write = |out: &mut Vec<u8>| {
            for (id, value) in settings {
                varint::write(out, id);
                varint::write(out, value as u64);
            }
        };
        write_frame(kind::SETTINGS, write, out);
    }
}

/// What a peer allows us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// How large a section may be, in bytes, with 32 for each field; `None` if the peer names no limit.
    pub section_size: Option<u64>,
    /// Whether the peer answers extended CONNECT (RFC 9220).
    pub connects: bool,
}

impl PeerSettings {
    /// Reads the payload of a frame. Unknown settings are ignored.
    pub(crate) fn read(payload: &[u8]) -> Result<PeerSettings, Failure> {
        const LENGTH: Failure = Failure::frame("client sent SETTINGS frame with incorrect length");
        let error = |reason| Err(Failure::new(Code::SETTINGS_ERROR, reason));
        let (mut settings, mut seen, mut rest) = (PeerSettings::default(), Vec::new(), payload);
        while !rest.is_empty() {
            let (id, after) = varint::read(rest).ok_or(LENGTH)?;
            let (value, after) = varint::read(after).ok_or(LENGTH)?;
            rest = after;
            seen.push(id);
            match id {
                MAX_FIELD_SECTION_SIZE => settings.section_size = Some(value),
                ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM if value > 1 => {
                    return error("client sent SETTINGS frame with incorrect value");
                }
                ENABLE_CONNECT_PROTOCOL => settings.connects = value == 1,
                2..=5 => return error("client sent SETTINGS frame with setting of HTTP/2"),
                _ => {}
            }
        }
        seen.sort_unstable();
        match seen.windows(2).any(|pair| pair[0] == pair[1]) {
            true => error("client sent SETTINGS frame with duplicate setting"),
            false => Ok(settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnSettings, PeerSettings};
    use crate::Code;

    #[test]
    fn settings_have_bounds() {
        let read = |payload: &[u8]| PeerSettings::read(payload).map_err(|failure| failure.code);
        let none = PeerSettings::default();
        assert_eq!(read(&[]), Ok(none));
        assert_eq!(
            read(&[6, 0x40, 0x64, 8, 1]),
            Ok(PeerSettings { section_size: Some(100), connects: true })
        );
        assert_eq!(read(&[1, 0, 7, 9, 0x21, 5, 0x33, 1]), Ok(none));
        for (payload, code) in [
            (&[6][..], Code::FRAME_ERROR),
            (&[6, 0x40], Code::FRAME_ERROR),
            (&[2, 0], Code::SETTINGS_ERROR),
            (&[5, 0], Code::SETTINGS_ERROR),
            (&[8, 2], Code::SETTINGS_ERROR),
            (&[0x33, 2], Code::SETTINGS_ERROR),
            (&[0x21, 0, 6, 1, 0x21, 1], Code::SETTINGS_ERROR),
        ] {
            assert_eq!(read(payload), Err(code), "{payload:x?}");
        }
    }

    #[test]
    fn our_settings_read_back() {
        let own = OwnSettings { table_capacity: 4096, blocked_streams: 16, list_size: 100, connects: true };
        let mut out = Vec::new();
        own.write(&mut out);
        let read = PeerSettings::read(&out[3..]).unwrap();
        assert_eq!((out[0], read), (4, PeerSettings { section_size: Some(100 + 8192), connects: true }));
    }
}
