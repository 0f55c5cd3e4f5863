//! Writes listings in the form of Apache's.

use super::options::{Flags, Width};
use super::order::{Key, Wanted};
use super::row::Row;
use super::settings::{ANY_DIRECTORY, BLANK, Dress, FileType, Meter, Settings};
use crate::shared::apache::short_size::short_size;
use crate::shared::apache::urls::escape_uri;
use bytes::Bytes;
use contract::{Budget, Spent};
use http::escape;
use journal::clock;
use std::borrow::Cow;

/// A file or a directory of a listing.
#[derive(Default)]
pub(crate) struct Listed<'f> {
    pub(crate) name: &'f [u8],
    /// The path in the file system.
    pub(crate) path: &'f [u8],
    /// Seconds and nanoseconds since 1970.
    pub(crate) modified: (i64, u32),
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) media_type: Option<Bytes>,
    pub(crate) encoding: Option<&'f [u8]>,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Parent,
    Directory,
    File,
}

impl Dress {
    /// Chooses what a row has besides its name. Of the parent directory and of directories only the path counts.
    ///
    /// # Errors
    /// [`Spent`].
    pub(crate) fn choose(
        settings: &Settings,
        flags: Flags,
        (kind, listed): (Kind, &Listed<'_>),
        meter: &mut Meter<'_>,
    ) -> Result<Dress, Spent> {
        let needed = if kind == Kind::Parent { Flags::FANCY } else { Flags::FANCY.with(Flags::TABLE) };
        if !flags.has(needed) {
            return Ok(Dress::default());
        }
        let description = settings.description(listed.path, meter)?;
        if kind == Kind::File {
            let (media_type, encoding) = (listed.media_type.clone(), listed.encoding);
            let file_type = FileType { path: listed.path, media_type, encoding };
            let (icon, alt) = (settings.icon(&file_type, meter)?, settings.alt(&file_type, meter)?);
            return Ok(Dress { icon, alt, description });
        }
        let (mut icon, mut alt) = (None, None);
        for path in [listed.path, ANY_DIRECTORY] {
            let file_type = FileType { path, ..FileType::default() };
            icon = if icon.is_none() { settings.icon(&file_type, meter)? } else { icon };
            alt = if alt.is_none() { settings.alt(&file_type, meter)? } else { alt };
        }
        Ok(Dress { icon, alt, description })
    }
}

impl<'a> Row<'a> {
    /// The row that leads to the parent directory of a path.
    pub(crate) fn parent(settings: &'a Settings, flags: Flags, uri: &[u8], dress: Dress) -> Row<'a> {
        let above = uri.strip_suffix(b"/").unwrap_or(uri);
        let end = above.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let name = if end == 0 { b"/".to_vec() } else { above[..end].to_vec() };
        let mut row = Row { name, ..Row::default() };
        if flags.has(Flags::FANCY) {
            row.dress(settings, dress, Some(b"PARENTDIR"));
        }
        row
    }

    /// The row of a directory.
    pub(crate) fn directory(
        settings: &'a Settings,
        flags: Flags,
        listed: &Listed<'_>,
        dress: Dress,
    ) -> Row<'a> {
        let mut row = Row { name: [listed.name, b"/"].concat(), ..Row::default() };
        if flags.has(Flags::FANCY.with(Flags::TABLE)) {
            row.modified = Some(listed.modified);
            row.is_first = flags.has(Flags::FOLDERS_FIRST);
            row.dress(settings, dress, Some(b"DIR"));
        }
        row
    }

    /// The row of a file.
    pub(crate) fn file(settings: &'a Settings, flags: Flags, listed: &Listed<'_>, dress: Dress) -> Row<'a> {
        let mut row = Row { name: listed.name.to_vec(), ..Row::default() };
        if flags.has(Flags::FANCY.with(Flags::TABLE)) {
            (row.modified, row.size) = (Some(listed.modified), Some(listed.size));
            row.dress(settings, dress, None);
        }
        row
    }

    /// Gives a row its icon and texts.
    fn dress(&mut self, settings: &'a Settings, dress: Dress, alt: Option<&'a [u8]>) {
        let description;
        [self.icon, self.alt, description] = settings.values(dress);
        self.alt = self.alt.or(alt);
        self.description = description.map(Cow::from);
    }

