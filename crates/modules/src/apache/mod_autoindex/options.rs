//! `IndexOptions`.

use crate::shared::apache::{variables, wrong};
use conf::{Diagnostic, Word};
use contract::Args;

/// The widest column, in bytes.
const WIDTH_MAX: i64 = 4096;

/// The width of a column if nothing says another one, in bytes.
pub(super) const WIDTH: usize = 23;

/// The width and the height of Apache's icons.
const ICON: (i64, i64) = (20, 22);

/// What is on, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    pub(crate) const FANCY: Flags = Flags(1);
    pub(crate) const TABLE: Flags = Flags(1 << 1);
    pub(crate) const FOLDERS_FIRST: Flags = Flags(1 << 2);
    pub(crate) const ICONS_ARE_LINKS: Flags = Flags(1 << 3);
    pub(crate) const IGNORE_CASE: Flags = Flags(1 << 4);
    pub(crate) const IGNORE_CLIENT: Flags = Flags(1 << 5);
    pub(crate) const SCAN_TITLES: Flags = Flags(1 << 6);
    pub(crate) const NO_SORTING: Flags = Flags(1 << 7);
    pub(crate) const NO_DESCRIPTION: Flags = Flags(1 << 8);
    pub(crate) const NO_PREAMBLE: Flags = Flags(1 << 9);
    pub(crate) const NO_ICON: Flags = Flags(1 << 10);
    pub(crate) const NO_TIME: Flags = Flags(1 << 11);
    pub(crate) const NO_SIZE: Flags = Flags(1 << 12);
    pub(crate) const NO_RULES: Flags = Flags(1 << 13);
    pub(crate) const TRACK_MODIFIED: Flags = Flags(1 << 14);
    pub(crate) const VERSION_SORT: Flags = Flags(1 << 15);
    pub(crate) const XHTML: Flags = Flags(1 << 16);
    pub(crate) const SHOW_FORBIDDEN: Flags = Flags(1 << 17);
    pub(crate) const ALT_CLASS: Flags = Flags(1 << 18);
    /// `None`
    const NOTHING: Flags = Flags(1 << 19);
    const EMPTY: Flags = Flags(0);

    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

const NAMES: [(&str, Flags); 19] = [
    ("fancyindexing", Flags::FANCY),
    ("htmltable", Flags::TABLE),
    ("foldersfirst", Flags::FOLDERS_FIRST),
    ("iconsarelinks", Flags::ICONS_ARE_LINKS),
    ("ignorecase", Flags::IGNORE_CASE),
    ("ignoreclient", Flags::IGNORE_CLIENT),
    ("scanhtmltitles", Flags::SCAN_TITLES),
    ("suppresscolumnsorting", Flags::NO_SORTING),
    ("suppressdescription", Flags::NO_DESCRIPTION),
    ("suppresshtmlpreamble", Flags::NO_PREAMBLE),
    ("suppressicon", Flags::NO_ICON),
    ("suppresslastmodified", Flags::NO_TIME),
    ("suppresssize", Flags::NO_SIZE),
    ("suppressrules", Flags::NO_RULES),
    ("trackmodified", Flags::TRACK_MODIFIED),
    ("versionsort", Flags::VERSION_SORT),
    ("xhtml", Flags::XHTML),
    ("showforbidden", Flags::SHOW_FORBIDDEN),
    ("addaltclass", Flags::ALT_CLASS),
];

/// The width of a column of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Bytes(usize),
    /// As wide as the widest entry.
    Fits,
}

/// What one line of `IndexOptions` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    changes: Vec<Change>,
    pub(super) name_width: Option<Width>,
    pub(super) description_width: Option<Width>,
    pub(super) icon_width: Option<i64>,
    pub(super) icon_height: Option<i64>,
    pub(super) media_type: Option<Box<[u8]>>,
    pub(super) charset: Option<Box<[u8]>>,
    pub(super) old_dates: bool,
}

/// A word of `IndexOptions`, in parts.
struct Said<'w> {
    /// In lower case.
    name: &'w str,
    value: Option<&'w [u8]>,
    /// `+`, `-`, or 0.
    sign: u8,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Set(Flags),
    Add(Flags),
    Remove(Flags),
    Clear,
}

/// What the lines of a level come to, and then what levels come to, one over the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Merged {
    set: Flags,
    added: Flags,
    removed: Flags,
}

impl Options {
    pub(super) fn parse(args: &Args<'_>) -> Result<Options, Diagnostic> {
        let mut options = Options::default();
        args.words().iter().try_for_each(|word| options.word(args, word))?;
        Ok(options)
    }

