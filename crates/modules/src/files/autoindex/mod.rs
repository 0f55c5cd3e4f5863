//! Lists directories.
//!
//! If a URI ends with a slash and there is no index file, Fulmar lists the directory: directories first, then files
//! by name. Names that start with a dot are left out. `autoindex_format` chooses the form: a page (`html`), or
//! `json`, `jsonp` (JSON in a call of the function that the argument `callback` names) or `xml` for programs.
//! `autoindex_exact_size off` rounds sizes to K, M and G. `autoindex_localtime on` shows times in the server's time
//! zone. With `charset utf-8` columns are aligned by characters, otherwise by bytes.
//!
//! The page is the same as nginx's, byte for byte. `autoindex_format page` (Fulmar only; `fulmar serve` uses it) is
//! a page for current browsers. Links in the headings sort it (`?sort=size&order=asc`; `name`, `size` or
//! `modified`), sizes are in units of 1000, the layout fits phones, and the colours follow the system. It contains
//! no script and loads nothing.
//!
//! ```file html/files/a.txt
//! a
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /files/ {
//!         autoindex on;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /files/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html
//! Transfer-Encoding: chunked
//! ---
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

mod format;
mod page;
pub(crate) mod read;

use crate::files::symlinks::{Links, Way};
use crate::shared::directories::{self, Failure};
use crate::shared::per_directory;
use crate::transform::charset::CHARSET;
use conf::value::choice;
use conf::{Contexts, Diagnostic};
use contract::{
    Body, Directive, Exchange, Handler, Module, Outcome, Phase, ScopeBuilder, Step, Template, View, Work,
};
use http::{Method, Status};
use journal::Level;
use read::{Entry, Wanted};

/// Directory listings.
pub static MODULE: Module = Module {
    name: "autoindex",
    directives: &[&AUTOINDEX, &AUTOINDEX_FORMAT, &AUTOINDEX_EXACT_SIZE, &AUTOINDEX_LOCALTIME],
    variables: &[],
    compile: Some(compile),
};

const EVERYWHERE: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `autoindex on | off`
pub static AUTOINDEX: Directive<bool> = Directive::flag("autoindex")
    .within(EVERYWHERE)
    .default("off")
    .help("Whether a directory without an index file is listed.");

/// `autoindex_format html | json | jsonp | xml | page`
pub static AUTOINDEX_FORMAT: Directive<Format> =
    Directive::new("autoindex_format", |args, _| args.value(0, |word| choice(word, &FORMATS)))
        .within(EVERYWHERE)
        .default("html")
        .help("The format of a listing.");

/// `autoindex_exact_size on | off`
pub static AUTOINDEX_EXACT_SIZE: Directive<bool> = Directive::flag("autoindex_exact_size")
    .within(EVERYWHERE)
    .default("on")
    .help("Whether an HTML listing shows sizes in bytes, and not rounded.");

/// `autoindex_localtime on | off`
pub static AUTOINDEX_LOCALTIME: Directive<bool> = Directive::flag("autoindex_localtime")
    .within(EVERYWHERE)
    .default("off")
    .help("Whether an HTML listing shows local time, and not universal time.");

/// What a listing is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the format of that name")]
pub enum Format {
    Html,
    Json,
    Jsonp,
    Xml,
    Page,
}

/// nginx has no `page`.
const FORMATS: [(&str, Format); 5] = [
    ("html", Format::Html),
    ("json", Format::Json),
    ("jsonp", Format::Jsonp),
    ("xml", Format::Xml),
    ("page", Format::Page),
];

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if per_directory::has_handler(view) {
        builder.handle(Phase::Content, Unlisted);
    } else if !per_directory::are_files_judged(view)
        && let Some(listing) = Listing::of(view)
    {
        builder.handle(Phase::Content, listing);
    }
    Ok(())
}

/// Takes directories for missing: in Apache `SetHandler` leaves them to a handler of files.
struct Unlisted;

impl Handler for Unlisted {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_get = matches!(exchange.request.method, Method::Get | Method::Head);
        match is_get && exchange.request.path.ends_with(b"/") {
            true => Step::Finish(Status::NOT_FOUND),
            false => Step::Next,
        }
    }
}

