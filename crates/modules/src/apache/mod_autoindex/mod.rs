//! Sets in `.htaccess` files how directories are listed.
//!
//! `Options +Indexes` turns listings on. A listing leaves out names to which `.htaccess` files deny access, and
//! names in `IndexIgnore`. With `Options` and `IndexIgnore` alone, the listing has the form of
//! [`autoindex_format`](autoindex.md). With any other directive of this page it looks like Apache's: a plain list, columns with `IndexOptions
//! FancyIndexing`, or a table with `HTMLTable` added. Clients sort it with the query: `?C=M;O=D` begins with the newest
//! file. `C` is the column: `N` (name), `M` (modified), `S` (size) or `D` (description). `O` is the order: `A` (ascending) or
//! `D` (descending).
//!
//! Fulmar checks each name as if a client had requested it, so a listing costs as much as a request for each name. The
//! comparisons with the patterns of these directives count for the [limit of a request](../htaccess.md#limits).
//!
//! nginx: none
//!
//! ```file html/files/a.txt
//! a
//! ```
//!
//! ```file html/files/b.bak
//! b
//! ```
//!
//! ```file html/.htaccess
//! Options +Indexes
//! IndexOptions Charset=UTF-8
//! IndexIgnore *.bak
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
//! GET /files/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/html;charset=UTF-8
//!
//! <!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://www.w3.org/TR/html4/strict.dtd">
//! <html>
//!  <head>
//!   <title>Index of /files</title>
//!  </head>
//!  <body>
//! <h1>Index of /files</h1>
//! <ul><li><a href="/"> Parent Directory</a></li>
//! <li><a href="a.txt"> a.txt</a></li>
//! </ul>
//! </body></html>
//! ```

mod judged;
mod listing;
mod options;
mod order;
mod page;
mod row;
mod settings;

use crate::files::autoindex::Listing;
use crate::shared::apache::{directory, in_all_files, wrong};
use crate::shared::per_directory;
use conf::{Arity, Diagnostic, value};
use contract::{Args, Directive, Loading, Module, Phase, ScopeBuilder, View};
use listing::JudgedListing;
use options::Options;
use order::{Key, Order};
use settings::{Item, Pattern, Place, Settings};
use std::sync::Arc;

/// Listings.
pub static MODULE: Module = Module {
    name: "mod_autoindex",
    directives: &[
        &INDEX_OPTIONS,
        &INDEX_ORDER_DEFAULT,
        &INDEX_IGNORE,
        &INDEX_IGNORE_RESET,
        &INDEX_STYLE_SHEET,
        &INDEX_HEAD_INSERT,
        &HEADER_NAME,
        &README_NAME,
        &ADD_DESCRIPTION,
        &ADD_ICON,
        &ADD_ICON_BY_TYPE,
        &ADD_ICON_BY_ENCODING,
        &ADD_ALT,
        &ADD_ALT_BY_TYPE,
        &ADD_ALT_BY_ENCODING,
        &DEFAULT_ICON,
    ],
    variables: &[],
    compile: Some(compile),
};

/// `IndexOptions [+|-]OPTION …`
pub(crate) static INDEX_OPTIONS: Directive<Line> =
    line("IndexOptions", Arity::AtLeast(1), |args, _| Ok(Line::Options(Options::parse(args)?)))
        .help("How a listing looks: `FancyIndexing`, `HTMLTable`, `FoldersFirst` and others.");

/// `IndexOrderDefault Ascending | Descending Name | Date | Size | Description`
pub(crate) static INDEX_ORDER_DEFAULT: Directive<Line> =
    line("IndexOrderDefault", Arity::Exactly(2), parse_order)
        .help("The order of a listing that the client does not sort.");

/// `IndexIgnore NAME …`
pub(crate) static INDEX_IGNORE: Directive<Line> = line("IndexIgnore", Arity::AtLeast(1), parse_ignore)
    .help("Names, with `*` and `?`, that a listing leaves out.");

