//! The Domain Name System as a client speaks it (RFC 1035), as pure code: bytes in, answers and bytes out. No socket and
//! no clock.
//!
//! A [`Query`] asks one server after another for the addresses of a [`Name`] or for its services (RFC 2782): it writes
//! the messages to send, and reads those that come. A message counts only if it repeats the random id and the
//! question. What was found is kept in a [`Cache`] for as long as it is valid.

#![forbid(unsafe_code)]

mod cache;
mod error;
mod message;
mod name;
mod query;
#[cfg(test)]
mod testing;

pub use cache::Cache;
pub use error::{Code, Unusable};
pub use message::{Kind, Service};
pub use name::Name;
pub use query::{Answer, Found, Part, Query, Wanted};
