//! The system, as configurations read it.

use conf::settings::{Kept, Origin};
use conf::{Disk, FILE_BYTES_MAX, Inputs};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system and the resolver of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

/// The origin of a configuration that is read from the system, and replaces none.
pub fn origin() -> Arc<Origin> {
    Arc::new(Origin::new(Arc::new(System), Kept::default()))
}

impl Inputs for System {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }

    fn read_pipe(&self, path: &Path) -> io::Result<Vec<u8>> {
        net::read_pipe(path, FILE_BYTES_MAX).unwrap_or_else(|| Disk.read(path))
    }

    fn read_template(&self, path: &Path) -> io::Result<Vec<u8>> {
        let value = |name: &str| std::env::var_os(name).map(OsStringExt::into_vec);
        Ok(conf::fill_in(&self.read(path)?, value))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        Disk.glob(pattern)
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}
