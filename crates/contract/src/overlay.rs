//! Settings in `.htaccess` files, which become a scope while requests are served.

use crate::{Budget, Directive, Exchange, Scope, SectionId, Spent};
use conf::Node;
use conf::apache::AllowedBelow;
use http::hash::Keyed;
use journal::shares::Account;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};
use std::{fmt, fs, io};

/// Where a scope looks for settings in `.htaccess` files.
pub struct Overlay {
    /// The level that the files lie over.
    pub section: SectionId,
    /// What the files are called. The first one of a directory counts.
    pub names: Arc<[Box<[u8]>]>,
    /// What the files may contain. The first that matches a directory counts, and the last one matches all.
    pub rules: Box<[AllowedBelow]>,
    /// The blocks in such files that count for some requests only.
    pub selections: &'static Directive<Selection>,
    /// How many shares of the processor the site has.
    pub share: u64,
}

/// What the search for settings found for a request.
#[derive(Clone)]
pub struct Overlaid {
    /// The path of the request's file.
    pub path: Vec<u8>,
    /// Where the URI begins in it, if the path depends on nothing else.
    pub uri_start: Option<usize>,
    /// Where the root ends in it.
    pub root_end: usize,
    /// What is there, if that was looked at; `Some(None)` where there is no file.
    pub metadata: Option<Option<fs::Metadata>>,
    /// The scope of the location.
    pub below: Weak<Scope>,
    /// The scope with the settings, the same if there are none.
    pub scope: Weak<Scope>,
}

impl Overlaid {
    /// The URI that the path was made from, if it depends on nothing else.
    pub fn uri(&self) -> Option<&[u8]> {
        self.path.get(self.uri_start?..)
    }

    /// The site, for [`journal::shares`]: all that is below one root.
    pub fn account(&self) -> Account {
        Keyed::default().hash_one(self.path.get(..self.root_end).unwrap_or_default()) | 1
    }
}

/// How the files are opened where not every symbolic link counts, by their paths.
#[derive(Clone)]
pub struct Opener(pub Arc<Open>);

/// Opens a file for reading without waiting, or refuses it with `ELOOP`.
pub type Open = dyn Fn(&Exchange, &[u8]) -> io::Result<fs::File> + Send + Sync;

/// A block that counts for some requests only.
#[derive(Clone)]
pub struct Selection {
    /// Whether it counts.
    pub holds: Arc<Holds>,
    /// Whether it counts only if the block before it, and those that it belongs to, do not.
    pub is_else: bool,
    /// Whether it overrides all blocks that are not late.
    pub is_late: bool,
    /// What stands in it.
    pub nodes: Arc<[Node]>,
}

/// Whether a block counts for a request; the budget of the request pays for the answer.
pub type Holds = dyn Fn(&Exchange, &Budget) -> Result<bool, Spent> + Send + Sync;

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("section", &self.section).field("names", &self.names).finish()
    }
}
