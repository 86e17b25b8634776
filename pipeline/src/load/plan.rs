//! From a configuration to a [`LoadPlan`], or to everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use schemas::columns::INPUT_IDS;
use schemas::manifest::Pack;
use schemas::sample::id_type;
use schemas::{ColumnSpec, Effective, Manifest, Problem, Share, Split, Vocab};

use super::{DataConfig, LoadPlan, VALIDATION_SEED};
use crate::actor::LaneOptions;
use crate::collate::{self, PlannedView};
use crate::sampler::{Order, Sampler, SamplerOptions};
use crate::shard::reader::Promise;
use crate::views::{AnyView, ORIGINAL, ViewName};

fn problem(key: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(key, message).hint(hint)
}

/// Which rows a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The training split, shuffled, without end.
    Train,
    /// The first rows of the validation split, in stored order, once, under a seed of their own.
    Valid {
        /// At most this many.
        rows: u64,
    },
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct LoadRequest<'a> {
    /// The prepared folder.
    pub folder: &'a Path,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Its vocabulary.
    pub vocab: Arc<Vocab>,
    /// Which rows.
    pub rows: Rows,
    /// The section `[data]`.
    pub data: &'a DataConfig,
    /// The section `[views]`. A plain `original` is there without being written.
    pub views: &'a BTreeMap<ViewName, AnyView>,
    /// The columns that somebody reads; no other is made.
    pub wanted: &'a BTreeSet<(ViewName, ColumnSpec)>,
    /// The run's seed.
    pub seed: u64,
    /// Rows of a batch.
    pub rows_per_batch: u64,
}

impl LoadPlan {
    /// Checks a request against the manifest.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn new(request: &LoadRequest<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let Effective { train, valid } = request.manifest.now();
        let split = if request.rows == Rows::Train { train } else { valid };
        let end = check_rows(request, &split, &mut problems);
        let width = check_width(request, &mut problems);
        check_data(request, &mut problems);
        check_sentences(request, &mut problems);
        let mut views = order_views(request.views, width, &mut problems);
        assign_columns(&mut views, request.wanted, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        // A view that nobody reads, not even through another, is not rendered.
        let views = prune(views);
        let lanes = LaneOptions { name: "batch", count: request.data.lanes(), depth: request.data.depth };
        let promise = Promise::of(request.manifest);
        let cuts = request.manifest.pack == Pack::Block;
        let piece_tokens = if cuts { width - 2 } else { promise.content_max };
        let pieces = (promise.content_max / piece_tokens).max(1);
        let validation = request.rows != Rows::Train;
        let (copies, seed) = if validation { (1, VALIDATION_SEED) } else { (request.data.copies, request.seed) };
        let order = if validation { Order::Stored } else { Order::Shuffled };
        let fraction = if validation { 1.0 } else { request.data.fraction };
        let window_blocks = request.data.shuffle_blocks;
        let options = SamplerOptions { pieces, copies, seed, order, window_blocks, fraction };
        let sampler = wide_enough(&split, options, request.rows_per_batch);
        let lanes = narrow_enough(lanes, &sampler, request.rows_per_batch);
        Ok(Self {
            folder: request.folder.to_owned(),
            promise,
            vocab: Arc::clone(&request.vocab),
            pairs: views.iter().any(|view| view.view.samples() > 1),
            views,
            sampler,
            seed,
            copies,
            pieces,
            piece_tokens: piece_tokens as usize,
            rows_per_batch: request.rows_per_batch,
            end: end.map(|rows| rows.min(split.rows() * u64::from(pieces))),
            split,
            lanes,
            shuffle_blocks: request.data.shuffle_blocks,
        })
    }
}

fn check_rows(request: &LoadRequest<'_>, split: &Split, problems: &mut Vec<Problem>) -> Option<u64> {
    if request.rows_per_batch == 0 {
        problems.push(problem("train.rows_per_micro_batch", "0 rows are no batch", "give 1 or more"));
    }
    let end = match request.rows {
        Rows::Train => None,
        Rows::Valid { rows } => Some(rows),
    };
    if split.rows() == 0 && end.is_none() {
        problems.push(problem("data.folder", "its training split is empty", "prepare a larger corpus"));
    }
    if end == Some(0) {
        problems.push(problem(
            "validation.rows",
            "0 rows are no validation",
            "give 1 or more, or leave out `[validation]`",
        ));
    } else if split.rows() == 0 && end.is_some() {
        let hint = "prepare with a larger `prepare.valid_fraction`, or leave out `[validation]`";
        problems.push(problem("validation.rows", "the validation split is empty", hint));
    }
    end
}