/// The listings of a location.
pub(crate) struct Listing {
    format: Format,
    exact_size: bool,
    localtime: bool,
    links: Links,
    /// What the page says that its names are written in.
    charset: Option<Template>,
}

impl Handler for Listing {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let path = match self.directory(exchange) {
            Ok(path) => path,
            Err(step) => return step,
        };
        if let Err(step) = self.check_callback(exchange) {
            return step;
        }
        let wanted = if exchange.is_head() { Wanted::Nothing } else { Wanted::Visible };
        let (way, form) = (self.way(exchange, &path), self.form(exchange));
        Step::Await(Work::Job(Box::new(move || {
            let listed = read::directory(&path, way, wanted);
            Box::new(listed.map(|listed| form.write(&listed.entries.iter().collect::<Vec<_>>())))
        })))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Failed(status) => Step::Finish(status),
            Outcome::Job(result) => {
                match result.downcast::<Result<Written, Failure>>().map(|result| *result) {
                    Ok(Ok(written)) => self.respond(exchange, written),
                    Ok(Err(failure)) => Step::Finish(failure.refuse(exchange)),
                    Err(_) => Step::Finish(Status::INTERNAL_SERVER_ERROR),
                }
            }
            _ => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

/// The form of a listing, with what the request says about it.
pub(crate) struct Form {
    format: Format,
    style: format::Style,
    uri: Vec<u8>,
    callback: Vec<u8>,
    order: page::Order,
}

/// A listing that was written, with its media type.
pub(crate) struct Written {
    media_type: &'static str,
    content: Vec<u8>,
}

impl Form {
    /// Writes a listing; this takes time.
    pub(crate) fn write(&self, entries: &[&Entry]) -> Written {
        let (media_type, content) = match self.format {
            Format::Html => ("text/html", format::html(&self.uri, entries, self.style)),
            Format::Jsonp if !self.callback.is_empty() => {
                ("application/javascript", format::jsonp(&self.callback, entries))
            }
            Format::Json | Format::Jsonp => ("application/json", format::json(entries)),
            Format::Xml => ("text/xml; charset=utf-8", format::xml(entries)),
            Format::Page => {
                ("text/html; charset=utf-8", page::page(&self.uri, entries, self.order, self.style.localtime))
            }
        };
        Written { media_type, content }
    }
}

impl Listing {
    /// The listings where the view is, if directories are listed there.
    pub(crate) fn of(view: &View<'_>) -> Option<Listing> {
        let is_listed = per_directory::options::lists_directories(view).or(view.get(&AUTOINDEX).copied());
        is_listed.unwrap_or(false).then(|| Listing {
            format: view.get(&AUTOINDEX_FORMAT).copied().unwrap_or(Format::Html),
            exact_size: view.get(&AUTOINDEX_EXACT_SIZE).copied().unwrap_or(true),
            localtime: view.get(&AUTOINDEX_LOCALTIME).copied().unwrap_or(false),
            links: Links::of(view),
            charset: view.get(&CHARSET).cloned().flatten(),
        })
    }

    /// The path of the directory that a request is for.
    ///
    /// # Errors
    /// What the request does if it gets no listing.
    pub(crate) fn directory(&self, exchange: &Exchange) -> Result<Vec<u8>, Step> {
        let is_ours = matches!(exchange.request.method, Method::Get | Method::Head);
        if !is_ours || !exchange.request.path.ends_with(b"/") {
            return Err(Step::Next);
        }
        directories::path(exchange).map_err(Step::Finish)
    }

    /// How a directory is opened.
    pub(crate) fn way(&self, exchange: &Exchange, path: &[u8]) -> Way {
        self.links.way(exchange, path)
    }

    /// Refuses a function that a listing may not be written for.
    ///
    /// # Errors
    /// How the request ends.
    pub(crate) fn check_callback(&self, exchange: &Exchange) -> Result<(), Step> {
        if self.format != Format::Jsonp {
            return Ok(());
        }
        let callback = callback(exchange);
        check_callback(callback).map_err(|fault| {
            let name = String::from_utf8_lossy(callback);
            exchange.log(Level::Info, &format!("client sent {fault} callback name: \"{name}\""));
            Step::Finish(Status::BAD_REQUEST)
        })
    }

