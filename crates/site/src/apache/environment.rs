//! The environment that `${NAME}` in a main configuration of Apache may name.

use conf::{Diagnostic, Inputs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Debian's file with the environment of Apache, next to the main configuration. Apache's start script runs it as a shell
/// script. Here its plain assignments count.
const FILE: &str = "envvars";

/// Variables of the process, and those that the file assigns, which come first.
pub(super) struct Environment {
    path: PathBuf,
    assigned: BTreeMap<String, Vec<u8>>,
}

impl Environment {
    /// The environment of the main file with this path.
    pub(super) fn of(inputs: &dyn Inputs, path: &Path) -> Environment {
        let path = path.with_file_name(FILE);
        let text = inputs.read(&path).unwrap_or_default();
        Environment { path, assigned: assigned(&String::from_utf8_lossy(&text)) }
    }

    pub(super) fn value(&self, name: &str) -> Option<Vec<u8>> {
        let own = || std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
        own().or_else(|| self.assigned.get(name).cloned())
    }

    /// Says that the file counts.
    pub(super) fn notes(&self) -> Option<Diagnostic> {
        let message =
            format!("plain assignments of \"{}\" count as variables of the environment", self.path.display());
        (!self.assigned.is_empty()).then(|| Diagnostic::notice(message))
    }
}

/// The assignments of a shell script: `[export] NAME=VALUE`. In a value `$NAME` stands for an earlier one, or for nothing. A
/// line that runs a command does not count.
fn assigned(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut assigned: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let value = value.trim_matches(['"', '\'']);
        if !is_name || value.contains(['`', '(', ' ', ';', '#']) {
            continue;
        }
        let filled =
            conf::fill_in(value.as_bytes(), |name| Some(assigned.get(name).cloned().unwrap_or_default()));
        assigned.insert(name.to_owned(), filled);
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::assigned;

    #[test]
    fn plain_assignments_count() {
        let text = "# export A=1\nunset HOME\nif [ a = b ] ; then\n  SUFFIX=\"-x\"\nelse\n  SUFFIX=\nfi\n\
            export RUN=www-data\nexport PID=/run/apache2$SUFFIX/pid\nexport LANG=C\nexport B=$(uname)\n#C=2\n";
        let shown: Vec<String> = assigned(text)
            .into_iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value)))
            .collect();
        assert_eq!(shown, ["LANG=C", "PID=/run/apache2/pid", "RUN=www-data", "SUFFIX="]);
    }
}
