//! Sections: `<IfModule>`, `<IfDefine>`, `<IfFile>`, `<IfDirective>`, `<IfSection>`, `<Files>`, `<FilesMatch>`, `<Limit>`, `<LimitExcept>`.

use crate::shared::apache::bounded::{self, Failure};
use crate::shared::apache::expression::Expression;
use crate::shared::apache::methods::METHODS;
use crate::shared::apache::urls::canonical;
use crate::shared::apache::{glob, in_file, pattern, variables, wrong};
use conf::{Arity, Contexts, Diagnostic, Node, Word};
use contract::{Args, Budget, Counted, Directive, Exchange, Loading, Methods, Reach, Selection, Spent};
use std::rc::Rc;
use std::sync::Arc;

/// Apache's modules whose directives are honoured here.
const MODULES: [&str; 32] = [
    "core",
    "actions",
    "so",
    "rewrite",
    "alias",
    "dir",
    "mime",
    "headers",
    "include",
    "expires",
    "auth_basic",
    "auth_digest",
    "authn_anon",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "access_compat",
    "setenvif",
    "env",
    "autoindex",
    "negotiation",
    "version",
    "filter",
    "deflate",
    "brotli",
    "speling",
    "substitute",
    "ratelimit",
    "ssl",
];

/// `<IfModule [!]MODULE>`
pub(crate) static IF_MODULE: Directive<Counted> = Directive::new("IfModule", parse_if_module)
    .within(Contexts::PER_DIRECTORY)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section that counts if Fulmar supports this module of Apache.");

/// `<IfDefine [!]NAME>`
pub(crate) static IF_DEFINE: Directive<Counted> = Directive::new("IfDefine", parse_if_define)
    .within(Contexts::PER_DIRECTORY)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section for a defined name; no name is defined.");

/// `<IfFile [!]PATH>`
pub(crate) static IF_FILE: Directive<Counted> = Directive::new("IfFile", parse_if_file)
    .within(Contexts::PER_DIRECTORY)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section that counts if there is a file or a directory at a path, which must be below the root.");

/// `<IfDirective [!]NAME>`
pub(crate) static IF_DIRECTIVE: Directive<Counted> =
    Directive::new("IfDirective", |args, _| parse_if(args, "directive", of_directive))
        .within(Contexts::PER_DIRECTORY)
        .splices(Arity::Exactly(1))
        .repeats()
        .help("A section that counts if Fulmar supports this directive of Apache.");

/// `<IfSection [!]NAME>`
pub(crate) static IF_SECTION: Directive<Counted> =
    Directive::new("IfSection", |args, _| parse_if(args, "section", of_section))
        .within(Contexts::PER_DIRECTORY)
        .splices(Arity::Exactly(1))
        .repeats()
        .help("A section that counts if Fulmar supports this section of Apache.");

/// `<Files [~] NAME>`
pub(crate) static FILES: Directive<Selection> =
    section(Directive::new("Files", parse_files), Arity::Range(1, 2))
        .help("A section for files whose names match a pattern with `*` and `?`.");

/// `<FilesMatch PATTERN>`
pub(crate) static FILES_MATCH: Directive<Selection> = section(
    Directive::new("FilesMatch", |args, loading| by_pattern(args, loading, args.word(0)?)),
    Arity::Exactly(1),
)
.help("A section for files whose names match a regular expression.");

/// `<Location [~] PATH>`
pub(crate) static LOCATION: Directive<Selection> =
    section(Directive::new("Location", parse_location), Arity::Range(1, 2))
        .within(OUTSIDE)
        .help("A section for the paths of URIs that begin with a path, or match a pattern with `*` and `?`.");

/// `<LocationMatch PATTERN>`
pub(crate) static LOCATION_MATCH: Directive<Selection> = section(
    Directive::new("LocationMatch", |args, loading| location_by_pattern(args, loading, args.word(0)?)),
    Arity::Exactly(1),
)
.within(OUTSIDE)
.help("A section for the paths of URIs that match a regular expression.");

