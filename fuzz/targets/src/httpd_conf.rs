//! Any bytes are a main configuration of Apache or an error that can be shown, also where they include themselves.

use conf::apache::{self, Start};
use conf::{Diagnostic, Memory, Node, Sources, render};
use std::path::{Path, PathBuf};

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    let memory = Memory::default().with("/c/httpd.conf", input).with("/c/other.conf", input);
    let start = Start {
        root: PathBuf::from("/c"),
        defined: vec!["A".to_owned()],
        before: vec!["LoadModule env_module x".to_owned()],
        after: Vec::new(),
        environment: &|name| (name == "HOME").then(|| b"/root".to_vec()),
        is_built: &|name| name != "dav",
    };
    let read = apache::load(&memory, Path::new("httpd.conf"), &start);
    let sources = &read.loaded.sources;
    for told in read.loaded.error.iter().chain(&read.warnings) {
        assert!(render(told, sources, "fulmar").ends_with('\n'));
    }
    read.loaded.nodes.iter().for_each(|node| show(node, sources));
}

/// Renders a message about the directive, and about its end.
fn show(node: &Node, sources: &Sources) {
    render(&Diagnostic::warn("here").at(node.span), sources, "fulmar");
    render(&Diagnostic::emerg("at the end").at(node.end_span()), sources, "fulmar");
    node.children().iter().for_each(|child| show(child, sources));
}
