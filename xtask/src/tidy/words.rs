//! Words and names that announce unfinished or forgotten work, and what to write instead.

use super::{Finding, has_words};
use crate::syntax;
use crate::tree::{File, Tree};

/// Phrases in any text, matched as whole words; the ones in small letters in any case.
const PHRASES: &[(&str, &str)] = &[
    ("TODO", "do it, or write down in the manual what is not there"),
    ("FIXME", "fix it"),
    ("XXX", "say what is the matter"),
    ("HACK", "use the straight way, or say why there is none"),
    ("for now", "say what holds, and for how long does not matter"),
    ("placeholder", "write the thing itself"),
    ("legacy", "name the version or the standard that you mean"),
    ("../shared", "copy nothing from outside: say it here"),
    ("have it that", "use an active verb: \"X rejects Y\""),
    ("has it that", "use an active verb: \"X rejects Y\""),
    ("is told", "use an active verb: \"X gets Y\", \"X reports Y\""),
    ("are told", "use an active verb: \"X gets Y\", \"X reports Y\""),
    ("is had by", "name the subject: \"only X can do Y\""),
    ("give way", "write \"yield\", or \"is dropped\""),
    ("gives way", "write \"yields\", or \"is dropped\""),
    ("of no use to", "write \"X cannot use it\", or \"X discards it\""),
    ("who asks", "name the noun: the client, the request, the caller"),
    ("whoever", "name the noun: the client, the user, the caller, the process"),
    ("in vain", "say what happens: \"gets no answer\", \"matches nothing\", \"returns `Pending`\""),
    ("is not said to", "write \"does not\""),
    ("is none of those that", "write \"is not\", \"matches no\" or \"refers only to\""),
    ("by it all", "name the subject, and use an active verb"),
    ("is gone on with", "write \"continues\""),
    ("let others go first", "write \"yield\""),
    ("can ask for any more", "write \"is dropped\", or \"is no longer used\""),
    ("somebody", "name the noun: the client, the user, another process"),
    ("anybody", "name the noun: the client, the user, any process"),
    ("has a say", "name the effect: \"X can choose Y\", \"X contains variables\""),
    ("have a say", "name the effect: \"X can choose Y\", \"X contains variables\""),
    ("and its kin", "write \"and similar ones\", or name them"),
    ("and their kin", "write \"and similar ones\", or name them"),
    ("or its kin", "write \"or a similar one\", or name them"),
    ("what became of", "write \"the result of\" or \"what happened to\""),
    ("what becomes of", "write \"what happens to\""),
    ("would become of", "write \"how X would answer\" or \"what would happen to\""),
    ("comes by itself", "write \"automatic\""),
    ("come by themselves", "write \"automatic\""),
    ("is not looked at", "write \"is ignored\" or \"is not checked\""),
    ("as good as none", "write \"counts as missing\""),
];

/// Phrases that are wrong only where no noun follows: "the target of its own redirections" is plain.
const WITHOUT_NOUN: &[(&str, &str)] = &[
    ("of its own", "write \"its own X\", or \"a separate X\""),
    ("of their own", "write \"their own X\", or \"separate X\""),
];

/// Phrases that may stand as often as they do, and no more: lower the number with each one that is reworded.
const PHRASES_LEFT: &[(&str, usize, &str)] = &[
    ("beside", 90, "write \"besides\", \"next to\", \"with\" or \"in addition to\""),
    ("behind", 262, "write \"after\", \"upstream\", \"backend\" or \"following\""),
    ("nobody", 212, "write \"no client\", \"no user\", \"is not\" or \"does not\""),
];

/// Folders and files that are made from others, where a phrase would count twice.
const MADE: &[&str] = &["docs/directives/", "docs/lint.md", "docs/lab/"];

/// Ends of identifiers that tell a history instead of a meaning.
const SUFFIXES: &[&str] = &["_v2", "_old", "_new"];

/// Ends that ask whether something is new, which is a meaning, or make sure that it is.
const QUESTIONS: &[&str] = &["is_new", "if_new", "create_new"];

/// Folders of one machine.
const MACHINE_PATHS: &[&str] = &["/work/", "/root/"];

/// Macros that have no place in product code.
const MACROS: &[(&str, &str)] = &[
    ("dbg!", "use a test, or a line of the error log"),
    ("todo!", "return an error that says what is not there"),
    ("unimplemented!", "return an error that says what is not there"),
    ("println!", "return the text, and let crates/fulmar print it"),
    ("eprintln!", "return the text, or use the error log"),
    ("print!", "return the text, and let crates/fulmar print it"),
    ("eprint!", "return the text, or use the error log"),
];

