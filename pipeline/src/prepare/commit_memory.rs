//! Memory of the commits that wait for a remote store.

use super::config::PrepareConfig;

/// Maximum number of commits that wait for a remote store at once, per worker. A commit is a few requests, one after
/// another, and takes longer than a part of the default size.
const MAX_REMOTE_COMMITS: u64 = 8;
/// Maximum memory of the uploads of a commit: four parts of 8 MiB for each split, more than which a writer does not keep.
const COMMIT_BYTES: u64 = 64 << 20;
/// Share of `prepare.max_memory_bytes` for commits.
const COMMITS_SHARE: u64 = 4;

/// Maximum memory of a commit. Shards are smaller than their text.
fn commit_bytes(config: &PrepareConfig) -> u64 {
    config.segment_bytes.clamp(1, COMMIT_BYTES)
}

/// Returns the number of commits that wait for a remote store at once, per worker.
pub(super) fn remote_commits(config: &PrepareConfig) -> usize {
    let room = config.max_memory_bytes / COMMITS_SHARE / config.workers() as u64 / commit_bytes(config);
    usize::try_from(room.clamp(1, MAX_REMOTE_COMMITS)).expect("a small number")
}

/// Returns the maximum memory of the commits of a worker: one waits, and the worker has another.
pub(super) fn worker_bytes(config: &PrepareConfig) -> u64 {
    (remote_commits(config) as u64 + 2) * commit_bytes(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_bounded_by_a_quarter_of_the_memory() {
        let config = |memory: u64, segment_bytes: u64| PrepareConfig {
            max_memory_bytes: memory,
            segment_bytes,
            workers: Some(2),
            ..PrepareConfig::default()
        };
        for (memory, segment, commits, bytes) in [
            (4 << 30, 256 << 20, 8, 640 << 20),
            (1 << 30, 256 << 20, 2, 256 << 20),
            (1, 256 << 20, 1, 192 << 20),
            (1 << 30, 1 << 20, 8, 10 << 20),
        ] {
            let config = config(memory, segment);
            assert_eq!((remote_commits(&config), worker_bytes(&config)), (commits, bytes), "{memory}, {segment}");
        }
    }
}
