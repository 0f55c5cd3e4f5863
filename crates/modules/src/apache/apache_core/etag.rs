//! Entity tags of files: `FileETag`.

use super::digest::{self, Digests};
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::{in_all_files, variables, wrong};
use conf::{Arity, Diagnostic};
use contract::{Args, Body, Directive, Exchange, FileIdentity, Filter, Loading, Phase, ScopeBuilder, View};
use journal::clock::Time;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// `FileETag [+|-]PART …`
pub(crate) static FILE_ETAG: Directive<Parts> = in_all_files(Directive::new("FileETag", parse))
    .args(Arity::AtLeast(1))
    .help("What the entity tag of a file is made of: INode, Size, MTime, All or Digest; None for no tag.");

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
/// A digest of the content, which overrides the other parts.
const DIGEST: u8 = 16;
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
            (_, b"digest") => DIGEST,
            _ => return Err(wrong(args, "an unknown part", word)),
        };
        parts = parts.then(match sign {
            Some(b'-') => Parts { removed: part, ..Parts::default() },
            Some(_) => Parts { added: part, ..Parts::default() },
            None if part == NONE => Parts { named: Some(NONE), ..Parts::default() },
            None => Parts { named: Some(parts.named.unwrap_or(0) | part), ..Parts::default() },
        });
    }
    Ok(parts)
}

impl Parts {
    /// What these and later ones of the same level come to: what is named overrides all before.
    fn then(self, later: Parts) -> Parts {
        if later.named.is_some() {
            return later;
        }
        Parts {
            added: self.added & !later.removed | later.added,
            removed: self.removed & !later.added | later.removed,
            ..self
        }
    }
}

/// The parts that the levels come to, the outermost first. As in Apache what a level adds is inherited, a part in an inner
/// level ends `None`, and no part at all stands for the usual ones.
fn merged(levels: &[Vec<Parts>]) -> u8 {
    let (mut parts, mut inherited) = (0, 0);
    for lines in levels {
        let Parts { named, added, removed } =
            lines.iter().fold(Parts::default(), |all, line| all.then(*line));
        match named {
            Some(named) => (parts, inherited) = (without_none(named) & !removed | added, added),
            None => {
                inherited = inherited & !removed | added;
                parts = without_none(parts & !removed | inherited);
            }
        }
    }
    match parts {
        0 => SIZE | MTIME,
        parts if parts & DIGEST != 0 => DIGEST,
        parts if parts & NONE != 0 => NONE,
        parts => parts,
    }
}

/// `None` counts only alone.
fn without_none(parts: u8) -> u8 {
    if parts == NONE { NONE } else { parts & !NONE }
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
    if parts & DIGEST != 0 {
        builder.handle(Phase::Content, Digests);
    }
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
        match variables::metadata(exchange, &path, &exchange.budget()) {
            Ok(Some(metadata)) if FileIdentity::new(&metadata) == file => {
                let digest = digest::of(exchange, file).filter(|_| self.parts & DIGEST != 0);
                exchange.response.etag = Some(digest.unwrap_or_else(|| self.tag(&metadata)).into());
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
        // A file without a digest is too long.
        let parts = if self.parts & DIGEST == 0 { self.parts } else { SIZE | MTIME };
        let named = values.iter().filter(|(part, _)| parts & part != 0);
        let texts: Vec<String> = named.map(|(_, value)| format!("{value:x}")).collect();
        let weak = if Time::now().seconds.saturating_sub(metadata.mtime()) > 1 { "" } else { "W/" };
        format!("{weak}\"{}\"", texts.join("-"))
    }
}
