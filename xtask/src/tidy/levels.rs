//! Crates depend only on crates of a lower level, nothing that ships depends on the tools, and
//! ARCHITECTURE.md names every crate.

use super::Finding;
use crate::metadata::Package;
use crate::tree::Tree;

/// The level of each crate. A crate that is not here has no place yet: give it one.
const LEVELS: &[(&str, u8)] = &[
    ("field_codes", 0),
    ("http", 0),
    ("conf", 1),
    ("h1", 1),
    ("http2", 1),
    ("http3", 1),
    ("dns", 1),
    ("fcgi", 1),
    ("net", 1),
    ("proxy_protocol", 1),
    ("journal", 2),
    ("lint", 2),
    ("migrate", 2),
    ("policy", 2),
    ("tls", 2),
    ("acme", 3),
    ("cache", 3),
    ("inputs", 3),
    ("quic", 3),
    ("wire", 3),
    ("contract", 4),
    ("site", 5),
    ("upstream", 5),
    ("modules", 6),
    ("engine", 6),
    ("server", 7),
    ("fulmar", 8),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in tree.packages.iter().filter(|package| package.is_product()) {
        found.extend(check_crate(tree, package));
        let map = tree.file("ARCHITECTURE.md").map_or("", |file| &file.text);
        if !map.contains(&format!("`{}`", package.name)) && !map.contains(&format!("crates/{}", package.name))
        {
            let message = format!("crate {} is not on the map", package.name);
            found.push(Finding::new(
                "ARCHITECTURE.md",
                1,
                message,
                "say there what it holds and may never do",
            ));
        }
    }
    found
}

fn check_crate(tree: &Tree, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest();
    let line =
        |name: &str| tree.file(&manifest).map_or(1, |file| file.line_where(|line| line.starts_with(name)));
    let Some(level) = level(&package.name) else {
        let message = format!("crate {} has no level", package.name);
        return vec![Finding::new(
            &manifest,
            line("name"),
            message,
            "give it one in xtask/src/tidy/levels.rs",
        )];
    };
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        let ours = tree.packages.iter().find(|other| other.dir.is_some() && other.name == *dependency);
        let Some(ours) = ours else { continue };
        let message = match self::level(&ours.name) {
            _ if !ours.is_product() => format!("{} depends on the tool {}", package.name, ours.name),
            Some(below) if below >= level => {
                format!("{} (level {level}) depends on {} (level {below})", package.name, ours.name)
            }
            _ => continue,
        };
        let instead = "use a crate of a lower level, or move what is needed down";
        found.push(Finding::new(&manifest, line(&ours.name), message, instead));
    }
    found
}

fn level(name: &str) -> Option<u8> {
    LEVELS.iter().copied().find(|(known, _)| *known == name).map(|(_, level)| level)
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn package(dir: &str, uses: &[&str]) -> Package {
        let name = dir.rsplit('/').next().unwrap().into();
        let dependencies = uses.iter().map(|name| (*name).into()).collect();
        Package { name, dir: Some(dir.into()), dependencies, ..Package::default() }
    }

    fn tree(map: &str, packages: Vec<Package>) -> Tree {
        let mut tree = Tree::of(&[
            ("ARCHITECTURE.md", map),
            ("crates/conf/Cargo.toml", "[package]\nname = \"conf\"\n[dependencies]\nserver.workspace = true"),
        ]);
        tree.packages = packages;
        tree
    }

    #[test]
    fn downwards_is_fine() {
        let packages = vec![package("crates/conf", &["http", "memchr"]), package("crates/http", &[])];
        assert_eq!(check(&tree("`conf` and `http`", packages)), []);
    }

    #[test]
    fn upwards_sideways_and_to_the_tools_is_not() {
        let packages = vec![
            package("crates/conf", &["server", "h1"]),
            package("crates/server", &["xtask"]),
            package("crates/h1", &[]),
            package("xtask", &[]),
        ];
        let found = check(&tree("`conf` `server` `h1`", packages));
        assert_eq!(
            places(&found),
            ["crates/conf/Cargo.toml:4", "crates/conf/Cargo.toml:1", "crates/server/Cargo.toml:1"]
        );
    }

    /// HTTP/3 is bytes in and out, so it cannot use what drives QUIC.
    #[test]
    fn a_protocol_does_not_use_its_driver() {
        let packages =
            vec![package("crates/http3", &["field_codes", "quic"]), package("crates/quic", &["tls"])];
        let packages = packages
            .into_iter()
            .chain(["field_codes", "tls"].map(|name| package(&format!("crates/{name}"), &[])));
        let found = check(&tree("`http3` `quic` `field_codes` `tls`", packages.collect()));
        assert_eq!(places(&found), ["crates/http3/Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_has_a_level_and_a_place_on_the_map() {
        let found = check(&tree("nothing", vec![package("crates/conf", &[]), package("crates/other", &[])]));
        assert_eq!(places(&found), ["ARCHITECTURE.md:1", "crates/other/Cargo.toml:1", "ARCHITECTURE.md:1"]);
    }
}
