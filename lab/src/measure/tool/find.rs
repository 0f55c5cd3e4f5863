//! Where a tool is, and which version of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Tool;
use crate::measure::contender::origin;
use crate::model::order::ToolName;

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

/// Where `make lab` and `make lab-jmeter` bring tools to, below the current folder.
const FETCHED: &[&str] = &["target/k6/bin", "target/jmeter/bin"];

/// Looks for a tool on the `PATH`, among those that were fetched here, and where `cargo install` puts programs; the
/// lab's own generator is this program. The error says how to install it.
pub fn find(tool: &'static Tool) -> Result<FoundTool> {
    let program = match tool.name {
        ToolName::FulmarLab => env::current_exe()?,
        _ => first_in(&folders(), tool.program)
            .with_context(|| format!("not found; install it with: {}", tool.install))?,
    };
    let version = (tool.version)(&program)
        .with_context(|| format!("{} does not say its version", program.display()))?;
    let package = fs::canonicalize(&program).with_context(|| program.display().to_string())?;
    Ok(FoundTool { tool, origin: origin(&package), program, version })
}

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")));
    let fetched = FETCHED.iter().map(PathBuf::from);
    env::split_paths(&path).chain(fetched).chain(cargo.map(|folder| folder.join("bin"))).collect()
}

/// The first program of that name. A link stays one, since some look at their own name.
fn first_in(folders: &[PathBuf], program: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(program)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_first_folder_that_has_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sh"), "").unwrap();
        let folders = [folder.path().to_path_buf(), "/bin".into(), "/usr/bin".into()];
        assert_eq!(first_in(&folders[..1], "sh"), None, "it cannot be run");
        assert_eq!(first_in(&folders, "sh"), Some("/bin/sh".into()));
    }

    #[test]
    fn fetched_programs_come_behind_those_of_the_path() {
        let (all, path) = (folders(), env::var_os("PATH").unwrap_or_default());
        let of_path = env::split_paths(&path).count();
        assert_eq!(all[of_path], Path::new("target/k6/bin"));
        assert!(all.last().is_some_and(|folder| folder.is_absolute() && folder.ends_with("bin")), "{all:?}");
    }

    #[test]
    fn what_is_missing_is_told_with_the_way_to_install_it() {
        let missing: &'static Tool =
            Box::leak(Box::new(Tool { program: "no-such-program", ..super::super::ab::TOOL }));
        let error = find(missing).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("apt-get install"), "{error}");
    }
}
