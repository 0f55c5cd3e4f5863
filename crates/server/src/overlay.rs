//! Settings in files beside the content: found on the way to a file, read off the event loop, compiled
//! like a location, and kept per thread for as long as the files stay as they are.

mod cache;
mod chain;
mod files;
mod large;

use crate::load::Table;
use cache::Lookup;
use chain::{Chain, Failure};
use contract::log::{Level, LogFiles};
use contract::{
    Candidate, Config, Exchange, Handler, LocationName, Module, Outcome, Overlay, Scope, Step, Work,
};
use files::Files;
use http::Status;
use std::path::PathBuf;
use std::sync::Arc;

/// What a scope needs to be compiled while requests are served.
pub(crate) struct Base {
    pub(crate) config: Arc<Config>,
    pub(crate) modules: Box<[&'static Module]>,
    pub(crate) table: Arc<Table>,
    pub(crate) prefix: PathBuf,
    pub(crate) logs: LogFiles,
}

/// Puts the settings beside the content over the scope of a location.
pub(crate) struct Choose {
    pub(crate) base: Arc<Base>,
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
        match cache::look_up(&self.base, &wanted, &files) {
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
        cache::keep(&self.base, overlay, *found);
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
            let chain = match chain {
                Some(chain) => Ok(chain),
                None => large::load(&base, wanted.overlay, &mut files),
            };
            let decisions = chain.as_ref().map(|chain| chain.decide(&wanted.candidate)).unwrap_or_default();
            let scope = match &chain {
                Ok(chain) => chain.compile(&base, wanted.location.as_ref(), &decisions),
                Err(failure) => Err(failure.clone()),
            };
            Box::new(Found { files, chain, decisions, scope })
        })))
    }
}

/// Forgets what is kept for the site that served until now, on this thread.
pub(crate) fn forget() {
    cache::forget();
}

fn take(exchange: &mut Exchange, scope: Arc<Scope>) -> Step {
    exchange.scope = scope;
    Step::Next
}

fn refuse(exchange: &Exchange, failure: &Failure) -> Step {
    exchange.log(Level::Error, &failure.message);
    Step::Finish(failure.status)
}
