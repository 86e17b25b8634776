//! Derived values of a plan, for display.

use std::path::PathBuf;

use runtime::PoolOptions;
use schemas::ColumnSpec;

use super::LoadPlan;
use super::source::Source;
use crate::collate::PlannedView;
use crate::shard::opened::SHARDS_OPEN_MAX;
use crate::views::ViewName;

/// Values of the online half that `cloze plan` prints.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadFacts {
    /// Rendered views, in order.
    pub views: Vec<ViewFacts>,
    /// Stored samples.
    pub samples: u64,
    /// Number of rows made of one sample.
    pub pieces_per_sample: u32,
    /// Share of a full sample's content that its pieces omit.
    pub content_lost: f64,
    /// Copies of each row.
    pub copies: u64,
    /// Rows of an epoch, including copies.
    pub rows_per_epoch: u64,
    /// Row groups of an epoch.
    pub blocks: u64,
    /// Blocks per shuffle window: `data.shuffle_window_groups`, raised if batches in flight need more.
    pub window_blocks: usize,
    /// Configured value of `data.shuffle_window_groups`.
    pub shuffle_window_groups: usize,
    /// Whether the split is one window that stays decoded.
    pub resident: bool,
    /// Mixing error of windows: see [`Sampler::mixture_error`](crate::sampler::Sampler::mixture_error).
    pub mixture_error: f64,
    /// Minimum number of rows of a window.
    pub window_rows_min: u64,
    /// Facts about a streamed first epoch. All counts of data then cover only the data that was available.
    pub streamed: Option<StreamedFacts>,
    /// Threads and their queues.
    pub workers: PoolOptions,
    /// Maximum number of batches alive at once.
    pub batches_alive_max: usize,
    /// Bytes of these batches.
    pub batches_bytes: u64,
    /// Maximum number of decoded row groups alive at once.
    pub groups_alive_max: u64,
    /// Bytes of these row groups, for full samples.
    pub groups_bytes: u64,
    /// Maximum number of shards whose footers are in memory.
    pub shards_open_max: u64,
    /// Local cache of remote shards, if a folder is remote.
    pub cache: Option<CacheFacts>,
    /// Sources of a mixture. Empty for a single folder. The counts above are totals of all sources; values of windows
    /// are those of the worst source.
    pub sources: Vec<SourceFacts>,
}

/// Local cache of remote shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Maximum bytes of the files.
    pub max_bytes: u64,
    /// Maximum number of shards that are downloaded ahead of a stream.
    pub shards_ahead_max: usize,
}

/// One source of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFacts {
    /// Name of the source.
    pub name: String,
    /// Shares of 1000 rows, each with the first row at which it applies.
    pub shares: Vec<(u64, u64)>,
    /// Stored samples.
    pub samples: u64,
    /// Content tokens.
    pub tokens: u64,
    /// Rows of an epoch, including copies.
    pub rows_per_epoch: u64,
    /// Row groups of an epoch.
    pub blocks: u64,
    /// Blocks per shuffle window.
    pub window_blocks: usize,
    /// Whether the split is one window that stays decoded.
    pub resident: bool,
    /// Mixing error of windows.
    pub mixture_error: f64,
    /// Minimum number of rows of a window.
    pub window_rows_min: u64,
    /// Maximum number of decoded row groups alive at once.
    pub groups_alive_max: u64,
    /// Bytes of these row groups, for full samples.
    pub groups_bytes: u64,
}

/// First epoch that is read in the order in which it is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamedFacts {
    /// Whether the whole epoch was available.
    pub is_whole: bool,
    /// Number of its windows.
    pub windows: u64,
    /// Row groups of the largest window.
    pub window_blocks_max: u64,
}

/// One rendered view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFacts {
    /// Name of the view.
    pub name: ViewName,
    /// Kind of the view.
    pub kind: &'static str,
    /// View that it edits.
    pub of: Option<ViewName>,
    /// Columns per row.
    pub width: usize,
    /// Columns that are rendered.
    pub columns: Vec<ColumnSpec>,
    /// Bytes of one row, attention mask included.
    pub bytes_per_row: u64,
}

