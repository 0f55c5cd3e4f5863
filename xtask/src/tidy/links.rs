//! Every page below docs/ is linked from another page, and no link between pages is dead.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::{File, Tree, resolve};

/// The chapters of the site.
pub(crate) const CONTENTS: &str = "docs/SUMMARY.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let exists: BTreeSet<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let mut linked = BTreeSet::new();
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, target) in targets(page) {
            let target = resolve(&page.path, &target);
            let index = format!("{target}/README.md");
            let is_folder =
                exists.range(target.as_str()..).any(|path| path.starts_with(&format!("{target}/")));
            if !exists.contains(target.as_str()) && !is_folder {
                found.push(Finding::new(
                    &page.path,
                    number,
                    format!("link to {target}, which is not there"),
                    "link to a page that is",
                ));
            } else if page.path != target {
                linked.extend([target, index]);
            }
        }
    }
    let is_lost = |path: &&&str| path.starts_with("docs/") && **path != CONTENTS && !linked.contains(**path);
    let lost = exists.iter().filter(is_lost);
    found.extend(
        lost.map(|path| Finding::new(path, 1, "no page links to it", "link it from a page or remove it")),
    );
    found
}

/// Targets of inline links and images to files of the project, outside code.
pub(crate) fn targets(page: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<String> = None;
    for (number, line) in page.lines() {
        let ticks: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        if ticks.len() >= 3 {
            match &fence {
                Some(open) if ticks.len() >= open.len() => fence = None,
                Some(_) => {}
                None => fence = Some(ticks),
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let outside_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, opening) in outside_code.match_indices("](") {
            let rest = &outside_code[at + opening.len()..];
            let Some((target, _)) = rest.split_once(')') else { continue };
            let target = target.split(['#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((number, target.to_string()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn linked_pages_pass() {
        let tree = Tree::of(&[
            ("README.md", "[the manual](docs/) [b](docs/b.md#part) [web](https://example.org/)\n"),
            ("docs/README.md", "![picture](a.svg) [up](../README.md)\n"),
            ("docs/a.svg", "<svg/>\n"),
            ("docs/b.md", "`[not](a/link.md)`\n```\n[nor](this.md)\n```\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn lost_pages_and_dead_links_are_found() {
        let tree =
            Tree::of(&[("README.md", "\n[gone](docs/gone.md)\n"), ("docs/lost.md", "[itself](lost.md)\n")]);
        assert_eq!(places(&check(&tree)), ["README.md:2", "docs/lost.md:1"]);
    }
}
