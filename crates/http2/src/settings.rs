//! SETTINGS (RFC 9113, section 6.5).

use crate::frame::{FRAME_SIZE, MAX, flag, kind, write_frame};
use crate::{Code, Failure, Limits};

const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// The window of streams and of the connection where no settings say otherwise, in bytes.
pub(crate) const WINDOW: u32 = 65_535;

/// The largest frame that a peer may allow, in bytes.
const FRAME_SIZE_MAX: u32 = (1 << 24) - 1;

/// What a list of fields counts besides its texts, in bytes: that of 256 fields (RFC 9113, section 6.5.2).
const LIST_OVERHEAD: usize = 8 * 1024;

/// What a peer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) table_size: u32,
    /// How many streams we may open at a time.
    pub(crate) streams: u32,
    pub(crate) window: u32,
    pub(crate) frame_size: usize,
}

impl Settings {
    pub(crate) fn new() -> Settings {
        Settings { table_size: 4096, streams: u32::MAX, window: WINDOW, frame_size: FRAME_SIZE }
    }

    /// Reads the payload of a frame. Unknown settings are ignored.
    pub(crate) fn read(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let (settings, rest) = payload.as_chunks();
        if !rest.is_empty() {
            return Err(Failure::size("client sent SETTINGS frame with incorrect length"));
        }
        for &[a, b, c, d, e, f] in settings {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                HEADER_TABLE_SIZE => self.table_size = value,
                ENABLE_PUSH if value > 1 => {
                    return Err(Failure::protocol(
                        "client sent SETTINGS frame with incorrect ENABLE_PUSH value",
                    ));
                }
                MAX_CONCURRENT_STREAMS => self.streams = value,
                INITIAL_WINDOW_SIZE if value > MAX => {
                    let reason = "client sent SETTINGS frame with incorrect INITIAL_WINDOW_SIZE value";
                    return Err(Failure::new(Code::FLOW_CONTROL_ERROR, reason));
                }
                INITIAL_WINDOW_SIZE => self.window = value,
                MAX_FRAME_SIZE => {
                    let size = value as usize;
                    if size < FRAME_SIZE || value > FRAME_SIZE_MAX {
                        let reason = "client sent SETTINGS frame with incorrect MAX_FRAME_SIZE value";
                        return Err(Failure::protocol(reason));
                    }
                    self.frame_size = size;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends our settings. The first one depends on our role.
pub(crate) fn write_settings(name: u16, value: u32, limits: &Limits, out: &mut Vec<u8>) {
    let list_size = u32::try_from(limits.list_size.saturating_add(LIST_OVERHEAD)).unwrap_or(u32::MAX);
    let mut settings =
        vec![(name, value), (INITIAL_WINDOW_SIZE, limits.window), (MAX_HEADER_LIST_SIZE, list_size)];
    if name == MAX_CONCURRENT_STREAMS {
        settings.push((ENABLE_CONNECT_PROTOCOL, 1));
    }
    let mut payload = Vec::with_capacity(6 * settings.len());
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    write_frame(kind::SETTINGS, 0, 0, &payload, out);
}

pub(crate) fn write_ack(out: &mut Vec<u8>) {
    write_frame(kind::SETTINGS, flag::ACK, 0, &[], out);
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::Code;

    fn read(name: u8, value: u32) -> Result<Settings, Code> {
        let mut settings = Settings::new();
        let payload = [&[0, name][..], &value.to_be_bytes()].concat();
        settings.read(&payload).map_err(|failure| failure.code).map(|()| settings)
    }

    #[test]
    fn values_have_bounds() {
        assert_eq!(read(1, 0).unwrap().table_size, 0);
        assert_eq!(read(4, (1 << 31) - 1).unwrap().window, (1 << 31) - 1);
        assert_eq!(read(5, (1 << 24) - 1).unwrap().frame_size, (1 << 24) - 1);
        assert!(read(2, 1).is_ok() && read(3, 0).is_ok() && read(0x99, 7).is_ok());
        for (name, value, code) in [
            (2, 2, Code::PROTOCOL_ERROR),
            (4, 1 << 31, Code::FLOW_CONTROL_ERROR),
            (5, 16_383, Code::PROTOCOL_ERROR),
            (5, 1 << 24, Code::PROTOCOL_ERROR),
        ] {
            assert_eq!(read(name, value).err(), Some(code), "{name} {value}");
        }
        assert!(Settings::new().read(&[0, 1, 0, 0, 0]).is_err());
    }
}
