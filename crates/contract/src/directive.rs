//! A directive as data, and as the typed key of its values.

use crate::{Args, Info, Loading, Rule};
use conf::settings::Key;
use conf::{Arity, Contexts, Diagnostic, Node, Shape};
use std::any::Any;

/// A directive whose values are of type `T`. A `static` of this type is the key by which
/// [`View`](crate::View) finds them.
pub struct Directive<T: 'static> {
    info: Info,
    parse: fn(&Args<'_>, &mut Loading) -> Result<T, Diagnostic>,
}

impl<T> Directive<T> {
    /// A directive with one argument and one value a level, valid nowhere until [`Directive::within`].
    /// `parse` checks the arguments of one use; it sees no other setting.
    pub const fn new(
        name: &'static str,
        parse: fn(&Args<'_>, &mut Loading) -> Result<T, Diagnostic>,
    ) -> Directive<T> {
        Directive { info: Info::new(name), parse }
    }

    /// The contexts in which it may stand.
    pub const fn within(mut self, contexts: Contexts) -> Directive<T> {
        self.info.contexts = contexts;
        self
    }

    /// How many arguments it takes.
    pub const fn args(mut self, arity: Arity) -> Directive<T> {
        self.info.shape = Shape::simple(arity);
        self
    }

    /// How many arguments it takes before a block that the directive reads itself.
    pub const fn block(mut self, arity: Arity) -> Directive<T> {
        self.info.shape = Shape::block(arity);
        self
    }

    /// How many arguments it takes before a block of directives in this context.
    pub const fn opens(mut self, arity: Arity, context: Contexts) -> Directive<T> {
        self.info.shape = Shape::block(arity);
        self.info.opens = Some(context);
        self
    }

    /// How it is inherited. A directive with [`Rule::List`] or [`Rule::Gather`] may repeat.
    pub const fn rule(mut self, rule: Rule) -> Directive<T> {
        self.info = self.info.inherited(rule);
        self
    }

    /// One level may set it more than once.
    pub const fn repeats(mut self) -> Directive<T> {
        self.info.repeats = true;
        self
    }

    /// The slot that it shares with others of the same value type.
    pub const fn slot(mut self, slot: &'static str) -> Directive<T> {
        self.info = self.info.in_slot(slot);
        self
    }

    /// The default as it would be written.
    pub const fn default(mut self, default: &'static str) -> Directive<T> {
        self.info.default = default;
        self
    }

    /// What it does, in a sentence.
    pub const fn help(mut self, help: &'static str) -> Directive<T> {
        self.info.help = help;
        self
    }
}

/// What counts of a block that belongs to the level around it. The rest is not checked.
pub enum Counted {
    /// All directives.
    All,
    /// These directives, with which the block is skipped.
    Only(Vec<Node>),
}

impl Directive<Counted> {
    /// How many arguments it takes before a block that belongs to the level around it.
    pub const fn splices(mut self, arity: Arity) -> Directive<Counted> {
        self.info.shape = Shape::block(arity);
        self.info.splices = true;
        self
    }
}

impl<T> Key for Directive<T> {
    type Value = T;

    fn info(&self) -> &Info {
        &self.info
    }
}

/// The value of one use of a directive, without its type.
pub type Parsed = Box<dyn Any + Send + Sync>;

/// A directive without its type, for lists and for the loader.
pub trait AnyDirective: Sync {
    /// What is known of it.
    fn info(&self) -> &Info;

    /// Parses one use of it.
    fn parse(&self, args: &Args<'_>, loading: &mut Loading) -> Result<Parsed, Diagnostic>;
}

impl<T: Send + Sync> AnyDirective for Directive<T> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn parse(&self, args: &Args<'_>, loading: &mut Loading) -> Result<Parsed, Diagnostic> {
        let value = (self.parse)(args, loading)?;
        Ok(Box::new(value))
    }
}
