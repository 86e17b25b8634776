//! Requests of a run to the loader: columns of views, for a stream of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pipeline::load::{LoadPlan, LoadRequest, Rows, SourceRequest};
use pipeline::views::AnyView;
use schemas::ColumnSpec;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS};

use super::check;
use crate::config::{Config, Parsed};
use crate::run::data::PreparedData;

/// Columns by the name of their view.
pub(super) type WantedColumns = BTreeSet<(String, ColumnSpec)>;

/// Returns the columns of a view for display.
pub(super) fn columns(name: &str, view: &AnyView) -> Vec<(String, ColumnSpec)> {
    let mut columns = vec![ATTENTION_MASK.spec()];
    columns.extend(view.columns());
    if view.of().is_none() {
        columns.push(INPUT_IDS.spec());
    }
    columns.into_iter().map(|column| (name.to_owned(), column)).collect()
}

/// Returns the columns that the objectives of the loss read.
pub(super) fn wanted(config: &Config) -> WantedColumns {
    let training = &config.training;
    let in_loss = training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let read = in_loss.map(|(_, objective)| {
        trainer_plan::requirements::columns_read(&training.encoder, &training.networks, objective)
    });
    let mut wanted: WantedColumns = read.flat_map(|read| read.needed.into_iter().chain(read.taken)).collect();
    // A missing view or column was reported with the objective that reads it.
    wanted.retain(|(view, column)| check::makes(&config.views, view, *column));
    wanted
}

/// Builds the request for a stream of `rows` of these sources.
pub(super) fn request<'a>(
    config: &'a Config,
    data: &'a PreparedData,
    sources: &'a [SourceRequest<'a>],
    rows: Rows,
    (views, wanted): (&'a BTreeMap<String, AnyView>, &'a WantedColumns),
) -> LoadRequest<'a> {
    LoadRequest {
        store: &data.store,
        manifest: &data.manifest,
        dataset_version: data.dataset_version,
        epoch_versions: data.followed(rows),
        segment_source: data.segment_source(rows),
        sources,
        vocab: Arc::clone(&data.vocab),
        rows,
        missing_parts: data.missing_parts(rows),
        data: &config.data,
        views,
        wanted,
        cache: config.data.shard_cache(),
        seed: config.seed,
        rows_per_batch: config.micro_batch_size(),
    }
}

/// Returns a load plan, or adds its problems to the others.
pub(super) fn checked(
    parsed: &mut Parsed,
    data: &PreparedData,
    rows: Rows,
    views: &BTreeMap<String, AnyView>,
    wanted: &WantedColumns,
) -> Option<LoadPlan> {
    let sources = data.sources(rows);
    let found = match LoadPlan::new(&request(&parsed.config, data, &sources, rows, (views, wanted))) {
        Ok(plan) => return Some(plan),
        Err(found) => found,
    };
    parsed.report(found);
    None
}
