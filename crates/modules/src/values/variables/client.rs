//! The connection.

use super::lists::{put, put_number, put_port};
use super::request::put_seconds;
use contract::{Exchange, Peer};
use net::TcpInfo;
use std::net::IpAddr;

pub(crate) fn remote_addr(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    exchange.connection.peer.write_address(out);
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
    local.write_address(out);
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
    let Some(info) = exchange.connection.socket.and_then(|socket| TcpInfo::of(socket).ok()) else {
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
