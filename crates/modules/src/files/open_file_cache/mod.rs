//! Keeps files open between requests.
//!
//! Each thread caches up to `max` paths: open files with their sizes and times, directories, and, with
//! `open_file_cache_errors on`, errors such as "not found". A path that no request used for the `inactive` time is
//! removed. If the cache is full, the path that was unused for longest is removed. An entry is checked again after
//! `open_file_cache_valid`; until then Fulmar does not notice that a file was replaced, removed or added. A file is
//! kept open after `open_file_cache_min_uses` requests.
//!
//! The content of small files (up to 64 KB) is kept in memory with the entry, if the file did not change for two
//! seconds. Then a request needs no call to the file system until the entry is checked again. A thread keeps up to
//! 64 MB of content. Without this directive, no content is kept.
//!
//! The cache is used for static files, `gzip_static`, `index`, `try_files`, and conditions such as `if (-f …)`.
//! `open_file_cache_events` has no effect on Linux; the same is true for nginx.
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     open_file_cache max=1000 inactive=20s;
//!     open_file_cache_valid 30s;
//!     open_file_cache_min_uses 2;
//!     open_file_cache_errors on;
//! }
//! ```
//!
//! ```http
//! GET /page.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 5
//!
//! page
//! ---
//! GET /page.txt HTTP/1.1
//! Host: localhost
//! Range: bytes=1-2
//!
//! HTTP/1.1 206 Partial Content
//! Content-Range: bytes 1-2/5
//! ---
//! GET /none.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//! ```

mod cache;
mod opened;