/// `<Limit METHOD …>`
pub(crate) static LIMIT: Directive<Counted> =
    Directive::new("Limit", |args, loading| by_method(args, loading, false))
        .within(Contexts::PER_DIRECTORY)
        .splices(Arity::AtLeast(1))
        .repeats()
        .help("A section whose rules about access count for these methods.");

/// `<LimitExcept METHOD …>`
pub(crate) static LIMIT_EXCEPT: Directive<Counted> =
    Directive::new("LimitExcept", |args, loading| by_method(args, loading, true))
        .within(Contexts::PER_DIRECTORY)
        .splices(Arity::AtLeast(1))
        .repeats()
        .help("A section whose rules about access count for all methods but these.");

/// `<If EXPRESSION>`
pub(crate) static IF: Directive<Selection> =
    section(Directive::new("If", |args, loading| by_expression(args, loading, false)), Arity::AtLeast(1))
        .help("A section for requests for which an expression is true.");

/// `<ElseIf EXPRESSION>`
pub(crate) static ELSE_IF: Directive<Selection> =
    section(Directive::new("ElseIf", |args, loading| by_expression(args, loading, true)), Arity::AtLeast(1))
        .help("A section for requests for which this expression is true, and no earlier one.");

/// `<Else>`
pub(crate) static ELSE: Directive<Selection> =
    section(Directive::new("Else", |args, loading| by_expression(args, loading, true)), Arity::None)
        .help("A section for requests for which no earlier expression is true.");

/// Sections that stand in the main configuration only, outside of directories.
const OUTSIDE: Contexts = Contexts::VIRTUAL_HOST.or(Contexts::DIRECTORY);

const fn section(directive: Directive<Selection>, arity: Arity) -> Directive<Selection> {
    in_file(directive).block(arity).slot("htaccess section")
}

/// What is known of a module, directive or section that a section asks for.
enum Presence {
    /// It is honoured here.
    Built,
    /// Apache has it, or its name says that it is about access.
    NotBuilt,
    /// As in Apache, what is unknown counts as missing.
    Unknown,
    /// A module for access of Apache 1.3, or the name of one without its ending: unknown to Apache, too.
    Misnamed,
}

/// Whether directives of a module of Apache, which is named without `mod_`, are honoured here.
pub(crate) fn is_honoured(module: &str) -> bool {
    MODULES.contains(&module)
}

/// All of a section, or nothing.
pub(crate) fn counted(is_all: bool) -> Counted {
    if is_all { Counted::All } else { Counted::Only(Vec::new()) }
}

fn parse_if_module(args: &Args<'_>, _: &mut Loading) -> Result<Counted, Diagnostic> {
    parse_if(args, "module", |name| presence(name).0)
}

/// Reads a section that counts if a thing is there: a module, a directive or a section.
fn parse_if(
    args: &Args<'_>,
    thing: &str,
    presence: impl Fn(&str) -> Presence,
) -> Result<Counted, Diagnostic> {
    let text = args.word(0)?.to_string();
    let negated = text.starts_with('!');
    let presence = presence(text.trim_start_matches('!'));
    let inner = args.node.children();
    match (&presence, negated) {
        (Presence::NotBuilt, false) => {
            let why = format!("and that {thing} is not supported");
            skip(args, &text, restriction(inner), &why)
        }
        // Rewriting for other servers, such as LiteSpeed, is common and harmless.
        (Presence::Unknown, false) => {
            let access = restriction(inner).filter(|node| !is(node, "rewriterule"));
            skip(args, &text, access, &format!("and neither Fulmar nor Apache has that {thing}"))
        }
        (Presence::Misnamed, false) => Ok(Counted::Only(access_rules(inner))),
        (Presence::NotBuilt, true) => {
            refuse_granted(args, &text, &format!("without a {thing} that Apache has"))?;
            Ok(Counted::All)
        }
        (Presence::Built, _) | (Presence::Unknown | Presence::Misnamed, true) => {
            Ok(counted(matches!(presence, Presence::Built) != negated))
        }
    }
}

