//! The standard streams. A reader that went away is no reason to fail, so errors of writing end here.

use std::io::{self, Write};

/// What precedes every message on the standard error stream.
pub(crate) const PROGRAM: &str = "fulmar";

/// Writes `fulmar: text` as a line on the standard error stream.
pub(crate) fn say(text: &str) {
    err(&format!("{PROGRAM}: {text}\n"));
}

/// Writes to the standard error stream.
pub(crate) fn err(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes to the standard output.
pub(crate) fn out(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}
