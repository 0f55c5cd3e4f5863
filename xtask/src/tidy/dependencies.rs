//! Third parties: their licences, where they come from, which ones not to use, and a reason for each.

use super::{Finding, spdx};
use crate::metadata::Package;
use crate::tree::Tree;

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

/// Each third party's line of `[workspace.dependencies]` has a comment of its own above it.
fn reasons(tree: &Tree) -> Vec<Finding> {
    let Some(manifest) = tree.file("Cargo.toml") else { return Vec::new() };
    let mut found = Vec::new();
    let mut inside = false;
    let mut explained = false;
    for (number, line) in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if inside && line.starts_with(|c: char| c.is_ascii_alphanumeric()) && !line.contains("path = ")
        {
            let name = line.split([' ', '=', '.']).next().unwrap_or_default();
            if !explained {
                let message = format!("{name} without a reason");
                found.push(Finding::new(
                    "Cargo.toml",
                    number,
                    message,
                    "use a comment above it that says what it is for",
                ));
            }
        }
        explained = line.starts_with('#');
    }
    found
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

    fn check_packages(packages: Vec<Package>) -> Vec<String> {
        let lock = "[[package]]\nname = \"atty\"\n";
        let mut tree = Tree::of(&[
            ("Cargo.toml", MANIFEST),
            ("Cargo.lock", lock),
            ("crates/a/Cargo.toml", "[package]\n[dependencies]\nhyper = \"1\"\n"),
        ]);
        tree.packages = packages;
        places(&check(&tree))
    }

    #[test]
    fn good_ones_pass() {
        let ours = Package {
            dir: Some("crates/a".into()),
            dependencies: vec![Dependency { name: "hyper".into(), dev: true }],
            ..Package::default()
        };
        assert_eq!(check_packages(vec![outside("serde", "MIT OR GPL-3.0", "registry+x"), ours]), [""; 0]);
    }

    #[test]
    fn licences_sources_and_bans_are_found() {
        assert_eq!(check_packages(vec![outside("serde", "GPL-3.0", "registry+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("serde", "MIT", "git+x")]), ["Cargo.toml:4"]);
        assert_eq!(check_packages(vec![outside("atty", "MIT", "registry+x")]), ["Cargo.lock:2"]);
        let ours = Package {
            dir: Some("crates/a".into()),
            dependencies: vec![Dependency { name: "hyper".into(), dev: false }],
            ..Package::default()
        };
        assert_eq!(check_packages(vec![ours]), ["crates/a/Cargo.toml:3"]);
    }

    #[test]
    fn a_line_without_its_own_reason_is_found() {
        let manifest = format!("{MANIFEST}tempfile = \"3\"\n[profile.dev]\ndebug = 1\n");
        let found = reasons(&Tree::of(&[("Cargo.toml", &manifest)]));
        assert_eq!(places(&found), ["Cargo.toml:5"]);
        assert_eq!(reasons(&Tree::of(&[("Cargo.toml", MANIFEST)])), []);
    }
}
