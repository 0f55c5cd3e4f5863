//! The files of a configuration, kept verbatim, and places in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One text among [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// A range of bytes of one text, with the line that messages name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
    /// The line that messages name, from 1. For a directive it is the line of its `;` or `{`.
    pub line: u32,
}

impl Span {
    /// The range of `other`, still named by this span's line.
    #[must_use]
    pub fn narrowed_to(self, other: Span) -> Span {
        if self.file == other.file { Span { line: self.line, ..other } } else { self }
    }
}

/// Every text that was read, in the order in which it was met, each once.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    texts: Vec<Source>,
}

#[derive(Debug, Clone)]
struct Source {
    path: PathBuf,
    text: Arc<[u8]>,
    kind: Kind,
}

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    CommandLine,
    /// It was made from others: the lines of a macro.
    Made,
}

impl Sources {
    /// Path of a file, as it was opened; `command line` for directives given there.
    pub fn path(&self, file: FileId) -> &Path {
        self.get(file).map_or(Path::new(""), |source| &source.path)
    }

    /// The text as it was read.
    pub fn text(&self, file: FileId) -> &[u8] {
        self.get(file).map_or(&[], |source| &source.text)
    }

    /// Whether the text was given on the command line rather than in a file.
    pub fn is_command_line(&self, file: FileId) -> bool {
        self.get(file).is_some_and(|source| source.kind == Kind::CommandLine)
    }

    /// The files, without other texts, in the order in which they were first opened.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Path, &[u8])> {
        (0u32..)
            .zip(&self.texts)
            .filter(|(_, source)| source.kind == Kind::File)
            .map(|(id, source)| (FileId(id), source.path.as_path(), &*source.text))
    }

    /// Forgets the texts. Paths and lines can still be named.
    pub fn drop_texts(&mut self) {
        self.texts.iter_mut().for_each(|source| source.text = Arc::from([]));
    }

    pub(crate) fn find(&self, path: &Path) -> Option<FileId> {
        self.iter().find(|(_, known, _)| *known == path).map(|(id, ..)| id)
    }

    pub(crate) fn add(&mut self, path: &Path, text: Vec<u8>) -> FileId {
        self.push(Source { path: path.to_owned(), text: text.into(), kind: Kind::File })
    }

    /// Adds a text that is no file, which places name by this path.
    pub(crate) fn add_made(&mut self, path: &Path, text: Vec<u8>) -> FileId {
        self.push(Source { path: path.to_owned(), text: text.into(), kind: Kind::Made })
    }

    pub(crate) fn add_command_line(&mut self, text: &str) -> FileId {
        let path = PathBuf::from("command line");
        self.push(Source { path, text: text.as_bytes().into(), kind: Kind::CommandLine })
    }

    pub(crate) fn shared_text(&self, file: FileId) -> Arc<[u8]> {
        self.get(file).map_or_else(|| Arc::from([]), |source| Arc::clone(&source.text))
    }

    fn push(&mut self, source: Source) -> FileId {
        let id = FileId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(source);
        id
    }

    fn get(&self, file: FileId) -> Option<&Source> {
        self.texts.get(usize::try_from(file.0).ok()?)
    }
}
