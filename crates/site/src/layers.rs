//! The sections of Apache's main configuration that lie over a host, and which of them count for a directory.

use conf::apache::{Allowed, Classes};
use conf::value::{Language, Pattern, TooManySteps};
use conf::{Diagnostic, Node};
use std::sync::Arc;

/// Steps of backtracking that the pattern of a section may take for one path.
const STEPS_MAX: u32 = 20_000;

/// The number in place of a section's where none says what files may contain. As in Apache, they may contain nothing then,
/// but are read.
pub(crate) const UNSAID: usize = usize::MAX;

/// What lies over a host: the lines outside of sections first, then sections for directories by their depth, then those
/// with a pattern.
#[derive(Debug)]
pub struct Layers {
    sections: Box<[Section]>,
    /// How many count for all files.
    everywhere: usize,
    /// Where those with a pattern begin.
    patterns: usize,
    /// What files may contain where no section says it.
    unsaid: Arc<Allowed>,
}

/// Settings for some directories.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) place: Place,
    pub(crate) nodes: Arc<[Node]>,
    /// What files in these directories may contain, if the section says so.
    pub(crate) allowed: Option<Arc<Allowed>>,
}

/// The directories that a section is for.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// All.
    Everywhere,
    /// The directory with this path, which has no slash at its end. Wildcards match within a segment.
    Directory(Box<[u8]>),
    /// The files and directories whose path matches.
    Pattern(Arc<Pattern>),
}

impl Place {
    /// The place of `<Directory>` with this path, or pattern if it is one.
    pub(crate) fn of(node: &Node, is_pattern: bool) -> Result<Place, Diagnostic> {
        let complain = |text: String| Diagnostic::emerg(text).at(node.span);
        let (word, is_pattern) = match &*node.args {
            [word] => (word, is_pattern),
            [mark, word] if mark.is("~") && !is_pattern => (word, true),
            _ => return Err(complain(format!("<{}> takes one path", node.name))),
        };
        if is_pattern {
            let pattern = Pattern::limited(&word.text, false, Language::Apache, STEPS_MAX);
            let pattern = pattern.map_err(|error| complain(error.to_string()).under(word.span))?;
            return Ok(Place::Pattern(Arc::new(pattern)));
        }
        if !matches!(word.text.first(), Some(b'/' | b'*')) {
            let message = format!("<{}> has \"{word}\", which is not a whole path", node.name);
            return Err(complain(message).under(word.span).hint("write a path that begins with \"/\""));
        }
        let mut path = Vec::with_capacity(word.text.len());
        for segment in word.text.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()) {
            match segment {
                b"." => {}
                b".." => {
                    let message = format!("<{}> has \"..\" in its path", node.name);
                    return Err(complain(message).under(word.span));
                }
                _ => {
                    path.push(b'/');
                    path.extend_from_slice(segment);
                }
            }
        }
        Ok(Place::Directory(path.into()))
    }

    /// The place in Apache's order, which counts the slashes of patterns, too.
    fn depth(&self) -> (u8, usize) {
        match self {
            Place::Everywhere => (0, 0),
            Place::Directory(path) => (1, depth(path)),
            Place::Pattern(pattern) => (2, depth(pattern.text())),
        }
    }
}

impl Layers {
    /// Puts sections into Apache's order. Those of one depth stay in their own.
    pub(crate) fn new(mut sections: Vec<Section>) -> Layers {
        sections.sort_by_key(|section| section.place.depth());
        let count = |last| sections.iter().take_while(|section| section.place.depth().0 <= last).count();
        let unsaid = Arc::new(Allowed { classes: Classes::NONE, ..Allowed::EVERYTHING });
        Layers { everywhere: count(0), patterns: count(1), sections: sections.into(), unsaid }
    }

    pub(crate) fn section(&self, index: usize) -> &Section {
        &self.sections[index]
    }

    pub(crate) fn len(&self) -> usize {
        self.sections.len()
    }

