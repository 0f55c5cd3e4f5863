//! A feature as data.

use crate::{AnyDirective, ScopeBuilder, Variable, View};
use conf::Diagnostic;

/// One feature. `modules::ALL` is the ordered list of them; their handlers and filters run in that order.
pub struct Module {
    /// The feature's name, as its file and its manual page are called.
    pub name: &'static str,
    /// The directives that it owns.
    pub directives: &'static [&'static dyn AnyDirective],
    /// The variables that it owns.
    pub variables: &'static [Variable],
    /// Turns what was written for one server, location or `if` into handlers, filters and policy.
    /// It is the only place that checks a setting against others.
    pub compile: Option<Compile>,
}

/// Adds what a scope configured to the scope.
pub type Compile = fn(&View<'_>, &mut ScopeBuilder) -> Result<(), Diagnostic>;
