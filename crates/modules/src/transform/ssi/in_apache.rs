//! The commands of Apache's mod_include, for pages below `.htaccess` files.

use super::page::{Common, Encoding, Page, TooMuch};
use super::scanner::Command;
use super::source::{Asked, Expanding, INCLUDED_MAX, Inclusion, Problem, Settings, subrequest};
use super::{VALUE_LENGTH_MAX, expression};
use crate::shared::apache::expression::PageVariables;
use crate::shared::apache::short_size::short_size;
use crate::shared::apache::urls::{canonical, escape_uri};
use crate::shared::apache::{environment, judging, variables};
use crate::shared::blocks::Blocks;
use crate::shared::{files, validators};
use contract::{Body, Budget, Content, Exchange, Reach, Subrequest, Work};
use http::{base64, escape};
use journal::clock::{self, Time};
use std::cell::{Cell, RefCell};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

/// Texts that a `.htaccess` file gives.
#[derive(Clone)]
pub(crate) struct Texts {
    pub(crate) error: Option<Vec<u8>>,
    pub(crate) date: Option<Vec<u8>>,
    pub(crate) undefined: Option<Vec<u8>>,
}

/// The first page of a request. The pages that it includes have its variables.
pub(super) struct Document {
    path: Vec<u8>,
    args: Vec<u8>,
    modified: Option<i64>,
    /// The text for a variable without a value, until a page says otherwise.
    undefined: RefCell<Vec<u8>>,
    /// How deep the page is that is included next. Pages are included one after the other.
    depth: Cell<u32>,
    /// Whether the log has a message about pages that nest too deep.
    told: Cell<bool>,
}

/// How deep pages may include each other, as Apache has it (`LimitInternalRecursion`).
const DEPTH_MAX: u32 = 10;

/// What a request for a file or a page costs, in steps of the request's [`Budget`].
const REQUEST_STEPS: u32 = 4;

/// What a command tells about a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum About {
    /// In bytes, or in a short form.
    Size {
        in_bytes: bool,
    },
    Modified,
}

/// The variables of pages.
const OF_PAGES: [&str; 7] = [
    "DATE_GMT",
    "DATE_LOCAL",
    "DOCUMENT_ARGS",
    "DOCUMENT_NAME",
    "DOCUMENT_URI",
    "LAST_MODIFIED",
    "QUERY_STRING_UNESCAPED",
];

/// A body whose commands are done while it is sent.
pub(crate) fn expand_as_apache(exchange: &mut Exchange, body: Body, texts: &Texts) -> Body {
    let content = match Blocks::of(body) {
        Ok(content) => content,
        Err(tunnel) => return tunnel,
    };
    let document = document(exchange);
    validators::is_another_form(&mut exchange.response);
    exchange.file = None;
    if exchange.is_head() {
        return Body::Empty;
    }
    let mut page = Page::new(Common::of(exchange));
    page.error_message = b"[an error occurred while processing this directive]".to_vec();
    if let Some(error) = &texts.error {
        page.error_message.clone_from(error);
    }
    if let Some(date) = &texts.date {
        page.date = String::from_utf8_lossy(date).into_owned();
    }
    if let Some(undefined) = &texts.undefined {
        document.undefined.replace(undefined.clone());
    }
    page.depth = document.depth.get();
    page.document = Some(document);
    let value_max = usize::try_from(VALUE_LENGTH_MAX).unwrap_or(usize::MAX);
    Body::Source(Box::new(Expanding::of_page(Settings { is_silent: false, value_max }, page, content)))
}

/// The first page of a request.
fn document(exchange: &Exchange) -> Rc<Document> {
    exchange.attached().unwrap_or_else(|| {
        let document = Rc::new(Document {
            path: exchange.request.path.clone(),
            args: exchange.request.args.clone().unwrap_or_default(),
            modified: exchange.response.last_modified,
            undefined: RefCell::new(b"(none)".to_vec()),
            depth: Cell::new(0),
            told: Cell::new(false),
        });
        exchange.attach(Reach::Shared, Rc::clone(&document));
        exchange.attach(Reach::Shared, Rc::new(PageVariables(apache_variable)));
        document
    })
}

