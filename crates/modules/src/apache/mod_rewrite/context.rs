//! What texts of rules are evaluated for: the request as it is rewritten so far, and what the patterns captured.

use conf::value::Captures;
use contract::{Budget, Exchange};

/// What texts are evaluated for.
pub(super) struct Context<'a> {
    pub(super) exchange: &'a Exchange,
    /// The path as it is rewritten so far.
    pub(super) filename: &'a [u8],
    /// The path info; none while the path still has it.
    pub(super) path_info: Option<&'a [u8]>,
    pub(super) rule: &'a Match,
    pub(super) condition: &'a Match,
    /// How groups are escaped.
    pub(super) escape: Option<&'a Escape>,
    pub(super) budget: &'a Budget,
}

/// What a pattern captured, and out of what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    pub(super) captures: Captures,
    pub(super) subject: Vec<u8>,
}

impl Match {
    pub(super) fn group(&self, index: u8) -> &[u8] {
        self.captures.get(usize::from(index), &self.subject).unwrap_or_default()
    }
}

/// How groups are escaped: the flags `B`, `BNP`, `BCTLS` and `BNE`.
#[derive(Clone, Debug)]
pub(super) struct Escape {
    /// Whether `B` or `BCTLS` is there: the other flags only say how.
    pub(super) is_on: bool,
    /// Whether a space becomes a plus sign.
    pub(super) plus: bool,
    /// Whether only spaces and control characters are escaped.
    pub(super) controls_only: bool,
    /// The bytes that are escaped; none for all but letters, digits and the underscore.
    pub(super) only: Option<Box<[u8]>>,
    /// The bytes that are not.
    pub(super) except: Box<[u8]>,
}

impl Default for Escape {
    fn default() -> Escape {
        Escape { is_on: false, plus: true, controls_only: false, only: None, except: Box::default() }
    }
}

impl Escape {
    pub(super) fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in text {
            let is_meant = match &self.only {
                _ if self.except.contains(&byte) => false,
                _ if self.controls_only => byte == b' ' || byte.is_ascii_control(),
                Some(only) => only.contains(&byte),
                None => !(byte.is_ascii_alphanumeric() || byte == b'_'),
            };
            match byte {
                b' ' if is_meant && self.plus => out.push(b'+'),
                byte if is_meant => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
                byte => out.push(byte),
            }
        }
        out
    }
}
