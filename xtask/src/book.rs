//! The manual as a site: lays the pages out for mdBook, lets it build them, and checks every link of what it built.

mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tidy::links::{self as markdown, CONTENTS};
use crate::tree::{Tree, resolve, root};

/// The page that lists the directives' pages.
const DIRECTIVES: &str = "docs/directives/README.md";
/// Where mdBook reads (`book.toml`).
const SOURCE: &str = "target/book/source";
/// Where mdBook writes (`book.toml`).
const SITE: &str = "target/book/site";

/// Builds the site; false when a link of it leads nowhere.
pub(crate) fn run() -> Result<bool> {
    let root = root();
    let tree = Tree::load()?;
    lay_out(&tree, &root)?;
    let status = Command::new("mdbook").arg("build").arg(&root).status();
    let status = status.context("mdbook is not there: `make docs` installs it")?;
    ensure!(status.success(), "mdbook failed");
    let site = root.join(SITE);
    let dead = links::dead(&site)?;
    for link in &dead {
        eprintln!("{SITE}/{}: {} leads nowhere", link.page, link.target);
    }
    println!("{}", site.join("index.html").display());
    Ok(dead.is_empty())
}

/// Writes the chapters, and what they link to, as they lie in the project: so their links stay as they are.
fn lay_out(tree: &Tree, root: &Path) -> Result<()> {
    let source = root.join(SOURCE);
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("removing {}", source.display()))?;
    }
    let contents = contents(tree)?;
    put(&source.join("SUMMARY.md"), contents.text.as_bytes())?;
    for page in &contents.pages {
        put(&source.join(page), &fs::read(root.join(page)).with_context(|| format!("reading {page}"))?)?;
    }
    for path in linked_files(tree, &contents.pages) {
        put(&source.join(&path), &fs::read(root.join(&path)).with_context(|| format!("reading {path}"))?)?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The list of chapters as mdBook reads it.
struct Contents {
    text: String,
    /// Their paths from the root of the project.
    pages: BTreeSet<String>,
}

/// The list with paths from the root of the project, and with the pages of directives below the one that lists them.
fn contents(tree: &Tree) -> Result<Contents> {
    let list = tree.file(CONTENTS).with_context(|| format!("{CONTENTS} is not there"))?;
    let mut contents = Contents { text: String::new(), pages: BTreeSet::new() };
    for line in list.text.lines() {
        let Some((title, target)) = line.strip_suffix(')').and_then(|line| line.rsplit_once("](")) else {
            contents.text.push_str(line);
            contents.text.push('\n');
            continue;
        };
        let page = resolve(CONTENTS, target);
        contents.text.push_str(&format!("{title}]({page})\n"));
        if page == DIRECTIVES {
            directives(tree, &mut contents)?;
        }
        contents.pages.insert(page);
    }
    Ok(contents)
}

/// Appends the pages of directives in the order of the page that lists them.
fn directives(tree: &Tree, contents: &mut Contents) -> Result<()> {
    let list = tree.file(DIRECTIVES).with_context(|| format!("{DIRECTIVES} is not there"))?;
    let entries = list.text.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("]("));
    for (name, rest) in entries {
        let Some((target, _)) = rest.split_once(')') else { continue };
        let page = resolve(DIRECTIVES, target);
        if contents.pages.insert(page.clone()) {
            contents.text.push_str(&format!("  - [{name}]({page})\n"));
        }
    }
    Ok(())
}

/// Files that the chapters link to and that are no chapters, such as pictures.
fn linked_files(tree: &Tree, pages: &BTreeSet<String>) -> BTreeSet<String> {
    let exists: BTreeSet<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let chapters = tree.files.iter().filter(|file| pages.contains(&file.path));
    let targets = chapters
        .flat_map(|page| markdown::targets(page).into_iter().map(|(_, target)| resolve(&page.path, &target)));
    targets.filter(|target| exists.contains(target.as_str()) && !pages.contains(target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_have_paths_from_the_root_and_directives_below_their_list() {
        let tree = Tree::of(&[
            ("docs/SUMMARY.md", "# Manual\n\n- [First](../README.md)\n- [All](directives/README.md)\n"),
            ("docs/directives/README.md", "- [gzip](gzip.md): text\n- [gzip](gzip.md): again\n"),
            ("docs/directives/gzip.md", "![picture](../a.svg) [first](../../README.md)\n"),
            ("docs/a.svg", "<svg/>\n"),
            ("README.md", ""),
        ]);
        let contents = contents(&tree).unwrap();
        assert_eq!(
            contents.text,
            "# Manual\n\n- [First](README.md)\n- [All](docs/directives/README.md)\n  - [gzip](docs/directives/gzip.md)\n"
        );
        assert_eq!(linked_files(&tree, &contents.pages), BTreeSet::from(["docs/a.svg".to_owned()]));
    }
}