fn parse_if_define(args: &Args<'_>, _: &mut Loading) -> Result<Counted, Diagnostic> {
    const WHY: &str = "and Fulmar cannot know whether Apache would define that name";
    let text = args.word(0)?.to_string();
    if !text.starts_with('!') {
        return skip(args, &text, restriction(args.node.children()), WHY);
    }
    refuse_granted(args, &text, WHY)?;
    Ok(Counted::All)
}

fn parse_if_file(args: &Args<'_>, loading: &mut Loading) -> Result<Counted, Diagnostic> {
    let word = args.word(0)?;
    let (negated, path) = match word.text.strip_prefix(b"!") {
        Some(path) => (true, path),
        None => (false, &*word.text),
    };
    if path.is_empty() {
        return Err(wrong(args, "no path:", word));
    }
    loading.hold(path.len(), args.node.span)?;
    let path = loading.path(path);
    let is_there = loading.htaccess.look.as_ref().and_then(|look| look(&path));
    let (text, why) = (word.to_string(), "and Fulmar looks only at files below the root");
    match (is_there, negated) {
        (Some(is_there), negated) => Ok(counted(is_there != negated)),
        (None, false) => skip(args, &text, restriction(args.node.children()), why),
        (None, true) => {
            refuse_granted(args, &text, why)?;
            Ok(Counted::All)
        }
    }
}

/// The module of `[!]mod_rewrite.c` or `[!]rewrite_module`, and whether its absence is asked for.
fn presence(text: &str) -> (Presence, bool) {
    let name = text.trim_start_matches('!');
    let short = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
    let short = short.or_else(|| name.strip_suffix("_module")).or_else(|| name.strip_suffix(".c"));
    let presence = match short {
        Some(name) if MODULES.contains(&name) => Presence::Built,
        // Apache 1.3 and 2.0 had it, for what mod_access_compat does now.
        Some("access") => Presence::Misnamed,
        Some(name) if conf::apache::is_module(name) || name.starts_with("auth") => Presence::NotBuilt,
        None if is_misnamed(name) => Presence::Misnamed,
        _ => Presence::Unknown,
    };
    (presence, text.starts_with('!'))
}

/// Whether a text is the name of a module for access without its ending, which no module of Apache has.
fn is_misnamed(text: &str) -> bool {
    text.strip_prefix("mod_").is_some_and(|name| name.starts_with("access") || name.starts_with("auth"))
}

fn of_directive(name: &str) -> Presence {
    match conf::apache::module_of(name) {
        Some(_) if conf::apache::is_section(name) => Presence::Unknown,
        Some(module) => of_module(module, name),
        None => Presence::Unknown,
    }
}

fn of_section(name: &str) -> Presence {
    let name = name.trim_start_matches('<');
    match conf::apache::module_of(name) {
        Some(module) if conf::apache::is_section(name) => of_module(module, name),
        _ => Presence::Unknown,
    }
}

/// Whether a directive of a module of Apache is honoured here.
fn of_module(module: &str, name: &str) -> Presence {
    let is_built = MODULES.contains(&module.trim_start_matches("mod_"));
    if is_built && !conf::apache::is_refused(name) { Presence::Built } else { Presence::NotBuilt }
}

/// A section that counts, though Apache may skip it, must not let more clients pass: the directory is closed instead.
fn refuse_granted(args: &Args<'_>, condition: &str, why: &str) -> Result<(), Diagnostic> {
    let Some(rule) = grant(args.node.children()) else { return Ok(()) };
    let (section, rule, line) = (&args.node.name, &rule.name, rule.span.line);
    let message = format!(
        "\"<{section} {condition}>\" grants access (\"{rule}\" in line {line}), {why}: access is denied"
    );
    Err(Diagnostic::emerg(message).at(args.node.span).hint(advice(condition)))
}

/// What to do with a section for what Apache may not have either.
fn advice(condition: &str) -> String {
    let module = condition.trim_start_matches('!');
    let module = module.strip_suffix(".c").unwrap_or(module);
    let instead = conf::apache::instead_of_module(module);
    let instead = instead.map(|instead| format!(", or {instead}")).unwrap_or_default();
    format!(
        "if the section never counted in Apache (apache2ctl -M lists its modules), remove it; otherwise write the rule \
         outside of the section{instead}"
    )
}

