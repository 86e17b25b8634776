//! What a run asks of the loader: which columns of which views, as a stream of which rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::load::{LoadPlan, LoadRequest, Rows, SourceRequest};
use pipeline::views::AnyView;
use schemas::ColumnSpec;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS};

use super::check;
use crate::config::{Config, Parsed};
use crate::run::data::PreparedData;

/// Columns of views.
pub(super) type Wanted = BTreeSet<(String, ColumnSpec)>;

/// All columns of a view that say something of their own.
pub(super) fn columns(name: &str, view: &AnyView) -> Vec<(String, ColumnSpec)> {
    let mut columns = vec![ATTENTION_MASK.spec()];
    columns.extend(view.columns());
    if view.of().is_none() {
        columns.push(INPUT_IDS.spec());
    }
    columns.into_iter().map(|column| (name.to_owned(), column)).collect()
}

/// What the objectives of the loss read.
pub(super) fn wanted(config: &Config) -> Wanted {
    let training = &config.training;
    let in_loss = training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let read = in_loss.map(|(_, objective)| {
        trainer_plan::requirements::columns_read(&training.encoder, &training.networks, objective)
    });
    let mut wanted: Wanted = read.flat_map(|read| read.needed.into_iter().chain(read.taken)).collect();
    // A view or column that is needed and not there was reported with the objective that reads it.
    wanted.retain(|(view, column)| check::makes(&config.views, view, *column));
    wanted
}

/// Without a trainer, everything.
/// What a stream of `rows` of these sources is asked for.
pub(super) fn request<'a>(
    config: &'a Config,
    data: &'a PreparedData,
    sources: &'a [SourceRequest<'a>],
    rows: Rows,
    (views, wanted): (&'a BTreeMap<String, AnyView>, &'a Wanted),
) -> LoadRequest<'a> {
    LoadRequest {
        store: &data.store,
        manifest: &data.manifest,
        dataset_version: data.dataset_version,
        follow: data.followed(rows),
        growth: data.comes(rows),
        sources,
        vocab: Arc::clone(&data.vocab),
        rows,
        gone: data.missing_parts(rows),
        data: &config.data,
        views,
        wanted,
        seed: config.seed,
        rows_per_batch: config.micro_batch_size(),
    }
}

/// A load plan, or its problems among the others.
pub(super) fn checked(
    parsed: &mut Parsed,
    data: &PreparedData,
    rows: Rows,
    views: &BTreeMap<String, AnyView>,
    wanted: &Wanted,
) -> Option<LoadPlan> {
    let sources = data.sources(rows);
    let found = match LoadPlan::new(&request(&parsed.config, data, &sources, rows, (views, wanted))) {
        Ok(plan) => return Some(plan),
        Err(found) => found,
    };
    parsed.report(found);
    None
}
