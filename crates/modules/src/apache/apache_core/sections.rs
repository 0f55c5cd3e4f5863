//! Sections: `<IfModule>`, `<IfDefine>`, `<Files>`, `<FilesMatch>`, `<Limit>`, `<LimitExcept>`.

use crate::shared::apache::bounded::{self, Failure};
use crate::shared::apache::{in_file, pattern, wrong};
use conf::value::Captures;
use conf::{Arity, Contexts, Diagnostic, Node, Word};
use contract::{Args, Budget, Candidate, Directive, Loading, Methods, Selection, Spent};
use std::sync::Arc;

/// Apache's modules whose directives are honoured here.
const MODULES: [&str; 16] = [
    "core",
    "so",
    "rewrite",
    "alias",
    "dir",
    "mime",
    "headers",
    "expires",
    "authz_core",
    "authz_host",
    "access_compat",
    "setenvif",
    "env",
    "autoindex",
    "negotiation",
    "version",
];

/// The methods that Apache knows.
const METHODS: [&str; 27] = [
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];

/// `<IfModule [!]MODULE>`
pub(crate) static IF_MODULE: Directive<bool> = Directive::new("IfModule", parse_if_module)
    .within(Contexts::HTACCESS)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section that counts if what Apache's module does is honoured here.");

/// `<IfDefine [!]NAME>`
pub(crate) static IF_DEFINE: Directive<bool> = Directive::new("IfDefine", parse_if_define)
    .within(Contexts::HTACCESS)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section that counts if a name is defined, which none is.");

/// `<Files [~] NAME>`
pub(crate) static FILES: Directive<Selection> =
    section(Directive::new("Files", parse_files), Arity::Range(1, 2))
        .help("A section for files of a name, with `*` and `?`.");

/// `<FilesMatch PATTERN>`
pub(crate) static FILES_MATCH: Directive<Selection> = section(
    Directive::new("FilesMatch", |args, loading| by_pattern(args, loading, args.word(0)?)),
    Arity::Exactly(1),
)
.help("A section for files whose names match a pattern.");

/// `<Limit METHOD …>`
pub(crate) static LIMIT: Directive<bool> =
    Directive::new("Limit", |args, loading| by_method(args, loading, false))
        .within(Contexts::HTACCESS)
        .splices(Arity::AtLeast(1))
        .repeats()
        .help("A section whose rules about access count for these methods.");

/// `<LimitExcept METHOD …>`
pub(crate) static LIMIT_EXCEPT: Directive<bool> =
    Directive::new("LimitExcept", |args, loading| by_method(args, loading, true))
        .within(Contexts::HTACCESS)
        .splices(Arity::AtLeast(1))
        .repeats()
        .help("A section whose rules about access count for all methods but these.");

/// `<If EXPRESSION>`
pub(crate) static IF: Directive<()> =
    Directive::new("If", |args, _| Err(args.error("is not supported: expressions are not evaluated here")))
        .within(Contexts::HTACCESS)
        .block(Arity::Any)
        .help("Refused: expressions are not evaluated.");

const fn section(directive: Directive<Selection>, arity: Arity) -> Directive<Selection> {
    in_file(directive).block(arity).slot("htaccess section")
}

/// What is known of a module that a section asks for.
enum Presence {
    /// Its directives are honoured here.
    Built,
    /// Apache has it, or its name says that it is about access.
    NotBuilt,
    /// As in Apache, what nobody knows is not there.
    Unknown,
}

fn parse_if_module(args: &Args<'_>, _: &mut Loading) -> Result<bool, Diagnostic> {
    let text = args.word(0)?.to_string();
    let (presence, negated) = presence(&text);
    match (&presence, negated) {
        (Presence::NotBuilt, false) => {
            refuse_restricted(
                args,
                &text,
                restriction(args.node.children()),
                "and that module is not built yet",
            )?;
        }
        // Rewriting for other servers, such as LiteSpeed, is common and harmless.
        (Presence::Unknown, false) => {
            let access = restriction(args.node.children()).filter(|node| !is(node, "rewriterule"));
            refuse_restricted(args, &text, access, "and nobody knows that module")?;
        }
        (Presence::NotBuilt, true) => refuse_granted(args, &text, "without a module that Apache has")?,
        (Presence::Built, _) | (Presence::Unknown, true) => {}
    }
    Ok(matches!(presence, Presence::Built) != negated)
}

