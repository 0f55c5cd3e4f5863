//! Third parties: their licences, where they come from, which ones not to use, and a reason for each.

use super::{Finding, has_words, spdx};
use crate::metadata::Package;
use crate::tree::{File, Tree};

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Packages that nothing of ours may pull in, and why with what else.
const BANNED: &[(&str, &str)] = &[
    ("async-std", "discontinued; use tokio"),
    ("atty", "unmaintained and unsound; use std::io::IsTerminal"),
    ("chrono", "its local time is costly and was unsound; use jiff and httpdate"),
    ("daemonize", "unmaintained; use crates/net"),
    ("failure", "discontinued; use thiserror"),
    ("htpasswd-verify", "panics on odd input; use own apr1 and {SHA}, bcrypt and sha-crypt"),
    ("lru", "unsound iterators; use quick_cache"),
    ("memmap", "unmaintained; use pread or sendfile through rustix"),
    ("monoio", "a second runtime; use tokio"),
    ("openssl", "a C library with its own configuration; use rustls"),
    ("rlua", "unmaintained; use mlua"),
    ("rust-crypto", "unmaintained; use the RustCrypto packages"),
    ("rustls-pemfile", "unmaintained; use rustls-pki-types"),
    ("structopt", "superseded; use clap"),
    ("tokio-uring", "unmaintained; use tokio"),
    ("trust-dns-client", "renamed; use hickory-client"),
    ("trust-dns-proto", "renamed; use hickory-proto"),
    ("trust-dns-resolver", "renamed; use hickory-resolver"),
    ("users", "unmaintained; use nix"),
];

/// Packages that only tests may use.
const TESTS_ONLY: &[(&str, &str)] =
    &[("hyper", "hides the request line and cannot send files; use crates/h1")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = reasons(tree);
    found.extend(unused(tree));
    for package in tree.packages.iter().filter(|package| package.dir.is_none()) {
        found.extend(third_party(tree, package));
    }
    for package in tree.packages.iter().filter(|package| package.is_product()) {
        for (name, instead) in TESTS_ONLY {
            if package.dependencies.iter().any(|dependency| dependency.name == *name && !dependency.dev) {
                let message = format!("{} depends on {name}, which is for tests", package.name);
                let line = line_of(tree, &package.manifest(), name);
                found.push(Finding::new(&package.manifest(), line, message, *instead));
            }
        }
    }
    found
}

fn third_party(tree: &Tree, package: &Package) -> Vec<Finding> {
    let name = &package.name;
    let (path, line) = place(tree, name);
    let mut found = Vec::new();
    let mut add = |message: String, instead: &str| found.push(Finding::new(&path, line, message, instead));
    if let Some((_, instead)) = BANNED.iter().find(|(banned, _)| banned == name) {
        add(format!("{name} is banned"), instead);
    }
    if package.source.as_ref().is_none_or(|source| !source.starts_with("registry+")) {
        add(format!("{name} does not come from the registry"), "use a published version");
    }
    let licence = package.licence.as_deref().unwrap_or_default();
    if !spdx::allows(licence, LICENCES) {
        let instead =
            "use another package, or add a licence that asks for no more to xtask/src/tidy/dependencies.rs";
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
            let name = dependency.name.replace('-', "_");
            if !sources.iter().any(|file| has_words(&file.text, &name)) {
                let line = line_of(tree, &package.manifest(), &dependency.name);
                let message = format!("no source of {} names {}", package.name, dependency.name);
                found.push(Finding::new(&package.manifest(), line, message, "remove the line"));
            }
        }
    }
    for (number, name) in shared_lines(tree) {
        let used =
            ours().any(|(package, _)| package.dependencies.iter().any(|dependency| dependency.name == name));
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

/// Each third party's line of `[workspace.dependencies]` has a comment of its own above it.
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
    use crate::metadata::Dependency;

    const MANIFEST: &str =
        "[workspace.dependencies]\nconf = { path = \"crates/conf\" }\n# Why.\nserde = \"1\"\n";

    fn outside(name: &str, licence: &str, source: &str) -> Package {
        Package {
            name: name.into(),
            licence: Some(licence.into()),
            source: Some(source.into()),
            ..Package::default()
        }
    }

    fn package(dir: &str, uses: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: (*name).into(), dev: false };
        let dependencies = uses.iter().map(dependency).collect();
        Package { dir: Some(dir.into()), dependencies, ..Package::default() }
    }

    fn check_packages(packages: Vec<Package>) -> Vec<String> {
        let lock = "[[package]]\nname = \"atty\"\n";
        let mut tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", lock),
            ("crates/a/Cargo.toml", "[package]\n[dependencies]\nhyper = \"1\"\n"),
            ("crates/a/src/lib.rs", "use hyper::Body; use conf::Node; // serde"),
        ]);
        tree.packages = packages;
        tree.packages.push(package("crates/a", &["conf", "serde"]));
        places(&check(&tree))
    }

    #[test]
    fn good_ones_pass() {
        let mut ours = package("crates/a", &["hyper"]);
        ours.dependencies[0].dev = true;
        assert_eq!(check_packages(vec![outside("serde", "MIT OR GPL-3.0", "registry+x"), ours]), [""; 0]);
    }

    #[test]
    fn licences_sources_and_bans_are_found() {
        assert_eq!(check_packages(vec![outside("serde", "GPL-3.0", "registry+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("serde", "MIT", "git+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("atty", "MIT", "registry+x")]), ["Cargo.lock:2"]);
        assert_eq!(check_packages(vec![package("crates/a", &["hyper"])]), ["crates/a/Cargo.toml:3"]);
    }

    #[test]
    fn what_nobody_uses_is_found() {
        let mut tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            ("crates/a/Cargo.toml", "[dependencies]\nconf.workspace = true\nserde-json.workspace = true\n"),
            ("crates/a/src/lib.rs", "use conf::Node; fn my_serde_json() {}"),
        ]);
        tree.packages = vec![package("crates/a", &["conf", "serde-json"])];
        assert_eq!(places(&check(&tree)), ["crates/a/Cargo.toml:3", "Cargo.toml:4"]);
    }

    #[test]
    fn a_line_without_its_own_reason_is_found() {
        let manifest = format!("{MANIFEST}tempfile = \"3\"\n[profile.dev]\ndebug = 1\n");
        let found = reasons(&Tree::of(&[("Cargo.toml", &manifest)]));
        assert_eq!(places(&found), ["Cargo.toml:5"]);
        assert_eq!(reasons(&Tree::of(&[("Cargo.toml", MANIFEST)])), []);
    }
}