/// The first directive that lets clients pass, in sections, too.
fn grant(nodes: &[Node]) -> Option<&Node> {
    const GRANTING: [&str; 6] = ["require", "requireall", "requireany", "requirenone", "allow", "satisfy"];
    nodes.iter().find_map(|node| match &node.block {
        _ if GRANTING.iter().any(|name| is(node, name))
            && !(says(node, 0, "all") && says(node, 1, "denied")) =>
        {
            Some(node)
        }
        Some(inner) => grant(inner),
        None if is(node, "order") && says(node, 0, "deny,allow") => Some(node),
        None => None,
    })
}

/// A section that would be skipped must not restrict access: the directory is closed instead. Of PHP it may say that
/// programs do not run.
fn skip(args: &Args<'_>, condition: &str, rule: Option<&Node>, why: &str) -> Result<Counted, Diagnostic> {
    let Some(rule) = rule else { return Ok(Counted::Only(engine_lines(args.node.children()))) };
    let (section, rule, line) = (&args.node.name, &rule.name, rule.span.line);
    let message = format!(
        "\"<{section} {condition}>\" restricts access (\"{rule}\" in line {line}), {why}: access is denied"
    );
    Err(Diagnostic::emerg(message).at(args.node.span).hint(advice(condition)))
}

/// The lines that switch PHP off or on for the whole level, as `php_flag`. They count also where the section for PHP's
/// module is skipped: what Apache would not run there, PHP-FPM must not run.
fn engine_lines(nodes: &[Node]) -> Vec<Node> {
    let mut lines = Vec::new();
    for node in nodes {
        match &node.block {
            Some(inner) if is_spliced(node) && !is_skipped(node) => lines.extend(engine_lines(inner)),
            None if is_engine(node) => {
                let name = Word::new("php_flag", node.name.span);
                lines.push(Node { name, ..node.clone() });
            }
            _ => {}
        }
    }
    lines
}

/// Whether a directive says whether PHP runs.
fn is_engine(node: &Node) -> bool {
    let names = ["php_flag", "php_value", "php_admin_flag", "php_admin_value"];
    names.iter().any(|name| is(node, name)) && says(node, 0, "engine")
}

/// Whether a section stands for what is in it.
fn is_spliced(section: &Node) -> bool {
    let names = ["ifmodule", "ifdefine", "iffile", "ifdirective", "ifsection"];
    names.iter().any(|name| is(section, name))
}

/// The access rules of a section that restricts access. They count although Apache skips the section: mostly they say
/// again what another section says.
fn access_rules(nodes: &[Node]) -> Vec<Node> {
    const NAMES: [&str; 5] = ["order", "allow", "deny", "satisfy", "require"];
    if restriction(nodes).is_none() {
        return Vec::new();
    }
    let is_rule = |node: &&Node| {
        NAMES.iter().any(|name| is(node, name)) || restriction(std::slice::from_ref(node)).is_some()
    };
    nodes.iter().filter(is_rule).cloned().collect()
}

/// The first directive that restricts access, in sections, too.
fn restriction(nodes: &[Node]) -> Option<&Node> {
    restriction_within(nodes, false)
}

/// As [`restriction`]; within a section for some requests, [`engine_lines`] do not count.
fn restriction_within(nodes: &[Node], is_for_some: bool) -> Option<&Node> {
    let is_open = nodes.iter().any(|node| is(node, "allow") && says(node, 1, "all"));
    nodes.iter().find_map(|node| match &node.block {
        Some(_) if is(node, "requirenone") => Some(node),
        Some(inner) if !is_skipped(node) => restriction_within(inner, is_for_some || !is_spliced(node)),
        None if is_engine(node) => {
            // PHP that is switched off would run.
            (is_for_some && !says(node, 1, "on") && !says(node, 1, "1")).then_some(node)
        }
        None if restricts(node, is_open) => Some(node),
        _ => None,
    })
}

