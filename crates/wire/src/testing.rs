//! An event loop for tests.

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

pub(crate) fn runtime() -> LocalRuntime {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap()
}
