//! Chooses between several forms of a document, for example by language: `Options +MultiViews`.
//!
//! For `/page`, Fulmar looks at the files `page.*`, such as `page.html.en` and `page.html.de.gz`. Their extensions say
//! what they are (`AddType`, `AddLanguage`, `AddEncoding`, `AddCharset`), and the request's headers `Accept`,
//! `Accept-Language`, `Accept-Encoding` and `Accept-Charset` choose one. Files that the rules deny are left out.
//! `LanguagePriority` orders the languages that a client accepts equally (`ForceLanguagePriority Prefer`, the
//! default), or does not accept at all (`Fallback`). If no file is acceptable, the response is 406.
//!
//! The response has the fields that Apache sends: `Vary`, `TCN` and `Content-Location`, and `Alternates` for clients
//! that ask for the choice (`Negotiate`, RFC 2295). Type maps are not supported.
//!
//! nginx: none
//!
//! ```file html/page.html.en
//! a page
//! ```
//!
//! ```file html/page.html.de
//! eine Seite
//! ```
//!
//! ```file html/.htaccess
//! Options +MultiViews
//! AddLanguage en .en
//! AddLanguage de .de
//! LanguagePriority en de
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /page HTTP/1.1
//! Host: localhost
//! Accept-Language: de
//!
//! HTTP/1.1 200 OK
//! Content-Language: de
//! Content-Location: page.html.de
//! Vary: negotiate,accept-language
//! TCN: choice
//!
//! eine Seite
//! ```

pub(crate) mod accept;
mod choice;

use crate::apache::mod_mime;
use crate::files::symlinks::{Links, Way};
use crate::shared::apache::bounded::Failure;
use crate::shared::apache::lookup;
use crate::shared::apache::{environment, in_file, judging, refusing, values, variables, wrong};
use crate::shared::directories::Directory;
use crate::shared::per_directory::options;
use choice::{Client, Encoded, Languages, Shown, Variant, shown};
use conf::{Arity, Diagnostic};
use contract::{
    Args, Body, Directive, Exchange, Handler, Loading, Module, Outcome, Phase, Reach, Reroute, ScopeBuilder,
    Step, Subrequest, View, Work,
};
use http::{Method, Status, escape};
use journal::Level;
use std::cell::{Cell, RefCell};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// Forms of documents.
pub static MODULE: Module = Module {
    name: "mod_negotiation",
    directives: &[&LANGUAGE_PRIORITY, &FORCE_LANGUAGE_PRIORITY],
    variables: &[],
    compile: Some(compile),
};

/// `LanguagePriority LANGUAGE …`
pub(crate) static LANGUAGE_PRIORITY: Directive<Vec<Box<[u8]>>> =
    in_file(Directive::new("LanguagePriority", |args, _| {
        Ok(args.words().iter().map(|word| word.text.clone()).collect())
    }))
    .args(Arity::AtLeast(1))
    .help("The order of languages that the client wants equally.");

/// `ForceLanguagePriority None | Prefer | Fallback …`
pub(crate) static FORCE_LANGUAGE_PRIORITY: Directive<Force> =
    in_file(Directive::new("ForceLanguagePriority", parse_force))
        .args(Arity::AtLeast(1))
        .help("When `LanguagePriority` is used.");

/// When the order of languages counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Force {
    prefer: bool,
    fallback: bool,
}

/// Forms of one document that are looked at.
const VARIANTS_MAX: usize = 256;

fn parse_force(args: &Args<'_>, _: &mut Loading) -> Result<Force, Diagnostic> {
    let mut force = Force::default();
    for word in args.words() {
        match word.text.to_ascii_lowercase().as_slice() {
            b"none" if args.words().len() == 1 => {}
            b"prefer" => force.prefer = true,
            b"fallback" => force.fallback = true,
            _ => return Err(wrong(args, "an unknown or contrary option", word)),
        }
    }
    Ok(force)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !options::negotiates(view) {
        return Ok(());
    }
    let force = values(view, &FORCE_LANGUAGE_PRIORITY);
    let languages = Languages {
        priority: values(view, &LANGUAGE_PRIORITY).concat(),
        prefer: force.is_empty() || force.iter().any(|force| force.prefer),
        fallback: force.iter().any(|force| force.fallback),
    };
    builder.handle(Phase::Precontent, Negotiator { languages, links: Links::of(view) });
    Ok(())
}

struct Negotiator {
    languages: Languages,
    links: Links,
}

/// The files whose names begin like that of a document.
struct Found {
    /// Names and sizes, in order.
    files: Vec<(Vec<u8>, u64)>,
    /// Whether there is any, even if it is no regular file.
    is_any: bool,
}

