//! The arguments of one use of a directive.

use super::SectionId;
use crate::value::ValueError;
use crate::{Contexts, Diagnostic, Node, Word};

/// One use of a directive: its words, its block, and where it stands.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The directive as written.
    pub node: &'a Node,
    /// The context that it stands in.
    pub context: Contexts,
    /// The section that its block opened, where it opens one.
    pub opened: Option<SectionId>,
}

impl<'a> Args<'a> {
    /// All arguments.
    pub fn words(&self) -> &'a [Word] {
        &self.node.args
    }

    /// The argument of this index, counted from zero. The shape was checked before; an argument that
    /// is not there is an error all the same.
    pub fn word(&self, index: usize) -> Result<&'a Word, Diagnostic> {
        self.node.args.get(index).ok_or_else(|| self.error("invalid number of arguments"))
    }

    /// The argument of this index, parsed by one of [`crate::value`]'s parsers.
    pub fn value<T>(
        &self,
        index: usize,
        parse: impl Fn(&Word) -> Result<T, ValueError>,
    ) -> Result<T, Diagnostic> {
        let word = self.word(index)?;
        parse(word).map_err(|error| error.at(self.node, word))
    }

    /// An error about this use: nginx's form, with the directive's name before the message.
    pub fn error(&self, message: &str) -> Diagnostic {
        Diagnostic::emerg(format!("\"{}\" directive {message}", self.node.name)).at(self.node.span)
    }

    /// An error about one argument.
    pub fn invalid(&self, word: &Word) -> Diagnostic {
        Diagnostic::emerg(format!("invalid parameter \"{word}\"")).at(self.node.span).under(word.span)
    }
}
