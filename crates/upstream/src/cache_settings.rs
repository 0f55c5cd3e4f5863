//! What the options about keeping responses come to in one scope.

use crate::cache_options::{CacheMethods, CacheOptions, CachePath, UsedZone};
use crate::cache_purge::Purge;
use crate::failures::Failures;
use cache::{DiskUse, Ignoring, Rules, ValidTimes, Zone};
use conf::{Contexts, Diagnostic};
use contract::{Exchange, Identity, Template, View};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// A zone with the settings of its directory.
#[derive(Clone, Debug)]
pub struct Store {
    /// The settings.
    pub path: Arc<CachePath>,
    /// What is kept.
    pub zone: Arc<Zone>,
}

/// Whether one request asks for a response and others wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Lock {
    /// Whether they do (`cache_lock`).
    pub is_on: bool,
    /// How long a request waits (`cache_lock_timeout`).
    pub timeout: Duration,
    /// How long it may take until another request asks (`cache_lock_age`).
    pub age: Duration,
}

/// What happens to responses that are no longer fresh.
#[derive(Clone, Copy, Debug)]
pub struct Stale {
    /// In which cases they are sent (`cache_use_stale`).
    pub used_after: Failures,
    /// Whether they are sent while they are updated (`cache_background_update`).
    pub background_update: bool,
    /// Whether the server is asked if they are valid (`cache_revalidate`).
    pub revalidate: bool,
}

/// What the options about keeping responses come to in one scope.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "most fields are the option of that name")]
pub struct CacheSettings {
    pub(crate) used: UsedZone,
    /// All zones, or only the one that is used.
    pub(crate) stores: Box<[Arc<Store>]>,
    pub key: Option<Template>,
    pub valid: ValidTimes,
    pub methods: CacheMethods,
    pub min_uses: u32,
    pub bypass: Box<[Template]>,
    pub no_cache: Box<[Template]>,
    pub purge: Box<[Purge]>,
    pub lock: Lock,
    pub stale: Stale,
    pub rules: Rules,
    /// The fields of a response that do not count.
    pub ignoring: Ignoring,
    pub max_range_offset: Option<u64>,
    /// Whether a HEAD request is passed on as GET, so that its response can be kept.
    pub convert_head: bool,
}

impl CacheSettings {
    /// What holds for one scope; none if nothing is kept there.
    ///
    /// # Errors
    /// A zone that is not there, or there twice.
    pub fn new(view: &View<'_>, options: &CacheOptions) -> Result<Option<CacheSettings>, Diagnostic> {
        let stores = stores(view, options)?;
        let Some(written) = view.written(&options.cache) else { return Ok(None) };
        let mut used: Box<[Arc<Store>]> = stores.into();
        match written.value {
            UsedZone::Off => return Ok(None),
            UsedZone::Named(name) => {
                let found = find(&used, name)
                    .ok_or_else(|| unknown_zone(options, &options.cache, name).at(written.span))?;
                used = Box::new([found]);
            }
            UsedZone::Computed(_) => {}
        }
        let mut settings = CacheSettings {
            used: written.value.clone(),
            stores: used,
            key: view.get(&options.key).cloned(),
            valid: ValidTimes {
                by_status: concat(view, &options.valid.valid),
                is_heuristic: view.get(&options.valid.heuristic).copied().unwrap_or(false),
            },
            methods: CacheMethods(
                view.all(&options.methods).iter().fold(0, |all, written| all | written.value.0),
            ),
            min_uses: 1,
            bypass: concat(view, &options.bypass).into(),
            no_cache: concat(view, &options.no_cache).into(),
            purge: view.all(&options.purge).into_iter().map(|written| written.value.clone()).collect(),
            lock: Lock { is_on: false, timeout: Duration::from_secs(5), age: Duration::from_secs(5) },
            stale: Stale { used_after: Failures::NONE, background_update: false, revalidate: false },
            rules: Rules::Nginx,
            ignoring: Ignoring::default(),
            max_range_offset: view.get(&options.max_range_offset).copied(),
            convert_head: false,
        };
        settings.assign(view, options);
        Ok(Some(settings))
    }