impl LoadPlan {
    /// Returns all derived values, for display.
    #[must_use]
    pub fn facts(&self) -> LoadFacts {
        let views: Vec<ViewFacts> = self.views.iter().map(|view| self.view_facts(view)).collect();
        let (batches_bytes, groups_bytes) = self.bytes_at_most(self.workers, 1);
        let content = u64::from(self.expectation.content_max);
        let alive = self.groups_alive_max(self.workers, 1);
        let sources = self.sources.iter().zip(alive).enumerate();
        let sources: Vec<SourceFacts> =
            sources.map(|(index, (source, alive))| self.source_facts(index, source, alive)).collect();
        let sum = |figure: fn(&SourceFacts) -> u64| sources.iter().map(figure).sum();
        let shards = |source: &Source| source.sampler().blocks().last().map_or(0, |block| block.shard + 1);
        let open = self.sources.iter().map(|source| SHARDS_OPEN_MAX.min(shards(source) as usize));
        LoadFacts {
            samples: sum(|source| source.samples),
            pieces_per_sample: self.pieces,
            content_lost: 1.0 - (u64::from(self.pieces) * self.piece_tokens as u64) as f64 / content as f64,
            copies: u64::from(self.copies),
            rows_per_epoch: sum(|source| source.rows_per_epoch),
            blocks: sum(|source| source.blocks),
            window_blocks: sources.iter().map(|source| source.window_blocks).max().unwrap_or(0),
            shuffle_window_groups: self.shuffle_window_groups,
            resident: sources.iter().all(|source| source.resident),
            mixture_error: sources.iter().map(|source| source.mixture_error).fold(0.0, f64::max),
            window_rows_min: sources.iter().map(|source| source.window_rows_min).min().unwrap_or(0),
            streamed: self.sources.iter().find_map(Source::streamed_facts),
            workers: self.workers,
            batches_alive_max: self.workers.max_items_alive(),
            batches_bytes,
            groups_alive_max: sum(|source| source.groups_alive_max),
            groups_bytes,
            shards_open_max: open.map(|shards| shards as u64).sum(),
            cache: self.cache_facts(),
            sources: if self.is_mixture() { sources } else { Vec::new() },
            views,
        }
    }

    fn cache_facts(&self) -> Option<CacheFacts> {
        let cache = self.sources.iter().find_map(|source| source.shards.cache())?;
        let folder = cache.folder().to_owned();
        Some(CacheFacts { folder, max_bytes: cache.max_bytes(), shards_ahead_max: self.shards_ahead_max() })
    }

    fn source_facts(&self, index: usize, source: &Source, groups_alive_max: u64) -> SourceFacts {
        let sampler = source.sampler();
        let split = &source.epoch_plan.first().snapshot().split;
        let samples = sampler.blocks().iter().map(|block| u64::from(block.stored)).sum();
        SourceFacts {
            name: source.name.clone().unwrap_or_default(),
            shares: self.assignment.shares(index),
            samples,
            tokens: split.tokens(),
            rows_per_epoch: sampler.rows_per_epoch(),
            blocks: sampler.blocks().len() as u64,
            window_blocks: sampler.window_blocks(),
            resident: sampler.is_resident() && source.outline.is_none(),
            mixture_error: sampler.mixture_error(),
            window_rows_min: sampler.window_rows_min(),
            groups_alive_max,
            groups_bytes: source.bytes_of(groups_alive_max, self.expectation),
        }
    }

    fn view_facts(&self, view: &PlannedView) -> ViewFacts {
        ViewFacts {
            name: view.name.clone(),
            kind: view.view.kind(),
            of: view.of.map(|of| self.views[of].name.clone()),
            width: view.width,
            columns: view.wanted.clone(),
            bytes_per_row: view.bytes_per_row(),
        }
    }
}

impl Source {
    /// Returns the facts about a streamed first epoch.
    fn streamed_facts(&self) -> Option<StreamedFacts> {
        self.outline.as_ref()?;
        let windows = self.epoch_plan.parts();
        let blocks = windows.iter().map(|window| window.sampler().blocks().len());
        Some(StreamedFacts {
            is_whole: !self.epoch_plan.grows(),
            windows: windows.len() as u64,
            window_blocks_max: blocks.max().unwrap_or(0) as u64,
        })
    }
}
