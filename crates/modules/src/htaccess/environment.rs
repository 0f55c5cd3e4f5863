//! The environment of a request: `SetEnv`, `UnsetEnv`, `SetEnvIf` and its kin.

use super::{gathered, in_file, pattern, wrong};
use conf::value::{Captures, Pattern};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Handler, Loading, Phase, ScopeBuilder, Step, View};
use http::Status;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// `SetEnv NAME [VALUE]`
pub(super) static SET_ENV: Directive<Setting> = in_file(Directive::new("SetEnv", parse_set))
    .args(Arity::Range(1, 2))
    .slot("htaccess environment")
    .help("Sets a variable of the environment, after rewriting.");

/// `UnsetEnv NAME …`
pub(super) static UNSET_ENV: Directive<Setting> = in_file(Directive::new("UnsetEnv", parse_unset))
    .args(Arity::AtLeast(1))
    .slot("htaccess environment")
    .help("Takes variables out of the environment, after rewriting.");

/// `SetEnvIf ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(super) static SET_ENV_IF: Directive<Setting> =
    in_file(Directive::new("SetEnvIf", |args, _| parse_if(args, false)))
        .args(Arity::AtLeast(3))
        .slot("htaccess environment")
        .help("Sets variables of the environment if something about the request matches.");

/// `SetEnvIfNoCase ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(super) static SET_ENV_IF_NO_CASE: Directive<Setting> =
    in_file(Directive::new("SetEnvIfNoCase", |args, _| parse_if(args, true)))
        .args(Arity::AtLeast(3))
        .slot("htaccess environment")
        .help("As `SetEnvIf`, whatever the case of letters.");

/// `BrowserMatch PATTERN [!]NAME[=VALUE] …`
pub(super) static BROWSER_MATCH: Directive<Setting> =
    in_file(Directive::new("BrowserMatch", |args, _| parse_browser(args, false)))
        .args(Arity::AtLeast(2))
        .slot("htaccess environment")
        .help("As `SetEnvIf User-Agent`.");

/// `BrowserMatchNoCase PATTERN [!]NAME[=VALUE] …`
pub(super) static BROWSER_MATCH_NO_CASE: Directive<Setting> =
    in_file(Directive::new("BrowserMatchNoCase", |args, _| parse_browser(args, true)))
        .args(Arity::AtLeast(2))
        .slot("htaccess environment")
        .help("As `BrowserMatch`, whatever the case of letters.");

/// One directive.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    /// `SetEnv`
    Set(Box<[u8]>, Box<[u8]>),
    /// `UnsetEnv`
    Unset(Vec<Box<[u8]>>),
    /// `SetEnvIf`
    If(Arc<Condition>),
}

/// A name, and its value; no value takes the variable away.
type Assignment = (Box<[u8]>, Option<Box<[u8]>>);

/// A condition and what it sets.
#[derive(Debug)]
pub(super) struct Condition {
    attribute: Attribute,
    pattern: Arc<Pattern>,
    sets: Vec<Assignment>,
}

#[derive(Debug)]
enum Attribute {
    RemoteAddress,
    Method,
    Protocol,
    Uri,
    /// A field of the request or else a variable of the environment.
    Named(String),
}

/// The value of a variable.
type Value = Box<[u8]>;

/// The environment of a request, and whether it was rewritten to its end.
#[derive(Default)]
pub(super) struct Environment {
    variables: RefCell<Vec<(Box<[u8]>, Value)>>,
    pub(super) ended: Cell<bool>,
}

/// Variables that one request may have.
const VARIABLES_MAX: usize = 1000;

/// The environment of this request.
pub(super) fn of(exchange: &Exchange) -> Rc<Environment> {
    exchange.attached::<Environment>().unwrap_or_else(|| {
        exchange.attach(Environment::default());
        exchange.attached().unwrap_or_default()
    })
}

/// A variable of a request's environment.
pub(super) fn get(exchange: &Exchange, name: &[u8]) -> Option<Box<[u8]>> {
    let environment = exchange.attached::<Environment>();
    let found = environment.and_then(|environment| {
        let variables = environment.variables.borrow();
        variables.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone())
    });
    match (exchange.error, name) {
        (Some(status), b"REDIRECT_STATUS") => Some(status.0.to_string().into_bytes().into()),
        _ => found,
    }
}

impl Environment {
    pub(super) fn set(&self, name: &[u8], value: &[u8]) {
        let mut variables = self.variables.borrow_mut();
        variables.retain(|(known, _)| **known != *name);
        if variables.len() < VARIABLES_MAX {
            variables.push((name.into(), value.into()));
        }
    }

    pub(super) fn unset(&self, name: &[u8]) {
        self.variables.borrow_mut().retain(|(known, _)| **known != *name);
    }

    /// After an internal redirect the variables are known by longer names.
    pub(super) fn redirect(&self, path: &[u8]) {
        for (name, _) in self.variables.borrow_mut().iter_mut() {
            *name = [b"REDIRECT_", &**name].concat().into();
        }
        self.set(b"REDIRECT_STATUS", b"200");
        self.set(b"REDIRECT_URL", path);
    }
}

