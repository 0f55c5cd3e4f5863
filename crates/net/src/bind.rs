//! Opening listening sockets.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::address::SocketAddress;
use crate::bound::{BoundSocket, ListenOptions};
use crate::errno::system_message;

/// An address could not be listened on. The text is what logs say, without level and position.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A system call failed: `bind() to 0.0.0.0:80 failed (98: Address already in use)`.
    #[error("{call} {address} failed ({})", system_message(source))]
    Call {
        /// The call, with the preposition that precedes the address: `bind() to`.
        call: &'static str,
        /// The address that was asked for.
        address: SocketAddress,
        /// The reason.
        source: io::Error,
    },
    /// Another process kept the address during all attempts of [`bind_all`].
    #[error("still could not bind()")]
    StillInUse,
}

impl BindError {
    /// Whether another process holds the address, which waiting may cure.
    pub fn is_in_use(&self) -> bool {
        match self {
            BindError::Call { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            BindError::StillInUse => true,
        }
    }
}

/// One address for [`bind_all`].
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where to listen.
    pub address: SocketAddress,
    /// How to listen.
    pub options: ListenOptions,
    /// Sockets to share the port among; Unix domain sockets are always one.
    pub count: usize,
}

/// How often and after which pauses [`bind_all`] tries again what is in use.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Attempts in all, at least one.
    pub tries: u32,
    /// The time between two attempts.
    pub pause: Duration,
}

impl Default for Patience {
    /// Five attempts, half a second apart.
    fn default() -> Self {
        Patience { tries: 5, pause: Duration::from_millis(500) }
    }
}

/// What [`bind_all`] tells while it works.
#[derive(Debug)]
pub enum Notice<'a> {
    /// An address could not be bound; it is tried again if it was only in use.
    Failed(&'a BindError),
    /// The pause before the next attempt begins: `try again to bind() after 500ms`.
    Retrying(Duration),
}

/// Opens `count` listening sockets that share one address.
///
/// The first is bound without SO_REUSEPORT, so that a port which another process listens on, be it another
/// Fulmar, is an error and no silent sharing; the others join it. A Unix domain address has one socket,
/// with mode 0666; a path that exists is in use, even if no process listens there.
pub fn bind(
    address: &SocketAddress,
    options: &ListenOptions,
    count: usize,
) -> Result<Vec<BoundSocket>, BindError> {
    let first = open(address, options, false)?;
    let shared = !address.is_unix() && (count > 1 || options.reuseport);
    if !shared {
        return Ok(vec![first]);
    }
    // Only after listen(): between a bind() and a listen() of two sockets that both had the flag, both would
    // succeed.
    first.set_reuseport().map_err(failure("setsockopt(SO_REUSEPORT)", address))?;
    let mut sockets = vec![first];
    let joined = grow(&sockets, options, count.saturating_sub(1))?;
    sockets.extend(joined);
    Ok(sockets)
}

/// Opens `additional` sockets that join the sockets of one address, and returns these.
///
/// For Unix domain sockets, and if there is none to join, there is nothing to open. An error leaves the
/// existing sockets as they were, apart from being open to further ones.
pub fn grow(
    existing: &[BoundSocket],
    options: &ListenOptions,
    additional: usize,
) -> Result<Vec<BoundSocket>, BindError> {
    let Some(address) = existing.first().map(BoundSocket::address).filter(|address| !address.is_unix())
    else {
        return Ok(Vec::new());
    };
    if additional > 0 {
        for socket in existing {
            socket.set_reuseport().map_err(failure("setsockopt(SO_REUSEPORT)", address))?;
        }
    }
    (0..additional).map(|_| open(address, options, true)).collect()
}

/// Opens the sockets of all addresses, with patience for those in use: a list for each of `wanted`.
///
/// Everything but an address in use ends it at once. Without success nothing stays open, and paths of Unix
/// domain sockets are removed again.
pub fn bind_all(
    wanted: &[Wanted],
    patience: Patience,
    mut notice: impl FnMut(Notice<'_>),
) -> Result<Vec<Vec<BoundSocket>>, BindError> {
    let mut opened: Vec<Vec<BoundSocket>> = wanted.iter().map(|_| Vec::new()).collect();
    for attempt in 1..=patience.tries.max(1) {
        if attempt > 1 {
            notice(Notice::Retrying(patience.pause));
            pause(patience.pause);
        }
        for (sockets, Wanted { address, options, count }) in opened.iter_mut().zip(wanted) {
            if !sockets.is_empty() {
                continue;
            }
            match bind(address, options, *count) {
                Ok(bound) => *sockets = bound,
                Err(error) => {
                    notice(Notice::Failed(&error));
                    if !error.is_in_use() {
                        remove_paths(&opened);
                        return Err(error);
                    }
                }
            }
        }
        if opened.iter().all(|sockets| !sockets.is_empty()) {
            return Ok(opened);
        }
    }
    remove_paths(&opened);
    Err(BindError::StillInUse)
}

/// Tries whether an address can be bound, for the test of a configuration; leaves nothing behind.
///
/// An address in use is fine: the running server may be what uses it.
pub fn check(address: &SocketAddress, options: &ListenOptions) -> Result<(), BindError> {
    match open(address, options, false) {
        Ok(socket) => {
            remove_path(&socket);
            Ok(())
        }
        Err(error) if error.is_in_use() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the path of a Unix domain socket that nobody will accept on any more.
///
/// For the supervisor that ends, or drops an address, and passed its sockets to no other process.
pub fn remove_path(socket: &BoundSocket) {
    if let SocketAddress::Unix(path) = socket.address() {
        // A path that somebody else removed is what was wanted.
        drop(fs::remove_file(path));
    }
}

fn open(address: &SocketAddress, options: &ListenOptions, reuseport: bool) -> Result<BoundSocket, BindError> {
    let kernel_address = address.to_kernel().map_err(failure("address", address))?;
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket =
        Socket::new_raw(kernel_address.domain(), kind, None).map_err(failure("socket()", address))?;
    socket.set_reuse_address(true).map_err(failure("setsockopt(SO_REUSEADDR)", address))?;
    if reuseport {
        socket.set_reuse_port(true).map_err(failure("setsockopt(SO_REUSEPORT)", address))?;
    }
    if kernel_address.domain() == Domain::IPV6 {
        socket.set_only_v6(options.ipv6only).map_err(failure("setsockopt(IPV6_V6ONLY)", address))?;
    }
    socket.bind(&kernel_address).map_err(failure("bind() to", address))?;
    let socket = BoundSocket::new(socket).map_err(failure("getsockname()", address))?;
    // From here on the path of a Unix domain socket is ours to remove.
    allow_everybody(address)
        .map_err(failure("chmod()", address))
        .and_then(|()| socket.configure(options).map_err(failure("listen() to", address)))
        .inspect_err(|_| remove_path(&socket))?;
    Ok(socket)
}

fn allow_everybody(address: &SocketAddress) -> io::Result<()> {
    match address {
        SocketAddress::Unix(path) => fs::set_permissions(path, Permissions::from_mode(0o666)),
        _ => Ok(()),
    }
}

fn remove_paths(opened: &[Vec<BoundSocket>]) {
    opened.iter().flatten().for_each(remove_path);
}

#[expect(clippy::disallowed_methods, reason = "the supervisor has no connection that would wait")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn failure<'a>(call: &'static str, address: &'a SocketAddress) -> impl Fn(io::Error) -> BindError + 'a {
    move |source| BindError::Call { call, address: address.clone(), source }
}
