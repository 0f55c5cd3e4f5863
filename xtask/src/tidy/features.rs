//! One feature, one file, always in the same order, and one line in the list of features.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::{Item, Type};

use super::Finding;
use crate::syntax::{self, is_test, item_attributes};
use crate::tree::{File, Tree};

const FOLDER: &str = "crates/modules/src/";
const LIST: &str = "crates/modules/src/lib.rs";

/// Lines of product code from which a feature is a folder.
const FILE_LINES_MAX: usize = 400;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file(LIST) else { return Vec::new() };
    let listed = listed(list);
    let features = features(tree);
    let mut found = Vec::new();
    for (name, file) in &features {
        if !listed.contains_key(name) {
            let message = format!("feature {name} is not in the list");
            found.push(Finding::new(
                &file.path,
                1,
                message,
                format!("add `&ROOM::{name}::MODULE` to `ALL` in {LIST}"),
            ));
        }
        found.extend(check_anatomy(file));
    }
    for (name, line) in listed.iter().filter(|(name, _)| !features.contains_key(*name)) {
        let message = format!("the list names {name}, which has no file in {FOLDER}");
        found.push(Finding::new(LIST, *line, message, "use one file a feature"));
    }
    found
}

/// The features by name, each with the file that has its `MODULE`: `room/name.rs` or `room/name/mod.rs`. The room
/// `shared` has none.
fn features(tree: &Tree) -> BTreeMap<String, &File> {
    let named = tree.product().filter_map(|file| {
        let path = file.path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
        let (room, name) = path.strip_suffix("/mod").unwrap_or(path).split_once('/')?;
        (!name.contains('/') && room != "shared").then(|| (name.to_string(), file))
    });
    named.collect()
}

/// The names in `ALL`, with their lines.
fn listed(file: &File) -> BTreeMap<String, usize> {
    let names = file.ast().map(syntax::names).unwrap_or_default();
    let modules = names.into_iter().filter_map(|name| {
        let module = name.text.strip_suffix("::MODULE")?.rsplit("::").next()?.to_string();
        Some((module, name.line))
    });
    modules.collect()
}

/// The parts of a feature, in the order that a reader finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Module,
    Directive,
    Compile,
    Tests,
}

impl Part {
    fn of(item: &Item) -> Option<Part> {
        match item {
            item if is_test(item_attributes(item)) => Some(Part::Tests),
            Item::Static(item) if item.ident == "MODULE" => Some(Part::Module),
            Item::Static(item) if type_name(&item.ty).as_deref() == Some("Directive") => {
                Some(Part::Directive)
            }
            Item::Fn(item) if item.sig.ident == "compile" => Some(Part::Compile),
            _ => None,
        }
    }

    /// What has to stand before it, in words.
    fn after(self) -> &'static str {
        match self {
            Part::Module => "use the order: `//!`, imports, `MODULE`, everything else",
            Part::Directive => "use the order: `MODULE`, directives, values, `compile`, handlers, tests",
            Part::Compile => "put `compile` below the directives and their values",
            Part::Tests => "put the tests last",
        }
    }
}

fn type_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

fn check_anatomy(file: &File) -> Vec<Finding> {
    let Some(ast) = file.ast() else { return Vec::new() };
    let mut found = Vec::new();
    let mut add =
        |line, message: &str, instead: &str| found.push(Finding::new(&file.path, line, message, instead));
    if !file.text.starts_with("//!") {
        add(1, "no `//!` first", "say what the feature does: it becomes its manual page");
    } else if !file.text.lines().any(|line| line.trim_end() == "//! ```conf") {
        add(1, "the `//!` has no ```conf example", "show a configuration that people can copy");
    }
    let items: Vec<&Item> = ast
        .items
        .iter()
        .filter(|item| !matches!(item, Item::Use(_) | Item::Mod(syn::ItemMod { content: None, .. })))
        .collect();
    if !items.iter().any(|item| Part::of(item) == Some(Part::Module)) {
        add(1, "no `MODULE`", "write one, or move what several features share to crates/contract");
    }
    let mut latest: Option<Part> = None;
    for (index, item) in items.iter().enumerate() {
        let Some(part) = Part::of(item) else { continue };
        let last = items[index..].iter().all(|item| Part::of(item) == Some(Part::Tests));
        let early = latest.is_some_and(|latest| part < latest);
        if early || (part == Part::Module && index > 0) || (part == Part::Tests && !last) {
            add(item.span().start().line, "out of order", part.after());
        }
        latest = latest.max(Some(part));
    }
    let tests: usize =
        items.iter().filter(|item| Part::of(item) == Some(Part::Tests)).map(|item| lines_of(item)).sum();
    let length = file.text.lines().count().saturating_sub(tests);
    if length > FILE_LINES_MAX {
        let message = format!("{length} lines of product code, more than {FILE_LINES_MAX}");
        add(1, &message, "use a folder of that name, with `MODULE` in its mod.rs");
    }
    found
}

