//! An allocator that counts what a thread asks it for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

/// How often this thread asked for memory, or for more of it.
pub(super) fn count() -> u64 {
    COUNT.get()
}

/// How many bytes this thread has, if no other thread frees what this one asked for.
pub(super) fn live() -> usize {
    LIVE.get()
}

/// Notes that memory of `before` bytes became memory of `after` bytes.
fn note(before: usize, after: usize) {
    COUNT.set(COUNT.get() + u64::from(after > 0));
    LIVE.set(LIVE.get().wrapping_add(after).wrapping_sub(before));
}

#[expect(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every call goes on to the system's allocator as it came; counting allocates nothing and cannot panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(0, layout.size());
        // SAFETY: the caller keeps to the contract of this function, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(layout.size(), size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
