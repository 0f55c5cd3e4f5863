//! The environment of a request: `SetEnv`, `UnsetEnv`, `SetEnvIf` and its kin.

use super::bounded::{BYTES_MAX, Failure, append, find};
use super::{in_all_files, pattern, values};
use conf::tree::printable;
use conf::value::{Captures, Pattern};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Budget, Directive, Exchange, Handler, Loading, Phase, ScopeBuilder, Step, View};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// `SetEnv NAME [VALUE]`
pub(super) static SET_ENV: Directive<Setting> = in_all_files(Directive::new("SetEnv", parse_set))
    .args(Arity::Range(1, 2))
    .slot("htaccess environment")
    .help("Sets a variable of the environment, after rewriting.");

/// `UnsetEnv NAME …`
pub(super) static UNSET_ENV: Directive<Setting> = in_all_files(Directive::new("UnsetEnv", parse_unset))
    .args(Arity::AtLeast(1))
    .slot("htaccess environment")
    .help("Takes variables out of the environment, after rewriting.");

/// `SetEnvIf ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(super) static SET_ENV_IF: Directive<Setting> =
    in_all_files(Directive::new("SetEnvIf", |args, loading| parse_if(args, loading, false)))
        .args(Arity::AtLeast(3))
        .slot("htaccess environment")
        .help("Sets variables of the environment if something about the request matches.");

/// `SetEnvIfNoCase ATTRIBUTE PATTERN [!]NAME[=VALUE] …`
pub(super) static SET_ENV_IF_NO_CASE: Directive<Setting> =
    in_all_files(Directive::new("SetEnvIfNoCase", |args, loading| parse_if(args, loading, true)))
        .args(Arity::AtLeast(3))
        .slot("htaccess environment")
        .help("As `SetEnvIf`, whatever the case of letters.");

/// `BrowserMatch PATTERN [!]NAME[=VALUE] …`
pub(super) static BROWSER_MATCH: Directive<Setting> =
    in_all_files(Directive::new("BrowserMatch", |args, loading| parse_browser(args, loading, false)))
        .args(Arity::AtLeast(2))
        .slot("htaccess environment")
        .help("As `SetEnvIf User-Agent`.");

/// `BrowserMatchNoCase PATTERN [!]NAME[=VALUE] …`
pub(super) static BROWSER_MATCH_NO_CASE: Directive<Setting> =
    in_all_files(Directive::new("BrowserMatchNoCase", |args, loading| parse_browser(args, loading, true)))
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
    ServerAddress,
    Method,
    Protocol,
    Uri,
    /// A field of the request or else a variable of the environment.
    Named(String),
    /// The last field of the request whose name matches.
    Matching(Arc<Pattern>),
}

/// The value of a variable.
type Value = Box<[u8]>;

/// Variables, by their names.
type Variables = Vec<(Box<[u8]>, Value)>;

/// The environment of a request, and whether it was rewritten to its end.
#[derive(Default)]
pub(super) struct Environment {
    variables: RefCell<Variables>,
    pub(super) ended: Cell<bool>,
    /// The path and the query before the last internal redirect.
    before: RefCell<Option<(Value, Value)>>,
}

/// What a variable takes of [`BYTES_MAX`] beside its name and value.
const VARIABLE_BYTES: usize = 200;

/// Parameters by which a program decides what it runs, and how. Only the configuration may set them: other sites
/// share the program, and PHP-FPM keeps `PHP_VALUE` for their requests, too.
const RESERVED: [&[u8]; 6] =
    [b"PHP_VALUE", b"PHP_ADMIN_VALUE", b"SCRIPT_FILENAME", b"PATH_TRANSLATED", b"DOCUMENT_ROOT", b"PATH"];

/// What reserved names start with, too: settings of the dynamic linker, and fields of the request.
const RESERVED_STARTS: [&[u8]; 2] = [b"LD_", b"HTTP_"];

/// Not reserved: the lines by which applications ask for the password are common, and say nothing about other sites.
const AUTHORIZATION: &[u8] = b"HTTP_AUTHORIZATION";

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

/// The environment as programs see it.
pub(crate) fn for_programs(exchange: &Exchange) -> Variables {
    let Some(environment) = exchange.attached::<Environment>() else { return Vec::new() };
    let mut all: Vec<_> = environment.variables.borrow().clone();
    if let Some((path, args)) = environment.before.borrow().clone() {
        for (name, value) in [(&b"REDIRECT_URL"[..], path), (b"REDIRECT_QUERY_STRING", args)] {
            if !value.is_empty() && all.iter().all(|(known, _)| **known != *name) {
                all.push((name.into(), value));
            }
        }
    }
    all.retain(|(name, _)| !is_reserved(name));
    all
}

