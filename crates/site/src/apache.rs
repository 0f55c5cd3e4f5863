//! Apache's main configuration: from a tree to the plan of what it serves.
//!
//! The main server and each `<VirtualHost>` are servers with one location, over which lie sections for directories. Lines
//! become settings in three ways, by where their directives may stand:
//!
//! - What concerns the processes is read into the main level.
//! - What concerns a server is read into its level. A virtual host inherits from the main server as a server of nginx does
//!   from `http`. Directives that add up ([`Rule::Gather`]) are read once more in each virtual host, after its own.
//! - What may stand in a directory becomes the outermost layer of the server: first that of the main server, then that of
//!   the virtual host.

mod addresses;
mod environment;
mod left_out;
mod options;

use crate::layers::{Layers, Place, Section};
use crate::load::{Loaded, Options, Reader, told};
use crate::plan::{Chooser, LocationPlan, Plan, ServerPlan};
use crate::structure::{HTTP, LOCATION};
use addresses::{Address, Listening};
use conf::apache::{Allowed, MainFile, Start};
use conf::{Contexts, Diagnostic, Inputs, Node, Span, Word};
use contract::{
    AnyDirective, Config, Loading, LocationKind, LocationName, Module, Rule, SectionId, ServerName,
};
use environment::Environment;
use std::sync::Arc;

/// Sections of a server that are tried after all others.
const CONDITIONS: [&str; 3] = ["If", "ElseIf", "Else"];

/// Reads a main configuration of Apache with the directives of these modules. On an error, all that was read before it is
/// still there, for messages.
pub(crate) fn load(
    inputs: &dyn Inputs,
    options: &Options,
    modules: &[&'static Module],
    mut loading: Loading,
) -> Loaded {
    let environment = Environment::of(inputs, &options.path);
    let start = Start {
        root: loading.conf_prefix.clone(),
        defined: Vec::new(),
        before: Vec::new(),
        after: Vec::new(),
        environment: &|name| environment.value(name),
        is_built: &options.apache.is_built,
    };
    let MainFile { loaded, warnings, root, modules: loaded_modules, .. } =
        conf::apache::load(inputs, &options.path, &start);
    loading.modules = modules.into();
    loading.notes.extend(environment.notes());
    loading.notes.extend(warnings);
    let unbuilt = loaded_modules.iter().filter(|module| !(options.apache.is_built)(&module.name));
    loading.notes.extend(unbuilt.map(|module| {
        let message = format!("the module \"{}\" is not built: its directives are refused", module.name);
        Diagnostic::notice(message).at(module.span)
    }));
    loading.prefix = root;
    loading.refusals = Some(Vec::new());
    let config = Config::within(Arc::clone(&loading.origin));
    let reader = Reader::new(modules, config, loading);
    let defaults = conf::parse_bytes(options.apache.server_defaults.as_bytes()).nodes;
    // Without any LoadModule line the modules are parts of Apache's program.
    let is_loaded =
        |name: &str| loaded_modules.is_empty() || loaded_modules.iter().any(|module| &*module.name == name);
    let switched_off = options::switched_off(is_loaded);
    let (plan, layers, conditions, has_wildcards) = Default::default();
    let mut hosts = Hosts { reader, plan, has_wildcards, defaults, switched_off, layers, conditions };
    let read = match loaded.error {
        None => left_out::without(loaded.nodes, &mut hosts.reader.loading).and_then(|nodes| {
            options::links_opened(&nodes).map_or(Ok(()), |refusal| hosts.reader.loading.refuse(refusal))?;
            hosts.read(&nodes, options)
        }),
        Some(error) => Err(error),
    };
    let Hosts { mut reader, plan, .. } = hosts;
    let mut refusals = reader.loading.refusals.take().unwrap_or_default();
    let known: Vec<_> = modules.iter().flat_map(|module| module.variables).copied().collect();
    if read.is_ok() {
        refusals.extend(reader.loading.variables.refusals(&known));
    }
    let mut errors = told(refusals).into_iter().chain(read.err());
    let (error, further) = (errors.next(), errors.collect());
    let plan = Ok(if error.is_none() { plan } else { Plan::default() });
    let (config, loading, sources) = (Arc::new(reader.config), reader.loading, loaded.sources);
    Loaded { config, loading, plan, sources, error, further }
}

/// The lines of the main server or of a virtual host, by what happens to them.
#[derive(Default)]
struct Lines<'a> {
    /// Settings of the server.
    settings: Vec<&'a Node>,
    /// Settings for all of its files, and sections for some of them.
    files: Vec<Node>,
    /// Sections that are tried after all others.
    conditions: Vec<Node>,
    /// `<Directory>` and `<DirectoryMatch>`.
    directories: Vec<Section>,
    /// All that it is called.
    names: Vec<&'a Word>,
    aliases: Vec<&'a Word>,
    hosts: Vec<&'a Node>,
    listens: Vec<&'a Node>,
}

