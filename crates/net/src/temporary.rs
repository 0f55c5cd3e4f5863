//! Where files go that are too long for memory, unless the configuration names another directory.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// systemd's name for the directories of `CacheDirectory=`, joined by colons.
const OF_SERVICE: &str = "CACHE_DIRECTORY";

/// Read once: a worker has another environment, and the memory of the process that it was forked from.
static OWN: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let all = env::var_os(OF_SERVICE)?;
    env::split_paths(&all).next().filter(|path| path.is_absolute())
});

/// The directory that the service manager keeps for this service, if there is one.
pub fn own_directory() -> Option<&'static Path> {
    OWN.as_deref()
}

/// That directory, or the system's directory for temporary files.
pub fn directory() -> PathBuf {
    own_directory().map_or_else(env::temp_dir, Path::to_path_buf)
}
