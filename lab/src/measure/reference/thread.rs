//! A thread for each connection, from a pool: each waits for a connection, and then for nothing but that one.

use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::Result;

use super::cache::Cache;
use super::session::{Worker, serve_one};

pub(super) fn serve(listener: &TcpListener, cache: &'static Cache, workers: u32) -> Result<ExitCode> {
    super::threads(workers, || serve_each(listener, cache))
}

/// Serves one connection after the other.
pub(super) fn serve_each(listener: &TcpListener, cache: &'static Cache) -> Result<()> {
    let mut worker = Worker::new(cache);
    loop {
        if let Some(stream) = super::accept(listener) {
            // A broken connection does not affect the next one.
            let _ = serve_one(stream, &mut worker);
        }
    }
}