/// Reads the servers.
struct Hosts {
    reader: Reader,
    plan: Plan,
    /// Whether any name has a wildcard.
    has_wildcards: bool,
    /// What each server does unless its lines say otherwise.
    defaults: Vec<Node>,
    /// What no server does, since its module is not loaded.
    switched_off: Vec<Node>,
    /// The sections of the main server, which lie over each host.
    layers: Vec<Section>,
    /// Those that are tried after all others.
    conditions: Vec<Section>,
}

impl Hosts {
    fn read(&mut self, nodes: &[Node], options: &Options) -> Result<(), Diagnostic> {
        let main = self.lines(nodes, Contexts::ALL_HTTPD)?;
        let first =
            nodes.first().map_or(Span { file: conf::FileId(0), start: 0, end: 0, line: 1 }, |node| node.span);
        if let Some(globals) = &options.globals {
            let globals = conf::parse_bytes(globals.as_bytes()).nodes;
            self.reader.block(&globals, Config::MAIN, Contexts::MAIN)?;
        }
        let defaults = self.reader.config.open(Config::MAIN, Contexts::HTTP);
        self.reader.config.store(Config::MAIN, AnyDirective::info(&HTTP), Box::new(defaults), first)?;
        let known = conf::parse_bytes(options.apache.defaults.as_bytes()).nodes;
        self.reader.block(&known, defaults, Contexts::HTTP)?;
        let level = self.reader.config.open(defaults, Contexts::HTTP);
        self.plan.levels = vec![defaults, level];
        let mut gathered = Vec::new();
        for &node in &main.settings {
            let info = self.reader.directive(node, Contexts::ALL_HTTPD).map(|directive| directive.info());
            let info = info.map(|info| (info.contexts, info.rule));
            let place = match info {
                Some((contexts, _)) if contexts.intersects(Contexts::HTTPD) => (Config::MAIN, Contexts::MAIN),
                Some((_, Rule::Gather)) => {
                    gathered.push(node);
                    continue;
                }
                _ => (level, Contexts::HTTP),
            };
            self.setting(node, place)?;
        }
        self.layers = over_files(&main.files).chain(main.directories.iter().cloned()).collect();
        self.conditions = over_files(&main.conditions).collect();
        self.has_wildcards = main.hosts.iter().any(|host| host.children().iter().any(is_wild));
        let listens = addresses::listens(&main.listens, &mut self.reader.loading)?;
        let mut addresses = vec![Vec::new()];
        self.host((&main, first), level, &gathered)?;
        for &node in &main.hosts {
            addresses.push(addresses::of_host(node, &self.reader.loading)?);
            let lines = self.lines(node.children(), Contexts::VIRTUAL_HOST)?;
            self.host((&lines, node.span), level, &gathered)?;
        }
        self.listen(&listens, &addresses)
    }

    fn listen(&mut self, listens: &[Listening], addresses: &[Vec<Address>]) -> Result<(), Diagnostic> {
        let spans: Vec<Span> = self.plan.servers.iter().map(|server| server.span).collect();
        let inputs = &*self.reader.loading.origin.inputs;
        (self.plan.listens, self.plan.notes) = addresses::plan(listens, addresses, &spans, inputs);
        Ok(())
    }

