//! What the files on the way to a directory say about its listing.

use super::options::{Flags, Merged, Options, WIDTH, Width};
use super::order::{Order, Wanted};
use super::{INDEX_OPTIONS, Line};
use crate::shared::apache::glob;
use bytes::Bytes;
use contract::{Budget, Spent, View};

/// A name of `IndexIgnore`, for a directory and those below it.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    directory: Box<[u8]>,
    name: Box<[u8]>,
}

impl Pattern {
    pub(super) fn ignored(directory: &[u8], name: &[u8]) -> Pattern {
        let start = name.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        Pattern { directory: directory.into(), name: name[start..].into() }
    }
}

/// What an [`Item`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Type,
    Encoding,
}

/// An icon, or the text in its place, for some files.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    place: Place,
    directory: Box<[u8]>,
    to: Box<[u8]>,
    value: Box<[u8]>,
}

/// The names that icons of all directories, and of the heading, have.
pub(super) const ANY_DIRECTORY: &[u8] = b"^^DIRECTORY^^";
pub(super) const BLANK: &[u8] = b"^^BLANKICON^^";

impl Item {
    pub(super) fn new(place: Place, directory: &[u8], to: &[u8], value: &[u8]) -> Item {
        let to: Box<[u8]> = match place {
            Place::Path if to == b"**DIRECTORY**" => [b"*", ANY_DIRECTORY].concat().into(),
            Place::Path if !to.iter().any(|byte| matches!(byte, b'*' | b'?')) => [b"*", to].concat().into(),
            Place::Encoding => to.to_ascii_lowercase().into(),
            Place::Path | Place::Type => to.into(),
        };
        Item { place, directory: directory.into(), to, value: value.into() }
    }

    fn is_about(&self, file: &FileType<'_>, meter: &mut Meter<'_>) -> Result<bool, Spent> {
        let is_special = file.path.starts_with(b"^");
        meter.pay(self.directory.len() + self.to.len().max(1).saturating_mul(file.path.len()))?;
        if !is_special && !file.path.starts_with(&self.directory) {
            return Ok(false);
        }
        let matches = |text: &[u8]| self.to.is_empty() || glob::stars(&self.to, text);
        let matches_any_case = |text: &[u8]| {
            self.to.is_empty() || glob::stars(&self.to.to_ascii_lowercase(), &text.to_ascii_lowercase())
        };
        Ok(match self.place {
            Place::Path => matches(file.path),
            _ if is_special => matches(file.path),
            Place::Type => {
                file.encoding.is_none() && file.media_type.as_deref().is_some_and(matches_any_case)
            }
            Place::Encoding => file.encoding.is_some_and(matches_any_case),
        })
    }
}

/// What icons are chosen by.
#[derive(Clone, Debug, Default)]
pub(super) struct FileType<'a> {
    /// The path in the file system, or one of the names of no file.
    pub(super) path: &'a [u8],
    /// Without parameters; none for directories.
    pub(super) media_type: Option<Bytes>,
    pub(super) encoding: Option<&'a [u8]>,
}

/// A name, and a text about files of that name.
type About = (Box<[u8]>, Box<[u8]>);

/// What the files on the way to a directory say about its listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(super) flags: Flags,
    order: Order,
    pub(super) name_width: Option<Width>,
    pub(super) description_width: Option<Width>,
    pub(super) icon_width: i64,
    pub(super) icon_height: i64,
    media_type: Option<Box<[u8]>>,
    charset: Option<Box<[u8]>>,
    pub(super) old_dates: bool,
    pub(super) style: Option<Box<[u8]>>,
    pub(super) head: Option<Box<[u8]>>,
    /// `HeaderName`
    pub(crate) header: Option<Box<[u8]>>,
    /// `ReadmeName`
    pub(crate) readme: Option<Box<[u8]>>,
    pub(super) default_icon: Option<Box<[u8]>>,
    descriptions: Vec<About>,
    icons: Vec<Item>,
    alts: Vec<Item>,
    ignores: Vec<Pattern>,
    /// Whether the listing has Apache's form.
    pub(crate) is_page: bool,
}

