//! Contract tests, run over every registered analysis.

use std::collections::BTreeSet;

use crate::analysis::AnyAnalysis;
use crate::data::AnalysisData;
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::testing::{ToyModel, data};

/// Runs a check on every analysis, with its name.
fn each(check: impl Fn(&AnyAnalysis, &str)) {
    for analysis in AnyAnalysis::examples() {
        check(&analysis, analysis.kind());
    }
}

fn compute(analysis: &AnyAnalysis, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
    analysis.compute(&ToyModel::new(), data, seed)
}

/// Returns the tables with the bits of their numbers, so that NaN equals NaN.
fn bits(tables: &[FindingTable]) -> Vec<(Vec<String>, Vec<u64>)> {
    let rows = tables.iter().flat_map(|table| &table.rows);
    rows.map(|row| (row.keys.clone(), row.values.iter().map(|value| value.to_bits()).collect())).collect()
}

#[test]
fn every_analysis_survives_toml_and_refuses_unknown_keys() {
    each(|analysis, name| {
        let text = toml::to_string(analysis).expect("a table");
        assert_eq!(toml::from_str::<AnyAnalysis>(&text).expect("of this version"), *analysis, "{name}");
        assert!(toml::from_str::<AnyAnalysis>(&format!("unknown = 1\n{text}")).is_err(), "{name}");
        assert!(analysis.problems().is_empty(), "{name}: {:?}", analysis.problems());
    });
}

#[test]
fn every_option_can_be_one_of_the_command_line() {
    each(|analysis, name| {
        let value = serde_json::to_value(analysis).expect("plain data");
        let fields = value.as_object().expect("an object");
        for (key, value) in fields {
            let is_flat = match value {
                serde_json::Value::Array(items) => items.iter().all(|item| !item.is_array() && !item.is_object()),
                value => !value.is_object(),
            };
            assert!(is_flat, "{name}: `{key}` is no number, text, flag or list of them");
        }
        assert!(analysis.summary().len() < 90 && !analysis.summary().ends_with('.'), "{name}");
    });
}

#[test]
fn every_table_has_its_columns_distinct_rows_and_charts_of_its_columns() {
    each(|analysis, name| {
        let tables = compute(analysis, &data(), 1).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!tables.is_empty() && !tables[0].rows.is_empty(), "{name}");
        let names: BTreeSet<_> = tables.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), tables.len(), "{name}: two tables of one name");
        for table in &tables {
            let columns: BTreeSet<_> = table.keys.iter().chain(table.values).collect();
            assert_eq!(columns.len(), table.keys.len() + table.values.len(), "{name}: two columns of one name");
            assert!(!columns.contains(&"model") && !columns.contains(&"step"), "{name}: names of the report");
            let keys: BTreeSet<_> = table.rows.iter().map(|row| &row.keys).collect();
            assert_eq!(keys.len(), table.rows.len(), "{name}: `{}` has two rows of one key", table.name);
            for chart in table.charts {
                let (keys, value) = match *chart {
                    ChartSpec::OverSteps(value) => (vec![], value),
                    ChartSpec::OverKey { key, value } => (vec![key], value),
                    ChartSpec::HeatMap { row, column, value } => (vec![row, column], value),
                };
                assert!(table.values.contains(&value), "{name}: {chart:?}");
                assert!(keys.iter().all(|key| table.keys.contains(key)), "{name}: {chart:?}");
            }
        }
    });
}

#[test]
fn every_analysis_is_a_function_of_its_seed() {
    each(|analysis, name| {
        let [one, two, other] = [1, 1, 2].map(|seed| bits(&compute(analysis, &data(), seed).expect("computed")));
        assert_eq!(one, two, "{name}");
        assert_eq!(one.len(), other.len(), "{name}");
    });
}

#[test]
fn every_analysis_has_undefined_numbers_or_a_clear_error_for_too_little_data() {
    let whole = data();
    let only = |rows: usize, pairs: usize, sentences: usize| AnalysisData {
        rows: whole.rows[..rows].to_vec(),
        pairs: whole.pairs[..pairs].to_vec(),
        sentences: whole.sentences[..sentences].to_vec(),
    };
    let unknown = {
        let mut data = whole.clone();
        data.rows.iter_mut().for_each(|row| row.ids.fill(ToyModel::UNKNOWN));
        data.pairs.iter_mut().for_each(|pair| pair.first.fill(ToyModel::UNKNOWN));
        data.sentences.iter_mut().for_each(|sentence| sentence.ids.fill(ToyModel::UNKNOWN));
        data
    };
    let single = {
        let mut data = only(1, 1, 1);
        data.rows[0].ids.truncate(1);
        data.pairs[0].first.clear();
        data.sentences[0].ids.truncate(1);
        data
    };
    each(|analysis, name| {
        for data in [AnalysisData::default(), only(1, 1, 1), single.clone(), unknown.clone()] {
            match compute(analysis, &data, 1) {
                Ok(tables) => assert!(!tables.is_empty(), "{name}"),
                Err(Error::Usage(message)) => assert!(message.len() > 20, "{name}: {message}"),
                Err(Error::Model(error)) => panic!("{name}: {error}"),
            }
        }
    });
}
