//! What CPU and memory cost in a month, by the prices of `lab/prices.toml`.

use anyhow::Result;
use serde::Deserialize;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// The prices, and what is assumed with them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
    /// The currency, as it is printed before an amount.
    pub(super) currency: String,
    /// A core for a month.
    pub(super) core_month: f64,
    /// A GiB of memory for a month.
    pub(super) gib_month: f64,
    /// Where they come from.
    pub(super) source: String,
    /// How busy a core may be: 1 is always.
    pub(super) busy_max: f64,
    /// Memory of the system itself, in GiB.
    pub(super) system_gib: f64,
    /// Requests a second that are reckoned with.
    pub(super) rates: Vec<f64>,
    /// The machines that can be rented, the smallest first.
    machines: Vec<Machine>,
    /// The users of an application.
    pub(super) users: Users,
}

/// A machine that can be rented.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    cores: f64,
    gib: f64,
    month: f64,
}

/// The users of an application, and how often each of them loads a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Users {
    pub(super) count: u32,
    pub(super) page_every_s: f64,
    /// The name under which experiments state a published machine for as many users.
    pub(super) stated: String,
}

impl Users {
    /// Pages that all of them load in a second.
    pub(super) fn pages_per_s(&self) -> f64 {
        f64::from(self.count) / self.page_every_s
    }
}

impl Prices {
    /// The prices that the program brings along.
    pub(super) fn built_in() -> Result<Prices> {
        Ok(toml::from_str(include_str!("../../../prices.toml"))?)
    }

    /// Cores that so many requests a second keep busy as far as they may be.
    pub(super) fn cores(&self, rate: f64, cpu_us: f64) -> f64 {
        rate * cpu_us / 1e6 / self.busy_max
    }

    /// A month of those cores, and of the memory of the server and the system.
    pub(super) fn month(&self, rate: f64, cpu_us: f64, memory_bytes: f64) -> f64 {
        let memory_gib = memory_bytes / GIB + self.system_gib;
        self.cores(rate, cpu_us) * self.core_month + memory_gib * self.gib_month
    }

    /// The smallest machine with so many cores, and with room for the server and the system.
    pub(super) fn machine(&self, cores: f64, memory_bytes: f64) -> Option<&Machine> {
        let gib = memory_bytes / GIB + self.system_gib;
        self.machines.iter().find(|machine| machine.cores >= cores && machine.gib >= gib)
    }

    /// A machine in words, with its price.
    pub(super) fn named(&self, machine: &Machine) -> String {
        let Machine { cores, gib, month } = machine;
        format!("{cores} cores, {gib} GiB, {}{month} a month", self.currency)
    }

    /// An amount.
    pub(super) fn amount(&self, amount: f64) -> String {
        format!("{}{amount:.2}", self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_from_cpu_and_memory() {
        let prices = Prices {
            busy_max: 0.5,
            core_month: 10.0,
            gib_month: 2.0,
            system_gib: 1.0,
            ..Prices::built_in().unwrap()
        };
        // 10,000 requests of 50 µs keep half a core busy: one whole core at 50 %.
        assert!((prices.cores(10_000.0, 50.0) - 1.0).abs() < 1e-12);
        assert!((prices.month(10_000.0, 50.0, GIB) - 14.0).abs() < 1e-9);
        assert_eq!(prices.amount(14.0), "$14.00");
    }

    #[test]
    fn the_prices_give_the_machines_that_they_were_taken_from() {
        let prices = Prices::built_in().unwrap();
        assert_eq!(prices.machines.len(), 3);
        for Machine { cores, gib, month } in &prices.machines {
            assert_eq!(cores * prices.core_month + gib * prices.gib_month, *month);
        }
    }

    #[test]
    fn the_smallest_machine_has_the_cores_and_the_memory() {
        let prices = Prices::built_in().unwrap();
        let named = |cores, gib| prices.machine(cores, gib * GIB).map(|machine| prices.named(machine));
        assert_eq!(named(0.5, 0.3).unwrap(), "2 cores, 4 GiB, $18 a month");
        assert_eq!(named(2.5, 0.3).unwrap(), "4 cores, 8 GiB, $36 a month");
        assert_eq!(named(0.5, 3.6).unwrap(), "4 cores, 8 GiB, $36 a month", "the system needs half a GiB");
        assert_eq!(named(9.0, 1.0), None);
        assert_eq!(prices.users.pages_per_s().round(), 167.0);
    }
}