/// The value of a variable, for an expression of a page.
fn apache_variable(exchange: &Exchange, name: &[u8]) -> Option<Vec<u8>> {
    let document = exchange.attached::<Document>()?;
    let set = Common::of(exchange).get(name);
    set.or_else(|| document.variable(name, "%A, %d-%b-%Y %H:%M:%S %Z", exchange))
}

impl Document {
    /// A variable of the page, of the environment, or one that programs have.
    pub(super) fn variable(&self, name: &[u8], date: &str, exchange: &Exchange) -> Option<Vec<u8>> {
        if let Some(value) = environment::get(exchange, name) {
            return Some(value.into());
        }
        let name = std::str::from_utf8(name).ok()?.to_ascii_uppercase();
        let moment = |seconds, is_local| clock::try_format(seconds, is_local, date).map(String::into_bytes);
        match name.as_str() {
            "DATE_GMT" => moment(Time::now().seconds, false),
            "DATE_LOCAL" => moment(Time::now().seconds, true),
            "LAST_MODIFIED" => moment(self.modified?, true),
            "DOCUMENT_URI" => Some(self.path.clone()),
            "DOCUMENT_NAME" => Some(self.path.rsplit(|&byte| byte == b'/').next()?.to_vec()),
            "DOCUMENT_ARGS" => Some(self.args.clone()),
            "QUERY_STRING_UNESCAPED" => Some(for_shell(&variables::unescape(&self.args))),
            name => variables::of_programs(exchange, name.as_bytes()),
        }
    }
}

impl About {
    /// What it tells about the file of a request, if a client could ask for it.
    pub(super) fn of_file(self, page: &Page, judged: &Exchange) -> Option<Vec<u8>> {
        let path = judged.path().ok().filter(|path| variables::is_inside(judged, path))?;
        if !judging::passes(judged) {
            return None;
        }
        let metadata = std::fs::metadata(files::as_path(&path)).ok()?;
        Some(match self {
            About::Size { in_bytes: true } => grouped(metadata.len()).into_bytes(),
            About::Size { in_bytes: false } => short_size(Some(metadata.len())).into_bytes(),
            About::Modified => clock::try_format(metadata.mtime(), true, &page.date)?.into_bytes(),
        })
    }
}

/// A text with a backslash before each byte that has a meaning for a shell.
fn for_shell(text: &[u8]) -> Vec<u8> {
    let escaped = |&byte: &u8| {
        let is_special = b"&;`'\"|*?~<>^()[]{}$\\\n".contains(&byte);
        is_special.then_some(b'\\').into_iter().chain([byte])
    };
    text.iter().flat_map(escaped).collect()
}

