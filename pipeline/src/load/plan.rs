//! Conversion of a configuration to a [`LoadPlan`], or to all of its problems.

use std::sync::Arc;

use runtime::PoolOptions;
use schemas::Problem;

use super::folders::{apportion_rows, check_agreement, check_rows};
use super::request::{LoadRequest, Rows};
use super::source::Source;
use super::views::{assign_columns, order, prune};
use super::windows::limit_to_windows;
use super::{LoadPlan, RowOrder};
use crate::mixture::SourceAssignment;
use crate::shard::reader::ShardExpectation;

impl LoadPlan {
    /// Checks a request against the manifest.
    ///
    /// # Errors
    /// All problems of the request.
    pub fn new(request: &LoadRequest<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut folders = request.folders();
        check_rows(request, &folders, &mut problems);
        check_agreement(&folders, &mut problems);
        let mixture = request.mixture().unwrap_or_else(|found| {
            problems.extend(found);
            None
        });
        let width = check_width(request, &mut problems);
        check_data(request, &mut problems);
        check_sentences(request, &mut problems);
        check_targets(request, &mut problems);
        check_counts(request, &mut problems);
        let mut views = order(request.views, width, &mut problems);
        assign_columns(&mut views, request.wanted, request.views, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        // A view that is read neither directly nor through another view is not rendered.
        let views = prune(views);
        let promise = ShardExpectation::from_manifest(request.manifest);
        let cuts = request.manifest.pack.cuts;
        let piece_tokens = if cuts { width - 2 } else { promise.content_max };
        let pieces = (promise.content_max / piece_tokens).max(1);
        let (assignment, end) = match (request.rows, mixture) {
            (Rows::Train, None) => (SourceAssignment::SingleSource, None),
            (Rows::Train, Some(mixture)) => (SourceAssignment::Mixed(mixture), None),
            (Rows::Valid { rows }, mixture) => {
                let counts = apportion_rows(rows, &mut folders, mixture.as_ref(), pieces);
                let end = Some(counts.iter().sum());
                (mixture.map_or(SourceAssignment::SingleSource, |_| SourceAssignment::InTurn(counts)), end)
            }
        };
        let sources: Vec<Source> = (0..)
            .zip(folders)
            .map(|(index, folder)| folder.into_source(request, pieces, &|rows| assignment.at_most(index, rows)))
            .collect::<Result<_, _>>()
            .map_err(|problem| vec![problem])?;
        // Workers of both splits may run at the same time: statistics need distinct names.
        let name = if matches!(request.rows, Rows::Train) { "batch" } else { "valid" };
        let workers = PoolOptions {
            name,
            item: "batch",
            workers: request.data.workers(),
            queue_depth: request.data.prefetch_batches,
        };
        let workers = limit_to_windows(workers, &sources, &assignment, request.rows_per_batch);
        let plan = Self {
            expectation: promise,
            vocab: Arc::clone(&request.vocab),
            pairs: views.iter().any(|view| view.view.samples() > 1),
            views,
            sources,
            assignment,
            copies: request.copies(),
            pieces,
            piece_tokens: piece_tokens as usize,
            rows_per_batch: request.rows_per_batch,
            end,
            workers,
            shuffle_window_groups: request.data.shuffle_window_groups,
            max_memory_bytes: request.data.max_memory_bytes,
            max_bad_rows: request.data.max_bad_rows,
        };
        plan.checked().map_err(|problem| vec![problem])
    }
}

/// Returns the width of the frame. If the configured width is invalid, returns a valid one, so that checks can
/// continue.
fn check_width(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) -> u32 {
    let max = request.manifest.max_seq_len;
    let width = request.data.seq_len.unwrap_or(max);
    let pack = &request.manifest.pack;
    if !pack.cuts && width < max {
        let message =
            format!("rows of {width} are pieces of samples for rows of {max}, but `{}` allows no cuts", pack.name);
        let hint = format!("remove it, or prepare with `prepare.max_seq_len = {width}` into another folder");
        problems.push(Problem::new("data.seq_len", message).hint(hint));
        return max.clamp(3, WIDTH_MAX);
    }
    if (3..=max.min(WIDTH_MAX)).contains(&width) {
        return width;
    }
    let hint = format!("give a width from 3 (one token in its frame) to {}", max.min(WIDTH_MAX));
    problems.push(
        Problem::new("data.seq_len", format!("{width} does not fit samples prepared for rows of {max}")).hint(hint),
    );
    max.clamp(3, WIDTH_MAX)
}

/// Checks that a folder has sentences if views need them.
fn check_sentences(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let pack = &request.manifest.pack;
    for (name, view) in request.views.iter().filter(|(_, view)| view.needs_sentences() && !pack.keeps_sentences) {
        let message = format!("a `{}` view needs sentences, but the folder is packed as `{}`", view.kind(), pack.name);
        let hint = "prepare with `prepare.packing = \"sentences\"` into another folder, and name it in `data.folder`";
        problems.push(Problem::new(format!("views.{name}"), message).hint(hint).about("views", name));
    }
}

/// Checks that a folder has labelled examples if views need them.
fn check_targets(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let pack = &request.manifest.pack;
    for (name, view) in request.views.iter().filter(|(_, view)| view.needs_targets() && !pack.has_targets) {
        let message = format!("a `{}` view needs labelled examples, and the folder has none", view.kind());
        let hint = "prepare a task with `[task]`, and name its folder in `data.folder`";
        problems.push(Problem::new(format!("views.{name}"), message).hint(hint).about("views", name));
    }
}

/// Checks that token counts are known before the first row if views need them.
fn check_counts(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    if request.data.order != RowOrder::Streamed {
        return;
    }
    for (name, view) in request.views {
        let Some(key) = view.needs_counts() else { continue };
        let message = "it needs token counts of the whole corpus, which a streamed run does not have at its start";
        let hint = "choose another, or set `data.order = \"shuffled\"`";
        problems.push(Problem::new(format!("views.{name}.{key}"), message).hint(hint).about("views", name));
    }
}

/// Maximum width: positions within a row, and within two samples, are stored as `i16`.
const WIDTH_MAX: u32 = 1 << 14;

/// Upper limits that every machine and trainer can handle.
const WORKERS_MAX: u64 = 1024;
const DEPTH_MAX: u64 = 1024;

fn check_data(request: &LoadRequest<'_>, problems: &mut Vec<Problem>) {
    let data = request.data;
    let counts = [
        ("data.copies_per_sample", u64::from(data.copies_per_sample), u64::from(u16::MAX)),
        ("data.shuffle_window_groups", data.shuffle_window_groups as u64, 1 << 20),
        ("data.workers", data.workers() as u64, WORKERS_MAX),
        ("data.prefetch_batches", data.prefetch_batches as u64, DEPTH_MAX),
    ];
    for (key, count, most) in counts {
        if count == 0 {
            problems.push(Problem::new(key, "0 is too few").hint("give 1 or more"));
        } else if count > most {
            problems.push(Problem::new(key, format!("{count} is too many")).hint(format!("give at most {most}")));
        }
    }
    if !(data.fraction > 0.0 && data.fraction <= 1.0) {
        let message = format!("{} is not a valid fraction of the data", data.fraction);
        problems.push(Problem::new("data.fraction", message).hint("give a number above 0, at most 1"));
    }
}
