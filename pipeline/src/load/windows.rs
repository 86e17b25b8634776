//! Windows and lanes that fit one another.

use std::sync::Arc;

use schemas::{Problem, Share, Split};

use super::LoadPlan;
use super::facts::LoadFacts;
use super::source::Source;
use crate::actor::LaneOptions;
use crate::course::Stretch;
use crate::mixture::Dealing;
use crate::sampler::{Sampler, SamplerOptions};

/// The sampler whose every window holds `rows` rows: those of a source in the batches that one lane of depth 1 keeps in
/// flight.
///
/// The window shapes the order of the data, so it may depend on the size of a batch, never on lanes.
pub(super) fn wide_enough(split: &Split, options: SamplerOptions, rows: u64) -> Sampler {
    let (mut sampler, mut window_blocks) = (Sampler::new(split, options), options.window_blocks);
    while sampler.windows_per_epoch() > 1 && sampler.window_rows_min() < rows {
        window_blocks += window_blocks.div_ceil(4);
        sampler = sampler.with_windows(window_blocks);
    }
    sampler
}

/// As many lanes, as deep, as keep the batches in flight within two windows of each source: shallower first, then fewer.
pub(super) fn narrow_enough(
    mut lanes: LaneOptions,
    sources: &[Source],
    dealing: &Dealing,
    rows_per_batch: u64,
) -> LaneOptions {
    let fits = |lanes: LaneOptions| {
        let in_flight = lanes.items_alive_max() as u64 * rows_per_batch;
        let mut samplers = sources.iter().map(|source| source.course.first().sampler()).enumerate();
        samplers.all(|(source, sampler)| {
            sampler.windows_per_epoch() <= 1 || dealing.at_most(source, in_flight) <= sampler.window_rows_min()
        })
    };
    while !fits(lanes) {
        let Some(narrower) = narrower(lanes) else { break };
        lanes = narrower;
    }
    lanes
}

/// Lanes that keep fewer batches in flight: shallower ones, or else fewer. None where there is one of depth 1.
fn narrower(lanes: LaneOptions) -> Option<LaneOptions> {
    match (lanes.depth, lanes.count) {
        (2.., _) => Some(LaneOptions { depth: lanes.depth - 1, ..lanes }),
        (_, 2..) => Some(LaneOptions { count: lanes.count - 1, ..lanes }),
        _ => None,
    }
}

/// Row groups of windows that follow one another, at most, of which so many rows that follow one another are: `windows`
/// has the groups and the rows of each.
fn touched(windows: &[(u64, u64)], rows: u64) -> u64 {
    let from = |first: usize| {
        let mut between = 0;
        let mut groups = windows[first].0;
        for &(more, of_it) in &windows[first + 1..] {
            // The first of the rows is the last of the first window.
            if between + 1 >= rows {
                break;
            }
            (groups, between) = (groups + more, between + of_it);
        }
        groups
    };
    (0..windows.len()).map(from).max().unwrap_or(0)
}

impl LoadPlan {
    /// The same plan with as many lanes, as deep, as keep what is decoded and in flight within so many bytes. Windows shape
    /// the order of the data: they do not yield.
    pub(super) fn within(mut self, memory_max: u64) -> Result<Self, Problem> {
        loop {
            let LoadFacts { batches_bytes, groups_bytes, window_blocks, .. } = self.facts();
            if batches_bytes.saturating_add(groups_bytes) <= memory_max {
                return Ok(self);
            }
            let Some(lanes) = narrower(self.lanes) else {
                let message = format!(
                    "with one lane of depth 1 decoded row groups take {groups_bytes} bytes and batches {batches_bytes}; \
                     {memory_max} are allowed"
                );
                let hint = format!(
                    "raise it, make batches smaller, or, where windows of {window_blocks} row groups are what takes it, lower \
                     `data.shuffle_blocks`, which changes the order of rows"
                );
                return Err(Problem::new("data.memory_max", message).hint(hint));
            };
            self.lanes = lanes;
        }
    }

    /// The lanes of a share: batches of all shares lie between two of its own, and windows pass so much faster.
    pub(super) fn lanes_of(&self, share: Share) -> LaneOptions {
        let rows = self.rows_per_batch * u64::from(share.ranks());
        narrow_enough(self.lanes, &self.sources, &self.dealing, rows)
    }

    /// Rows of batches that are alive at once, at most.
    pub(super) fn rows_in_flight(&self) -> u64 {
        self.lanes.items_alive_max() as u64 * self.rows_per_batch
    }

    /// Decoded row groups alive at once, at most: those of all sources.
    pub(super) fn groups_alive_max(&self) -> u64 {
        self.sources.iter().map(|source| source.groups_alive_max(self.rows_in_flight())).sum()
    }
}

impl Source {
    /// Decoded row groups of it that are alive at once, at most, in epochs over the generation that the stream begins with
    /// and where it passes to one with windows of as many rows. A later generation of smaller windows may have three alive,
    /// which then hold less: batches in flight, of so many rows, are never of more than a window that the stream begins with.
    pub(super) fn groups_alive_max(&self, in_flight: u64) -> u64 {
        if let Some(outline) = &self.outline {
            let windows = self.course.parts();
            let sizes =
                |window: &Arc<Stretch>| (window.sampler().blocks().len() as u64, window.sampler().rows_per_epoch());
            let first = touched(&windows.iter().map(sizes).collect::<Vec<_>>(), in_flight);
            // Of a later epoch at least as many rows are in each window but the smallest.
            let later = (outline.window_blocks() as u64, outline.window_rows_min());
            return first
                .max(touched(&vec![later; usize::try_from(outline.windows_per_epoch()).unwrap_or(1)], in_flight));
        }
        let sampler = self.course.first().sampler();
        let blocks = sampler.blocks().len();
        (if sampler.is_resident() { blocks } else { blocks.min(2 * sampler.window_blocks()) }) as u64
    }
}