/// Whether a file may not set the parameter of this name.
fn is_reserved(name: &[u8]) -> bool {
    let starts_so = || RESERVED_STARTS.iter().any(|start| name.starts_with(start));
    name != AUTHORIZATION && (RESERVED.contains(&name) || starts_so())
}

/// Warns of a variable with a reserved name. Rules that copy a field of the request are common, and harmless: programs
/// get the field.
pub(super) fn warn_if_reserved(args: &Args<'_>, name: &[u8], value: &[u8], loading: &mut Loading) {
    let is_copy = name.starts_with(b"HTTP_") && value.starts_with(b"%{HTTP:");
    if is_reserved(name) && !is_copy {
        let (directive, name) = (&args.node.name, printable(name));
        let message =
            format!("\"{directive}\" sets \"{name}\", which is reserved and is not passed to programs");
        let hint = "only \"fastcgi_param\" of the server's configuration can set it";
        loading.note(Diagnostic::warn(message).at(args.node.span).hint(hint));
    }
}

impl Environment {
    /// Sets a variable.
    ///
    /// # Errors
    /// The environment would be too large.
    pub(super) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut variables = self.variables.borrow_mut();
        variables.retain(|(known, _)| **known != *name);
        let bytes = |name: &[u8], value: &[u8]| name.len() + value.len() + VARIABLE_BYTES;
        let present: usize = variables.iter().map(|(name, value)| bytes(name, value)).sum();
        if present + bytes(name, value) > BYTES_MAX {
            return Err(Failure::TooLong);
        }
        variables.push((name.into(), value.into()));
        Ok(())
    }

    pub(super) fn unset(&self, name: &[u8]) {
        self.variables.borrow_mut().retain(|(known, _)| **known != *name);
    }

    /// After an internal redirect the variables are known by longer names.
    pub(super) fn redirect(&self, path: &[u8], args: Option<&[u8]>) {
        let mut variables = self.variables.borrow_mut();
        for (name, _) in variables.iter_mut() {
            *name = [b"REDIRECT_", &**name].concat().into();
        }
        variables.push((b"REDIRECT_STATUS".as_slice().into(), b"200".as_slice().into()));
        *self.before.borrow_mut() = Some((path.into(), args.unwrap_or_default().into()));
    }
}

fn parse_set(args: &Args<'_>, loading: &mut Loading) -> Result<Setting, Diagnostic> {
    let name = args.word(0)?.text.clone();
    let value = args.words().get(1).map(|word| word.text.clone()).unwrap_or_default();
    warn_if_reserved(args, &name, &value, loading);
    Ok(Setting::Set(name, value))
}

fn parse_unset(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    Ok(Setting::Unset(args.words().iter().map(|word| word.text.clone()).collect()))
}

fn parse_if(args: &Args<'_>, loading: &mut Loading, ignore_case: bool) -> Result<Setting, Diagnostic> {
    let word = args.word(0)?;
    let attribute = match word.text.to_ascii_lowercase().as_slice() {
        b"remote_addr" | b"remote_host" => Attribute::RemoteAddress,
        b"request_method" => Attribute::Method,
        b"request_protocol" => Attribute::Protocol,
        b"request_uri" => Attribute::Uri,
        b"server_addr" => Attribute::ServerAddress,
        name if name.iter().any(|byte| b"^$.*+?()[]{}|\\".contains(byte)) => {
            Attribute::Matching(pattern(args, loading, word, &word.text, ignore_case)?)
        }
        _ => Attribute::Named(word.to_string()),
    };
    condition(args, loading, attribute, &args.words()[1..], ignore_case)
}

fn parse_browser(args: &Args<'_>, loading: &mut Loading, ignore_case: bool) -> Result<Setting, Diagnostic> {
    condition(args, loading, Attribute::Named("User-Agent".to_owned()), args.words(), ignore_case)
}

fn condition(
    args: &Args<'_>,
    loading: &mut Loading,
    attribute: Attribute,
    words: &[Word],
    ignore_case: bool,
) -> Result<Setting, Diagnostic> {
    let Some((word, sets)) = words.split_first() else { return Err(args.error("has no pattern")) };
    let pattern = pattern(args, loading, word, &word.text, ignore_case)?;
    let set = |word: &Word| match (word.text.strip_prefix(b"!"), word.text.iter().position(|&b| b == b'=')) {
        (Some(name), _) => (name.into(), None),
        (None, Some(at)) => (word.text[..at].into(), Some(word.text[at + 1..].into())),
        (None, None) => (word.text.clone(), Some(Box::from(&b"1"[..]))),
    };
    let sets: Vec<Assignment> = sets.iter().map(set).collect();
    for (name, value) in &sets {
        if let Some(value) = value {
            warn_if_reserved(args, name, value, loading);
        }
    }
    Ok(Setting::If(Arc::new(Condition { attribute, pattern, sets })))
}

