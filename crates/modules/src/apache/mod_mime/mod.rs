//! Sets in `.htaccess` files the media type, charset, language, encoding and handler of file name extensions.
//!
//! nginx: none
//!
//! ```file html/a.page
//! a page
//! ```
//!
//! ```file html/.htaccess
//! AddType text/x-page .page
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
//! GET /a.page HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/x-page
//!
//! a page
//! ```

mod filters;
mod handlers;

use crate::apache::apache_core::content::FORCE_TYPE;
use crate::apache::mod_filter;
use crate::shared::apache::methods::Unforced;
use crate::shared::apache::{in_all_files, in_file, last, wrong};
use crate::shared::per_directory::{are_files_judged, slot};
use bytes::Bytes;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Exchange, Loading, Module, Phase, Replaced, Scope, ScopeBuilder, View};
use http::TypesByExtension;
use std::sync::Arc;

use filters::{Described, Languages, Typed};
use handlers::Handlers;
pub(crate) use handlers::{Chosen, Parsed, has_program, is_program_type};

/// What files with an extension are.
pub static MODULE: Module = Module {
    name: "mod_mime",
    directives: &[
        &ADD_TYPE,
        &REMOVE_TYPE,
        &ADD_CHARSET,
        &REMOVE_CHARSET,
        &ADD_ENCODING,
        &REMOVE_ENCODING,
        &ADD_LANGUAGE,
        &REMOVE_LANGUAGE,
        &DEFAULT_LANGUAGE,
        &ADD_HANDLER,
        &REMOVE_HANDLER,
        &SET_HANDLER,
        &MULTIVIEWS_MATCH,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `AddType TYPE EXTENSION …`
pub(crate) static ADD_TYPE: Directive<Line> = add("AddType", |args, _| parse_add(args, Kind::Type))
    .help("The media type of files with these extensions.");

/// `RemoveType EXTENSION …`
pub(crate) static REMOVE_TYPE: Directive<Line> =
    remove("RemoveType", |args, _| parse_remove(args, Kind::Type)).help("Extensions without a media type.");

/// `AddCharset CHARSET EXTENSION …`
pub(crate) static ADD_CHARSET: Directive<Line> = add("AddCharset", |args, _| parse_add(args, Kind::Charset))
    .help("The character set of files with these extensions.");

/// `RemoveCharset EXTENSION …`
pub(crate) static REMOVE_CHARSET: Directive<Line> =
    remove("RemoveCharset", |args, _| parse_remove(args, Kind::Charset))
        .help("Extensions without a character set.");

/// `AddEncoding ENCODING EXTENSION …`
pub(crate) static ADD_ENCODING: Directive<Line> =
    add("AddEncoding", |args, _| parse_add(args, Kind::Encoding))
        .help("The encoding of files with these extensions.");

/// `RemoveEncoding EXTENSION …`
pub(crate) static REMOVE_ENCODING: Directive<Line> =
    remove("RemoveEncoding", |args, _| parse_remove(args, Kind::Encoding))
        .help("Extensions without an encoding.");

/// `AddLanguage LANGUAGE EXTENSION …`
pub(crate) static ADD_LANGUAGE: Directive<Line> =
    add("AddLanguage", |args, _| parse_add(args, Kind::Language))
        .help("The language of files with these extensions.");

/// `RemoveLanguage EXTENSION …`
pub(crate) static REMOVE_LANGUAGE: Directive<Line> =
    remove("RemoveLanguage", |args, _| parse_remove(args, Kind::Language))
        .help("Extensions without a language.");

/// `DefaultLanguage LANGUAGE`
pub(crate) static DEFAULT_LANGUAGE: Directive<Box<[u8]>> =
    in_file(Directive::new("DefaultLanguage", |args, _| Ok(args.word(0)?.text.clone())))
        .args(Arity::Exactly(1))
        .help("The language of files whose extensions name none.");

/// `AddHandler HANDLER EXTENSION …`
pub(crate) static ADD_HANDLER: Directive<Line> = add("AddHandler", |args, _| parse_add(args, Kind::Handler))
    .help("Files with these extensions are programs: they are run by a location, and never sent.");

/// `RemoveHandler EXTENSION …`
pub(crate) static REMOVE_HANDLER: Directive<Line> =
    remove("RemoveHandler", |args, _| parse_remove(args, Kind::Handler))
        .help("Files with these extensions are not passed to programs.");

/// `SetHandler HANDLER | None`
pub(crate) static SET_HANDLER: Directive<Box<[u8]>> =
    in_file(Directive::new("SetHandler", |args, _| Ok(args.word(0)?.text.clone())))
        .args(Arity::Exactly(1))
        .slot(slot::HANDLER)
        .help("The handler of files: PHP, or `none`.");

/// `MultiviewsMatch Any | NegotiatedOnly | Filters | Handlers …`
pub(crate) static MULTIVIEWS_MATCH: Directive<Vec<Match>> =
    in_file(Directive::new("MultiviewsMatch", parse_match)).args(Arity::AtLeast(1)).help(
        "Which extensions the forms of a document may have, besides those of types, languages and encodings.",
    );

/// Extensions that count where a document has several forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Any,
    Filters,
    Handlers,
}

fn parse_match(args: &Args<'_>, _: &mut Loading) -> Result<Vec<Match>, Diagnostic> {
    let mut matches = Vec::new();
    for word in args.words() {
        match word.text.to_ascii_lowercase().as_slice() {
            b"any" => matches.push(Match::Any),
            b"filters" => matches.push(Match::Filters),
            b"handlers" => matches.push(Match::Handlers),
            b"negotiatedonly" if args.words().len() == 1 => {}
            _ => return Err(wrong(args, "an unknown or contradictory value", word)),
        }
    }
    Ok(matches)
}

/// What an extension says, or does not say any more.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    kind: Kind,
    /// None takes away what was said before.
    value: Option<Box<[u8]>>,
    /// In lower case, without a dot.
    extensions: Vec<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Type,
    Charset,
    Encoding,
    Language,
    Handler,
}

