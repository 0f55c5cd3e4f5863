//! Work on the files of zones that a request asks for: a list, or a removal.

use cache::{Key, Object, Selection, Walk, Zone};
use contract::{Exchange, Step, Work};
use http::escape;
use journal::clock::Time;
use std::sync::Arc;

/// How many responses a list has.
const LIST_MAX: usize = 1000;

/// How many files are looked at before other work of the thread has its turn.
const BATCH: usize = 1000;

/// What happens to the responses of a selection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    List,
    Remove,
    Outdate,
}

/// Work on the files of zones.
pub(crate) struct Survey {
    /// The zones that are left, the next one last.
    walks: Vec<Walk>,
    selection: Selection,
    action: Action,
    /// The responses of a list, each an object in JSON.
    list: Vec<u8>,
    count: usize,
    /// The key of a response that was not selected, to show what keys look like.
    other_key: Option<Box<[u8]>>,
    now: i64,
    /// Whether the request is only explained: then nothing is changed.
    is_dry: bool,
}

impl Survey {
    /// Begins, with the last of these zones.
    pub(crate) fn start(
        exchange: &Exchange,
        zones: Vec<Arc<Zone>>,
        selection: Selection,
        action: Action,
    ) -> Step {
        let (now, is_dry) = (Time::now().seconds, is_explained(exchange));
        let is_done = |zone: &&Arc<Zone>| begin(zone, action, &selection);
        let changes = action != Action::List && !is_dry;
        let count = if changes { zones.iter().filter(is_done).count() } else { 0 };
        let walks = zones.iter().map(Walk::new).collect();
        let (list, other_key) = (Vec::new(), None);
        Box::new(Survey { walks, selection, action, list, count, other_key, now, is_dry }).step()
    }

    /// Goes on in another thread. The outcome is the survey again.
    pub(crate) fn step(mut self: Box<Survey>) -> Step {
        Step::Await(Work::Job(Box::new(move || {
            self.go_on();
            self
        })))
    }

    /// How many responses were listed or removed.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_over(&self) -> bool {
        self.walks.is_empty() || (self.action == Action::List && self.count >= LIST_MAX)
    }

    fn go_on(&mut self) {
        for _ in 0..BATCH {
            if self.is_over() {
                return;
            }
            let Some(walk) = self.walks.last_mut() else { return };
            let zone = Arc::clone(walk.zone());
            match walk.next_key() {
                Some(key) => self.look(&zone, &key),
                None => drop(self.walks.pop()),
            }
        }
    }

    /// A file that cannot be read or changed is left out.
    fn look(&mut self, zone: &Zone, key: &Key) {
        let Ok(Some(object)) = zone.read_head(key) else { return };
        if !self.selection.has(&object.head) {
            self.other_key.get_or_insert_with(|| object.head.key.clone());
            return;
        }
        let is_done = match self.action {
            Action::List => {
                self.list(&object);
                true
            }
            _ if self.is_dry => true,
            Action::Remove => zone.discard(key),
            Action::Outdate => zone.outdate(key, &object, self.now).is_ok(),
        };
        self.count += usize::from(is_done);
    }

    fn list(&mut self, object: &Object) {
        let head = &object.head;
        if !self.list.is_empty() {
            self.list.push(b',');
        }
        self.list.extend_from_slice(b"{\"key\":\"");
        escape::json(&head.key, &mut self.list);
        let (status, bytes, until) = (head.status.0, head.length, head.freshness.valid_until);
        let rest = format!(
            "\",\"status\":{status},\"bytes\":{bytes},\"kept_at\":{},\"valid_until\":{until}}}",
            head.date
        );
        self.list.extend_from_slice(rest.as_bytes());
    }

    /// The result as JSON.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = match self.action {
            Action::List => [b"{\"responses\":[", &*self.list, b"]"].concat(),
            Action::Remove => format!("{{\"removed\":{}", self.count).into(),
            Action::Outdate => format!("{{\"outdated\":{}", self.count).into(),
        };
        if let Some(key) = self.other_key.as_ref().filter(|_| self.count == 0) {
            text.extend_from_slice(b",\"example_key\":\"");
            escape::json(key, &mut text);
            text.push(b'"');
        }
        text.push(b'}');
        text
    }
}

/// Whether a request is only explained.
pub(super) fn is_explained(exchange: &Exchange) -> bool {
    exchange.connection.events.is_some()
}

/// Makes sure that responses which are on their way are not kept if they may be among those that are removed. A response with a
/// known key is removed at once, so that no request finds its variants any more; tells whether there was one.
fn begin(zone: &Zone, action: Action, selection: &Selection) -> bool {
    match (selection, action) {
        (Selection::Key(text), Action::Remove) => zone.purge(&Key::of(text)),
        _ => {
            zone.purge_coming(selection);
            false
        }
    }
}
