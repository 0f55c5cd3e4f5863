//! Functions of at most 70 lines and 5 arguments (members of tuples count), files of at most 800 lines of product code,
//! crates of at most three features. In `tests/` a table of requests may be as long as it needs.

use syn::spanned::Spanned;

use super::Finding;
use crate::syntax::{self, Function, is_test, item_attributes};
use crate::tree::{File, Tree};

const FUNCTION_LINES_MAX: usize = 70;
const ARGUMENTS_MAX: usize = 5;

/// Functions that take more by tuples, from before those were counted. None may be added.
const TUPLES_TAKEN: &[(&str, &str)] = &[
    ("crates/http/src/memo.rs", "append"),
    ("crates/engine/src/sending.rs", "poll_source"),
    ("crates/site/src/listens.rs", "socket_option"),
];

const FILE_LINES_MAX: usize = 800;
const FEATURES_MAX: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = || tree.sources().filter(|file| !file.path.starts_with("tests/"));
    let functions = sources().flat_map(check_functions);
    let files = sources().filter_map(check_length);
    functions.chain(files).chain(check_tuples_taken(tree)).chain(check_features(tree)).collect()
}

fn check_functions(file: &File) -> Vec<Finding> {
    let Some(ast) = file.ast() else { return Vec::new() };
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for function in syntax::functions(ast) {
        let (open, close) = function.body;
        let body = lines.get(open..close.saturating_sub(1)).unwrap_or_default();
        let length = body.iter().map(|line| line.trim()).filter(|line| is_code(line)).count();
        if length > FUNCTION_LINES_MAX {
            let message =
                format!("`{}` has {length} lines of code, more than {FUNCTION_LINES_MAX}", function.name);
            found.push(Finding::new(&file.path, function.line, message, "use functions for its leaves"));
        }
        let is_taken = TUPLES_TAKEN.contains(&(file.path.as_str(), function.name.as_str()));
        if is_many(&function) && !is_taken {
            let message = format!(
                "`{}` takes {} arguments, more than {ARGUMENTS_MAX}",
                function.name, function.arguments
            );
            found.push(Finding::new(&file.path, function.line, message, "use a struct with named fields"));
        }
    }
    found
}

fn is_many(function: &Function) -> bool {
    function.arguments > ARGUMENTS_MAX && !function.of_trait
}

/// What is listed and takes no more than others.
fn check_tuples_taken(tree: &Tree) -> impl Iterator<Item = Finding> {
    let stays = |file: &File, name: &str| {
        let functions = file.ast().map(syntax::functions).unwrap_or_default();
        functions.iter().any(|function| function.name == name && is_many(function))
    };
    TUPLES_TAKEN.iter().filter_map(move |(path, name)| {
        let file = tree.file(path).filter(|file| !stays(file, name))?;
        let message = format!("`{name}` takes few arguments");
        Some(Finding::new(&file.path, 1, message, "remove it from the list of xtask/src/tidy/limits.rs"))
    })
}

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// The lines of a file without its tests.
pub(super) fn product_lines(file: &File) -> usize {
    let tests = file.ast().map_or(0, |ast| {
        let items = ast.items.iter().filter(|item| is_test(item_attributes(item)));
        items.map(|item| item.span().end().line + 1 - item.span().start().line).sum()
    });
    file.text.lines().count().saturating_sub(tests)
}

fn check_length(file: &File) -> Option<Finding> {
    let length = product_lines(file);
    let message = format!("{length} lines of product code, more than {FILE_LINES_MAX}");
    (length > FILE_LINES_MAX)
        .then(|| Finding::new(&file.path, 1, message, "use a folder of that name with a file for each type"))
}

fn check_features(tree: &Tree) -> impl Iterator<Item = Finding> {
    let ours = tree.packages.iter().filter(|package| package.dir.is_some());
    ours.filter(|package| package.features.len() > FEATURES_MAX).map(|package| {
        let path = package.manifest();
        let line = tree.file(&path).map_or(1, |file| file.line_where(|line| line.starts_with("[features]")));
        let message = format!("{} cargo features, more than {FEATURES_MAX}", package.features.len());
        Finding::new(&path, line, message, "use configuration, which is chosen without a compiler")
    })
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;
    use crate::metadata::Package;

    fn check_one(code: &str) -> Vec<String> {
        places(&check(&Tree::of(&[("crates/a/src/lib.rs", code)])))
    }

    #[test]
    fn long_functions_are_found_but_comments_and_blank_lines_are_free() {
        let body = "    b();\n".repeat(70);
        assert_eq!(check_one(&format!("fn a() {{\n{body}\n    // why\n}}\n")), [""; 0]);
        assert_eq!(check_one(&format!("\nfn a() {{\n{body}    b();\n}}\n")), ["crates/a/src/lib.rs:2"]);
    }

    #[test]
    fn many_arguments_are_found_where_the_author_chose_them() {
        assert_eq!(check_one("impl A { fn a(&self, b: u8, c: u8, d: u8, e: u8) {} }"), [""; 0]);
        assert_eq!(
            check_one("impl A { fn a(&self, b: u8, c: u8, d: u8, e: u8, f: u8) {} }"),
            ["crates/a/src/lib.rs:1"]
        );
        assert_eq!(
            check_one("fn a(b: (u8, u8, u8), (c, d, e): &(u8, u8, u8)) {}"),
            ["crates/a/src/lib.rs:1"]
        );
        assert_eq!(check_one("impl T for A { fn a(&self, b: u8, c: u8, d: u8, e: u8, f: u8) {} }"), [""; 0]);
    }

    #[test]
    fn long_files_are_found_and_tests_are_not_counted() {
        let code = "const A: u8 = 1;\n".repeat(800);
        assert_eq!(check_one(&format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n")), [""; 0]);
        assert_eq!(check_one(&format!("{code}const B: u8 = 1;\n")), ["crates/a/src/lib.rs:1"]);
    }

    #[test]
    fn a_crate_has_three_features_at_most() {
        let with = |count: usize| {
            let features = vec!["f".to_string(); count];
            let mut tree = Tree::of(&[("crates/a/Cargo.toml", "[package]\n[features]\n")]);
            tree.packages = vec![Package { dir: Some("crates/a".into()), features, ..Package::default() }];
            places(&check(&tree))
        };
        assert_eq!(with(3), [""; 0]);
        assert_eq!(with(4), ["crates/a/Cargo.toml:2"]);
    }
}
