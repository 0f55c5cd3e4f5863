//! The vocabulary of HTTP (RFC 9110): methods, status codes, field lists, request and response heads, dates, URIs.
//!
//! This crate parses no protocol and does no I/O. Text from the wire stays bytes: HTTP fields have no character set, and
//! nginx's variables pass them on unchanged.

#![forbid(unsafe_code)]

pub mod base64;
pub mod browser;
mod date;
pub mod escape;
mod fields;
pub mod hash;
mod head_error;
pub mod hex;
mod known;
pub mod list;
mod memo;
mod method;
pub mod multiplexed;
mod number;
mod priority;
mod request;
mod response;
pub mod semantics;
mod status;
mod types;
pub mod uri;
mod version;
pub mod words;

pub use date::{HTTP_DATE_LENGTH, date_text, format_date, parse_date, parse_exact_date};
pub use fields::{Field, Fields, InvalidField, Repeated, breaks_framing};
pub use head_error::HeadError;
pub use known::KnownName;
pub use memo::{HeadMemo, HeadText, Places};
pub use method::Method;
pub use number::{parse_number, write_hexadecimal, write_number};
pub use priority::{EarlyPriorities, Priority};
pub use request::RequestHead;
pub use response::ResponseHead;
pub use status::Status;
pub use types::TypesByExtension;
pub use version::Version;