    /// Sorts the lines of a server.
    fn lines<'a>(&mut self, nodes: &'a [Node], context: Contexts) -> Result<Lines<'a>, Diagnostic> {
        let mut lines = Lines::default();
        let is_main = context.intersects(Contexts::HTTPD);
        for node in nodes {
            match node.name.to_string().to_ascii_lowercase().as_str() {
                "directory" if node.block.is_some() => lines.directories.push(section(node, false)?),
                "directorymatch" if node.block.is_some() => lines.directories.push(section(node, true)?),
                "virtualhost" if node.block.is_some() && is_main => lines.hosts.push(node),
                "listen" if is_main => lines.listens.push(node),
                "servername" => lines.names = vec![argument(node)?],
                "serveralias" => lines.aliases.extend(&node.args),
                _ if CONDITIONS.iter().any(|name| node.name.text.eq_ignore_ascii_case(name.as_bytes())) => {
                    lines.conditions.push(node.clone());
                }
                _ => self.line(node, context, &mut lines)?,
            }
        }
        Ok(lines)
    }

    fn line<'a>(
        &mut self,
        node: &'a Node,
        context: Contexts,
        lines: &mut Lines<'a>,
    ) -> Result<(), Diagnostic> {
        let Some(directive) = self.reader.directive(node, context) else {
            // The reader says what is wrong with it.
            return self.reader.block(std::slice::from_ref(node), Config::MAIN, context);
        };
        let info = directive.info();
        if info.contexts.intersects(Contexts::DIRECTORY) {
            lines.files.push(node.clone());
            return Ok(());
        }
        // As in Apache, the last of several lines counts.
        if info.rule != Rule::Gather && !info.repeats {
            lines.settings.retain(|other| !other.name.text.eq_ignore_ascii_case(&node.name.text));
        }
        lines.settings.push(node);
        Ok(())
    }

    fn setting(&mut self, node: &Node, (section, context): (SectionId, Contexts)) -> Result<(), Diagnostic> {
        self.reader.block(std::slice::from_ref(node), section, context.or(Contexts::ALL_HTTPD))
    }

    /// Adds a server, which inherits from a level.
    fn host(
        &mut self,
        (lines, span): (&Lines<'_>, Span),
        level: SectionId,
        gathered: &[&Node],
    ) -> Result<(), Diagnostic> {
        let is_main = self.plan.servers.is_empty();
        let section = self.reader.config.open(level, Contexts::SERVER);
        self.reader.block(&self.defaults, section, Contexts::SERVER)?;
        let own = if is_main { &[][..] } else { &lines.settings };
        for node in own.iter().chain(gathered) {
            self.setting(node, (section, Contexts::SERVER))?;
        }
        let mut sections = self.layers.clone();
        if !is_main {
            sections.extend(over_files(&lines.files).chain(lines.directories.iter().cloned()));
        }
        sections.extend(self.conditions.iter().cloned());
        if !is_main {
            sections.extend(over_files(&lines.conditions));
        }
        sections.extend(over_files(&self.switched_off));
        let layers = Arc::new(Layers::new(sections));
        let locations = self.locations(section, span);
        for over in locations.iter().map(|location| location.section).chain([section]) {
            self.plan.layers.insert(over, Arc::clone(&layers));
        }
        let names = self.names(lines)?;
        self.plan.servers.push(ServerPlan { section, span, names, chooser: Chooser::Locations(locations) });
        Ok(())
    }

    /// The locations that lines of a server stand for, and the one for all other paths. As in Apache the first of two counts
    /// if one contains the other.
    fn locations(&mut self, section: SectionId, span: Span) -> Vec<LocationPlan> {
        let mut plans: Vec<LocationPlan> = Vec::new();
        for written in self.reader.config.view(section).here(&LOCATION) {
            let name = &written.value.name;
            let is_hidden = |earlier: &LocationPlan| match earlier.name.kind {
                LocationKind::Exact => earlier.name.text == name.text && name.kind == LocationKind::Exact,
                _ => name.text.starts_with(&earlier.name.text),
            };
            if !plans.iter().any(is_hidden) {
                let (name, regex) = (name.clone(), written.value.regex.clone());
                let (section, span) = (written.value.section, written.span);
                plans.push(LocationPlan { name, regex, section, span, inner: Vec::new(), limited: None });
            }
        }
        let name = LocationName { kind: LocationKind::Prefix, text: Box::from(*b"/") };
        if !plans.iter().any(|plan| plan.name.text == name.text) {
            let section = self.reader.config.open(section, Contexts::LOCATION);
            plans.push(LocationPlan { name, regex: None, section, span, inner: Vec::new(), limited: None });
        }
        plans
    }

    /// The names of a server. Where any server has one with a wildcard, all are patterns, so that the first server that
    /// matches counts.
    fn names(&mut self, lines: &Lines<'_>) -> Result<Vec<ServerName>, Diagnostic> {
        let named = lines.names.iter().map(|word| host_of(&word.text)).collect::<Vec<_>>();
        let aliases = lines.aliases.iter().map(|word| word.text.to_ascii_lowercase());
        let all: Vec<Vec<u8>> = named.into_iter().chain(aliases).collect();
        if !self.has_wildcards {
            let names: Vec<_> = all.into_iter().map(|name| ServerName::Text(name.into())).collect();
            return Ok(if names.is_empty() { vec![ServerName::Text(Box::default())] } else { names });
        }
        let words = lines.names.iter().chain(&lines.aliases);
        let pattern = |(name, word): (&Vec<u8>, &&Word)| {
            let regex = self.reader.loading.regex(word, &pattern_of(name), true)?;
            Ok(ServerName::Regex(Arc::new(regex)))
        };
        all.iter().zip(words).map(pattern).collect()
    }
}

