//! What the field compression of HTTP/2 (HPACK, RFC 7541) and of HTTP/3 (QPACK, RFC 9204) have in common: integers with a
//! prefix, the Huffman code, texts, the dynamic table, and the search in a static table. The instructions of each and the
//! entries of its static table are in the crate of its protocol.

#![forbid(unsafe_code)]

mod dynamic_table;
mod huffman;
pub mod integer;
mod static_table;
pub mod text;

pub use dynamic_table::{DynamicTable, ENTRY_OVERHEAD};
pub use static_table::StaticTable;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end in the middle of an integer or a text. Where more bytes can come, they may still be well formed.
    Truncated,
    /// An integer is too large.
    Integer,
    /// A text is not encoded by the rules of the Huffman code.
    Huffman,
}
