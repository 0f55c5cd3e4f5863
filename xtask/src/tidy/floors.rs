//! Inside a crate, a file imports from its own floor and from lower ones. The floors of a crate are data.
//!
//! Tests may import from any floor.

use std::collections::BTreeSet;

use super::Finding;
use crate::syntax;
use crate::tree::{File, Tree};

/// A crate whose modules have floors.
struct House {
    /// The folder of its sources.
    source: &'static str,
    /// The lowest floor first.
    floors: &'static [Floor],
}

/// Modules of one height.
struct Floor {
    name: &'static str,
    /// Paths below the crate root. Where two match, the longer one counts: `["conn", "conn::h1"]`.
    modules: &'static [&'static str],
}

/// The crates that are checked. To add one, list all modules of its root. A floor says what
/// may be known where; [`circles`](super::circles) says that no two files of one floor need each other.
const HOUSES: &[House] = &[
    House {
        source: "crates/engine/src",
        floors: &[
            Floor { name: "rules", modules: &["cold", "keepalive", "limit", "redirect", "served"] },
            Floor { name: "pace", modules: &["pace"] },
            Floor { name: "pages", modules: &["error_page"] },
            Floor { name: "pipeline", modules: &["pipeline"] },
            // A request waits for requests inside of it.
            Floor {
                name: "request",
                modules: &[
                    "collecting",
                    "detached",
                    "doing",
                    "end",
                    "hints",
                    "inner",
                    "request",
                    "sending",
                    "tunnel",
                ],
            },
        ],
    },
    House {
        source: "crates/modules/src",
        floors: &[
            Floor { name: "shared", modules: &["shared"] },
            Floor {
                name: "features that need no other",
                modules: &["files::root", "limits", "logging::error_log", "transform", "values"],
            },
            Floor { name: "opening files", modules: &["files::open_file_cache", "files::symlinks"] },
            Floor {
                name: "upstream servers",
                modules: &["gateway::resolver", "gateway::upstream", "gateway::upstream_deny"],
            },
            Floor {
                name: "handlers",
                modules: &[
                    "authorization",
                    "connection",
                    "files",
                    "gateway",
                    "logging",
                    "rewriting",
                    "stream",
                ],
            },
            // `.htaccess` files change how the features below serve, by settings in `shared::per_directory`.
            Floor { name: "apache", modules: &["apache"] },
            // `.htaccess` files also name filters that compress.
            Floor { name: "compression", modules: &["transform::coding"] },
        ],
    },
    House {
        source: "crates/server/src",
        floors: &[
            Floor {
                name: "parts",
                modules: &[
                    "commands",
                    "event_loop",
                    "datagram_routes",
                    "datagram_sessions",
                    "places",
                    "pulse",
                    "services",
                    "spare_memory",
                    "successor",
                ],
            },
            Floor { name: "tasks of a thread", modules: &["task_table", "logs", "watchdog"] },
            Floor { name: "thread", modules: &["conn", "detached", "receiving", "task", "tasks", "thread"] },
            Floor { name: "explain", modules: &["adoption", "explain", "neighbours"] },
            Floor { name: "worker", modules: &["worker"] },
        ],
    },
    House {
        source: "crates/site/src",
        floors: &[
            Floor {
                name: "parts",
                modules: &["builder", "certificates", "protocols", "scope_change", "unbuilt"],
            },
            Floor { name: "plan", modules: &["encryption", "layers", "plan"] },
            Floor { name: "what serves", modules: &["hosts", "locations", "scopes", "server"] },
            // The compiler knows no configuration language.
            Floor { name: "compiler", modules: &["compiler"] },
            Floor { name: "listens", modules: &["listens"] },
            Floor { name: "structure", modules: &["addresses", "agreement", "structure"] },
            Floor { name: "reader", modules: &["load"] },
            Floor { name: "languages", modules: &["apache", "nginx"] },
            Floor { name: "site", modules: &["languages", "overlay", "site", "testing"] },
        ],
    },
    House {
        source: "crates/upstream/src",
        floors: &[
            Floor {
                name: "parts",
                modules: &[
                    "attempts",
                    "bind",
                    "client_tls",
                    "conf_command",
                    "crc32",
                    "denied",
                    "failures",
                    "ignored",
                    "kind",
                    "names",
                    "option",
                    "patience",
                    "random",
                    "server",
                    "sticky",
                    "timing",
                ],
            },
            Floor {
                name: "settings",
                modules: &[
                    "cache_options",
                    "cache_purge",
                    "cache_settings",
                    "options",
                    "settings",
                    "store_options",
                    "tls_options",
                ],
            },
            Floor { name: "dialogue", modules: &["dialogue", "failure"] },
            Floor {
                name: "group",
                modules: &["group", "live", "members", "method", "peer_state", "peers", "resolver", "tier"],
            },
            Floor { name: "lease", modules: &["balance", "registry", "renewal", "secured", "upload"] },
            Floor { name: "pool", modules: &["call", "pool", "shared"] },
            Floor { name: "line", modules: &["line"] },
            Floor { name: "conversation", modules: &["conversation"] },
            Floor { name: "datagrams", modules: &["datagrams"] },
        ],
    },
    House {
        source: "lab/src",
        floors: &[
            Floor { name: "model", modules: &["model"] },
            Floor { name: "measure", modules: &["measure"] },
            Floor { name: "judge", modules: &["judge"] },
            Floor { name: "show", modules: &["show"] },
        ],
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    HOUSES.iter().flat_map(|house| check_house(tree, house)).collect()
}

fn check_house(tree: &Tree, house: &House) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut homeless = BTreeSet::new();
    for file in tree.sources().filter(|file| !tree.is_test_only(&file.path)) {
        let Some(module) = module_of(&file.path, house.source) else { continue };
        match house.height(&module) {
            Some(height) => found.extend(check_file(file, house, &module, height)),
            None if homeless.insert(module[0]) => found.push(Finding::new(
                &file.path,
                1,
                format!("module `{}` has no floor", module[0]),
                "give it one in xtask/src/tidy/floors.rs",
            )),
            None => {}
        }
    }
    found
}