/// A negotiation while its files are judged.
struct Negotiation {
    found: Found,
    next: Cell<usize>,
    variants: RefCell<Vec<Variant>>,
}

/// Where a path names no file.
pub(crate) struct Missing {
    /// The directory in the file system, with a slash at its end.
    pub(crate) directory: Vec<u8>,
    /// The name that is missing.
    pub(crate) name: Vec<u8>,
    /// The path of the directory, with a slash at its end.
    pub(crate) uri: Vec<u8>,
    /// What follows the name in the path.
    pub(crate) rest: Vec<u8>,
}

impl Handler for Negotiator {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let missing = match missing(exchange) {
            Ok(Some(missing)) => missing,
            Ok(None) => return Step::Next,
            Err(failure) => return failure.refuse(exchange),
        };
        let way = self.links.way(exchange, &missing.directory);
        Step::Await(Work::Job(Box::new(move || Box::new(look(&missing, way)))))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Ok(Some(missing)) = missing(exchange) else { return Step::Next };
        match outcome {
            Outcome::Job(result) => match result.downcast::<Found>() {
                Ok(found) if found.is_any => exchange.attach(
                    Reach::Own,
                    Rc::new(Negotiation { found: *found, next: Cell::new(0), variants: RefCell::default() }),
                ),
                _ => return Step::Next,
            },
            Outcome::Subresponse(answer) => {
                if let Some(negotiation) = exchange.attached::<Negotiation>() {
                    negotiation.take(&missing, &answer.exchange);
                }
            }
            _ => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
        let Some(negotiation) = exchange.attached::<Negotiation>() else { return Step::Next };
        if let Some((name, _)) = negotiation.found.files.get(negotiation.next.get()) {
            let Work::Subrequest(wanted) = judging::ask([&missing.uri[..], name].concat()) else {
                return Step::Finish(Status::INTERNAL_SERVER_ERROR);
            };
            let args = exchange.request.args.clone();
            refusing::let_in_same(exchange, true);
            return Step::Await(Work::Subrequest(Subrequest { args, ..wanted }));
        }
        refusing::let_in_same(exchange, false);
        let variants = negotiation.variants.take();
        if variants.is_empty() {
            exchange.log(Level::Error, "no file of that name can be negotiated");
            return lookup::refuse(exchange, Status::NOT_FOUND);
        }
        self.answer(exchange, &missing, &variants)
    }
}

impl Negotiator {
    /// Goes on with the form that the client gets.
    fn answer(&self, exchange: &mut Exchange, missing: &Missing, variants: &[Variant]) -> Step {
        let is_get = matches!(exchange.request.method, Method::Get | Method::Head);
        let has_args = exchange.request.args.is_some();
        let prefers_programs = !is_get || has_args || !missing.rest.is_empty();
        let mut client = Client::new(exchange, is_get && missing.rest.is_empty(), prefers_programs);
        client.preferred = environment::get(exchange, b"prefer-language").map(Into::into);
        client.encoded = encoded(exchange);
        let chosen = client.choose(variants, &self.languages).and_then(|at| variants.get(at));
        let Shown { vary, alternates } = shown(variants, client.is_transparent);
        let list = if chosen.is_none() || client.takes_lists { &alternates[..] } else { b"" };
        let kind: &[u8] = match chosen {
            _ if !client.is_transparent => b"",
            Some(_) => b"choice",
            None => b"list",
        };
        let mut place = Vec::new();
        if let Some(chosen) = chosen.filter(|_| client.is_transparent) {
            escape::path(&chosen.name, &mut place);
        }
        let fields = [
            ("Content-Location", &place[..]),
            ("Alternates", list),
            ("Vary", vary.as_bytes()),
            ("TCN", kind),
        ];
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            // A name that no field can hold is left out.
            let _ = exchange.response.fields.push(name.as_bytes(), value);
        }
        match chosen {
            Some(chosen) => {
                let path = [&missing.uri[..], &chosen.name, &missing.rest].concat();
                Step::Reroute(Reroute::Uri { path, args: exchange.request.args.clone() })
            }
            None if client.takes_lists => choices(exchange, variants.iter().map(|variant| &variant.name[..])),
            None => {
                exchange.log(Level::Error, "no form of the document is acceptable");
                lookup::refuse(exchange, Status(406))
            }
        }
    }
}