/// Whether a section is for Apaches without a module that is there.
fn is_skipped(section: &Node) -> bool {
    let condition = section.args.first().map(Word::to_string).unwrap_or_default();
    is(section, "ifmodule") && matches!(presence(&condition), (Presence::Built, true))
}

/// Whether a directive by itself denies some clients. `Order allow,deny` does, if no other directive allows all.
fn restricts(node: &Node, is_open: bool) -> bool {
    let name = node.name.to_string().to_ascii_lowercase();
    match name.as_str() {
        "require" => !(says(node, 0, "all") && says(node, 1, "granted")),
        "authtype" => !says(node, 0, "none"),
        "deny" | "sslrequire" | "sslrequiressl" | "sslverifyclient" => true,
        "order" => !is_open && !says(node, 0, "deny,allow"),
        "redirect" | "redirectmatch" => {
            says(node, 0, "gone") || node.args.first().is_some_and(|word| is_error(&word.to_string()))
        }
        "rewriterule" => {
            let flags =
                node.args.get(2).map(|word| word.to_string().to_ascii_lowercase()).unwrap_or_default();
            flags.trim_matches(['[', ']']).split(',').map(str::trim).any(refuses)
        }
        name => conf::apache::module_of(name).is_some_and(|module| module.starts_with("mod_auth")),
    }
}

/// Whether a flag of a rule ends a request with an error.
fn refuses(flag: &str) -> bool {
    let status = flag.strip_prefix("r=").or_else(|| flag.strip_prefix("redirect="));
    ["f", "forbidden", "g", "gone"].contains(&flag) || status.is_some_and(is_error)
}

/// Whether a text is a status that is no redirection.
fn is_error(text: &str) -> bool {
    text.parse().is_ok_and(|code: u16| code >= 400)
}

fn is(node: &Node, name: &str) -> bool {
    node.name.text.eq_ignore_ascii_case(name.as_bytes())
}

/// Whether a word of a directive is this one.
fn says(node: &Node, index: usize, text: &str) -> bool {
    node.args.get(index).is_some_and(|word| word.text.eq_ignore_ascii_case(text.as_bytes()))
}

fn parse_files(args: &Args<'_>, loading: &mut Loading) -> Result<Selection, Diagnostic> {
    let first = args.word(0)?;
    match args.words().get(1) {
        Some(word) if first.is("~") => by_pattern(args, loading, word),
        Some(_) => Err(wrong(args, "an unknown parameter", first)),
        None => {
            let glob = canonical(&first.text);
            selection(args, loading, move |exchange, budget| {
                let name = file_name(exchange, budget)?;
                budget.step(glob.len().max(1).saturating_mul(name.len()))?;
                Ok(glob::matches(&glob, &name))
            })
        }
    }
}

fn by_pattern(args: &Args<'_>, loading: &mut Loading, word: &Word) -> Result<Selection, Diagnostic> {
    let pattern = pattern(args, loading, word, &word.text, false)?;
    // Whatever could not be judged is taken for selected: such sections mostly forbid.
    let holds = move |exchange: &Exchange, budget: &Budget| {
        let name = file_name(exchange, budget)?;
        match bounded::is_match(&pattern, &name, budget) {
            Err(Failure::Spent) => Err(Spent),
            found => Ok(found.unwrap_or(true)),
        }
    };
    selection(args, loading, holds)
}

/// The rules inside belong to the level around the section, as in Apache: they add to those that count for all methods.
fn by_method(args: &Args<'_>, loading: &mut Loading, except: bool) -> Result<Counted, Diagnostic> {
    if loading.htaccess.methods.is_some() {
        return Err(args.error("cannot stand in another section for methods"));
    }
    let is_known = |word: &&Word| METHODS.iter().any(|name| word.is(name)) && (except || !word.is("TRACE"));
    if let Some(word) = args.words().iter().find(|word| !is_known(word)) {
        return Err(wrong(args, "a method that Apache does not let a file name,", word));
    }
    // Apache takes HEAD for GET, on both sides.
    let name = |word: &Word| if word.is("HEAD") { Box::from(&b"GET"[..]) } else { word.text.clone() };
    let names = args.words().iter().map(name).collect();
    loading.htaccess.methods = Some(Arc::new(Methods { names, except }));
    Ok(Counted::All)
}

