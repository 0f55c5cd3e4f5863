//! Third parties: their licences, where they come from, which ones not to use, and a reason for each.

use super::{Finding, has_words, spdx};
use crate::metadata::Package;
use crate::tree::{File, Tree};
use serde::Deserialize;

/// The policy that cargo-deny reads, too.
const POLICY: &str = "deny.toml";

/// What the policy says of third parties' packages. What is here for cargo-deny alone is passed over.
#[derive(Debug, Deserialize)]
struct Policy {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

/// A package that nothing of ours may pull in, and why with what else.
#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// The packages that may depend on it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = reasons(tree);
    found.extend(unused(tree));
    match Policy::read(tree) {
        Ok(policy) => {
            let outside = tree.packages.iter().filter(|package| package.dir.is_none());
            found.extend(outside.flat_map(|package| third_party(tree, &policy, package)));
        }
        Err(message) => found.push(Finding::new(POLICY, 1, message, "write it as cargo-deny reads it")),
    }
    found
}

impl Policy {
    fn read(tree: &Tree) -> Result<Policy, String> {
        let text = &tree.file(POLICY).ok_or("there is no such file")?.text;
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }
}

fn third_party(tree: &Tree, policy: &Policy, package: &Package) -> Vec<Finding> {
    let name = &package.name;
    let (path, line) = place(tree, name);
    let mut found = Vec::new();
    let mut add = |message: String, instead: &str| found.push(Finding::new(&path, line, message, instead));
    let ours = || tree.packages.iter().filter(|package| package.dir.is_some());
    let is_ours = || ours().any(|package| package.dependencies.contains(name));
    let is_banned = |ban: &&Ban| ban.name == *name && (ban.wrappers.is_empty() || is_ours());
    if let Some(ban) = policy.bans.deny.iter().find(is_banned) {
        add(format!("{name} is banned"), &ban.reason);
    }
    let registry = package.source.as_ref().and_then(|source| source.strip_prefix("registry+"));
    if !registry.is_some_and(|url| policy.sources.allow_registry.iter().any(|known| known == url)) {
        add(format!("{name} does not come from the registry"), "use a published version");
    }
    let licence = package.licence.as_deref().unwrap_or_default();
    if !spdx::allows(licence, &policy.licenses.allow) {
        let instead = "use another package, or add a licence that asks for no more to deny.toml";
        add(format!("{name} has the licence \"{licence}\""), instead);
    }
    found
}

/// Where to point for a third party's package: our line for it, or the lock file's.
fn place(tree: &Tree, name: &str) -> (String, usize) {
    let direct = line_of(tree, "Cargo.toml", name);
    if direct > 1 {
        return ("Cargo.toml".into(), direct);
    }
    let quoted = format!("name = \"{name}\"");
    ("Cargo.lock".into(), tree.file("Cargo.lock").map_or(1, |file| file.line_where(|line| line == quoted)))
}

fn line_of(tree: &Tree, manifest: &str, name: &str) -> usize {
    let begins = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    tree.file(manifest).map_or(1, |file| file.line_where(begins))
}

/// Lines of manifests that no source needs, and of the root's list that no manifest needs.
fn unused(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let ours = || tree.packages.iter().filter_map(|package| Some((package, package.dir.as_deref()?)));
    for (package, dir) in ours() {
        let sources: Vec<&File> =
            tree.sources().filter(|file| file.path.starts_with(&format!("{dir}/"))).collect();
        for dependency in &package.dependencies {
            let name = dependency.replace('-', "_");
            if !sources.iter().any(|file| has_words(&file.text, &name)) {
                let line = line_of(tree, &package.manifest(), dependency);
                let message = format!("no source of {} names {dependency}", package.name);
                found.push(Finding::new(&package.manifest(), line, message, "remove the line"));
            }
        }
    }
    for (number, name) in shared_lines(tree) {
        let used =
            ours().any(|(package, _)| package.dependencies.iter().any(|dependency| dependency == name));
        if !used {
            found.push(Finding::new(
                "Cargo.toml",
                number,
                format!("no crate depends on {name}"),
                "remove the line",
            ));
        }
    }
    found
}

