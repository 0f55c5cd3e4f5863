//! A configuration in memory that names some files of the disk.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use conf::{Inputs, Memory};
use inputs::System;

/// Files in memory, and those at or below these paths of the disk.
pub(crate) struct Layered {
    pub(crate) memory: Memory,
    pub(crate) on_disk: Vec<PathBuf>,
}

impl Inputs for Layered {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let is_on_disk = self.on_disk.iter().any(|own| path.starts_with(own));
        if is_on_disk { System.read(path) } else { self.memory.read(path) }
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.memory.glob(pattern)
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.memory.resolve(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_paths_come_from_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        std::fs::create_dir(&state).unwrap();
        for path in [state.join("a"), directory.path().join("b")] {
            std::fs::write(path, "disk").unwrap();
        }
        let memory = Memory::default().with("/conf", "memory");
        let inputs = Layered { memory, on_disk: vec![state.clone()] };
        assert_eq!(inputs.read(&state.join("a")).unwrap(), b"disk");
        assert_eq!(inputs.read(Path::new("/conf")).unwrap(), b"memory");
        assert!(inputs.read(&directory.path().join("b")).is_err());
    }
}
