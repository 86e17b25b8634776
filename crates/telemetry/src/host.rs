//! Host of this process: its name, and the memory that the process uses.

use std::fs;

/// Returns the name of the host as its kernel has it. Empty if it cannot be read.
#[must_use]
pub fn name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Returns the resident bytes (`VmRSS`) of the process. `None` if the kernel does not report them.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    parse_resident_bytes(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_resident_bytes(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_lines_of_the_kernel_are_parsed() {
        assert_eq!(
            parse_resident_bytes("Name:\tcloze\nVmHWM:\t   9 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n"),
            Some(2 << 20)
        );
        for strange in ["", "VmRSS:", "VmRSS: x kB", "VmRSS: 5 MB"] {
            assert_eq!(parse_resident_bytes(strange), None, "{strange}");
        }
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20), "the test process uses memory");
    }
}