    /// What files may contain by what a section says.
    pub(crate) fn allowed(&self, rule: usize) -> Option<&Arc<Allowed>> {
        if rule == UNSAID { Some(&self.unsaid) } else { self.sections[rule].allowed.as_ref() }
    }

    /// Whether files count from a section on, and then the section that says what they may contain; `None` if it leaves that
    /// as it is.
    pub(crate) fn rule(&self, index: usize) -> Option<Option<usize>> {
        let allowed = self.sections[index].allowed.as_ref()?;
        Some(allowed.reads_files().then_some(index))
    }

    /// Whether patterns decide, too.
    pub(crate) fn has_patterns(&self) -> bool {
        self.patterns < self.sections.len()
    }

    /// The sections that count from a directory on, which is named without a slash at its end; the root of the file system
    /// is empty. As in Apache, they count for a file with such a path, too.
    pub(crate) fn at<'a>(&'a self, directory: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let first = if directory.is_empty() { 0 } else { self.everywhere };
        let depth = depth(directory);
        (first..self.patterns).filter(move |&index| match &self.sections[index].place {
            Place::Everywhere => true,
            Place::Directory(path) => depth == self::depth(path) && is_of(path, directory),
            Place::Pattern(_) => false,
        })
    }

    /// The sections with a pattern that matches the path of a file or a directory.
    ///
    /// # Errors
    /// A pattern gave up, so the sections are unknown.
    pub(crate) fn matching(&self, path: &[u8]) -> Result<Vec<usize>, TooManySteps> {
        let mut found = Vec::new();
        for index in self.patterns..self.sections.len() {
            if let Place::Pattern(pattern) = &self.sections[index].place
                && pattern.try_is_match(path)?
            {
                found.push(index);
            }
        }
        Ok(found)
    }
}

fn depth(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count()
}

/// Whether the path of a directory is what a section names; both have as many segments.
fn is_of(named: &[u8], directory: &[u8]) -> bool {
    named == directory || {
        let segments = named.split(|&byte| byte == b'/').zip(directory.split(|&byte| byte == b'/'));
        named.iter().any(|byte| b"*?[".contains(byte))
            && segments.into_iter().all(|(pattern, name)| conf::matches_wildcards(pattern, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn layers(text: &str) -> Layers {
        let loaded = conf::apache::parse(Path::new("/x"), text.into());
        let section = |node: &Node| Section {
            place: Place::of(node, node.is("DirectoryMatch")).unwrap(),
            nodes: Arc::from([]),
            allowed: None,
        };
        Layers::new(loaded.nodes.iter().map(section).collect())
    }

    /// The arguments of sections, by their numbers.
    fn found(layers: &Layers, directory: &str) -> String {
        let path = format!("{directory}/");
        let at = layers.at(directory.as_bytes()).chain(layers.matching(path.as_bytes()).unwrap());
        at.map(|index| index.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sections_count_at_their_depth() {
        let all = "<Directory ~ /in/$>\n</Directory>\n<Directory /srv//a/>\n</Directory>\n<Directory />\n</Directory>\n\
            <Directory /srv/*>\n</Directory>\n<Directory /srv>\n</Directory>\n<DirectoryMatch ^/srv/>\n</DirectoryMatch>\n";
        let layers = layers(all);
        for (directory, expected) in [
            ("", "0"),
            ("/srv", "1 5"),
            ("/srv/a", "2 3 5"),
            ("/srv/.b", "3 5"),
            ("/srv/a/in", "4 5"),
            ("/in", "4"),
        ] {
            assert_eq!(found(&layers, directory), expected, "{directory}");
        }
    }

    #[test]
    fn paths_that_are_not_whole_are_refused() {
        for text in ["srv", "/srv/..", "a b"] {
            let text = format!("<Directory {text}>\n</Directory>\n");
            let loaded = conf::apache::parse(Path::new("/x"), text.clone().into());
            assert!(Place::of(&loaded.nodes[0], false).is_err(), "{text}");
        }
    }
}
