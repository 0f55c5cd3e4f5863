//! What all `.htaccess` files together may cost one request.

use crate::shares::{self, Account, Offence, Place, SLICE_NS};
use http::{Fields, Status};
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Units of work that one request may take. A comparison is a unit; a pattern or a text is [`Budget::STEP`] units.
const UNITS: u32 = 1_000_000;

/// Time on the processor that one request may take, in nanoseconds: 50 milliseconds.
const CPU_NS: u64 = 50_000_000;

/// After so many units the clock is read.
const UNITS_PER_LOOK: u32 = 256;

/// Who pays for a request.
pub trait Payer {
    /// The site.
    fn account(&self) -> Account;

    /// How many shares the site has: time costs it this part of what it costs a site with 1.
    fn share(&self) -> u64;

    /// The client and the rules.
    fn offence(&self) -> Offence;
}

/// What is left of one request's budget. A request that is sent on inside of the server keeps its budget.
pub struct Budget<P> {
    units: Cell<u32>,
    cpu_ns: Cell<u64>,
    /// What was used when the request yielded last, in nanoseconds.
    slice_start_ns: Cell<u64>,
    /// The units when the clock was read last, and its time; `None` while something else runs.
    last_look: Cell<Option<(u32, u64)>>,
    is_running: Cell<bool>,
    told: Cell<bool>,
    payer: RefCell<Option<P>>,
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
pub struct Running<'b, P: Payer> {
    budget: &'b Budget<P>,
    is_outermost: bool,
}

/// Work off the event loop makes no client wait: so much of its time costs as much as one part of it on the event loop.
const OFF_LOOP: u64 = 8;

/// What a budget lends to work off the event loop.
#[derive(Debug, Default)]
pub struct Lent {
    units: u32,
    cpu_ns: u64,
}

impl<P> Default for Budget<P> {
    fn default() -> Budget<P> {
        Budget {
            units: Cell::default(),
            cpu_ns: Cell::default(),
            slice_start_ns: Cell::default(),
            last_look: Cell::default(),
            is_running: Cell::default(),
            told: Cell::default(),
            payer: RefCell::default(),
        }
    }
}

impl<P: Payer> Budget<P> {
    /// Units for a pattern, a text or a KiB of one.
    pub const STEP: u32 = 16;

    /// Lets the site, the client and the rules of this use pay, unless they pay already.
    pub fn charge_to(&self, pays_already: impl FnOnce(&P) -> bool, payer: impl FnOnce() -> P) {
        let mut known = self.payer.borrow_mut();
        if !known.as_ref().is_some_and(pays_already) {
            *known = Some(payer());
        }
    }

    /// Counts the time from now on, until what is returned is dropped.
    pub fn run(&self) -> Running<'_, P> {
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
            return Err(self.exhaust());
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
        self.spend(Self::STEP.saturating_mul(kib.saturating_add(1)))
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

    /// Whether the request has used a slice of time, after which it yields. The next slice begins then.
    pub fn ends_slice(&self) -> bool {
        let used = self.cpu_ns.get();
        let is_over = used.saturating_sub(self.slice_start_ns.get()) >= SLICE_NS;
        if is_over {
            self.slice_start_ns.set(used);
        }
        is_over
    }

    /// Whether the log needs a message: once for each request.
    pub fn tell(&self) -> bool {
        !self.told.replace(true)
    }

    /// The status of a request whose budget is spent. `Retry-After` says how long a client that has a penalty should wait.
    pub fn refusal(&self, fields: &mut Fields) -> Status {
        match self.offence().and_then(shares::penalty).filter(|_| self.cpu_ns.get() == u64::MAX) {
            Some(seconds) => {
                fields.remove("retry-after");
                let _ = fields.push(b"Retry-After", seconds.to_string().as_bytes());
                Status::SERVICE_UNAVAILABLE
            }
            None => Status::INTERNAL_SERVER_ERROR,
        }
    }

    /// What is left, for work off the event loop.
    pub fn lend(&self) -> Lent {
        Lent { units: self.units.get(), cpu_ns: self.cpu_ns.get() }
    }

    /// Pays for work that was done off the event loop.
    ///
    /// # Errors
    /// [`Spent`].
    pub fn take_back(&self, lent: &Lent) -> Result<(), Spent> {
        let more = lent.cpu_ns.saturating_sub(self.cpu_ns.get());
        self.units.set(self.units.get().max(lent.units));
        self.charge(more)?;
        self.spend(0)
    }

    /// Adds the time since the clock was read last.
    fn look(&self) -> Result<(), Spent> {
        let now = cpu_ns();
        let then = self.last_look.replace(Some((self.units.get(), now)));
        self.charge(then.map_or(0, |(_, then)| now.saturating_sub(then)))
    }

