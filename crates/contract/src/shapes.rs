//! Directives of the shapes that many have, so that a feature writes each in a line or two.

use crate::Directive;
use conf::{Arity, value};
use std::time::Duration;

impl Directive<bool> {
    /// `on` or `off`.
    pub const fn flag(name: &'static str) -> Directive<bool> {
        Directive::new(name, |args, _| args.value(0, value::flag)).args(Arity::Flag)
    }
}

impl Directive<Duration> {
    /// A time in steps of milliseconds.
    pub const fn time(name: &'static str) -> Directive<Duration> {
        Directive::new(name, |args, _| Ok(Duration::from_millis(args.value(0, value::time_ms)?)))
    }
}

impl Directive<u64> {
    /// A number.
    pub const fn number(name: &'static str) -> Directive<u64> {
        Directive::new(name, |args, _| args.value(0, value::number))
    }

    /// A size in memory, in bytes.
    pub const fn size(name: &'static str) -> Directive<u64> {
        Directive::new(name, |args, _| args.value(0, value::size))
    }

    /// An offset in a file or a length on the wire, in bytes.
    pub const fn offset(name: &'static str) -> Directive<u64> {
        Directive::new(name, |args, _| args.value(0, value::offset))
    }
}
