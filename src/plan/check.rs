//! Everything that can be wrong with a training configuration before its data is opened, all of it at once.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::collate;
use pipeline::views::{AnyView, ORIGINAL};
use schemas::ColumnSpec;
use trainer_plan::networks::{AnyNetwork, MAIN, made};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::requirements::VALID_MLM;
use trainer_plan::requirements::columns_read;

use crate::config::{Mistake, Parsed, did_you_mean};

/// Whether the view of that name makes a column: one of its own, one that comes with every frame, or one that its frame
/// makes and that edits keep.
pub(super) fn makes(views: &BTreeMap<String, AnyView>, name: &str, column: ColumnSpec) -> bool {
    let Some(view) = view(views, name) else { return false };
    // A chain without an end is another problem; what the view makes itself is still known.
    let frame = frame(views, name).and_then(|frame| self::view(views, &frame));
    collate::columns(&view, frame.as_ref().unwrap_or(&view)).contains(&column)
}

/// The name of the frame that a view starts from; `None` where the chain ends nowhere or in a circle, another problem.
fn frame(views: &BTreeMap<String, AnyView>, name: &str) -> Option<String> {
    let mut name = name.to_owned();
    // No chain of edits is longer than there are views.
    for _ in 0..=views.len() {
        match view(views, &name)?.of() {
            Some(of) => name.clone_from(of),
            None => return Some(name),
        }
    }
    None
}

/// The view of that name; `original` need not be configured.
fn view(views: &BTreeMap<String, AnyView>, name: &str) -> Option<AnyView> {
    views.get(name).cloned().or_else(|| (name == ORIGINAL).then(original))
}

/// Checks what objectives read, and rows against copies; what is found goes to the other problems.
pub(super) fn training(parsed: &mut Parsed) {
    let mut found = Vec::new();
    for (name, objective) in &parsed.config.training.objectives {
        found.extend(objective_reads(parsed, name, objective));
    }
    let (copies, rows) =
        (u64::from(parsed.config.data.copies_per_sample), parsed.config.training.train.global_batch_size);
    if copies > 0 && !rows.is_multiple_of(copies) {
        let message = format!("{rows} rows a step do not hold whole groups of {copies} copies");
        found.push(
            parsed.source.mistake("data.copies_per_sample", message).hint("all copies of a sample land in one step"),
        );
    }
    for (name, objective) in &parsed.config.training.objectives {
        if copies > 1 && objective.batch_coupled() && parsed.config.training.loss.contains_key(name) {
            let message = format!("objective `{name}` would contrast a row with its own copies");
            let problem = parsed.source.mistake("data.copies_per_sample", message);
            found.push(problem.hint("set `data.copies_per_sample = 1`, or leave the objective out of `[loss]`"));
        }
    }
    found.extend(parsed.config.training.networks.iter().filter_map(|(name, network)| made_view(parsed, name, network)));
    parsed.problems.0.extend(found);
}

/// A generator whose view is there already.
fn made_view(parsed: &Parsed, name: &str, network: &AnyNetwork) -> Option<Mistake> {
    let made = network.makes()?.view;
    let is_taken = is_view(&parsed.names("views"), made) || made == VALID_MLM;
    let message = format!("`{made}` is a view of the data; name what network `{name}` makes otherwise");
    is_taken.then(|| parsed.source.mistake(&format!("networks.{name}.output_view"), message))
}

fn objective_reads(parsed: &Parsed, name: &str, objective: &AnyObjective) -> Vec<Mistake> {
    let place = format!("objectives.{name}");
    let networks = &parsed.config.training.networks;
    let mut found = Vec::new();
    for pass in objective.reads().passes {
        let known = pass.network == MAIN || networks.contains_key(&pass.network);
        if !known && !parsed.is_broken("networks", &pass.network) {
            let message = format!("objective `{name}` reads network `{}`, which is not there", pass.network);
            let hint =
                format!("add `[networks.{}]` with its `kind`, one of {}", pass.network, AnyNetwork::KINDS.join(", "));
            found.push(parsed.source.mistake(&place, message).hint(hint));
        } else if let Some(message) =
            objective.refuses(&pass.network, networks.get(&pass.network).map(|network| &**network))
        {
            found.push(parsed.source.mistake(&place, message));
        }
    }
    let read = columns_read(&parsed.config.training.encoder, networks, objective);
    let views = &parsed.config.views;
    let mut missing = BTreeSet::new();
    for (view, column) in &read.needed {
        if is_view(&parsed.names("views"), view) {
            let makes = makes(views, view, *column) || parsed.is_broken("views", view);
            found.extend((!makes).then(|| lacks(parsed, name, view, *column)));
        } else if missing.insert(view) {
            found.push(no_view(parsed, name, view));
        }
    }
    found.extend(objective.aligned().and_then(|pair| not_aligned(parsed, name, &pair)));
    if let Some((window, taken)) = objective.reach() {
        let reach = view(views, &window).and_then(|view| view.reach()).filter(|&reach| reach != taken);
        found.extend(reach.map(|reach| {
            let message = format!("`max_offset` is {taken}, but positives of `{window}` lie up to {reach} away");
            parsed
                .source
                .mistake(&format!("{place}.max_offset"), message)
                .hint("negatives match only at the same reach")
        }));
    }
    found
}

/// Two views that an objective takes for the same tokens, of two frames.
fn not_aligned(parsed: &Parsed, objective: &str, pair: &[String; 2]) -> Option<Mistake> {
    let networks = &parsed.config.training.networks;
    let frames = pair
        .each_ref()
        .map(|name| frame(&parsed.config.views, made(networks.values(), name).map_or(name, |made| made.fills)));
    let [Some(one), Some(other)] = frames else { return None };
    let message = format!(
        "objective `{objective}` takes `{}` and `{}` for the same tokens, but they are of `{one}` and `{other}`",
        pair[0], pair[1]
    );
    (one != other).then(|| parsed.source.mistake(&format!("objectives.{objective}"), message))
}

/// An objective's view is not there.
fn no_view(parsed: &Parsed, objective: &str, view: &str) -> Mistake {
    let networks = parsed.config.training.networks.values();
    let made: Vec<&str> = networks.filter_map(|network| network.makes()).map(|made| made.view).collect();
    let views: Vec<&str> = parsed.names("views").into_iter().chain(made).collect();
    let message = format!("objective `{objective}` reads view `{view}`, which is not there");
    let near = did_you_mean(view, views.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    let hint = near.unwrap_or_else(|| format!("the views are {}", views.join(", ")));
    parsed.source.mistake(&format!("objectives.{objective}"), message).hint(hint)
}

/// An objective's view is there, but not the column.
fn lacks(parsed: &Parsed, objective: &str, name: &str, column: ColumnSpec) -> Mistake {
    let message =
        format!("objective `{objective}` reads column `{}` of view `{name}`, which it does not make", column.name);
    let problem = parsed.source.mistake(&format!("objectives.{objective}"), message);
    match view(&parsed.config.views, name) {
        Some(view) => problem.hint(makers(name, &view, column)),
        None => problem,
    }
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
    let own = examples.iter().filter(|kind| kind.columns().contains(&column));
    let kinds: Vec<String> = own.map(|kind| format!("`{}`", kind.kind())).collect();
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
