//! Responses as servers write them.

use crate::message::Kind;
use crate::name::Name;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A response that is being written.
pub(crate) struct Message {
    bytes: Vec<u8>,
    records: u16,
}

impl Message {
    /// A response without records to a question.
    pub(crate) fn to(id: u16, asked: &str, kind: Kind) -> Message {
        let mut bytes = crate::message::encode(id, &name(asked), kind);
        (bytes[2], bytes[3]) = (0x81, 0x80);
        Message { bytes, records: 0 }
    }

    pub(crate) fn code(mut self, code: u8) -> Message {
        self.bytes[3] |= code;
        self
    }

    pub(crate) fn truncated(mut self) -> Message {
        self.bytes[2] |= 2;
        self
    }

    pub(crate) fn with(mut self, owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Message {
        self.records += 1;
        self.bytes.extend_from_slice(owner);
        for number in [kind, 1] {
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.bytes.extend_from_slice(&ttl.to_be_bytes());
        self.bytes.extend_from_slice(&u16::try_from(data.len()).unwrap().to_be_bytes());
        self.bytes.extend_from_slice(data);
        self
    }

    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.bytes[6..8].copy_from_slice(&self.records.to_be_bytes());
        self.bytes
    }
}