fn check_file(file: &File, house: &House, module: &[&str], height: usize) -> Vec<Finding> {
    let Some(ast) = file.ast() else { return Vec::new() };
    let mut found = Vec::new();
    for name in syntax::names(ast) {
        let Some(target) = resolve(module, &name.text) else { continue };
        let (message, instead) = match house.height(&target) {
            Some(above) if above > height => {
                let [here, there] = [height, above].map(|height| house.floors[height].name);
                let message = format!("floor {here} imports `{}` of floor {there}", target.join("::"));
                (message, "move what is needed down, or the caller up")
            }
            None if target.len() == 1 && !name.text.ends_with('!') => {
                (format!("`{}` is an item of the crate root", name.text), "use the path of its module")
            }
            _ => continue,
        };
        found.push(Finding::new(&file.path, name.line, message, instead));
    }
    found
}

impl House {
    /// The floor of a path below the crate root, counted from the lowest.
    fn height(&self, path: &[&str]) -> Option<usize> {
        let heights = self.floors.iter().enumerate();
        let modules =
            heights.flat_map(|(height, floor)| floor.modules.iter().map(move |name| (*name, height)));
        let matching = modules.filter(|(name, _)| {
            let mut path = path.iter();
            name.split("::").all(|segment| path.next() == Some(&segment))
        });
        matching.max_by_key(|(name, _)| name.len()).map(|(_, height)| height)
    }
}

/// The path of a file's module below the crate root; none for the root and for files of other crates.
pub(super) fn module_of<'a>(path: &'a str, source: &str) -> Option<Vec<&'a str>> {
    let path = path.strip_prefix(source)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    (path != "lib" && path != "main").then(|| path.split('/').collect())
}

