//! What bytes travel over, for clients and for other servers alike: a stream in clear or encrypted ([`Transport`]), the
//! memory that connections borrow while they are not idle ([`Buffer`]), and their deadlines ([`Timer`]).
#![forbid(unsafe_code)]

mod buffer;
pub mod memory;
#[cfg(test)]
mod testing;
mod timer;
mod transport;
mod vacancies;

pub use buffer::Buffer;
pub use timer::{Elapsed, Timer, Timers};
pub use transport::{Encrypted, Opening, Transport};
pub use vacancies::Vacancies;
