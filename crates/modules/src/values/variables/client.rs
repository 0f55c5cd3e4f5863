//! The connection.

use super::lists::{put, put_number, put_port};
use super::request::put_seconds;
use contract::{Exchange, Peer};
use std::net::{IpAddr, SocketAddr};

pub(crate) fn remote_addr(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    write_address(&exchange.connection.peer, out);
    true
}

pub(super) fn remote_port(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_port(exchange.connection.peer.port().filter(|&port| port > 0), out)
}

pub(super) fn binary_remote_addr(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    match &exchange.connection.peer {
        Peer::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => put(ip.octets(), out),
            IpAddr::V6(ip) => put(ip.octets(), out),
        },
        peer @ Peer::Unix(_) => put(peer.address(), out),
    }
}

pub(super) fn server_addr(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let local = &exchange.connection.local;
    write_address(local, out);
    match local {
        Peer::Unix(Some(path)) => put(path, out),
        _ => true,
    }
}

pub(super) fn server_port(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_port(exchange.connection.local.port().filter(|&port| port > 0), out)
}

pub(super) fn scheme(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(if exchange.connection.secure { "https" } else { "http" }, out)
}

pub(super) fn https(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(if exchange.connection.secure { "on" } else { "" }, out)
}

pub(super) fn connection(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_number(exchange.connection.serial, out)
}

pub(super) fn connection_requests(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_number(exchange.connection.requests.get(), out)
}

pub(super) fn connection_time(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put_seconds(exchange.connection.accepted.instant.elapsed(), out)
}

/// `rtt` and `rttvar` in microseconds, `snd_cwnd` in segments, `rcv_space` in bytes, of a TCP connection.
pub(super) fn tcpinfo(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(info) = exchange.connection.carrier.tcp_info() else {
        return false;
    };
    let value = match name {
        "rtt" => info.rtt_us,
        "rttvar" => info.rttvar_us,
        "snd_cwnd" => info.snd_cwnd,
        "rcv_space" => info.rcv_space,
        _ => return false,
    };
    put_number(value, out)
}

/// `p` for a request that came before the response to the one before it was sent, else `.`.
pub(super) fn pipe(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    put(if exchange.request.pipelined { "p" } else { "." }, out)
}

/// Appends what [`Peer::address`] gives.
fn write_address(peer: &Peer, out: &mut Vec<u8>) {
    match peer {
        Peer::Inet(SocketAddr::V4(address)) => {
            const LENGTH: usize = 4 * "255.".len();
            let (mut text, mut end) = ([0; LENGTH], 0);
            // What is not part of the text is written over.
            let mut put = |byte, counts: bool| {
                text[end % LENGTH] = byte;
                end += usize::from(counts);
            };
            for octet in address.ip().octets() {
                put(b'0' + octet / 100, octet >= 100);
                put(b'0' + octet / 10 % 10, octet >= 10);
                put(b'0' + octet % 10, true);
                put(b'.', true);
            }
            out.extend_from_slice(&text[..end - 1]);
        }
        other => out.extend_from_slice(other.address().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::write_address;
    use contract::Peer;

    #[test]
    fn addresses_are_written_as_they_are_shown() {
        for address in ["127.0.0.1:1", "255.10.0.200:80", "[::1]:2", "[2001:db8::a]:3"] {
            let mut out = b"x".to_vec();
            let peer = Peer::Inet(address.parse().unwrap());
            write_address(&peer, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{}", peer.address()));
        }
    }
}
