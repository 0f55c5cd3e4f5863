//! Header compression (RFC 7541).

mod decode;
mod encode;
mod table;

pub(crate) use decode::Decoder;
pub(crate) use encode::{Encoder, Indexing, plain_field, static_field};

/// Why a block cannot be decoded. The decoder cannot be used after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// An integer or a text is malformed, or the block ends in the middle of a field.
    Code(field_codes::Malformed),
    /// An index has no entry.
    Index,
    /// The table is resized beyond its limit, or in the wrong place.
    Resize,
}

impl From<field_codes::Malformed> for Malformed {
    fn from(malformed: field_codes::Malformed) -> Malformed {
        Malformed::Code(malformed)
    }
}

/// A hash of a name and a value.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5u32;
    for part in [name, value] {
        for &byte in part {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        hash = hash.rotate_left(5) ^ 0x5f;
    }
    hash
}