/// `IndexIgnoreReset On | Off`
pub(crate) static INDEX_IGNORE_RESET: Directive<Line> =
    line("IndexIgnoreReset", Arity::Exactly(1), |args, _| Ok(Line::Reset(args.value(0, value::flag)?)))
        .help("`On` forgets the names in `IndexIgnore` of outer directories.");

/// `IndexStyleSheet URL`
pub(crate) static INDEX_STYLE_SHEET: Directive<Line> =
    line("IndexStyleSheet", Arity::Exactly(1), |args, _| Ok(Line::Style(first(args)?)))
        .help("The style sheet of a listing.");

/// `IndexHeadInsert HTML`
pub(crate) static INDEX_HEAD_INSERT: Directive<Line> =
    line("IndexHeadInsert", Arity::Exactly(1), |args, _| Ok(Line::Head(first(args)?)))
        .help("HTML for the head of a listing.");

/// `HeaderName PATH`
pub(crate) static HEADER_NAME: Directive<Line> =
    line("HeaderName", Arity::Exactly(1), |args, _| Ok(Line::Header(first(args)?)))
        .help("A path whose content comes before the listing.");

/// `ReadmeName PATH`
pub(crate) static README_NAME: Directive<Line> =
    line("ReadmeName", Arity::Exactly(1), |args, _| Ok(Line::Readme(first(args)?)))
        .help("A path whose content comes after the listing.");

/// `AddDescription TEXT NAME …`
pub(crate) static ADD_DESCRIPTION: Directive<Line> =
    line("AddDescription", Arity::AtLeast(2), parse_description).help("A text about files, in a column.");

/// `AddIcon URL|(ALT,URL) NAME …`
pub(crate) static ADD_ICON: Directive<Line> =
    line("AddIcon", Arity::AtLeast(2), |args, loading| parse_icon(args, loading, Place::Path))
        .help("The icon of files by name; `^^DIRECTORY^^` is any directory, `^^BLANKICON^^` stands for the row of headings.");

/// `AddIconByType URL|(ALT,URL) TYPE …`
pub(crate) static ADD_ICON_BY_TYPE: Directive<Line> =
    line("AddIconByType", Arity::AtLeast(2), |args, loading| parse_icon(args, loading, Place::Type))
        .help("The icon of files by media type.");

/// `AddIconByEncoding URL|(ALT,URL) ENCODING …`
pub(crate) static ADD_ICON_BY_ENCODING: Directive<Line> =
    line("AddIconByEncoding", Arity::AtLeast(2), |args, loading| parse_icon(args, loading, Place::Encoding))
        .help("The icon of files by encoding.");

/// `AddAlt TEXT NAME …`
pub(crate) static ADD_ALT: Directive<Line> =
    line("AddAlt", Arity::AtLeast(2), |args, loading| parse_alt(args, loading, Place::Path))
        .help("The text for an icon by name.");

/// `AddAltByType TEXT TYPE …`
pub(crate) static ADD_ALT_BY_TYPE: Directive<Line> =
    line("AddAltByType", Arity::AtLeast(2), |args, loading| parse_alt(args, loading, Place::Type))
        .help("The text for an icon by media type.");

/// `AddAltByEncoding TEXT ENCODING …`
pub(crate) static ADD_ALT_BY_ENCODING: Directive<Line> =
    line("AddAltByEncoding", Arity::AtLeast(2), |args, loading| parse_alt(args, loading, Place::Encoding))
        .help("The text for an icon by encoding.");

/// `DefaultIcon URL`
pub(crate) static DEFAULT_ICON: Directive<Line> =
    line("DefaultIcon", Arity::Exactly(1), |args, _| Ok(Line::DefaultIcon(first(args)?)))
        .help("The icon of all other files.");

