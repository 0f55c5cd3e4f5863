//! Listings where `.htaccess` files count: each name is judged as if a client had asked for it. The rest of the work is done
//! off the event loop, a slice of time at once, and the budget of the request pays for it.

use super::order::Wanted;
use super::page::{self, Listing, Part, page};
use super::row::Row;
use super::settings::{Dress, Meter, Settings};
use crate::apache::mod_mime;
use crate::files::autoindex::Form;
use crate::files::autoindex::read::{Entry, Kind, Listed};
use crate::files::symlinks::{self, Way};
use crate::shared::apache::{glob, judging, urls};
use bytes::Bytes;
use contract::{Budget, Content, Exchange, Lent, Outcome, Spent, Subrequest, Subresponse, Work};
use http::Status;
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::sync::Arc;

/// How much of a page is searched for its title, in bytes.
const TITLE_WITHIN: u64 = 8191;

/// A listing while its names are judged.
pub(super) struct Judged {
    stage: Cell<Stage>,
    /// What is known of the listing; none while a job works on it.
    builder: RefCell<Option<Box<Builder>>>,
}

/// What the request waits for, or will wait for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Jobs leave names out.
    Choosing,
    /// Names are judged.
    Names,
    Part(usize, bool),
    /// Jobs read titles of pages.
    Titles,
    /// Jobs choose icons and descriptions.
    Dressing,
    /// A job writes the page.
    Writing,
    Over,
}

/// A listing as far as it came. Jobs work on it off the event loop.
struct Builder {
    settings: Arc<Settings>,
    listed: Listed,
    /// The path of the directory in the file system, without a slash at its end.
    directory: Vec<u8>,
    /// The path in the URI.
    uri: Vec<u8>,
    way: Way,
    wanted: Wanted,
    /// The entries that may be listed, by their positions.
    chosen: Vec<usize>,
    shown: Vec<Shown>,
    /// The position of the next entry, name or row.
    next: usize,
    /// Whether the listing leads to the parent directory, and what that row has.
    parent: Option<Dress>,
    /// What comes before the listing, and after it.
    parts: [Option<Part>; 2],
    page: Vec<u8>,
    lent: Lent,
}

/// A name that is listed.
struct Shown {
    /// The position of the entry.
    entry: usize,
    media_type: Option<Bytes>,
    encoding: Option<Box<[u8]>>,
    title: Option<Vec<u8>>,
    dress: Dress,
}

/// What a job did: whether its stage is over.
struct Built(Box<Builder>, Result<bool, Spent>);

impl Judged {
    pub(super) fn new(
        exchange: &Exchange,
        settings: &Arc<Settings>,
        directory: Vec<u8>,
        (listed, way): (Listed, Way),
    ) -> Judged {
        let builder = Builder {
            settings: Arc::clone(settings),
            listed,
            directory,
            uri: exchange.request.path.clone(),
            way,
            wanted: settings.wanted(exchange.request.args.as_deref().unwrap_or_default()),
            chosen: Vec::new(),
            shown: Vec::new(),
            next: 0,
            parent: None,
            parts: [None, None],
            page: Vec::new(),
            lent: exchange.budget().lend(),
        };
        Judged { stage: Cell::new(Stage::Choosing), builder: RefCell::new(Some(Box::new(builder))) }
    }

    /// The next thing to wait for; none when the listing is complete.
    pub(super) fn work(&self, exchange: &Exchange) -> Option<Work> {
        loop {
            match self.stage.get() {
                Stage::Choosing => return self.job(exchange, Builder::choose),
                Stage::Names => {
                    let next = self.builder.borrow_mut().as_mut()?.judge();
                    match next {
                        Some(path) => return Some(judging::ask(path)),
                        None if self.is_page() => self.go_to(Stage::Part(0, false)),
                        None => self.go_to(Stage::Over),
                    }
                }
                Stage::Part(at, false) => {
                    self.stage.set(Stage::Part(at, true));
                    let wanted = part_of(exchange, &self.builder.borrow().as_ref()?.settings, at);
                    if let Some(wanted) = wanted {
                        return Some(Work::Subrequest(wanted));
                    }
                }
                Stage::Part(0, true) => self.stage.set(Stage::Part(1, false)),
                Stage::Part(_, true) => self.go_to(Stage::Titles),
                Stage::Titles => return self.job(exchange, Builder::scan),
                Stage::Dressing => return self.job(exchange, Builder::dress),
                Stage::Writing => return self.job(exchange, Builder::write),
                Stage::Over => return None,
            }
        }
    }