/// A name of the own crate as a path below the crate root; none for other names.
pub(super) fn resolve<'a>(module: &[&'a str], name: &'a str) -> Option<Vec<&'a str>> {
    let mut segments = name.split("::").peekable();
    let mut path = match *segments.peek()? {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    while let Some(first) = segments.next_if(|segment| matches!(*segment, "crate" | "self" | "super")) {
        if first == "super" {
            path.pop();
        }
    }
    path.extend(segments);
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const ROOT: (&str, &str) = ("lab/src/lib.rs", "mod model; mod measure; mod judge; mod show;");

    fn check_two(first: (&str, &str), second: (&str, &str)) -> Vec<String> {
        places(&check(&Tree::of(&[ROOT, first, second])))
    }

    #[test]
    fn a_file_may_import_from_its_floor_and_below() {
        let judge = ("lab/src/judge/mod.rs", "mod a; use crate::model::Block; use self::a::B;");
        let below =
            ("lab/src/judge/a.rs", "use super::c::D; use crate::{judge, measure::E}; use std::show::F;");
        assert_eq!(check_two(judge, below), [""; 0]);
    }

    #[test]
    fn a_file_may_not_import_from_above_however_it_is_written() {
        let model = (
            "lab/src/model/mod.rs",
            "mod a;\nuse crate::{model::B,\n measure::C};\nfn d() { super::show::e(); f!(crate::judge::G) }",
        );
        let below = ("lab/src/model/a.rs", "pub use super::super::judge::H;");
        let expected = [
            "lab/src/model/mod.rs:3",
            "lab/src/model/mod.rs:4",
            "lab/src/model/mod.rs:4",
            "lab/src/model/a.rs:1",
        ];
        assert_eq!(check_two(model, below), expected);
    }

    #[test]
    fn tests_may_import_from_everywhere() {
        let model = (
            "lab/src/model/mod.rs",
            "#[cfg(test)] mod a; #[cfg(test)] mod tests { use crate::show::B; use super::*; }",
        );
        assert_eq!(check_two(model, ("lab/src/model/a.rs", "use crate::show::B;")), [""; 0]);
    }

    #[test]
    fn what_has_no_floor_is_found() {
        let a = ("lab/src/tools/mod.rs", "mod b;");
        assert_eq!(check_two(a, ("lab/src/tools/b.rs", "")), ["lab/src/tools/mod.rs:1"]);
        let model = ("lab/src/model/mod.rs", "use crate::Report;\nfn a() { crate::say!() }");
        assert_eq!(check_two(model, ("lab/src/main.rs", "use lab::show;")), ["lab/src/model/mod.rs:1"]);
    }

    #[test]
    fn the_longer_module_path_decides() {
        let house = House {
            source: "a/src",
            floors: &[
                Floor { name: "low", modules: &["conn::h1"] },
                Floor { name: "high", modules: &["conn", "worker"] },
            ],
        };
        let heights = [&["conn", "h1", "head"][..], &["conn", "h2"], &["worker"], &["conn2"]];
        assert_eq!(heights.map(|path| house.height(path)), [Some(0), Some(1), Some(1), None]);
    }

    #[test]
    fn rooms_of_features_have_floors() {
        let root =
            ("crates/modules/src/lib.rs", "mod shared { mod a; } mod apache { mod b; } static ALL: u8 = 1;");
        let shared = ("crates/modules/src/shared/a.rs", "use crate::apache::b::B;\nuse crate::ALL;");
        let apache = ("crates/modules/src/apache/b.rs", "use crate::shared::a::A; pub(super) fn c() {}");
        let found = places(&check(&Tree::of(&[root, shared, apache])));
        assert_eq!(found, ["crates/modules/src/shared/a.rs:1", "crates/modules/src/shared/a.rs:2"]);
    }
}
