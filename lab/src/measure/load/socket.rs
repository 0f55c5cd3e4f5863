//! Sockets of clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::plan::Plan;

/// Opens a connection that does not block, and says whether it is there already. `client` is the number of the
/// client, which settles the address that it comes from.
pub(super) fn connect(plan: &Plan, client: usize) -> Result<(OwnedFd, bool), Errno> {
    let family = if plan.address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(source) = source(plan, client) {
        // Without this option every bind takes its own port, whatever the other end.
        nix::sys::socket::setsockopt(&socket, IpBindAddressNoPort, &true)
            .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match rustix::net::connect(&socket, &plan.address) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

/// The loopback address that a client comes from: 127.1.0.1 and those after it.
fn source(plan: &Plan, client: usize) -> Option<IpAddr> {
    if plan.sources < 2 {
        return None;
    }
    let index = u32::try_from(client).unwrap_or_default() % plan.sources;
    let first = Ipv4Addr::new(127, 1, 0, 1).to_bits();
    Some(Ipv4Addr::from_bits(first + index).into())
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn clients_come_from_the_sources_in_turn() {
        let many = Plan { sources: 300, ..plan() };
        let from = |client| source(&many, client).unwrap().to_string();
        assert_eq!(
            [from(0), from(1), from(299), from(300)],
            ["127.1.0.1", "127.1.0.2", "127.1.1.44", "127.1.0.1"]
        );
        assert_eq!(source(&plan(), 5), None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (_socket, _) = connect(&Plan { address: listener.local_addr().unwrap(), ..many }, 1).unwrap();
        assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.1.0.2");
    }
}
