//! From files to what was written: finds each directive, checks its place and shape, parses its value.

use crate::site::{UNBUILT, Unbuilt};
use crate::structure::STRUCTURE;
use conf::catalogue::{self, Verdict};
use conf::spec::{not_allowed_here, unknown_directive};
use conf::{Contexts, Diagnostic, Inputs, Level, Node, Sources};
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
    let http_only: Vec<_> = catalogue::http_only_names().collect();
    let (nodes, note) = conf::wrap_bare(text.nodes, &http_only);
    loading.notes.extend(note);
    let mut reader = Reader::new(modules, Config::new(), loading);
    let result = reader.block(&nodes, Config::MAIN, Contexts::MAIN);
    Loaded {
        config: reader.config,
        loading: reader.loading,
        sources: text.sources,
        error: result.err().or(text.error),
    }
}

type Table = HashMap<&'static str, Vec<&'static dyn AnyDirective>>;

/// Puts what was written into a configuration.
pub(crate) struct Reader {
    known: Table,
    pub(crate) config: Config,
    pub(crate) loading: Loading,
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
    pub(crate) fn new(modules: &[&Module], config: Config, loading: Loading) -> Reader {
        Reader { known: table(modules), config, loading }
    }

    /// Reads the directives of one level.
    pub(crate) fn block(
        &mut self,
        nodes: &[Node],
        section: SectionId,
        context: Contexts,
    ) -> Result<(), Diagnostic> {
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
        let Some(entry) = catalogue::entry(&name, context) else {
            return Err(self.not_nginx(node, &name));
        };
        entry.shape.check(node)?;
        match entry.judge(node) {
            Some(error) if error.level == Level::Emerg => return Err(error),
            note => self.loading.notes.extend(note),
        }
        if matches!(entry.verdict, Verdict::Answers501(_)) {
            self.config.store(section, &UNBUILT, Box::new(Unbuilt { directive: name.clone() }), node.span)?;
        }
        match &node.block {
            Some(nodes) if name == "upstream" => {
                nodes.iter().try_for_each(|inner| self.not_ours(inner, section, Contexts::UPSTREAM))
            }
            _ => Ok(()),
        }
    }

    fn not_nginx(&self, node: &Node, name: &str) -> Diagnostic {
        let elsewhere = catalogue::contexts(name);
        if !elsewhere.is_empty() {
            return not_allowed_here(node, elsewhere);
        }
        match catalogue::foreign(name) {
            Some(foreign) => foreign.diagnostic(name).at(node.span).under(node.name.span),
            None => unknown_directive(node, self.known.keys().copied().chain(catalogue::names())),
        }
    }
}

fn in_catalogue(node: &Node, context: Contexts) -> bool {
    node.name.as_str().is_some_and(|name| catalogue::entry(name, context).is_some())
}

/// The context inside a block: an `if` is another thing in a server than in a location.
fn inner_context(opens: Contexts, around: Contexts) -> Contexts {
    match (opens.contains(Contexts::SERVER_IF), around == Contexts::SERVER) {
        (true, true) => Contexts::SERVER_IF,
        (true, false) => Contexts::LOCATION_IF,
        (false, _) => opens,
    }
}