impl Settings {
    /// What a level and those around it say.
    pub(crate) fn of(view: &View<'_>) -> Settings {
        let levels: Vec<View<'_>> = view.levels().collect();
        let (mut settings, mut merged) = (Settings::default(), Merged::default());
        for level in levels.into_iter().rev() {
            let lines: Vec<&Line> =
                level.here(&INDEX_OPTIONS).into_iter().map(|written| written.value).collect();
            if !lines.is_empty() {
                merged = settings.level(&lines).over(merged);
            }
        }
        settings.flags = merged.flags();
        settings
    }

    /// Takes over what a level says. Its lists come before those of outer levels.
    fn level(&mut self, lines: &[&Line]) -> Merged {
        let mut merged = Merged::default();
        let (mut icons, mut alts, mut descriptions, mut ignores) = Default::default();
        let mut resets = false;
        for line in lines {
            self.is_page |= !matches!(line, Line::Ignore(_) | Line::Reset(_));
            match line {
                Line::Options(options) => {
                    merged.line(options);
                    self.options(options);
                }
                Line::Order(order) => self.order = *order,
                Line::Ignore(patterns) => Vec::extend(&mut ignores, patterns.iter().cloned()),
                Line::Reset(on) => resets = *on,
                Line::Style(url) => self.style = Some(url.clone()),
                Line::Head(text) => self.head = Some(text.clone()),
                Line::Header(path) => self.header = Some(path.clone()),
                Line::Readme(path) => self.readme = Some(path.clone()),
                Line::DefaultIcon(url) => self.default_icon = Some(url.clone()),
                Line::Description(text, names) => {
                    Vec::extend(&mut descriptions, names.iter().map(|name| (name.clone(), text.clone())));
                }
                Line::Icons(more_icons, more_alts) => {
                    Vec::extend(&mut icons, more_icons.iter().cloned());
                    Vec::extend(&mut alts, more_alts.iter().cloned());
                }
            }
        }
        if resets {
            self.ignores.clear();
        }
        self.icons.splice(0..0, icons);
        self.alts.splice(0..0, alts);
        self.descriptions.splice(0..0, descriptions);
        self.ignores.splice(0..0, ignores);
        merged
    }

    fn options(&mut self, options: &Options) {
        self.name_width = options.name_width.or(self.name_width);
        self.description_width = options.description_width.or(self.description_width);
        self.icon_width = options.icon_width.unwrap_or(self.icon_width);
        self.icon_height = options.icon_height.unwrap_or(self.icon_height);
        self.media_type = options.media_type.clone().or(self.media_type.take());
        self.charset = options.charset.clone().or(self.charset.take());
        self.old_dates |= options.old_dates;
    }

    /// What the settings and the query of a client ask for.
    pub(crate) fn wanted(&self, args: &[u8]) -> Wanted {
        Wanted::of(self.flags, self.order, args)
    }

