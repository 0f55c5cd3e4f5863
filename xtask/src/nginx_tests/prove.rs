//! Running one file of the suite.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::outcome::Outcome;

/// Seconds that a file may take; the suite itself waits 90 for a server that does not stop.
const LIMIT_S: &str = "240";

/// A checkout of the suite, and the server that it tries.
pub(super) struct Suite {
    folder: PathBuf,
    binary: PathBuf,
    globals: String,
}

impl Suite {
    pub(super) fn new(folder: &Path, binary: &Path) -> Result<Self> {
        let library = folder.join("lib/Test/Nginx.pm");
        ensure!(library.exists(), "no test suite at {}: {} is missing", folder.display(), library.display());
        let binary = binary.canonicalize();
        let binary = binary.context("finding the server: run `cargo build`, or give it with --binary")?;
        // The suite's folders are the superuser's own, and workers would not be.
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let user = if is_root { "user root;" } else { "" };
        // The suite expects of a reload that connections end.
        let globals = format!("{user} reload_connections drain;");
        Ok(Self { folder: folder.to_path_buf(), binary, globals })
    }

    /// The names of all files, sorted.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".t").map(String::from));
        }
        names.sort();
        Ok(names)
    }

    /// Runs a file to its end.
    pub(super) fn run(&self, name: &str) -> Outcome {
        let output = Command::new("timeout")
            .args(["--kill-after=10", LIMIT_S, "prove", "--verbose", &format!("{name}.t")])
            .current_dir(&self.folder)
            .env("TEST_NGINX_BINARY", &self.binary)
            .env("TEST_NGINX_GLOBALS", &self.globals)
            .output();
        match output {
            Ok(output) => Outcome::read(
                &String::from_utf8_lossy(&output.stdout),
                &String::from_utf8_lossy(&output.stderr),
            ),
            Err(error) => Outcome::read("", &format!("running prove: {error} (it comes with Perl)")),
        }
    }
}
