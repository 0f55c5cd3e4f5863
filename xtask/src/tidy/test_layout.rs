//! One integration binary: it links once, and its tests share what starts a server.

use super::Finding;
use crate::tree::Tree;

const ALL: &str = "tests/tests/all.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ours = tree.packages.iter().filter(|package| package.dir.as_deref() == Some("tests"));
    let tests: Vec<&str> = ours
        .flat_map(|package| &package.targets)
        .filter(|target| target.kind == "test")
        .map(|target| target.path.as_str())
        .collect();
    let mut found = Vec::new();
    for path in tests.iter().filter(|path| **path != ALL) {
        found.push(Finding::new(
            path,
            1,
            "a second integration binary",
            "make it a module of tests/tests/all.rs",
        ));
    }
    if !tests.contains(&ALL) {
        found.push(Finding::new(
            ALL,
            1,
            "there is no such file",
            "write the one integration binary, a module an area",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;
    use crate::metadata::{Package, Target};

    fn check_targets(paths: &[&str]) -> Vec<String> {
        let target = |path: &&str| Target { kind: "test".into(), path: (*path).into() };
        let library = Target { kind: "lib".into(), path: "tests/src/lib.rs".into() };
        let targets = paths.iter().map(target).chain([library]).collect();
        let mut tree = Tree::of(&[]);
        tree.packages = vec![Package { dir: Some("tests".into()), targets, ..Package::default() }];
        places(&check(&tree))
    }

    #[test]
    fn one_binary_passes() {
        assert_eq!(check_targets(&[ALL]), [""; 0]);
    }

    #[test]
    fn none_or_a_second_is_found() {
        assert_eq!(check_targets(&[]), ["tests/tests/all.rs:1"]);
        assert_eq!(check_targets(&[ALL, "tests/tests/more.rs"]), ["tests/tests/more.rs:1"]);
    }
}
