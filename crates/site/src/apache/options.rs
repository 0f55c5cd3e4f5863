//! What `Options` lines mean for a whole main configuration.

use conf::{Diagnostic, Node};
use std::path::Path;

/// Sections whose `Options` Apache does not ask when it follows the links on the way to a file.
const NARROW: [&str; 8] =
    ["directorymatch", "else", "elseif", "files", "filesmatch", "if", "location", "locationmatch"];

/// Options that allow links, in lower case.
const LINKS: [&str; 3] = ["all", "followsymlinks", "symlinksifownermatch"];

/// The refusal of a line that allows symbolic links in a section in which Apache would not count it, if other lines forbid them:
/// here, the innermost section decides for the whole path.
pub(super) fn links_opened(nodes: &[Node]) -> Option<Diagnostic> {
    let mut lines = Vec::new();
    collect(nodes, false, &mut lines);
    let opened = lines.iter().find(|(line, is_narrow)| *is_narrow && says(line, &LINKS, true))?.0;
    let forbids = |line: &Node| says(line, &LINKS, false) || !(is_relative(line) || says(line, &LINKS, true));
    lines.iter().any(|(line, _)| forbids(line)).then(|| {
        let message = "\"Options\" with links in a section for files, URIs or patterns is not built \
                       where other lines forbid links";
        let hint = "write the option in a <Directory> section with a path";
        Diagnostic::emerg(message).at(opened.span).hint(hint)
    })
}

/// The `Options` lines, each with whether it stands in a narrow section.
fn collect<'n>(nodes: &'n [Node], is_narrow: bool, lines: &mut Vec<(&'n Node, bool)>) {
    for node in nodes {
        let name = node.name.to_string().to_ascii_lowercase();
        if name == "options" && node.block.is_none() {
            lines.push((node, is_narrow));
        }
        let is_pattern = name == "directory" && node.arg(0).is_some_and(|word| word.is("~"));
        collect(node.children(), is_narrow || is_pattern || NARROW.contains(&&*name), lines);
    }
}

/// Whether a line switches one of these options on, or off.
fn says(line: &Node, options: &[&str], on: bool) -> bool {
    line.args.iter().any(|word| {
        let word = word.to_string().to_ascii_lowercase();
        let name = word.trim_start_matches(['+', '-']);
        word.starts_with('-') != on && options.contains(&name)
    })
}

/// Whether a line only changes what other lines say.
fn is_relative(line: &Node) -> bool {
    line.args.iter().all(|word| matches!(word.text.first(), Some(b'+' | b'-')))
}

/// Lines that switch off what modules do that are not loaded, for all files.
pub(super) fn switched_off(is_loaded: impl Fn(&str) -> bool) -> Vec<Node> {
    let options = [("autoindex", "-Indexes"), ("negotiation", "-MultiViews")];
    let off: Vec<&str> =
        options.iter().filter(|(module, _)| !is_loaded(module)).map(|(_, option)| *option).collect();
    if off.is_empty() {
        return Vec::new();
    }
    // The last kind of section overrides all others, also those in files of users.
    let text = format!("<If \"true\">\nOptions {}\n</If>\n", off.join(" "));
    conf::apache::parse(Path::new("LoadModule"), text.into_bytes()).nodes
}