/// A number with a comma after each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl Expanding {
    /// Carries out a command.
    pub(super) fn command_of_apache(
        &mut self,
        command: &Command,
        exchange: &Exchange,
    ) -> Result<(), Problem> {
        pay(exchange, Budget::STEP)?;
        let name = command.name.to_ascii_lowercase();
        let parameters: Vec<(String, &[u8])> =
            command.parameters.iter().map(|(name, value)| (name.to_ascii_lowercase(), &value[..])).collect();
        match name.as_str() {
            "if" => {
                let holds = if self.page.is_taken() { self.holds(&parameters, exchange) } else { Ok(false) };
                // An expression that is not understood does not hold.
                self.page.begin_choice(matches!(holds, Ok(true)))?;
                holds.map(drop)
            }
            "else" if self.page.choices.is_empty() => self.page.begin_choice(false),
            "elif" | "else" => {
                let is_else = name == "else";
                let may_be_taken = self.page.may_take_branch().ok_or_else(|| misplaced(&name))?;
                let holds = may_be_taken && (is_else || self.holds(&parameters, exchange)?);
                self.page.next_branch(holds, is_else);
                Ok(())
            }
            "endif" => {
                self.page.choices.pop();
                Ok(())
            }
            _ if !self.page.is_taken() => Ok(()),
            "comment" => Ok(()),
            "printenv" => self.print_variables(&parameters, exchange),
            _ if parameters.is_empty() => Err(format!("missing argument for {name} element")),
            "set" => self.set_variables(&parameters, exchange),
            "echo" => self.echo_variables(&parameters, exchange),
            "config" => self.configure_page(&parameters),
            "include" | "fsize" | "flastmod" => self.ask_for_file(&name, &parameters, exchange),
            "exec" => Err("the command \"exec\" is not supported in pages".to_owned()),
            _ => Err(format!("unknown directive \"{name}\" in a page")),
        }
    }

    fn holds(&self, parameters: &[(String, &[u8])], exchange: &Exchange) -> Result<bool, Problem> {
        let [(name, text)] = parameters else { return Err("\"if\" needs one \"expr\"".to_owned()) };
        if name != "expr" {
            return Err(format!("unknown parameter \"{name}\" to tag \"if\""));
        }
        expression::holds_in_apache(exchange, text)
    }

    fn set_variables(&mut self, parameters: &[(String, &[u8])], exchange: &Exchange) -> Result<(), Problem> {
        let mut variable = None;
        for (name, text) in parameters {
            let value = self.page.expand(text, exchange)?;
            match (name.as_str(), &variable) {
                ("var", _) => variable = Some(value),
                ("value", Some(variable)) => self
                    .page
                    .common
                    .set(variable, &value)
                    .map_err(|TooMuch| "there is no memory left for a variable of a page".to_owned())?,
                ("value", None) => return Err("variable must precede value in \"set\"".to_owned()),
                ("encoding" | "decoding", _) => {}
                _ => return Err(format!("invalid tag \"{name}\" for \"set\"")),
            }
        }
        Ok(())
    }

    fn echo_variables(&mut self, parameters: &[(String, &[u8])], exchange: &Exchange) -> Result<(), Problem> {
        let (mut encodings, mut decodings): (Vec<Coding>, Vec<Coding>) =
            (vec![Coding::Plain(Encoding::Entity)], Vec::new());
        for (name, text) in parameters {
            match name.as_str() {
                "encoding" => encodings = codings(text)?,
                "decoding" => decodings = codings(text)?,
                "var" => {
                    let variable = self.page.expand(text, exchange)?;
                    match self.page.variable(&variable, exchange)? {
                        Some(value) => {
                            let value = decodings.iter().fold(value, |value, coding| coding.decode(value));
                            let value = encodings.iter().fold(value, |value, coding| coding.encode(value));
                            self.out.extend(value);
                        }
                        None => {
                            let undefined = self.page.document.as_ref().map(|page| page.undefined.borrow());
                            self.out.extend(undefined.iter().flat_map(|text| text.iter()));
                        }
                    }
                }
                _ => return Err(format!("unknown parameter \"{name}\" in tag \"echo\"")),
            }
        }
        Ok(())
    }

    fn configure_page(&mut self, parameters: &[(String, &[u8])]) -> Result<(), Problem> {
        for (name, text) in parameters {
            match name.as_str() {
                "errmsg" => self.page.error_message = text.to_vec(),
                "echomsg" => {
                    if let Some(document) = &self.page.document {
                        document.undefined.replace(text.to_vec());
                    }
                }
                "timefmt" => self.page.date = String::from_utf8_lossy(text).into_owned(),
                "sizefmt" => self.page.sizes_in_bytes = text.eq_ignore_ascii_case(b"bytes"),
                _ => return Err(format!("unknown parameter \"{name}\" to tag \"config\"")),
            }
        }
        Ok(())
    }

    fn ask_for_file(
        &mut self,
        command: &str,
        parameters: &[(String, &[u8])],
        exchange: &Exchange,
    ) -> Result<(), Problem> {
        let [(name, text)] = parameters else {
            return Err(format!("\"{command}\" needs one \"virtual\" or \"file\""));
        };
        let uri = self.page.expand(text, exchange)?;
        let uri = match name.as_str() {
            "virtual" => within_site(&uri, exchange),
            "file" if uri.starts_with(b"/") || climbs(&uri) => {
                return Err("\"file\" names no file in the directory of the page or below it".to_owned());
            }
            "file" => {
                let mut escaped = Vec::new();
                escape::path(&uri, &mut escaped);
                within_site(&escaped, exchange)
            }
            _ => return Err(format!("unknown parameter \"{name}\" to tag \"{command}\"")),
        };
        self.may_ask(exchange)?;
        let asked = match command {
            "include" => Asked::Page,
            "fsize" => Asked::File(About::Size { in_bytes: self.page.sizes_in_bytes }),
            _ => Asked::File(About::Modified),
        };
        let wanted = subrequest(&uri, Content::Streamed, exchange)?;
        let subrequest = match (&asked, judging::ask(wanted.path.clone())) {
            (Asked::File(_), Work::Subrequest(judged)) => Subrequest { args: wanted.args, ..judged },
            _ => wanted,
        };
        self.wanted = Some(Inclusion { subrequest, asked });
        Ok(())
    }

    /// Whether the page may ask for another one; that one is a level deeper.
    fn may_ask(&self, exchange: &Exchange) -> Result<(), Problem> {
        pay(exchange, REQUEST_STEPS * Budget::STEP)?;
        self.page.common.count(INCLUDED_MAX)?;
        let Some(document) = &self.page.document else { return Ok(()) };
        if self.page.depth >= DEPTH_MAX {
            return Err(match document.told.replace(true) {
                true => Problem::new(),
                false => format!("pages include each other more than {DEPTH_MAX} levels deep"),
            });
        }
        document.depth.set(self.page.depth + 1);
        Ok(())
    }

    fn print_variables(
        &mut self,
        parameters: &[(String, &[u8])],
        exchange: &Exchange,
    ) -> Result<(), Problem> {
        if !parameters.is_empty() {
            return Err("\"printenv\" takes no parameter".to_owned());
        }
        let set = self.page.common.names().into_iter();
        let made = environment::for_programs(exchange).into_iter().map(|(name, _)| name.into_vec());
        let known = variables::OF_PROGRAMS.iter().chain(&OF_PAGES).map(|name| name.as_bytes().to_vec());
        for name in set.chain(made).chain(known) {
            if let Some(value) = self.page.variable(&name, exchange)? {
                escape::html(&name, &mut self.out);
                self.out.push(b'=');
                escape::html(&value, &mut self.out);
                self.out.push(b'\n');
            }
        }
        Ok(())
    }
}

