//! Entity tags of files: `FileETag`.

use crate::shared::apache::bounded::Failure;
use crate::shared::apache::{in_all_files, variables, wrong};
use conf::{Arity, Diagnostic};
use contract::{Args, Body, Budget, Directive, Exchange, FileIdentity, Filter, Loading, ScopeBuilder, View};
use journal::clock::Time;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// `FileETag [+|-]PART …`
pub(crate) static FILE_ETAG: Directive<Parts> = in_all_files(Directive::new("FileETag", parse))
    .args(Arity::AtLeast(1))
    .help("What the entity tag of a file is made of: INode, Size, MTime, All; None for no tag.");

/// What one line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// What counts in place of the parts of outer directories.
    named: Option<u8>,
    added: u8,
    removed: u8,
}

const INODE: u8 = 1;
const SIZE: u8 = 2;
const MTIME: u8 = 4;
/// No tag, until an inner directory adds a part.
const NONE: u8 = 8;

fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Parts, Diagnostic> {
    let mut parts = Parts::default();
    for word in args.words() {
        let (sign, name) = match word.text.split_first() {
            Some((sign @ (b'+' | b'-'), name)) => (Some(*sign), name),
            _ => (None, &*word.text),
        };
        let part = match (sign, name.to_ascii_lowercase().as_slice()) {
            (None, b"none") => NONE,
            (None, b"all") => INODE | SIZE | MTIME,
            (_, b"inode") => INODE,
            (_, b"size") => SIZE,
            (_, b"mtime") => MTIME,
            (Some(b'-'), b"digest") => 0,
            (_, b"digest") => {
                let error =
                    args.error("has the part \"Digest\", for which each file would be read once more");
                return Err(error.hint("use MTime and Size"));
            }
            _ => return Err(wrong(args, "an unknown part", word)),
        };
        match sign {
            Some(b'-') => (parts.added, parts.removed) = (parts.added & !part, parts.removed | part),
            Some(_) => (parts.added, parts.removed) = (parts.added | part, parts.removed & !part),
            None => parts.named = Some(parts.named.unwrap_or(0) | part),
        }
    }
    Ok(parts)
}

/// The parts that the levels come to, the outermost first. As in Apache a line that names parts overrides the signs of its
/// level, what a level adds is inherited, and no part at all stands for the usual ones.
fn merged(levels: &[Vec<Parts>]) -> u8 {
    let (mut parts, mut inherited) = (0, 0);
    for lines in levels {
        let signs = lines.iter().fold((0, 0), |(added, removed), line| {
            (added & !line.removed | line.added, removed & !line.added | line.removed)
        });
        let (added, removed) = signs;
        match lines.iter().rev().find_map(|line| line.named) {
            Some(named) => (parts, inherited) = (named, added),
            None => {
                inherited = inherited & !removed | added;
                parts = parts & !removed | inherited;
            }
        }
        if parts != NONE {
            parts &= !NONE;
        }
    }
    if parts == 0 { SIZE | MTIME } else { parts }
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let here = |level: View<'_>| -> Vec<Parts> {
        level.here(&FILE_ETAG).into_iter().map(|written| *written.value).collect()
    };
    let mut levels: Vec<Vec<Parts>> = view.levels().map(here).filter(|lines| !lines.is_empty()).collect();
    if levels.is_empty() {
        return;
    }
    levels.reverse();
    let parts = merged(&levels);
    builder.policy.etag = parts != NONE;
    if parts != NONE && parts != SIZE | MTIME {
        builder.filter(Tagged { parts });
    }
}

/// Makes the entity tag of a file of other parts than usual.
struct Tagged {
    parts: u8,
}

impl Filter for Tagged {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let (Some(file), Ok(path)) = (exchange.file, exchange.path()) else { return body };
        match variables::metadata(exchange, &path, &Budget::of(exchange)) {
            Ok(Some(metadata)) if FileIdentity::new(&metadata) == file => {
                exchange.response.etag = Some(self.tag(&metadata).into());
                // The head that is kept with the file has its usual tag.
                exchange.response.memo = None;
            }
            // A compressed form of the file, or a file that changed since, keeps its own tag.
            Ok(_) => {}
            Err(spent) => drop(Failure::from(spent).refuse(exchange)),
        }
        body
    }
}

impl Tagged {
    /// The tag, in Apache's form. A file that changed within the last second has a weak one.
    fn tag(&self, metadata: &Metadata) -> String {
        let modified = metadata.mtime().saturating_mul(1_000_000) + metadata.mtime_nsec() / 1000;
        let values =
            [(INODE, metadata.ino()), (SIZE, metadata.size()), (MTIME, modified.try_into().unwrap_or(0))];
        let named = values.iter().filter(|(part, _)| self.parts & part != 0);
        let texts: Vec<String> = named.map(|(_, value)| format!("{value:x}")).collect();
        let weak = if Time::now().seconds.saturating_sub(metadata.mtime()) > 1 { "" } else { "W/" };
        format!("{weak}\"{}\"", texts.join("-"))
    }
}
