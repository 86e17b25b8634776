//! Charts of the results of an analysis.

use std::collections::BTreeMap;

use analysis::{ChartSpec, FindingRow, FindingTable};
use report::heat_map::{self, HeatMap};
use report::line_chart::{self, Curve};

use super::findings::ModelFindings;

/// Chart as an SVG file.
pub(super) struct Chart {
    pub(super) svg: String,
}

/// Returns the charts of all tables that the results have points for.
pub(super) fn charts(found: &[ModelFindings]) -> Vec<Chart> {
    let first = found.first().map_or(&[][..], |findings| &findings.tables);
    first.iter().flat_map(|table| table.charts.iter().flat_map(|chart| drawn(table, *chart, found))).collect()
}

fn drawn(table: &FindingTable, chart: ChartSpec, found: &[ModelFindings]) -> Vec<Chart> {
    match chart {
        ChartSpec::OverSteps(value) => over_steps(table, value, found).into_iter().collect(),
        ChartSpec::OverKey { key, value } => over_key(table, key, value, found).into_iter().collect(),
        ChartSpec::HeatMap { row, column, value } => heat_maps(table, (row, column), value, found),
    }
}

/// Rows of a table for one checkpoint.
fn rows<'a>(table: &FindingTable, findings: &'a ModelFindings) -> impl Iterator<Item = &'a FindingRow> {
    let name = table.name;
    findings.tables.iter().filter(move |own| own.name == name).flat_map(|own| &own.rows)
}

/// Returns the name of a curve: the model if there are several, and the keys.
fn curve_name(model: &str, keys: &[&str], has_models: bool) -> String {
    let model = if has_models || keys.is_empty() { Some(model) } else { None };
    model.into_iter().chain(keys.iter().copied()).collect::<Vec<_>>().join(" ")
}

fn has_models(found: &[ModelFindings]) -> bool {
    found.iter().any(|findings| findings.model != found[0].model)
}

fn column(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).expect("charts show columns of their table")
}

/// Returns a chart with a curve for each model and row. `None` if no model has two steps.
fn over_steps(table: &FindingTable, value: &str, found: &[ModelFindings]) -> Option<Chart> {
    let at = column(table.values, value);
    let mut curves: Vec<Curve> = Vec::new();
    for findings in found {
        let Some(step) = findings.step else { continue };
        for row in rows(table, findings) {
            let keys: Vec<&str> = row.keys.iter().map(String::as_str).collect();
            let name = curve_name(&findings.model, &keys, has_models(found));
            let point = (step as f64, row.values[at]);
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve { name, points: vec![point] }),
            }
        }
    }
    let title = format!("{}: {value}", table.name);
    let has_curve = curves.iter().any(|curve| curve.points.len() > 1);
    has_curve.then(|| Chart { svg: line_chart::svg_over("step", &title, &curves) })
}

/// Returns the results of the last step of each model.
fn last_steps(found: &[ModelFindings]) -> Vec<&ModelFindings> {
    let mut last: BTreeMap<&str, &ModelFindings> = BTreeMap::new();
    for findings in found {
        let known = last.entry(&findings.model).or_insert(findings);
        if findings.step >= known.step {
            *known = findings;
        }
    }
    let is_last = |findings: &&ModelFindings| std::ptr::eq(last[findings.model.as_str()], *findings);
    found.iter().filter(is_last).collect()
}

/// Returns a chart with a curve for each model and each combination of the other keys. `None` without two points.
fn over_key(table: &FindingTable, key: &str, value: &str, found: &[ModelFindings]) -> Option<Chart> {
    let key_at = column(table.keys, key);
    let value_at = column(table.values, value);
    let mut curves: Vec<Curve> = Vec::new();
    for findings in last_steps(found) {
        for row in rows(table, findings) {
            let Ok(x) = row.keys[key_at].parse::<f64>() else { continue };
            let others: Vec<&str> =
                row.keys.iter().enumerate().filter(|(at, _)| *at != key_at).map(|(_, key)| key.as_str()).collect();
            let name = curve_name(&findings.model, &others, has_models(found));
            let point = (x, row.values[value_at]);
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve { name, points: vec![point] }),
            }
        }
    }
    let title = format!("{}: {value}", table.name);
    let has_curve = curves.iter().any(|curve| curve.points.len() > 1);
    has_curve.then(|| Chart { svg: line_chart::svg_over(key, &title, &curves) })
}

/// Returns a heat map for each model and each combination of the other keys.
fn heat_maps(
    table: &FindingTable,
    (row, column_name): (&str, &str),
    value: &str,
    found: &[ModelFindings],
) -> Vec<Chart> {
    let [row_at, column_at] = [row, column_name].map(|name| column(table.keys, name));
    let value_at = column(table.values, value);
    let mut maps: BTreeMap<String, HeatMap> = BTreeMap::new();
    for findings in last_steps(found) {
        for row in rows(table, findings) {
            let is_other = |at: &usize| *at != row_at && *at != column_at;
            let others = (0..row.keys.len()).filter(is_other).map(|at| format!("{} {}", table.keys[at], row.keys[at]));
            let name = std::iter::once(findings.model.clone()).chain(others).collect::<Vec<_>>().join(", ");
            let map = maps.entry(name).or_default();
            for (names, at) in [(&mut map.rows, row_at), (&mut map.columns, column_at)] {
                if !names.contains(&row.keys[at]) {
                    names.push(row.keys[at].clone());
                }
            }
            map.values.push(row.values[value_at]);
        }
    }
    let whole = maps.into_iter().filter(|(_, map)| map.values.len() == map.rows.len() * map.columns.len());
    whole.map(|(name, map)| Chart { svg: heat_map::svg(&format!("{value}: {name}"), &map) }).collect()
}
