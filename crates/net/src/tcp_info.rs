//! What the kernel knows of a TCP connection, see tcp(7), `TCP_INFO`.

use nix::libc;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// How a connection fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The time of a way there and back, in microseconds.
    pub rtt_us: u32,
    /// How much that varies, in microseconds.
    pub rttvar_us: u32,
    /// How many segments may be on their way.
    pub snd_cwnd: u32,
    /// How much the peer may send, in bytes.
    pub rcv_space: u32,
}

/// Asks the kernel about a stream for those that cannot reach it. It gives no access to the bytes.
///
/// The probe does not keep the socket open: after the stream is closed, the probe must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketProbe(RawFd);

/// What carries the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A stream, about whose socket the kernel can be asked.
    Stream(SocketProbe),
    /// Datagrams of UDP, which are the content themselves. Other clients use the same socket.
    Datagrams,
    /// Something else, or nothing that the kernel can be asked about.
    Other,
}

impl Carrier {
    /// How the connection fares; none if it is not a TCP connection.
    pub fn tcp_info(self) -> Option<TcpInfo> {
        match self {
            Carrier::Stream(probe) => probe.tcp_info().ok(),
            Carrier::Datagrams | Carrier::Other => None,
        }
    }
}

impl SocketProbe {
    /// A probe of this socket.
    pub fn of(socket: &impl AsFd) -> SocketProbe {
        SocketProbe(socket.as_fd().as_raw_fd())
    }

    /// How the connection fares. Fails if it is not a TCP connection.
    pub fn tcp_info(self) -> io::Result<TcpInfo> {
        TcpInfo::of(self.0)
    }
}

impl TcpInfo {
    /// Asks about the socket of this number. Fails if it is not a TCP socket.
    #[allow(unsafe_code)]
    fn of(socket: RawFd) -> io::Result<TcpInfo> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut size = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).map_err(io::Error::other)?;
        // SAFETY: the pointers are to `info` and to its size, beyond which the kernel does not write; a number
        // that is no open socket is an error.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all of it is numbers, which zeros are, too, where the kernel wrote less.
        let info = unsafe { info.assume_init() };
        Ok(TcpInfo {
            rtt_us: info.tcpi_rtt,
            rttvar_us: info.tcpi_rttvar,
            snd_cwnd: info.tcpi_snd_cwnd,
            rcv_space: info.tcpi_rcv_space,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SocketProbe, TcpInfo};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_tcp_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = SocketProbe::of(&stream).tcp_info().unwrap();
        assert!(info.snd_cwnd > 0 && info.rcv_space > 0, "{info:?}");
        let (pair, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(SocketProbe::of(&pair).tcp_info().is_err());
        assert!(TcpInfo::of(-1).is_err());
    }
}