fn lines_of(item: &Item) -> usize {
    item.span().end().line + 1 - item.span().start().line
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const FEATURE: &str = "\
//! Redirects.
//!
//! ```conf
//! return 301 /a;
//! ```
use contract::Module;

pub static MODULE: Module = Module { name: \"a\" };

static RETURN: Directive<Return> = Directive::new(\"return\", parse);
struct Return;
fn parse() {}
fn compile() {}
struct Handler;
#[cfg(test)]
mod tests {}
";

    fn check_feature(code: &str) -> Vec<String> {
        let list = "mod a;\npub static ALL: &[&Module] = &[&a::MODULE];\n";
        places(&check(&Tree::of(&[(LIST, list), ("crates/modules/src/room/a.rs", code)])))
    }

    #[test]
    fn the_order_passes() {
        assert_eq!(check_feature(FEATURE), [""; 0]);
    }

    #[test]
    fn another_order_is_found() {
        let moved = FEATURE
            .replace("fn compile() {}\n", "")
            .replace("static RETURN", "fn compile() {}\nstatic RETURN");
        assert_eq!(check_feature(&moved), ["crates/modules/src/room/a.rs:11"]);
        let late = FEATURE.replace("pub static MODULE", "struct Early;\npub static MODULE");
        assert_eq!(check_feature(&late), ["crates/modules/src/room/a.rs:9"]);
        assert_eq!(check_feature(&format!("{FEATURE}fn late() {{}}\n")), ["crates/modules/src/room/a.rs:15"]);
    }

    #[test]
    fn the_manual_is_not_forgotten() {
        assert_eq!(check_feature(&FEATURE.replace("```conf", "```")), ["crates/modules/src/room/a.rs:1"]);
        assert_eq!(check_feature(&FEATURE.replace("//!", "//")), ["crates/modules/src/room/a.rs:1"]);
        assert_eq!(
            check_feature(&FEATURE.replace("static MODULE", "static OTHER")),
            ["crates/modules/src/room/a.rs:1"]
        );
    }

    #[test]
    fn list_and_files_agree() {
        let tree = Tree::of(&[
            (LIST, "mod a;\npub static ALL: &[&Module] =\n &[&b::MODULE];\n"),
            ("crates/modules/src/room/a.rs", FEATURE),
        ]);
        assert_eq!(places(&check(&tree)), ["crates/modules/src/room/a.rs:1", "crates/modules/src/lib.rs:3"]);
    }

    #[test]
    fn a_long_feature_is_a_folder() {
        let long = FEATURE.replace("fn parse() {}\n", &"fn parse() {}\n".repeat(400));
        assert_eq!(check_feature(&long), ["crates/modules/src/room/a.rs:1"]);
        let tree = Tree::of(&[
            (LIST, "mod a;\npub static ALL: &[&Module] = &[&a::MODULE];\n"),
            ("crates/modules/src/room/a/mod.rs", &FEATURE.replace("fn parse() {}", "mod parse;")),
            ("crates/modules/src/room/a/parse.rs", "fn parse() {}\n"),
        ]);
        assert_eq!(check(&tree), []);
    }
}
