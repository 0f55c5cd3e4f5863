//! Field compression (RFC 9204). We read sections that refer to a dynamic table, and write ones that do not: so our responses
//! never wait for another stream, and a connection needs no memory for what it has sent.

mod decoder;
mod encoder;
mod feedback;
mod instructions;
mod static_table;

pub(crate) use decoder::{Decoder, Section};
pub use encoder::SectionWriter;
pub(crate) use feedback::FeedbackReader;
#[cfg(test)]
pub(crate) use static_table::entry as static_entry;

/// The largest number that a peer may send.
const NUMBER_MAX: u64 = crate::varint::MAX;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// An integer or a text is malformed, or ends too early.
    Code(field_codes::Malformed),
    /// An index has no entry, or one that the section does not announce.
    Index,
    /// The section refers to more entries than there can be.
    Required,
    /// An entry is larger than the table, or the table than we allow.
    Size,
}

impl From<field_codes::Malformed> for Malformed {
    fn from(malformed: field_codes::Malformed) -> Malformed {
        Malformed::Code(malformed)
    }
}
