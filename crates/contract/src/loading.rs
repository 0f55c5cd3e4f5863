//! The state that the parsers of directives share while a configuration is read.

use crate::{LocationName, Module, Origin, Regex, Template, Variables};
use conf::apache::Methods;
use conf::value::{self, Pattern, template};
use conf::{Contexts, Diagnostic, Span, Word};
use journal::LogFiles;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether there is a file at a path; `None` where a `.htaccess` file may not find out.
pub type Look = dyn Fn(&Path) -> Option<bool> + Send + Sync;

/// What a directive in a `.htaccess` file depends on.
#[derive(Default)]
pub struct Htaccess {
    /// The file.
    pub path: Option<Arc<Path>>,
    /// Looks for the files that sections depend on.
    pub look: Option<Box<Look>>,
    /// The methods that the directives being read count for; none for all.
    pub methods: Option<Arc<Methods>>,
}

/// What a directive's `parse` may use besides its own arguments.
pub struct Loading {
    /// The prefix (`-p`): what relative paths of logs, roots and the pid file start from.
    pub prefix: PathBuf,
    /// The directory of the main configuration file: what other relative paths start from.
    pub conf_prefix: PathBuf,
    /// The features of the server.
    pub modules: Arc<[&'static Module]>,
    /// The variables that exist or were named.
    pub variables: Variables,
    /// The same of the part that is not being read: of `stream`, but of `http` while `stream` is read.
    pub other_variables: Variables,
    /// The log files that the configuration writes to.
    pub logs: LogFiles,
    /// The location whose block is being read.
    pub location: Option<LocationName>,
    /// The `.htaccess` file that is being read; empty while the configuration is.
    pub htaccess: Htaccess,
    /// Where files come from, and what the configuration before this one left.
    pub origin: Arc<Origin>,
    /// The port of a server that names none.
    pub default_port: u16,
    /// Directories that are to be there, whose last level is made where it is not; and where they were named.
    pub directories: Vec<(PathBuf, Span)>,
    /// Warnings and notes so far.
    pub notes: Vec<Diagnostic>,
    /// What was refused so far, see [`Loading::refuse`]; `None` where the first refusal ends the reading.
    pub refusals: Option<Vec<Diagnostic>>,
    /// About how much memory the values so far take, in bytes, and the most that they may take.
    pub memory_bytes: (usize, usize),
    /// The patterns so far, by their text; those that ignore case are apart. Very many servers have the same ones.
    patterns: [HashMap<Box<[u8]>, Arc<Pattern>>; 2],
}

impl Loading {
    /// A load that starts from these two directories.
    pub fn new(prefix: &Path, conf_prefix: &Path) -> Loading {
        Loading {
            prefix: prefix.to_path_buf(),
            conf_prefix: conf_prefix.to_path_buf(),
            modules: Arc::default(),
            variables: Variables::new(),
            other_variables: Variables::within(Contexts::STREAM),
            logs: LogFiles::default(),
            location: None,
            htaccess: Htaccess::default(),
            origin: inputs::origin(),
            default_port: 80,
            directories: Vec::new(),
            notes: Vec::new(),
            refusals: None,
            memory_bytes: (0, usize::MAX),
            patterns: Default::default(),
        }
    }

    /// Goes on with the variables of the other part: enters or leaves `stream`.
    pub fn swap_variables(&mut self) {
        std::mem::swap(&mut self.variables, &mut self.other_variables);
    }

    /// Counts memory that a value takes.
    ///
    /// # Errors
    /// The values take more than they may.
    pub fn hold(&mut self, bytes: usize, span: Span) -> Result<(), Diagnostic> {
        let (used, max) = &mut self.memory_bytes;
        *used = used.saturating_add(bytes);
        if used <= max {
            return Ok(());
        }
        let message =
            format!("the directives up to this one take {used} bytes of memory, the limit is {max}");
        Err(Diagnostic::emerg(message).at(span))
    }

    /// Compiles a text with variables.
    pub fn template(&mut self, word: &Word) -> Result<Template, Diagnostic> {
        let parsed = template(word).map_err(|error| Diagnostic::emerg(error.to_string()).at(word.span))?;
        Ok(Template::new(parsed, &mut self.variables, word.span))
    }

    /// As [`Loading::template`], in a list that nginx looks up for servers only, such as that of `proxy_set_header`.
    ///
    /// # Errors
    /// As [`Loading::template`].
    pub fn template_for_servers(&mut self, word: &Word) -> Result<Template, Diagnostic> {
        self.variables.are_for_servers = true;
        let made = self.template(word);
        self.variables.are_for_servers = false;
        made
    }

    /// Compiles a regular expression, or takes the one of this text, and defines variables for its named captures.
    pub fn regex(&mut self, word: &Word, text: &[u8], ignore_case: bool) -> Result<Regex, Diagnostic> {
        let known = &mut self.patterns[usize::from(ignore_case)];
        let pattern = match known.get(text) {
            Some(pattern) => Arc::clone(pattern),
            None => {
                let pattern = Arc::new(value::pattern(word, text, ignore_case)?);
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

    /// Refuses a directive, a parameter or a value that is not built or not supported, wherever it stands. Where all
    /// refusals are collected the reading goes on: the caller gives any value, which is not used.
    ///
    /// # Errors
    /// The refusal, where the first one ends the reading.
    pub fn refuse(&mut self, refusal: Diagnostic) -> Result<(), Diagnostic> {
        match &mut self.refusals {
            Some(refusals) => {
                refusals.push(refusal);
                Ok(())
            }
            None => Err(refusal),
        }
    }
}
