//! No dead, empty or huge file, no leftovers of an editor or of a merge.

use super::Finding;
use crate::tree::{File, Tree};

const FILE_BYTES_MAX: usize = 1 << 20;

/// The sample of a report, which has to stand alone. The lab's tests keep reports below this size.
const REPORT: &str = "docs/lab/sample.html";
const REPORT_BYTES_MAX: usize = 2_000_000;

/// Folders whose files are what a peer sent or should send, or what a program printed: their bytes are not ours to
/// trim.
const VERBATIM: &[&str] = &["/golden/", "/seeds/", "/outputs/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let dead = tree.sources().filter(|file| is_module(&file.path) && !tree.is_reached(&file.path));
    let dead =
        dead.map(|file| Finding::new(&file.path, 1, "no `mod` line reaches it", "use it or remove it"));
    dead.chain(tree.files.iter().flat_map(check_file)).collect()
}

/// Whether the file is below a `src` or `tests` folder, where cargo compiles only what is named.
fn is_module(path: &str) -> bool {
    path.contains("/src/") || path.starts_with("tests/")
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut found = Vec::new();
    let verbatim = VERBATIM.iter().any(|folder| file.path.contains(folder));
    if file.size_bytes == 0 && !verbatim {
        found.push(Finding::new(&file.path, 1, "empty file", "remove it"));
    }
    let most = if file.path == REPORT { REPORT_BYTES_MAX } else { FILE_BYTES_MAX };
    if file.size_bytes > most {
        let message = format!("{} bytes, more than {most}", file.size_bytes);
        found.push(Finding::new(&file.path, 1, message, "generate it where it is needed"));
    }
    if !file.is_text || file.size_bytes == 0 || verbatim {
        return found;
    }
    if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
        let last = file.text.lines().count();
        found.push(Finding::new(
            &file.path,
            last,
            "the file does not end with one newline",
            "end the last line, once",
        ));
    }
    for (number, line) in file.text.split('\n').enumerate().map(|(index, line)| (index + 1, line)) {
        if line.ends_with([' ', '\t', '\r']) {
            found.push(Finding::new(&file.path, number, "space at the end of the line", "remove it"));
        }
        if ["<<<<<<< ", ">>>>>>> ", "||||||| "].iter().any(|marker| line.starts_with(marker)) {
            found.push(Finding::new(&file.path, number, "marker of a merge", "finish the merge"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn clean_and_reached_files_pass() {
        let tree = Tree::of(&[
            ("crates/a/src/main.rs", "mod b;\n"),
            ("crates/a/src/b.rs", "fn c() {}\n"),
            ("crates/a/src/bin/d.rs", "fn main() {}\n"),
            ("docs/example.rs", "fn main() {}\n"),
            ("tests/golden/x", "verbatim \r\n\n"),
            ("lab/tests/outputs/nothing", ""),
            ("a.md", "Title\n=======\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn dead_sources_are_found() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "// mod b;\n"), ("crates/a/src/b.rs", "fn c() {}\n")]);
        assert_eq!(places(&check(&tree)), ["crates/a/src/b.rs:1"]);
    }

    #[test]
    fn leftovers_are_found() {
        let conflict = format!("a\n{} ours\n", "<".repeat(7));
        let tree = Tree::of(&[
            ("empty", ""),
            ("no-end", "a"),
            ("two", "a\n\n"),
            ("space", "a\nb \n"),
            ("m", &conflict),
        ]);
        assert_eq!(places(&check(&tree)), ["empty:1", "no-end:1", "two:2", "space:2", "m:2"]);
        let huge = File::from_bytes("huge".into(), vec![0xff; FILE_BYTES_MAX + 1]);
        assert_eq!(places(&check(&Tree::with(vec![huge], Vec::new()))), ["huge:1"]);
    }
}