/// What is set before access is checked.
pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let early = |setting| match setting {
        Setting::If(condition) => Some(condition),
        _ => None,
    };
    let conditions: Vec<_> = values(view, &SET_ENV).into_iter().filter_map(early).collect();
    if !conditions.is_empty() {
        builder.handle(Phase::Preaccess, Early { conditions });
    }
}

/// What is set after rewriting.
pub(super) fn settings(view: &View<'_>) -> Arc<[Setting]> {
    let settings = values(view, &SET_ENV).into_iter();
    settings.filter(|setting| !matches!(setting, Setting::If(_))).collect()
}

/// Sets what is set after rewriting.
pub(super) fn compile_late(view: &View<'_>, builder: &mut ScopeBuilder) {
    let settings = settings(view);
    if !settings.is_empty() {
        builder.handle(Phase::Precontent, Late { settings });
    }
}

struct Early {
    conditions: Vec<Arc<Condition>>,
}

impl Handler for Early {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let budget = Budget::of(exchange);
        let _running = budget.run();
        for condition in &self.conditions {
            if let Err(failure) = condition.apply(exchange, &budget) {
                return failure.refuse(exchange);
            }
        }
        Step::Next
    }
}

impl Condition {
    fn apply(&self, exchange: &Exchange, budget: &Budget) -> Result<(), Failure> {
        let subject = self.attribute.of(exchange, budget)?;
        let mut captures = Captures::default();
        if !find(&self.pattern, &subject, &mut captures, budget)? {
            return Ok(());
        }
        let environment = of(exchange);
        for (name, value) in &self.sets {
            budget.step(subject.len())?;
            match value {
                Some(value) => environment.set(name, &with_groups(value, &captures, &subject)?)?,
                None => environment.unset(name),
            }
        }
        Ok(())
    }
}

/// A value with `$0` to `$9` replaced.
fn with_groups(value: &[u8], captures: &Captures, subject: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut rest = value;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'$', [digit @ b'0'..=b'9', tail @ ..]) => {
                append(&mut out, captures.get(usize::from(digit - b'0'), subject).unwrap_or_default())?;
                rest = tail;
            }
            _ => append(&mut out, &[*byte])?,
        }
    }
    Ok(out)
}

impl Attribute {
    fn of(&self, exchange: &Exchange, budget: &Budget) -> Result<Vec<u8>, Failure> {
        let head = &exchange.request.head;
        Ok(match self {
            Attribute::RemoteAddress => exchange.connection.peer.address().into_bytes(),
            Attribute::ServerAddress => exchange.connection.local.address().into_bytes(),
            Attribute::Method => head.method_name().to_vec(),
            Attribute::Protocol => head.version.as_str().as_bytes().to_vec(),
            Attribute::Uri => exchange.request.path.clone(),
            Attribute::Named(name) => match head.fields.get(name) {
                Some(value) => value.to_vec(),
                None => get(exchange, name.as_bytes()).unwrap_or_default().into(),
            },
            Attribute::Matching(pattern) => {
                let mut last = Vec::new();
                for field in head.fields.iter() {
                    if find(pattern, field.name, &mut Captures::default(), budget)? {
                        last = field.value.to_vec();
                    }
                }
                last
            }
        })
    }
}

struct Late {
    settings: Arc<[Setting]>,
}

impl Handler for Late {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let budget = Budget::of(exchange);
        let _running = budget.run();
        match apply(exchange, &self.settings, &budget) {
            Ok(()) => Step::Next,
            Err(failure) => failure.refuse(exchange),
        }
    }
}

/// Sets what `SetEnv` and `UnsetEnv` say.
pub(super) fn apply(exchange: &Exchange, settings: &[Setting], budget: &Budget) -> Result<(), Failure> {
    let environment = of(exchange);
    for setting in settings {
        budget.step(0)?;
        match setting {
            Setting::Set(name, value) => environment.set(name, value)?,
            Setting::Unset(names) => names.iter().for_each(|name| environment.unset(name)),
            Setting::If(_) => {}
        }
    }
    Ok(())
}
