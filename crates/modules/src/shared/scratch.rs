//! Memory for texts that are used at once and then forgotten.

use std::cell::Cell;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What `act` makes with an empty buffer, whose memory is the thread's.
pub(crate) fn with_scratch<T>(act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let result = act(&mut scratch);
    SCRATCH.set(scratch);
    result
}
