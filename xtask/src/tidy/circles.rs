//! Files of a crate do not import each other in a circle. A file may import from its parent; that does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::floors::{module_of, resolve};
use crate::syntax;
use crate::tree::Tree;

/// The crates that are checked.
const SOURCES: [&str; 5] = [
    "crates/engine/src",
    "crates/modules/src",
    "crates/server/src",
    "crates/site/src",
    "crates/upstream/src",
];

/// A module that others may import in a circle, and why.
struct Recursive {
    /// The folder of its crate's sources.
    source: &'static str,
    /// Its path below the crate root.
    module: &'static str,
    reason: &'static str,
}

const RECURSIVE: &[Recursive] = &[
    Recursive {
        source: "crates/engine/src",
        module: "inner",
        reason: "a request may wait for other requests, which are requests in turn",
    },
    Recursive {
        source: "crates/engine/src",
        module: "detached",
        reason: "a request may start other requests, which are requests in turn",
    },
    Recursive {
        source: "crates/modules/src",
        module: "gateway::proxy::handler",
        reason: "the handler is its settings, which all parts of a conversation read",
    },
    Recursive {
        source: "crates/modules/src",
        module: "logging::access_log::line",
        reason: "an object in JSON is a line, and escapes its values as other lines do",
    },
    Recursive {
        source: "crates/modules/src",
        module: "transform::ssi::in_apache",
        reason: "a page may have Apache's commands, which add to what the page is",
    },
    Recursive {
        source: "crates/modules/src",
        module: "transform::ssi::source",
        reason: "a page may include pages, which are pages in turn",
    },
];

const THIS_FILE: &str = "xtask/src/tidy/circles.rs";

/// The imports of one module: the line of the first import of each other module.
struct Module {
    path: String,
    imports: BTreeMap<String, usize>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    SOURCES.iter().flat_map(|source| check_crate(tree, source)).collect()
}

fn check_crate(tree: &Tree, source: &str) -> Vec<Finding> {
    let modules = modules(tree, source);
    let listed = RECURSIVE.iter().filter(|listed| listed.source == source);
    let idle: Vec<_> = listed.clone().filter_map(|listed| unused(tree, &modules, listed)).collect();
    let listed: BTreeSet<&str> = listed.map(|listed| listed.module).collect();
    let is_counted = |target: &String| !listed.contains(target.as_str());
    let counted = modules.into_iter().map(|(name, Module { path, imports })| {
        let imports = imports.into_iter().filter(|(target, _)| is_counted(target)).collect();
        (name, Module { path, imports })
    });
    circles(&counted.collect()).into_iter().chain(idle).collect()
}

/// A listed module that is in no circle.
fn unused(tree: &Tree, modules: &BTreeMap<String, Module>, listed: &Recursive) -> Option<Finding> {
    let name = listed.module;
    let module = modules.get(name)?;
    if module.imports.keys().any(|target| way(modules, target, name).is_some()) {
        return None;
    }
    let list = tree.file(THIS_FILE)?;
    let line = list.line_where(|line| line.contains(&format!("\"{name}\"")));
    let message = format!("`{name}` is in no circle, although {}", listed.reason);
    Some(Finding::new(THIS_FILE, line, message, "remove it from the list"))
}

/// All modules of a crate, with what they import.
fn modules(tree: &Tree, source: &str) -> BTreeMap<String, Module> {
    let files = tree.sources().filter(|file| !tree.is_test_only(&file.path));
    let files: Vec<_> = files.filter_map(|file| Some((module_of(&file.path, source)?, file))).collect();
    let known: BTreeSet<String> = files.iter().map(|(module, _)| module.join("::")).collect();
    let mut modules = BTreeMap::new();
    for (module, file) in &files {
        let Some(ast) = file.ast() else { continue };
        let name = module.join("::");
        let mut imports = BTreeMap::new();
        for found in syntax::names(ast) {
            let Some(target) = resolve(module, &found.text).and_then(|path| home(path, &known)) else {
                continue;
            };
            let is_parent = name == target || name.starts_with(&format!("{target}::"));
            if !is_parent {
                imports.entry(target).or_insert(found.line);
            }
        }
        // A module contains its children, also where it imports nothing from them.
        let is_child = |other: &&String| other.rsplit_once("::").is_some_and(|(parent, _)| parent == name);
        known.iter().filter(is_child).for_each(|child| {
            imports.entry(child.clone()).or_insert(1);
        });
        modules.insert(name, Module { path: file.path.clone(), imports });
    }
    modules
}