/// This file has to spell them.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Kinds of text that people write by hand.
const PROSE_AND_CODE: &[&str] = &["rs", "md", "toml", "yml", "sh", "conf", "css", "js", "run"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree.files.iter().filter(|file| is_written(&file.path));
    let mut found: Vec<Finding> = texts.flat_map(check_text).collect();
    found.extend(PHRASES_LEFT.iter().filter_map(|left| check_left(tree, *left)));
    found.extend(tree.sources().filter(|file| file.path != THIS_FILE).flat_map(check_identifiers));
    found.extend(tree.sources().flat_map(check_macros));
    found.extend(tree.product().flat_map(|file| check_anyhow(file).into_iter().chain(check_units(file))));
    found
}

fn is_written(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    path != THIS_FILE && (name == "Makefile" || extension.is_some_and(|ext| PROSE_AND_CODE.contains(&ext)))
}

fn check_text(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        let lower = line.to_ascii_lowercase();
        for (phrase, instead) in PHRASES {
            let text = if phrase.chars().any(char::is_lowercase) { &lower } else { line };
            if has_words(text, phrase) {
                found.push(Finding::new(&file.path, number, format!("\"{phrase}\""), *instead));
            }
        }
        for (phrase, instead) in WITHOUT_NOUN {
            let mut ends = lower.match_indices(phrase).map(|(at, _)| &lower[at + phrase.len()..]);
            if ends.any(|end| !end.starts_with(|c: char| c == ' ' || c.is_alphanumeric())) {
                found.push(Finding::new(
                    &file.path,
                    number,
                    format!("\"{phrase}\" without a noun"),
                    *instead,
                ));
            }
        }
        if let Some(path) = machine_path(line) {
            let message = format!("\"{path}\" is a folder of one machine");
            found.push(Finding::new(&file.path, number, message, "use a relative path, or /srv in examples"));
        }
    }
    found
}

/// One finding, at the place that has the phrase most often, if the project has it more often than it may.
fn check_left(tree: &Tree, (phrase, most, instead): (&str, usize, &str)) -> Option<Finding> {
    let by_hand =
        |file: &&File| is_written(&file.path) && !MADE.iter().any(|made| file.path.starts_with(made));
    let count = |file: &File| {
        let text = file.text.to_ascii_lowercase();
        text.lines().filter(|line| has_words(line, phrase)).count()
    };
    let counts: Vec<(usize, &File)> =
        tree.files.iter().filter(by_hand).map(|file| (count(file), file)).collect();
    let all: usize = counts.iter().map(|(count, _)| count).sum();
    let (_, file) = counts.into_iter().max_by_key(|(count, _)| *count).filter(|_| all > most)?;
    let message = format!("{all} lines of the project have \"{phrase}\", more than {most}");
    Some(Finding::new(&file.path, 1, message, instead))
}

fn machine_path(line: &str) -> Option<&'static str> {
    let starts = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}".contains(c));
    let fixed = MACHINE_PATHS.iter().find(|path| line.match_indices(**path).any(|(at, _)| starts(at)));
    let home = line.match_indices("/home/").any(|(at, path)| {
        starts(at) && line[at + path.len()..].starts_with(|c: char| c.is_ascii_lowercase())
    });
    fixed.copied().or(home.then_some("/home/"))
}

fn check_identifiers(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    let Ok(tokens) = file.text.parse() else { return found };
    syntax::identifiers(tokens, &mut |ident| {
        let name = ident.to_string();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends(SUFFIXES) && !ends(QUESTIONS) {
            let line = ident.span().start().line;
            found.push(Finding::new(
                &file.path,
                line,
                format!("`{name}`"),
                "use a name that tells the meaning, not the age",
            ));
        }
    });
    found
}

fn check_macros(file: &File) -> Vec<Finding> {
    let prints =
        ["crates/fulmar/", "xtask/", "lab/", "tests/"].iter().any(|folder| file.path.starts_with(folder));
    let Some(ast) = file.ast() else { return Vec::new() };
    let mut found = Vec::new();
    for name in syntax::names(ast) {
        let Some((name_of, instead)) = MACROS.iter().find(|(banned, _)| *banned == name.text) else {
            continue;
        };
        if !prints || !name_of.contains("print") {
            found.push(Finding::new(&file.path, name.line, format!("`{name_of}`"), *instead));
        }
    }
    found
}

fn check_anyhow(file: &File) -> Vec<Finding> {
    let Some(ast) = file.ast().filter(|_| file.crate_name() != Some("fulmar")) else { return Vec::new() };
    let names = syntax::names(ast).into_iter();
    let used = names.filter(|name| {
        name.text.split("::").next().is_some_and(|first| first.trim_end_matches('!') == "anyhow")
    });
    let instead = "use an enum that says who is at fault";
    used.map(|name| Finding::new(&file.path, name.line, "`anyhow` below the binary", instead)).collect()
}

