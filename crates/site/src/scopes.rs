//! Compiles one level of a configuration.

use crate::unbuilt::{UNBUILT, Unbuilt};
use conf::{Contexts, Diagnostic};
use contract::{
    Config, LocationName, Module, Policy, Root, Scope, ScopeBuilder, SectionId, SiteService, Template,
};
use journal::LogFiles;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles levels of one configuration.
pub struct Scopes<'a> {
    /// What was written.
    pub config: &'a Config,
    /// The features.
    pub modules: &'a [&'a Module],
    /// What relative paths are relative to.
    pub prefix: &'a Path,
    /// The log files that were asked for.
    pub logs: &'a LogFiles,
    /// What is done with each level after all features.
    pub finish: Option<&'a dyn Fn(&mut ScopeBuilder)>,
    /// The services of all levels.
    pub services: RefCell<Vec<SiteService>>,
    /// Warnings about what was compiled.
    pub notes: RefCell<Vec<Diagnostic>>,
}

impl<'a> Scopes<'a> {
    /// Levels of a configuration over another one, such as those of `.htaccess` files.
    pub fn new(config: &'a Config, modules: &'a [&'a Module], prefix: &'a Path, logs: &'a LogFiles) -> Self {
        let (services, notes) = Default::default();
        Scopes { config, modules, prefix, logs, finish: None, services, notes }
    }

    /// Compiles one scope, after the `if` blocks inside of it.
    pub fn scope(&self, section: SectionId, name: Option<&LocationName>) -> Result<Arc<Scope>, Diagnostic> {
        let view = self.config.view(section);
        let mut builder = ScopeBuilder::new(name.cloned(), self.default_policy());
        builder.logs = self.logs.clone();
        for inner in view.inner() {
            const IF: Contexts = Contexts::SERVER_IF.or(Contexts::LOCATION_IF);
            if IF.contains(inner.context()) {
                builder.inner.insert(inner.section(), self.scope(inner.section(), name)?);
            }
        }
        for module in self.modules {
            // A level of `stream` knows only the features that have directives there.
            if view.context().intersects(Contexts::ALL_STREAM)
                && !has_directives(module, Contexts::ALL_STREAM)
            {
                continue;
            }
            if let Some(compile) = module.compile {
                builder.feature = module.name;
                compile(&view, &mut builder)?;
            }
        }
        self.add_services(&mut builder.services);
        self.notes.borrow_mut().append(&mut builder.notes);
        builder.feature = "server";
        if let Some(finish) = self.finish {
            finish(&mut builder);
        }
        if let Some(unbuilt) = view.get(&UNBUILT) {
            builder.content(view.place(&UNBUILT), Unbuilt { directive: unbuilt.directive.clone() });
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Adds services that no other scope added.
    fn add_services(&self, added: &mut Vec<SiteService>) {
        let mut services = self.services.borrow_mut();
        for service in added.drain(..) {
            if !services.iter().any(|other| Arc::ptr_eq(&other.service, &service.service)) {
                services.push(service);
            }
        }
    }

    fn default_policy(&self) -> Policy {
        Policy::new(Root {
            path: Template::literal(b"html"),
            alias: None,
            prefix: PathBuf::from(self.prefix),
        })
    }
}

/// Whether a feature has directives in any of these contexts.
fn has_directives(module: &Module, contexts: Contexts) -> bool {
    module.directives.iter().any(|directive| directive.info().contexts.intersects(contexts))
}
