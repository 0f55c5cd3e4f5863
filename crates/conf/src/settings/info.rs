//! A directive as data.

use crate::{Arity, Contexts, Shape};

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
    pub(super) mark: u8,
    /// Where it may stand.
    pub contexts: Contexts,
    /// How many arguments it takes, and whether a block.
    pub shape: Shape,
    /// The context that its block opens; a block without one is read by the directive itself.
    pub opens: Option<Contexts>,
    /// Whether its block belongs to the level around it, as far as its value says.
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

impl Info {
    /// A directive with one argument and one value a level, valid nowhere.
    pub const fn new(name: &'static str) -> Info {
        Info {
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
        }
    }

    /// The slot that it shares with others of the same value type.
    #[must_use]
    pub const fn in_slot(mut self, slot: &'static str) -> Info {
        self.slot = slot;
        self.mark = mark(slot);
        self
    }

    /// How it is inherited. A directive with [`Rule::List`] or [`Rule::Gather`] may repeat.
    #[must_use]
    pub const fn inherited(mut self, rule: Rule) -> Info {
        self.rule = rule;
        self.repeats = matches!(rule, Rule::List | Rule::Gather);
        self
    }
}

/// A directive as the key of its values, which are of one type.
pub trait Key {
    /// The type.
    type Value: 'static;

    /// What is known of the directive.
    fn info(&self) -> &Info;
}

impl<K: Key> Key for &K {
    type Value = K::Value;

    fn info(&self) -> &Info {
        K::info(self)
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
