//! What the machine is doing at this moment, as the kernel tells it.

use std::fs;
use std::time::Duration;

use crate::model::machine::kilobytes;

/// What all cores together did since the start, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// A second has so many ticks, on every Linux there is.
const TICKS_PER_S: f64 = 100.0;

impl Ticks {
    /// Until now.
    pub fn now() -> Ticks {
        Ticks::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Seconds that the hypervisor took from all cores.
    pub fn stolen_s(self) -> f64 {
        self.stolen as f64 / TICKS_PER_S
    }

    /// How busy the cores were since an earlier look: 100 is all of them. `None` where no tick has passed.
    pub fn percent_since(self, before: Ticks) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        (all > 0).then(|| self.busy.saturating_sub(before.busy) as f64 / all as f64 * 100.0)
    }

    /// How many cores were busy since an earlier look, so long ago.
    pub fn busy_cores(self, before: Ticks, passed: Duration) -> f64 {
        self.busy.saturating_sub(before.busy) as f64 / TICKS_PER_S / passed.as_secs_f64().max(f64::EPSILON)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn read(stat: &str) -> Ticks {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
        let busy = [0, 1, 2, 5, 6].map(at).iter().sum();
        Ticks { busy, stolen: at(7), all: busy + at(3) + at(4) + at(7) }
    }
}

/// Bytes of memory that nobody else could have: what `free` calls used.
pub fn used_memory_bytes() -> u64 {
    used_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn used_bytes(meminfo: &str) -> u64 {
    kilobytes(meminfo, "MemTotal").saturating_sub(kilobytes(meminfo, "MemAvailable")) * 1024
}

/// How many connections to a port are open at both ends, as their clients on this machine see them.
pub fn connections_to(port: u16) -> u32 {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().map(|table| established(table, port)).sum()
}

/// Behind a heading a line each: the number, the own address and port, those of the other end, the state; in hexadecimal.
fn established(table: &str, port: u16) -> u32 {
    let other_end = format!(":{port:04X}");
    let is_open = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        fields.next().is_some_and(|end| end.ends_with(&other_end)) && fields.next() == Some("01")
    };
    u32::try_from(table.lines().skip(1).filter(is_open).count()).unwrap_or(u32::MAX)
}

/// The load average of the last minute.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::Machine;

    #[test]
    fn memory_is_used_where_it_is_not_available() {
        assert_eq!(used_bytes("MemTotal:    24 kB\nMemFree: 1 kB\nMemAvailable:   20 kB\n"), 4096);
        assert!((1 << 20..Machine::this().memory_bytes).contains(&used_memory_bytes()));
    }

    #[test]
    fn open_connections_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        assert_eq!(connections_to(address.port()), 3);
        // One that the server has closed is not open any more, though the client has not closed it.
        let (first, _) = listener.accept().unwrap();
        drop(first);
        assert_eq!(connections_to(address.port()), 2);
        drop(clients);
    }

    #[test]
    fn cores_are_busy_idle_or_stolen() {
        let before = Ticks::read("cpu  10 0 10 70 5 1 1 3 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        let after = Ticks::read("cpu  30 5 25 100 10 6 6 18 4 0\n");
        assert_eq!(after.percent_since(before), Some(50.0));
        assert_eq!(after.stolen_s() - before.stolen_s(), 0.18 - 0.03);
        assert_eq!(after.percent_since(after), None);
        assert!(Ticks::now().percent_since(Ticks::read("")).is_some_and(|percent| percent <= 100.0));
    }
}
