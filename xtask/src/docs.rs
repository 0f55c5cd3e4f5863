//! The manual of the directives, written from the features themselves: a page a feature, and an
//! index of everything that nginx knows.

mod index;
mod page;
mod prose;
mod sources;
mod traps;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use conf::catalogue::{self, Entry};

use crate::tree::root;
use page::Feature;

/// Where the pages are, relative to the root.
const FOLDER: &str = "docs/directives";

/// Text of a page by the name of its file.
type Pages = BTreeMap<String, String>;

/// Writes the pages, or with `check` only compares them; false when a page is stale.
pub(crate) fn run(check: bool) -> Result<bool> {
    let folder = root().join(FOLDER);
    let wanted = pages(&sources::features(&root())?, catalogue::all());
    let present = read(&folder)?;
    let changes = changes(&present, &wanted);
    let page = root().join(traps::PAGE);
    let is_stale = fs::read_to_string(&page).unwrap_or_default() != traps::render();
    if !check {
        write(&folder, &wanted, &changes)?;
        fs::write(&page, traps::render()).with_context(|| format!("writing {}", page.display()))?;
        return Ok(true);
    }
    if is_stale {
        eprintln!("{} is stale; run `cargo xtask docs`", traps::PAGE);
    }
    for (name, what) in &changes {
        eprintln!("{FOLDER}/{name} {what}; run `cargo xtask docs`");
    }
    Ok(changes.is_empty() && !is_stale)
}

fn pages(features: &[Feature], entries: &[Entry]) -> Pages {
    let mut pages: Pages = features.iter().map(|feature| (feature.file(), feature.render())).collect();
    pages.insert("README.md".into(), index::render(features, entries));
    pages
}

/// The pages that differ, with what is wrong with each.
fn changes<'a>(present: &'a Pages, wanted: &'a Pages) -> Vec<(&'a str, &'static str)> {
    let gone = present.keys().filter(|name| !wanted.contains_key(*name));
    let gone = gone.map(|name| (name.as_str(), "has no feature"));
    let stale = wanted.iter().filter_map(|(name, text)| match present.get(name) {
        Some(present) if present == text => None,
        Some(_) => Some((name.as_str(), "is stale")),
        None => Some((name.as_str(), "is missing")),
    });
    gone.chain(stale).collect()
}

fn read(folder: &Path) -> Result<Pages> {
    let mut pages = Pages::new();
    if !folder.exists() {
        return Ok(pages);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        pages.insert(name, text);
    }
    Ok(pages)
}

fn write(folder: &Path, wanted: &Pages, changes: &[(&str, &str)]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for (name, _) in changes {
        let path = folder.join(name);
        match wanted.get(*name) {
            Some(text) => fs::write(&path, text),
            None => fs::remove_file(&path),
        }
        .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_stale() {
        let pages = |list: &[(&str, &str)]| -> Pages {
            list.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect()
        };
        let present = pages(&[("a.md", "a"), ("b.md", "b"), ("c.md", "c")]);
        let wanted = pages(&[("a.md", "a"), ("b.md", "other"), ("d.md", "d")]);
        assert_eq!(
            changes(&present, &wanted),
            [("c.md", "has no feature"), ("b.md", "is stale"), ("d.md", "is missing")]
        );
        assert_eq!(changes(&wanted, &wanted), []);
    }
}
