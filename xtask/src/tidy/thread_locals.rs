//! State per thread stands only where this list says so: it outlives sites, and every one needs a rule for when it is
//! dropped.

use super::Finding;
use crate::syntax;
use crate::tree::{File, Tree};

/// The files that may have `thread_local!`, in product code.
const PLACES: &[&str] = &[
    "crates/cache/src/writer.rs",
    "crates/journal/src/clock.rs",
    "crates/journal/src/counters.rs",
    "crates/journal/src/leavings.rs",
    "crates/journal/src/lib.rs",
    "crates/journal/src/shares.rs",
    "crates/journal/src/syslog.rs",
    "crates/engine/src/cold.rs",
    "crates/engine/src/served.rs",
    "crates/h1/src/encode.rs",
    "crates/tls/src/noted.rs",
    "crates/modules/src/logging/access_log/mod.rs",
    "crates/modules/src/transform/coding/encoder.rs",
    "crates/modules/src/transform/coding/kept.rs",
    "crates/modules/src/logging/fulmar_status/tally.rs",
    "crates/modules/src/transform/headers/expires.rs",
    "crates/modules/src/files/open_file_cache/mod.rs",
    "crates/modules/src/shared/cached/keys.rs",
    "crates/modules/src/shared/cached/prepared.rs",
    "crates/modules/src/shared/files.rs",
    "crates/modules/src/shared/scratch.rs",
    "crates/net/src/events.rs",
    "crates/net/src/splice.rs",
    "crates/server/src/task_table.rs",
    "crates/site/src/overlay/cache.rs",
    "crates/site/src/overlay/seen.rs",
    "crates/upstream/src/pool.rs",
    "crates/upstream/src/resolver/asked.rs",
    "crates/upstream/src/shared.rs",
    "crates/wire/src/buffer.rs",
    "crates/wire/src/memory.rs",
    "crates/wire/src/timer.rs",
];

const THIS_FILE: &str = "xtask/src/tidy/thread_locals.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let used = tree.product().filter(|file| !PLACES.contains(&file.path.as_str())).filter_map(first_use);
    let used = used.map(|(path, line)| {
        let instead =
            "use an argument, or a value of the site; else list the file in xtask/src/tidy/thread_locals.rs";
        Finding::new(path, line, "`thread_local!`", instead)
    });
    let listed = PLACES.iter().filter_map(|path| tree.file(path));
    let unused = listed.filter(|file| first_use(file).is_none()).map(|file| {
        let line = tree.file(THIS_FILE).map_or(1, |list| list.line_where(|line| line.contains(&file.path)));
        let message = format!("{} has no `thread_local!`", file.path);
        Finding::new(THIS_FILE, line, message, "remove it from the list")
    });
    used.chain(unused).collect()
}

fn first_use(file: &File) -> Option<(&str, usize)> {
    let names = syntax::names(file.ast()?);
    let found = names.into_iter().find(|name| name.text.rsplit("::").next() == Some("thread_local!"))?;
    Some((&file.path, found.line))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn thread_locals_stand_where_the_list_says() {
        let code = "fn a() {\n    std::thread_local!(static B: u8 = 1); }";
        let found = check(&Tree::of(&[
            ("crates/http/src/lib.rs", code),
            ("crates/wire/src/lib.rs", "mod timer;"),
            ("crates/wire/src/timer.rs", code),
            ("crates/h1/src/lib.rs", "#[test] fn a() { thread_local!(static B: u8 = 1); }"),
        ]));
        assert_eq!(places(&found), ["crates/http/src/lib.rs:2"]);
    }

    #[test]
    fn a_listed_file_without_one_is_found() {
        let tree = Tree::of(&[
            ("crates/wire/src/lib.rs", "mod timer;"),
            ("crates/wire/src/timer.rs", "fn a() {}"),
            (THIS_FILE, "\n    \"crates/wire/src/timer.rs\","),
        ]);
        assert_eq!(places(&check(&tree)), [format!("{THIS_FILE}:2")]);
    }
}