fn parse_if_define(args: &Args<'_>, _: &mut Loading) -> Result<bool, Diagnostic> {
    let text = args.word(0)?.to_string();
    let negated = text.starts_with('!');
    match negated {
        true => refuse_granted(args, &text, "and nobody knows whether Apache would define that name")?,
        false => refuse_restricted(
            args,
            &text,
            restriction(args.node.children()),
            "and nobody knows whether Apache would define that name",
        )?,
    }
    Ok(negated)
}

/// The module of `[!]mod_rewrite.c` or `[!]rewrite_module`, and whether its absence is asked for.
fn presence(text: &str) -> (Presence, bool) {
    let name = text.trim_start_matches('!');
    let short = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
    let short = short.or_else(|| name.strip_suffix("_module")).or_else(|| name.strip_suffix(".c"));
    let presence = match short {
        Some(name) if MODULES.contains(&name) => Presence::Built,
        Some(name) if conf::apache::is_module(name) || name.starts_with("auth") => Presence::NotBuilt,
        _ => Presence::Unknown,
    };
    (presence, text.starts_with('!'))
}

/// A section that counts, though Apache may skip it, must not let more clients pass: the directory is closed instead.
fn refuse_granted(args: &Args<'_>, condition: &str, why: &str) -> Result<(), Diagnostic> {
    let Some(rule) = grant(args.node.children()) else { return Ok(()) };
    let (section, rule, line) = (&args.node.name, &rule.name, rule.span.line);
    let message = format!(
        "\"<{section} {condition}>\" grants access (\"{rule}\" in line {line}), {why}: access is denied"
    );
    Err(Diagnostic::emerg(message).at(args.node.span).hint("write the rule outside of the section"))
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

/// A section that would be skipped must not restrict access: the directory is closed instead.
fn refuse_restricted(
    args: &Args<'_>,
    condition: &str,
    rule: Option<&Node>,
    why: &str,
) -> Result<(), Diagnostic> {
    let Some(rule) = rule else { return Ok(()) };
    let (section, rule, line) = (&args.node.name, &rule.name, rule.span.line);
    let message = format!(
        "\"<{section} {condition}>\" restricts access (\"{rule}\" in line {line}), {why}: access is denied"
    );
    Err(Diagnostic::emerg(message).at(args.node.span).hint("write the rule outside of the section"))
}

/// The first directive that restricts access, in sections, too.
fn restriction(nodes: &[Node]) -> Option<&Node> {
    let is_open = nodes.iter().any(|node| is(node, "allow") && says(node, 1, "all"));
    nodes.iter().find_map(|node| match &node.block {
        Some(_) if is(node, "requirenone") => Some(node),
        Some(inner) if !is_skipped(node) => restriction(inner),
        None if restricts(node, is_open) => Some(node),
        _ => None,
    })
}

/// Whether a section is for Apaches without a module that is there.
fn is_skipped(section: &Node) -> bool {
    let condition = section.args.first().map(Word::to_string).unwrap_or_default();
    is(section, "ifmodule") && matches!(presence(&condition), (Presence::Built, true))
}

/// Whether a directive by itself keeps some clients out. `Order allow,deny` does where nothing beside it is open to all.
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
        // PHP that is switched off would run.
        "php_flag" | "php_admin_flag" => {
            says(node, 0, "engine") && !says(node, 1, "on") && !says(node, 1, "1")
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
            let glob = first.text.clone();
            selection(args, loading, move |candidate, budget| {
                budget.step(glob.len().max(1).saturating_mul(candidate.name.len()))?;
                Ok(matches_glob(&glob, &candidate.name))
            })
        }
    }
}

