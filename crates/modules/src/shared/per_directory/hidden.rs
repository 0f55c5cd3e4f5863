//! Files with settings, and those with passwords, are not sent.

use super::{NAMES, are_files_judged};
use contract::{Exchange, Handler, Step, View};
use http::Status;
use http::words::has_pair;
use journal::Level;
use std::sync::Arc;

/// What a file with settings is called, where no setting says so.
pub(crate) const DEFAULT_NAME: &str = ".htaccess";

/// What the files with settings are called where the view is.
pub(crate) fn names(view: &View<'_>) -> Arc<[Box<[u8]>]> {
    let usual = || Arc::from([Box::from(DEFAULT_NAME.as_bytes())]);
    view.get(&NAMES).cloned().unwrap_or_else(usual)
}

/// Keeps the files with settings, and those with passwords, to ourselves.
#[derive(Clone)]
pub(crate) struct Hidden {
    names: Arc<[Box<[u8]>]>,
    /// Whether all of them start with a dot, as usual.
    are_dotted: bool,
}

impl Hidden {
    pub(crate) fn of(view: &View<'_>) -> Hidden {
        Hidden::new(names(view))
    }

    pub(crate) fn new(names: Arc<[Box<[u8]>]>) -> Hidden {
        let are_dotted = names.iter().all(|name| name.starts_with(b"."));
        Hidden { names, are_dotted }
    }

    /// What is hidden where the view is. Files that are named as such stay hidden also if they have no effect.
    pub(crate) fn in_scope(view: &View<'_>) -> Option<Hidden> {
        (are_files_judged(view) || view.get(&NAMES).is_some()).then(|| Hidden::of(view))
    }

    /// Looks at all names in the path of the request. Few paths come here.
    #[inline(never)]
    fn look(&self, exchange: &Exchange) -> Step {
        self.deny(exchange, &exchange.request.path).unwrap_or(Step::Next)
    }

    /// Denies a path that has such a name.
    pub(crate) fn deny(&self, exchange: &Exchange, path: &[u8]) -> Option<Step> {
        if !path.split(|&byte| byte == b'/').any(|segment| self.has(segment)) {
            return None;
        }
        exchange.log(
            Level::Error,
            "access forbidden: a name of files with settings, or one that starts with \".ht\"",
        );
        Some(Step::Finish(Status::FORBIDDEN))
    }

    /// Whether a request for a file with this name is denied.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b".ht"))
            || self.names.iter().any(|hidden| name.eq_ignore_ascii_case(hidden))
    }
}

impl Handler for Hidden {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let path = &exchange.request.path;
        if self.are_dotted && !has_dotted_segment(path) { Step::Next } else { self.look(exchange) }
    }
}

/// Whether a segment of a path starts with a dot.
fn has_dotted_segment(path: &[u8]) -> bool {
    path.starts_with(b".") || has_pair(path, b'/', b'.')
}
