//! Results of an analysis as a table on the terminal, CSV, SVG and HTML.

use std::path::{Path, PathBuf};

use analysis::{AnyAnalysis, FindingTable};
use maud::{PreEscaped, html};
use report::html::{Cell, static_page, table};
use schemas::printable;
use serde_json::Value;
use telemetry::terminal::{Paint, line, outcome, painted};

use super::findings::ModelFindings;
use super::output_charts::{Chart, charts};
use crate::aligned::aligned;
use crate::cli::AnalyzeArgs;
use crate::commands::output_file;

/// Refuses output files that cannot be written, before anything is computed.
///
/// # Errors
/// If a path is no file, or the same as another.
pub fn check_outputs(args: &AnalyzeArgs) -> anyhow::Result<()> {
    let common = &args.common;
    let files = [&common.out, &common.plot, &common.html].map(|file| file.as_deref());
    let read = args.pairs.as_ref().map_or_else(|| common.models[0].as_path(), |pairs| pairs.pairs.as_path());
    output_file::outputs(read, &files, None)
}

/// Prints the tables and writes the files.
///
/// # Errors
/// If a file cannot be written.
pub fn write(args: &AnalyzeArgs, found: &[ModelFindings]) -> anyhow::Result<()> {
    let tables = joined(found);
    if args.common.json {
        line(json(&tables));
    }
    for (number, table) in tables.iter().enumerate().filter(|_| !args.common.json) {
        print(table, tables.len() > 1, ROWS[number.min(1)]);
    }
    let charts = charts(found);
    let mut written = Vec::new();
    let mut put = |path: PathBuf, text: &str| -> anyhow::Result<()> {
        output_file::put(&path, text)?;
        written.push(path.display().to_string());
        Ok(())
    };
    if let Some(out) = &args.common.out {
        for (number, table) in tables.iter().enumerate() {
            let path = if number == 0 { out.clone() } else { sibling(out, table.name) };
            put(path, &csv(table))?;
        }
    }
    if let Some(plot) = &args.common.plot {
        for (number, chart) in charts.iter().enumerate() {
            let path = if number == 0 { plot.clone() } else { sibling(plot, &(number + 1).to_string()) };
            put(path, &chart.svg)?;
        }
        if charts.is_empty() {
            telemetry::terminal::note(
                "warning: --plot: one checkpoint has no curve over steps; name several with `--step`",
            );
        }
    }
    if let Some(path) = &args.common.html {
        put(path.clone(), &page(&args.analysis, args, &tables, &charts)?)?;
    }
    if !written.is_empty() && !args.common.json {
        outcome(written.join(", "));
    }
    Ok(())
}

/// Returns the file `scores-NAME.csv` next to `scores.csv`.
fn sibling(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{name}{ending}"))
}

/// Table of all models and steps.
struct JoinedTable {
    name: &'static str,
    keys: Vec<&'static str>,
    values: Vec<&'static str>,
    rows: Vec<(Vec<String>, Vec<f64>)>,
}

/// Joins the tables of one name, with columns for model and step.
fn joined(found: &[ModelFindings]) -> Vec<JoinedTable> {
    let first = found.first().map_or(&[][..], |findings| &findings.tables);
    let join = |of: &FindingTable| {
        let mut keys = vec!["model", "step"];
        keys.extend(of.keys);
        let mut rows = Vec::new();
        for ModelFindings { model, step, tables } in found {
            let own = tables.iter().filter(|table| table.name == of.name).flat_map(|table| &table.rows);
            rows.extend(own.map(|row| {
                let step = step.map_or(String::new(), |step| step.to_string());
                let keys = [model.clone(), step].into_iter().chain(row.keys.iter().cloned());
                (keys.collect(), row.values.clone())
            }));
        }
        JoinedTable { name: of.name, keys, values: of.values.to_vec(), rows }
    };
    first.iter().map(join).collect()
}

