//! From files to what was written: finds each directive, checks its place and shape, parses its value.

use crate::site::{UNBUILT, Unbuilt};
use crate::structure::STRUCTURE;
use conf::catalogue::{self, Verdict};
use conf::spec::{not_allowed_here, unknown_directive};
use conf::{Contexts, Diagnostic, Inputs, Node, Sources};
use contract::{AnyDirective, Args, Config, Loading, Module, SectionId};
use std::collections::HashMap;
use std::path::PathBuf;

/// Where a configuration is and what surrounds it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The main file.
    pub path: PathBuf,
    /// What relative paths of logs and roots start from.
    pub prefix: PathBuf,
    /// Directives from the command line (`-g`).
    pub globals: Option<String>,
}

/// A configuration that was read.
pub struct Loaded {
    /// What was written.
    pub config: Config,
    /// Variables, log files and notes.
    pub loading: Loading,
    /// The files that were read.
    pub sources: Sources,
    /// The first error.
    pub error: Option<Diagnostic>,
}

/// Reads a configuration with the directives of these modules. On an error, all that was read before
/// it is still there, for messages.
pub fn load(inputs: &dyn Inputs, options: &Options, modules: &[&Module], mut loading: Loading) -> Loaded {
    let text = conf::load(inputs, &options.path, options.globals.as_deref());
    let (nodes, note) = conf::wrap_bare(text.nodes, &["server", "upstream", "map"]);
    loading.notes.extend(note);
    let mut reader = Reader { known: table(modules), config: Config::new(), loading };
    let result = reader.block(&nodes, Config::MAIN, Contexts::MAIN);
    Loaded {
        config: reader.config,
        loading: reader.loading,
        sources: text.sources,
        error: result.err().or(text.error),
    }
}

type Table = HashMap<&'static str, Vec<&'static dyn AnyDirective>>;

struct Reader {
    known: Table,
    config: Config,
    loading: Loading,
}

fn table(modules: &[&Module]) -> Table {
    let mut table = Table::new();
    let own = modules.iter().flat_map(|module| module.directives);
    for directive in STRUCTURE.iter().chain(own) {
        table.entry(directive.info().name).or_default().push(*directive);
    }
    table
}

impl Reader {
    fn block(&mut self, nodes: &[Node], section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        nodes.iter().try_for_each(|node| self.node(node, section, context))
    }

    fn node(&mut self, node: &Node, section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        let directives = node.name.as_str().and_then(|name| self.known.get(name));
        let Some(directives) = directives else { return self.not_ours(node, section, context) };
        let here = directives.iter().find(|directive| directive.info().contexts.intersects(context));
        let Some(&directive) = here else {
            let contexts = directives.iter().map(|directive| directive.info().contexts);
            let allowed = contexts.fold(Contexts::EMPTY, Contexts::or);
            return match in_catalogue(node, context) {
                true => self.not_ours(node, section, context),
                false => Err(not_allowed_here(node, allowed)),
            };
        };
        let info = directive.info();
        info.shape.check(node)?;
        let inner = info.opens.map(|opens| inner_context(opens, context));
        let opened = inner.map(|inner| self.config.open(section, inner));
        let outer_location = self.loading.location.clone();
        let value = directive.parse(&Args { node, context, opened }, &mut self.loading)?;
        self.config.store(section, directive, value, node.span)?;
        if let (Some(opened), Some(inner), Some(nodes)) = (opened, inner, &node.block) {
            self.block(nodes, opened, inner)?;
        }
        self.loading.location = outer_location;
        Ok(())
    }

    /// A directive that no module has: nginx's, somebody else's, or nobody's.
    fn not_ours(&mut self, node: &Node, section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        let name = node.name.to_string();
        let mut entries = catalogue::entries(&name).peekable();
        if entries.peek().is_none() {
            let known = self.known.keys().copied().chain(catalogue::names());
            return Err(unknown_directive(node, known));
        }
        let everywhere: Vec<_> = entries.collect();
        let Some(entry) = everywhere.iter().find(|entry| entry.contexts.intersects(context)) else {
            let allowed = everywhere.iter().map(|entry| entry.contexts);
            return Err(not_allowed_here(node, allowed.fold(Contexts::EMPTY, Contexts::or)));
        };
        entry.shape.check(node)?;
        match entry.verdict {
            Verdict::Accepted(_) | Verdict::Companion(_) => {}
            Verdict::Harmless(why) => self.warn(node, &format!("has no effect: {why}")),
            Verdict::Answers501(why) => {
                self.warn(node, &format!("is not built: {why}"));
                let unbuilt = Unbuilt { directive: name.clone() };
                self.config.store(section, &UNBUILT, Box::new(unbuilt), node.span)?;
            }
            Verdict::Pending { why, instead } | Verdict::Refused { why, instead } => {
                let message = format!("\"{name}\" directive is not supported: {why}");
                return Err(Diagnostic::emerg(message).at(node.span).under(node.name.span).hint(instead));
            }
        }
        match &node.block {
            Some(nodes) if name == "upstream" => {
                nodes.iter().try_for_each(|inner| self.not_ours(inner, section, Contexts::UPSTREAM))
            }
            _ => Ok(()),
        }
    }

    fn warn(&mut self, node: &Node, what: &str) {
        let message = format!("\"{}\" directive {what}", node.name);
        self.loading.note(Diagnostic::warn(message).at(node.span).under(node.name.span));
    }
}

fn in_catalogue(node: &Node, context: Contexts) -> bool {
    catalogue::entries(&node.name.to_string()).any(|entry| entry.contexts.intersects(context))
}

/// The context inside a block: an `if` is another thing in a server than in a location.
fn inner_context(opens: Contexts, around: Contexts) -> Contexts {
    match (opens.contains(Contexts::SERVER_IF), around == Contexts::SERVER) {
        (true, true) => Contexts::SERVER_IF,
        (true, false) => Contexts::LOCATION_IF,
        (false, _) => opens,
    }
}