    /// The form of the listing for a request.
    pub(crate) fn form(&self, exchange: &Exchange) -> Form {
        let charset = match self.format {
            Format::Html => self.charset.as_ref().map(|charset| charset.evaluate(exchange)),
            _ => None,
        };
        let utf8 = charset.is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8"));
        let args = exchange.request.args.as_deref().unwrap_or_default();
        Form {
            format: self.format,
            style: format::Style { exact_size: self.exact_size, localtime: self.localtime, utf8 },
            uri: exchange.request.path.clone(),
            callback: callback(exchange).to_vec(),
            order: page::Order::from_args(args),
        }
    }

    /// Sends a listing.
    pub(crate) fn respond(&self, exchange: &mut Exchange, written: Written) -> Step {
        if self.format == Format::Page {
            let field = ("Content-Security-Policy", page::POLICY);
            let _ = exchange.response.fields.push(field.0.as_bytes(), field.1.as_bytes());
        }
        exchange.response.status = Status::OK;
        exchange.response.content_type = Some(written.media_type.as_bytes().into());
        exchange.response.content_length = None;
        Step::Respond(Body::bytes(written.content))
    }
}

/// The function that the argument `callback` names; empty where there is none.
fn callback(exchange: &Exchange) -> &[u8] {
    const NAME: &[u8] = b"callback=";
    let args = exchange.request.args.as_deref().unwrap_or_default();
    let is_callback =
        |pair: &&[u8]| pair.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME));
    let mut pairs = args.split(|&byte| byte == b'&');
    pairs.find(is_callback).map_or(&[], |pair| &pair[NAME.len()..])
}