    /// Adds time. What is more than a slice is charged to the site.
    fn charge(&self, ns: u64) -> Result<(), Spent> {
        let before = self.cpu_ns.get();
        let used = before.saturating_add(ns);
        self.cpu_ns.set(used);
        if used <= SLICE_NS {
            return Ok(());
        }
        if let Some(payer) = &*self.payer.borrow() {
            let new = if before > SLICE_NS { ns } else { used };
            shares::charge(payer.account(), new / payer.share().max(1));
        }
        if used > CPU_NS {
            return Err(self.exhaust());
        }
        if self.offence().and_then(shares::penalty).is_some() {
            self.cpu_ns.set(u64::MAX);
            return Err(Spent);
        }
        Ok(())
    }

    /// Notes whose budget is spent, unless that was for an earlier request.
    #[cold]
    fn exhaust(&self) -> Spent {
        if let Some(offence) = self.offence().filter(|_| self.cpu_ns.get() != u64::MAX && !self.told.get()) {
            shares::penalise(offence);
        }
        Spent
    }

    /// The place of the request among those that yield. A client with a penalty is the last.
    pub fn place(&self) -> Place {
        let is_penalised = self.offence().and_then(shares::penalty).is_some();
        Place { account: self.account(), used_ns: if is_penalised { u64::MAX } else { self.cpu_ns.get() } }
    }

    /// The site that pays.
    fn account(&self) -> Account {
        self.payer.borrow().as_ref().map_or(0, Payer::account)
    }

    /// The client and the rules.
    fn offence(&self) -> Option<Offence> {
        self.payer.borrow().as_ref().map(Payer::offence)
    }
}

impl Lent {
    /// Does a part of the work, and charges its units and its time.
    ///
    /// # Errors
    /// [`Spent`].
    pub fn work<P: Payer, T>(
        &mut self,
        work: impl FnOnce(&Budget<P>) -> Result<T, Spent>,
    ) -> Result<T, Spent> {
        let budget = Budget::default();
        budget.units.set(self.units);
        let running = budget.run();
        let result = budget.look().and_then(|()| work(&budget));
        drop(running);
        self.units = budget.units.get();
        self.cpu_ns = self.cpu_ns.saturating_add(budget.cpu_ns.get() / OFF_LOOP);
        if self.cpu_ns > CPU_NS { Err(Spent) } else { result }
    }
}

impl<P: Payer> Drop for Running<'_, P> {
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
    use super::{
        Account, CPU_NS, Fields, Offence, Payer, SLICE_NS, Spent, Status, UNITS, UNITS_PER_LOOK, cpu_ns,
        shares,
    };

    impl Payer for (Account, Offence) {
        fn account(&self) -> Account {
            self.0
        }

        /// Site 8 has four shares.
        fn share(&self) -> u64 {
            if self.0 == 8 { 4 } else { 1 }
        }

        fn offence(&self) -> Offence {
            self.1
        }
    }

    type Budget = super::Budget<(Account, Offence)>;

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

    /// A budget for which this client pays.
    fn paid_by(client: u64) -> Budget {
        let budget = Budget::default();
        budget.charge_to(|_| false, || (7, (client, 1)));
        budget
    }

    #[test]
    fn a_client_that_spent_a_budget_gets_a_slice_from_the_same_rules() {
        let first = paid_by(1);
        assert!(first.charge(CPU_NS + 1).is_err() && shares::used(7) == CPU_NS + 1);
        assert_eq!(first.refusal(&mut Fields::new()), Status::INTERNAL_SERVER_ERROR);
        let again = paid_by(1);
        assert!(again.charge(SLICE_NS).is_ok() && again.charge(1).is_err() && again.spend(0).is_err());
        let mut fields = Fields::new();
        assert_eq!(again.refusal(&mut fields), Status::SERVICE_UNAVAILABLE);
        assert!(fields.get("retry-after").is_some());
        assert_eq!(again.place().used_ns, u64::MAX);
        let other = paid_by(2);
        assert!(other.charge(SLICE_NS + 1).is_ok() && other.ends_slice() && !other.ends_slice());
    }

    #[test]
    fn a_site_with_more_shares_is_charged_less() {
        for (site, charged) in [(7, 2 * SLICE_NS), (8, SLICE_NS / 2)] {
            let budget = Budget::default();
            budget.charge_to(|_| false, || (site, (1, 1)));
            let before = shares::used(site);
            assert!(budget.charge(2 * SLICE_NS).is_ok());
            assert_eq!(shares::used(site) - before, charged, "{site}");
        }
    }

    #[test]
    fn work_off_the_event_loop_costs_an_eighth_of_its_time() {
        let budget = Budget::default();
        let mut lent = budget.lend();
        let burn = |_: &Budget| {
            let end = cpu_ns() + 8 * CPU_NS / 10;
            while cpu_ns() < end {}
            Ok(())
        };
        assert!(lent.work(burn).is_ok() && budget.take_back(&lent).is_ok());
        let used = budget.cpu_ns.get();
        assert!((CPU_NS / 10..CPU_NS).contains(&used), "{used}");
        let mut lent = budget.lend();
        assert!(
            lent.work(|budget: &Budget| budget.spend(UNITS + 1)).is_err() && budget.take_back(&lent).is_err()
        );
    }

    #[test]
    fn the_log_has_one_message() {
        let budget = Budget::default();
        assert!(budget.tell() && !budget.tell());
    }
}
