//! No module merges the levels of a configuration by hand: `View::get` and `View::all` apply the rule that a directive
//! names. Only the files of this list walk the levels, because the rule of nginx or Apache is none of them.

use super::Finding;
use crate::tree::{File, Tree};

const FOLDER: &str = "crates/modules/src/";

/// The files that may walk the levels, and why.
const PLACES: &[(&str, &str)] = &[
    ("crates/modules/src/gateway/upstream/mod.rs", "finds the `http` block, and inherits nothing"),
    (
        "crates/modules/src/transform/headers/mod.rs",
        "another directive decides at each level what is inherited",
    ),
    (
        "crates/modules/src/apache/mod_rewrite/mod.rs",
        "`RewriteOptions` decides at each level what is inherited",
    ),
    (
        "crates/modules/src/apache/mod_autoindex/settings.rs",
        "`+` and `-` change the options of the level around",
    ),
    (
        "crates/modules/src/apache/apache_core/etag.rs",
        "signs add to what outer directories name, and to what they add",
    ),
    (
        "crates/modules/src/apache/htaccess/overrides.rs",
        "a location's settings count for directories, not for requests",
    ),
    ("crates/modules/src/apache/mod_alias.rs", "the redirects of the innermost directory come first"),
    ("crates/modules/src/apache/mod_mime/mod.rs", "what a directory takes away goes after what it adds"),
    ("crates/modules/src/apache/mod_env.rs", "`UnsetEnv` takes back what outer directories set"),
    (
        "crates/modules/src/apache/mod_access_compat.rs",
        "a directory that has one of its directives inherits none of the others",
    ),
    (
        "crates/modules/src/apache/mod_authz_core/mod.rs",
        "`AuthMerging` decides at each level what is inherited",
    ),
    (
        "crates/modules/src/apache/mod_substitute.rs",
        "`SubstituteInheritBefore` decides at each level what is inherited",
    ),
];

/// What walks the levels of a view.
const CALLS: [&str; 2] = [".enclosing()", "view.levels()"];

const THIS_FILE: &str = "xtask/src/tidy/inheritance.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_listed = |file: &File| PLACES.iter().any(|(path, _)| *path == file.path);
    let modules = tree.product().filter(|file| file.path.starts_with(FOLDER));
    let used =
        modules.filter(|file| !is_listed(file)).filter_map(|file| Some((&file.path, first_use(file)?)));
    let used = used.map(|(path, line)| {
        let instead =
            format!("name a `Rule` in the directive, and use `View::all`; else list the file in {THIS_FILE}");
        Finding::new(path, line, "a module walks the levels of the configuration", instead)
    });
    let listed = PLACES.iter().filter_map(|(path, _)| tree.file(path));
    let unused = listed.filter(|file| first_use(file).is_none()).map(|file| {
        let line = tree.file(THIS_FILE).map_or(1, |list| list.line_where(|line| line.contains(&file.path)));
        let message = format!("{} does not walk the levels of the configuration", file.path);
        Finding::new(THIS_FILE, line, message, "remove it from the list")
    });
    used.chain(unused).collect()
}

fn first_use(file: &File) -> Option<usize> {
    file.lines().find(|(_, line)| CALLS.iter().any(|call| line.contains(call))).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn modules_walk_the_levels_where_the_list_says() {
        let code = "fn a(view: View<'_>) {\n    view.levels().flat_map(|level| level.here(&A)); }";
        let found = check(&Tree::of(&[
            ("crates/modules/src/lib.rs", "mod a; mod apache;"),
            ("crates/modules/src/a.rs", code),
            ("crates/modules/src/apache/mod.rs", "mod mod_alias;"),
            ("crates/modules/src/apache/mod_alias.rs", code),
            ("crates/site/src/lib.rs", code),
        ]));
        assert_eq!(places(&found), ["crates/modules/src/a.rs:2"]);
    }

    #[test]
    fn a_listed_file_that_does_not_is_found() {
        let tree = Tree::of(&[
            ("crates/modules/src/lib.rs", "mod apache;"),
            ("crates/modules/src/apache/mod.rs", "mod mod_alias;"),
            ("crates/modules/src/apache/mod_alias.rs", "fn a() {}"),
            (THIS_FILE, "\n    \"crates/modules/src/apache/mod_alias.rs\","),
        ]);
        assert_eq!(places(&check(&tree)), [format!("{THIS_FILE}:2")]);
    }
}
