//! The bytes of a cookie, and how they are written.

use super::Form;
use contract::{Exchange, Peer};
use journal::clock::Time;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The 16 bytes of a cookie. The last four are never all 0.
pub(super) type Uid = [u8; 16];

/// A cookie that no other client has.
pub(super) fn create(exchange: &Exchange, (form, service): (Form, Option<u32>)) -> Uid {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    static START: OnceLock<u32> = OnceLock::new();
    let start = *START.get_or_init(|| low(RandomState::new().hash_one(std::process::id())));
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x100);
    // It wraps in 2106.
    let now = low(Time::now().seconds.unsigned_abs());
    let address = match &exchange.connection.local {
        Peer::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(ip) => [12, 13, 14, 15].map(|at: usize| ip.octets()[at]),
        },
        Peer::Unix(_) => [0; 4],
    };
    let words = match form {
        Form::V1 => {
            let service = service.unwrap_or(0);
            [service, now, start, serial | 1].map(u32::to_ne_bytes)
        }
        _ => {
            let service = service.map_or(address, u32::to_be_bytes);
            let [now, start] = [now, start].map(u32::to_be_bytes);
            [service, now, start, (serial.wrapping_add(0x0303_0302) | 2).to_be_bytes()]
        }
    };
    let mut uid = [0; 16];
    uid.iter_mut().zip(words.as_flattened()).for_each(|(byte, from)| *byte = *from);
    uid
}

/// The low 32 bits of a number.
fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0)
}

/// A cookie as variables and logs show it.
pub(super) fn hexadecimal(name: &str, uid: &Uid) -> String {
    let (words, _) = uid.as_chunks::<4>();
    let words: String = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{name}={words}")
}
