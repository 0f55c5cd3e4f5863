//! Gets and renews all certificates of a plan, for as long as it runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use http::parse_date;
use instant_acme::CertificateIdentifier;
use net::SharedBytes;

use crate::authority::{Authority, Failure, Issued};
use crate::connection::Client;
use crate::plan::{Issuer, Order, Plan};
use crate::renewal_info;
use crate::schedule::{self, Limit};
use crate::state::{self, Lock, Report};

/// How long to wait, in seconds, if another process has locked the state's directory.
const LOCKED_PAUSE: i64 = 5;

/// The longest time that is waited without a look at the clock, which may jump.
const LOOK: Duration = Duration::from_secs(3600);

/// The shortest time from one attempt to the next one, whatever the clock does.
const BREATH: Duration = Duration::from_millis(100);

/// How long to wait, in seconds, after the authority did not say when to renew.
const ASK_AGAIN: i64 = 6 * 3600;

/// A failed renewal is an error if less than two parts in so many of the certificate's life are left, and critical if
/// less than one part is left.
const URGENT_PARTS: i64 = 10;

/// A new certificate is not renewed before this pause, which is the one after so many failures.
const PAUSE_OF_NEW: u32 = 3;

/// How important a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the level of the error log of that name")]
pub enum Urgency {
    Notice,
    Warn,
    Error,
    Crit,
}

/// What the agent is part of.
pub trait Surroundings {
    /// The time in seconds since 1970.
    fn now(&self) -> i64;

    /// Waits; whether the agent is to go on.
    fn wait(&mut self, time: Duration) -> bool;

    /// Writes to the error log.
    fn log(&mut self, urgency: Urgency, message: &str);

    /// The file of a certificate is new.
    fn renewed(&mut self);
}

/// Gets and renews certificates until it is stopped. The answers to challenges go to the shared bytes.
pub fn run(plan: &Plan, shared: &SharedBytes, around: &mut dyn Surroundings) {
    let mut agent = Agent {
        shared,
        around,
        locks: HashMap::new(),
        limits: HashMap::new(),
        wanted: plan
            .orders()
            .map(|order| Wanted {
                order,
                times: None,
                report: state::report(order),
                earliest: i64::MIN,
                ask_at: 0,
                replaced: None,
                due: 0,
            })
            .collect(),
        last_turn: i64::MIN,
    };
    agent.begin();
    while agent.turn() {}
}

struct Agent<'a> {
    shared: &'a SharedBytes,
    around: &'a mut dyn Surroundings,
    locks: HashMap<PathBuf, Lock>,
    limits: HashMap<String, Limit>,
    wanted: Vec<Wanted<'a>>,
    /// The time of the last turn.
    last_turn: i64,
}

/// A certificate that is wanted.
struct Wanted<'a> {
    order: &'a Order,
    /// When the one that is there begins and ends to be valid.
    times: Option<(i64, i64)>,
    report: Report,
    /// A certificate that was just issued is not renewed before this time, whatever the clock and the authority say.
    earliest: i64,
    /// When the authority is asked for its suggestion about the renewal.
    ask_at: i64,
    /// The identifier of the present certificate, which the next order names as the one that it replaces. Only
    /// authorities that suggest renewal times have such identifiers.
    replaced: Option<CertificateIdentifier<'static>>,
    /// When to make the next attempt.
    due: i64,
}

impl Wanted<'_> {
    /// When the next attempt is due.
    fn plan(&mut self) {
        let renewal = match self.times {
            Some(times) if !self.is_foreign() => schedule::renewal(times, self.order.number()),
            _ => 0,
        };
        // After a failure the stored time counts, which keeps the pause, unless the settings have changed since. Otherwise
        // the stored time is not used: its certificate may have been deleted.
        let is_mended = self.report.settings.as_ref().is_some_and(|known| *known != self.order.settings());
        self.due = match self.report.next_attempt {
            _ if self.report.renewal_asked => 0,
            Some(_) if self.report.failures > 0 && is_mended => 0,
            Some(at) if self.report.failures > 0 => at,
            _ => renewal,
        };
        // The authority's suggestion for this certificate is not known yet: ask at once.
        self.ask_at = 0;
        self.report.next_attempt = Some(self.due);
    }

    /// Whether another authority issued the certificate: one for tests, say, until the configuration was changed. It is
    /// served until it is replaced.
    fn is_foreign(&self) -> bool {
        self.report.issued_by.as_ref().is_some_and(|uri| *uri != self.order.issuer.uri)
    }

    /// If the clock was ahead when an attempt was planned, the attempt waits for the longest pause at most.
    fn hurry(&mut self, now: i64) {
        let latest = schedule::retry(now, u32::MAX, self.order.number());
        if self.report.failures > 0 {
            self.due = self.due.min(latest);
        }
        self.earliest = self.earliest.min(latest);
    }
}