/// The width of the frame; a valid one even if the configured one is not, so that checking can go on.
fn check_width(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) -> u32 {
    let max = request.manifest.tokens_max;
    let width = request.data.width.unwrap_or(max);
    let pack = request.manifest.pack;
    if pack != Pack::Block && width < max {
        let message =
            format!("rows of {width} are pieces of samples for rows of {max}, and `{}` is not cut", pack.name());
        let hint = format!("leave it out, or prepare with `prepare.tokens_max = {width}` into another folder");
        problems.push(problem("data.width", message, hint));
        return max.clamp(3, WIDTH_MAX);
    }
    if (3..=max.min(WIDTH_MAX)).contains(&width) {
        return width;
    }
    let hint = format!("give a width from 3 (one token in its frame) to {}", max.min(WIDTH_MAX));
    problems.push(problem("data.width", format!("{width} does not fit samples prepared for rows of {max}"), hint));
    max.clamp(3, WIDTH_MAX)
}

/// Views of sentences need a folder that has them.
fn check_sentences(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let pack = request.manifest.pack;
    for (name, view) in request.views.iter().filter(|(_, view)| view.needs_sentences() && !pack.keeps_sentences()) {
        let message =
            format!("a `{}` is made of sentences, and the folder is packed as `{}`", view.kind(), pack.name());
        let hint = "prepare with `prepare.pack = \"sentences\"` into another folder, and name it in `data.folder`";
        problems.push(problem(format!("views.{name}"), message, hint).about("views", name));
    }
}

/// Positions within a row are stored as `i16`; so are those within two samples.
const WIDTH_MAX: u32 = 1 << 14;

fn check_data(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let data = request.data;
    let counts = [
        ("data.copies", u64::from(data.copies)),
        ("data.shuffle_blocks", data.shuffle_blocks as u64),
        ("data.lanes", data.lanes() as u64),
        ("data.depth", data.depth as u64),
    ];
    for (key, _) in counts.iter().filter(|(_, count)| *count == 0) {
        problems.push(problem(*key, "0 is too few", "give 1 or more"));
    }
    if !(data.fraction > 0.0 && data.fraction <= 1.0) {
        let message = format!("{} is not a part of the data", data.fraction);
        problems.push(problem("data.fraction", message, "give a number above 0, at most 1"));
    }
}

/// The views, each after the one it edits; those of a cycle or of an unknown view are left out, with a problem each.
fn order_views(views: &BTreeMap<ViewName, AnyView>, width: u32, problems: &mut Vec<Problem>) -> Vec<PlannedView> {
    let mut left = views.clone();
    left.entry(ORIGINAL.to_owned()).or_insert_with(|| AnyView::of_kind(ORIGINAL).expect("`original` is registered"));
    let names: Vec<ViewName> = left.keys().cloned().collect();
    for (name, view) in &left {
        for (key, message) in view.problems() {
            let hint = format!("see the `{}` view", view.kind());
            problems.push(problem(format!("views.{name}.{key}"), message, hint).about("views", name));
        }
    }
    let mut ordered: Vec<PlannedView> = Vec::new();
    loop {
        let place = |name: &ViewName| ordered.iter().position(|view| view.name == *name);
        let next = left.iter().find_map(|(name, view)| match view.of() {
            None => Some((name.clone(), None)),
            Some(of) => place(of).map(|of| (name.clone(), Some(of))),
        });
        let Some((name, of)) = next else { break };
        let view = left.remove(&name).expect("it was just found");
        let planned = place_view(name, view, of, &ordered, width);
        ordered.push(planned);
    }
    for (name, view) in &left {
        let of = view.of().expect("a frame is always ordered");
        let known = names.join("`, `");
        let found = if names.contains(of) {
            problem(
                format!("views.{name}.of"),
                format!("`{of}` is, over some views, an edit of `{name}` itself"),
                "name a view that does not depend on it",
            )
        } else {
            problem(format!("views.{name}.of"), format!("there is no view `{of}`"), format!("there are `{known}`"))
        };
        problems.push(found.about("views", name).about("views", of));
    }
    ordered
}

fn place_view(name: ViewName, view: AnyView, of: Option<usize>, earlier: &[PlannedView], width: u32) -> PlannedView {
    let place = earlier.len();
    let writes_ids = view.columns().contains(&INPUT_IDS.spec());
    let source = of.map(|of| &earlier[of]);
    let row_width = source.map_or(width, |source| u32::try_from(source.width).expect("widths are checked"));
    PlannedView {
        frame: source.map_or(place, |source| source.frame),
        ids: source.filter(|_| !writes_ids).map_or(place, |source| source.ids),
        width: view.width(row_width) as usize,
        wanted: Vec::new(),
        name,
        view,
        of,
    }
}

fn columns_of(views: &[PlannedView], view: &PlannedView) -> BTreeSet<ColumnSpec> {
    collate::columns(&view.view, &views[view.frame].view)
}

