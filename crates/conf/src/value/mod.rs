//! The value parsers: words → typed values. There are no others, so that a size is a size everywhere.

mod address;
mod choice;
mod dollar;
mod host_names;
mod literal;
mod network;
mod number;
mod path;
mod pattern;
mod pattern_set;
mod required;
mod subset;
mod template;
mod time;
mod word_pattern;

use crate::diagnostic::Diagnostic;
use crate::tree::{Node, Word};

pub use address::{Address, Host, endpoint, listen, target};
pub use choice::{access, bitmask, choice, flag};
pub use host_names::{HostNames, NameError};
pub use network::{Network, cidr, subnet};
pub use number::{bounded, number, offset, size, size_in_text, status};
pub use path::{full_name, path};
pub use pattern::{Captures, Language, Pattern, TooManySteps, Wrong};
pub use pattern_set::{Candidate, PatternSet, PatternSets};
pub use template::{Part, Template, template};
pub use time::{time_ms, time_s};
pub use word_pattern::pattern;

/// Why a word has no value of the wanted type. It has no place yet: [`ValueError::at`] gives it one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not a value of this directive.
    #[error("invalid value")]
    Invalid,
    /// Not a number of bytes.
    #[error("invalid value")]
    Size {
        /// Whether `g` is a unit of this value, too.
        has_gigabytes: bool,
    },
    /// Not a time.
    #[error("invalid value")]
    Time,
    /// Not a number.
    #[error("invalid number")]
    Number,
    /// Neither `on` nor `off`.
    #[error("it must be \"on\" or \"off\"")]
    Flag,
    /// None of the words that are possible here; the nearest one, if one is near.
    #[error("invalid value")]
    Choice(Option<&'static str>),
    /// A number out of its range; both ends are included, the upper one may be missing.
    #[error("value must be in range")]
    Range(u64, Option<u64>),
    /// Not an address; why.
    #[error("{0}")]
    Address(&'static str),
    /// Not an address with a prefix length.
    #[error("invalid parameter")]
    Network,
    /// Not a pattern; the message of the pattern compiler.
    #[error("{}", .0.message)]
    Pattern(Wrong),
    /// Not a text with variables; why.
    #[error("{0}")]
    Template(String),
}

impl ValueError {
    /// The message about a word of a directive, in nginx's words.
    pub fn at(&self, node: &Node, word: &Word) -> Diagnostic {
        let name = &node.name;
        let message = match self {
            ValueError::Invalid | ValueError::Size { .. } | ValueError::Time | ValueError::Number => {
                format!("\"{name}\" directive {self}")
            }
            ValueError::Flag => format!("invalid value \"{word}\" in \"{name}\" directive, {self}"),
            ValueError::Choice(_) => format!("invalid value \"{word}\""),
            ValueError::Range(least, None) => format!("value must be equal to or greater than {least}"),
            ValueError::Range(least, Some(most)) => format!("value must be between {least} and {most}"),
            ValueError::Address(why) => format!("{why} in \"{word}\" of the \"{name}\" directive"),
            ValueError::Network => format!("invalid parameter \"{word}\""),
            ValueError::Pattern(wrong) => wrong.message.clone(),
            ValueError::Template(why) => why.clone(),
        };
        let error = Diagnostic::emerg(message).at(node.span).under(word.span);
        match self {
            ValueError::Choice(Some(near)) => error.hint(format!("did you mean \"{near}\"?")),
            ValueError::Size { has_gigabytes: true } => {
                error.hint("write a number of bytes, or with k, m or g: 10m")
            }
            ValueError::Size { .. } => error.hint("write a number of bytes, or with k or m: 16k"),
            ValueError::Time => {
                error.hint("write a number of seconds, or with a unit: 500ms, 30s, 5m, 1h, 1d")
            }
            _ => error,
        }
    }
}

/// A word of a text, for tests of the parsers.
#[cfg(test)]
pub(crate) fn word(text: impl AsRef<[u8]>) -> Word {
    let span = crate::source::Span { file: crate::source::FileId(0), start: 0, end: 0, line: 1 };
    Word { text: text.as_ref().into(), quoted: false, span }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    proptest! {
        #[test]
        fn any_word_has_a_value_or_an_error(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "[0-9kKmMgGyMwdhms .:/*a-f$\\[\\]{}-]{0,30}".prop_map(String::into_bytes),
        ]) {
            let word = word(text);
            let _ = (size(&word), offset(&word), number(&word), status(&word), bounded(&word, 1, Some(9)));
            let _ = (time_s(&word), time_ms(&word), flag(&word), choice(&word, &[("on", 1)]));
            let _ = (listen(&word, 80), endpoint(&word, 80), target(&word.text, 80), cidr(&word));
            let _ = (template(&word), path(&word, Path::new("/p")), access(std::slice::from_ref(&word)));
        }

        #[test]
        fn what_is_written_with_a_unit_is_read(count in 0u64..1 << 20) {
            prop_assert_eq!(size(&word(format!("{count}k"))), Ok(count << 10));
            prop_assert_eq!(offset(&word(format!("{count}G"))), Ok(count << 30));
            prop_assert_eq!(time_ms(&word(format!("{count}ms"))), Ok(count));
            prop_assert_eq!(time_s(&word(format!("{count}h"))), Ok(count * 3600));
        }
    }
}
