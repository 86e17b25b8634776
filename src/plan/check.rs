//! Everything that can be wrong with a training configuration before its data is opened, all of it at once.

use std::collections::BTreeSet;

use pipeline::views::{AnyView, ORIGINAL};
use schemas::ColumnSpec;
use schemas::columns::{ATTENTION_MASK, DOCUMENT, INPUT_IDS, ORIGIN};
use trainer::objectives::AnyObjective;

use crate::config::{Parsed, Problem, did_you_mean};

/// Whether a view makes a column: one of its own, or one that comes with every frame.
pub(super) fn makes(view: &AnyView, column: ColumnSpec) -> bool {
    let of_frames = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), ORIGIN.spec(), DOCUMENT.spec()];
    of_frames.contains(&column) || view.columns().contains(&column)
}

/// Checks what objectives read, and rows against copies; what is found goes to the other problems.
pub(super) fn training(parsed: &mut Parsed) {
    let mut found = Vec::new();
    for (name, objective) in &parsed.config.training.objectives {
        found.extend(objective_reads(parsed, name, objective));
    }
    let (copies, rows) = (u64::from(parsed.config.data.copies), parsed.config.training.train.rows_per_step);
    if copies > 0 && !rows.is_multiple_of(copies) {
        let message = format!("{rows} rows a step do not hold whole groups of {copies} copies");
        found.push(parsed.source.problem("data.copies", message).hint("all copies of a sample land in one step"));
    }
    parsed.problems.0.extend(found);
}

fn objective_reads(parsed: &Parsed, name: &str, objective: &AnyObjective) -> Vec<Problem> {
    let place = format!("objectives.{name}");
    let reads = objective.reads();
    let mut found = Vec::new();
    let mut missing = BTreeSet::new();
    let views: Vec<&str> = parsed.names("views");
    for view in reads.passes.iter().map(|pass| &pass.view).chain(reads.columns.iter().map(|(view, _)| view)) {
        if !is_view(&views, view) && missing.insert(view.clone()) {
            let message = format!("objective `{name}` reads view `{view}`, which is not there");
            let near = did_you_mean(view, views.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let hint = near.unwrap_or_else(|| format!("the views are {}", views.join(", ")));
            found.push(parsed.source.problem(&place, message).hint(hint));
        }
    }
    for (view, column) in &reads.columns {
        let of = parsed.config.views.get(view).cloned();
        let of = of.or_else(|| (view == ORIGINAL).then(original));
        if let Some(of) = of.filter(|of| !makes(of, *column)) {
            let message =
                format!("objective `{name}` reads column `{}` of view `{view}`, which it does not make", column.name);
            found.push(parsed.source.problem(&place, message).hint(makers(view, &of, *column)));
        }
    }
    found
}

/// The frame that is there without being configured.
pub(super) fn original() -> AnyView {
    AnyView::of_kind(ORIGINAL).expect("`original` is registered")
}

fn is_view(views: &[&str], name: &str) -> bool {
    name == ORIGINAL || views.contains(&name)
}

/// `` `neighbors` is a `mask` view; `window` views make `positives` ``
fn makers(name: &str, view: &AnyView, column: ColumnSpec) -> String {
    let examples = AnyView::examples();
    let kinds: Vec<String> =
        examples.iter().filter(|kind| makes(kind, column)).map(|kind| format!("`{}`", kind.kind())).collect();
    format!(
        "`{name}` is {} `{}` view; {} views make `{}`",
        article(view.kind()),
        view.kind(),
        kinds.join(", "),
        column.name
    )
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