    fn is_page(&self) -> bool {
        self.builder.borrow().as_ref().is_some_and(|builder| builder.settings.is_page)
    }

    fn go_to(&self, stage: Stage) {
        self.stage.set(stage);
        if let Some(builder) = &mut *self.builder.borrow_mut() {
            builder.next = 0;
        }
    }

    /// Lets another thread work on the listing for a slice of time.
    fn job(&self, exchange: &Exchange, work: fn(&mut Builder) -> Result<bool, Spent>) -> Option<Work> {
        let mut builder = self.builder.take()?;
        builder.lent = exchange.budget().lend();
        Some(Work::Job(Box::new(move || {
            let done = work(&mut builder);
            Box::new(Built(builder, done))
        })))
    }

    /// Takes what was waited for.
    ///
    /// # Errors
    /// [`Spent`].
    pub(super) fn take(&self, exchange: &Exchange, outcome: Outcome) -> Result<(), Spent> {
        match outcome {
            Outcome::Subresponse(answer) => {
                let mut builder = self.builder.borrow_mut();
                let Some(builder) = builder.as_mut() else { return Ok(()) };
                match self.stage.get() {
                    Stage::Part(at, true) => builder.parts[at] = part(&answer),
                    _ => builder.verdict(&answer),
                }
            }
            Outcome::Job(result) => {
                let Ok(built) = result.downcast::<Built>() else { return Ok(()) };
                let Built(builder, done) = *built;
                let paid = exchange.budget().take_back(&builder.lent);
                self.builder.replace(Some(builder));
                paid?;
                if done? {
                    self.go_to(match self.stage.get() {
                        Stage::Choosing => Stage::Names,
                        Stage::Titles => Stage::Dressing,
                        Stage::Dressing => Stage::Writing,
                        _ => Stage::Over,
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets another thread write the entries that are listed, where the listing is not a page of Apache's form.
    pub(super) fn written(&self, form: Form) -> Option<Work> {
        let builder = self.builder.take()?;
        Some(Work::Job(Box::new(move || {
            let entries = builder.shown.iter().map(|shown| &builder.listed.entries[shown.entry]);
            Box::new(form.write(&entries.collect::<Vec<_>>()))
        })))
    }

    /// When the directory changed last, in seconds since 1970.
    pub(super) fn modified(&self) -> Option<i64> {
        self.builder.borrow().as_ref().map(|builder| builder.listed.modified)
    }

    /// The page in Apache's form.
    pub(super) fn page(&self) -> Vec<u8> {
        self.builder
            .borrow_mut()
            .as_mut()
            .map(|builder| std::mem::take(&mut builder.page))
            .unwrap_or_default()
    }
}

impl Builder {
    /// Leaves out entries that are not wanted. The calls of the file system block.
    fn choose(&mut self) -> Result<bool, Spent> {
        self.sliced(|builder, meter, _| {
            let Some(entry) = builder.listed.entries.get(builder.next) else { return Ok(false) };
            let path = builder.path(&entry.name);
            let leads_nowhere =
                || matches!(builder.way, Way::Walk { .. }) && symlinks::open(&path, builder.way).is_err();
            let is_page = builder.settings.is_page;
            let is_known = (!is_page || entry.kind != Kind::Other) && !(entry.is_link && leads_nowhere());
            if is_known && builder.is_wanted(&entry.name) && !builder.settings.ignores(&path, meter)? {
                builder.chosen.push(builder.next);
            }
            Ok(true)
        })
    }

    /// Does work for one entry after the other, until a slice of time is over. The work tells whether there was an entry.
    fn sliced(
        &mut self,
        mut work: impl FnMut(&mut Builder, &mut Meter<'_>, &Budget) -> Result<bool, Spent>,
    ) -> Result<bool, Spent> {
        let mut lent = std::mem::take(&mut self.lent);
        let done = lent.work(|budget| {
            let mut meter = Meter::new(budget);
            loop {
                budget.spend(1)?;
                if budget.ends_slice() {
                    return Ok(false);
                }
                if !work(self, &mut meter, budget)? {
                    return Ok(true);
                }
                self.next += 1;
            }
        });
        self.lent = lent;
        done
    }

    /// The path of the next name to judge.
    fn judge(&mut self) -> Option<Vec<u8>> {
        let entry = *self.chosen.get(self.next)?;
        self.next += 1;
        Some([&self.uri[..], &self.listed.entries[entry].name].concat())
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

    /// Takes the verdict about the name that was asked about last.
    fn verdict(&mut self, answer: &Subresponse) {
        let (judged, settings) = (&answer.exchange, &self.settings);
        let is_shown = judging::passes(judged) || settings.shows_forbidden() && judging::is_forbidden(judged);
        let Some(&entry) = self.chosen.get(self.next.saturating_sub(1)).filter(|_| is_shown) else { return };
        let dress = Dress::default();
        let mut shown = Shown { entry, media_type: None, encoding: None, title: None, dress };
        if settings.is_page {
            let path = [b"/", &self.listed.entries[entry].name[..]].concat();
            let description = mod_mime::describe(&answer.exchange.scope, &path);
            let media_type = description.media_type.unwrap_or_else(|| answer.exchange.media_type(&path));
            shown.media_type =
                Some(without_parameters(&media_type)).filter(|media_type| !media_type.is_empty());
            let encodings = description.encodings.join(&b", "[..]);
            shown.encoding = (!encodings.is_empty()).then(|| encodings.into());
        }
        self.shown.push(shown);
    }

    /// Reads the titles of pages. This blocks for the disk.
    fn scan(&mut self) -> Result<bool, Spent> {
        if !self.settings.scans_titles() {
            return Ok(true);
        }
        self.sliced(|builder, _, budget| {
            let Some(shown) = builder.shown.get(builder.next) else { return Ok(false) };
            if shown.encoding.is_none() && shown.media_type.as_deref().is_some_and(is_html) {
                budget.step(0)?;
                let path = builder.path(&builder.listed.entries[shown.entry].name);
                let title = title_of(&path, builder.way);
                builder.shown[builder.next].title = title;
            }
            Ok(true)
        })
    }

    /// Chooses icons and descriptions.
    fn dress(&mut self) -> Result<bool, Spent> {
        self.sliced(|builder, meter, _| {
            let (settings, flags) = (&builder.settings, builder.wanted.flags);
            let Some(shown) = builder.shown.get(builder.next) else {
                let path = builder.path(b"..");
                if builder.uri != b"/" && !settings.ignores(&path, meter)? {
                    let listed = page::Listed { path: &path, ..Default::default() };
                    let row = (page::Kind::Parent, &listed);
                    builder.parent = Some(Dress::choose(settings, flags, row, meter)?);
                }
                return Ok(false);
            };
            let entry = &builder.listed.entries[shown.entry];
            let path = builder.path(&entry.name);
            let kind = match entry.kind {
                Kind::Directory => page::Kind::Directory,
                _ => page::Kind::File,
            };
            let dress = Dress::choose(settings, flags, (kind, &listed(entry, &path, shown)), meter)?;
            builder.shown[builder.next].dress = dress;
            Ok(true)
        })
    }

    /// Writes the page.
    fn write(&mut self) -> Result<bool, Spent> {
        let mut lent = std::mem::take(&mut self.lent);
        let page = lent.work(|budget| self.page(budget));
        self.lent = lent;
        self.page = page?;
        Ok(true)
    }

    fn page(&self, budget: &Budget) -> Result<Vec<u8>, Spent> {
        let (settings, flags) = (&*self.settings, self.wanted.flags);
        let mut rows = Vec::with_capacity(self.shown.len() + 1);
        rows.extend(self.parent.map(|dress| Row::parent(settings, flags, &self.uri, dress)));
        for shown in &self.shown {
            let entry = &self.listed.entries[shown.entry];
            let listed = listed(entry, b"", shown);
            let mut row = match entry.kind {
                Kind::Directory => Row::directory(settings, flags, &listed, shown.dress),
                _ => Row::file(settings, flags, &listed, shown.dress),
            };
            if row.description.is_none() && row.modified.is_some() {
                row.description = shown.title.clone().map(Into::into);
            }
            rows.push(row);
        }
        self.wanted.sort(&mut rows);
        let parts = self.parts.each_ref().map(Option::as_ref);
        page(settings, budget, &Listing { wanted: &self.wanted, uri: &self.uri, rows: &rows, parts })
    }
}

/// What the page shows of an entry.
fn listed<'f>(entry: &'f Entry, path: &'f [u8], shown: &'f Shown) -> page::Listed<'f> {
    page::Listed {
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
    let path = urls::canonical(&path);
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