type Parse = fn(&Args<'_>, &mut Loading) -> Result<Line, Diagnostic>;

const fn add(name: &'static str, parse: Parse) -> Directive<Line> {
    in_all_files(Directive::new(name, parse)).args(Arity::AtLeast(2)).slot("htaccess extensions")
}

const fn remove(name: &'static str, parse: Parse) -> Directive<Line> {
    in_all_files(Directive::new(name, parse)).args(Arity::AtLeast(1)).slot("htaccess extensions")
}

fn parse_add(args: &Args<'_>, kind: Kind) -> Result<Line, Diagnostic> {
    // As in Apache the case of the value is lost.
    let value = args.word(0)?.text.to_ascii_lowercase().into();
    Ok(Line { kind, value: Some(value), extensions: extensions(args, 1) })
}

fn parse_remove(args: &Args<'_>, kind: Kind) -> Result<Line, Diagnostic> {
    Ok(Line { kind, value: None, extensions: extensions(args, 0) })
}

fn extensions(args: &Args<'_>, from: usize) -> Vec<Box<[u8]>> {
    let plain =
        |word: &conf::Word| word.text.strip_prefix(b".").unwrap_or(&word.text).to_ascii_lowercase().into();
    args.words().iter().skip(from).map(plain).collect()
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let lines = lines(view);
    if lines.iter().any(|line| line.kind == Kind::Type) {
        let mut types = TypesByExtension::clone(&builder.policy.types);
        for line in lines.iter().filter(|line| line.kind == Kind::Type) {
            let media_type = line.value.as_deref().unwrap_or_default();
            line.extensions.iter().for_each(|extension| drop(types.insert(extension, media_type)));
        }
        builder.policy.types = Arc::new(types);
    }
    let language = last(view, &DEFAULT_LANGUAGE);
    let matches = last(view, &MULTIVIEWS_MATCH).unwrap_or_default();
    if language.is_some() || !lines.is_empty() || !matches.is_empty() {
        let describes = lines.iter().any(|line| !matches!(line.kind, Kind::Type | Kind::Handler));
        let describes = describes || language.is_some() || !matches.is_empty();
        let filtered = match matches.contains(&Match::Filters) {
            true => mod_filter::extensions_of(view),
            false => Vec::new(),
        };
        let extensions = Arc::new(Extensions { lines: lines.clone(), language, matches, filtered });
        builder.keep(extensions);
        if describes {
            builder.filter(Described);
        }
    }
    if are_files_judged(view) {
        builder.filter(Typed);
    }
    let set = last(view, &SET_HANDLER);
    let types = lines.iter().filter(|line| line.kind == Kind::Type).map(|line| line.value.clone());
    let has_program_type =
        types.chain([last(view, &FORCE_TYPE)]).flatten().any(|media_type| is_program_type(&media_type));
    let lines: Vec<Line> = lines.into_iter().filter(|line| line.kind == Kind::Handler).collect();
    if set.is_some() || !lines.is_empty() || has_program_type {
        let (chosen, has_program) = (Chosen { lines, set }, has_program(view));
        builder.handle(Phase::Precontent, Handlers { chosen, has_program, has_program_type });
    }
    Ok(())
}

/// Names the languages of files, after the filters that were added before.
pub(crate) fn name_languages(view: &View<'_>, builder: &mut ScopeBuilder) {
    let is_language = |line: &Line| line.kind == Kind::Language;
    if last(view, &DEFAULT_LANGUAGE).is_some() || lines(view).iter().any(is_language) {
        builder.filter(Languages);
    }
}

/// The lines of all levels, the outermost first. As in Apache what a level takes away goes after what it adds,
/// except types.
fn lines(view: &View<'_>) -> Vec<Line> {
    let of = |level: &View<'_>| -> Vec<Line> {
        let lines: Vec<Line> =
            level.here(&ADD_TYPE).into_iter().map(|written| written.value.clone()).collect();
        let (added, removed): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| line.kind == Kind::Type || line.value.is_some());
        [added, removed].concat()
    };
    let mut levels: Vec<Vec<Line>> = view.levels().map(|level| of(&level)).collect();
    levels.reverse();
    levels.concat()
}

