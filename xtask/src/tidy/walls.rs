//! Inside the server, one version of HTTP is named by few files. What all versions and transports share names none.

use super::Finding;
use super::floors::{module_of, resolve};
use crate::syntax;
use crate::tree::{File, Tree};

const SOURCE: &str = "crates/server/src";

/// A version of HTTP, and which files may name it.
struct Wall {
    /// Its crate.
    protocol: &'static str,
    /// The module of the server that speaks it.
    module: &'static str,
    /// Modules that may name both, with the reason.
    open_to: &'static [(&'static str, &'static str)],
}

const WALLS: &[Wall] = &[
    Wall {
        protocol: "h1",
        module: "conn::http1",
        open_to: &[
            ("conn", "its states are those of all versions"),
            ("explain", "a question is a head of HTTP/1, and so is the answer"),
            ("thread", "it keeps the memory of requests that ended"),
        ],
    },
    Wall {
        protocol: "http2",
        module: "conn::h2",
        open_to: &[
            ("conn", "its states are those of all versions"),
            ("conn::http1", "a client in clear may begin with the preface of HTTP/2"),
            ("thread", "it keeps the memory of field lists"),
        ],
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.sources().filter(|file| !tree.is_test_only(&file.path));
    let files: Vec<_> = files.filter_map(|file| Some((module_of(&file.path, SOURCE)?, file))).collect();
    WALLS
        .iter()
        .flat_map(|wall| files.iter().flat_map(|(module, file)| check_file(wall, module, file)))
        .collect()
}

fn check_file(wall: &Wall, module: &[&str], file: &File) -> Vec<Finding> {
    let name = module.join("::");
    if is_in(&name, wall.module) || wall.open_to.iter().any(|(open, _)| *open == name) {
        return Vec::new();
    }
    let Some(ast) = file.ast() else { return Vec::new() };
    let mut found = Vec::new();
    for used in syntax::names(ast) {
        let own = resolve(module, &used.text).map(|path| path.join("::"));
        if is_in(&used.text, wall.protocol) || own.is_some_and(|own| is_in(&own, wall.module)) {
            found.push(Finding::new(
                &file.path,
                used.line,
                format!("`{name}` names `{}`, which only `{}` speaks", used.text, wall.module),
                "move what all versions share into a file below them",
            ));
        }
    }
    found
}

/// Whether a path is this one, or below it.
fn is_in(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const ROOT: (&str, &str) = ("crates/server/src/lib.rs", "mod conn; mod explain;");
    const CONN: (&str, &str) =
        ("crates/server/src/conn/mod.rs", "mod client; mod h2; mod http1; use h1::A; use http1::B;");

    fn check_with(path: &str, text: &str) -> Vec<String> {
        let path = format!("crates/server/src/conn/{path}.rs");
        places(&check(&Tree::of(&[ROOT, CONN, (&path, text)])))
    }

    #[test]
    fn other_files_name_no_version() {
        let path = "crates/server/src/conn";
        assert_eq!(check_with("client", "use h1::A;\nuse http::B;"), [format!("{path}/client.rs:1")]);
        assert_eq!(check_with("client", "fn a() { super::http1::b() }"), [format!("{path}/client.rs:1")]);
        assert_eq!(check_with("h2/mod", "use h1::A;\nuse http2::B;"), [format!("{path}/h2/mod.rs:1")]);
        assert_eq!(check_with("client", "use super::h2::A;"), [format!("{path}/client.rs:1")]);
    }

    #[test]
    fn a_version_names_itself() {
        assert_eq!(check_with("http1/mod", "use h1::A; use super::h2::B; use super::client::C;"), [""; 0]);
        assert_eq!(check_with("h2/mod", "use http2::A; use h1x::B;"), [""; 0]);
    }
}
