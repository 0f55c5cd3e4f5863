//! A small load: threads that ask for one path again and again, and count what went wrong.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::client::Client;
use crate::response::Response;
use crate::wait;

/// Load under way.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
}

/// What the load saw.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Complete answers of status 200.
    pub answered: usize,
    /// Everything else: refused, reset, cut off, other statuses.
    pub failed: Vec<String>,
    /// Kept connections that the server ended, with a word about it or without one.
    pub ended: usize,
    /// Those among them that ended without a word, perhaps while a request was on its way.
    pub silent: usize,
}

impl Load {
    /// Starts threads that each make a new connection for every request of `path`.
    pub fn of_new_connections(address: SocketAddr, path: &str, threads: usize) -> Load {
        Load::start(threads, address, path, |address, request, tally| match Client::try_connect(address) {
            Ok(mut client) => record(tally, &mut client, &format!("{request}\nConnection: close")),
            Err(error) => tally.failed.push(error.to_string()),
        })
    }

    /// As `of_new_connections`, but each thread keeps its connection as long as the server does. A connection
    /// that ends before the first byte of an answer is no failure: every server may end an idle one, and the
    /// client asks again (RFC 9112, section 9.3.1).
    pub fn of_kept_connections(address: SocketAddr, path: &str, threads: usize) -> Load {
        Load::start(threads, address, path, |address, request, tally| {
            let mut client = match Client::try_connect(address) {
                Ok(client) => client,
                Err(error) => return tally.failed.push(error.to_string()),
            };
            for turn in 0..200 {
                match client.exchange(request) {
                    Some(response) if is_good(&response) => {
                        tally.answered += 1;
                        if response.announces_close() {
                            tally.ended += 1;
                            return;
                        }
                    }
                    Some(response) => return tally.failed.push(response.to_string()),
                    None if turn > 0 && client.rest().is_empty() => {
                        tally.ended += 1;
                        tally.silent += 1;
                        return;
                    }
                    None => return tally.failed.push("closed without an answer".to_owned()),
                }
                wait::pause(Duration::from_millis(1));
            }
        })
    }

    fn start(
        threads: usize,
        address: SocketAddr,
        path: &str,
        turn: fn(SocketAddr, &str, &mut Tally),
    ) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |_| {
            let (stop, request) = (Arc::clone(&stop), format!("GET {path}"));
            thread::spawn(move || {
                let mut tally = Tally::default();
                while !stop.load(Ordering::Relaxed) {
                    turn(address, &request, &mut tally);
                    // Bounded: at most about a thousand requests a second and thread.
                    wait::pause(Duration::from_millis(1));
                }
                tally
            })
        };
        let threads = (0..threads).map(spawn).collect();
        Load { stop, threads }
    }

    /// Ends the load and adds up.
    pub fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads {
            let tally = thread.join().expect("load thread");
            sum.answered += tally.answered;
            sum.failed.extend(tally.failed);
            sum.ended += tally.ended;
            sum.silent += tally.silent;
        }
        sum
    }
}

fn record(tally: &mut Tally, client: &mut Client, request: &str) {
    match client.exchange(request) {
        Some(response) if is_good(&response) => tally.answered += 1,
        Some(response) => tally.failed.push(response.to_string()),
        None => tally.failed.push("closed without an answer".to_owned()),
    }
}

fn is_good(response: &Response) -> bool {
    response.status == 200 && response.broken.is_none()
}
