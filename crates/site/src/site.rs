//! The whole configuration, compiled.

use crate::builder::ThreadGuard;
use crate::compiler::{self, Compiler};
use crate::hosts::Listen;
use crate::layers::Layers;
use crate::load::{Loaded, table};
use crate::overlay::{self, Base, Choose, ServedRoot, Survey};
use crate::plan::Plan;
use crate::protocols::Application;
use crate::scopes::Scopes;
use conf::{Diagnostic, Sources};
use contract::{
    Config, Kept, Module, Peer, Phase, Scope, ScopeBuilder, SectionId, SiteService, VariableTable,
};
use journal::{Level, LogFiles};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::Validity;

/// A configuration, compiled: immutable and shared by all threads.
pub struct Site {
    /// The sockets to listen on.
    pub listens: Vec<Listen>,
    /// The log files to open.
    pub logs: LogFiles,
    /// The variables that the configuration uses.
    pub variables: Arc<VariableTable>,
    /// The same of `stream`.
    pub stream_variables: Arc<VariableTable>,
    /// State that the configuration after this one shares, where it defines the same.
    pub kept: Kept,
    /// What it runs besides requests, each once.
    pub services: Box<[SiteService]>,
    /// The files of certificates that are served without a reload when they change, each once.
    pub watched: Box<[PathBuf]>,
    /// The certificates that it serves with, but for those that variables name.
    pub certificates: Arc<[Validity]>,
    /// The settings of the main level.
    main: Arc<Scope>,
    /// Where settings in `.htaccess` files count, and what they are compiled with; none where they do not.
    served_roots: Option<(Arc<Base>, Box<[ServedRoot]>)>,
    /// The thread that compiled the site, where it stays. It comes last, because it ends when this is dropped.
    pub compiled_by: Option<ThreadGuard>,
}

impl Site {
    /// Writes to the error log of the main level, for what concerns no request.
    pub fn log(&self, level: Level, message: &str) {
        self.main.policy.error_log.write(level, message);
    }

    /// Reads the files with settings below all directories that are served, as requests would; `None` where none count.
    pub fn survey(&self) -> Option<Survey> {
        let (base, roots) = self.served_roots.as_ref()?;
        Some(overlay::survey(base, roots))
    }

    /// The place of the same endpoint among [`Site::listens`]; `hint` is where to look first.
    pub fn find(&self, listen: &Listen, hint: usize) -> Option<usize> {
        let is_same = |other: &Listen| other.endpoint == listen.endpoint;
        match self.listens.get(hint) {
            Some(other) if is_same(other) => Some(hint),
            _ => self.listens.iter().position(is_same),
        }
    }

    /// Whether connections of any address begin with a handshake.
    pub fn is_encrypted(&self) -> bool {
        self.listens.iter().any(Listen::is_encrypted)
    }

    /// The server and location with this scope, as an end of a line of the error log.
    pub fn place_of(&self, is_it: impl Fn(&Arc<Scope>) -> bool) -> Option<String> {
        let mut servers = self.listens.iter().flat_map(Listen::servers);
        servers.find_map(|server| server.place_of(&is_it))
    }

    /// Whether everything about the connections of a client is logged.
    pub fn debugs(&self, client: &Peer) -> bool {
        self.main.policy.debugged.as_ref().is_some_and(|clients| clients.has(client))
    }

    /// The first file of that log.
    pub fn error_log(&self) -> Option<&Path> {
        self.main.policy.error_log.path()
    }