impl Negotiation {
    /// Takes the verdict about a file, and what it is.
    fn take(&self, missing: &Missing, judged: &Exchange) {
        let at = self.next.replace(self.next.get() + 1);
        let Some((name, bytes)) = self.found.files.get(at).filter(|_| judged.response.status == Status::OK)
        else {
            return;
        };
        let path = [&missing.uri[..], name].concat();
        let description = mod_mime::describe(&judged.scope, &path);
        // Extensions that nothing knows have to be in the name that was asked for, in their order.
        let mut asked = missing.name.split(|&byte| byte == b'.');
        let base = name.split(|&byte| byte == b'.').next().unwrap_or_default();
        let mut unknown = std::iter::once(base).chain(description.unknown.iter().map(|part| &part[..]));
        let known = name.iter().filter(|&&byte| byte == b'.').count() - description.unknown.len();
        if known == 0 || !unknown.all(|part| asked.any(|asked| asked == part)) {
            return;
        }
        let media_type = description.media_type.unwrap_or_else(|| judged.media_type(&path));
        if media_type.is_empty() {
            return;
        }
        let mut variant = Variant::new(name, &media_type, *bytes);
        if let Some(charset) = description.charset.filter(|_| variant.charset.is_empty()) {
            variant.charset = charset.to_ascii_lowercase();
        }
        let encodings = description.encodings.join(&b", "[..]);
        variant.encoding = Some(encodings).filter(|encodings| !encodings.is_empty());
        variant.languages =
            description.languages.iter().map(|language| language.to_ascii_lowercase()).collect();
        self.variants.borrow_mut().push(variant);
    }
}

/// Where the path of a request names no file.
pub(crate) fn missing(exchange: &Exchange) -> Result<Option<Missing>, Failure> {
    let path = &exchange.request.path;
    let Ok(file) = exchange.path() else { return Ok(None) };
    if file.contains(&0) {
        return Ok(None);
    }
    let budget = exchange.budget();
    let end = variables::file_end(exchange, &file, &budget)?;
    if variables::metadata(exchange, &file[..end], &budget)?.is_some() {
        return Ok(None);
    }
    let slash = file[..end].iter().rposition(|&byte| byte == b'/');
    let uri_end = (path.len() + end).checked_sub(file.len());
    let (Some(slash), Some(uri_end)) = (slash, uri_end) else { return Ok(None) };
    let Some(uri_slash) = path[..uri_end].iter().rposition(|&byte| byte == b'/') else { return Ok(None) };
    Ok(Some(Missing {
        directory: file[..=slash].to_vec(),
        name: file[slash + 1..end].to_vec(),
        uri: path[..=uri_slash].to_vec(),
        rest: path[uri_end..].to_vec(),
    }))
}

/// Looks for the files of a name. This blocks for the disk.
fn look(missing: &Missing, way: Way) -> Found {
    let mut found = Found { files: Vec::new(), is_any: false };
    let Ok(mut directory) = Directory::open(&missing.directory, way) else { return found };
    while let Some(Ok(item)) = directory.next(true) {
        let name = item.file_name();
        let is_form =
            name.as_bytes().strip_prefix(&missing.name[..]).is_some_and(|rest| rest.starts_with(b"."));
        if !is_form || item.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        found.is_any = true;
        if let Ok(metadata) = directory.look(&item)
            && metadata.is_file()
            && found.files.len() < VARIANTS_MAX
        {
            found.files.push((name.as_bytes().to_vec(), metadata.len()));
        }
    }
    found.files.sort();
    found
}

/// Which encodings the environment leaves out.
fn encoded(exchange: &Exchange) -> Encoded {
    match environment::get(exchange, b"gzip-only-text/html").as_deref() {
        _ if environment::get(exchange, b"no-gzip").is_some() => Encoded::None,
        Some(b"1") => Encoded::Html,
        _ => Encoded::All,
    }
}

/// A list of names, for a client that makes the choice itself.
pub(crate) fn choices<'n>(exchange: &mut Exchange, names: impl Iterator<Item = &'n [u8]>) -> Step {
    let mut page = b"<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n\
        <title>300 Multiple Choices</title>\n</head><body>\n<h1>Multiple Choices</h1>\n<ul>\n"
        .to_vec();
    for name in names {
        page.extend_from_slice(b"<li><a href=\"");
        escape::component(name, &mut page);
        page.extend_from_slice(b"\">");
        escape::html(name, &mut page);
        page.extend_from_slice(b"</a></li>\n");
    }
    page.extend_from_slice(b"</ul>\n</body></html>\n");
    exchange.response.status = Status(300);
    exchange.response.content_type = Some(b"text/html".as_slice().into());
    exchange.response.content_length = Some(page.len() as u64);
    Step::Respond(Body::bytes(page))
}
