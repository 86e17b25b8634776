//! What the kernel counts of a thread besides its time: pages that it touched, and bytes that it read.

/// Counts of Linux' `/proc` since a thread began. Reading them takes some ten microseconds: not for every item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Pages that were in memory and not yet the process's.
    pub minor_faults: u64,
    /// Pages that had to be read from a disk.
    pub major_faults: u64,
    /// Bytes that it asked for by reading, from wherever they came; none where the kernel does not count them.
    pub read_bytes: Option<u64>,
}

impl Counted {
    /// Of a thread of this process, by the kernel's number; none once it has ended.
    #[must_use]
    pub fn of(thread: u32) -> Option<Self> {
        let folder = format!("/proc/self/task/{thread}");
        let faults = faults(&std::fs::read_to_string(format!("{folder}/stat")).ok()?)?;
        let read_bytes = std::fs::read_to_string(format!("{folder}/io")).ok().and_then(|io| read_bytes(&io));
        Some(Self { minor_faults: faults.0, major_faults: faults.1, read_bytes })
    }
}

/// The tenth and the twelfth field. The second is the thread's name in brackets, and may hold brackets and spaces itself.
fn faults(stat: &str) -> Option<(u64, u64)> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(7);
    let minor = fields.next()?.parse().ok()?;
    Some((minor, fields.nth(1)?.parse().ok()?))
}

fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("rchar:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        for name in ["batch-0", "a) b (c", ""] {
            let stat = format!("77 ({name}) R 1 2 3 4 5 6 11 12 13 14 15");
            assert_eq!(faults(&stat), Some((11, 13)), "{stat}");
        }
        for strange in ["", "77 (x", "77 (x) R 1 2", "77 (x) R 1 2 3 4 5 6 eleven 12 13"] {
            assert_eq!(faults(strange), None, "{strange}");
        }
        assert_eq!((read_bytes("rchar: 9\nwchar: 8\n"), read_bytes("wchar: 8\n")), (Some(9), None));
    }

    #[test]
    fn who_touches_memory_and_reads_is_counted() {
        let counts = crate::actor::spawn("counted", || {
            let thread = crate::actor::meter::this_thread().expect("this is Linux");
            let before = Counted::of(thread).expect("it runs");
            // 16 MiB are too much to have lain about.
            let pages = std::hint::black_box(vec![1_u8; 16 << 20]);
            let text = std::fs::read("/proc/self/maps").expect("everybody has one");
            let after = Counted::of(thread).expect("it runs");
            (before, after, pages.len() + text.len())
        });
        let (before, after, _) = counts.and_then(crate::actor::Actor::join).expect("no panic");
        assert!(after.minor_faults + after.major_faults > before.minor_faults + before.major_faults, "{after:?}");
        if let (Some(before), Some(after)) = (before.read_bytes, after.read_bytes) {
            assert!(after > before, "{after}");
        }
        assert_eq!(Counted::of(u32::MAX), None);
    }
}