/// Pays for a command; the log gets one message if the budget is spent.
fn pay(exchange: &Exchange, units: u32) -> Result<(), Problem> {
    let budget = exchange.budget();
    budget.spend(units).map_err(|spent| if budget.tell() { spent.to_string() } else { Problem::new() })
}

/// Whether a path leads out of its directory on its way.
fn climbs(path: &[u8]) -> bool {
    let mut depth = 0_i32;
    path.split(|&byte| byte == b'/').any(|part| {
        depth += match part {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

/// A URI from the root on, without `..`. One without a slash at its start is one in the directory of the page.
fn within_site(uri: &[u8], exchange: &Exchange) -> Vec<u8> {
    let end = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
    let (path, query) = uri.split_at(end);
    let page = &exchange.request.path;
    let directory = page.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let base = if path.starts_with(b"/") { &[][..] } else { &page[..directory] };
    [&canonical(&[base, path].concat()), query].concat()
}

fn misplaced(name: &str) -> Problem {
    format!("invalid context of the command \"{name}\"")
}

/// How `echo` writes or reads a value.
#[derive(Clone, Copy)]
enum Coding {
    Plain(Encoding),
    Base64,
}

fn codings(text: &[u8]) -> Result<Vec<Coding>, Problem> {
    let coding = |name: &[u8]| {
        Ok(match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"none" => Coding::Plain(Encoding::None),
            b"url" | b"urlencoded" => Coding::Plain(Encoding::Url),
            b"entity" => Coding::Plain(Encoding::Entity),
            b"base64" => Coding::Base64,
            name => return Err(format!("unknown value \"{}\" to encoding", String::from_utf8_lossy(name))),
        })
    };
    text.split(|&byte| byte == b',').map(coding).collect()
}

impl Coding {
    fn encode(self, value: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Coding::Plain(Encoding::None) => return value,
            Coding::Plain(Encoding::Url) => escape_uri(&value, &mut out),
            Coding::Plain(Encoding::Entity) => escape::html(&value, &mut out),
            Coding::Base64 => return base64::encode(&value).into_bytes(),
        }
        out
    }

    fn decode(self, value: Vec<u8>) -> Vec<u8> {
        match self {
            Coding::Plain(Encoding::Url) => variables::unescape(&value),
            Coding::Base64 => base64::decode(&value).unwrap_or_default(),
            Coding::Plain(_) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
