//! The programs that tests run next to Fulmar: whether they are there, and where.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

/// Whether a test can be run that needs `part`, which was `found` or not. Without it a line is printed, and in CI
/// the test fails: there nothing is left out unseen.
pub fn is_present(part: &str, found: bool) -> bool {
    if !found {
        assert!(env::var_os("CI").is_none(), "no {part} to test with; `make install` installs it");
        // Straight to the descriptor: libtest swallows what a passing test prints.
        let _ = writeln!(io::stderr(), "skipped: no {part}");
    }
    found
}

/// The first of these programs on the PATH or among those of the system.
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let mut directories: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    directories.push("/usr/sbin".into());
    let paths = names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    paths.into_iter().find(|path| path.exists())
}