fn selection(
    args: &Args<'_>,
    loading: &Loading,
    holds: impl Fn(&Exchange, &Budget) -> Result<bool, Spent> + Send + Sync + 'static,
) -> Result<Selection, Diagnostic> {
    if loading.htaccess.methods.is_some() {
        return Err(args.error("cannot stand in a section for methods"));
    }
    let nodes = args.node.children().into();
    Ok(Selection { holds: Arc::new(holds), is_else: false, is_late: false, nodes })
}

/// The name of the file of a path, and the path. As in Apache a file that is missing has the name of the first part that
/// is.
struct FileName {
    path: Vec<u8>,
    name: Vec<u8>,
}

fn file_name(exchange: &Exchange, budget: &Budget) -> Result<Vec<u8>, Spent> {
    let Ok(path) = exchange.path() else { return Ok(Vec::new()) };
    if let Some(known) = exchange.attached::<FileName>().filter(|known| known.path == path) {
        return Ok(known.name.clone());
    }
    let end = variables::file_end(exchange, &path, budget)?;
    let name = path[..end].rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
    exchange.attach(Reach::Own, Rc::new(FileName { path, name: name.clone() }));
    Ok(name)
}

fn parse_location(args: &Args<'_>, loading: &mut Loading) -> Result<Selection, Diagnostic> {
    let first = args.word(0)?;
    match args.words().get(1) {
        Some(word) if first.is("~") => return location_by_pattern(args, loading, word),
        Some(word) => return Err(wrong(args, "a second path", word)),
        None => {}
    }
    let is_glob = first.text.iter().any(|byte| b"*?[".contains(byte));
    if !first.text.starts_with(b"/") {
        return Err(wrong(args, "a path that does not begin with a slash:", first));
    }
    let path = first.text.clone();
    let holds = move |exchange: &Exchange, _: &Budget| Ok(is_at(&path, is_glob, &exchange.request.path));
    Ok(Selection { is_late: true, ..selection(args, loading, holds)? })
}

/// Whether a path is the one that a section names, or below it.
fn is_at(named: &[u8], is_glob: bool, path: &[u8]) -> bool {
    if !is_glob {
        let rest = path.strip_prefix(named);
        return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || named.ends_with(b"/"));
    }
    // No wildcard matches a slash.
    let count = |text: &[u8]| text.iter().filter(|&&byte| byte == b'/').count();
    let segments = named.split(|&byte| byte == b'/').zip(path.split(|&byte| byte == b'/'));
    count(named) == count(path) && segments.into_iter().all(|(glob, name)| glob::matches(glob, name))
}

fn location_by_pattern(args: &Args<'_>, loading: &mut Loading, word: &Word) -> Result<Selection, Diagnostic> {
    let pattern = pattern(args, loading, word, &word.text, false)?;
    // A pattern that gives up ends the request.
    let holds = move |exchange: &Exchange, _: &Budget| {
        pattern.try_is_match(&exchange.request.path).map_err(|_| Spent)
    };
    Ok(Selection { is_late: true, ..selection(args, loading, holds)? })
}

/// Reads `<If>`, `<ElseIf>` and `<Else>`, which has no expression.
fn by_expression(args: &Args<'_>, loading: &mut Loading, is_else: bool) -> Result<Selection, Diagnostic> {
    let expression = match args.words() {
        [] => None,
        [word, ..] => Some(Expression::parse(args, loading, std::slice::from_ref(word))?),
    };
    // What cannot be judged ends the request.
    let holds = move |exchange: &Exchange, budget: &Budget| match &expression {
        Some(expression) => expression.holds(exchange, budget).map_err(|_| Spent),
        None => Ok(true),
    };
    Ok(Selection { is_else, is_late: true, ..selection(args, loading, holds)? })
}
