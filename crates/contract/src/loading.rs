//! The state that the parsers of directives share while a configuration is read.

use crate::log::LogFiles;
use crate::{LocationName, Origin, Regex, Template, Variables};
use conf::value::{Pattern, ValueError, template};
use conf::{Diagnostic, Span, Word};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a directive's `parse` may use beside its own arguments.
pub struct Loading {
    /// The prefix (`-p`): what relative paths of logs, roots and the pid file start from.
    pub prefix: PathBuf,
    /// The directory of the main configuration file: what other relative paths start from.
    pub conf_prefix: PathBuf,
    /// The variables that exist or were named.
    pub variables: Variables,
    /// The log files that the configuration writes to.
    pub logs: LogFiles,
    /// The location whose block is being read.
    pub location: Option<LocationName>,
    /// The directory of the `.htaccess` file that is being read, with a slash at its end.
    pub directory: Option<Box<[u8]>>,
    /// Where files come from, and what the configuration before this one left.
    pub origin: Arc<Origin>,
    /// The port of a server that names none.
    pub default_port: u16,
    /// Variables whose last `set` so far gives them a URL of `https`.
    pub https_variables: HashSet<Box<str>>,
    /// Directories that are to be there, whose last level is made where it is not; and where they were named.
    pub directories: Vec<(PathBuf, Span)>,
    /// Warnings and notes so far.
    pub notes: Vec<Diagnostic>,
    /// The patterns so far, by their text; those that ignore case are apart. Very many servers have the same ones.
    patterns: [HashMap<Box<[u8]>, Arc<Pattern>>; 2],
}

impl Loading {
    /// A load that starts from these two directories.
    pub fn new(prefix: &Path, conf_prefix: &Path) -> Loading {
        Loading {
            prefix: prefix.to_path_buf(),
            conf_prefix: conf_prefix.to_path_buf(),
            variables: Variables::new(),
            logs: LogFiles::default(),
            location: None,
            directory: None,
            origin: Arc::default(),
            default_port: 80,
            https_variables: HashSet::new(),
            directories: Vec::new(),
            notes: Vec::new(),
            patterns: Default::default(),
        }
    }

    /// Compiles a text with variables.
    pub fn template(&mut self, word: &Word) -> Result<Template, Diagnostic> {
        let parsed = template(word).map_err(|error| Diagnostic::emerg(error.to_string()).at(word.span))?;
        Ok(Template::new(parsed, &mut self.variables, word.span))
    }

    /// Compiles a regular expression, or takes the one of this text that is there, and defines variables for its named
    /// captures.
    pub fn regex(&mut self, word: &Word, text: &[u8], ignore_case: bool) -> Result<Regex, Diagnostic> {
        let known = &mut self.patterns[usize::from(ignore_case)];
        let pattern = match known.get(text) {
            Some(pattern) => Arc::clone(pattern),
            None => {
                let pattern =
                    Arc::new(Pattern::new(text, ignore_case).map_err(|error| wrong(error, word, text))?);
                known.insert(text.into(), Arc::clone(&pattern));
                pattern
            }
        };
        Ok(Regex::new(pattern, &mut self.variables))
    }

    /// A path relative to the prefix.
    pub fn path(&self, text: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.prefix.join(std::ffi::OsStr::from_bytes(text))
    }

    /// A path relative to the prefix of a directory that is to be there.
    pub fn directory(&mut self, word: &Word, place: Span) -> PathBuf {
        let path = self.path(&word.text);
        self.directories.push((path.clone(), place));
        path
    }

    /// Adds a warning.
    pub fn note(&mut self, note: Diagnostic) {
        self.notes.push(note);
    }
}

fn wrong(error: ValueError, word: &Word, pattern: &[u8]) -> Diagnostic {
    let place = match &error {
        ValueError::Pattern(wrong) => place_in(word, pattern, wrong.offset),
        _ => word.span,
    };
    Diagnostic::emerg(error.to_string()).at(word.span).under(place)
}

/// Where a byte of a pattern stands that is in a word; the whole word, where it is not written as it is meant.
fn place_in(word: &Word, pattern: &[u8], offset: usize) -> Span {
    let quotes = usize::from(word.quoted);
    let written = (word.span.end - word.span.start) as usize;
    let found = word.text.windows(pattern.len().max(1)).rposition(|part| part == pattern);
    match found.filter(|_| written == word.text.len() + 2 * quotes) {
        Some(begin) => {
            let start = word.span.start + u32::try_from(quotes + begin + offset).unwrap_or(0);
            Span { start, end: word.span.end.max(start), ..word.span }
        }
        None => word.span,
    }
}
