//! From a configuration to a [`LoadPlan`], or to everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemas::{ColumnSpec, Generation, Manifest, Problem, Vocab};
use store::Store;

use super::views::{assign_columns, order, prune};
use super::windows::{narrow_enough, wide_enough};
use super::{DataConfig, LoadPlan, RowOrder, VALIDATION_SEED};
use crate::actor::LaneOptions;
use crate::course::{Course, Edition, Generations, Growth, REFUSED_HINT};
use crate::error::Error;
use crate::sampler::{Order, Sampler, SamplerOptions};
use crate::shard::opened::OpenShards;
use crate::shard::reader::Promise;
use crate::views::{AnyView, ViewName};

/// Which rows a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The training split, shuffled, without end.
    Train,
    /// Rows from all over the validation split, in stored order, once, under a seed of their own.
    Valid {
        /// At most this many.
        rows: u64,
    },
}

/// What is made of a generation of which parts are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneParts {
    /// Nothing: rows would be other rows than before.
    Refused,
    /// What is left of it.
    LeftOut,
    /// All of it: nobody will read a row, or the [`Course`](crate::course) refuses whoever does.
    Unread,
}

/// What a plan is made of.
#[derive(Clone, Debug)]
pub struct LoadRequest<'a> {
    /// The prepared folder.
    pub store: &'a Store,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Its vocabulary.
    pub vocab: Arc<Vocab>,
    /// The generation of it that the stream begins with.
    pub generation: Generation,
    /// Who says which generations later epochs are over, and whether they are still there; without, all are over that one.
    pub follow: Option<Arc<dyn Generations>>,
    /// Who gives the segments of a first epoch that is streamed; without, all epochs are shuffled.
    pub growth: Option<Arc<dyn Growth>>,
    /// Which rows.
    pub rows: Rows,
    /// What to do where a later generation has dropped parts of that one.
    pub gone: GoneParts,
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
        let edition = match request.rows {
            Rows::Train => Edition::train(request.manifest, request.generation),
            Rows::Valid { .. } => Edition::valid(request.manifest, request.generation),
        };
        let edition = Arc::new(if request.gone == GoneParts::LeftOut { edition.left() } else { edition });
        let stored = edition.split.rows();
        let end = check_rows(request, &edition, &mut problems);
        let width = check_width(request, &mut problems);
        check_data(request, &mut problems);
        check_sentences(request, &mut problems);
        check_counts(request, &mut problems);
        let mut views = order(request.views, width, &mut problems);
        assign_columns(&mut views, request.wanted, request.views, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        // A view that nobody reads, not even through another, is not rendered.
        let views = prune(views);
        let lanes = LaneOptions { name: "batch", count: request.data.lanes(), depth: request.data.depth };
        let promise = Promise::of(request.manifest);
        let cuts = request.manifest.pack.cuts;
        let piece_tokens = if cuts { width - 2 } else { promise.content_max };
        let pieces = (promise.content_max / piece_tokens).max(1);
        let (order, copies, seed) = match request.rows {
            Rows::Train => (Order::Shuffled, request.data.copies, request.seed),
            Rows::Valid { rows } => (Order::Spread(rows.div_ceil(u64::from(pieces))), 1, VALIDATION_SEED),
        };
        let fraction = request.data.fraction;
        let window_blocks = request.data.shuffle_blocks;
        let options = SamplerOptions { pieces, copies, seed, order, window_blocks, fraction };
        let rows_per_batch = request.rows_per_batch;
        let outline = request.growth.is_some().then(|| Sampler::new(&edition.split, options));
        let course = match &request.growth {
            None => {
                let wide = move |split: &_, _| wide_enough(split, options, rows_per_batch);
                Course::new(edition, request.follow.clone(), wide)
            }
            Some(growth) => streamed(request, &edition, growth, options).map_err(|problem| vec![problem])?,
        };
        let lanes = narrow_enough(lanes, course.first().sampler(), rows_per_batch);
        Ok(Self {
            shards: Arc::new(OpenShards::new(request.store.clone(), promise)),
            promise,
            vocab: Arc::clone(&request.vocab),
            pairs: views.iter().any(|view| view.view.samples() > 1),
            views,
            course,
            seed,
            copies,
            pieces,
            piece_tokens: piece_tokens as usize,
            rows_per_batch,
            end: end.map(|rows| rows.min(stored * u64::from(pieces))),
            lanes,
            shuffle_blocks: request.data.shuffle_blocks,
            outline,
            bad_rows_max: request.data.bad_rows_max,
        })
    }
}