    pub(super) fn is_parent(&self) -> bool {
        self.name.starts_with(b"/")
    }
}

/// What `HeaderName` and `ReadmeName` lead to.
pub(crate) enum Part {
    Html(Bytes),
    Text(Bytes),
}

/// What a listing shows.
pub(crate) struct Listing<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) uri: &'a [u8],
    pub(crate) rows: &'a [Row<'a>],
    /// What comes before the listing and after it.
    pub(crate) parts: [Option<&'a Part>; 2],
}

/// A whole listing, with what comes before it and after it. The budget pays for its length.
///
/// # Errors
/// [`Spent`].
pub(crate) fn page(settings: &Settings, budget: &Budget, listing: &Listing<'_>) -> Result<Vec<u8>, Spent> {
    let Listing { wanted, uri, rows, parts } = *listing;
    let blank = FileType { path: BLANK, ..FileType::default() };
    let icon = settings.icon(&blank, &mut Meter::new(budget))?;
    let [blank, ..] = settings.values(Dress { icon, ..Dress::default() });
    let mut page = Page { settings, flags: wanted.flags, wanted, blank, paid: 0, budget, out: Vec::new() };
    let end = uri.iter().rposition(|&byte| byte != b'/').map_or(1, |at| at + 1);
    let mut title = Vec::new();
    escape::html(&uri[..end.min(uri.len())], &mut title);
    page.head(&title, parts[0]);
    match () {
        () if page.has(Flags::TABLE) => page.table(rows)?,
        () if page.has(Flags::FANCY) => page.columns(rows)?,
        () => page.list(rows)?,
    }
    page.tail(parts[1]);
    Ok(page.out)
}

/// So many bytes of a row are a unit of the budget.
const ROW_BYTES: usize = 64;

struct Page<'a> {
    settings: &'a Settings,
    flags: Flags,
    wanted: &'a Wanted,
    /// The icon in the row of headings.
    blank: Option<&'a [u8]>,
    budget: &'a Budget,
    /// How much of the page was paid for, in bytes.
    paid: usize,
    out: Vec<u8>,
}

