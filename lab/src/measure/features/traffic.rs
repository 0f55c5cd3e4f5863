//! A stream of requests while a contender is reloaded, stopped or otherwise disturbed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::transcript::Transcript;
use crate::measure::engine::fetch;

/// The results of the requests.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    done: AtomicU64,
    lost: AtomicU64,
    ends: AtomicBool,
}

impl Traffic {
    /// Sends requests, one after the other and each on a separate connection, until the end.
    pub(super) fn run(&self, address: SocketAddr, log: &Transcript) {
        while !self.ends.load(Ordering::Relaxed) {
            let answer = fetch::connect(address, false).and_then(|mut connection| {
                fetch::get(&mut connection, "/index.html", &["Connection: close"])
            });
            let lost = match answer {
                Ok(answer) if answer.status == 200 => {
                    self.done.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ok(answer) => format!("lost: status {}", answer.status),
                Err(error) => format!("lost: {error:#}"),
            };
            log.note(&lost);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stops the stream.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Requests that were answered, and that were lost.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}
