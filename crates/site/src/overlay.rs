//! Settings in `.htaccess` files: found on the way to a file, read off the event loop, compiled
//! like a location, and kept per thread for as long as the files stay as they are.

mod cache;
mod chain;
mod files;
mod looked;
mod memory;
mod search;
mod seen;
mod store;
mod survey;

use crate::layers::Layers;
use crate::load::Table;
use crate::scope_change::{enter, enter_kept};
use cache::Lookup;
use chain::{Chain, Decisions, Failure};
use conf::{Diagnostic, Sources};
use contract::{
    Config, Exchange, Handler, LocationName, Module, Outcome, Overlaid, Overlay, Reach, Scope, SectionId,
    Spent, Step, Work,
};
use files::Files;
use http::Status;
use journal::{Level, LogFiles, shares};
use seen::Way;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

pub use seen::SharedLooks;
pub use survey::{Found as FoundFile, Problem, Survey};
pub(crate) use survey::{ServedRoot, survey};

/// What a scope needs to be compiled while requests are served.
pub(crate) struct Base {
    pub config: Arc<Config>,
    pub modules: Box<[&'static Module]>,
    pub table: Arc<Table>,
    pub prefix: PathBuf,
    pub logs: LogFiles,
    /// What lies over a level besides files: the sections of Apache's main configuration.
    pub layers: HashMap<SectionId, Arc<Layers>>,
    /// The files that those sections stand in, without their texts.
    pub sources: Sources,
}

/// Reads the sections that lie over levels, each set of them once.
///
/// # Errors
/// The first mistake in them.
pub(crate) fn check_layers(base: &Base, overlays: &[Arc<Overlay>]) -> Result<(), Diagnostic> {
    let mut checked: Vec<&Arc<Layers>> = Vec::new();
    for overlay in overlays {
        if let Some(layers) = base.layers.get(&overlay.section)
            && !checked.iter().any(|known| Arc::ptr_eq(known, layers))
        {
            checked.push(layers);
            chain::check_layers(base, overlay, layers)?;
        }
    }
    Ok(())
}

/// Puts the settings in `.htaccess` files over the scope of a location.
pub(crate) struct Choose {
    pub base: Arc<Base>,
}

/// The files of a request, which were read without a mistake.
struct Read {
    files: Files,
    chain: Arc<Chain>,
}

/// The files of a request, read.
struct Loaded {
    files: Files,
    chain: Result<Arc<Chain>, Failure>,
}

/// What the files come to for one request.
struct Found {
    files: Files,
    chain: Result<Arc<Chain>, Failure>,
    decisions: Box<[bool]>,
    scope: Result<Arc<Scope>, Failure>,
}

impl Handler for Choose {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.scope.policy.overlay.is_none() {
            return Step::Next;
        }
        match seen::chosen(exchange) {
            Some(own) if enter_kept(exchange, &own.scope) => {
                exchange.overlaid = Some(own);
                admit(exchange)
            }
            _ => self.search(exchange),
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let result = match outcome {
            Outcome::Job(result) => result,
            Outcome::Done => {
                let undecided = exchange.attached::<Undecided>().and_then(|undecided| undecided.0.take());
                return undecided
                    .map_or(Step::Next, |(read, decisions)| self.decide(exchange, read, decisions));
            }
            _ => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        };
        let result = match result.downcast::<Loaded>() {
            Ok(loaded) => return self.begin(exchange, *loaded),
            Err(result) => result.downcast::<Found>(),
        };
        let Ok(found) = result else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        let scope = found.scope.clone();
        cache::note(&self.base, *found);
        match (scope, exchange.overlaid.as_deref()) {
            (Ok(scope), Some(own)) => {
                let own = with_scope(own, &scope);
                take(exchange, own, &scope)
            }
            (Ok(_), None) => Step::Finish(Status::INTERNAL_SERVER_ERROR),
            (Err(failure), _) => refuse(exchange, &failure),
        }
    }
}

impl Choose {
    /// Looks for the files. Under load most requests do without.
    #[inline(never)]
    fn search(&self, exchange: &mut Exchange) -> Step {
        if let Some(way) = search::find_again(exchange)
            && enter_kept(exchange, &way.own.scope)
        {
            exchange.overlaid = Some(Rc::clone(&way.own));
            seen::shared(|seen| seen.keep(way));
            return admit(exchange);
        }
        let Some(overlay) = &exchange.scope.policy.overlay else { return Step::Next };
        let way = match search::find(exchange, overlay, self.base.layers.get(&overlay.section)) {
            Ok(way) => way,
            Err(message) => return refuse(exchange, &Failure::new(Status::FORBIDDEN, message)),
        };
        let chosen = way.chosen();
        let Way { own, files, .. } = way;
        if let Some(scope) = chosen {
            return take(exchange, own, &scope);
        }
        // The sections in the files may depend on what is at the path.
        exchange.overlaid = Some(Rc::clone(&own));
        let budget = exchange.budget();
        let _running = budget.run();
        match cache::look_up(&self.base, &files, exchange, &budget) {
            Lookup::Spent => refuse_spent(exchange),
            Lookup::Scope(scope, is_fixed) => {
                let chosen = with_scope(&own, &scope);
                if is_fixed {
                    seen::shared(|seen| seen.choose(&own, &chosen));
                }
                take(exchange, chosen, &scope)
            }
            Lookup::Failure(failure) => refuse(exchange, &failure),
            Lookup::Uncompiled(chain, decisions) => {
                let files = Rc::unwrap_or_clone(files);
                self.compile(exchange, Read { files, chain }, decisions)
            }
            Lookup::Undecided(chain, decisions) => {
                let files = Rc::unwrap_or_clone(files);
                wait(exchange, Read { files, chain }, decisions)
            }
            Lookup::Unknown => {
                let (base, mut files) = (Arc::clone(&self.base), Rc::unwrap_or_clone(files));
                Step::Await(Work::Job(Box::new(move || {
                    let chain = store::load(&base, &mut files);
                    Box::new(Loaded { files, chain })
                })))
            }
        }
    }

