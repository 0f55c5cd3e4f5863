//! Sockets, processes and signals: everything that needs the operating system's own words.
//!
//! The supervisor binds ([`mod@bind`]), forks ([`process`]), listens to signals ([`signal`]) and to `-s`
//! ([`control`]), and talks to its worker ([`channel`]). The worker gives up its privileges
//! ([`identity`]) and accepts ([`Listener`]) streams ([`Stream`]). Listening sockets outlive both, even
//! over the execution of a new binary ([`inherited`]).
//!
//! This is the only crate with `unsafe` code; each block says why it is sound.

pub mod address;
pub mod append;
pub mod bind;
pub mod bound;
pub mod channel;
pub mod control;
pub mod datagram;
pub mod errno;
pub mod host;
pub mod identity;
pub mod inherited;
pub mod listener;
pub mod process;
pub mod signal;
pub mod stream;
#[cfg(test)]
mod testing;

pub use address::SocketAddress;
pub use bind::{BindError, bind};
pub use bound::{BoundSocket, KeepAlive, ListenOptions};
pub use datagram::Datagrams;
pub use errno::system_message;
pub use listener::Listener;
pub use stream::Stream;
