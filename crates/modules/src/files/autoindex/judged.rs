//! Listings where `.htaccess` files count: each name is judged as if a client had asked for it.

use super::read::{Entry, Kind, Listed};
use crate::apache::mod_autoindex::{self, Part, Row, Settings, Wanted, page};
use crate::apache::{apache_core::sections, mod_mime};
use crate::files::symlinks::{self, Way};
use crate::shared::apache::{glob, judging};
use bytes::Bytes;
use contract::{Content, Exchange, Outcome, Subrequest, Subresponse, Work};
use http::Status;
use std::cell::{Cell, RefCell};
use std::io::Read;

/// After so many names other requests of the thread have their turn.
const NAMES_AT_A_TIME: usize = 256;

/// How much of a page is searched for its title, in bytes.
const TITLE_WITHIN: u64 = 8191;

/// A listing while its names are judged.
pub(super) struct Judged {
    listed: Listed,
    /// The path of the directory in the file system, without a slash at its end.
    directory: Vec<u8>,
    wanted: Wanted,
    stage: Cell<Stage>,
    /// The position of the next name.
    next: Cell<usize>,
    paused_at: Cell<usize>,
    shown: RefCell<Vec<Shown>>,
    /// What comes before the listing, and after it.
    parts: RefCell<[Option<Part>; 2]>,
}

/// What the request waits for, or will wait for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Names,
    Part(usize, bool),
    Titles,
    Over,
}

/// A name that is listed.
struct Shown {
    /// The position of the entry.
    entry: usize,
    media_type: Option<Bytes>,
    encoding: Option<Box<[u8]>>,
    title: Option<Vec<u8>>,
}

/// The titles of pages, by their positions among the names that are listed.
struct Titles(Vec<(usize, Vec<u8>)>);

impl Judged {
    pub(super) fn new(
        exchange: &Exchange,
        settings: &Settings,
        directory: Vec<u8>,
        listed: Listed,
    ) -> Judged {
        Judged {
            listed,
            directory,
            wanted: settings.wanted(exchange.request.args.as_deref().unwrap_or_default()),
            stage: Cell::new(Stage::Names),
            next: Cell::new(0),
            paused_at: Cell::new(0),
            shown: RefCell::default(),
            parts: RefCell::default(),
        }
    }

    /// The next thing to wait for; none when the listing is complete.
    pub(super) fn work(&self, exchange: &Exchange, settings: &Settings, way: Way) -> Option<Work> {
        loop {
            match self.stage.get() {
                Stage::Names => match self.judge(exchange, settings, way) {
                    Some(work) => return Some(work),
                    None if settings.is_page => self.stage.set(Stage::Part(0, false)),
                    None => self.stage.set(Stage::Over),
                },
                Stage::Part(at, false) => {
                    self.stage.set(Stage::Part(at, true));
                    if let Some(wanted) = part_of(exchange, settings, at) {
                        return Some(Work::Subrequest(wanted));
                    }
                }
                Stage::Part(0, true) => self.stage.set(Stage::Part(1, false)),
                Stage::Part(_, true) => self.stage.set(Stage::Titles),
                Stage::Titles => {
                    self.stage.set(Stage::Over);
                    if settings.scans_titles() {
                        return Some(self.scan(way));
                    }
                }
                Stage::Over => return None,
            }
        }
    }

    /// Judges the next name that may be listed.
    fn judge(&self, exchange: &Exchange, settings: &Settings, way: Way) -> Option<Work> {
        loop {
            let at = self.next.get();
            let entry = self.listed.entries.get(at)?;
            if at.is_multiple_of(NAMES_AT_A_TIME) && at > self.paused_at.get() {
                self.paused_at.set(at);
                return Some(Work::Job(Box::new(|| Box::new(()))));
            }
            self.next.set(at + 1);
            let leads_nowhere =
                || matches!(way, Way::Walk { .. }) && symlinks::open(&self.path(&entry.name), way).is_err();
            let is_known =
                (!settings.is_page || entry.kind != Kind::Other) && !(entry.is_link && leads_nowhere());
            if is_known && self.is_wanted(&entry.name) && !settings.ignores(&self.path(&entry.name)) {
                let path = [&exchange.request.path[..], &entry.name].concat();
                return Some(judging::ask(path));
            }
        }
    }