/// A course whose first epoch is streamed. Its windows are those that its key says, whatever a batch is: lanes that run
/// past one keep more of them, which then hold less.
fn streamed(
    request: &LoadRequest<'_>,
    edition: &Arc<Edition>,
    growth: &Arc<dyn Growth>,
    options: SamplerOptions,
) -> Result<Course, Problem> {
    let follow = request.follow.clone().expect("who says what is streamed says what follows");
    let growth = (Arc::clone(growth), options.window_blocks);
    let arranged = Course::streamed(edition, growth, follow, move |split, window| {
        let order = window.map_or(options.order, Order::Streamed);
        Sampler::new(split, SamplerOptions { order, ..options })
    });
    arranged.map_err(|error| {
        let hint = if matches!(error, Error::Unfinished { .. }) { NOT_YET } else { "prepare a larger corpus" };
        Problem::new("data.folder", error.to_string()).hint(hint)
    })
}

const NOT_YET: &str = "run `cloze prepare`, or let it go on";

fn check_rows(request: &LoadRequest<'_>, edition: &Edition, problems: &mut Vec<Problem>) -> Option<u64> {
    if request.rows_per_batch == 0 {
        problems.push(Problem::new("train.rows_per_micro_batch", "0 rows are no batch").hint("give 1 or more"));
    }
    if request.gone != GoneParts::Unread
        && let Some(refusal) = edition.refusal()
    {
        problems.push(Problem::new("data.folder", refusal).hint(REFUSED_HINT));
    }
    let end = match request.rows {
        Rows::Train => None,
        Rows::Valid { rows } => Some(rows),
    };
    if edition.split.rows() == 0 && end.is_none() {
        problems.push(Problem::new("data.folder", "its training split is empty").hint("prepare a larger corpus"));
    }
    if end == Some(0) {
        problems.push(
            Problem::new("validation.rows", "0 rows are no validation")
                .hint("give 1 or more, or leave out `[validation]`"),
        );
    } else if edition.split.rows() == 0 && end.is_some() {
        let hint = "prepare with a larger `prepare.valid_fraction`, or leave out `[validation]`";
        problems.push(Problem::new("validation.rows", "the validation split is empty").hint(hint));
    }
    end
}

/// The width of the frame; a valid one even if the configured one is not, so that checking can go on.
fn check_width(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) -> u32 {
    let max = request.manifest.tokens_max;
    let width = request.data.width.unwrap_or(max);
    let pack = &request.manifest.pack;
    if !pack.cuts && width < max {
        let message =
            format!("rows of {width} are pieces of samples for rows of {max}, and `{}` is not cut", pack.name);
        let hint = format!("leave it out, or prepare with `prepare.tokens_max = {width}` into another folder");
        problems.push(Problem::new("data.width", message).hint(hint));
        return max.clamp(3, WIDTH_MAX);
    }
    if (3..=max.min(WIDTH_MAX)).contains(&width) {
        return width;
    }
    let hint = format!("give a width from 3 (one token in its frame) to {}", max.min(WIDTH_MAX));
    problems.push(
        Problem::new("data.width", format!("{width} does not fit samples prepared for rows of {max}")).hint(hint),
    );
    max.clamp(3, WIDTH_MAX)
}

/// Views of sentences need a folder that has them.
fn check_sentences(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let pack = &request.manifest.pack;
    for (name, view) in request.views.iter().filter(|(_, view)| view.needs_sentences() && !pack.keeps_sentences) {
        let message = format!("a `{}` is made of sentences, and the folder is packed as `{}`", view.kind(), pack.name);
        let hint = "prepare with `prepare.pack = \"sentences\"` into another folder, and name it in `data.folder`";
        problems.push(Problem::new(format!("views.{name}"), message).hint(hint).about("views", name));
    }
}

/// Views that go by counts need them before the first row.
fn check_counts(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    if request.data.order != RowOrder::Streamed {
        return;
    }
    for (name, view) in request.views {
        let Some(key) = view.needs_counts() else { continue };
        let message = "it goes by counts of the whole corpus, and a streamed run begins before they are known";
        let hint = "choose another, or set `data.order = \"shuffled\"`";
        problems.push(Problem::new(format!("views.{name}.{key}"), message).hint(hint).about("views", name));
    }
}

/// Positions within a row are stored as `i16`; so are those within two samples.
const WIDTH_MAX: u32 = 1 << 14;

/// Threads that no machine is too small to start, and batches that no trainer is too slow to see.
const LANES_MAX: u64 = 1024;
const DEPTH_MAX: u64 = 1024;

fn check_data(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let data = request.data;
    let counts = [
        ("data.copies", u64::from(data.copies), u64::from(u16::MAX)),
        ("data.shuffle_blocks", data.shuffle_blocks as u64, 1 << 20),
        ("data.lanes", data.lanes() as u64, LANES_MAX),
        ("data.depth", data.depth as u64, DEPTH_MAX),
    ];
    for (key, count, most) in counts {
        if count == 0 {
            problems.push(Problem::new(key, "0 is too few").hint("give 1 or more"));
        } else if count > most {
            problems.push(Problem::new(key, format!("{count} is too many")).hint(format!("give at most {most}")));
        }
    }
    if !(data.fraction > 0.0 && data.fraction <= 1.0) {
        let message = format!("{} is not a part of the data", data.fraction);
        problems.push(Problem::new("data.fraction", message).hint("give a number above 0, at most 1"));
    }
}
