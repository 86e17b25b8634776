//! Formatting of the sources of a mixture as text and JSON.

use pipeline::load::{LoadFacts, SourceFacts};
use pipeline::mixture::PERIOD;
use serde_json::{Value, json};
use telemetry::quantities::{bytes, count};

use super::Plan;

/// Describes the assignment of rows, and each source.
pub(super) fn lines(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let rows = PERIOD * facts.copies;
    let mut lines = vec![format!(
        "           assigned in periods of {} rows, exact in each; weights change at the begin of a period",
        count(rows)
    )];
    for source in &facts.sources {
        let data = plan.data.of_source(Some(&source.name));
        let folder = plan.config.sources[&source.name].folder.display();
        let share = shares(source);
        lines.push(if plan.data.is_expected() {
            format!("source     {}: {share}; {folder}", source.name)
        } else {
            let samples = count(source.samples);
            let tokens = count(source.tokens);
            format!("source     {}: {share}; {folder}, {samples} samples, {tokens} tokens", source.name)
        });
        lines.extend(data.growth().map(|growth| format!("           {growth}")));
    }
    lines
}

/// Formats the shares: `70.0 % of the rows, from row 1,000,000 on 30.0 %`
fn shares(source: &SourceFacts) -> String {
    let percent = |share: u64| format!("{:.1} %", 100.0 * share as f64 / PERIOD as f64);
    let spans = source.shares.iter().map(|&(row, share)| match row {
        0 => format!("{} of the rows", percent(share)),
        row => format!("from row {} on {}", count(row), percent(share)),
    });
    spans.collect::<Vec<_>>().join(", ")
}

/// Describes the shuffling of a corpus that is not prepared, so that its number of row groups is unknown.
pub(super) fn expected_order(window_groups: usize) -> String {
    format!(
        "rows are shuffled in windows of {} row groups; the number of row groups, and so the mixture error, is unknown \
         until the corpus is prepared",
        count(window_groups as u64)
    )
}

/// Describes the shuffling of each source, and its decoded row groups.
pub(super) fn order(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let of_source = |source: &SourceFacts| {
        let decoded =
            format!("at most {} row groups = {} decoded", source.groups_alive_max, bytes(source.groups_bytes));
        if plan.data.is_expected() {
            return format!("order      {}: {}; {decoded}", source.name, expected_order(source.window_blocks));
        }
        if source.resident {
            return format!("order      {}: all rows of an epoch are shuffled together; {decoded}", source.name);
        }
        format!(
            "order      {}: rows are shuffled in windows of {} of {} row groups, {} rows at least; mixture \
             error {:.1} %; {decoded}",
            source.name,
            count(source.window_blocks as u64),
            count(source.blocks),
            count(source.window_rows_min),
            100.0 * source.mixture_error,
        )
    };
    facts.sources.iter().map(of_source).collect()
}

/// Formats the epochs of each source: `1.2 of books, 0.4 of wiki`. `None` without a mixture.
pub(super) fn epochs(plan: &Plan) -> Option<String> {
    let epochs = super::warnings::epochs_by_source(plan);
    let sources: Vec<String> = epochs.iter().map(|(name, epochs)| format!("{epochs:.1} of {name}")).collect();
    (!sources.is_empty()).then(|| sources.join(", "))
}

/// Returns a JSON list with one object for each source.
pub(super) fn json(plan: &Plan, facts: &LoadFacts) -> Value {
    let known = |value: Value| if plan.data.is_expected() { Value::Null } else { value };
    let shares = |source: &SourceFacts| -> Vec<Value> {
        let share = |share: u64| share as f64 / PERIOD as f64;
        source.shares.iter().map(|&(row, of_period)| json!({ "from_row": row, "share": share(of_period) })).collect()
    };
    let object = |source: &SourceFacts| {
        json!({
            "name": source.name,
            "folder": plan.config.sources[&source.name].folder,
            "shares": shares(source),
            "dataset_version": known(json!(plan.data.of_source(Some(&source.name)).dataset_version)),
            "samples": known(json!(source.samples)),
            "tokens": known(json!(source.tokens)),
            "rows_per_epoch": known(json!(source.rows_per_epoch)),
            "window_row_groups": source.window_blocks,
            "mixture_error": known(json!(source.mixture_error)),
            "row_groups_alive_max": source.groups_alive_max,
            "row_groups_bytes": source.groups_bytes,
        })
    };
    facts.sources.iter().map(object).collect()
}
