//! A configuration as rules look at it: each directive with the blocks around it.

use conf::{Node, Word};

/// A configuration.
pub(crate) struct Tree<'a> {
    spots: Vec<Spot<'a>>,
}

/// A directive and the blocks around it, the outermost first.
#[derive(Clone)]
pub(crate) struct Spot<'a> {
    pub(crate) node: &'a Node,
    pub(crate) around: Vec<&'a Node>,
    main: &'a [Node],
}

impl<'a> Tree<'a> {
    pub(crate) fn new(nodes: &'a [Node]) -> Tree<'a> {
        let mut spots = Vec::new();
        walk(nodes, nodes, &mut Vec::new(), &mut spots);
        Tree { spots }
    }

    /// All directives of a name.
    pub(crate) fn named<'t>(&'t self, name: &'t str) -> impl Iterator<Item = &'t Spot<'a>> {
        self.spots.iter().filter(move |spot| spot.node.is(name))
    }

    /// All directives.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Spot<'a>> {
        self.spots.iter()
    }
}

fn walk<'a>(nodes: &'a [Node], main: &'a [Node], around: &mut Vec<&'a Node>, spots: &mut Vec<Spot<'a>>) {
    for node in nodes {
        spots.push(Spot { node, around: around.clone(), main });
        around.push(node);
        walk(node.children(), main, around, spots);
        around.pop();
    }
}

impl<'a> Spot<'a> {
    /// The nearest block of a name around it.
    pub(crate) fn nearest(&self, name: &str) -> Option<&'a Node> {
        self.around.iter().rev().find(|node| node.is(name)).copied()
    }

    /// The block around it.
    pub(crate) fn parent(&self) -> Option<&'a Node> {
        self.around.last().copied()
    }

    /// The directives next to it, itself included.
    pub(crate) fn siblings(&self) -> &'a [Node] {
        self.parent().map_or(self.main, Node::children)
    }

    /// A directive's uses at the nearest level that has any: inside of this block, or around it.
    pub(crate) fn effective(&self, name: &str) -> Vec<&'a Node> {
        let of = |nodes: &'a [Node]| nodes.iter().filter(|node| node.is(name)).collect::<Vec<_>>();
        let inside = of(self.node.children());
        if !inside.is_empty() {
            return inside;
        }
        let outer = self.around.iter().rev().map(|node| node.children()).chain([self.main]);
        outer.map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Whether a directive is set to this word, here or around.
    pub(crate) fn is_set(&self, name: &str, value: &str) -> bool {
        self.effective(name).last().is_some_and(|node| node.arg(0).is_some_and(|word| word.is(value)))
    }
}

/// How a location is matched, and by which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Pattern(&'a str),
    Named,
}

/// What a `location` says; none where it is no text.
pub(crate) fn place(node: &Node) -> Option<Place<'_>> {
    let (first, second) = (node.arg(0)?.as_str()?, node.arg(1));
    let (modifier, text) = match second {
        Some(word) => (first, word.as_str()?),
        None => ["=", "^~", "~*", "~"]
            .into_iter()
            .find_map(|modifier| first.strip_prefix(modifier).map(|rest| (modifier, rest)))
            .unwrap_or(("", first)),
    };
    Some(match modifier {
        "=" => Place::Exact(text),
        "~" | "~*" => Place::Pattern(text),
        _ if text.starts_with('@') => Place::Named,
        _ => Place::Prefix(text),
    })
}

/// The children of a block of this name.
pub(crate) fn children<'a>(node: &'a Node, name: &'a str) -> impl Iterator<Item = &'a Node> {
    node.children().iter().filter(move |child| child.is(name))
}

/// Whether a block has such a directive right inside.
pub(crate) fn has(node: &Node, name: &str) -> bool {
    children(node, name).next().is_some()
}

/// Whether a block, or any block inside, has such a directive.
pub(crate) fn has_deep(node: &Node, name: &str) -> bool {
    node.children().iter().any(|child| child.is(name) || has_deep(child, name))
}

/// Whether a text uses one of these variables.
pub(crate) fn uses<'v>(word: &Word, variables: &[&'v str]) -> Option<&'v str> {
    let text = word.as_str()?;
    variables.iter().copied().find(|variable| {
        let plain = text.match_indices(variable).any(|(at, _)| {
            let next = text[at + variable.len()..].chars().next();
            !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        plain || text.contains(&format!("${{{}}}", &variable[1..]))
    })
}