/// The lines of `[workspace.dependencies]`, with the names that they give.
fn shared_lines(tree: &Tree) -> Vec<(usize, &str)> {
    let Some(manifest) = tree.file("Cargo.toml") else { return Vec::new() };
    let section = manifest.lines().skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with('['));
    let named = section.filter(|(_, line)| line.starts_with(|c: char| c.is_ascii_alphanumeric()));
    named.map(|(number, line)| (number, line.split([' ', '=', '.']).next().unwrap_or_default())).collect()
}

/// Each third party's line of `[workspace.dependencies]` has its own comment above it.
fn reasons(tree: &Tree) -> Vec<Finding> {
    let lines: Vec<&str> = tree.file("Cargo.toml").map_or("", |file| &file.text).lines().collect();
    let line = |number: usize| lines.get(number.wrapping_sub(1)).copied().unwrap_or_default();
    let bare = shared_lines(tree)
        .into_iter()
        .filter(|(number, _)| !line(*number).contains("path = ") && !line(number - 1).starts_with('#'));
    let instead = "use a comment above it that says what it is for";
    bare.map(|(number, name)| Finding::new("Cargo.toml", number, format!("{name} without a reason"), instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const MANIFEST: &str =
        "[workspace.dependencies]\nconf = { path = \"crates/conf\" }\n# Why.\nserde = \"1\"\n";

    const DENY: &str = "licenses.allow = [\"MIT\"]\nsources.allow-registry = [\"x\"]
        [bans]\ndeny = [{ crate = \"atty\", reason = \"use std\" }]";

    fn outside(name: &str, licence: &str, source: &str) -> Package {
        Package {
            name: name.into(),
            licence: Some(licence.into()),
            source: Some(source.into()),
            ..Package::default()
        }
    }

    fn package(dir: &str, uses: &[&str]) -> Package {
        let dependencies = uses.iter().map(|name| (*name).into()).collect();
        Package { dir: Some(dir.into()), dependencies, ..Package::default() }
    }

    fn check_packages(packages: Vec<Package>) -> Vec<String> {
        let lock = "[[package]]\nname = \"atty\"\n";
        let mut tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", lock),
            (POLICY, DENY),
            ("crates/a/Cargo.toml", "[package]\n[dependencies]\n"),
            ("crates/a/src/lib.rs", "use conf::Node; // serde"),
        ]);
        tree.packages = packages;
        tree.packages.push(package("crates/a", &["conf", "serde"]));
        places(&check(&tree))
    }

    #[test]
    fn good_ones_pass() {
        assert_eq!(check_packages(vec![outside("serde", "MIT OR GPL-3.0", "registry+x")]), [""; 0]);
    }

    #[test]
    fn licences_sources_and_bans_are_found() {
        assert_eq!(check_packages(vec![outside("serde", "GPL-3.0", "registry+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("serde", "MIT", "git+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("serde", "MIT", "registry+y")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("atty", "MIT", "registry+x")]), ["Cargo.lock:2"]);
    }

    #[test]
    fn a_policy_that_says_less_is_found() {
        let read = |text: &str| Policy::read(&Tree::of(&[(POLICY, text)])).map(|_| ());
        assert_eq!(read(DENY), Ok(()));
        for part in ["licenses.allow", "sources.allow-registry", "reason"] {
            assert!(read(&DENY.replace(part, "other.x")).unwrap_err().starts_with("missing field"), "{part}");
        }
        assert_eq!(places(&check(&Tree::of(&[]))), ["deny.toml:1"]);
    }

    #[test]
    fn what_nobody_uses_is_found() {
        let mut tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            ("crates/a/Cargo.toml", "[dependencies]\nconf.workspace = true\nserde-json.workspace = true\n"),
            ("crates/a/src/lib.rs", "use conf::Node; fn my_serde_json() {}"),
        ]);
        tree.packages = vec![package("crates/a", &["conf", "serde-json"])];
        assert_eq!(places(&unused(&tree)), ["crates/a/Cargo.toml:3", "Cargo.toml:4"]);
    }

    #[test]
    fn a_line_without_its_own_reason_is_found() {
        let manifest = format!("{MANIFEST}tempfile = \"3\"\n[profile.dev]\ndebug = 1\n");
        let found = reasons(&Tree::of(&[("Cargo.toml", &manifest)]));
        assert_eq!(places(&found), ["Cargo.toml:5"]);
        assert_eq!(reasons(&Tree::of(&[("Cargo.toml", MANIFEST)])), []);
    }
}