impl Agent<'_> {
    fn begin(&mut self) {
        for wanted in &mut self.wanted {
            wanted.times = state::certificate(wanted.order).map(|found| found.times);
            let name = wanted.order.first_name();
            if wanted.times.is_none() {
                let message = format!(
                    "there is no certificate for {name} yet: a self-signed one is served until {} issues one",
                    wanted.order.issuer.uri
                );
                self.around.log(Urgency::Warn, &message);
            }
            wanted.plan();
            wanted.hurry(self.around.now());
        }
    }

    /// Does what is due, and waits for the next; whether to go on.
    fn turn(&mut self) -> bool {
        let now = self.around.now();
        if now < std::mem::replace(&mut self.last_turn, now) {
            // The clock went back: the times that were planned by it mean nothing.
            for wanted in &mut self.wanted {
                wanted.plan();
                wanted.hurry(now);
            }
        }
        for index in 0..self.wanted.len() {
            self.ask(index);
            if self.wanted[index].due <= now && !self.attempt(index) {
                return false;
            }
        }
        let times = self.wanted.iter().map(|wanted| match wanted.times {
            Some(_) => wanted.due.min(wanted.ask_at),
            None => wanted.due,
        });
        let next = times.min().unwrap_or(i64::MAX);
        let left = u64::try_from(next.saturating_sub(self.around.now())).unwrap_or(0);
        self.around.wait(Duration::from_secs(left).clamp(BREATH, LOOK))
    }

    /// Asks the authority when to renew a certificate, if that is due. An error costs nothing but the suggestion.
    fn ask(&mut self, index: usize) {
        let now = self.around.now();
        let wanted = &mut self.wanted[index];
        if wanted.times.is_none() || wanted.is_foreign() || wanted.report.failures > 0 || wanted.ask_at > now
        {
            return;
        }
        let order = wanted.order;
        let Some(identifier) = state::identifier(order) else {
            wanted.ask_at = now + ASK_AGAIN;
            return;
        };
        let asked = renewal_info::ask(&order.issuer, &identifier, order.number());
        let (suggestion, pause) = asked.unwrap_or((None, ASK_AGAIN));
        wanted.ask_at = now + pause;
        let Some(suggestion) = suggestion else { return };
        wanted.replaced = Some(identifier);
        if suggestion.renew_at < wanted.due && suggestion.renew_at <= now && wanted.earliest <= now {
            let reason = suggestion.explanation.map_or_else(String::new, |url| format!(" ({url})"));
            let message = format!(
                "{} suggests to renew the certificate for {} now{reason}",
                order.issuer.uri,
                order.first_name()
            );
            self.around.log(Urgency::Notice, &message);
        }
        wanted.due = suggestion.renew_at.max(wanted.earliest);
        self.keep_report(index);
    }

    /// Tries to get a certificate; whether to go on.
    fn attempt(&mut self, index: usize) -> bool {
        let now = self.around.now();
        let order = self.wanted[index].order;
        match self.claim(&order.issuer) {
            Ok(true) => {}
            Ok(false) => {
                self.wanted[index].due = now + LOCKED_PAUSE;
                return true;
            }
            Err(reason) => {
                self.failed(index, reason, None);
                return true;
            }
        }
        let limit = self.limits.entry(order.issuer.uri.clone()).or_default();
        let allowed = limit.next(now);
        if allowed > now {
            self.wanted[index].due = allowed;
            return true;
        }
        limit.count(now);
        // After a failure the order names no replaced certificate: the authority may have forgotten it.
        let replaced = self.wanted[index].replaced.take().filter(|_| self.wanted[index].report.failures == 0);
        let around = &mut *self.around;
        let client = Client::new(&order.issuer);
        let issued = client.as_ref().map_err(|reason| Failure::Reason(reason.clone())).and_then(|client| {
            let mut authority = Authority::open(&order.issuer, client.clone())?;
            authority.issue((order, replaced.as_ref()), self.shared, &mut |time| around.wait(time))
        });
        // `Retry-After` of the last response, even if that was the response about the account.
        let after = client.ok().and_then(|client| client.last().retry_after);
        match issued {
            Ok(issued) => self.issued(index, &issued),
            Err(Failure::Stopped) => return false,
            Err(Failure::Nonce) => self.failed(index, "a nonce was rejected".to_owned(), after.as_deref()),
            Err(Failure::Reason(reason)) => self.failed(index, reason, after.as_deref()),
            Err(Failure::Limited(reason)) => {
                self.failed(index, reason, after.as_deref());
                let due = self.wanted[index].due;
                self.limits.entry(order.issuer.uri.clone()).or_default().hold(self.around.now(), due);
            }
        }
        true
    }

    /// Makes sure that no other process uses the state's directory, such as that of a server which is being replaced.
    fn claim(&mut self, issuer: &Issuer) -> Result<bool, String> {
        if self.locks.contains_key(&issuer.state) {
            return Ok(true);
        }
        let failed = |error: std::io::Error| {
            format!("cannot use the directory {} ({})", issuer.state.display(), net::system_message(&error))
        };
        let Some(lock) = state::lock(&issuer.state).map_err(failed)? else { return Ok(false) };
        self.locks.insert(issuer.state.clone(), lock);
        Ok(true)
    }

    fn issued(&mut self, index: usize, issued: &Issued) {
        let order = self.wanted[index].order;
        match state::keep_certificate(order, &issued.chain, &issued.key) {
            Ok(kept) => {
                let message =
                    format!("{} issued a certificate for {}", order.issuer.uri, order.names.join(", "));
                self.around.log(Urgency::Notice, &message);
                if let Some(note) = &issued.note {
                    self.around.log(Urgency::Warn, note);
                }
                let wanted = &mut self.wanted[index];
                wanted.report = Report::of_issued(&order.issuer.uri);
                wanted.times = Some(kept.times);
                wanted.plan();
                wanted.earliest = schedule::retry(self.around.now(), PAUSE_OF_NEW, order.number());
                wanted.due = wanted.due.max(wanted.earliest);
                self.around.renewed();
                self.keep_report(index);
            }
            Err(error) => self.failed(index, format!("cannot keep the certificate ({error})"), None),
        }
    }

    fn failed(&mut self, index: usize, reason: String, after: Option<&str>) {
        let now = self.around.now();
        let wanted = &mut self.wanted[index];
        let report = &mut wanted.report;
        report.failures = report.failures.saturating_add(1);
        report.settings = Some(wanted.order.settings());
        report.renewal_asked = false;
        let pause = schedule::retry(now, report.failures, wanted.order.number());
        let asked = after.and_then(|text| match text.parse::<i64>() {
            Ok(seconds) => Some(now.saturating_add(seconds)),
            Err(_) => parse_date(text.as_bytes()),
        });
        let latest = schedule::retry(now, u32::MAX, wanted.order.number());
        wanted.due = pause.max(asked.unwrap_or(0).min(latest));
        report.next_attempt = Some(wanted.due);
        let (name, left) = (wanted.order.first_name(), wanted.due - now);
        let urgency = urgency(wanted.times, now);
        let what = if wanted.times.is_some() { "cannot renew the certificate" } else { "no certificate" };
        let message = format!("{what} for {name}: {reason}; the next attempt is in {left} seconds");
        report.last_error = Some(reason);
        self.around.log(urgency, &message);
        self.keep_report(index);
    }

    fn keep_report(&mut self, index: usize) {
        let Wanted { order, report, due, .. } = &mut self.wanted[index];
        report.next_attempt = Some(*due);
        if order.issuer.state.exists()
            && let Err(error) = state::keep_report(order, report)
        {
            let message = format!("cannot write to {} ({error})", order.issuer.state.display());
            self.around.log(Urgency::Error, &message);
        }
    }
}

