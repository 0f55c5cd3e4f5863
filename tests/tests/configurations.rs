//! Configurations as people have them: each loads, and what `fulmar explain` says of each request of its table is what
//! nginx does with it, on the same file.
//!
//! A file of `tests/configurations` is the content of `http {}` with comments that say what is asked:
//!
//! ```text
//! #: /srv/shop/index.html /srv/shop/cart.css      files, whose content is their own path
//! #: /etc/nginx/htpasswd = ada:{PLAIN}secret      a file with this content
//! #? -X POST http://shop.example/cart => -> http://shop/cart | location / | shop.example
//! ```
//!
//! Behind `=>` is the outcome, the location and the server; `UPDATE_EXPECT=1` writes that, once nginx agrees, and
//! `CONFIGURATION=TEXT` tries those only that have the text in their path. Ports of `listen` are
//! replaced by free ones, addresses with a port and sockets by those of an origin that tells what it was asked.

mod case;
mod origins;
mod outcome;
mod stage;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tests::binary::have_nginx;

/// How many configurations there are at least.
const COUNT_MIN: usize = 200;

/// How many are tried at once.
const THREADS: usize = 2;

#[test]
fn nginx_does_what_explain_says() {
    if !have_nginx() {
        return;
    }
    let files = files();
    let is_part = std::env::var_os("CONFIGURATION").is_some();
    assert!(is_part || files.len() >= COUNT_MIN, "only {} configurations", files.len());
    let next = AtomicUsize::new(0);
    let (report, cases) = (Mutex::new(String::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match stage::try_file(file) {
                        Ok(count) => drop(cases.fetch_add(count, Ordering::SeqCst)),
                        Err(text) => {
                            let name = file.file_name().unwrap_or_default().display();
                            let _ = writeln!(report.lock().unwrap(), "\n==== {name}\n{text}");
                        }
                    }
                }
            });
        }
    });
    let report = report.into_inner().unwrap();
    assert!(report.is_empty(), "{report}");
    println!("{} configurations, {} requests", files.len(), cases.into_inner());
}

/// The configurations, or those whose path contains `CONFIGURATION`.
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("CONFIGURATION").unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("configurations");
    let mut files = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "conf" => files.push(path),
                _ => {}
            }
        }
    }
    files.retain(|path| path.to_string_lossy().contains(&wanted));
    files.sort();
    files
}