/// What one directive says.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// `IndexOptions`
    Options(Options),
    /// `IndexOrderDefault`
    Order(Order),
    /// `IndexIgnore`
    Ignore(Vec<Pattern>),
    /// `IndexIgnoreReset`
    Reset(bool),
    /// `IndexStyleSheet`
    Style(Box<[u8]>),
    /// `IndexHeadInsert`
    Head(Box<[u8]>),
    /// `HeaderName`
    Header(Box<[u8]>),
    /// `ReadmeName`
    Readme(Box<[u8]>),
    /// `AddDescription`: the text, and names.
    Description(Box<[u8]>, Vec<Box<[u8]>>),
    /// `AddIcon` and `AddAlt`, by name, type and encoding: icons, and the texts for them.
    Icons(Vec<Item>, Vec<Item>),
    /// `DefaultIcon`
    DefaultIcon(Box<[u8]>),
}

type Parse = fn(&Args<'_>, &mut Loading) -> Result<Line, Diagnostic>;

const fn line(name: &'static str, arity: Arity, parse: Parse) -> Directive<Line> {
    in_all_files(Directive::new(name, parse)).args(arity).slot("htaccess listing")
}

fn first(args: &Args<'_>) -> Result<Box<[u8]>, Diagnostic> {
    Ok(args.word(0)?.text.clone())
}

fn parse_order(args: &Args<'_>, _: &mut Loading) -> Result<Line, Diagnostic> {
    let descends =
        args.value(0, |word| value::choice(word, &[("ascending", false), ("descending", true)]))?;
    const KEYS: [(&str, Key); 4] = [
        ("name", Key::Name),
        ("date", Key::Modified),
        ("size", Key::Size),
        ("description", Key::Description),
    ];
    Ok(Line::Order(Order { key: args.value(1, |word| value::choice(word, &KEYS))?, descends }))
}

fn parse_ignore(args: &Args<'_>, loading: &mut Loading) -> Result<Line, Diagnostic> {
    let directory = directory(args, loading)?;
    Ok(Line::Ignore(args.words().iter().map(|word| Pattern::ignored(&directory, &word.text)).collect()))
}

fn parse_description(args: &Args<'_>, _: &mut Loading) -> Result<Line, Diagnostic> {
    Ok(Line::Description(first(args)?, args.words().iter().skip(1).map(|word| word.text.clone()).collect()))
}

fn parse_icon(args: &Args<'_>, loading: &mut Loading, place: Place) -> Result<Line, Diagnostic> {
    let word = args.word(0)?;
    let directory = directory(args, loading)?;
    let names = || args.words().iter().skip(1).map(|word| &*word.text);
    let items = |value: &[u8]| names().map(|name| Item::new(place, &directory, name, value)).collect();
    let Some(inner) = word.text.strip_prefix(b"(") else {
        return Ok(Line::Icons(items(&word.text), Vec::new()));
    };
    let end = inner.iter().position(|&byte| byte == b')');
    let inner = &inner[..end.ok_or_else(|| wrong(args, "no \")\" in", word))?];
    let comma = inner.iter().position(|&byte| byte == b',').unwrap_or(inner.len());
    let icon = inner.get(comma + 1..).unwrap_or_default();
    Ok(Line::Icons(items(icon.trim_ascii_start()), items(&inner[..comma])))
}

fn parse_alt(args: &Args<'_>, loading: &mut Loading, place: Place) -> Result<Line, Diagnostic> {
    let (text, directory) = (first(args)?, directory(args, loading)?);
    let names = args.words().iter().skip(1);
    let items = names.map(|name| Item::new(place, &directory, &name.text, &text)).collect();
    Ok(Line::Icons(Vec::new(), items))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !per_directory::are_files_judged(view) || per_directory::has_handler(view) {
        return Ok(());
    }
    if let Some(listing) = Listing::of(view) {
        let settings = Arc::new(Settings::of(view));
        builder.handle(Phase::Content, JudgedListing { listing, settings });
    }
    Ok(())
}