fn parse_set(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    let value = args.words().get(1).map(|word| word.text.clone()).unwrap_or_default();
    Ok(Setting::Set(args.word(0)?.text.clone(), value))
}

fn parse_unset(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    Ok(Setting::Unset(args.words().iter().map(|word| word.text.clone()).collect()))
}

fn parse_if(args: &Args<'_>, ignore_case: bool) -> Result<Setting, Diagnostic> {
    let word = args.word(0)?;
    let attribute = match word.text.to_ascii_lowercase().as_slice() {
        b"remote_addr" | b"remote_host" => Attribute::RemoteAddress,
        b"request_method" => Attribute::Method,
        b"request_protocol" => Attribute::Protocol,
        b"request_uri" => Attribute::Uri,
        b"server_addr" => return Err(wrong(args, "an attribute that is not supported,", word)),
        _ => Attribute::Named(word.to_string()),
    };
    condition(args, attribute, &args.words()[1..], ignore_case)
}

fn parse_browser(args: &Args<'_>, ignore_case: bool) -> Result<Setting, Diagnostic> {
    condition(args, Attribute::Named("User-Agent".to_owned()), args.words(), ignore_case)
}

fn condition(
    args: &Args<'_>,
    attribute: Attribute,
    words: &[Word],
    ignore_case: bool,
) -> Result<Setting, Diagnostic> {
    let Some((word, sets)) = words.split_first() else { return Err(args.error("has no pattern")) };
    let pattern = pattern(args, word, &word.text, ignore_case)?;
    let set = |word: &Word| match (word.text.strip_prefix(b"!"), word.text.iter().position(|&b| b == b'=')) {
        (Some(name), _) => (name.into(), None),
        (None, Some(at)) => (word.text[..at].into(), Some(word.text[at + 1..].into())),
        (None, None) => (word.text.clone(), Some(Box::from(&b"1"[..]))),
    };
    let sets = sets.iter().map(set).collect();
    Ok(Setting::If(Arc::new(Condition { attribute, pattern, sets })))
}

/// What is set before access is checked.
pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let early = |setting| match setting {
        Setting::If(condition) => Some(condition),
        _ => None,
    };
    let conditions: Vec<_> = gathered(view, &SET_ENV).into_iter().filter_map(early).collect();
    if !conditions.is_empty() {
        builder.handle(Phase::Preaccess, Early { conditions });
    }
}

/// What is set after rewriting.
pub(super) fn compile_late(view: &View<'_>, builder: &mut ScopeBuilder) {
    let settings = gathered(view, &SET_ENV).into_iter();
    let settings: Vec<_> = settings.filter(|setting| !matches!(setting, Setting::If(_))).collect();
    if !settings.is_empty() {
        builder.handle(Phase::Precontent, Late { settings });
    }
}

struct Early {
    conditions: Vec<Arc<Condition>>,
}

impl Handler for Early {
    fn run(&self, exchange: &mut Exchange) -> Step {
        for condition in &self.conditions {
            let subject = condition.attribute.of(exchange);
            let mut captures = Captures::default();
            match condition.pattern.try_captures(&subject, &mut captures) {
                Ok(true) => condition.apply(exchange, &captures, &subject),
                Ok(false) => {}
                Err(error) => {
                    exchange.log(contract::log::Level::Error, &error.to_string());
                    return Step::Finish(Status::INTERNAL_SERVER_ERROR);
                }
            }
        }
        Step::Next
    }
}

impl Condition {
    fn apply(&self, exchange: &Exchange, captures: &Captures, subject: &[u8]) {
        let environment = of(exchange);
        for (name, value) in &self.sets {
            match value {
                Some(value) => environment.set(name, &with_groups(value, captures, subject)),
                None => environment.unset(name),
            }
        }
    }
}

/// A value with `$0` to `$9` replaced.
fn with_groups(value: &[u8], captures: &Captures, subject: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = value;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'$', [digit @ b'0'..=b'9', tail @ ..]) => {
                out.extend_from_slice(captures.get(usize::from(digit - b'0'), subject).unwrap_or_default());
                rest = tail;
            }
            _ => out.push(*byte),
        }
    }
    out
}

impl Attribute {
    fn of(&self, exchange: &Exchange) -> Vec<u8> {
        let head = &exchange.request.head;
        match self {
            Attribute::RemoteAddress => exchange.connection.peer.address().into_bytes(),
            Attribute::Method => head.method_name().to_vec(),
            Attribute::Protocol => head.version.as_str().as_bytes().to_vec(),
            Attribute::Uri => exchange.request.path.clone(),
            Attribute::Named(name) => match head.fields.get(name) {
                Some(value) => value.to_vec(),
                None => get(exchange, name.as_bytes()).unwrap_or_default().into(),
            },
        }
    }
}

struct Late {
    settings: Vec<Setting>,
}

impl Handler for Late {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let environment = of(exchange);
        for setting in &self.settings {
            match setting {
                Setting::Set(name, value) => environment.set(name, value),
                Setting::Unset(names) => names.iter().for_each(|name| environment.unset(name)),
                Setting::If(_) => {}
            }
        }
        Step::Next
    }
}
