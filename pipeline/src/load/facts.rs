//! What is derived, for people to read.

use schemas::ColumnSpec;
use schemas::sample::id_type;

use super::LoadPlan;
use crate::actor::LaneOptions;
use crate::collate::PlannedView;
use crate::shard::opened::SHARDS_OPEN_MAX;
use crate::views::ViewName;

/// What `cloze plan` prints of the online half.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadFacts {
    /// The views that are rendered, in order.
    pub views: Vec<ViewFacts>,
    /// Stored samples.
    pub samples: u64,
    /// Rows that are made of one sample.
    pub pieces_per_sample: u32,
    /// Share of a full sample's content that its pieces leave out.
    pub content_lost: f64,
    /// Copies of each row.
    pub copies: u64,
    /// Rows of an epoch, copies counted.
    pub rows_per_epoch: u64,
    /// Row groups of an epoch.
    pub blocks: u64,
    /// Blocks per shuffle window: `data.shuffle_blocks`, raised if batches in flight need more.
    pub window_blocks: usize,
    /// What was asked for.
    pub shuffle_blocks: usize,
    /// Whether the split is one window, and stays decoded.
    pub resident: bool,
    /// How well windows mix: see [`Sampler::mixture_error`](crate::sampler::Sampler::mixture_error).
    pub mixture_error: f64,
    /// Rows of a window, at least.
    pub window_rows_min: u64,
    /// Of a first epoch that is streamed; all counts of data are then of what was there.
    pub streamed: Option<StreamedFacts>,
    /// Threads and their queues.
    pub lanes: LaneOptions,
    /// Batches alive at once, at most.
    pub batches_alive_max: usize,
    /// Bytes of these.
    pub batches_bytes: u64,
    /// Decoded row groups alive at once, at most.
    pub groups_alive_max: u64,
    /// Bytes of these, for full samples.
    pub groups_bytes: u64,
    /// Shards whose footers are in memory, at most.
    pub shards_open_max: u64,
}

/// A first epoch that is read in the order in which it is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamedFacts {
    /// Whether all of it was there.
    pub is_whole: bool,
    /// Its windows.
    pub windows: u64,
    /// Row groups of the largest.
    pub window_blocks_max: u64,
}

/// One rendered view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFacts {
    /// Its name.
    pub name: ViewName,
    /// What it is.
    pub kind: &'static str,
    /// The view it edits.
    pub of: Option<ViewName>,
    /// Columns per row.
    pub width: usize,
    /// What is made of it.
    pub columns: Vec<ColumnSpec>,
    /// Bytes of one row, attention mask included.
    pub bytes_per_row: u64,
}

impl LoadPlan {
    /// Everything derived, for people to read.
    #[must_use]
    pub fn facts(&self) -> LoadFacts {
        let views: Vec<ViewFacts> = self.views.iter().map(|view| self.view_facts(view)).collect();
        let row_bytes: u64 = views.iter().map(|view| view.bytes_per_row).sum();
        let content = u64::from(self.promise.content_max);
        let groups_alive_max = self.groups_alive_max();
        let sampler = self.outline.as_ref().unwrap_or_else(|| self.course.first().sampler());
        let mut rows: Vec<u32> = sampler.blocks().iter().map(|block| block.stored).collect();
        let samples = rows.iter().map(|&rows| u64::from(rows)).sum();
        let alive = usize::try_from(groups_alive_max).unwrap_or(usize::MAX);
        if alive < rows.len() {
            rows.select_nth_unstable_by(alive, |a, b| b.cmp(a));
        }
        let largest: u64 = rows.iter().take(alive).map(|&rows| u64::from(rows)).sum();
        let id_bytes = id_type(self.promise.vocab_size).primitive_width().unwrap_or(4) as u64;
        let shards = sampler.blocks().last().map_or(0, |block| block.shard + 1);
        LoadFacts {
            samples,
            pieces_per_sample: self.pieces,
            content_lost: 1.0 - (u64::from(self.pieces) * self.piece_tokens as u64) as f64 / content as f64,
            copies: sampler.copies(),
            rows_per_epoch: sampler.rows_per_epoch(),
            blocks: sampler.blocks().len() as u64,
            window_blocks: sampler.window_blocks(),
            shuffle_blocks: self.shuffle_blocks,
            resident: sampler.is_resident() && self.outline.is_none(),
            mixture_error: sampler.mixture_error(),
            window_rows_min: sampler.window_rows_min(),
            streamed: self.outline.is_some().then(|| self.streamed_facts()),
            lanes: self.lanes,
            batches_alive_max: self.lanes.items_alive_max(),
            batches_bytes: self.lanes.items_alive_max() as u64 * self.rows_per_batch * row_bytes,
            groups_alive_max,
            // Beside the ids: two offsets, a source, and about two documents of 10 bytes.
            groups_bytes: largest * (content * id_bytes + 30),
            shards_open_max: SHARDS_OPEN_MAX.min(shards as usize) as u64,
            views,
        }
    }

    fn streamed_facts(&self) -> StreamedFacts {
        let windows = self.course.parts();
        let blocks = windows.iter().map(|window| window.sampler().blocks().len());
        StreamedFacts {
            is_whole: !self.course.grows(),
            windows: windows.len() as u64,
            window_blocks_max: blocks.max().unwrap_or(0) as u64,
        }
    }

    fn view_facts(&self, view: &PlannedView) -> ViewFacts {
        ViewFacts {
            name: view.name.clone(),
            kind: view.view.kind(),
            of: view.of.map(|of| self.views[of].name.clone()),
            width: view.width,
            columns: view.wanted.clone(),
            bytes_per_row: view.wanted.iter().map(|spec| (spec.element.bytes() * view.width) as u64).sum(),
        }
    }
}
