//! A type has at most 15 fields, so that it is one thing. Longer ones are listed.

use syn::Item;

use super::Finding;
use crate::syntax::{is_test, item_attributes};
use crate::tree::{File, Tree};

const FIELDS_MAX: usize = 15;

/// Types with more: settings, which are data, and types that are still to be cut. None may be added.
const LONGER: &[(&str, &str)] = &[
    ("crates/contract/src/encryption.rs", "TlsPolicy"),
    ("crates/contract/src/exchange.rs", "Exchange"),
    ("crates/contract/src/loading.rs", "Loading"),
    ("crates/contract/src/policy.rs", "Policy"),
    ("crates/fulmar/src/supervisor.rs", "Supervisor"),
    ("crates/modules/src/apache/mod_autoindex/settings.rs", "Settings"),
    ("crates/modules/src/apache/mod_rewrite/rule.rs", "Flags"),
    ("crates/modules/src/shared/cached/mod.rs", "Cached"),
    ("crates/upstream/src/cache_options.rs", "CacheOptions"),
    ("crates/upstream/src/cache_settings.rs", "CacheSettings"),
    ("crates/upstream/src/options.rs", "Options"),
    ("crates/upstream/src/settings.rs", "Settings"),
    ("crates/upstream/src/shared.rs", "Shared"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.product().filter(|file| file.crate_name().is_some());
    files.flat_map(check_file).chain(check_list(tree)).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let is_listed = |name: &str| LONGER.iter().any(|(path, longer)| *path == file.path && *longer == name);
    let long = long_types(file).into_iter().filter(|long| !is_listed(&long.name));
    long.map(|Long { name, fields, line }| {
        let message = format!("`{name}` has {fields} fields, more than {FIELDS_MAX}");
        Finding::new(&file.path, line, message, "use a type for those that belong together")
    })
    .collect()
}

/// What is listed and is no longer than others.
fn check_list(tree: &Tree) -> impl Iterator<Item = Finding> {
    LONGER.iter().filter_map(|(path, name)| {
        let file = tree.file(path).filter(|file| long_types(file).iter().all(|long| long.name != *name))?;
        let message = format!("`{name}` has few fields");
        Some(Finding::new(&file.path, 1, message, "remove it from the list of xtask/src/tidy/fields.rs"))
    })
}

struct Long {
    name: String,
    fields: usize,
    line: usize,
}

fn long_types(file: &File) -> Vec<Long> {
    let items = file.ast().map(|ast| ast.items.as_slice()).unwrap_or_default();
    let structs = items.iter().filter(|item| !is_test(item_attributes(item))).filter_map(|item| match item {
        Item::Struct(item) => Some(item),
        _ => None,
    });
    let all = structs.map(|item| Long {
        name: item.ident.to_string(),
        fields: item.fields.len(),
        line: item.ident.span().start().line,
    });
    all.filter(|long| long.fields > FIELDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    fn check_one(path: &str, name: &str, fields: usize) -> Vec<String> {
        let fields: String = (0..fields).map(|at| format!("a{at}: u8, ")).collect();
        let code = format!("\nstruct {name} {{ {fields} }}\n#[cfg(test)] struct Other {{ {fields} }}");
        places(&check(&Tree::of(&[(path, &code)])))
    }

    #[test]
    fn long_types_are_found() {
        let path = "crates/server/src/lib.rs";
        assert_eq!(check_one(path, "A", 15), [""; 0]);
        assert_eq!(check_one(path, "A", 16), ["crates/server/src/lib.rs:2"]);
    }

    #[test]
    fn a_listed_type_may_be_longer_until_it_is_short() {
        let path = "crates/fulmar/src/supervisor.rs";
        assert_eq!(check_one(path, "Supervisor", 16), [""; 0]);
        assert_eq!(check_one(path, "Supervisor", 15), [format!("{path}:1")]);
    }
}
