//! A type has at most 15 fields, so that it is one thing. Longer types are data, and are listed with the reason.

use syn::Item;

use super::Finding;
use crate::syntax::{is_test, item_attributes};
use crate::tree::{File, Tree};

const FIELDS_MAX: usize = 15;

const A_SETTING_A_FIELD: &str = "a field a setting, written at load and only read afterwards";

const A_DIRECTIVE_A_FIELD: &str = "a field a directive: the keys that a protocol's settings are read by";

const A_FLAG_A_FIELD: &str = "a field a flag of a directive, independent of each other";

/// Types with more fields: path, name, and why it is so. None may be added.
const LONGER: &[(&str, &str, &str)] = &[
    ("crates/contract/src/encryption.rs", "TlsPolicy", A_SETTING_A_FIELD),
    ("crates/contract/src/policy.rs", "Policy", A_SETTING_A_FIELD),
    ("crates/modules/src/apache/mod_autoindex/settings.rs", "Settings", A_SETTING_A_FIELD),
    ("crates/modules/src/apache/mod_rewrite/rule.rs", "Flags", A_FLAG_A_FIELD),
    ("crates/upstream/src/options.rs", "Options", A_DIRECTIVE_A_FIELD),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.product().filter(|file| file.crate_name().is_some());
    files.flat_map(check_file).chain(check_list(tree)).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let is_listed = |name: &str| LONGER.iter().any(|(path, longer, _)| *path == file.path && *longer == name);
    let long = long_types(file).into_iter().filter(|long| !is_listed(&long.name));
    long.map(|Long { name, fields, line }| {
        let message = format!("`{name}` has {fields} fields, more than {FIELDS_MAX}");
        Finding::new(&file.path, line, message, "use a type for those that belong together")
    })
    .collect()
}

/// What is listed and is no longer than others.
fn check_list(tree: &Tree) -> impl Iterator<Item = Finding> {
    LONGER.iter().filter_map(|(path, name, _)| {
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
        let path = "crates/contract/src/policy.rs";
        assert_eq!(check_one(path, "Policy", 16), [""; 0]);
        assert_eq!(check_one(path, "Policy", 15), [format!("{path}:1")]);
    }
}
