//! Golden files: configuration text, `----------`, then the tree as text and the error if there is one.
//!
//! A line `#=> NAME` in the input begins another file of the same folder, `#=> -g` the directives of the
//! command line. `UPDATE_EXPECT=1` writes what is found as what is expected.

use std::fs;
use std::path::{Path, PathBuf};

use conf::{Memory, load, render, tree};

const SEPARATOR: &str = "\n----------\n";
const FOLDER: &str = "/etc/fulmar";

#[test]
fn golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 60, "golden files are missing");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for path in paths {
        let whole = fs::read_to_string(&path).unwrap();
        let (input, expected) = whole.split_once(SEPARATOR).unwrap_or((&whole, ""));
        let found = outcome(input);
        if update {
            fs::write(&path, format!("{input}{SEPARATOR}{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{}\nexpected:\n{expected}\nfound:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn outcome(input: &str) -> String {
    let main = format!("{FOLDER}/fulmar.conf");
    let mut parts = input.split("#=> ");
    let mut inputs = Memory::default().with(&main, parts.next().unwrap_or_default());
    let mut globals = None;
    for part in parts {
        match part.split_once('\n').unwrap_or((part, "")) {
            ("-g", text) => globals = Some(text.trim_end()),
            (name, text) => inputs = inputs.with(format!("{FOLDER}/{name}"), text),
        }
    }
    let loaded = load(&inputs, Path::new(&main), globals);
    let tree = String::from_utf8_lossy(&tree::to_text(&loaded.nodes)).into_owned();
    let error = loaded.error.map(|error| render(&error, &loaded.sources, "fulmar")).unwrap_or_default();
    tree + &error
}
