//! Directives of the shapes that many have, so that a feature writes each in a line or two.

use crate::{Directive, View};
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

impl View<'_> {
    /// Puts the value of a directive in its place, where the directive is set.
    pub fn assign<T: Clone>(&self, directive: &Directive<T>, place: &mut T) {
        if let Some(value) = self.get(directive) {
            place.clone_from(value);
        }
    }

    /// As [`View::assign`], for a number that counts things in memory.
    pub fn assign_size(&self, directive: &Directive<u64>, place: &mut usize) {
        if let Some(&value) = self.get(directive) {
            *place = usize::try_from(value).unwrap_or(usize::MAX);
        }
    }
}
