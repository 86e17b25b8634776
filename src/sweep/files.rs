//! Files of a report about a sweep: Markdown, JSON lines, Parquet, and the predictions of the best run.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use serde_json::{Map, Value, json};
use store::{Holder, LeaseConfig, Lock, LockError, Store};

use super::plan::{RunSpec, SweepPlan};
use super::results::SweepResults;
use super::summary::{FinishedRun, Measure};
use super::tables::{markdown, setting_keys};
use crate::cli::Statistic;
use crate::finetune::PREDICTIONS;

/// Names of the files in the folder of a sweep.
pub(crate) const REPORT: &str = "report.md";
const JSON_LINES: &str = "results.jsonl";
const PARQUET: &str = "results.parquet";

/// Interval between two attempts to take the lock of the report.
const RETRY: Duration = Duration::from_millis(200);

/// Reads the results of the sweep in `folder` and writes its report. Returns the results.
///
/// Reading and writing happen under a lock: of several processes, the last one to write has read last.
pub(crate) fn write_report(plan: SweepPlan, folder: &Path, statistic: Statistic) -> anyhow::Result<SweepResults> {
    let store = Store::existing(folder)?;
    let lock = loop {
        match Lock::acquire(&store, store::LOCK, Holder::this_process(), LeaseConfig::default()) {
            Ok(lock) => break lock,
            Err(LockError::Held { .. }) => thread::sleep(RETRY),
            Err(LockError::Io(error)) => return Err(error.into()),
        }
    };
    let store = lock.guard(&store);
    let results = SweepResults::read(plan, folder)?;
    store.put(REPORT, markdown(&results, statistic).as_bytes())?;
    let rows = rows(&results);
    store.put(JSON_LINES, json_lines(&rows).as_bytes())?;
    store.put(PARQUET, &parquet(&setting_keys(&results), &rows)?)?;
    collect_predictions(&results, folder, &store)?;
    Ok(results)
}

/// Value of one metric of one run.
struct ResultRow<'a> {
    run: &'a RunSpec,
    model: String,
    from: String,
    step: u64,
    set: &'a str,
    examples: u64,
    metric: &'a str,
    value: Option<f64>,
}

impl ResultRow<'_> {
    fn setting(&self, key: &str) -> Option<&str> {
        self.run.settings.iter().find(|setting| setting.key == key).map(|setting| &*setting.value)
    }
}

fn rows(results: &SweepResults) -> Vec<ResultRow<'_>> {
    let models = results.plan.models();
    let mut rows = Vec::new();
    for (run, result) in results.finished() {
        for set in &result.sets {
            rows.extend(set.metrics.iter().map(|metric| ResultRow {
                run,
                model: models[run.model].clone(),
                from: results.plan.from[run.model].display().to_string(),
                step: result.step,
                set: &set.set,
                examples: set.examples,
                metric: metric.metric.name(),
                value: metric.value.value(),
            }));
        }
    }
    rows
}

fn json_lines(rows: &[ResultRow<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        let settings: Map<String, Value> =
            row.run.settings.iter().map(|it| (it.key.clone(), json_value(&it.value))).collect();
        let line = json!({
            "run": row.run.name, "model": row.model, "from": row.from, "train_fraction": row.run.fraction,
            "settings": settings, "seed": row.run.seed, "step": row.step, "set": row.set, "examples": row.examples,
            "metric": row.metric, "value": row.value,
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text
}

/// Returns a number as a number, and any other value as text.
fn json_value(text: &str) -> Value {
    let whole = text.parse::<u64>().map(Value::from);
    whole.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or_else(|_| Value::from(text))
}

/// Returns the rows as Parquet. A setting is a column: numbers if all its values are, else texts.
fn parquet(keys: &[String], rows: &[ResultRow<'_>]) -> anyhow::Result<Vec<u8>> {
    let texts = |text: for<'a> fn(&'a ResultRow<'a>) -> &'a str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(text(row))).collect::<StringArray>())
    };
    let counts = |count: fn(&ResultRow<'_>) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(count(row))).collect::<UInt64Array>())
    };
    let numbers = |number: fn(&ResultRow<'_>) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(number).collect::<Float64Array>())
    };
    let mut columns: Vec<(String, ArrayRef, bool)> = vec![
        ("run".to_owned(), texts(|row| &row.run.name), false),
        ("model".to_owned(), texts(|row| &row.model), false),
        ("from".to_owned(), texts(|row| &row.from), false),
        ("train_fraction".to_owned(), numbers(|row| Some(row.run.fraction)), false),
    ];
    for key in keys {
        let values: Vec<Option<&str>> = rows.iter().map(|row| row.setting(key)).collect();
        let parsed: Vec<Option<f64>> = values.iter().map(|value| value.and_then(|it| it.parse().ok())).collect();
        let are_numbers = values.iter().zip(&parsed).all(|(value, parsed)| value.is_some() == parsed.is_some());
        let column: ArrayRef =
            if are_numbers { Arc::new(Float64Array::from(parsed)) } else { Arc::new(StringArray::from(values)) };
        columns.push((key.clone(), column, true));
    }
    columns.extend([
        ("seed".to_owned(), counts(|row| row.run.seed), false),
        ("step".to_owned(), counts(|row| row.step), false),
        ("set".to_owned(), texts(|row| row.set), false),
        ("examples".to_owned(), counts(|row| row.examples), false),
        ("metric".to_owned(), texts(|row| row.metric), false),
        ("value".to_owned(), numbers(|row| row.value), true),
    ]);
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}

/// Copies the predictions of each model's best run on the dev set to `predictions/MODEL/`.
fn collect_predictions(results: &SweepResults, folder: &Path, store: &Store) -> anyhow::Result<()> {
    let by = Measure::of_choice(&results.plan);
    for (model, name) in results.plan.models().iter().enumerate() {
        let runs: Vec<FinishedRun<'_>> = results
            .finished()
            .filter(|(run, _)| run.model == model)
            .map(|(spec, result)| FinishedRun { spec, result })
            .collect();
        let Some(best) = by.best(&runs) else { continue };
        let run = Store::existing(SweepPlan::run_folder(folder, best.spec).join("run"))?;
        // A name may be a path.
        let name = name.trim_start_matches('/').replace("..", "_");
        for entry in run.list(PREDICTIONS)? {
            let file = entry.name.rsplit('/').next().unwrap_or_default();
            store.put(&format!("{PREDICTIONS}/{name}/{file}"), &run.get(&entry.name)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

    use super::super::summary::tests::results;
    use super::*;

    #[test]
    fn json_lines_and_parquet_have_the_same_rows() {
        let results = results([Some(0.2), Some(f64::NAN), None, Some(0.1), None, None]);
        let rows = rows(&results);
        let lines: Vec<Value> =
            json_lines(&rows).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 3 * 2);
        assert_eq!((&lines[0]["settings"]["lr"], &lines[0]["value"]), (&1e-5.into(), &0.2.into()));
        assert_eq!((&lines[2]["seed"], &lines[2]["value"]), (&2.into(), &Value::Null));
        let bytes = parquet(&setting_keys(&results), &rows).expect("in memory");
        let mut reader = ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 100).expect("Parquet");
        let batch = reader.next().expect("a batch").expect("rows");
        assert_eq!(batch.num_rows(), 6);
        let column = |name: &str| {
            let column = batch.column_by_name(name).expect("a column");
            column.as_any().downcast_ref::<Float64Array>().expect("numbers").clone()
        };
        assert_eq!((column("lr").value(5), column("value").value(0)), (3e-5, 0.2));
        assert!(column("value").is_null(2));
    }
}
