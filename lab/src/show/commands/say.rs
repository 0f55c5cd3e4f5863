//! What commands print. A reader may close the output (`fulmar-lab list | head`): from then on nothing is printed, and
//! a command without other results ends.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Error, Result};

/// Nobody reads any more.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// What is set as soon as that is so.
static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The exit code of a program that was ended by SIGPIPE.
const CODE: u8 = 141;

/// Prints a line as `println!` does, but not where nobody reads it.
macro_rules! say {
    ($($text:tt)*) => { $crate::show::commands::say::line(format_args!($($text)*)) };
}
pub(super) use say;

/// What [`say!`] does.
pub(super) fn line(text: fmt::Arguments<'_>) {
    if is_unheard() {
        return;
    }
    let mut out = io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        UNHEARD.store(true, Ordering::Relaxed);
        if let Some(end) = END.get() {
            end.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether nobody reads any more.
pub(super) fn is_unheard() -> bool {
    UNHEARD.load(Ordering::Relaxed)
}

/// Interrupts a command if nobody reads what it prints any more.
pub(super) fn interrupt_when_unread(interrupted: &Arc<AtomicBool>) {
    let interrupted = END.get_or_init(|| Arc::clone(interrupted));
    interrupted.fetch_or(is_unheard(), Ordering::Relaxed);
}

/// How a command ends if the reader of its output has gone: quietly. `None` if the output was read.
pub(super) fn unheard(result: &Result<ExitCode>) -> Option<ExitCode> {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    let is_lost = |error: &Error| error.chain().filter_map(|cause| cause.downcast_ref()).any(is_pipe);
    (is_unheard() || result.as_ref().is_err_and(is_lost)).then(|| ExitCode::from(CODE))
}
