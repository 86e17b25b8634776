//! Checks of the training configuration that need no data. All problems are reported at once.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::collate;
use pipeline::views::{AnyView, ORIGINAL};
use schemas::ColumnSpec;
use trainer_plan::networks::{AnyNetwork, MAIN, find_output_view};
use trainer_plan::objectives::AnyObjective;
use trainer_plan::requirements::VALID_MLM;
use trainer_plan::requirements::columns_read;

use crate::config::{Mistake, Parsed, did_you_mean};

/// Whether the view of that name makes a column: one that it adds, one that every frame has, or one of its frame that
/// edits keep.
pub(super) fn makes(views: &BTreeMap<String, AnyView>, name: &str, column: ColumnSpec) -> bool {
    let Some(view) = view(views, name) else { return false };
    // A cyclic chain is reported elsewhere; the columns of the view itself are still known.
    let frame = frame(views, name).and_then(|frame| self::view(views, &frame));
    collate::columns(&view, frame.as_ref().unwrap_or(&view)).contains(&column)
}

/// Returns the name of the frame that a view starts from. `None` if the chain is cyclic or broken, which is reported
/// elsewhere.
fn frame(views: &BTreeMap<String, AnyView>, name: &str) -> Option<String> {
    let mut name = name.to_owned();
    // A chain of edits is at most as long as the number of views.
    for _ in 0..=views.len() {
        match view(views, &name)?.of() {
            Some(of) => name.clone_from(of),
            None => return Some(name),
        }
    }
    None
}

/// Returns the view of that name. `original` need not be configured.
fn view(views: &BTreeMap<String, AnyView>, name: &str) -> Option<AnyView> {
    views.get(name).cloned().or_else(|| (name == ORIGINAL).then(original))
}

/// Checks the inputs of objectives and networks, and the batch size against the number of copies.
pub(super) fn training(parsed: &mut Parsed) {
    let mut found = Vec::new();
    for (name, objective) in &parsed.config.training.objectives {
        found.extend(objective_reads(parsed, name, objective));
    }
    let copies = u64::from(parsed.config.data.copies_per_sample);
    let rows = parsed.config.training.train.global_batch_size;
    if copies > 0 && !rows.is_multiple_of(copies) {
        let message = format!("the global batch size {rows} is not a multiple of {copies} copies");
        found.push(
            parsed.source.mistake("data.copies_per_sample", message).hint("all copies of a sample must be in one step"),
        );
    }
    for (name, objective) in &parsed.config.training.objectives {
        if copies > 1 && objective.contrasted_rows().is_some() && parsed.config.training.loss.contains_key(name) {
            let message = format!("objective `{name}` would contrast a row with its own copies");
            let problem = parsed.source.mistake("data.copies_per_sample", message);
            found.push(problem.hint("set `data.copies_per_sample = 1`, or leave the objective out of `[loss]`"));
        }
    }
    found.extend(parsed.config.training.networks.iter().filter_map(|(name, network)| made_view(parsed, name, network)));
    parsed.problems.0.extend(found);
}

/// Returns a mistake if the output view of a generator exists already.
fn made_view(parsed: &Parsed, name: &str, network: &AnyNetwork) -> Option<Mistake> {
    let made = network.output_view()?.view;
    let is_taken = is_view(&parsed.names("views"), made) || made == VALID_MLM;
    let message = format!("`{made}` is a view of the data; set another `output_view` for network `{name}`");
    is_taken.then(|| parsed.source.mistake(&format!("networks.{name}.output_view"), message))
}

fn objective_reads(parsed: &Parsed, name: &str, objective: &AnyObjective) -> Vec<Mistake> {
    let place = format!("objectives.{name}");
    let networks = &parsed.config.training.networks;
    let mut found = Vec::new();
    for pass in objective.reads().passes {
        let known = pass.network == MAIN || networks.contains_key(&pass.network);
        if !known && !parsed.is_broken("networks", &pass.network) {
            let message = format!("objective `{name}` reads network `{}`, which does not exist", pass.network);
            let hint =
                format!("add `[networks.{}]` with its `kind`, one of {}", pass.network, AnyNetwork::KINDS.join(", "));
            found.push(parsed.source.mistake(&place, message).hint(hint));
        } else if let Some(message) =
            objective.refusal(&pass.network, networks.get(&pass.network).map(|network| &**network))
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
    if let Some((window, taken)) = objective.window_reach() {
        let reach = view(views, &window).and_then(|view| view.window_reach()).filter(|&reach| reach != taken);
        found.extend(reach.map(|reach| {
            let message = format!("`max_offset` is {taken}, but positives of `{window}` are up to {reach} tokens away");
            parsed
                .source
                .mistake(&format!("{place}.max_offset"), message)
                .hint("set `max_offset` to the same reach, so that negatives match positives")
        }));
    }
    found
}

/// Returns a mistake if two views of an objective that must have the same tokens have different frames.
fn not_aligned(parsed: &Parsed, objective: &str, pair: &[String; 2]) -> Option<Mistake> {
    let networks = &parsed.config.training.networks;
    let frames = pair.each_ref().map(|name| {
        frame(&parsed.config.views, find_output_view(networks.values(), name).map_or(name, |made| made.input_view))
    });
    let [Some(one), Some(other)] = frames else { return None };
    let message = format!(
        "objective `{objective}` takes `{}` and `{}` for the same tokens, but they are of `{one}` and `{other}`",
        pair[0], pair[1]
    );
    (one != other).then(|| parsed.source.mistake(&format!("objectives.{objective}"), message))
}

/// Mistake of an objective that reads a view which does not exist.
fn no_view(parsed: &Parsed, objective: &str, view: &str) -> Mistake {
    let networks = parsed.config.training.networks.values();
    let made: Vec<&str> = networks.filter_map(|network| network.output_view()).map(|made| made.view).collect();
    let views: Vec<&str> = parsed.names("views").into_iter().chain(made).collect();
    let message = format!("objective `{objective}` reads view `{view}`, which does not exist");
    let near = did_you_mean(view, views.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    let hint = near.unwrap_or_else(|| format!("the views are {}", views.join(", ")));
    parsed.source.mistake(&format!("objectives.{objective}"), message).hint(hint)
}

/// Mistake of an objective that reads a column which its view does not make.
fn lacks(parsed: &Parsed, objective: &str, name: &str, column: ColumnSpec) -> Mistake {
    let message =
        format!("objective `{objective}` reads column `{}` of view `{name}`, which it does not make", column.name);
    let problem = parsed.source.mistake(&format!("objectives.{objective}"), message);
    match view(&parsed.config.views, name) {
        Some(view) => problem.hint(makers(name, &view, column)),
        None => problem,
    }
}

/// Frame that exists without configuration.
pub(super) fn original() -> AnyView {
    AnyView::of_kind(ORIGINAL).expect("`original` is registered")
}

fn is_view(views: &[&str], name: &str) -> bool {
    name == ORIGINAL || views.contains(&name)
}

/// Returns a hint: `` `neighbors` is a `mask` view; `window` views make `positives` ``
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