/// What the last line for an extension says.
fn said<'l>(lines: &'l [Line], kind: Kind, extension: &[u8]) -> Option<&'l Line> {
    let is_meant = |line: &&Line| {
        line.kind == kind && line.extensions.iter().any(|known| known.eq_ignore_ascii_case(extension))
    };
    lines.iter().rev().find(is_meant)
}

/// The extensions of the file of a path. Leading dots are a part of the name: `.png` has no extension.
fn of_path(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let name = &name[name.iter().take_while(|byte| **byte == b'.').count()..];
    name.split(|&byte| byte == b'.').skip(1)
}

/// What extensions say of files.
struct Extensions {
    lines: Vec<Line>,
    language: Option<Box<[u8]>>,
    /// What else counts besides types, languages, character sets and encodings.
    matches: Vec<Match>,
    /// The extensions that filters have.
    filtered: Vec<Box<[u8]>>,
}

impl Extensions {
    /// Whether an extension that says nothing about the content is one that a form of a document may have.
    fn allows(&self, extension: &[u8]) -> bool {
        self.matches.iter().any(|allowed| match allowed {
            Match::Any => true,
            Match::Filters => self.filtered.iter().any(|known| known.eq_ignore_ascii_case(extension)),
            Match::Handlers => {
                said(&self.lines, Kind::Handler, extension).is_some_and(|line| line.value.is_some())
            }
        })
    }
}

/// What the extensions of a file say of it.
#[derive(Default)]
pub(crate) struct Description {
    /// The last of its media types.
    pub(crate) media_type: Option<Bytes>,
    /// The last of its character sets.
    pub(crate) charset: Option<Box<[u8]>>,
    pub(crate) encodings: Vec<Box<[u8]>>,
    pub(crate) languages: Vec<Box<[u8]>>,
    /// Extensions of the name that nothing knows.
    pub(crate) unknown: Vec<Box<[u8]>>,
}

/// What the extensions of a path say in a scope.
pub(crate) fn describe(scope: &Scope, path: &[u8]) -> Description {
    let extensions = scope.kept::<Arc<Extensions>>();
    let lines = extensions.map_or(&[][..], |extensions| &extensions.lines);
    let unforced = scope.kept::<Unforced>();
    let types = unforced.map_or(&scope.policy.types, |unforced| &unforced.0);
    let mut description = Description::default();
    for extension in of_path(path) {
        let value = |kind| said(lines, kind, extension).and_then(|line| line.value.clone());
        let of_type = types.of_path(&[b"/x.", extension].concat()).cloned();
        let of_type = of_type.filter(|media_type| !media_type.is_empty());
        let (charset, encoding, language) =
            (value(Kind::Charset), value(Kind::Encoding), value(Kind::Language));
        let is_known = of_type.is_some()
            || charset.is_some()
            || encoding.is_some()
            || language.is_some()
            || extensions.is_some_and(|extensions| extensions.allows(extension));
        description.unknown.extend((!is_known).then(|| Box::from(extension)));
        description.media_type = of_type.or(description.media_type);
        description.charset = charset.or(description.charset);
        description.encodings.extend(encoding);
        description.languages.extend(language);
    }
    if description.languages.is_empty() {
        description.languages.extend(extensions.and_then(|extensions| extensions.language.clone()));
    }
    if unforced.is_some() {
        // As in Apache such a type has no character set.
        description.charset = None;
        description.media_type = Some(scope.policy.default_type.clone());
    }
    description
}

/// Appends a character set to the media type that has none, unless the content is a page of the server's own.
pub(crate) fn add_charset(exchange: &mut Exchange, charset: &[u8]) {
    let is_own_page = exchange.error.is_some() && exchange.error_page_used == Replaced::No;
    let Some(content_type) = exchange.response.content_type.as_deref().filter(|_| !is_own_page) else {
        return;
    };
    if !content_type.to_ascii_lowercase().windows(8).any(|part| part == b"charset=") {
        let full = [content_type, b"; charset=", charset].concat();
        exchange.response.content_type = Some(full.into());
    }
}