fn by_pattern(args: &Args<'_>, loading: &mut Loading, word: &Word) -> Result<Selection, Diagnostic> {
    let pattern = pattern(args, loading, word, &word.text, false)?;
    // Whatever could not be judged is taken for selected: such sections mostly forbid.
    let holds = move |candidate: &Candidate, budget: &Budget| match bounded::find(
        &pattern,
        &candidate.name,
        &mut Captures::default(),
        budget,
    ) {
        Err(Failure::Spent) => Err(Spent),
        found => Ok(found.unwrap_or(true)),
    };
    selection(args, loading, holds)
}

/// The rules inside belong to the level around the section, as in Apache: they add to those that count for all methods.
fn by_method(args: &Args<'_>, loading: &mut Loading, except: bool) -> Result<bool, Diagnostic> {
    if loading.methods.is_some() {
        return Err(args.error("cannot stand in another section for methods"));
    }
    let is_known = |word: &&Word| METHODS.iter().any(|name| word.is(name)) && (except || !word.is("TRACE"));
    if let Some(word) = args.words().iter().find(|word| !is_known(word)) {
        return Err(wrong(args, "a method that Apache does not let a file name,", word));
    }
    // Apache takes HEAD for GET, on both sides.
    let name = |word: &Word| if word.is("HEAD") { Box::from(&b"GET"[..]) } else { word.text.clone() };
    let names = args.words().iter().map(name).collect();
    loading.methods = Some(Arc::new(Methods { names, except }));
    Ok(true)
}

fn selection(
    args: &Args<'_>,
    loading: &Loading,
    holds: impl Fn(&Candidate, &Budget) -> Result<bool, Spent> + Send + Sync + 'static,
) -> Result<Selection, Diagnostic> {
    if loading.methods.is_some() {
        return Err(args.error("cannot stand in a section for methods"));
    }
    Ok(Selection { holds: Arc::new(holds), nodes: args.node.children().into() })
}

/// Whether a name is what `*`, `?`, `[…]` and `\` describe (fnmatch(3)).
fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut glob_at, mut name_at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while name_at < name.len() {
        match step(&glob[glob_at..], name[name_at]) {
            Step::Star => {
                star = Some((glob_at + 1, name_at));
                glob_at += 1;
            }
            Step::One(used) => (glob_at, name_at) = (glob_at + used, name_at + 1),
            Step::No => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (glob_at, name_at) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[glob_at..].iter().all(|&byte| byte == b'*')
}

enum Step {
    Star,
    /// One byte of the name, for so many of the glob.
    One(usize),
    No,
}

fn step(glob: &[u8], byte: u8) -> Step {
    match glob {
        [b'*', ..] => Step::Star,
        [b'?', ..] => Step::One(1),
        [b'\\', escaped, ..] if *escaped == byte => Step::One(2),
        [b'[', rest @ ..] => match rest.iter().skip(1).position(|&end| end == b']') {
            Some(end) if in_set(&rest[..=end], byte) => Step::One(end + 3),
            Some(_) => Step::No,
            None if byte == b'[' => Step::One(1),
            None => Step::No,
        },
        [first, ..] if *first == byte => Step::One(1),
        _ => Step::No,
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    let (set, negated) = match set {
        [b'!' | b'^', rest @ ..] => (rest, true),
        set => (set, false),
    };
    let range = set.windows(3).any(|part| part[1] == b'-' && (part[0]..=part[2]).contains(&byte));
    (range || set.contains(&byte)) != negated
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("*.php", "a.php", true),
            ("*.php", "a.phps", false),
            ("?.*", "a.b", true),
            ("wp-config.php", "wp-config.php", true),
            ("*a*b", "xaxaxb", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("\\*", "*", true),
            ("", "", true),
            ("*", "", true),
            ("a", "", false),
        ] {
            assert_eq!(matches_glob(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        }
    }
}
