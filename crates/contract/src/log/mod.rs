//! Logs: files that every writer shares and that can be opened anew, buffers before them, syslog, and the
//! error log's lines.
//!
//! Whoever writes a line is given back what there is to tell about a log that cannot be written: at most one
//! complaint a minute for each log, and nothing waits for a log to recover.

mod bell;
mod buffer;
mod error;
mod file;
mod files;
mod flood;
mod health;
mod syslog;

pub use buffer::{Buffering, Gzip};
pub use conf::Level;
pub use error::{About, ErrorLog, Form, Sink, Target};
pub use file::LogFile;
pub use files::LogFiles;
pub use health::Complaints;
pub use syslog::{Syslog, SyslogHead};

use std::cell::Cell;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Names this thread in the lines that it writes; the first worker thread is 1.
pub fn name_thread(index: u32) {
    THREAD.set(index);
}

fn thread() -> u32 {
    THREAD.get()
}