/// What is wrong with the name of a function.
fn check_callback(name: &[u8]) -> Result<(), &'static str> {
    const BYTES_MAX: usize = 128;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    match name {
        name if name.len() > BYTES_MAX => Err("too long"),
        name if name.iter().all(is_name) => Ok(()),
        _ => Err("invalid"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, read};
    use crate::files::symlinks::Way;
    use crate::testing::{Site, body_text, status};
    use contract::{Exchange, Outcome, Phase, Step, Work};

    /// Runs the job that the handler asks for.
    fn list(site: &Site, target: &str) -> (Step, Exchange) {
        let mut exchange = site.get(target);
        for handler in exchange.scope.clone().handlers(Phase::Content) {
            let step = match handler.run(&mut exchange) {
                Step::Next => continue,
                Step::Await(Work::Job(job)) => handler.resume(&mut exchange, Outcome::Job(job())),
                step => step,
            };
            return (step, exchange);
        }
        (Step::Next, exchange)
    }

    fn text(conf: &str, target: &str) -> String {
        let site = Site::location(&format!("autoindex on; index none; {conf}"));
        site.file("b", "12345");
        site.file("a<&.txt", "1");
        site.file(".hidden", "");
        site.file("dir/x", "");
        for name in ["b", "a<&.txt", "dir"] {
            let file = std::fs::File::open(site.root().join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400)).unwrap();
        }
        match list(&site, target).0 {
            Step::Respond(body) => body_text(&body),
            step => status(&step).to_string(),
        }
    }

    #[test]
    fn html() {
        let expected = "<html>\r\n<head><title>Index of /</title></head>\r\n<body>\r\n\
            <h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\r\n";
        let page = text("", "/");
        let lines = page.strip_prefix(expected).unwrap();
        let lines = lines.strip_suffix("</pre><hr></body>\r\n</html>\r\n").unwrap();
        let spaces = |count| " ".repeat(count);
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                format!("<a href=\"dir/\">dir/</a>{} 02-Jan-1970 00:00 {}-", spaces(46), spaces(18)),
                format!(
                    "<a href=\"a%3C%26.txt\">a&lt;&amp;.txt</a>{} 02-Jan-1970 00:00 {}1",
                    spaces(43),
                    spaces(18)
                ),
                format!("<a href=\"b\">b</a>{} 02-Jan-1970 00:00 {}5", spaces(49), spaces(18)),
            ]
        );
    }

    #[test]
    fn machine_readable() {
        assert_eq!(
            text("autoindex_format json;", "/"),
            "[\r\n{ \"name\":\"dir\", \"type\":\"directory\", \"mtime\":\"Fri, 02 Jan 1970 00:00:00 GMT\" },\r\n\
             { \"name\":\"a<&.txt\", \"type\":\"file\", \"mtime\":\"Fri, 02 Jan 1970 00:00:00 GMT\", \"size\":1 },\r\n\
             { \"name\":\"b\", \"type\":\"file\", \"mtime\":\"Fri, 02 Jan 1970 00:00:00 GMT\", \"size\":5 }\r\n]"
        );
        let jsonp = text("autoindex_format jsonp;", "/?callback=a.b_1");
        assert!(jsonp.starts_with("/* callback */\r\na.b_1([\r\n{") && jsonp.ends_with("\r\n]);"), "{jsonp}");
        assert!(text("autoindex_format jsonp;", "/?x").starts_with("[\r\n{"));
        assert_eq!(text("autoindex_format jsonp;", "/?callback=a("), "400");
        let xml = text("autoindex_format xml;", "/");
        assert!(
            xml.contains("<file mtime=\"1970-01-02T00:00:00Z\" size=\"1\">a&lt;&amp;.txt</file>\r\n"),
            "{xml}"
        );
        assert!(xml.contains("<directory mtime=\"1970-01-02T00:00:00Z\">dir</directory>\r\n"), "{xml}");
    }

    #[test]
    fn the_page_of_today_is_asked_for_by_name() {
        let site = Site::location("autoindex on; autoindex_format page; index none;");
        site.file("large", &"x".repeat(1500));
        site.file("small", "x");
        let (Step::Respond(body), exchange) = list(&site, "/?sort=size") else { panic!() };
        let page = body_text(&body);
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(place("<td>1.5 KB</td>") < place("<td>1 B</td>"), "{page}");
        assert!(exchange.response.fields.get("Content-Security-Policy").is_some());
        assert_eq!(exchange.response.content_type.as_deref(), Some(&b"text/html; charset=utf-8"[..]));
    }

    #[test]
    fn a_link_to_nothing_is_listed() {
        let site = Site::location("autoindex on; autoindex_format json; index none;");
        std::os::unix::fs::symlink("nowhere", site.root().join("link")).unwrap();
        let (Step::Respond(body), _) = list(&site, "/") else { panic!() };
        assert!(body_text(&body).contains("\"name\":\"link\", \"type\":\"other\""));
    }

    #[test]
    fn a_link_out_of_the_root_is_listed_as_itself_and_not_entered() {
        let site = Site::location("autoindex on; autoindex_format json; index none; symlinks inside;");
        site.file("sub/file", "12345");
        for (target, name) in
            [("/etc", "out"), ("/etc/passwd", "passwd"), ("sub", "in"), ("sub/file", "near")]
        {
            std::os::unix::fs::symlink(target, site.root().join(name)).unwrap();
        }
        let (Step::Respond(body), _) = list(&site, "/") else { panic!() };
        let page = body_text(&body);
        for (name, kind) in [("out", "other"), ("passwd", "other"), ("in", "directory"), ("near", "file")] {
            let entry = format!("\"name\":\"{name}\", \"type\":\"{kind}\"");
            assert!(page.contains(&entry), "{entry}: {page}");
        }
        assert_eq!(status(&list(&site, "/out/").0), 403);
        let (Step::Respond(body), _) = list(&site, "/in/") else { panic!() };
        assert!(body_text(&body).contains("\"name\":\"file\", \"type\":\"file\""));
    }

    #[test]
    fn off_is_not_there() {
        let site = Site::location("autoindex off;");
        assert_eq!(site.get("/").scope.handlers(Phase::Content).len(), 2);
        assert!(matches!(list(&site, "/").0, Step::Next));
        assert!(read::directory(b"/nonexistent", Way::Follow, super::Wanted::Visible).is_err());
        assert_eq!(super::FORMATS.len(), Format::Page as usize + 1);
    }
}