use crate::files::symlinks::{Links, Way};
use crate::shared::files;
use cache::{Cache, Memory, Terms};
use conf::{Arity, Contexts, Diagnostic, Word, value};
use contract::hash::KeyedMap;
use contract::{Args, Directive, Event, Exchange, Identity, Loading, Module, View, leavings};
use journal::clock::Time;
pub(crate) use opened::{Kind, Opened};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// Files that are kept open.
pub static MODULE: Module = Module {
    name: "open_file_cache",
    directives: &[
        &OPEN_FILE_CACHE,
        &OPEN_FILE_CACHE_VALID,
        &OPEN_FILE_CACHE_MIN_USES,
        &OPEN_FILE_CACHE_ERRORS,
        &OPEN_FILE_CACHE_EVENTS,
    ],
    variables: &[],
    compile: None,
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `open_file_cache off | max=NUMBER [inactive=TIME]`
pub static OPEN_FILE_CACHE: Directive<Option<Arc<Limits>>> = Directive::new("open_file_cache", parse_cache)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .default("off")
    .help("How many files are kept open, and for how long without use.");

/// `open_file_cache_valid TIME`
pub static OPEN_FILE_CACHE_VALID: Directive<u64> =
    Directive::new("open_file_cache_valid", |args, _| args.value(0, value::time_s))
        .within(LEVELS)
        .default("60s")
        .help("After how long a cached entry is checked again.");

/// `open_file_cache_min_uses NUMBER`
pub static OPEN_FILE_CACHE_MIN_USES: Directive<u64> = Directive::number("open_file_cache_min_uses")
    .within(LEVELS)
    .default("1")
    .help("How many requests a file needs to be kept open.");

/// `open_file_cache_errors on | off`
pub static OPEN_FILE_CACHE_ERRORS: Directive<bool> = Directive::flag("open_file_cache_errors")
    .within(LEVELS)
    .default("off")
    .help("Whether errors are cached, too.");

/// `open_file_cache_events on | off`
pub static OPEN_FILE_CACHE_EVENTS: Directive<bool> = Directive::flag("open_file_cache_events")
    .within(LEVELS)
    .default("off")
    .help("Accepted; it has no effect on Linux.");

/// The limits of the caches, one a thread, of one use of the directive.
#[derive(Debug)]
pub struct Limits {
    max: usize,
    /// In seconds.
    inactive: u64,
}

impl Limits {
    fn identity(&self) -> Identity {
        let Limits { max, inactive } = *self;
        Identity::default().number(max as u64).number(inactive)
    }
}

fn parse_cache(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Arc<Limits>>, Diagnostic> {
    let (mut max, mut inactive, mut off) = (None, 60, false);
    for word in args.words() {
        let rest = |text: &[u8]| Word { text: text.into(), ..*word };
        if let Some(text) = word.text.strip_prefix(b"max=") {
            let number = value::bounded(&rest(text), 1, None).map_err(|_| invalid(args, word))?;
            max = Some(usize::try_from(number).unwrap_or(usize::MAX));
        } else if let Some(text) = word.text.strip_prefix(b"inactive=") {
            inactive = value::time_s(&rest(text)).map_err(|_| invalid(args, word))?;
        } else if word.is("off") {
            off = true;
        } else {
            return Err(invalid(args, word));
        }
    }
    match max {
        _ if off => Ok(None),
        Some(max) => {
            let limits = Limits { max, inactive };
            Ok(Some(loading.origin.keep(limits.identity(), || limits)))
        }
        None => {
            let message = "\"open_file_cache\" must have the \"max\" parameter";
            Err(Diagnostic::emerg(message).at(args.node.span))
        }
    }
}

fn invalid(args: &Args<'_>, word: &Word) -> Diagnostic {
    let message = format!("invalid \"open_file_cache\" parameter \"{word}\"");
    Diagnostic::emerg(message).at(args.node.span).under(word.span)
}

/// How a scope finds files: by its cache, or each time anew.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    limits: Option<Arc<Limits>>,
    terms: Terms,
    links: Links,
}

impl Files {
    /// What the view's level says.
    pub(crate) fn of(view: &View<'_>) -> Files {
        let terms = Terms {
            valid: view.get(&OPEN_FILE_CACHE_VALID).copied().unwrap_or(60),
            min_uses: view.get(&OPEN_FILE_CACHE_MIN_USES).copied().unwrap_or(1),
            errors: view.get(&OPEN_FILE_CACHE_ERRORS).copied().unwrap_or(false),
            only_look: false,
            way: Way::Follow,
        };
        let links = Links::of(view);
        Files { links, limits: view.get(&OPEN_FILE_CACHE).cloned().flatten(), terms }
    }

    /// What is at a path, to be sent.
    pub(crate) fn open(&self, exchange: &Exchange, path: &[u8]) -> io::Result<Rc<Opened>> {
        let way = self.way(exchange, path);
        let opened = match &self.limits {
            Some(limits) => by_cache(limits, path, &Terms { way, ..self.terms }),
            None => Opened::open(path, way).map(Rc::new),
        };
        exchange.tell(|| event(path, &opened));
        opened
    }

    /// What is at a path. Where there is a cache it is opened all the same, as nginx does: a user without the right to read a file
    /// does not find it.
    pub(crate) fn look(&self, exchange: &Exchange, path: &[u8]) -> io::Result<Rc<Opened>> {
        let way = self.way(exchange, path);
        let opened = match &self.limits {
            Some(limits) => by_cache(limits, path, &Terms { only_look: true, way, ..self.terms }),
            None => Opened::look(path, way).map(Rc::new),
        };
        exchange.tell(|| event(path, &opened));
        opened
    }

    /// How a path is to be opened.
    pub(crate) fn way(&self, exchange: &Exchange, path: &[u8]) -> Way {
        self.links.way(exchange, path)
    }
}

/// What was found at a path.
fn event(path: &[u8], opened: &io::Result<Rc<Opened>>) -> Event {
    let (kind, found) = match opened {
        Err(error) => ("none", format!("cannot be had ({})", files::reason(error))),
        Ok(opened) => match opened.kind {
            Kind::File => ("file", format!("is a file of {} bytes", opened.identity.size())),
            Kind::Directory => ("directory", "is a directory".to_owned()),
            Kind::Other => ("other", "is neither a file nor a directory".to_owned()),
        },
    };
    let text = format!("\"{}\" {found}", String::from_utf8_lossy(path));
    let event = Event::new("file", text).with("path", path).with("kind", kind);
    match opened {
        Ok(opened) if opened.kind == Kind::File => event.with("size", opened.identity.size().to_string()),
        _ => event,
    }
}

/// A cache, and the limits that it has as long as anything has them.
type Kept = (Weak<Limits>, Cache);

/// The caches of a thread.
#[derive(Default)]
struct Caches {
    /// The one that was used last, with the place of its limits.
    latest: Option<(usize, Kept)>,
    /// The others, by the places of their limits.
    others: KeyedMap<usize, Kept>,
    memory: Rc<Memory>,
}

thread_local! {
    static CACHES: RefCell<Caches> = {
        leavings::look_through_by(|| CACHES.with_borrow_mut(Caches::look_through));
        RefCell::default()
    };
}

fn by_cache(limits: &Arc<Limits>, path: &[u8], terms: &Terms) -> io::Result<Rc<Opened>> {
    CACHES.with_borrow_mut(|caches| {
        let now = u64::try_from(Time::now().seconds).unwrap_or(0);
        caches.of(limits).open(path, terms, now)
    })
}

impl Caches {
    fn of(&mut self, limits: &Arc<Limits>) -> &mut Cache {
        let place = Arc::as_ptr(limits) as usize;
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest != place) {
            self.change_to(place);
        }
        let memory = &self.memory;
        let (_, (_, cache)) = self.latest.get_or_insert_with(|| (place, empty(limits, memory)));
        cache
    }

    /// Makes another cache, or none, the one that was used last.
    fn change_to(&mut self, place: usize) {
        if let Some((before, cache)) = self.latest.take() {
            self.others.insert(before, cache);
        }
        self.latest = self.others.remove(&place).map(|known| (place, known));
    }

    /// A configuration that is gone takes its files along. The weak reference keeps a place from being used again
    /// before that.
    fn look_through(&mut self) {
        let is_gone = |(limits, _): &Kept| limits.strong_count() == 0;
        drop(self.latest.take_if(|(_, cache)| is_gone(cache)));
        self.others.retain(|_, cache| !is_gone(cache));
    }
}