fn assign_columns(views: &mut [PlannedView], wanted: &BTreeSet<(ViewName, ColumnSpec)>, problems: &mut Vec<Problem>) {
    for (name, column) in wanted {
        let makers: Vec<&str> = views
            .iter()
            .filter(|view| columns_of(views, view).contains(column))
            .map(|view| view.name.as_str())
            .collect();
        let makers = if makers.is_empty() {
            "no view here makes it".into()
        } else {
            format!("`{}` has it", makers.join("`, `"))
        };
        match views.iter().position(|view| view.name == *name) {
            Some(place) if columns_of(views, &views[place]).contains(column) => views[place].wanted.push(*column),
            Some(place) => {
                let view = &views[place];
                let message =
                    format!("column `{}` is read, which a `{}` view does not make", column.name, view.view.kind());
                problems.push(problem(format!("views.{name}"), message, makers).about("views", name));
            }
            // A view left out above has its problem already.
            None if problems.iter().any(|known| known.about.iter().any(|view| view.name == *name)) => {}
            None => {
                let message = format!("column `{}` of a view `{name}` is read, and there is no such view", column.name);
                problems.push(problem(format!("views.{name}"), message, makers).about("views", name));
            }
        }
    }
}

/// Drops the views that neither are read nor lead to one that is, and renumbers the rest.
fn prune(views: Vec<PlannedView>) -> Vec<PlannedView> {
    let mut needed: Vec<bool> = views.iter().map(|view| !view.wanted.is_empty()).collect();
    for place in (0..views.len()).rev() {
        if let Some(of) = views[place].of.filter(|_| needed[place]) {
            needed[of] = true;
        }
    }
    let renumbered: Vec<usize> = needed
        .iter()
        .scan(0, |next, &kept| {
            let place = *next;
            *next += usize::from(kept);
            Some(place)
        })
        .collect();
    let kept = views.into_iter().zip(needed).filter(|(_, kept)| *kept);
    kept.map(|(view, _)| PlannedView {
        of: view.of.map(|of| renumbered[of]),
        frame: renumbered[view.frame],
        ids: renumbered[view.ids],
        ..view
    })
    .collect()
}

/// The sampler whose every window holds the batches that one lane of depth 1 keeps in flight.
///
/// The window shapes the order of the data, so it may depend on the size of a batch, never on lanes.
fn wide_enough(split: &Split, mut options: SamplerOptions, rows_per_batch: u64) -> Sampler {
    let least = LaneOptions { name: "batch", count: 1, depth: 1 }.items_alive_max() as u64;
    loop {
        let sampler = Sampler::new(split, options);
        if sampler.windows_per_epoch() == 1 || sampler.window_rows_min() >= least * rows_per_batch {
            return sampler;
        }
        options.window_blocks += options.window_blocks.div_ceil(4);
    }
}

/// As many lanes, as deep, as keep the batches in flight within two windows: shallower first, then fewer.
fn narrow_enough(mut lanes: LaneOptions, sampler: &Sampler, rows_per_batch: u64) -> LaneOptions {
    let fits = |lanes: LaneOptions| lanes.items_alive_max() as u64 * rows_per_batch <= sampler.window_rows_min();
    while sampler.windows_per_epoch() > 1 && !fits(lanes) {
        match (lanes.depth, lanes.count) {
            (2.., _) => lanes.depth -= 1,
            (_, 2..) => lanes.count -= 1,
            _ => break,
        }
    }
    lanes
}

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
    /// Blocks per shuffle window: `data.shuffle_blocks`, raised if batches in flight need more.
    pub window_blocks: usize,
    /// What was asked for.
    pub shuffle_blocks: usize,
    /// Whether the split is one window, and stays decoded.
    pub resident: bool,
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
    /// The lanes of a share: batches of all shares lie between two of its own, and windows pass so much faster.
    pub(super) fn lanes_of(&self, share: Share) -> LaneOptions {
        narrow_enough(self.lanes, &self.sampler, self.rows_per_batch * u64::from(share.ranks()))
    }

    /// Everything derived, for people to read.
    #[must_use]
    pub fn facts(&self) -> LoadFacts {
        let views: Vec<ViewFacts> = self.views.iter().map(|view| self.view_facts(view)).collect();
        let row_bytes: u64 = views.iter().map(|view| view.bytes_per_row).sum();
        let content = u64::from(self.promise.content_max);
        let groups_alive_max = self.groups_alive_max();
        let mut rows: Vec<u64> = self.sampler.blocks().iter().map(|block| u64::from(block.rows)).collect();
        rows.sort_unstable_by(|a, b| b.cmp(a));
        let largest: u64 = rows.iter().take(usize::try_from(groups_alive_max).unwrap_or(usize::MAX)).sum();
        let id_bytes = id_type(self.promise.vocab_size).primitive_width().unwrap_or(4) as u64;
        LoadFacts {
            samples: self.split.rows(),
            pieces_per_sample: self.pieces,
            content_lost: 1.0 - (u64::from(self.pieces) * self.piece_tokens as u64) as f64 / content as f64,
            copies: self.sampler.copies(),
            rows_per_epoch: self.sampler.rows_per_epoch(),
            window_blocks: self.sampler.window_blocks(),
            shuffle_blocks: self.shuffle_blocks,
            resident: self.is_resident(),
            lanes: self.lanes,
            batches_alive_max: self.lanes.items_alive_max(),
            batches_bytes: self.lanes.items_alive_max() as u64 * self.rows_per_batch * row_bytes,
            groups_alive_max,
            // Beside the ids: two offsets, a source, and about two documents of 10 bytes.
            groups_bytes: largest * (content * id_bytes + 30),
            views,
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
