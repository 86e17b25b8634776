//! Views of a plan: selection, order and columns.

use std::collections::{BTreeMap, BTreeSet};

use schemas::columns::INPUT_IDS;
use schemas::{ColumnSpec, Problem};

use crate::collate::{self, PlannedView};
use crate::views::{AnyView, ORIGINAL, ViewName};

/// Orders the views so that each comes after the one it edits. Omits views of a cycle or of an unknown view and reports
/// a problem for each.
pub(super) fn order(views: &BTreeMap<ViewName, AnyView>, width: u32, problems: &mut Vec<Problem>) -> Vec<PlannedView> {
    let mut left = views.clone();
    left.entry(ORIGINAL.to_owned()).or_insert_with(|| AnyView::of_kind(ORIGINAL).expect("`original` is registered"));
    let names: Vec<ViewName> = left.keys().cloned().collect();
    for (name, view) in &left {
        for (key, message) in view.problems() {
            let hint = format!("see the `{}` view", view.kind());
            problems.push(Problem::new(format!("views.{name}.{key}"), message).hint(hint).about("views", name));
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
        let key = format!("views.{name}.of");
        let found = match end(&left, name, of) {
            End::Itself => Problem::new(key, format!("`{of}` is, directly or indirectly, an edit of `{name}` itself"))
                .hint("name a view that does not depend on it"),
            End::Nowhere => Problem::new(key, format!("there is no view `{of}`")).hint(format!("there are `{known}`")),
            // This problem follows from another view's problem, which is reported.
            End::OfAnother => continue,
        };
        problems.push(found.about("views", name).about("views", of));
    }
    ordered
}

/// End of the chain of edited views, among views that could not be ordered.
enum End {
    /// The chain returns to the view.
    Itself,
    /// The view edits an unknown view.
    Nowhere,
    /// The chain leads to a view with another problem.
    OfAnother,
}

fn end(left: &BTreeMap<ViewName, AnyView>, name: &ViewName, of: &ViewName) -> End {
    if !left.contains_key(of) {
        return End::Nowhere;
    }
    let mut at = of;
    for _ in 0..left.len() {
        match left.get(at).and_then(|view| view.of()) {
            _ if at == name => return End::Itself,
            Some(of) => at = of,
            None => return End::OfAnother,
        }
    }
    End::OfAnother
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

/// Assigns the columns that are read to each view.
pub(super) fn assign_columns(
    views: &mut [PlannedView],
    wanted: &BTreeSet<(ViewName, ColumnSpec)>,
    configured: &BTreeMap<ViewName, AnyView>,
    problems: &mut Vec<Problem>,
) {
    for (name, column) in wanted {
        let makers: Vec<&str> = views
            .iter()
            .filter(|view| columns_of(views, view).contains(column))
            .map(|view| view.name.as_str())
            .collect();
        let makers = if makers.is_empty() {
            "no view of this configuration makes it".into()
        } else {
            format!("`{}` has it", makers.join("`, `"))
        };
        match views.iter().position(|view| view.name == *name) {
            Some(place) if columns_of(views, &views[place]).contains(column) => views[place].wanted.push(*column),
            Some(place) => {
                let view = &views[place];
                let message =
                    format!("column `{}` is read, which a `{}` view does not make", column.name, view.view.kind());
                problems.push(Problem::new(format!("views.{name}"), message).hint(makers).about("views", name));
            }
            // The problem of a view that could not be ordered, or of a view in its chain, is already reported.
            None if configured.contains_key(name) => {}
            None => {
                let message = format!("column `{}` of a view `{name}` is read, and there is no such view", column.name);
                problems.push(Problem::new(format!("views.{name}"), message).hint(makers).about("views", name));
            }
        }
    }
}

/// Removes views that are read neither directly nor through another view, and renumbers the rest.
pub(super) fn prune(views: Vec<PlannedView>) -> Vec<PlannedView> {
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
