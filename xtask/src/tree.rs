//! The project as the rules see it: every file with its text, every package with its facts.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::metadata::{self, Package};
use crate::syntax;

/// Everything that a rule may look at. Paths are relative to the root and use `/`.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    pub(crate) packages: Vec<Package>,
    /// Rust files that a crate root reaches through `mod` lines.
    reached: BTreeSet<String>,
    /// Those of them that are reached only below `#[cfg(test)]`.
    test_only: BTreeSet<String>,
}

/// One file of the project.
pub(crate) struct File {
    pub(crate) path: String,
    /// Empty when the file is not UTF-8.
    pub(crate) text: String,
    pub(crate) size_bytes: usize,
    pub(crate) is_text: bool,
    ast: OnceCell<Option<syn::File>>,
}

impl Tree {
    /// Reads the checkout: what git tracks, and what it would track.
    pub(crate) fn load() -> Result<Self> {
        let root = root();
        let mut files = Vec::new();
        for path in listed(&root)? {
            // Listed but gone: removed and not yet committed.
            let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
            files.push(File::from_bytes(path, bytes));
        }
        Ok(Self::with(files, metadata::load(&root)?))
    }

    /// A tree of these files and packages.
    pub(crate) fn with(files: Vec<File>, packages: Vec<Package>) -> Self {
        let (reached, test_only) = reach(&files);
        Self { files, packages, reached, test_only }
    }

    /// A tree in memory, for the rules' own tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File::from_bytes(path.into(), text.as_bytes().to_vec());
        Self::with(files.iter().map(file).collect(), Vec::new())
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust sources of the project.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Sources that ship: those in `crates/` that are not only compiled for tests.
    pub(crate) fn product(&self) -> impl Iterator<Item = &File> {
        let in_source = |file: &&File| file.path.starts_with("crates/") && file.path.contains("/src/");
        self.sources().filter(in_source).filter(|file| !self.is_test_only(&file.path))
    }

    /// Whether only tests compile the file.
    pub(crate) fn is_test_only(&self, path: &str) -> bool {
        self.test_only.contains(path)
    }

    pub(crate) fn is_reached(&self, path: &str) -> bool {
        self.reached.contains(path)
    }
}

impl File {
    pub(crate) fn from_bytes(path: String, bytes: Vec<u8>) -> Self {
        let size_bytes = bytes.len();
        let (text, is_text) = match String::from_utf8(bytes) {
            Ok(text) => (text, true),
            Err(_) => (String::new(), false),
        };
        Self { path, text, size_bytes, is_text, ast: OnceCell::new() }
    }

    /// The syntax tree; none if the file is no valid Rust (the compiler says that better).
    pub(crate) fn ast(&self) -> Option<&syn::File> {
        self.ast.get_or_init(|| syn::parse_file(&self.text).ok()).as_ref()
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The number of the first line for which `wanted` holds, or 1.
    pub(crate) fn line_where(&self, wanted: impl Fn(&str) -> bool) -> usize {
        self.lines().find(|(_, line)| wanted(line)).map_or(1, |(number, _)| number)
    }

    /// The name of the folder below `crates/`, if the file is there.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// The folder that holds the workspace's manifest.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Joins a relative link or module path to the folder of `from`, resolving `.` and `..`.
pub(crate) fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn listed(root: &Path) -> Result<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).output().context("running git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let unique: BTreeSet<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(Into::into).collect();
    Ok(unique.into_iter().collect())
}

/// Follows `mod` lines from every crate root. The second set holds what only tests reach.
fn reach(files: &[File]) -> (BTreeSet<String>, BTreeSet<String>) {
    let by_path: BTreeMap<&str, &File> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut product = BTreeSet::new();
    let mut tests = BTreeSet::new();
    let roots = by_path.keys().filter(|path| is_root(path)).map(|path| (path.to_string(), false));
    let mut queue: Vec<(String, bool)> = roots.collect();
    while let Some((path, in_test)) = queue.pop() {
        let seen = if in_test { &mut tests } else { &mut product };
        if !seen.insert(path.clone()) {
            continue;
        }
        let Some(ast) = by_path.get(path.as_str()).and_then(|file| file.ast()) else { continue };
        for module in syntax::modules(ast) {
            let candidates = module.candidates(&path, is_root(&path));
            let found = candidates.into_iter().find(|candidate| by_path.contains_key(candidate.as_str()));
            queue.extend(found.map(|found| (found, in_test || module.in_test)));
        }
    }
    let test_only = tests.difference(&product).cloned().collect();
    (product.union(&tests).cloned().collect(), test_only)
}

/// Whether cargo starts compiling a target at this file.
fn is_root(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    match parts.next() {
        Some("src") => matches!(name, "lib.rs" | "main.rs"),
        Some("bin" | "benches" | "examples" | "fuzz_targets") => name.ends_with(".rs"),
        _ => name == "build.rs" || path == "tests/tests/all.rs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_mod_lines_from_the_root() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod t;"),
            ("crates/a/src/b.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/t/mod.rs", "mod d;"),
            ("crates/a/src/t/d.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("tests/tests/all.rs", "mod e;"),
            ("tests/tests/e.rs", "mod f;"),
            ("tests/tests/e/f.rs", ""),
            ("crates/a/tests/e.rs", ""),
        ]);
        assert!(tree.is_reached("crates/a/src/b/c.rs"));
        assert!(tree.is_reached("crates/a/src/t/d.rs"));
        assert!(tree.is_reached("tests/tests/e/f.rs"));
        assert!(!tree.is_reached("crates/a/src/lost.rs"));
        let product: Vec<&str> = tree.product().map(|file| file.path.as_str()).collect();
        assert!(product.contains(&"crates/a/src/b/c.rs"));
        assert!(!product.contains(&"crates/a/src/t/d.rs"));
        assert!(!product.contains(&"crates/a/tests/e.rs"));
    }

    #[test]
    fn links_resolve_beside_their_file() {
        assert_eq!(resolve("docs/a/b.md", "../c.md"), "docs/c.md");
        assert_eq!(resolve("README.md", "./docs/"), "docs");
    }
}
