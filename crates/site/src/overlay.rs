//! Settings in files beside the content: found on the way to a file, read off the event loop, compiled
//! like a location, and kept per thread for as long as the files stay as they are.

mod cache;
mod chain;
mod files;
mod store;
mod survey;

use crate::load::Table;
use cache::Lookup;
use chain::{Chain, Failure};
use contract::{
    Budget, Candidate, Config, Exchange, Handler, LocationName, Module, Outcome, Overlay, Scope, Spent, Step,
    Work,
};
use files::Files;
use http::Status;
use journal::{Level, LogFiles};
use std::path::PathBuf;
use std::sync::Arc;

pub use survey::{Problem, Survey};
pub(crate) use survey::{ServedRoot, survey};

/// What a scope needs to be compiled while requests are served.
pub struct Base {
    pub config: Arc<Config>,
    pub modules: Box<[&'static Module]>,
    pub table: Arc<Table>,
    pub prefix: PathBuf,
    pub logs: LogFiles,
}

/// Puts the settings beside the content over the scope of a location.
pub(crate) struct Choose {
    pub base: Arc<Base>,
}

/// What a request needs to be put together.
struct Wanted {
    overlay: Overlay,
    location: Option<LocationName>,
    candidate: Candidate,
}

/// What the files come to for one request.
struct Found {
    files: Files,
    /// Whether the files were read for this request, so that their warnings are not logged yet.
    is_read: bool,
    chain: Result<Arc<Chain>, Failure>,
    decisions: Box<[bool]>,
    scope: Result<Arc<Scope>, Failure>,
}

impl Handler for Choose {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let Some(overlay) = exchange.scope.policy.overlay else { return Step::Next };
        let files = match files::find(exchange, overlay.file_name) {
            Ok(files) if files.list.is_empty() => return Step::Next,
            Ok(files) => files,
            Err(message) => return refuse(exchange, &Failure { status: Status::FORBIDDEN, message }),
        };
        let method = exchange.request.head.method_name().into();
        let candidate = Candidate { name: files.name.clone(), method };
        let wanted = Wanted { overlay, location: exchange.scope.name.clone(), candidate };
        let budget = Budget::of(exchange);
        let _running = budget.run();
        match cache::look_up(&self.base, &wanted, &files, &budget) {
            Lookup::Spent => refuse_spent(exchange),
            Lookup::Scope(scope) => take(exchange, scope),
            Lookup::Failure(failure) => refuse(exchange, &failure),
            Lookup::Uncompiled(chain) => self.load(wanted, files, Some(chain)),
            Lookup::Unknown => self.load(wanted, files, None),
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let found = match outcome {
            Outcome::Job(result) => result.downcast::<Found>(),
            _ => return Step::Finish(Status::INTERNAL_SERVER_ERROR),
        };
        let (Ok(found), Some(overlay)) = (found, exchange.scope.policy.overlay) else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        let result = found.scope.clone();
        if let (true, Ok(chain)) = (found.is_read, &found.chain) {
            chain.notes.iter().for_each(|note| exchange.log(Level::Warn, note));
        }
        cache::note(&self.base, overlay, *found);
        match result {
            Ok(scope) => take(exchange, scope),
            Err(failure) => refuse(exchange, &failure),
        }
    }
}

impl Choose {
    fn load(&self, wanted: Wanted, mut files: Files, chain: Option<Arc<Chain>>) -> Step {
        let base = Arc::clone(&self.base);
        Step::Await(Work::Job(Box::new(move || {
            let is_read = chain.is_none();
            let chain = match chain {
                Some(chain) => Ok(chain),
                None => store::load(&base, wanted.overlay, &mut files),
            };
            let known = chain.as_ref().map_err(Failure::clone);
            let compiled = known.and_then(|chain| {
                let decisions = decide(chain, &wanted.candidate, &mut files)?;
                let scope = compile(&base, &wanted, &files, chain, &decisions)?;
                Ok((decisions, scope))
            });
            let (decisions, scope) = match compiled {
                Ok((decisions, scope)) => (decisions, Ok(scope)),
                Err(failure) => (Box::default(), Err(failure)),
            };
            Box::new(Found { files, is_read, chain, decisions, scope })
        })))
    }
}

/// Forgets what is kept for the site that served until now, on this thread.
pub fn forget() {
    cache::forget();
}

/// Which blocks count for a request, in a job: it has a separate budget, as the event loop does not wait for it.
fn decide(chain: &Chain, candidate: &Candidate, files: &mut Files) -> Result<Box<[bool]>, Failure> {
    chain.decide(candidate, &Budget::default()).map_err(|spent| {
        // Other requests may be answered.
        files.is_fresh = true;
        Failure { status: Status::INTERNAL_SERVER_ERROR, message: spent.to_string() }
    })
}

/// The scope of a request: what another thread compiled, or else compiled here.
fn compile(
    base: &Arc<Base>,
    wanted: &Wanted,
    files: &Files,
    chain: &Arc<Chain>,
    decisions: &[bool],
) -> Result<Arc<Scope>, Failure> {
    let key = store::key(base, wanted.overlay, files);
    if let Some(scope) = key.as_ref().and_then(|key| store::scope(key, chain, decisions)) {
        return Ok(scope);
    }
    let (scope, bytes) = chain.compile(base, wanted.location.as_ref(), decisions)?;
    if let Some(key) = key {
        store::keep_scope(&key, chain, decisions.into(), (Arc::clone(&scope), bytes));
    }
    Ok(scope)
}

fn take(exchange: &mut Exchange, scope: Arc<Scope>) -> Step {
    exchange.scope = scope;
    Step::Next
}

fn refuse_spent(exchange: &Exchange) -> Step {
    if Budget::of(exchange).tell() {
        exchange.log(Level::Error, &Spent.to_string());
    }
    Step::Finish(Status::INTERNAL_SERVER_ERROR)
}

fn refuse(exchange: &Exchange, failure: &Failure) -> Step {
    exchange.log(Level::Error, &failure.message);
    Step::Finish(failure.status)
}
