//! What all `.htaccess` files together may cost one request.

use crate::Exchange;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Units of work that one request may take. A comparison is a unit; a pattern or a text is [`Budget::STEP`] units.
const UNITS: u32 = 1_000_000;

/// Time on the processor that one request may take, in nanoseconds: 50 milliseconds.
const CPU_NS: u64 = 50_000_000;

/// After so many units the clock is read.
const UNITS_PER_LOOK: u32 = 256;

/// What is left of one request's budget. A request that is sent on inside of the server keeps its budget.
#[derive(Debug, Default)]
pub struct Budget {
    units: Cell<u32>,
    cpu_ns: Cell<u64>,
    /// The units when the clock was read last, and its time; `None` while something else runs.
    last_look: Cell<Option<(u32, u64)>>,
    is_running: Cell<bool>,
    told: Cell<bool>,
}

/// The budget of a request is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rules and patterns in .htaccess files take too long for one request")
    }
}

/// Work that a [`Budget`] pays for.
#[derive(Debug)]
pub struct Running<'b> {
    budget: &'b Budget,
    is_outermost: bool,
}

impl Budget {
    /// Units for a pattern, a text or a KiB of one.
    pub const STEP: u32 = 16;

    /// The budget of a request.
    pub fn of(exchange: &Exchange) -> Rc<Budget> {
        Rc::clone(&exchange.kept().budget)
    }

    /// Counts the time from now on, until what is returned is dropped.
    pub fn run(&self) -> Running<'_> {
        Running { budget: self, is_outermost: !self.is_running.replace(true) }
    }

    /// Pays for some units of work.
    ///
    /// # Errors
    /// [`Spent`].
    pub fn spend(&self, units: u32) -> Result<(), Spent> {
        let used = self.units.get().saturating_add(units);
        self.units.set(used);
        if used > UNITS || self.cpu_ns.get() > CPU_NS {
            return Err(Spent);
        }
        match self.last_look.get() {
            Some((then, _)) if used - then < UNITS_PER_LOOK => Ok(()),
            // Small files take no time to speak of. Outside of a run, other requests may have the thread between two steps.
            None if used < UNITS_PER_LOOK || !self.is_running.get() => Ok(()),
            None if units < UNITS_PER_LOOK => {
                self.last_look.set(Some((used, cpu_ns())));
                Ok(())
            }
            _ => self.look(),
        }
    }

    /// Pays for a step that goes through so many bytes.
    ///
    /// # Errors
    /// [`Spent`].
    pub fn step(&self, bytes: usize) -> Result<(), Spent> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        self.spend(Budget::STEP.saturating_mul(kib.saturating_add(1)))
    }

    /// Does work of unknown length, and charges its time.
    ///
    /// # Errors
    /// [`Spent`], before or after the work.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> Result<T, Spent> {
        self.step(0)?;
        self.look()?;
        let result = work();
        let looked = self.look();
        if !self.is_running.get() {
            self.last_look.set(None);
        }
        looked.map(|()| result)
    }

    /// Whether the log needs a message: once for each request.
    pub fn tell(&self) -> bool {
        !self.told.replace(true)
    }

    /// Adds the time since the clock was read last.
    fn look(&self) -> Result<(), Spent> {
        let now = cpu_ns();
        if let Some((_, then)) = self.last_look.get() {
            self.cpu_ns.set(self.cpu_ns.get().saturating_add(now.saturating_sub(then)));
        }
        self.last_look.set(Some((self.units.get(), now)));
        if self.cpu_ns.get() > CPU_NS { Err(Spent) } else { Ok(()) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_outermost {
            return;
        }
        if self.budget.last_look.get().is_some() {
            // The next piece of work finds out whether the budget is spent.
            let _ = self.budget.look();
        }
        self.budget.last_look.set(None);
        self.budget.is_running.set(false);
    }
}

/// The time that this thread has had of a processor: what other programs do to a busy machine costs a request nothing.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::{Budget, CPU_NS, Spent, UNITS, UNITS_PER_LOOK, cpu_ns};

    #[test]
    fn units_come_to_an_end() {
        let steps = |bytes: usize| {
            let budget = Budget::default();
            (0..).take_while(|_| budget.step(bytes).is_ok()).count()
        };
        assert_eq!((steps(0), steps(1024), steps(64 * 1024)), (62_500, 31_250, 961));
        let budget = Budget::default();
        assert!(
            budget.spend(UNITS).is_ok() && budget.spend(1) == Err(Spent) && budget.spend(0) == Err(Spent)
        );
    }

    #[test]
    fn time_comes_to_an_end() {
        let budget = Budget::default();
        let work = || {
            let end = cpu_ns() + CPU_NS / 4;
            while cpu_ns() < end {}
        };
        let turns = (0..).take_while(|_| budget.timed(work).is_ok()).count();
        assert!(turns < 4 && budget.spend(0) == Err(Spent), "{turns}");
    }

    #[test]
    fn what_others_do_is_free() {
        let budget = Budget::default();
        for _ in 0..8 {
            let running = budget.run();
            budget.step(0).unwrap();
            drop(running);
            let end = cpu_ns() + CPU_NS / 4;
            while cpu_ns() < end {}
        }
        assert!(budget.cpu_ns.get() < CPU_NS / 2);
    }

    #[test]
    fn steps_outside_of_a_run_cost_no_time() {
        let budget = Budget::default();
        let burn = || {
            let end = cpu_ns() + CPU_NS / 4;
            while cpu_ns() < end {}
        };
        for _ in 0..8 {
            budget.spend(UNITS_PER_LOOK / 2).unwrap();
            burn();
        }
        assert_eq!(budget.cpu_ns.get(), 0);
        let outer = budget.run();
        drop(budget.run());
        budget.spend(UNITS_PER_LOOK / 2).unwrap();
        burn();
        drop(outer);
        assert!(budget.cpu_ns.get() >= CPU_NS / 4, "the inner run ended the outer one");
    }

    #[test]
    fn the_log_is_told_once() {
        let budget = Budget::default();
        assert!(budget.tell() && !budget.tell());
    }
}
