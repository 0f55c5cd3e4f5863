//! What bytes travel over, for clients and for other servers alike: a stream in clear or encrypted ([`Transport`]), the
//! memory that connections borrow while they are not idle ([`Buffer`]), their deadlines ([`Timer`], [`PreciseTimer`]), their limits
//! ([`Throttle`]), files for what is too long for memory ([`Spool`]), and jobs off the event loop ([`Job`]).
#![forbid(unsafe_code)]

mod buffer;
mod job;
pub mod memory;
mod precise;
mod reading;
mod spool;
#[cfg(test)]
mod testing;
mod throttle;
mod timer;
mod transport;
mod vacancies;

pub use buffer::{Buffer, with_datagram_room, with_room};
pub use job::Job;
pub use precise::PreciseTimer;
pub use reading::{Ready, read_ready};
pub use spool::{FileName, Spool};
pub use throttle::{Throttle, Trickle};
pub use timer::{Elapsed, Timer, Timers};
pub use transport::{Encrypted, Opening, Transport};
pub use vacancies::Vacancies;
