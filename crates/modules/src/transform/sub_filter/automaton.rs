//! Looking for many texts at once, each byte of the content once (Aho and Corasick).

/// The index of a text.
pub(super) type Index = usize;

/// A state: the longest end of what was read that is the beginning of a text.
pub(super) type State = u32;

/// Texts in ASCII lower case, as a tree of their beginnings.
#[derive(Debug)]
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The nodes after the root, which is where most bytes of most contents lead from and to.
    roots: Box<[State; 256]>,
}

#[derive(Debug)]
struct Node {
    children: Vec<(u8, State)>,
    /// The node of the longest end of this one's text that is another beginning.
    fallback: State,
    depth: usize,
    /// The texts that are this node's, the earliest first.
    texts: Vec<Index>,
    /// The nearest node on the way of fallbacks that has texts.
    shorter: Option<State>,
    /// The earliest of the texts that begin with this node's.
    earliest: Index,
}

impl Automaton {
    /// The state before anything was read.
    pub(super) const START: State = 0;

    pub(super) fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Automaton {
        let mut nodes = vec![Node::new(0, 0)];
        for (index, text) in texts.into_iter().enumerate() {
            let mut at = Automaton::START;
            for byte in text.iter().map(u8::to_ascii_lowercase) {
                let next = nodes[at as usize].child(byte);
                at = next.unwrap_or_else(|| {
                    let made = State::try_from(nodes.len()).unwrap_or(State::MAX);
                    let depth = nodes[at as usize].depth + 1;
                    nodes.push(Node::new(depth, index));
                    nodes[at as usize].children.push((byte, made));
                    made
                });
            }
            nodes[at as usize].texts.push(index);
        }
        let mut roots = Box::new([Automaton::START; 256]);
        for &(byte, child) in &nodes[0].children {
            roots[usize::from(byte)] = child;
            roots[usize::from(byte.to_ascii_uppercase())] = child;
        }
        let mut automaton = Automaton { nodes, roots };
        automaton.link();
        automaton
    }

    /// Finds the fallbacks, the shorter beginnings first.
    fn link(&mut self) {
        let mut queue: Vec<State> = self.nodes[0].children.iter().map(|&(_, child)| child).collect();
        let mut done = 0;
        while let Some(&at) = queue.get(done) {
            done += 1;
            let fallback = self.nodes[at as usize].fallback;
            let has_texts = !self.nodes[fallback as usize].texts.is_empty();
            let shorter = if has_texts { Some(fallback) } else { self.nodes[fallback as usize].shorter };
            self.nodes[at as usize].shorter = shorter;
            for (byte, child) in self.nodes[at as usize].children.clone() {
                self.nodes[child as usize].fallback = self.next(fallback, byte);
                queue.push(child);
            }
        }
    }

    /// The state after one more byte, in any case of letters.
    pub(super) fn next(&self, mut state: State, byte: u8) -> State {
        let lower = byte.to_ascii_lowercase();
        while state != Automaton::START {
            let node = &self.nodes[state as usize];
            if let Some(child) = node.child(lower) {
                return child;
            }
            state = node.fallback;
        }
        self.roots[usize::from(byte)]
    }

    /// How many of the bytes that were read may belong to a text.
    pub(super) fn depth(&self, state: State) -> usize {
        self.nodes[state as usize].depth
    }

    /// The earliest of the texts that may have begun with the first of those.
    pub(super) fn earliest(&self, state: State) -> Index {
        self.nodes[state as usize].earliest
    }

    /// The texts that end here, with their lengths: the longest first, of the same length the earliest.
    pub(super) fn ends(&self, state: State) -> impl Iterator<Item = (Index, usize)> {
        let node = &self.nodes[state as usize];
        let first = if node.texts.is_empty() { node.shorter } else { Some(state) };
        std::iter::successors(first, |&state| self.nodes[state as usize].shorter).flat_map(|state| {
            let node = &self.nodes[state as usize];
            node.texts.iter().map(|&index| (index, node.depth))
        })
    }

    /// How many bytes from the start of these no text begins with.
    pub(super) fn skip(&self, bytes: &[u8]) -> usize {
        let begins = |byte: &u8| self.roots[usize::from(*byte)] != Automaton::START;
        bytes.iter().position(begins).unwrap_or(bytes.len())
    }
}

impl Node {
    fn new(depth: usize, earliest: Index) -> Node {
        Node {
            children: Vec::new(),
            fallback: Automaton::START,
            depth,
            texts: Vec::new(),
            shorter: None,
            earliest,
        }
    }

    fn child(&self, byte: u8) -> Option<State> {
        self.children.iter().find(|(own, _)| *own == byte).map(|&(_, child)| child)
    }
}

#[cfg(test)]
mod tests {
    use super::Automaton;

    fn ends(automaton: &Automaton, text: &str) -> Vec<(usize, usize)> {
        let state = text.bytes().fold(Automaton::START, |state, byte| automaton.next(state, byte));
        automaton.ends(state).collect()
    }

    #[test]
    fn what_ends_where() {
        let texts = [&b"he"[..], b"she", b"his", b"HERS", b"e", b"he"];
        let automaton = Automaton::new(texts);
        assert_eq!(ends(&automaton, "uShe"), [(1, 3), (0, 2), (5, 2), (4, 1)]);
        assert_eq!(ends(&automaton, "ahersh"), []);
        assert_eq!(ends(&automaton, "hers"), [(3, 4)]);
        let state = "xshe".bytes().fold(Automaton::START, |state, byte| automaton.next(state, byte));
        assert_eq!((automaton.depth(state), automaton.earliest(state)), (3, 1));
        assert_eq!(automaton.skip(b"abc Her"), 4);
        assert_eq!(automaton.skip(b"abc"), 3);
    }
}
