//! How much memory a parser takes: counted by the allocator of the test program, for the thread that tries an input.
//!
//! A parser that asks for more than a gigabyte is refused by the allocator, which ends the program; the input is printed
//! before. Nothing less stops a length field of four gigabytes from taking the machine down.

#![expect(unsafe_code, reason = "an allocator that counts is one, and hands everything to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::ptr;

use crate::input::Input;

/// Nothing that a parser of an input of this length needs is larger: its tables and buffers, and a few copies.
pub(crate) fn allowed(input_bytes: usize) -> usize {
    (32 << 20) + 512 * input_bytes + GRANTED.get()
}

/// Grants a law more for the input in hand: what a decoder that is not ours is known to reserve.
pub fn grant(bytes: usize) {
    GRANTED.set(bytes);
}

/// What no parser is given.
const REFUSED: usize = 1 << 30;

thread_local! {
    /// Bytes taken and not given back since counting began; less than none where older ones were given back.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static GRANTED: Cell<usize> = const { Cell::new(0) };
    /// The input that is tried.
    static TRIED: Cell<*const Input> = const { Cell::new(ptr::null()) };
}

/// The most memory that `work` held at a time on this thread, beyond what was held before.
pub(crate) fn peak(input: &Input, work: impl FnOnce()) -> usize {
    /// Ends the watch, by a panic too.
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

/// How often `work` asked for memory, or for more of it, on this thread.
pub fn requests(work: impl FnOnce()) -> u64 {
    let before = REQUESTS.get();
    work();
    REQUESTS.get() - before
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

impl Counting {
    /// Notes that `bytes` are asked for; false if nobody should get that many. What a panic asks for does not count: to
    /// print where it was, it reads the program's debug symbols, tens of megabytes that nobody gives back.
    fn take(bytes: usize) -> bool {
        if std::thread::panicking() {
            return true;
        }
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
        let more = isize::try_from(bytes).unwrap_or(isize::MAX);
        // At the end of a thread there is nobody left to count for.
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

// SAFETY: every request goes to the system's allocator as it is, or is refused by a null pointer.
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
