//! `.htaccess` files, looked at before a request does.

use conf::tree::printable;
use site::{FoundFile, Problem, Survey};

/// What is wrong with a file, and what happens to it.
pub(crate) fn problem(problem: &Problem) -> String {
    let Problem { text, status, is_root, path: _ } = problem;
    match status {
        Some(status) if *is_root => {
            format!("{text}; all requests for the site, whose root this is, are answered with {status}")
        }
        Some(status) => format!("{text}; all requests for this directory are answered with {status}"),
        None => text.clone(),
    }
}

/// A file, and what it does.
pub(crate) fn found(file: &FoundFile) -> String {
    format!("{}: {}", printable(file.path.as_os_str().as_encoded_bytes()), file.does)
}

/// How much was looked at.
pub(crate) fn summary(survey: &Survey) -> String {
    let Survey { files, directories, unknown_roots, is_cut, .. } = survey;
    let mut text = format!("read {files} .htaccess files in {directories} directories");
    if *is_cut {
        text += ", which are not all: a limit was reached";
    }
    if *unknown_roots > 0 {
        text += "; a root with variables was skipped";
    }
    text
}