impl Page<'_> {
    fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    /// Pays for what a row added.
    fn pay(&mut self) -> Result<(), Spent> {
        let more = self.out.len() - self.paid;
        self.paid = self.out.len();
        self.budget.spend(u32::try_from(more / ROW_BYTES).unwrap_or(u32::MAX).saturating_add(1))
    }

    fn put(&mut self, text: impl AsRef<[u8]>) {
        self.out.extend_from_slice(text.as_ref());
    }

    fn escaped(&mut self, text: &[u8]) {
        escape::html(text, &mut self.out);
    }

    /// The end of an element without content.
    fn end(&self) -> &'static str {
        if self.has(Flags::XHTML) { " /" } else { "" }
    }

    /// A class where there is a style sheet, or else what is there without one.
    fn class(&self, class: &str, plain: &str) -> String {
        match self.settings.style {
            Some(_) => format!(" class=\"{class}\">"),
            None => format!("{plain}>"),
        }
    }

    fn head(&mut self, title: &[u8], header: Option<&Part>) {
        let is_bare = self.has(Flags::NO_PREAMBLE) && matches!(header, Some(Part::Html(_)));
        if !is_bare {
            self.preamble(title);
        }
        match header {
            Some(Part::Html(text)) => self.put(text),
            Some(Part::Text(text)) => self.text(text),
            None => {
                let id = if self.settings.style.is_some() { "  <h1 id=\"indextitle\">" } else { "<h1>" };
                self.put(id);
                self.put("Index of ");
                self.put(title);
                self.put("</h1>\n");
            }
        }
    }

    fn preamble(&mut self, title: &[u8]) {
        self.put(match self.has(Flags::XHTML) {
            true => {
                "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
                 \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
                 <html xmlns=\"http://www.w3.org/1999/xhtml\">\n <head>\n  <title>Index of "
            }
            false => {
                "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
                 <html>\n <head>\n  <title>Index of "
            }
        });
        self.put(title);
        self.put("</title>\n");
        if let Some(style) = self.settings.style.clone() {
            self.put("  <link rel=\"stylesheet\" href=\"");
            self.put(style);
            self.put("\" type=\"text/css\"");
            self.put(self.end());
            self.put(">\n");
        }
        self.put(self.settings.head.clone().unwrap_or_default());
        self.put(" </head>\n <body>\n");
    }

    fn tail(&mut self, readme: Option<&Part>) {
        match readme {
            Some(Part::Html(text)) => self.put(text),
            Some(Part::Text(text)) => self.text(text),
            None => {}
        }
        if !(self.has(Flags::NO_PREAMBLE) && matches!(readme, Some(Part::Html(_)))) {
            self.put("</body></html>\n");
        }
    }

    /// A text that is no HTML.
    fn text(&mut self, text: &[u8]) {
        self.put("<pre>\n");
        for &byte in text {
            match byte {
                b'<' => self.put("&lt;"),
                b'>' => self.put("&gt;"),
                b'&' => self.put("&amp;"),
                byte => self.out.push(byte),
            }
        }
        self.put("</pre>\n");
    }

    /// The heading of a column, which sorts by it.
    fn heading(&mut self, text: &str, key: Key) {
        if self.has(Flags::NO_SORTING) {
            return self.put(text);
        }
        let order = self.wanted.order;
        let direction = if order.key == key && !order.descends { "D" } else { "A" };
        self.put(format!("<a href=\"?C={};O={direction}", char::from(key.letter())));
        self.put(&self.wanted.kept_args);
        self.put(format!("\">{text}</a>"));
    }

    /// An image, up to its end.
    fn image(&mut self, url: &[u8], alt: &[u8]) {
        self.put("<img src=\"");
        self.escaped(url);
        self.put("\" alt=\"");
        self.put(alt);
        self.put("\"");
        let Settings { icon_width, icon_height, .. } = *self.settings;
        for (name, value) in [("width", icon_width), ("height", icon_height)] {
            if value != 0 {
                self.put(format!(" {name}=\"{value}\""));
            }
        }
        self.put(self.end());
        self.put(">");
    }

    /// The icon of a row, or what is in its place.
    fn icon(&mut self, row: &Row<'_>, anchor: &[u8], none: &str) {
        let is_link = self.has(Flags::ICONS_ARE_LINKS);
        if is_link {
            self.open_link(anchor);
        }
        let default = self.settings.default_icon.as_deref();
        match row.icon.or(default) {
            Some(icon) => {
                let alt = [b"[", row.alt.unwrap_or(b"   "), b"]"].concat();
                self.image(icon, &alt);
            }
            None => self.put(none),
        }
        if is_link {
            self.put("</a>");
        }
    }

    fn open_link(&mut self, anchor: &[u8]) {
        self.put("<a href=\"");
        self.put(anchor);
        self.put("\">");
    }

    /// The link of a row, and the spaces that fill its column.
    fn name(&mut self, row: &Row<'_>, anchor: &[u8], width: Option<usize>) {
        let text: Cow<'_, [u8]> =
            if row.is_parent() { b"Parent Directory".into() } else { (&row.name).into() };
        let width = width.unwrap_or(text.len());
        let text = match text.len() > width && width > 3 {
            true => [&text[..width - 3], b"..>"].concat().into(),
            false => text,
        };
        self.open_link(anchor);
        self.escaped(&text);
        self.put("</a>");
        self.spaces(width.saturating_sub(text.len()));
    }

    fn spaces(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, b' ');
    }

    fn time(&self, seconds: i64) -> String {
        let format = if self.settings.old_dates { "%d-%b-%Y %H:%M" } else { "%Y-%m-%d %H:%M" };
        clock::format(seconds, true, format) + "  "
    }

    fn list(&mut self, rows: &[Row<'_>]) -> Result<(), Spent> {
        self.put("<ul>");
        for row in rows {
            self.put("<li>");
            self.open_link(&anchor(&row.name));
            self.put(" ");
            self.escaped(if row.is_parent() { b"Parent Directory" } else { &row.name });
            self.put("</a></li>\n");
            self.pay()?;
        }
        self.put("</ul>\n");
        Ok(())
    }

    /// How many bytes of a description are shown.
    fn description_width(&self, rows: &[Row<'_>]) -> usize {
        let longest = rows.iter().filter_map(|row| row.description.as_deref().map(<[u8]>::len)).max();
        let is_fixed = self.has(Flags::TABLE);
        let longest = longest.filter(|_| !is_fixed).unwrap_or(0);
        let mut width = Settings::width(self.settings.description_width, longest);
        if self.settings.description_width.is_none() {
            for (flag, more) in [(Flags::NO_ICON, 6), (Flags::NO_TIME, 19), (Flags::NO_SIZE, 7)] {
                width += if self.has(flag) { more } else { 0 };
            }
        }
        width
    }

    fn columns(&mut self, rows: &[Row<'_>]) -> Result<(), Spent> {
        let longest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let width = Settings::width(self.settings.name_width, longest);
        self.put("<pre>");
        if !self.has(Flags::NO_ICON) {
            match self.blank {
                Some(icon) => {
                    self.image(icon, b"Icon ");
                    self.put(" ");
                }
                None => self.spaces(6),
            }
        }
        self.heading("Name", Key::Name);
        self.spaces(width.saturating_sub(4) + 1);
        if !self.has(Flags::NO_TIME) {
            self.heading("Last modified", Key::Modified);
            self.spaces(6);
        }
        if !self.has(Flags::NO_SIZE) {
            self.heading("Size", Key::Size);
            self.spaces(2);
        }
        if !self.has(Flags::NO_DESCRIPTION) {
            self.heading("Description", Key::Description);
        }
        let rule = if self.has(Flags::NO_RULES) { String::new() } else { format!("<hr{}>", self.end()) };
        self.put(if rule.is_empty() { "\n" } else { &rule });
        let description_width = self.description_width(rows);
        for row in rows {
            self.columns_of(row, width, description_width);
            self.pay()?;
        }
        self.put(rule);
        self.put("</pre>\n");
        Ok(())
    }

    fn columns_of(&mut self, row: &Row<'_>, width: usize, description_width: usize) {
        let anchor = anchor(&row.name);
        if !self.has(Flags::NO_ICON) {
            self.icon(row, &anchor, "     ");
            self.put(" ");
        }
        self.name(row, &anchor, Some(width));
        self.put(" ");
        if !self.has(Flags::NO_TIME) {
            match row.modified {
                Some((seconds, _)) => self.put(self.time(seconds)),
                None => self.spaces(19),
            }
        }
        if !self.has(Flags::NO_SIZE) {
            self.put(short_size(row.size));
            self.spaces(2);
        }
        if !self.has(Flags::NO_DESCRIPTION) {
            self.put(cut(row.description.as_deref().unwrap_or_default(), description_width));
        }
        self.put("\n");
    }

    fn table(&mut self, rows: &[Row<'_>]) -> Result<(), Spent> {
        self.put(match self.settings.style {
            Some(_) => "  <table id=\"indexlist\">\n   <tr class=\"indexhead\">",
            None => "  <table>\n   <tr>",
        });
        let mut columns = 1;
        if !self.has(Flags::NO_ICON) {
            columns += 1;
            self.put("<th");
            self.put(self.class("indexcolicon", " valign=\"top\""));
            match self.blank {
                Some(icon) => self.image(icon, b"[ICO]"),
                None => self.put("&nbsp;"),
            }
            self.put("</th>");
        }
        let headings = [
            (Flags::default(), "Name", Key::Name, "indexcolname"),
            (Flags::NO_TIME, "Last modified", Key::Modified, "indexcollastmod"),
            (Flags::NO_SIZE, "Size", Key::Size, "indexcolsize"),
            (Flags::NO_DESCRIPTION, "Description", Key::Description, "indexcoldesc"),
        ];
        for (flag, text, key, class) in headings {
            if !self.has(flag) {
                columns += usize::from(key != Key::Name);
                self.put(if key == Key::Name { "<th" } else { "</th><th" });
                self.put(self.class(class, ""));
                self.heading(text, key);
            }
        }
        self.put("</th></tr>\n");
        let rule = match self.has(Flags::NO_RULES) {
            true => String::new(),
            false => {
                let class = if self.settings.style.is_some() { " class=\"indexbreakrow\"" } else { "" };
                format!("   <tr{class}><th colspan=\"{columns}\"><hr{}></th></tr>\n", self.end())
            }
        };
        self.put(&rule);
        let description_width = self.description_width(rows);
        for (place, row) in rows.iter().enumerate() {
            self.table_row(place, row, description_width);
            self.pay()?;
        }
        self.put(rule);
        self.put("</table>\n");
        Ok(())
    }

    fn table_row(&mut self, place: usize, row: &Row<'_>, description_width: usize) {
        let anchor = anchor(&row.name);
        let parity = if place % 2 == 1 { "odd" } else { "even" };
        match (&self.settings.style, row.alt.filter(|_| self.has(Flags::ALT_CLASS))) {
            (Some(_), Some(alt)) => {
                self.put(format!("   <tr class=\"{parity}-"));
                self.put(alt.to_ascii_lowercase());
                self.put("\">");
            }
            (Some(_), None) => self.put(format!("   <tr class=\"{parity}\">")),
            (None, _) => self.put("<tr>"),
        }
        if !self.has(Flags::NO_ICON) {
            self.put("<td");
            self.put(self.class("indexcolicon", " valign=\"top\""));
            self.icon(row, &anchor, "&nbsp;");
            self.put("</td>");
        }
        self.put("<td");
        self.put(self.class("indexcolname", ""));
        let fits = self.settings.name_width == Some(Width::Fits);
        let width = (!fits).then(|| Settings::width(self.settings.name_width, 0));
        self.name(row, &anchor, width);
        if !self.has(Flags::NO_TIME) {
            let cell =
                self.class("indexcollastmod", if row.modified.is_some() { " align=\"right\"" } else { "" });
            self.put("</td><td");
            self.put(cell);
            self.put(row.modified.map_or_else(|| "&nbsp;".to_owned(), |(seconds, _)| self.time(seconds)));
        }
        if !self.has(Flags::NO_SIZE) {
            self.put("</td><td");
            self.put(self.class("indexcolsize", " align=\"right\""));
            self.put(short_size(row.size));
        }
        if !self.has(Flags::NO_DESCRIPTION) {
            self.put("</td><td");
            self.put(self.class("indexcoldesc", ""));
            match row.description.as_deref() {
                Some(text) if self.settings.description_width == Some(Width::Fits) => self.put(text),
                Some(text) => self.put(cut(text, description_width)),
                None => self.put("&nbsp;"),
            }
        }
        self.put("</td></tr>\n");
    }
}

/// The target of a link to a name.
fn anchor(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    let first = name.split(|&byte| byte == b'/').next().unwrap_or_default();
    if first.contains(&b':') {
        escaped.extend_from_slice(b"./");
    }
    escape_uri(name, &mut escaped);
    let mut out = Vec::new();
    escape::html(&escaped, &mut out);
    out
}

/// As much of a description as is shown: tags do not count, and an entity counts once.
fn cut(text: &[u8], width: usize) -> Vec<u8> {
    let (mut at, mut left) = (0, width);
    while let Some(&byte) = text.get(at).filter(|&&byte| left > 0 || byte == b'<') {
        let end = match byte {
            b'<' => Some(b'>'),
            b'&' => Some(b';'),
            _ => None,
        };
        left -= usize::from(byte != b'<' && left > 0);
        if let Some(end) = end {
            match text[at..].iter().position(|&byte| byte == end) {
                Some(length) => at += length,
                // It does not end.
                None => return text.to_vec(),
            }
        }
        at += 1;
    }
    match (left, text.get(at)) {
        (0, Some(_)) if at > 0 => [&text[..at - 1], b">"].concat(),
        _ => text.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn descriptions_are_cut() {
        let shown = |text: &str, width| String::from_utf8(cut(text.as_bytes(), width)).unwrap();
        assert_eq!(shown("abcdef", 3), "ab>");
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("<b>abc</b>", 3), "<b>abc</b>");
        assert_eq!(shown("&auml;bcd", 3), "&auml;b>");
        assert_eq!(shown("a<b", 1), "a<b");
    }
}
