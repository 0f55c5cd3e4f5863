//! The scope that a thread serves: what a watchdog names if the thread stands still.

use contract::{Exchange, Scope};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The scope of the request that a thread works on. Only that thread writes it. It is an address that is compared and
/// never followed, so that the scope may be gone.
#[derive(Debug, Default)]
pub struct ServedScope(AtomicUsize);

thread_local! {
    static SERVED: OnceCell<Arc<ServedScope>> = const { OnceCell::new() };
}

impl ServedScope {
    /// From now on the scopes that the calling thread serves are noted here.
    pub fn begin(self: &Arc<ServedScope>) {
        // A thread begins once.
        let _ = SERVED.with(|served| served.set(Arc::clone(self)));
    }

    /// The thread begins with other work.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether the thread serves this scope.
    pub fn is(&self, scope: &Arc<Scope>) -> bool {
        self.0.load(Relaxed) == Arc::as_ptr(scope).addr()
    }
}

/// Notes that this thread serves the location of an exchange. Settings in `.htaccess` files lie over its scope.
pub(crate) fn note(exchange: &Exchange) {
    let scope = Arc::as_ptr(&exchange.scope);
    let over = exchange.overlaid.as_ref().filter(|own| own.scope.as_ptr() == scope);
    let address = over.map_or(scope, |own| own.below.as_ptr()).addr();
    SERVED.with(|served| {
        if let Some(served) = served.get() {
            served.0.store(address, Relaxed);
        }
    });
}
