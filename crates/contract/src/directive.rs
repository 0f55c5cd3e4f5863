//! A directive as data, and as the typed key of its values.

use crate::{Args, Loading};
use conf::{Arity, Contexts, Diagnostic, Node, Shape};
use std::any::Any;

/// How a level inherits the values of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One value per level; the nearest level that sets it overrides the others.
    Value,
    /// Any number of values per level; the nearest level that sets one overrides all values of the outer levels.
    List,
    /// The values of all levels, the outermost level first.
    Gather,
    /// Not inherited.
    Never,
    /// Not inherited, except that the unnamed levels `if` and `limit_except` inherit from the level around them.
    Unnamed,
}

/// What is known of a directive without its value's type.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name in the configuration.
    pub name: &'static str,
    /// Directives of one slot share one place: `root` and `alias`, or the instructions of a rewrite.
    pub slot: &'static str,
    /// Few slots have the same mark, so that one comparison distinguishes most.
    pub(crate) mark: u8,
    /// Where it may stand.
    pub contexts: Contexts,
    /// How many arguments it takes, and whether a block.
    pub shape: Shape,
    /// The context that its block opens; a block without one is read by the directive itself.
    pub opens: Option<Contexts>,
    /// Whether its block belongs to the level around it, as far as its [`Counted`] says.
    pub splices: bool,
    /// How it is inherited.
    pub rule: Rule,
    /// Whether one level may set it more than once.
    pub repeats: bool,
    /// The default, as an administrator would write it; empty where there is none.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// A directive whose values are of type `T`. A `static` of this type is the key by which
/// [`View`](crate::View) finds them.
pub struct Directive<T: 'static> {
    pub(crate) info: Info,
    parse: fn(&Args<'_>, &mut Loading) -> Result<T, Diagnostic>,
}

impl<T> Directive<T> {
    /// A directive with one argument and one value a level, valid nowhere until [`Directive::within`].
    /// `parse` checks the arguments of one use; it sees no other setting.
    pub const fn new(
        name: &'static str,
        parse: fn(&Args<'_>, &mut Loading) -> Result<T, Diagnostic>,
    ) -> Directive<T> {
        let info = Info {
            name,
            slot: name,
            mark: mark(name),
            contexts: Contexts::EMPTY,
            shape: Shape::simple(Arity::Exactly(1)),
            opens: None,
            splices: false,
            rule: Rule::Value,
            repeats: false,
            default: "",
            help: "",
        };
        Directive { info, parse }
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
        self.info.rule = rule;
        self.info.repeats = matches!(rule, Rule::List | Rule::Gather);
        self
    }

    /// One level may set it more than once.
    pub const fn repeats(mut self) -> Directive<T> {
        self.info.repeats = true;
        self
    }

    /// The slot that it shares with others of the same value type.
    pub const fn slot(mut self, slot: &'static str) -> Directive<T> {
        self.info.slot = slot;
        self.info.mark = mark(slot);
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

/// A number of a text: FNV-1a, folded.
const fn mark(text: &str) -> u8 {
    let (bytes, mut index, mut hash) = (text.as_bytes(), 0, 0x811c_9dc5_u32);
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u32).wrapping_mul(0x0100_0193);
        index += 1;
    }
    (hash ^ (hash >> 8) ^ (hash >> 16) ^ (hash >> 24)).to_le_bytes()[0]
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