    /// Begins to decide which blocks count, when the files are read.
    fn begin(&self, exchange: &mut Exchange, loaded: Loaded) -> Step {
        let Loaded { files, chain } = loaded;
        let chain = match chain {
            Ok(chain) => chain,
            Err(failure) => {
                let (chain, scope) = (Err(failure.clone()), Err(failure.clone()));
                let found = Found { files, chain, decisions: Box::default(), scope };
                cache::note(&self.base, found);
                return refuse(exchange, &failure);
            }
        };
        chain.notes.iter().for_each(|note| exchange.log(Level::Warn, note));
        self.decide(exchange, Read { files, chain }, Decisions::default())
    }

    /// Decides which blocks count, a slice of time in each turn.
    fn decide(&self, exchange: &mut Exchange, read: Read, mut decisions: Decisions) -> Step {
        let budget = exchange.budget();
        let _running = budget.run();
        match read.chain.decide(&mut decisions, exchange, &budget) {
            Ok(true) => self.compile(exchange, read, decisions.counting.into()),
            Ok(false) => wait(exchange, read, decisions),
            Err(Spent) => refuse_spent(exchange),
        }
    }

    /// Compiles the files for a request for which these blocks count.
    fn compile(&self, exchange: &Exchange, read: Read, decisions: Box<[bool]>) -> Step {
        let Read { files, chain } = read;
        let (base, location) = (Arc::clone(&self.base), exchange.scope.name.clone());
        Step::Await(Work::Job(Box::new(move || {
            let key = store::key(&base, &files);
            let scope = scope((&base, location.as_ref()), key.as_ref(), &chain, &decisions);
            Box::new(Found { files, chain: Ok(chain), decisions, scope })
        })))
    }
}

/// Forgets what is kept for the site that served until now, on this thread.
pub fn forget() {
    cache::forget();
    seen::forget();
}

/// The scope of a request: what another thread compiled, or else compiled here.
fn scope(
    (base, location): (&Arc<Base>, Option<&LocationName>),
    key: Option<&store::Key>,
    chain: &Arc<Chain>,
    decisions: &[bool],
) -> Result<Arc<Scope>, Failure> {
    if let Some(scope) = key.and_then(|key| store::scope(key, chain, decisions)) {
        return Ok(scope);
    }
    let (scope, bytes, _) = chain.compile(base, location, decisions)?;
    if let Some(key) = key {
        store::keep_scope(key, chain, decisions.into(), (Arc::clone(&scope), bytes));
    }
    Ok(scope)
}

fn take(exchange: &mut Exchange, own: Rc<Overlaid>, scope: &Arc<Scope>) -> Step {
    exchange.overlaid = Some(own);
    enter(exchange, scope);
    admit(exchange)
}

/// Lets others go first if the rules, pages and listings of the site took more than its share of the processor lately.
#[inline]
fn admit(exchange: &Exchange) -> Step {
    if !shares::is_strained() || exchange.subrequest {
        return Step::Next;
    }
    match exchange.overlaid.as_ref().map(|own| own.account()).filter(|&account| shares::is_over(account)) {
        Some(_) => Step::Await(Work::Yield(exchange.budget().place())),
        None => Step::Next,
    }
}

/// Files of a request, with the blocks in them that are not decided yet.
struct Undecided(Cell<Option<(Read, Decisions)>>);

/// Goes on with the blocks in a further turn.
fn wait(exchange: &Exchange, read: Read, decisions: Decisions) -> Step {
    exchange.attach(Reach::Own, Rc::new(Undecided(Cell::new(Some((read, decisions))))));
    Step::Await(Work::Yield(exchange.budget().place()))
}

fn with_scope(own: &Overlaid, scope: &Arc<Scope>) -> Rc<Overlaid> {
    Rc::new(Overlaid { scope: Arc::downgrade(scope), ..own.clone() })
}

/// The scope of a location without the settings in `.htaccess` files that lie over it.
pub fn without_settings(exchange: &Exchange) -> Arc<Scope> {
    let is_over = |known: &&Rc<Overlaid>| known.scope.as_ptr() == Arc::as_ptr(&exchange.scope);
    let below = exchange.overlaid.as_ref().filter(is_over).and_then(|known| known.below.upgrade());
    below.unwrap_or_else(|| Arc::clone(&exchange.scope))
}

fn refuse_spent(exchange: &mut Exchange) -> Step {
    let budget = exchange.budget();
    if budget.tell() {
        exchange.log(Level::Error, &Spent.to_string());
    }
    Step::Finish(budget.refusal(&mut exchange.response.fields))
}

fn refuse(exchange: &Exchange, failure: &Failure) -> Step {
    exchange.log(Level::Error, &failure.message);
    Step::Finish(failure.status)
}