    fn path(&self, name: &[u8]) -> Vec<u8> {
        [&self.directory[..], b"/", name].concat()
    }

    /// Whether the client's pattern describes a name.
    fn is_wanted(&self, name: &[u8]) -> bool {
        let Some(pattern) = &self.wanted.pattern else { return true };
        // As in Apache a dot at the start has to be in the pattern, and a backslash stands for itself.
        let has_dot = !name.starts_with(b".") || pattern.starts_with(b".");
        has_dot
            && glob::matches(
                &pattern.split(|&byte| byte == b'\\').collect::<Vec<_>>().join(&b"\\\\"[..]),
                name,
            )
    }

    /// Takes what was waited for.
    pub(super) fn take(&self, settings: &Settings, outcome: Outcome) {
        match outcome {
            Outcome::Subresponse(answer) => match self.stage.get() {
                Stage::Part(at, true) => self.parts.borrow_mut()[at] = part(&answer),
                _ => self.verdict(settings, &answer),
            },
            Outcome::Job(result) => {
                if let Ok(titles) = result.downcast::<Titles>() {
                    let mut shown = self.shown.borrow_mut();
                    titles.0.into_iter().for_each(|(at, title)| shown[at].title = Some(title));
                }
            }
            _ => {}
        }
    }

    /// Takes the verdict about the name that was asked about last.
    fn verdict(&self, settings: &Settings, answer: &Subresponse) {
        let judged = &answer.exchange;
        let is_shown = judging::passes(judged) || settings.shows_forbidden() && judging::is_forbidden(judged);
        let entry = self.next.get().saturating_sub(1);
        let Some(name) = self.listed.entries.get(entry).filter(|_| is_shown).map(|entry| &entry.name) else {
            return;
        };
        let mut shown = Shown { entry, media_type: None, encoding: None, title: None };
        if settings.is_page {
            let path = [b"/", &name[..]].concat();
            let description = mod_mime::describe(&answer.exchange.scope, &path);
            let media_type = description.media_type.unwrap_or_else(|| answer.exchange.media_type(&path));
            shown.media_type =
                Some(without_parameters(&media_type)).filter(|media_type| !media_type.is_empty());
            let encodings = description.encodings.join(&b", "[..]);
            shown.encoding = (!encodings.is_empty()).then(|| encodings.into());
        }
        self.shown.borrow_mut().push(shown);
    }

    /// Reads the titles of pages. This blocks for the disk.
    fn scan(&self, way: Way) -> Work {
        let shown = self.shown.borrow();
        let pages = shown.iter().enumerate().filter(|(_, shown)| {
            shown.encoding.is_none() && shown.media_type.as_deref().is_some_and(is_html)
        });
        let path = |shown: &Shown| self.path(&self.listed.entries[shown.entry].name);
        let pages: Vec<_> = pages.map(|(at, shown)| (at, path(shown))).collect();
        Work::Job(Box::new(move || {
            let titles = pages.into_iter().filter_map(|(at, path)| Some((at, title_of(&path, way)?)));
            Box::new(Titles(titles.collect()))
        }))
    }

    /// The entries that are listed, where the listing is not a page of Apache's form.
    pub(super) fn entries(&self) -> Vec<&Entry> {
        self.shown.borrow().iter().map(|shown| &self.listed.entries[shown.entry]).collect()
    }

    /// When the directory changed last, in seconds since 1970.
    pub(super) fn modified(&self) -> i64 {
        self.listed.modified
    }

