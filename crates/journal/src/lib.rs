//! Logs: files that all writers share and that can be reopened, buffers, syslog, and the lines of the error log. The clock
//! that stamps the lines is here, too, and who used the processor ([`shares`]).
//!
//! A function that writes returns a complaint if the log cannot be written: at most one a minute for each log. Nothing
//! waits for a log. A line that cannot be written is dropped and counted ([`lost_lines`]).

#![forbid(unsafe_code)]

pub mod budget;
mod buffer;
pub mod clock;
pub mod counters;
mod error;
mod event;
mod file;
mod files;
mod health;
pub mod leavings;
mod next_write;
mod rate_limit;
pub mod readable;
pub mod reloads;
mod sample;
pub mod shares;
mod syslog;

pub use buffer::{Buffering, Gzip};
pub use conf::Level;
pub use error::{About, ErrorLog, Form, Sink, Target};
pub use event::{Event, Events};
pub use file::LogFile;
pub use files::LogFiles;
pub use health::{Complaints, lost_lines};
pub use syslog::{Syslog, SyslogHead};

use std::cell::Cell;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Sets the number that this thread writes into its lines. The first worker thread is 1.
pub fn name_thread(index: u32) {
    THREAD.set(index);
}

fn thread() -> u32 {
    THREAD.get()
}
