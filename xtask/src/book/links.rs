//! The links of a built site: every `href` and `src` names a file of it, and every anchor a place in that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tree::resolve;

/// A link that leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dead {
    /// The page that has the link, relative to the site.
    pub(super) page: String,
    pub(super) target: String,
}

/// Every dead link of the site in a folder.
pub(super) fn dead(site: &Path) -> Result<Vec<Dead>> {
    let mut files = BTreeSet::new();
    list(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| path.ends_with(".html")) {
        let text = fs::read_to_string(site.join(path)).with_context(|| format!("reading {path}"))?;
        pages.insert(path.clone(), text);
    }
    Ok(dead_of(&files, &pages))
}

/// The paths of all files below a folder, relative to the site.
fn list(site: &Path, folder: &str, files: &mut BTreeSet<String>) -> Result<()> {
    let here = site.join(folder);
    for entry in fs::read_dir(&here).with_context(|| format!("reading {}", here.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            list(site, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

fn dead_of(files: &BTreeSet<String>, pages: &BTreeMap<String, String>) -> Vec<Dead> {
    let anchors: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path.as_str(), values(text, "id").collect())).collect();
    let mut dead = Vec::new();
    for (page, text) in pages {
        let links: BTreeSet<&str> = values(text, "href").chain(values(text, "src")).collect();
        for target in links.into_iter().filter(|target| is_of_the_site(target)) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { resolve(page, path) };
            let is_there = files.contains(&file)
                && (anchor.is_empty()
                    || anchors.get(file.as_str()).is_none_or(|known| known.contains(anchor)));
            if !is_there {
                dead.push(Dead { page: page.clone(), target: target.to_owned() });
            }
        }
    }
    dead
}

/// Whether a link leads to a file of the site: it has no scheme, and mdBook's scripts did not write it.
fn is_of_the_site(target: &str) -> bool {
    !target.is_empty() && target != "#" && !target.contains(':') && !target.starts_with('/')
}

/// The values of an attribute in the tags of a text of HTML, which mdBook writes with double quotes.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(attribute).filter_map(move |(at, _)| {
        let before = &text[..at];
        let value = text[at + attribute.len()..].strip_prefix("=\"")?;
        let is_whole = before.ends_with([' ', '\n', '\t']);
        let is_in_tag = before.rfind(['<', '>']).is_some_and(|last| before[last..].starts_with('<'));
        (is_whole && is_in_tag).then(|| value.split('"').next()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_anchors_are_dead() {
        let pages = [
            (
                "index.html",
                r#"<a href="docs/a.html#part">a</a> <a href="docs/a.html#gone">a</a> <a href="b.html">b</a>
                <a href="https://example.org/">web</a> <img src="docs/a.svg"> <a href="">none</a> &lt;a href="code.html"&gt;"#,
            ),
            (
                "docs/a.html",
                r##"<h2 id="part">a</h2> <a href="../index.html">up</a> <a href="#other">here</a>"##,
            ),
        ];
        let pages: BTreeMap<String, String> =
            pages.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        let mut files: BTreeSet<String> = pages.keys().cloned().collect();
        files.insert("docs/a.svg".to_owned());
        let dead = dead_of(&files, &pages);
        let found: Vec<(&str, &str)> =
            dead.iter().map(|link| (link.page.as_str(), link.target.as_str())).collect();
        assert_eq!(
            found,
            [("docs/a.html", "#other"), ("index.html", "b.html"), ("index.html", "docs/a.html#gone")]
        );
    }
}