    fn word(&mut self, args: &Args<'_>, word: &Word) -> Result<(), Diagnostic> {
        let (sign, name) = match word.text.split_first() {
            Some((&sign @ (b'+' | b'-'), name)) => (sign, name),
            _ => (0, &*word.text),
        };
        let (name, value) = match name.iter().position(|&byte| byte == b'=') {
            Some(at) => (&name[..at], Some(&name[at + 1..])),
            None => (name, None),
        };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let flag = NAMES.iter().find(|(known, _)| *known == name && value.is_none());
        let change = match (flag, name.as_str()) {
            (Some((_, flag)), _) => *flag,
            (None, "none") if value.is_none() && sign == 0 => {
                self.changes.push(Change::Clear);
                return Ok(());
            }
            (None, name) => {
                self.setting(args, word, &Said { name, value, sign })?;
                Flags::EMPTY
            }
        };
        self.changes.push(match sign {
            b'+' => Change::Add(change),
            b'-' => Change::Remove(change),
            _ => Change::Set(change),
        });
        Ok(())
    }

    /// An option that is a width, or a text.
    fn setting(&mut self, args: &Args<'_>, word: &Word, said: &Said<'_>) -> Result<(), Diagnostic> {
        let Said { name, value, sign } = *said;
        let unknown = || wrong(args, "an unknown option", word);
        let icon = |default| match (value, sign) {
            (Some(value), sign) if sign != b'-' => Ok(variables::number(value)),
            (None, b'-') => Ok(0),
            (None, _) => Ok(default),
            _ => Err(unknown()),
        };
        let column = |least: i64| match (value, sign) {
            (None, b'-') => Ok(Width::Bytes(WIDTH)),
            (Some(b"*"), sign) if sign != b'-' => Ok(Width::Fits),
            (Some(value), sign) if sign != b'-' => match variables::number(value) {
                width if width != 0 && width < least || width > WIDTH_MAX => {
                    Err(args.error(&format!("has a width of less than {least} or more than {WIDTH_MAX}")))
                }
                width => Ok(Width::Bytes(usize::try_from(width).unwrap_or(0))),
            },
            _ => Err(unknown()),
        };
        match (name, value) {
            ("iconwidth", _) => self.icon_width = Some(icon(ICON.0)?),
            ("iconheight", _) => self.icon_height = Some(icon(ICON.1)?),
            ("namewidth", _) => self.name_width = Some(column(5)?),
            ("descriptionwidth", _) => self.description_width = Some(column(12)?),
            ("type", Some(value)) => self.media_type = Some(value.into()),
            ("charset", Some(value)) => self.charset = Some(value.into()),
            ("useolddateformat", None) => self.old_dates = true,
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

impl Merged {
    /// Goes on with a line of the same level.
    pub(super) fn line(&mut self, options: &Options) {
        for change in &options.changes {
            match *change {
                Change::Clear => *self = Merged { set: Flags::NOTHING, ..Merged::default() },
                Change::Set(flags) => *self = Merged { set: self.set.with(flags), ..Merged::default() },
                Change::Add(flags) => {
                    self.added = self.added.with(flags);
                    self.removed = self.removed.without(flags);
                }
                Change::Remove(flags) => {
                    self.removed = self.removed.with(flags);
                    self.added = self.added.without(flags);
                }
            }
        }
    }

    /// A level over the outer ones. Options without a sign override all outer ones, and as in Apache those with a sign in
    /// the same level.
    pub(super) fn over(self, outer: Merged) -> Merged {
        if self.set != Flags::EMPTY {
            return Merged { set: self.set, ..Merged::default() };
        }
        let added = outer.added.with(self.added).without(self.removed);
        let removed = outer.removed.with(self.removed);
        let set = outer.set.without(Flags::NOTHING).with(added).without(removed);
        Merged { set, added, removed }
    }

    pub(super) fn flags(self) -> Flags {
        self.set
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Flags, Merged, Options};

    fn level(changes: &[Change]) -> Merged {
        let mut merged = Merged::default();
        merged.line(&Options { changes: changes.to_vec(), ..Options::default() });
        merged
    }

    #[test]
    fn levels() {
        let fancy = level(&[Change::Set(Flags::FANCY)]).over(Merged::default());
        let more = level(&[Change::Add(Flags::TABLE)]).over(fancy);
        assert!(more.flags().has(Flags::FANCY) && more.flags().has(Flags::TABLE));
        let other = level(&[Change::Set(Flags::XHTML)]).over(more);
        assert_eq!(other.flags(), Flags::XHTML);
        let none = level(&[Change::Clear]).over(more);
        assert!(!none.flags().has(Flags::FANCY));
        let less = level(&[Change::Remove(Flags::FANCY)]).over(more);
        assert_eq!(less.flags(), Flags::TABLE);
    }
}