    /// The page in Apache's form.
    pub(super) fn page(&self, exchange: &Exchange, settings: &Settings) -> Vec<u8> {
        let (flags, shown) = (self.wanted.flags, self.shown.borrow());
        let parent = self.path(b"..");
        let uri = &exchange.request.path[..];
        let is_root = uri == b"/";
        let mut rows = Vec::with_capacity(shown.len() + 1);
        if !is_root && !settings.ignores(&parent) {
            rows.push(Row::parent(settings, flags, uri, &parent));
        }
        for shown in &*shown {
            let entry = &self.listed.entries[shown.entry];
            let path = self.path(&entry.name);
            let listed = listed(entry, &path, shown);
            let mut row = match entry.kind {
                Kind::Directory => Row::directory(settings, flags, &listed),
                _ => Row::file(settings, flags, &listed),
            };
            if row.description.is_none() && row.modified.is_some() {
                row.description = shown.title.clone().map(Into::into);
            }
            rows.push(row);
        }
        self.wanted.sort(&mut rows);
        let parts = self.parts.borrow();
        page(settings, &self.wanted, uri, &rows, parts.each_ref().map(Option::as_ref))
    }
}

/// What the page shows of an entry.
fn listed<'f>(entry: &'f Entry, path: &'f [u8], shown: &'f Shown) -> mod_autoindex::Listed<'f> {
    mod_autoindex::Listed {
        name: &entry.name,
        path,
        modified: (entry.modified, entry.modified_ns),
        size: entry.size,
        media_type: shown.media_type.clone(),
        encoding: shown.encoding.as_deref(),
    }
}

/// The request for what comes before the listing, or after it.
fn part_of(exchange: &Exchange, settings: &Settings, at: usize) -> Option<Subrequest> {
    let target = [&settings.header, &settings.readme][at].as_deref()?;
    let (path, args) = match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(target[at + 1..].to_vec())),
        None => (target, None),
    };
    let path = match path.starts_with(b"/") {
        true => path.to_vec(),
        false => [&exchange.request.path[..], path].concat(),
    };
    let path = sections::canonical(&path);
    let args = args.or_else(|| exchange.request.args.clone().filter(|_| at == 0));
    Some(Subrequest { args, ..Subrequest::get(path, Content::Collected) })
}

/// What is shown of an answer: a page as it is, another text as a text.
fn part(answer: &Subresponse) -> Option<Part> {
    let response = &answer.exchange.response;
    if response.status != Status::OK {
        return None;
    }
    let media_type = without_parameters(response.content_type.as_deref()?);
    match () {
        () if is_html(&media_type) => Some(Part::Html(answer.content.clone())),
        () if media_type.to_ascii_lowercase().starts_with(b"text/") => {
            Some(Part::Text(answer.content.clone()))
        }
        () => None,
    }
}

fn without_parameters(media_type: &[u8]) -> Bytes {
    let end = media_type.iter().position(|&byte| byte == b';').unwrap_or(media_type.len());
    Bytes::copy_from_slice(media_type[..end].trim_ascii())
}

fn is_html(media_type: &[u8]) -> bool {
    [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|html| media_type.eq_ignore_ascii_case(html))
}

/// The title of a page; none if it cannot be read or has none.
fn title_of(path: &[u8], way: Way) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    symlinks::open(path, way).ok()?.take(TITLE_WITHIN).read_to_end(&mut text).ok()?;
    title(&text)
}

fn title(text: &[u8]) -> Option<Vec<u8>> {
    const START: &[u8] = b"<title>";
    let start = text.windows(START.len()).position(|part| part.eq_ignore_ascii_case(START))? + START.len();
    let text = &text[start..];
    let end = text.iter().position(|&byte| byte == b'<' || byte == 0).unwrap_or(text.len());
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let text = text[..end].iter().skip_while(|byte| is_line_end(byte));
    Some(text.map(|byte| if is_line_end(byte) { b' ' } else { *byte }).collect())
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn titles() {
        assert_eq!(title(b"<html><TITLE>\r\na\nb</title>").as_deref(), Some(&b"a b"[..]));
        assert_eq!(title(b"<title>open").as_deref(), Some(&b"open"[..]));
        assert_eq!(title(b"<h1>none"), None);
    }
}
