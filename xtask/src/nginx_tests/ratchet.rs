//! The list of files that must pass: a name a line, sorted; `#` begins a comment, which belongs to the
//! name below it, or, where an empty line stands between, to the list.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The list.
#[derive(Debug, Default)]
pub(super) struct Ratchet {
    /// What stands above the first empty line.
    head: String,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    /// The comment lines above the name.
    comment: String,
}

impl Ratchet {
    /// Reads the list; one that does not exist is empty.
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("reading {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut ratchet = Self::default();
        let mut comment = String::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() {
                ratchet.head.push_str(&std::mem::take(&mut comment));
            } else if line.starts_with('#') {
                comment.push_str(line);
                comment.push('\n');
            } else {
                ratchet.entries.push(Entry { name: line.into(), comment: std::mem::take(&mut comment) });
            }
        }
        ratchet.head.push_str(&comment);
        let in_order = ratchet.entries.windows(2).all(|pair| pair[0].name < pair[1].name);
        ensure!(in_order, "the names are not sorted, or one is there twice");
        Ok(ratchet)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// Adds names that are not in the list.
    pub(super) fn add(&mut self, names: &[&str]) {
        let entry = |name: &&str| Entry { name: (*name).into(), comment: String::new() };
        self.entries.extend(names.iter().map(entry));
        self.entries.sort_by(|left, right| left.name.cmp(&right.name));
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.text()).with_context(|| format!("writing {}", path.display()))
    }

    fn text(&self) -> String {
        let gap = if self.head.is_empty() { "" } else { "\n" };
        let entries = self.entries.iter().map(|entry| format!("{}{}\n", entry.comment, entry.name));
        format!("{}{gap}{}", self.head, entries.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# What passes.\n\naccess\n# As root only.\nindex\nrange\n";

    #[test]
    fn names_are_added_where_they_belong_and_comments_stay() {
        let mut ratchet = Ratchet::parse(TEXT).unwrap();
        assert_eq!(ratchet.names(), ["access", "index", "range"]);
        assert_eq!(ratchet.text(), TEXT);
        ratchet.add(&["body", "rewrite"]);
        assert!(ratchet.contains("body"));
        let expected = "# What passes.\n\naccess\nbody\n# As root only.\nindex\nrange\nrewrite\n";
        assert_eq!(ratchet.text(), expected);
    }

    #[test]
    fn disorder_is_refused() {
        assert!(Ratchet::parse("b\na\n").is_err());
        assert!(Ratchet::parse("a\na\n").is_err());
        assert!(Ratchet::parse("").unwrap().names().is_empty());
    }
}
