//! nginx's language: from a file to what was written, and to the plan of what it serves.

use crate::addresses::Addresses;
use crate::listens::ListenSpec;
use crate::load::{Loaded, Options, Reader, told};
use crate::plan::{Chooser, LocationPlan, Plan, ServerPlan};
use crate::protocols::Application;
use crate::structure::{HTTP, LIMIT_EXCEPT, LISTEN, LOCATION, SERVER, STREAM};
use conf::{Contexts, Diagnostic, Inputs, Span, catalogue};
use contract::{Config, Loading, LocationKind, Module, SERVER_NAME, SectionId, ServerName, Written};
use std::collections::HashSet;
use std::sync::Arc;

/// Reads a configuration in nginx's language with the directives of these modules. On an error, all that was read before
/// it is still there, for messages.
pub(crate) fn load(
    inputs: &dyn Inputs,
    options: &Options,
    modules: &[&'static Module],
    mut loading: Loading,
) -> Loaded {
    loading.modules = modules.into();
    let text = conf::load(inputs, &options.path, options.globals.as_deref());
    let http_only: Vec<_> = catalogue::http_only_names().collect();
    let (nodes, note) = conf::wrap_bare(text.nodes, &http_only);
    loading.notes.extend(note);
    loading.notes.extend(conf::curly_quotes(&nodes));
    let config = Config::within(Arc::clone(&loading.origin));
    loading.refusals = Some(Vec::new());
    let mut reader = Reader::new(modules, config, loading);
    let error = reader.block(&nodes, Config::MAIN, Contexts::MAIN).err().or(text.error);
    let mut refusals = reader.loading.refusals.take().unwrap_or_default();
    if error.is_none() {
        // Only now is it known which variables nothing defines.
        let known: Vec<_> = modules.iter().flat_map(|module| module.variables).copied().collect();
        refusals.extend(reader.loading.variables.refusals(&known));
    }
    let mut errors = told(refusals).into_iter().chain(error);
    let (mut error, mut further) = (errors.next(), errors.collect());
    let of_another = |error| conf::in_place_of_nginx(error, &text.sources);
    if let Some(whole_file) = error.as_ref().and_then(of_another) {
        (error, further) = (Some(whole_file), Vec::new());
    }
    let plan = match &error {
        None => plan(&reader.config, reader.loading.default_port),
        Some(_) => Ok(Plan::default()),
    };
    let (config, loading, sources) = (Arc::new(reader.config), reader.loading, text.sources);
    Loaded { config, loading, plan, sources, error, further }
}

/// Plans the servers of `http` and of `stream`. A server of `http` without `listen` answers on this port.
///
/// # Errors
/// What contradicts itself, such as two locations of one name.
fn plan(config: &Config, default_port: u16) -> Result<Plan, Diagnostic> {
    let main = config.view(Config::MAIN);
    let mut plan = Plan::default();
    let mut addresses = Addresses::default();
    for (directive, application) in [(&HTTP, Application::Http), (&STREAM, Application::Stream)] {
        let Some(&level) = main.get(directive) else { continue };
        plan.levels.push(level);
        for written in main.at(level).here(&SERVER) {
            let (section, span) = (*written.value, written.span);
            let place = plan.servers.len();
            plan.servers.push(server(config, (section, span), application)?);
            addresses.add(&listens(config, (section, span), application, default_port)?, place)?;
        }
    }
    (plan.listens, plan.notes) = addresses.finish();
    Ok(plan)
}

fn server(
    config: &Config,
    (section, span): (SectionId, Span),
    application: Application,
) -> Result<ServerPlan, Diagnostic> {
    let written = config.view(section).here(&SERVER_NAME);
    let mut names: Vec<ServerName> = written.iter().flat_map(|written| written.value).cloned().collect();
    if names.is_empty() {
        // It answers to requests that name no host.
        names.push(ServerName::Text(Box::default()));
    }
    let chooser = match application {
        Application::Http => Chooser::Locations(locations(config, section)?),
        Application::Stream => Chooser::Connection,
    };
    Ok(ServerPlan { section, span, names, chooser })
}

/// The locations of a level, checked for duplicates.
fn locations(config: &Config, section: SectionId) -> Result<Vec<LocationPlan>, Diagnostic> {
    let (mut seen, mut plans) = (HashSet::new(), Vec::new());
    for Written { value: spec, span } in config.view(section).here(&LOCATION) {
        let is_prefix = matches!(spec.name.kind, LocationKind::Prefix | LocationKind::PrefixOnly);
        let kind = if is_prefix { LocationKind::Prefix } else { spec.name.kind };
        if kind != LocationKind::Regex && !seen.insert((kind as u8, &spec.name.text)) {
            let message = format!("duplicate location \"{}\"", String::from_utf8_lossy(&spec.name.text));
            return Err(Diagnostic::emerg(message).at(span));
        }
        let limits = config.view(spec.section).here(&LIMIT_EXCEPT);
        let limited = limits.first().map(|limit| (limit.value.methods().into(), limit.value.section));
        let (name, regex) = (spec.name.clone(), spec.regex.clone());
        let inner = locations(config, spec.section)?;
        plans.push(LocationPlan { name, regex, section: spec.section, span, inner, limited });
    }
    Ok(plans)
}

/// The lines of a server that say where it answers.
fn listens(
    config: &Config,
    (section, span): (SectionId, Span),
    application: Application,
    default_port: u16,
) -> Result<Vec<ListenSpec>, Diagnostic> {
    let written = config.view(section).here(&LISTEN);
    match application {
        _ if !written.is_empty() => Ok(written.iter().map(|written| written.value.clone()).collect()),
        Application::Http => Ok(vec![ListenSpec::fallback(default_port, span)]),
        Application::Stream => Err(Diagnostic::emerg("no \"listen\" is defined for server").at(span)),
    }
}