    /// Compiles what was loaded, by its plan. Notes are added to `loaded.loading.notes`.
    pub fn compile(loaded: &mut Loaded, modules: &[&'static Module]) -> Result<Site, Diagnostic> {
        let plan = std::mem::replace(&mut loaded.plan, Ok(Plan::default()))?;
        let known: Vec<_> = modules.iter().flat_map(|module| module.variables).copied().collect();
        let has_servers = plan.servers.iter().any(|server| server.chooser.application() == Application::Http);
        let (notes, variables) = (&mut loaded.loading.notes, std::mem::take(&mut loaded.loading.variables));
        // nginx looks up the variables of `proxy_set_header` and its siblings for servers only.
        let variables = variables.finish(&known, &mut |unknown, is_for_servers| match has_servers {
            false if is_for_servers => {
                notes.push(Diagnostic { level: conf::Level::Warn, ..unknown });
                Ok(())
            }
            _ => Err(unknown),
        })?;
        let stream_variables = std::mem::take(&mut loaded.loading.other_variables)
            .finish(&known, &mut |unknown, _| Err(unknown))?;
        let base = Arc::new(base(loaded, modules, plan.layers));
        let layered = RefCell::<Vec<_>>::default();
        let served_roots = RefCell::<BTreeMap<Option<PathBuf>, Vec<ServedRoot>>>::default();
        let over = |builder: &mut ScopeBuilder| {
            let Some(overlay) = builder.policy.overlay.clone() else { return };
            if base.layers.contains_key(&overlay.section) {
                builder.handle(Phase::Rewrite, Choose { base: Arc::clone(&base) });
                layered.borrow_mut().push(overlay);
                return;
            }
            let root = ServedRoot::new(overlay, builder.name.clone(), &builder.policy.root);
            let mut served_roots = served_roots.borrow_mut();
            let here = served_roots.entry(root.directory.clone()).or_default();
            if !here.iter().any(|known| known.has_same_settings(&root)) {
                here.push(root);
            }
            // The last handler of its phase: `Reroute::Settings` runs it alone.
            builder.handle(Phase::Rewrite, Choose { base: Arc::clone(&base) });
        };
        let (prefix, logs) = (&loaded.loading.prefix, &loaded.loading.logs);
        let compiler = Compiler {
            scopes: Scopes { finish: Some(&over), ..Scopes::new(&loaded.config, modules, prefix, logs) },
            sets: RefCell::default(),
            notes: RefCell::default(),
            watched: RefCell::default(),
            served: RefCell::default(),
            opens_tunnels: Cell::default(),
        };
        let main_scope = compiler.scopes.scope(Config::MAIN, None)?;
        let servers = compiler.servers(&plan.levels, plan.servers)?;
        overlay::check_layers(&base, &layered.take())?;
        let notes = compiler.notes.take();
        let services = compiler.scopes.services.take().into();
        let watched = compiler.watched.take().into_iter().collect();
        let certificates = compiler.served.take().into_iter().collect();
        loaded.loading.notes.extend(notes.into_iter().chain(plan.notes));
        let roots = served_roots.take();
        let served_roots =
            (!roots.is_empty()).then(|| (Arc::clone(&base), roots.into_values().flatten().collect()));
        let listens = compiler::listens(plan.listens, &servers, &mut loaded.loading.notes)?;
        let logs = loaded.loading.logs.clone();
        let kept = loaded.loading.origin.finish();
        let (variables, stream_variables) = (Arc::new(variables), Arc::new(stream_variables));
        Ok(Site {
            listens,
            logs,
            variables,
            stream_variables,
            kept,
            services,
            watched,
            certificates,
            main: main_scope,
            served_roots,
            compiled_by: None,
        })
    }
}

/// What scopes need that are compiled while requests are served.
fn base(loaded: &Loaded, modules: &[&'static Module], layers: HashMap<SectionId, Arc<Layers>>) -> Base {
    // Only messages about layers name these files.
    let mut sources = if layers.is_empty() { Sources::default() } else { loaded.sources.clone() };
    sources.drop_texts();
    Base {
        config: Arc::clone(&loaded.config),
        modules: modules.into(),
        table: Arc::new(table(modules)),
        prefix: loaded.loading.prefix.clone(),
        logs: loaded.loading.logs.clone(),
        layers,
        sources,
    }
}
