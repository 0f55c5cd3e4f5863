//! Requests that remove a kept response: by `proxy_cache_purge`, and by an unsafe method.

use super::survey::{Action, Survey, is_explained};
use super::{Cached, find};
use cache::{Key, Lookup, Object, Rules, Selection, Zone, rfc9111};
use conf::Diagnostic;
use contract::{Body, Event, Exchange, Handler, Outcome, Reach, ScopeBuilder, Step, Template, View};
use http::{Fields, Status};
use std::rc::Rc;
use std::sync::Arc;
use upstream::{CacheSettings, Options, Store, purged_key};

/// Adds the handler of a location with `proxy_cache_purge ZONE KEY`.
pub(crate) fn compile(
    view: &View<'_>,
    builder: &mut ScopeBuilder,
    options: &Options,
) -> Result<(), Diagnostic> {
    if let Some((store, key)) = purged_key(view, &options.cache)? {
        builder.content(view.place(&options.cache.purge), Removal { store, key });
    }
    Ok(())
}

/// Removes the response with a key.
struct Removal {
    store: Arc<Store>,
    key: Template,
}

impl Handler for Removal {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let text = self.key.evaluate(exchange);
        remove(exchange, &self.store.zone, &text, Status::OK)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Outcome::Job(survey) = outcome else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        match survey.downcast::<Survey>() {
            Ok(survey) => go_on(exchange, survey),
            Err(_) => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Cached {
    /// Removes what is kept for the request, and answers with this status. Nothing is looked for.
    pub(crate) fn remove(&self, exchange: &mut Exchange, status: Status) -> Step {
        self.lookup.set(Lookup::Over);
        remove(exchange, &self.store.zone, &self.text, status)
    }

    /// Removes what is kept if an answer 304 is about another response, and tells whether it is. The next request gets the
    /// whole response.
    pub(crate) fn removes_other(&self, object: &Object, said: &Fields) -> bool {
        let is_other = self.settings.rules == Rules::Rfc9111 && !rfc9111::selects(said, &object.head);
        if is_other {
            self.store.zone.discard(&self.key());
            self.release();
        }
        is_other
    }
}

/// Removes the response with this key; all responses whose key starts with it if it ends with `*`. The client gets the
/// status, or 404 if there was no such response.
fn remove(exchange: &mut Exchange, zone: &Arc<Zone>, key: &[u8], status: Status) -> Step {
    exchange.tell(|| Event::new("cache", "removes what is kept for this key").with("key", key));
    match key.strip_suffix(b"*") {
        Some(start) if !start.is_empty() => {
            exchange.attach(Reach::Own, Rc::new(Pending(status)));
            let selection = Selection::Prefix(start.into());
            Survey::start(exchange, vec![Arc::clone(zone)], selection, Action::Remove)
        }
        _ => {
            let key = Key::of(key);
            let is_kept = match is_explained(exchange) {
                true => matches!(zone.read_head(&key), Ok(Some(_))),
                false => zone.purge(&key),
            };
            answer(exchange, is_kept, status)
        }
    }
}

/// The status of a request whose responses are being removed.
struct Pending(Status);

/// Goes on with the removal of several responses.
pub(crate) fn go_on(exchange: &mut Exchange, survey: Box<Survey>) -> Step {
    if !survey.is_over() {
        return survey.step();
    }
    let status = exchange.attached::<Pending>().map_or(Status::OK, |pending| pending.0);
    answer(exchange, survey.count() > 0, status)
}

/// The module has a page, on which programs do not depend, and the commercial edition none.
fn answer(exchange: &mut Exchange, is_removed: bool, status: Status) -> Step {
    match (is_removed, status) {
        (false, _) => Step::Finish(Status::NOT_FOUND),
        (true, Status::NO_CONTENT) => Step::Finish(status),
        (true, _) => {
            let response = &mut exchange.response;
            response.status = status;
            response.content_type = Some("text/plain".into());
            response.content_length = Some(REMOVED.len() as u64);
            Step::Respond(Body::bytes(REMOVED))
        }
    }
}

const REMOVED: &str = "removed\n";

/// Removes what is kept for the URI of a request that may have changed it (RFC 9111, section 4.4).
pub(crate) fn invalidate(
    settings: Option<&Arc<CacheSettings>>,
    exchange: &Exchange,
    status: Status,
    default_key: impl FnOnce(&mut Vec<u8>) -> Result<bool, Status>,
) {
    let settings = settings.filter(|settings| settings.rules == Rules::Rfc9111);
    let has_effect = rfc9111::is_unsafe(exchange.request.method) && (200..400).contains(&status.0);
    let Some(settings) = settings.filter(|_| has_effect) else { return };
    // A request without a key has nothing to remove; that was logged.
    if let Ok(Some((store, named))) = find(settings, exchange, default_key) {
        store.zone.purge(&named.key);
    }
}