/// Lines of a server for all of its files, as one of its outermost layers.
fn over_files(nodes: &[Node]) -> impl Iterator<Item = Section> {
    let section = Section { place: Place::Everywhere, nodes: nodes.into(), allowed: None };
    (!nodes.is_empty()).then_some(section).into_iter()
}

/// A section for directories, without the line that says what files may contain.
fn section(node: &Node, is_pattern: bool) -> Result<Section, Diagnostic> {
    let (mut nodes, mut allowed) = (Vec::new(), None);
    let place = Place::of(node, is_pattern)?;
    for inner in node.children() {
        if !inner.name.text.eq_ignore_ascii_case(b"allowoverride") {
            nodes.push(inner.clone());
            continue;
        }
        if !matches!(place, Place::Directory(_)) {
            let message = "\"AllowOverride\" does not count in a section with a pattern";
            return Err(Diagnostic::emerg(message).at(inner.span));
        }
        allowed = Some(Arc::new(Allowed::of_words(inner)?));
    }
    Ok(Section { place, nodes: nodes.into(), allowed })
}

/// The only argument of a directive.
fn argument(node: &Node) -> Result<&Word, Diagnostic> {
    match &*node.args {
        [word] => Ok(word),
        _ => Err(Diagnostic::emerg(format!("{} takes one argument", node.name)).at(node.span)),
    }
}

/// Whether a line gives a name with a wildcard.
fn is_wild(node: &Node) -> bool {
    let has_wildcard = |word: &Word| word.text.iter().any(|byte| b"*?".contains(byte));
    node.name.text.eq_ignore_ascii_case(b"serveralias") && node.args.iter().any(has_wildcard)
}

/// The host of `[SCHEME://]HOST[:PORT]`, in lower case.
fn host_of(text: &[u8]) -> Vec<u8> {
    let text = text.to_ascii_lowercase();
    let scheme = text.windows(3).position(|part| part == b"://");
    let host = scheme.map_or(&*text, |at| &text[at + 3..]);
    let is_ip = host.starts_with(b"[");
    match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if !is_ip || host[..colon].ends_with(b"]") => host[..colon].to_vec(),
        _ => host.to_vec(),
    }
}

/// The regular expression of a name with `*` and `?`.
fn pattern_of(name: &[u8]) -> Vec<u8> {
    let mut pattern = b"^".to_vec();
    for &byte in name {
        match byte {
            b'*' => pattern.extend_from_slice(b".*"),
            b'?' => pattern.push(b'.'),
            _ if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' => pattern.push(byte),
            _ => pattern.extend_from_slice(&[b'\\', byte]),
        }
    }
    pattern.push(b'$');
    pattern
}
