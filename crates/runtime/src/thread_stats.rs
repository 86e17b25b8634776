//! Kernel counters of one thread: page faults, bytes read and CPU time.

use std::time::Duration;

/// Counters in `/proc` since the start of a thread (Linux). Reading takes about ten microseconds, too slow for each
/// item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// Faults on pages that were in memory but not mapped.
    pub minor_faults: u64,
    /// Faults on pages that were read from a disk.
    pub major_faults: u64,
    /// Bytes that the thread requested by read calls; `None` if the kernel does not count them.
    pub read_bytes: Option<u64>,
}

impl ThreadCounters {
    /// Reads the counters of a thread of this process by its kernel number. Returns `None` if the thread has ended.
    #[must_use]
    pub fn read(thread: u32) -> Option<Self> {
        let folder = format!("/proc/self/task/{thread}");
        let [minor_faults, major_faults] = faults(&std::fs::read_to_string(format!("{folder}/stat")).ok()?)?;
        let read_bytes = std::fs::read_to_string(format!("{folder}/io")).ok().and_then(|io| read_bytes(&io));
        Some(Self { minor_faults, major_faults, read_bytes })
    }
}

/// CPU time of a thread, and time in which it was ready but not running (`schedstat` in `/proc`, Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSchedule {
    /// CPU time.
    pub ran: Duration,
    /// Time ready to run while other threads occupied all CPUs.
    pub queued: Duration,
}

impl ThreadSchedule {
    /// Reads the times of a thread of this process by its kernel number. Returns `None` if the thread has ended or the
    /// kernel does not count them.
    #[must_use]
    pub fn read(thread: u32) -> Option<Self> {
        Self::parse(&format!("/proc/self/task/{thread}/schedstat"))
    }

    /// Reads the times of the calling thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::parse("/proc/thread-self/schedstat")
    }

    fn parse(path: &str) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
        Some(Self { ran: times.next()?.ok()?, queued: times.next()?.ok()? })
    }
}

/// Kernel number of the calling thread.
pub(crate) fn this_thread() -> Option<u32> {
    // A link to `PID/task/THREAD`.
    std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// Minor and major faults: the tenth and the twelfth field. The second field is the thread's name in brackets, and may
/// contain brackets and spaces.
fn faults(stat: &str) -> Option<[u64; 2]> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(7);
    let minor = fields.next()?.parse().ok()?;
    Some([minor, fields.nth(1)?.parse().ok()?])
}

fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("rchar:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed_after_any_thread_name() {
        for name in ["batch-0", "a) b (c", ""] {
            let stat = format!("77 ({name}) R 1 2 3 4 5 6 11 12 13 14 15");
            assert_eq!(faults(&stat), Some([11, 13]), "{stat}");
        }
        for malformed in ["", "77 (x", "77 (x) R 1 2", "77 (x) R 1 2 3 4 5 6 eleven 12 13"] {
            assert_eq!(faults(malformed), None, "{malformed}");
        }
        assert_eq!((read_bytes("rchar: 9\nwchar: 8\n"), read_bytes("wchar: 8\n")), (Some(9), None));
    }

    #[test]
    fn touched_pages_and_read_bytes_are_counted() {
        let counts = crate::spawn("counted", || {
            let thread = this_thread().expect("this is Linux");
            let before = ThreadCounters::read(thread).expect("it runs");
            // 16 MiB are more than an allocator keeps mapped.
            let pages = std::hint::black_box(vec![1_u8; 16 << 20]);
            let text = std::fs::read("/proc/self/maps").expect("every process has one");
            let after = ThreadCounters::read(thread).expect("it runs");
            (before, after, pages.len() + text.len())
        });
        let (before, after, _) = counts.and_then(crate::NamedThread::join).expect("no panic");
        assert!(after.minor_faults + after.major_faults > before.minor_faults + before.major_faults, "{after:?}");
        if let (Some(before), Some(after)) = (before.read_bytes, after.read_bytes) {
            assert!(after > before, "{after}");
        }
        assert_eq!(ThreadCounters::read(u32::MAX), None);
    }
}
