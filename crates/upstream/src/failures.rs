//! What counts as a failure of a server, and which failures let another server be asked.

use crate::option::bits;
use conf::Diagnostic;
use contract::{Args, Loading, Written};
use http::Status;

/// Failures after which another server may be asked, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures(pub u32);

impl Failures {
    /// Nothing but success.
    pub const NONE: Failures = Failures(0);
    /// The connection failed.
    pub const ERROR: Failures = Failures(1);
    /// The server was too slow.
    pub const TIMEOUT: Failures = Failures(2);
    /// The server sent what is no response.
    pub const INVALID_HEADER: Failures = Failures(4);
    /// The request may have had an effect that must not happen twice.
    pub const NON_IDEMPOTENT: Failures = Failures(8);
    /// Nothing, whatever else is named.
    pub const OFF: Failures = Failures(0x10);
    /// The server does not have what was asked for (404).
    pub const NOT_FOUND: Failures = Failures(0x800);
    /// Another request gets a new response (`cache_use_stale`).
    pub const UPDATING: Failures = Failures(0x20);

    const STATUSES: [(u16, u32); 7] =
        [(500, 0x40), (502, 0x80), (503, 0x100), (504, 0x200), (403, 0x400), (404, 0x800), (429, 0x1000)];

    pub(crate) const NAMES: [(&'static str, u32); 13] = [
        ("error", 1),
        ("timeout", 2),
        ("invalid_header", 4),
        ("non_idempotent", 8),
        ("off", 0x10),
        ("updating", 0x20),
        ("http_500", 0x40),
        ("http_502", 0x80),
        ("http_503", 0x100),
        ("http_504", 0x200),
        ("http_403", 0x400),
        ("http_404", 0x800),
        ("http_429", 0x1000),
    ];

    /// Reads a directive that names failures by these words.
    ///
    /// # Errors
    /// Another word.
    pub fn parse(
        args: &Args<'_>,
        loading: &mut Loading,
        names: &[(&'static str, Failures)],
    ) -> Result<Failures, Diagnostic> {
        let table: Vec<_> = names.iter().map(|&(name, failures)| (name, failures.0)).collect();
        bits(args, loading, &table).map(Failures)
    }

    /// What such directives of a level come to, if there are any.
    pub fn chosen(written: &[Written<'_, Failures>]) -> Option<Failures> {
        let all = written.iter().fold(Failures::NONE, |all, written| all.with(*written.value));
        let all = if all.has(Failures::OFF) { Failures::NONE } else { all };
        (!written.is_empty()).then_some(all)
    }

    /// The failure that a status is, if it can be one.
    pub fn of_status(status: Status) -> Option<Failures> {
        let found = Failures::STATUSES.iter().find(|(code, _)| *code == status.0);
        found.map(|&(_, bit)| Failures(bit))
    }

    /// Whether this is a status of the server, and no failure to get one.
    pub fn is_status(self) -> bool {
        Failures::STATUSES.iter().any(|(_, bit)| self.0 & bit != 0)
    }

    /// The status that the client gets for a failure.
    pub fn status(self) -> Status {
        let found = Failures::STATUSES.iter().find(|(_, bit)| self.0 & bit != 0);
        match found {
            Some(&(code, _)) => Status(code),
            None if self.has(Failures::TIMEOUT) => Status::GATEWAY_TIMEOUT,
            None => Status::BAD_GATEWAY,
        }
    }

    /// Whether the server itself is to blame: a missing page is not its fault.
    pub(crate) fn counts(self) -> bool {
        self.0 & 0xc00 == 0
    }

    /// Whether these hold all of the others.
    pub fn has(self, other: Failures) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and the others.
    #[must_use]
    pub fn with(self, other: Failures) -> Failures {
        Failures(self.0 | other.0)
    }
}
