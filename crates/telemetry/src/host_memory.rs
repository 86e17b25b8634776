//! How much memory of the machine this process has.

use std::fs;

/// Bytes that are resident, as the kernel counts them; none where it does not say.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    of(&fs::read_to_string("/proc/self/status").ok()?)
}

fn of(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_and_nothing_else() {
        assert_eq!(of("Name:\tcloze\nVmHWM:\t   9 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
        for strange in ["", "VmRSS:", "VmRSS: x kB", "VmRSS: 5 MB"] {
            assert_eq!(of(strange), None, "{strange}");
        }
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20), "this test takes memory too");
    }
}