fn empty(limits: &Arc<Limits>, memory: &Rc<Memory>) -> Kept {
    (Arc::downgrade(limits), Cache::new(limits.max, limits.inactive, Rc::clone(memory)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Exchange, Phase, Step};

    fn get(site: &Site, target: &str) -> (String, Exchange) {
        let mut exchange = site.get(target);
        let text = match site.run(Phase::Content, &mut exchange) {
            Step::Respond(body) => body_text(&body),
            step => status(&step).to_string(),
        };
        (text, exchange)
    }

    #[test]
    fn a_file_that_was_replaced_is_served_until_the_time_is_over() {
        let site = Site::location("open_file_cache max=10; open_file_cache_valid 1h;");
        site.file("a", "before");
        assert_eq!(get(&site, "/a").0, "before");
        std::fs::remove_file(site.root().join("a")).unwrap();
        assert_eq!(get(&site, "/a").0, "before");
        let other = Site::location("open_file_cache max=10; open_file_cache_valid 0;");
        other.file("a", "before");
        assert_eq!(get(&other, "/a").0, "before");
        std::fs::remove_file(other.root().join("a")).unwrap();
        assert_eq!(get(&other, "/a").0, "404");
    }

    #[test]
    fn without_the_directive_nothing_is_kept() {
        for settings in ["", "open_file_cache off;"] {
            let site = Site::location(settings);
            site.file("a", "before");
            assert_eq!(get(&site, "/a").0, "before");
            site.file("a", "afterwards");
            assert_eq!(get(&site, "/a").0, "afterwards");
        }
    }

    #[test]
    fn all_who_look_for_files_share_what_is_known() {
        let cached = "open_file_cache max=10; open_file_cache_valid 1h; open_file_cache_errors on;";
        let site = Site::location(&format!("{cached} index a.html; try_files $uri $uri/ =403;"));
        assert_eq!(get(&site, "/sub/a.html").0, "404");
        site.file("sub/a.html", "");
        assert_eq!(get(&site, "/sub/a.html").0, "404");
        let mut exchange = site.get("/sub/a.html");
        assert_eq!(status(&site.run(Phase::Precontent, &mut exchange)), 403, "of the same opinion");
        let fresh = Site::location("index a.html; try_files $uri $uri/ =403;");
        fresh.file("sub/a.html", "");
        assert_eq!(status(&fresh.run(Phase::Precontent, &mut fresh.get("/sub/a.html"))), 0);
    }

    #[test]
    fn what_may_be_written() {
        assert_eq!(
            Site::error("open_file_cache inactive=1s;"),
            "\"open_file_cache\" must have the \"max\" parameter"
        );
        for bad in ["max=0", "max=x", "min=1", "inactive=x max=1", "max=1 on"] {
            let word = bad.split(' ').find(|word| *word != "max=1").unwrap();
            let message = format!("invalid \"open_file_cache\" parameter \"{word}\"");
            assert_eq!(Site::error(&format!("open_file_cache {bad};")), message);
        }
        Site::location("open_file_cache off;");
        Site::location("open_file_cache inactive=1m max=1;");
    }
}
