//! Sections: `<IfModule>`, `<IfDefine>`, `<Files>`, `<FilesMatch>`, `<Limit>`, `<LimitExcept>`.

use super::{in_file, pattern, wrong};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Candidate, Directive, Loading, Selection};
use std::sync::Arc;

/// Apache's modules whose directives are honoured here.
const MODULES: [&str; 15] = [
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
];

/// `<IfModule [!]MODULE>`
pub(super) static IF_MODULE: Directive<bool> = Directive::new("IfModule", parse_if_module)
    .within(Contexts::HTACCESS)
    .splices(Arity::Exactly(1))
    .repeats()
    .help("A section that counts if what Apache's module does is honoured here.");

/// `<IfDefine [!]NAME>`
pub(super) static IF_DEFINE: Directive<bool> =
    Directive::new("IfDefine", |args, _| Ok(args.word(0)?.text.starts_with(b"!")))
        .within(Contexts::HTACCESS)
        .splices(Arity::Exactly(1))
        .repeats()
        .help("A section that counts if a name is defined, which none is.");

/// `<Files [~] NAME>`
pub(super) static FILES: Directive<Selection> =
    section(Directive::new("Files", parse_files), Arity::Range(1, 2))
        .help("A section for files of a name, with `*` and `?`.");

/// `<FilesMatch PATTERN>`
pub(super) static FILES_MATCH: Directive<Selection> =
    section(Directive::new("FilesMatch", |args, _| by_pattern(args, args.word(0)?)), Arity::Exactly(1))
        .help("A section for files whose names match a pattern.");

/// `<Limit METHOD …>`
pub(super) static LIMIT: Directive<Selection> =
    section(Directive::new("Limit", |args, _| by_method(args, true)), Arity::AtLeast(1))
        .help("A section for these methods.");

/// `<LimitExcept METHOD …>`
pub(super) static LIMIT_EXCEPT: Directive<Selection> =
    section(Directive::new("LimitExcept", |args, _| by_method(args, false)), Arity::AtLeast(1))
        .help("A section for all methods but these.");

/// `<If EXPRESSION>`
pub(super) static IF: Directive<()> =
    Directive::new("If", |args, _| Err(args.error("is not supported: expressions are not evaluated here")))
        .within(Contexts::HTACCESS)
        .block(Arity::Any)
        .help("Refused: expressions are not evaluated.");

const fn section(directive: Directive<Selection>, arity: Arity) -> Directive<Selection> {
    in_file(directive).block(arity).slot("htaccess section")
}

fn parse_if_module(args: &Args<'_>, _: &mut Loading) -> Result<bool, Diagnostic> {
    let text = args.word(0)?.to_string();
    let (name, negated) = match text.strip_prefix('!') {
        Some(name) => (name, true),
        None => (text.as_str(), false),
    };
    // `mod_rewrite.c`, or `rewrite_module`.
    let short = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
    let short = short.or_else(|| name.strip_suffix("_module")).or_else(|| name.strip_suffix(".c"));
    Ok(short.is_some_and(|name| MODULES.contains(&name)) != negated)
}

fn parse_files(args: &Args<'_>, _: &mut Loading) -> Result<Selection, Diagnostic> {
    let first = args.word(0)?;
    match args.words().get(1) {
        Some(word) if first.is("~") => by_pattern(args, word),
        Some(_) => Err(wrong(args, "an unknown parameter", first)),
        None => {
            let glob = first.text.clone();
            Ok(selection(args, move |candidate| matches_glob(&glob, &candidate.name)))
        }
    }
}

fn by_pattern(args: &Args<'_>, word: &Word) -> Result<Selection, Diagnostic> {
    let pattern = pattern(args, word, &word.text, false)?;
    // Whatever could not be judged is taken for selected: such sections mostly forbid.
    let holds = move |candidate: &Candidate| {
        pattern.try_captures(&candidate.name, &mut conf::value::Captures::default()).unwrap_or(true)
    };
    Ok(selection(args, holds))
}

fn by_method(args: &Args<'_>, listed: bool) -> Result<Selection, Diagnostic> {
    let methods: Vec<_> = args.words().iter().map(|word| word.text.clone()).collect();
    Ok(selection(args, move |candidate| {
        let method: &[u8] = if &*candidate.method == b"HEAD" { b"GET" } else { &candidate.method };
        methods.iter().any(|known| **known == *method) == listed
    }))
}

fn selection(args: &Args<'_>, holds: impl Fn(&Candidate) -> bool + Send + Sync + 'static) -> Selection {
    Selection { holds: Arc::new(holds), nodes: args.node.children().into() }
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