/// How important a failure is, by what is left of the certificate.
fn urgency(times: Option<(i64, i64)>, now: i64) -> Urgency {
    match times {
        Some((begin, end)) if end - now > (end - begin) / URGENT_PARTS * 2 => Urgency::Warn,
        Some((begin, end)) if end - now > (end - begin) / URGENT_PARTS => Urgency::Error,
        Some(_) => Urgency::Crit,
        None => Urgency::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::order;
    use std::sync::Arc;
    use tls::SelfSigned;

    const DAY: i64 = 86_400;

    /// A clock that goes as far as it is asked to wait.
    struct Simulated {
        now: i64,
        end: i64,
        log: Vec<(i64, Urgency, String)>,
        /// When the clock goes back, and by how much.
        jump: Option<(i64, i64)>,
    }

    impl Surroundings for Simulated {
        fn now(&self) -> i64 {
            self.now
        }

        fn wait(&mut self, time: Duration) -> bool {
            self.now += i64::try_from(time.as_secs()).unwrap().max(1);
            let (_, by) = self.jump.take_if(|(at, _)| *at <= self.now).unwrap_or_default();
            self.now -= by;
            self.now < self.end
        }

        fn log(&mut self, urgency: Urgency, message: &str) {
            self.log.push((self.now, urgency, message.to_owned()));
        }

        fn renewed(&mut self) {}
    }

    /// An order at an authority where nothing listens.
    fn wanted(directory: &std::path::Path) -> Order {
        let order = order(&["a.example"]);
        let issuer = Issuer {
            state: directory.join("state"),
            uri: "https://127.0.0.1:1/dir".to_owned(),
            verifies: false,
            ..(*order.issuer).clone()
        };
        Order { issuer: Arc::new(issuer), ..order }
    }

    fn simulate(order: &Order, now: i64, days: i64) -> Vec<(i64, Urgency, String)> {
        simulate_with(order, Simulated { now, end: now + days * DAY, log: Vec::new(), jump: None })
    }

    fn simulate_with(order: &Order, mut around: Simulated) -> Vec<(i64, Urgency, String)> {
        let mut plan = Plan::default();
        plan.add(order.clone());
        run(&plan, &SharedBytes::new(1024).unwrap(), &mut around);
        around.log
    }

    /// A failed attempt waits for longer each time, but not once its cause may be gone.
    #[test]
    fn changed_settings_and_administrators_make_an_attempt_due_at_once() {
        const NOW: i64 = 1_000_000_000;
        let directory = tempfile::tempdir().unwrap();
        let order = wanted(directory.path());
        let attempts = |order: &Order, now: i64| {
            let around = Simulated { now, end: now + 2, log: Vec::new(), jump: None };
            simulate_with(order, around)
                .iter()
                .filter(|(.., text)| text.starts_with("no certificate for"))
                .count()
        };
        assert_eq!([attempts(&order, NOW), attempts(&order, NOW + 10)], [1, 0], "it waits");
        let issuer = Issuer { uri: "https://127.0.0.1:2/dir".to_owned(), ..(*order.issuer).clone() };
        let mended = Order { issuer: Arc::new(issuer), ..order.clone() };
        assert_eq!([attempts(&mended, NOW + 20), attempts(&mended, NOW + 30)], [1, 0]);
        state::ask_for_renewal(&mended).unwrap();
        assert_eq!([attempts(&mended, NOW + 40), attempts(&mended, NOW + 50)], [1, 0]);
    }

    #[test]
    fn clock_that_goes_back_holds_nothing_up() {
        const NOW: i64 = 1_000_000_000;
        let directory = tempfile::tempdir().unwrap();
        let order = wanted(directory.path());
        let ahead = NOW + 60 * DAY;
        let jump = Some((ahead + DAY, 60 * DAY));
        let around = Simulated { now: ahead, end: ahead + 2 * DAY, log: Vec::new(), jump };
        let log = simulate_with(&order, around);
        let after = log.iter().filter(|(at, ..)| (NOW..NOW + 5 * DAY).contains(at)).count();
        assert!(after >= 2, "{log:?}");
    }

    #[test]
    fn authority_that_is_down_for_a_month_is_asked_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let order = wanted(directory.path());
        let log = simulate(&order, 1_000_000_000, 30);
        assert!((30..50).contains(&log.len()), "{} lines", log.len());
        assert!(log[0].2.contains("self-signed"), "{:?}", log[0]);
        assert!(
            log[1..]
                .iter()
                .all(|(_, urgency, text)| *urgency == Urgency::Error && text.contains("cannot connect"))
        );
        let report = state::report(&order);
        assert!(report.failures > 28 && report.last_error.unwrap().contains("cannot connect"));
        // After a restart nothing is hurried.
        let again = simulate(&order, 1_000_000_000 + 30 * DAY, 2);
        assert!((1..=3).contains(&again[1..].len()), "{again:?}");
        // A clock that was far ahead delays nothing for ever.
        let back = simulate(&order, 1_000_000_000 - 9000 * DAY, 2);
        assert!(back.len() > 1, "{back:?}");
    }

    #[test]
    fn failures_become_more_important_towards_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let order = wanted(directory.path());
        state::lock(&order.issuer.state).unwrap();
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let (begin, end) = state::keep_certificate(&order, &made.certificate, &made.key).unwrap().times;
        assert_eq!(simulate(&order, begin, 100), [], "it is new");
        let report = Report::of_issued("https://other.example/dir");
        state::keep_report(&order, &report).unwrap();
        let replacing = simulate(&order, begin, 100);
        assert!(!replacing.is_empty() && replacing.iter().all(|(_, urgency, _)| *urgency == Urgency::Warn));
        state::keep_report(&order, &Report::default()).unwrap();
        let life = end - begin;
        let log = simulate(&order, begin + life / 100 * 85, 1);
        assert!(log.iter().all(|(_, urgency, _)| *urgency == Urgency::Error) && !log.is_empty(), "{log:?}");
        assert_eq!(urgency(Some((0, 100)), 50), Urgency::Warn);
        assert_eq!(urgency(Some((0, 100)), 85), Urgency::Error);
        assert_eq!(urgency(Some((0, 100)), 95), Urgency::Crit);
    }
}