/// A function that parses an integer and knows what `k` means is a second parser of sizes.
fn check_units(file: &File) -> Vec<Finding> {
    let Some(ast) = file.ast().filter(|_| matches!(file.crate_name(), Some("modules" | "server"))) else {
        return Vec::new();
    };
    let lines: Vec<&str> = file.text.lines().collect();
    let functions = syntax::functions(ast).into_iter().filter(|function| !function.in_test);
    let parsers = functions.filter(|function| {
        let (open, close) = function.body;
        let body = lines.get(open.saturating_sub(1)..close).unwrap_or_default().join("\n");
        let integer =
            body.contains("parse::<") || body.contains(".parse()") || body.contains("from_str_radix");
        integer && ["'k'", "'K'", "\"k\"", "\"K\""].iter().any(|unit| body.contains(unit))
    });
    let finding = |function: syntax::Function| {
        let message = format!("`{}` parses units itself", function.name);
        Finding::new(&file.path, function.line, message, "use the parsers of crates/conf/src/value")
    };
    parsers.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        places(&check(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn phrases_are_whole_words_in_code_and_prose() {
        assert_eq!(check_one("a.md", "a method for nowadays\nXXXXXX\nTODOS\nhackney\n"), [""; 0]);
        assert_eq!(check_one("a.md", "enough\nFor now, TODO\n"), ["a.md:2", "a.md:2"]);
        assert_eq!(
            check_one("a/src/lib.rs", "// A Placeholder.\n// FIXME(b)\n"),
            ["a/src/lib.rs:1", "a/src/lib.rs:2"]
        );
    }

    #[test]
    fn phrases_that_are_left_may_not_become_more() {
        let tree = Tree::of(&[
            ("a.md", "a\nBehind it\n"),
            ("b.md", "behind\nbehind, behind\n"),
            ("docs/lint.md", "behind\n"),
        ]);
        assert_eq!(check_left(&tree, ("behind", 3, "")), None);
        assert_eq!(check_left(&tree, ("behind", 2, "")).unwrap().path, "b.md");
    }

    #[test]
    fn some_phrases_need_a_noun() {
        assert_eq!(check_one("a.md", "the target of its own redirections\n"), [""; 0]);
        assert_eq!(
            check_one("a.md", "a folder of its own\na\nparts of their own, which\n"),
            ["a.md:1", "a.md:3"]
        );
    }

    #[test]
    fn folders_of_a_machine_are_found() {
        assert_eq!(check_one("a.md", "/srv/work/a and /homes/b and $root/root/c\n/home/$user/d\n"), [""; 0]);
        assert_eq!(
            check_one("a.md", "in /work/a\n\"/root/b\"\n/home/someone/c\n"),
            ["a.md:1", "a.md:2", "a.md:3"]
        );
    }

    #[test]
    fn identifiers_tell_no_history() {
        assert_eq!(
            check_one("a/src/lib.rs", "fn new_user() { add_if_new(old_style, renew, \"a_old\") }"),
            [""; 0]
        );
        assert_eq!(
            check_one("a/src/lib.rs", "fn parse_v2() {}\nfn a() { b!(c_old) }"),
            ["a/src/lib.rs:1", "a/src/lib.rs:2"]
        );
    }

    #[test]
    fn only_the_binary_and_the_tools_print() {
        assert_eq!(check_one("crates/fulmar/src/main.rs", "fn a() { println!() }"), [""; 0]);
        assert_eq!(check_one("crates/h1/src/lib.rs", "#[test]\nfn a() { println!() }"), [""; 0]);
        assert_eq!(check_one("crates/h1/src/lib.rs", "fn a() { println!() }"), ["crates/h1/src/lib.rs:1"]);
        assert_eq!(check_one("xtask/src/main.rs", "fn a() { dbg!(1) }"), ["xtask/src/main.rs:1"]);
    }

    #[test]
    fn anyhow_stays_in_the_binary() {
        assert_eq!(check_one("crates/fulmar/src/main.rs", "use anyhow::Result;"), [""; 0]);
        assert_eq!(
            check_one("crates/h1/src/lib.rs", "fn a() -> b {\n anyhow::bail!() }"),
            ["crates/h1/src/lib.rs:2"]
        );
        assert_eq!(check_one("crates/h1/src/lib.rs", "use anyhow::Result;"), ["crates/h1/src/lib.rs:1"]);
    }

    #[test]
    fn units_are_parsed_in_one_place() {
        let code = "fn size(text: &str) {\n if text.ends_with('k') { text.parse::<u64>() }\n}";
        assert_eq!(check_one("crates/conf/src/lib.rs", code), [""; 0]);
        assert_eq!(check_one("crates/modules/src/lib.rs", code), ["crates/modules/src/lib.rs:1"]);
        assert_eq!(check_one("crates/modules/src/lib.rs", "fn a() { text.parse::<u64>() }"), [""; 0]);
        assert_eq!(check_one("crates/modules/src/lib.rs", "fn a() { key == 'k' }"), [""; 0]);
    }
}
