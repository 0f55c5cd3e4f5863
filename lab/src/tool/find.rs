//! Where a tool is, and which version of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Tool, ToolName};
use crate::contender::origin;

/// A tool that is there.
pub struct FoundTool {
    /// The tool.
    pub tool: &'static Tool,
    /// Its program.
    pub program: PathBuf,
    /// Its name and version, as the program says it.
    pub version: String,
    /// The package that it came from with that package's version, or its path.
    pub origin: String,
}

/// Looks for a tool on the `PATH`; the lab's own generator is this program. The error says how to install it.
pub fn find(tool: &'static Tool) -> Result<FoundTool> {
    let program = match tool.name {
        ToolName::FulmarLab => env::current_exe()?,
        _ => on_path(tool.program, &env::var_os("PATH").unwrap_or_default())
            .with_context(|| format!("not found; install it with: {}", tool.install))?,
    };
    let version = (tool.version)(&program)
        .with_context(|| format!("{} does not say its version", program.display()))?;
    let package = fs::canonicalize(&program).with_context(|| program.display().to_string())?;
    Ok(FoundTool { tool, origin: origin(&package), program, version })
}

/// The first file of that name. A link stays one, since some programs look at their own name.
fn on_path(program: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(program)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plain"), "").unwrap();
        assert_eq!(on_path("plain", folder.path().as_os_str()), None, "it cannot be run");
        let path = env::join_paths([folder.path(), Path::new("/bin"), Path::new("/usr/bin")]).unwrap();
        assert!(on_path("sh", &path).is_some());
    }

    #[test]
    fn what_is_missing_is_told_with_the_way_to_install_it() {
        let missing: &'static Tool =
            Box::leak(Box::new(Tool { program: "no-such-program", ..super::super::ab::TOOL }));
        let error = find(missing).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("apt-get install"), "{error}");
    }
}