    fn assign(&mut self, view: &View<'_>, options: &CacheOptions) {
        if let Some(&uses) = view.get(&options.min_uses) {
            self.min_uses = u32::try_from(uses).unwrap_or(u32::MAX);
        }
        view.assign(&options.lock.lock, &mut self.lock.is_on);
        view.assign(&options.lock.timeout, &mut self.lock.timeout);
        view.assign(&options.lock.age, &mut self.lock.age);
        view.assign(&options.background_update, &mut self.stale.background_update);
        view.assign(&options.rules, &mut self.rules);
        // To ask again is what RFC 9111 has instead of getting a response anew.
        self.stale.revalidate = self.rules == Rules::Rfc9111;
        view.assign(&options.revalidate, &mut self.stale.revalidate);
        let stale = view.all(&options.use_stale).iter().fold(0, |all, written| all | written.value.0);
        self.stale.used_after =
            if Failures(stale).has(Failures::OFF) { Failures::NONE } else { Failures(stale) };
    }

    /// The zone that a request uses, if it uses one.
    ///
    /// # Errors
    /// The line for the error log: there is no zone of the computed name.
    pub fn store(&self, exchange: &Exchange) -> Result<Option<&Arc<Store>>, String> {
        let UsedZone::Computed(template) = &self.used else { return Ok(self.stores.first()) };
        let name = template.evaluate(exchange);
        if name.is_empty() || name == b"off" {
            return Ok(None);
        }
        let found = self.stores.iter().find(|store| *store.path.name == *name);
        found.map(Some).ok_or_else(|| format!("cache \"{}\" not found", String::from_utf8_lossy(&name)))
    }
}

/// The zone and the key of `cache_purge ZONE KEY` in the location that a scope belongs to.
///
/// # Errors
/// A zone that is not there.
pub fn purged_key(
    view: &View<'_>,
    options: &CacheOptions,
) -> Result<Option<(Arc<Store>, Template)>, Diagnostic> {
    let location = view.levels().find(|level| level.context() == Contexts::LOCATION);
    for written in location.into_iter().flat_map(|level| level.here(&options.purge)) {
        let Purge::Key(name, key) = written.value else { continue };
        let found = find(&stores(view, options)?, name)
            .ok_or_else(|| unknown_zone(options, &options.purge, name).at(written.span))?;
        return Ok(Some((found, key.clone())));
    }
    Ok(None)
}

fn find(stores: &[Arc<Store>], name: &[u8]) -> Option<Arc<Store>> {
    stores.iter().find(|store| *store.path.name == *name).cloned()
}

fn unknown_zone(options: &CacheOptions, used_by: &dyn contract::AnyDirective, name: &[u8]) -> Diagnostic {
    let name = String::from_utf8_lossy(name);
    Diagnostic::emerg(format!("\"{}\" zone \"{name}\" is unknown", directive(used_by)))
        .hint(format!("define the zone with {}", directive(&options.path)))
}

/// All zones that a protocol's directives define.
///
/// # Errors
/// A name that is there twice.
pub fn stores(view: &View<'_>, options: &CacheOptions) -> Result<Vec<Arc<Store>>, Diagnostic> {
    let written = view.all(&options.path);
    let mut stores: Vec<Arc<Store>> = Vec::with_capacity(written.len());
    for one in written {
        let path = one.value;
        if stores.iter().any(|store| store.path.name == path.name) {
            let message = format!("duplicate zone \"{}\"", String::from_utf8_lossy(&path.name));
            return Err(Diagnostic::emerg(message).at(one.span));
        }
        let make = || {
            let levels = path.levels.clone();
            let zone = Zone::new(&path.directory, levels, path.capacity, path.memory);
            Ok::<_, Infallible>(zone.with_disk_use(path.disk_use))
        };
        let Ok(zone) = view.origin().share(identity(options, path), make);
        stores.push(Arc::new(Store { path: Arc::clone(path), zone }));
    }
    Ok(stores)
}

/// A zone outlives a reload while its name, its directory and its sizes stay the same.
fn identity(options: &CacheOptions, path: &CachePath) -> Identity {
    let CachePath { name, directory, levels, capacity, memory, disk_use, .. } = path;
    let uses = if let DiskUse::At(uses) = disk_use { *uses } else { 0 };
    let mut identity = Identity::default()
        .bytes(directive(&options.path))
        .bytes(name)
        .bytes(directory.as_os_str().as_encoded_bytes())
        .number(*capacity as u128)
        .number(*memory as u128)
        .number(u128::from(uses));
    for &digits in levels.digits() {
        identity = identity.number(digits as u128);
    }
    identity
}

fn directive(directive: &dyn contract::AnyDirective) -> &'static str {
    directive.info().name
}

/// The values of all uses that count, one after the other.
fn concat<T: Clone>(view: &View<'_>, directive: &contract::Directive<Vec<T>>) -> Vec<T> {
    view.all(directive).into_iter().flat_map(|written| written.value.iter().cloned()).collect()
}