/// The file that a path below the crate root leads into.
fn home(mut path: Vec<&str>, known: &BTreeSet<String>) -> Option<String> {
    while !path.is_empty() {
        let name = path.join("::");
        if known.contains(&name) {
            return Some(name);
        }
        path.pop();
    }
    None
}

/// Each import that leads back to where it stands.
fn circles(modules: &BTreeMap<String, Module>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, module) in modules {
        for (target, line) in &module.imports {
            let Some(way) = way(modules, target, name) else { continue };
            found.push(Finding::new(
                &module.path,
                *line,
                format!("`{target}` imports `{name}`, by {}", way.join(" → ")),
                "move what both need into a file below them",
            ));
        }
    }
    found
}

/// A way along imports, with both ends.
fn way(modules: &BTreeMap<String, Module>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last()?;
            if last == to {
                return Some(way);
            }
            for next in modules.get(last).into_iter().flat_map(|module| module.imports.keys()) {
                if seen.insert(next.clone()) {
                    longer.push(way.iter().chain([next]).cloned().collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const ROOT: (&str, &str) = ("crates/site/src/lib.rs", "mod a; mod b; mod c;");

    fn check_three(a: &str, b: &str, c: &str) -> Vec<String> {
        let [a, b, c] =
            [("a", a), ("b", b), ("c", c)].map(|(name, text)| (format!("crates/site/src/{name}.rs"), text));
        let files = [ROOT, (&a.0, a.1), (&b.0, b.1), (&c.0, c.1)];
        places(&check(&Tree::of(&files)))
    }

    #[test]
    fn imports_in_one_direction_are_no_circle() {
        assert_eq!(
            check_three("use crate::b::B; use crate::c::C;", "use crate::c::C;", "use std::a::b;"),
            [""; 0]
        );
    }

    #[test]
    fn each_import_of_a_circle_is_found() {
        let found = check_three("use crate::b::B;", "\nuse super::c::C;", "fn d() { crate::a::e() }");
        assert_eq!(found, ["crates/site/src/a.rs:1", "crates/site/src/b.rs:2", "crates/site/src/c.rs:1"]);
    }

    #[test]
    fn tests_may_import_in_circles() {
        let tests = "#[cfg(test)] mod tests { use crate::a::A; }";
        assert_eq!(check_three("use crate::b::B;", tests, ""), [""; 0]);
    }

    #[test]
    fn child_may_import_from_its_parent() {
        let child = |text| ("crates/site/src/a/d.rs", text);
        let a = ("crates/site/src/a.rs", "mod d; use d::D;");
        let b = ("crates/site/src/b.rs", "use crate::a::A;");
        let check = |text| places(&check(&Tree::of(&[ROOT, a, b, child(text)])));
        assert_eq!(check("use super::A;"), [""; 0]);
        assert_eq!(check("use crate::b::B;").len(), 3, "a contains d, d imports b, b imports a");
    }

    #[test]
    fn recursive_module_may_be_imported_from_anywhere() {
        let root = ("crates/engine/src/lib.rs", "mod inner; mod doing;");
        let inner = ("crates/engine/src/inner.rs", "use crate::doing::A;");
        let doing = ("crates/engine/src/doing.rs", "use crate::inner::B;");
        assert_eq!(check(&Tree::of(&[root, inner, doing])), []);
    }

    #[test]
    fn listed_module_without_a_circle_is_found() {
        let root = ("crates/engine/src/lib.rs", "mod inner; mod doing;");
        let inner = ("crates/engine/src/inner.rs", "use crate::doing::A;");
        let doing = ("crates/engine/src/doing.rs", "");
        let list = (THIS_FILE, "\n\"inner\"");
        assert_eq!(places(&check(&Tree::of(&[root, inner, doing, list]))), [format!("{THIS_FILE}:2")]);
    }
}
