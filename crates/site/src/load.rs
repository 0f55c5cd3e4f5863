//! From a tree to what was written: finds each directive, checks its place and shape, parses its value.

use crate::plan::Plan;
use crate::structure::STRUCTURE;
use crate::unbuilt::{UNBUILT, Unbuilt};
use conf::apache::Allowed;
use conf::catalogue::{Entry, Verdict};
use conf::spec::hint_missing_semicolon;
use conf::{Contexts, Diagnostic, Dialect, Node, Sources, Unowned};
use contract::{AnyDirective, Args, Config, Counted, Loading, Module, SectionId};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a configuration is and what surrounds it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The main file.
    pub path: PathBuf,
    /// What relative paths of logs and roots start from.
    pub prefix: PathBuf,
    /// Directives from the command line (`-g`).
    pub globals: Option<String>,
    /// How a main configuration of Apache is read.
    pub apache: ApacheOptions,
}

/// How a main configuration of Apache is read.
#[derive(Clone, Debug)]
pub struct ApacheOptions {
    /// What Apache does by default, as directives in nginx's language.
    pub defaults: &'static str,
    /// The same for each server.
    pub server_defaults: &'static str,
    /// Whether a module of Apache, which is named without `mod_`, is built here.
    pub is_built: fn(&str) -> bool,
}

impl Default for ApacheOptions {
    fn default() -> Self {
        ApacheOptions { defaults: "", server_defaults: "", is_built: |_| false }
    }
}

/// A configuration that was read.
pub struct Loaded {
    /// What was written.
    pub config: Arc<Config>,
    /// Variables, log files and notes.
    pub loading: Loading,
    /// What it serves; or why it cannot, which counts if nothing else is wrong.
    pub plan: Result<Plan, Diagnostic>,
    /// The files that were read.
    pub sources: Sources,
    /// The first error.
    pub error: Option<Diagnostic>,
    /// Those after it: the other refusals, and the error that ended the reading.
    pub further: Vec<Diagnostic>,
}

/// How many refusals are reported, and not only counted.
const REFUSALS_MAX: usize = 20;

/// The refusals as they are reported: each kind once, and not too many.
pub(crate) fn told(refusals: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut groups = conf::grouped(refusals);
    let more = groups.len().saturating_sub(REFUSALS_MAX);
    groups.truncate(REFUSALS_MAX);
    if more > 0 {
        groups.push(Diagnostic::emerg(format!("{more} more directives are refused")));
    }
    groups
}

/// All directives by their names, as the languages spell them.
pub(crate) type Table = HashMap<Box<str>, Vec<&'static dyn AnyDirective>>;

/// Puts what was written into a configuration.
pub struct Reader {
    known: Arc<Table>,
    /// What was put into it.
    pub config: Config,
    /// What parsers of directives have at hand.
    pub loading: Loading,
    /// What `.htaccess` files may contain; `None` for everything.
    pub(crate) allowed: Option<Arc<Allowed>>,
    /// How often each directive was read, without those in sections that are skipped; `None` where they are not counted.
    pub(crate) counts: Option<BTreeMap<&'static str, u32>>,
}

/// The directives of these modules and of the structure.
pub(crate) fn table(modules: &[&Module]) -> Table {
    let mut table = Table::new();
    let own = modules.iter().flat_map(|module| module.directives);
    for directive in STRUCTURE.iter().chain(own) {
        let info = directive.info();
        let name = info.contexts.dialect().spelling(info.name);
        table.entry(name.into()).or_default().push(*directive);
    }
    table
}

impl Reader {
    /// A reader of the directives of these modules, into this configuration.
    pub fn new(modules: &[&Module], config: Config, loading: Loading) -> Reader {
        Reader::with_table(Arc::new(table(modules)), config, loading)
    }

    /// A reader with a table that was made before.
    pub fn with_table(known: Arc<Table>, config: Config, loading: Loading) -> Reader {
        Reader { known, config, loading, allowed: None, counts: None }
    }

    /// Reads the directives of one level.
    pub fn block(&mut self, nodes: &[Node], section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        nodes.iter().try_for_each(|node| self.node(node, section, context))
    }

