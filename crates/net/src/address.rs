//! Addresses of stream sockets: Internet and Unix domain.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use socket2::SockAddr;

/// The address of a listener, or of either end of a connection.
///
/// It is displayed as configurations and logs write it: `127.0.0.1:80`, `[::1]:80`, `unix:/run/x.sock`,
/// `unix:@name` (abstract) and `unix:` (a client that has no name).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketAddress {
    /// An IPv4 or IPv6 address and a port.
    Inet(SocketAddr),
    /// The path of a Unix domain socket; empty for a socket without a name.
    Unix(PathBuf),
    /// A name in Linux's abstract namespace, without the leading NUL, see unix(7).
    Abstract(Vec<u8>),
}

impl SocketAddress {
    /// Whether this is a Unix domain address, named or not.
    pub fn is_unix(&self) -> bool {
        !matches!(self, SocketAddress::Inet(_))
    }

    /// The IP address, none for Unix domain sockets.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            SocketAddress::Inet(address) => Some(address.ip()),
            _ => None,
        }
    }

    /// The port, none for Unix domain sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            SocketAddress::Inet(address) => Some(address.port()),
            _ => None,
        }
    }

    /// The address as the kernel takes it; an error if a path is longer than 107 bytes.
    pub(crate) fn to_kernel(&self) -> io::Result<SockAddr> {
        match self {
            SocketAddress::Inet(address) => Ok(SockAddr::from(*address)),
            SocketAddress::Unix(path) => SockAddr::unix(path),
            SocketAddress::Abstract(name) => {
                let mut path = vec![0];
                path.extend_from_slice(name);
                SockAddr::unix(OsStr::from_bytes(&path))
            }
        }
    }

    /// The address that the kernel gave, none for families other than IPv4, IPv6 and Unix.
    pub(crate) fn from_kernel(address: &SockAddr) -> Option<SocketAddress> {
        if let Some(inet) = address.as_socket() {
            return Some(SocketAddress::Inet(inet));
        }
        if !address.is_unix() {
            return None;
        }
        Some(unix(address.as_pathname(), address.as_abstract_namespace()))
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        SocketAddress::Inet(address)
    }
}

impl From<tokio::net::unix::SocketAddr> for SocketAddress {
    fn from(address: tokio::net::unix::SocketAddr) -> Self {
        unix(address.as_pathname(), address.as_abstract_name())
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Inet(SocketAddr::V4(address)) => write!(f, "{address}"),
            // The scope of a link-local address is not written.
            SocketAddress::Inet(SocketAddr::V6(address)) => {
                write!(f, "[{}]:{}", address.ip(), address.port())
            }
            SocketAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            SocketAddress::Abstract(name) => write!(f, "unix:@{}", String::from_utf8_lossy(name)),
        }
    }
}

pub(crate) fn unix(path: Option<&Path>, abstract_name: Option<&[u8]>) -> SocketAddress {
    match (path, abstract_name) {
        (Some(path), _) => SocketAddress::Unix(path.to_owned()),
        (None, Some(name)) => SocketAddress::Abstract(name.to_owned()),
        (None, None) => SocketAddress::Unix(PathBuf::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(text: &str) -> SocketAddress {
        SocketAddress::Inet(text.parse().unwrap())
    }

    #[test]
    fn displayed_as_configurations_write_it() {
        assert_eq!(inet("0.0.0.0:80").to_string(), "0.0.0.0:80");
        assert_eq!(inet("[::]:80").to_string(), "[::]:80");
        assert_eq!(inet("[fe80::1%2]:80").to_string(), "[fe80::1]:80");
        assert_eq!(SocketAddress::Unix("/run/x".into()).to_string(), "unix:/run/x");
        assert_eq!(SocketAddress::Unix("".into()).to_string(), "unix:");
        assert_eq!(SocketAddress::Abstract(b"x".to_vec()).to_string(), "unix:@x");
    }

    #[test]
    fn survives_the_kernels_form() {
        let path = SocketAddress::Unix("/run/x".into());
        let name = SocketAddress::Abstract(b"a\0b".to_vec());
        for address in [inet("127.0.0.1:8"), inet("[::1]:9"), path, name] {
            let kernel = address.to_kernel().unwrap();
            assert_eq!(SocketAddress::from_kernel(&kernel), Some(address));
        }
        assert!(SocketAddress::Unix("/x".repeat(60).into()).to_kernel().is_err());
    }
}