    /// Whether an entry is left out, by its path in the file system.
    ///
    /// # Errors
    /// [`Spent`].
    pub(crate) fn ignores(&self, path: &[u8], meter: &mut Meter<'_>) -> Result<bool, Spent> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        for pattern in &self.ignores {
            meter.pay(pattern.directory.len() + pattern.name.len().max(1).saturating_mul(name.len()))?;
            if path.starts_with(&pattern.directory) && glob::stars(&pattern.name, name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether names are listed that need a user, or are forbidden.
    pub(crate) fn shows_forbidden(&self) -> bool {
        self.flags.has(Flags::SHOW_FORBIDDEN)
    }

    /// Whether titles of pages become descriptions.
    pub(crate) fn scans_titles(&self) -> bool {
        self.flags.has(Flags::SCAN_TITLES)
    }

    /// Whether the listing has the time of its directory.
    pub(crate) fn tracks_time(&self) -> bool {
        self.flags.has(Flags::TRACK_MODIFIED)
    }

    /// The media type of the listing.
    pub(crate) fn media_type(&self) -> Bytes {
        let media_type = self.media_type.as_deref().unwrap_or(b"text/html");
        match self.charset.as_deref().unwrap_or(b"UTF-8") {
            b"" => media_type.to_vec().into(),
            charset => [media_type, b";charset=", charset].concat().into(),
        }
    }

    pub(super) fn icon(&self, file: &FileType<'_>, meter: &mut Meter<'_>) -> Result<Chosen, Spent> {
        find(&self.icons, file, meter)
    }

    pub(super) fn alt(&self, file: &FileType<'_>, meter: &mut Meter<'_>) -> Result<Chosen, Spent> {
        find(&self.alts, file, meter)
    }

    /// The text about a file, by its path in the file system.
    pub(super) fn description(&self, path: &[u8], meter: &mut Meter<'_>) -> Result<Chosen, Spent> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        for (place, (to, _)) in self.descriptions.iter().enumerate() {
            let (is_path, is_glob) = (to.contains(&b'/'), to.iter().any(|byte| b"*?[\\".contains(byte)));
            meter.pay((to.len() + 2).saturating_mul(if is_path { path.len() } else { name.len() }))?;
            let is_about = match () {
                () if is_path => glob::matches(&[b"*/", &**to, b"*"].concat(), path),
                () if is_glob => glob::matches(&[b"*", &**to, b"*"].concat(), name),
                () => to.is_empty() || name.windows(to.len()).any(|part| *part == **to),
            };
            if is_about {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The values at these positions: an icon, the text for it, and a description.
    pub(super) fn values(&self, dress: Dress) -> [Option<&[u8]>; 3] {
        [
            dress.icon.and_then(|place| Some(&*self.icons.get(place)?.value)),
            dress.alt.and_then(|place| Some(&*self.alts.get(place)?.value)),
            dress.description.and_then(|place| Some(&*self.descriptions.get(place)?.1)),
        ]
    }

    /// The width of the column of names, or of descriptions, in bytes; the longest entry is given.
    pub(super) fn width(width: Option<Width>, longest: usize) -> usize {
        match width {
            None => WIDTH,
            Some(Width::Bytes(bytes)) => bytes,
            Some(Width::Fits) => longest.max(WIDTH),
        }
    }
}

/// A position in a list of icons, texts or descriptions.
pub(super) type Chosen = Option<usize>;

/// What a row of a listing has besides the name, as positions in the lists of the settings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dress {
    pub(super) icon: Chosen,
    pub(super) alt: Chosen,
    pub(super) description: Chosen,
}

/// Counts comparisons of names with patterns, for which a budget pays.
pub(crate) struct Meter<'b> {
    budget: &'b Budget,
    /// What the comparisons cost that were not paid for yet, in bytes.
    bytes: usize,
}

impl Meter<'_> {
    pub(crate) fn new(budget: &Budget) -> Meter<'_> {
        Meter { budget, bytes: 0 }
    }

    /// Pays for a comparison that takes up to so many steps.
    ///
    /// # Errors
    /// [`Spent`].
    fn pay(&mut self, bytes: usize) -> Result<(), Spent> {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(COMPARISON_BYTES);
        let units = self.bytes / UNIT_BYTES;
        self.bytes %= UNIT_BYTES;
        match units {
            0 => Ok(()),
            units => self.budget.spend(u32::try_from(units).unwrap_or(u32::MAX)),
        }
    }
}

/// What a comparison costs besides its bytes, and how many of them are a unit of the budget.
const COMPARISON_BYTES: usize = 32;
const UNIT_BYTES: usize = 1024;

fn find(items: &[Item], file: &FileType<'_>, meter: &mut Meter<'_>) -> Result<Chosen, Spent> {
    for (place, item) in items.iter().enumerate() {
        if item.is_about(file, meter)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
