//! Checks the arguments of directives that have no effect, so that errors are reported as in nginx.

use crate::diagnostic::Diagnostic;
use crate::tree::{Node, Word};
use crate::value::{self, ValueError};

/// What the words after a directive are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Anything.
    Any,
    /// A number.
    Number,
    /// A size in memory.
    Size,
    /// A size in a file.
    Offset,
    /// A time, down to milliseconds.
    Time,
    /// A time, down to seconds.
    Seconds,
    /// A number and a size, neither of them zero.
    Buffers,
}

impl Values {
    /// By the name that the tables have for it.
    pub(super) fn named(name: &str) -> Option<Values> {
        Some(match name {
            "number" => Values::Number,
            "size" => Values::Size,
            "offset" => Values::Offset,
            "time" => Values::Time,
            "seconds" => Values::Seconds,
            "buffers" => Values::Buffers,
            _ => return None,
        })
    }

    /// Whether the words are such.
    pub(super) fn check(self, node: &Node) -> Result<(), Diagnostic> {
        let check = |index: usize, read: fn(&Word) -> Result<u64, ValueError>| match node.arg(index) {
            Some(word) => read(word).map(|_| ()).map_err(|error| error.at(node, word)),
            None => Ok(()),
        };
        match self {
            Values::Any => Ok(()),
            Values::Number => check(0, value::number),
            Values::Size => check(0, value::size),
            Values::Offset => check(0, value::offset),
            Values::Time => check(0, value::time_ms),
            Values::Seconds => check(0, value::time_s),
            Values::Buffers => {
                check(0, |word| some(value::number(word)))?;
                check(1, |word| some(value::size(word)))
            }
        }
    }
}

fn some(value: Result<u64, ValueError>) -> Result<u64, ValueError> {
    value.ok().filter(|value| *value != 0).ok_or(ValueError::Invalid)
}
