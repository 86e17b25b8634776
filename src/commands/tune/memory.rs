//! Available memory.

/// Memory that the machine can give without swapping. None if the kernel does not report it.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn available_memory_is_known() {
        assert!(super::available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
