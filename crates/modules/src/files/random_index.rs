//! Serves a random file of a directory.
//!
//! If a URI ends with a slash, Fulmar serves a random file of the directory by an internal redirect, so that another
//! location can handle it. It leaves out directories, and files whose names start with a dot. In a directory without
//! files the index file is served (`index`).
//!
//! nginx: --with-http_random_index_module
//!
//! ```file html/quotes/one.txt
//! quote
//! ```
//!
//! ```file html/quotes/.hidden.txt
//! hidden
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location /quotes/ {
//!         random_index on;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /quotes/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 6
//!
//! quote
//! ```

use crate::files::symlinks::{Links, Way};
use crate::shared::directories::{self, Directory, Failure};
use conf::{Contexts, Diagnostic};
use contract::{
    Directive, Exchange, Handler, Module, Outcome, Phase, Reroute, ScopeBuilder, Step, View, Work,
};
use http::{Method, Status};
use std::fs::DirEntry;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStringExt;

/// A file of the directory, picked at random.
pub static MODULE: Module =
    Module { name: "random_index", directives: &[&RANDOM_INDEX], variables: &[], compile: Some(compile) };

/// `random_index on | off`
pub static RANDOM_INDEX: Directive<bool> = Directive::flag("random_index")
    .within(Contexts::LOCATION)
    .default("off")
    .help("Whether a random file of a directory answers for it.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&RANDOM_INDEX).copied().unwrap_or(false) {
        builder.handle(Phase::Content, RandomIndex { links: Links::of(view) });
    }
    Ok(())
}

struct RandomIndex {
    links: Links,
}

type Picked = Result<Option<Vec<u8>>, Failure>;

impl Handler for RandomIndex {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let is_ours = matches!(exchange.request.method, Method::Get | Method::Head | Method::Post);
        if !is_ours || !exchange.request.path.ends_with(b"/") {
            return Step::Next;
        }
        match directories::path(exchange) {
            Ok(path) => {
                let way = self.links.way(exchange, &path);
                Step::Await(Work::Job(Box::new(move || Box::new(pick(&path, way)))))
            }
            Err(status) => Step::Finish(status),
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let picked = match outcome {
            Outcome::Job(result) => result.downcast::<Picked>().ok(),
            _ => None,
        };
        match picked.map(|picked| *picked) {
            Some(Ok(Some(name))) => {
                let path = [&exchange.request.path[..], &name].concat();
                Step::Reroute(Reroute::Internal { path, args: exchange.request.args.clone() })
            }
            Some(Ok(None)) => Step::Next,
            Some(Err(failure)) => Step::Finish(failure.refuse(exchange)),
            None => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

/// The name of any file of a directory; this may block.
fn pick(path: &[u8], way: Way) -> Picked {
    let mut directory = Directory::open(path, way)?;
    let mut names = Vec::new();
    while let Some(item) = directory.next(false) {
        let item = item?;
        if is_file(&directory, &item)? {
            names.push(item.file_name().into_vec());
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    // Each hasher has its own random keys.
    let number = usize::try_from(RandomState::new().hash_one(()) >> 1).unwrap_or(0);
    Ok(Some(names.swap_remove(number % names.len())))
}

/// Whether an entry is a file, or a link that leads to one.
fn is_file(directory: &Directory, item: &DirEntry) -> Result<bool, Failure> {
    let failure = |call, error| Failure::new(call, &directory.path_of(item), error);
    let kind = item.file_type().map_err(|error| failure("lstat", error))?;
    if !kind.is_symlink() {
        return Ok(kind.is_file());
    }
    match directory.look(item) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failure("stat", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Way, pick};
    use crate::testing::Site;
    use std::collections::HashSet;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn every_file_has_its_turn_and_nothing_else_has() {
        let site = Site::location("random_index on;");
        for name in ["a", "b", "c", ".hidden", "directory/d"] {
            site.file(name, "");
        }
        let root = site.root().as_os_str().as_bytes();
        std::os::unix::fs::symlink("directory", site.root().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", site.root().join("broken")).unwrap();
        let picked: HashSet<_> = (0..1000).map(|_| pick(root, Way::Follow).unwrap().unwrap()).collect();
        let expected: HashSet<_> = ["a", "b", "c"].map(|name| name.as_bytes().to_vec()).into();
        assert_eq!(picked, expected);
        assert_eq!(pick(&[root, b"/directory"].concat(), Way::Follow).unwrap(), Some(b"d".to_vec()));
    }

    #[test]
    fn a_file_outside_of_the_root_is_none() {
        let site = Site::location("random_index on;");
        std::os::unix::fs::symlink("/etc/passwd", site.root().join("passwd")).unwrap();
        let root = site.root().as_os_str().as_bytes();
        assert_eq!(pick(root, Way::Follow).unwrap(), Some(b"passwd".to_vec()));
        let inside = Way::Beneath { base: root.len() };
        assert_eq!(pick(root, inside).unwrap(), None);
        std::os::unix::fs::symlink("/etc", site.root().join("etc")).unwrap();
        assert_eq!(pick(&[root, b"/etc"].concat(), inside).unwrap_err().call, "opendir");
    }

    #[test]
    fn a_directory_without_files_has_none() {
        let site = Site::location("random_index on;");
        site.file("directory/sub/x", "");
        let root = site.root().as_os_str().as_bytes();
        assert_eq!(pick(&[root, b"/directory"].concat(), Way::Follow).unwrap(), None);
        assert_eq!(pick(&[root, b"/none"].concat(), Way::Follow).unwrap_err().call, "opendir");
    }
}
