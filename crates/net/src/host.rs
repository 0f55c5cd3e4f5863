//! This machine.

use std::sync::LazyLock;

/// The machine's name in lower case, as it was when it was first asked for.
pub fn name() -> &'static str {
    static NAME: LazyLock<String> =
        LazyLock::new(|| rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase());
    &NAME
}
