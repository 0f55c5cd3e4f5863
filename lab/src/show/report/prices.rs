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
        for (cores, gib, month) in [(2.0, 4.0, 18.0), (4.0, 8.0, 36.0), (8.0, 16.0, 72.0)] {
            assert_eq!(cores * prices.core_month + gib * prices.gib_month, month);
        }
    }
}
