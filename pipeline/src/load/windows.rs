//! Sizes of windows and numbers of workers that fit each other.

use runtime::PoolOptions;
use schemas::Split;

use super::source::Source;
use crate::mixture::SourceAssignment;
use crate::sampler::{Sampler, SamplerOptions};

/// Creates the sampler whose windows each hold at least `rows` rows: the rows of a source in the batches that one
/// worker of depth 1 keeps in flight.
///
/// The window determines the order of the data. It may depend on the batch size, never on workers.
pub(super) fn sampler_with_min_rows(split: &Split, options: SamplerOptions, rows: u64) -> Sampler {
    let mut sampler = Sampler::new(split, options);
    let mut window_blocks = options.window_blocks;
    while sampler.windows_per_epoch() > 1 && sampler.window_rows_min() < rows {
        window_blocks += window_blocks.div_ceil(4);
        sampler = sampler.with_windows(window_blocks);
    }
    sampler
}

/// Reduces workers until the batches in flight fit two windows of each source: first depth, then number.
pub(super) fn limit_to_windows(
    mut workers: PoolOptions,
    sources: &[Source],
    assignment: &SourceAssignment,
    rows_per_batch: u64,
) -> PoolOptions {
    let fits = |workers: PoolOptions| {
        let in_flight = workers.max_items_alive() as u64 * rows_per_batch;
        let mut samplers = sources.iter().map(|source| source.epoch_plan.first().sampler()).enumerate();
        samplers.all(|(source, sampler)| {
            sampler.windows_per_epoch() <= 1 || assignment.at_most(source, in_flight) <= sampler.window_rows_min()
        })
    };
    while !fits(workers) {
        let Some(reduce_workers) = reduce_workers(workers) else { break };
        workers = reduce_workers;
    }
    workers
}

/// Returns workers with fewer batches in flight: lower depth first, then fewer workers. `None` for one worker of depth
/// 1.
pub(super) fn reduce_workers(workers: PoolOptions) -> Option<PoolOptions> {
    match (workers.queue_depth, workers.workers) {
        (2.., _) => Some(PoolOptions { queue_depth: workers.queue_depth - 1, ..workers }),
        (_, 2..) => Some(PoolOptions { workers: workers.workers - 1, ..workers }),
        _ => None,
    }
}
