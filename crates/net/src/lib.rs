//! Sockets, processes and signals: everything that needs the operating system's own words.
//!
//! The supervisor binds ([`mod@bind`]), forks ([`process`]), listens to signals ([`signal`]) and to `-s`
//! ([`control`]), talks to its worker ([`channel`]), and tells the service manager how it does ([`notify`]). The
//! worker gives up its privileges ([`identity`]) and its environment ([`environment`]), and accepts ([`Listener`])
//! clients and connects to servers ([`Stream`], [`Events`]), receives datagrams ([`DatagramPort`]) on the processors that it is given
//! ([`processors`]); its threads watch each other ([`threads`]). Listening sockets outlive both, even over the execution of a new binary ([`inherited`]). Logs are
//! files that lines are appended to ([`append`]) and receivers of datagrams ([`Datagrams`]); name servers
//! are asked in datagrams, too ([`Questions`]). Two workers with the same UDP sockets pass datagrams to each other
//! ([`DatagramLink`]).
//!
//! This is the only crate with `unsafe` code; each block says why it is sound.

pub mod address;
pub mod append;
pub mod bind;
pub mod bound;
mod cgroup;
pub mod channel;
pub mod control;
pub mod datagram;
pub mod datagram_link;
pub mod datagram_port;
mod endpoint;
pub mod environment;
pub mod errno;
pub mod events;
mod file_identity;
pub mod host;
pub mod identity;
pub mod inherited;
pub mod listener;
pub mod notify;
mod peer;
pub mod pipe;
pub mod process;
pub mod processors;
pub mod shared_bytes;
pub mod signal;
pub mod splice;
pub mod stream;
pub mod tcp_info;
pub mod temporary;
#[cfg(test)]
mod testing;
pub mod threads;

pub use address::SocketAddress;
pub use bind::{BindError, bind};
pub use bound::{BoundSocket, KeepAlive, ListenOptions};
pub use datagram::{Datagrams, Questions};
pub use datagram_link::{AsyncDatagramLink, DatagramLink, LinkMessage, StrayDatagram};
pub use datagram_port::{Arrival, DatagramPort, Ecn, ReceiveRoom};
pub use endpoint::{Endpoint, SocketType};
pub use errno::system_message;
pub use events::{Events, events_moment, moment};
pub use file_identity::FileIdentity;
pub use listener::Listener;
pub use peer::Peer;
pub use pipe::{is_pipe, read_pipe};
pub use shared_bytes::SharedBytes;
pub use splice::{Duplex, PIPE_BYTES, Pipe};
pub use stream::{ConnectOptions, Stream};
pub use tcp_info::{Carrier, SocketProbe, TcpInfo};