    /// The directive that a line at this level is, if a module has it there.
    pub(crate) fn directive(&self, node: &Node, context: Contexts) -> Option<&'static dyn AnyDirective> {
        let name = node.dialect.spelling(node.name.as_str().unwrap_or_default());
        let known = self.known.get(&*name)?;
        known.iter().find(|directive| directive.info().contexts.intersects(context)).copied()
    }

    fn node(&mut self, node: &Node, section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        let read = self.read(node, section, context);
        read.map_err(|error| hint_missing_semicolon(error, node, |name| self.known.contains_key(name)))
    }

    fn read(&mut self, node: &Node, section: SectionId, context: Contexts) -> Result<(), Diagnostic> {
        let known = Arc::clone(&self.known);
        if let Some(found) = self.allowed.as_ref().and_then(|allowed| allowed.judge(node)) {
            return self.tell(found);
        }
        let name = node.dialect.spelling(node.name.as_str().unwrap_or_default());
        let directives = known.get(&*name).map_or(&[][..], Vec::as_slice);
        // A directive of Apache's may stand for some of nginx's.
        let context = match node.dialect {
            Dialect::Nginx => context.without(Contexts::ALL_HTTPD),
            Dialect::Apache => context,
        };
        let is_here = |directive: &&&dyn AnyDirective| {
            let contexts = directive.info().contexts;
            contexts.intersects(context) && contexts.and(context).dialect() == node.dialect
        };
        let here = directives.iter().find(is_here);
        let Some(&directive) = here else {
            let contexts = directives.iter().map(|directive| directive.info().contexts);
            let elsewhere = contexts.fold(Contexts::EMPTY, Contexts::or);
            return self.not_ours(node, section, context, elsewhere);
        };
        let info = directive.info();
        info.shape.check(node)?;
        if info.splices {
            return self.splice(directive, node, section, context);
        }
        if let Some(counts) = &mut self.counts {
            *counts.entry(info.name).or_default() += 1;
        }
        let inner = info.opens.map(|opens| inner_context(opens, context));
        let opened = inner.map(|inner| self.config.open(section, inner));
        let outer_location = self.loading.location.clone();
        let value = directive.parse(&Args { node, context, opened }, &mut self.loading)?;
        self.config.store(section, directive.info(), value, node.span)?;
        if let (Some(opened), Some(inner), Some(nodes)) = (opened, inner, &node.block) {
            let is_stream = inner == Contexts::STREAM;
            if is_stream {
                self.loading.swap_variables();
            }
            let read = self.block(nodes, opened, inner);
            if is_stream {
                self.loading.swap_variables();
            }
            read?;
        }
        self.loading.location = outer_location;
        Ok(())
    }

    /// Reads a block as a part of the level around it, or skips it.
    fn splice(
        &mut self,
        directive: &dyn AnyDirective,
        node: &Node,
        section: SectionId,
        context: Contexts,
    ) -> Result<(), Diagnostic> {
        let outer_methods = self.loading.htaccess.methods.clone();
        let value = directive.parse(&Args { node, context, opened: None }, &mut self.loading)?;
        match value.downcast_ref() {
            Some(Counted::All) => self.block(node.children(), section, context)?,
            Some(Counted::Only(nodes)) => self.block(nodes, section, context)?,
            None => {}
        }
        self.loading.htaccess.methods = outer_methods;
        Ok(())
    }

    /// A directive that no module has in this context, but perhaps `elsewhere`.
    fn not_ours(
        &mut self,
        node: &Node,
        section: SectionId,
        context: Contexts,
        elsewhere: Contexts,
    ) -> Result<(), Diagnostic> {
        match node.dialect.unowned(node, context, elsewhere, self.names(node.dialect)) {
            Unowned::Listed(entry) => self.listed(entry, node, section, context),
            Unowned::Invalid(error) => Err(error),
            Unowned::Rejected(error) => {
                let found = match &self.allowed {
                    Some(allowed) => allowed.unknown(node, error),
                    None => error,
                };
                self.tell(found)
            }
        }
    }

    /// A directive of nginx that no module has.
    fn listed(
        &mut self,
        entry: &Entry,
        node: &Node,
        section: SectionId,
        context: Contexts,
    ) -> Result<(), Diagnostic> {
        entry.check(node)?;
        match entry.judge(node) {
            Some(error) if error.is_error() => return self.loading.refuse(error),
            note => self.loading.notes.extend(note),
        }
        if matches!(entry.verdict, Verdict::Answers501(_)) {
            let unbuilt = Unbuilt { directive: entry.name.to_owned() };
            self.config.store(section, UNBUILT.info(), Box::new(unbuilt), node.span)?;
        }
        match &node.block {
            Some(nodes) if entry.name == "upstream" && context == Contexts::HTTP => nodes
                .iter()
                .try_for_each(|inner| self.not_ours(inner, section, Contexts::UPSTREAM, Contexts::EMPTY)),
            _ => Ok(()),
        }
    }

    /// Refuses a directive by an error, or notes a warning about one that is skipped.
    fn tell(&mut self, found: Diagnostic) -> Result<(), Diagnostic> {
        if found.is_error() {
            return self.loading.refuse(found);
        }
        self.loading.note(found);
        Ok(())
    }

    /// The names of the directives that modules own in a language.
    fn names(&self, dialect: Dialect) -> impl Iterator<Item = &'static str> {
        let all = self.known.values().flatten().map(|directive| directive.info());
        all.filter(move |info| info.contexts.dialect() == dialect).map(|info| info.name)
    }
}

/// The context inside a block: an `if` is another thing in a server than in a location, and a `server` in `stream` than
/// in `http`.
fn inner_context(opens: Contexts, around: Contexts) -> Contexts {
    const IN_STREAM: Contexts = Contexts::STREAM_SERVER.or(Contexts::STREAM_UPSTREAM);
    match around {
        Contexts::SERVER if opens.contains(Contexts::SERVER_IF) => Contexts::SERVER_IF,
        _ if opens.contains(Contexts::SERVER_IF) => Contexts::LOCATION_IF,
        Contexts::STREAM => opens.and(IN_STREAM),
        _ => opens.without(IN_STREAM),
    }
}
