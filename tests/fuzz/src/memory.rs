//! Memory use of a parser, counted by the allocator of the test program on the thread that tries an input.
//!
//! The allocator refuses a request of more than a gigabyte, which ends the program. The input is printed before.
//! Otherwise a length field of four gigabytes could exhaust the machine.

#![expect(unsafe_code, reason = "an allocator that counts is one, and hands everything to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::ptr;

use crate::input::Input;

/// Memory bound of a parser for an input of this length: tables, buffers, and a few copies.
pub(crate) fn allowed(input_bytes: usize) -> usize {
    (32 << 20) + 512 * input_bytes + GRANTED.get()
}

/// Raises the bound for the current input by the known reservation of an external decoder.
pub fn grant(bytes: usize) {
    GRANTED.set(bytes);
}

/// Largest allocation.
const REFUSED: usize = 1 << 30;

thread_local! {
    /// Bytes allocated and not freed since counting began. Negative if older ones were freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static GRANTED: Cell<usize> = const { Cell::new(0) };
    /// Current input.
    static TRIED: Cell<*const Input> = const { Cell::new(ptr::null()) };
}

/// Returns the peak memory of `work` on this thread, beyond the memory held before.
pub(crate) fn peak(input: &Input, work: impl FnOnce()) -> usize {
    /// Stops counting, also after a panic.
    struct Watch;
    impl Drop for Watch {
        fn drop(&mut self) {
            TRIED.set(ptr::null());
        }
    }
    LIVE.set(0);
    PEAK.set(0);
    GRANTED.set(0);
    TRIED.set(input);
    let watch = Watch;
    work();
    drop(watch);
    PEAK.get().unsigned_abs()
}

/// Returns how often `work` allocated or grew memory on this thread.
pub fn requests(work: impl FnOnce()) -> u64 {
    let before = REQUESTS.get();
    work();
    REQUESTS.get() - before
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

impl Counting {
    /// Counts a request of `bytes`. Returns `false` if it exceeds the limit. Requests of a panic do not count: to
    /// print the location it reads the debug symbols of the program, tens of megabytes that are never freed.
    fn take(bytes: usize) -> bool {
        if std::thread::panicking() {
            return true;
        }
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
        let more = isize::try_from(bytes).unwrap_or(isize::MAX);
        // At the end of a thread, its counter no longer exists.
        let counted = LIVE.try_with(|live| {
            live.set(live.get().saturating_add(more));
            let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
            live.get()
        });
        let tried = TRIED.try_with(Cell::get).unwrap_or(ptr::null());
        let refused = REFUSED + GRANTED.try_with(Cell::get).unwrap_or(0);
        if tried.is_null() || counted.unwrap_or(0) < refused.cast_signed() {
            return true;
        }
        TRIED.set(ptr::null());
        // SAFETY: set by `peak`, which holds the borrow until it has unset it.
        let input = unsafe { &*tried };
        let _ = writeln!(std::io::stderr(), "{bytes} bytes of memory refused, for the input{input:?}");
        false
    }

    fn give_back(bytes: usize) {
        let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub_unsigned(bytes)));
    }
}

// SAFETY: every request is passed to the system's allocator unchanged, or refused with a null pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::take(layout.size()) { unsafe { System.alloc(layout) } } else { ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::take(layout.size()) { unsafe { System.alloc_zeroed(layout) } } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::give_back(layout.size());
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !Self::take(new_size) {
            return ptr::null_mut();
        }
        Self::give_back(layout.size());
        unsafe { System.realloc(at, layout, new_size) }
    }
}
