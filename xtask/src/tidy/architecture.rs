//! ARCHITECTURE.md stays short and has its two fixed parts: numbered invariants and a glossary.

use super::Finding;
use crate::tree::{File, Tree};

const PATH: &str = "ARCHITECTURE.md";
const LINES_MAX: usize = 300;

/// Lower it with each text that becomes shorter.
const WORDS_MAX: usize = 2500;

/// What the bound on words is to become.
const WORDS_AIM: usize = 2500;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(PATH) else {
        return vec![Finding::new(
            PATH,
            1,
            "there is no such file",
            "write the map, the invariants and the glossary",
        )];
    };
    let mut found = Vec::new();
    let length = file.text.lines().count();
    if length > LINES_MAX {
        let message = format!("{length} lines, more than {LINES_MAX}");
        found.push(Finding::new(PATH, LINES_MAX + 1, message, "say less, or say it in the code"));
    }
    let words = count_words(file);
    if words > WORDS_MAX {
        let message = format!("{words} words, more than {WORDS_MAX}");
        found.push(Finding::new(PATH, 1, message, "say less, or say it in the code"));
    }
    match section(file, "invariant") {
        None => found.push(Finding::new(PATH, 1, "no section of invariants", "write one, numbered")),
        Some((line, text)) if numbered(&text) < 2 => {
            found.push(Finding::new(
                PATH,
                line,
                "the invariants are not numbered",
                "write them as a numbered list",
            ));
        }
        Some(_) => {}
    }
    if section(file, "glossary").is_none() {
        found.push(Finding::new(PATH, 1, "no glossary", "write one: our words, each in a line"));
    }
    found
}

/// How long the file is.
pub(super) fn report(tree: &Tree) -> Option<String> {
    let words = count_words(tree.file(PATH)?);
    Some(format!("{PATH} has {words} words of {WORDS_MAX}; the aim is {WORDS_AIM}"))
}

fn count_words(file: &File) -> usize {
    file.text.split_whitespace().count()
}

/// The line of the heading that contains `word`, and the lines below it up to the next heading of any level.
fn section<'a>(file: &'a File, word: &str) -> Option<(usize, Vec<&'a str>)> {
    let is_heading = |line: &str| line.starts_with('#');
    let mut lines =
        file.lines().skip_while(|(_, line)| !is_heading(line) || !line.to_lowercase().contains(word));
    let (number, _) = lines.next()?;
    Some((number, lines.map(|(_, line)| line).take_while(|line| !is_heading(line)).collect()))
}

fn numbered(lines: &[&str]) -> usize {
    let is_item =
        |line: &&&str| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    lines.iter().filter(is_item).count()
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const GOOD: &str = "# Map\n## Invariants\n1. No a.\n2. No b.\n## Glossary\nScope: …\n";

    fn check_text(text: &str) -> Vec<String> {
        places(&check(&Tree::of(&[(PATH, text)])))
    }

    #[test]
    fn both_parts_in_few_lines_pass() {
        assert_eq!(check_text(GOOD), [""; 0]);
    }

    #[test]
    fn length_and_missing_parts_are_found() {
        assert_eq!(check_text(&format!("{GOOD}{}", "more\n".repeat(300))), ["ARCHITECTURE.md:301"]);
        let words = "word ".repeat(WORDS_MAX);
        assert_eq!(check_text(&format!("{GOOD}{words}\n")), ["ARCHITECTURE.md:1"]);
        assert_eq!(check_text("# Map\n## Invariants\n- No a.\n## Glossary\n"), ["ARCHITECTURE.md:2"]);
        assert_eq!(check_text("# Map\n"), ["ARCHITECTURE.md:1", "ARCHITECTURE.md:1"]);
        assert_eq!(places(&check(&Tree::of(&[]))), ["ARCHITECTURE.md:1"]);
    }
}
