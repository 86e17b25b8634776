//! What memory there is to be had.

/// What the machine has to give without swapping; none where the kernel does not say.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_that_runs_this_has_something_to_give() {
        assert!(super::available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