/// Formats a number for people.
fn shown(value: f64) -> String {
    let size = value.abs();
    match value {
        _ if value.is_nan() => "undefined".to_owned(),
        _ if value.fract() == 0.0 && size < 1e15 => format!("{value:.0}"),
        _ if (1e-3..1e6).contains(&size) => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
}

/// Longest text of a cell, and most rows of the first and of further tables, on the terminal.
const CELL: usize = 80;
const ROWS: [usize; 2] = [100, 24];

fn print(table: &JoinedTable, is_named: bool, most: usize) {
    let heads: Vec<String> = table.keys.iter().chain(&table.values).map(|&head| head.to_owned()).collect();
    let short = |text: &String| report::chart::truncate(&printable(text), CELL);
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .take(most)
        .map(|(keys, values)| keys.iter().map(short).chain(values.iter().map(|&value| shown(value))).collect())
        .collect();
    if is_named {
        painted(Paint::stdout().bold(table.name));
    }
    let keys = table.keys.len();
    aligned(&heads, &rows, |at| at >= keys || at == 1).into_iter().for_each(line);
    if table.rows.len() > most {
        let more = table.rows.len() - most;
        painted(Paint::stdout().dim(format_args!("… {more} more rows; `--out` writes all of them")));
    }
}

/// Returns the rows of each table as JSON objects. An undefined number is `null`.
fn json(tables: &[JoinedTable]) -> Value {
    let row = |table: &JoinedTable, (keys, values): &(Vec<String>, Vec<f64>)| {
        let keys = table.keys.iter().zip(keys).map(|(name, key)| match (*name, key.parse::<u64>()) {
            ("step", step) => ((*name).to_owned(), step.ok().into()),
            _ => ((*name).to_owned(), key.as_str().into()),
        });
        let values = table.values.iter().zip(values).map(|(name, value)| ((*name).to_owned(), (*value).into()));
        Value::Object(keys.chain(values).collect())
    };
    let rows = |table: &JoinedTable| table.rows.iter().map(|cells| row(table, cells)).collect::<Value>();
    Value::Object(tables.iter().map(|table| (table.name.to_owned(), rows(table))).collect())
}

/// Returns a text as a field of CSV (RFC 4180). One that a spreadsheet would read as a formula begins with an apostrophe.
fn csv_field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Returns a table as CSV. An undefined number is an empty field.
fn csv(table: &JoinedTable) -> String {
    let heads = table.keys.iter().chain(&table.values).map(|head| (*head).to_owned()).collect::<Vec<_>>();
    let mut text = heads.join(",") + "\n";
    for (keys, values) in &table.rows {
        let number = |value: &f64| if value.is_nan() { String::new() } else { value.to_string() };
        let cells: Vec<String> = keys.iter().map(|key| csv_field(key)).chain(values.iter().map(number)).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

fn page(
    analysis: &AnyAnalysis,
    args: &AnalyzeArgs,
    tables: &[JoinedTable],
    charts: &[Chart],
) -> anyhow::Result<String> {
    let title = analysis.kind().replace('_', "-");
    let options = serde_json::to_value(analysis)?;
    let options = options.as_object().into_iter().flatten().filter(|(key, _)| *key != "kind");
    let options: Vec<(String, String)> = options.map(|(key, value)| (key.clone(), value.to_string())).collect();
    let facts = [("seed".to_owned(), args.common.seed.to_string())].into_iter().chain(options);
    let cells = |(keys, values): &(Vec<String>, Vec<f64>)| {
        let keys = keys.iter().map(|key| Cell::Text(key.clone()));
        keys.chain(values.iter().map(|&value| Cell::Number(shown(value)))).collect::<Vec<_>>()
    };
    let body = html! {
        h1 { (title) }
        p { (analysis::Analysis::summary(&**analysis)) "." }
        @for chart in charts {
            (PreEscaped(&chart.svg))
        }
        @for joined in tables {
            h2 { (joined.name) }
            div.scroll {
                (table(&joined.keys.iter().chain(&joined.values).copied().collect::<Vec<_>>(), joined.rows.iter().map(cells)))
            }
        }
        h2 { "options" }
        (table(&["option", "value"], facts.map(|(key, value)| vec![Cell::Code(key), Cell::Code(value)])))
    };
    Ok(static_page(&title, "", &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_undefined_ones_are_named() {
        let numbers = [f64::NAN, 0.0, 12.0, -0.123_456, 1.5e-7, 2.345e7];
        assert_eq!(numbers.map(shown), ["undefined", "0", "12", "-0.1235", "1.500e-7", "23450000"]);
    }

    #[test]
    fn csv_and_json_quote_text_and_leave_undefined_numbers_empty() {
        let rows = vec![(vec!["a,b".to_owned(), "7".to_owned(), "say \"x\"".to_owned()], vec![0.1, f64::NAN])];
        let table = JoinedTable { name: "t", keys: vec!["model", "step", "word"], values: vec!["x", "y"], rows };
        assert_eq!(csv(&table), "model,step,word,x,y\n\"a,b\",7,\"say \"\"x\"\"\",0.1,\n");
        let row = serde_json::json!({ "model": "a,b", "step": 7, "word": "say \"x\"", "x": 0.1, "y": null });
        assert_eq!(json(&[table]), serde_json::json!({ "t": [row] }));
    }

    #[test]
    fn no_text_of_a_csv_file_is_a_formula() {
        for (text, field) in [
            ("=HYPERLINK(\"http://x\",1)", "\"'=HYPERLINK(\"\"http://x\"\",1)\""),
            ("+x", "'+x"),
            ("-", "'-"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("-1.5", "-1.5"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(csv_field(text), field);
        }
    }

    #[test]
    fn further_files_are_next_to_the_first() {
        assert_eq!(sibling(Path::new("a/b.csv"), "c"), Path::new("a/b-c.csv"));
        assert_eq!(sibling(Path::new("b"), "2"), Path::new("b-2"));
    }
}
