//! Analyses equal those of an independent program in `NumPy`: `tests/golden/analyses.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use analysis::{
    AnalysisData, AnyAnalysis, EncodedPair, EncoderModel, Error, FindingTable, MaskedRow, ModelFacts, ObjectiveMetric,
    TextRow, Vectors,
};
use schemas::{SpecialIds, Vocab};
use serde::Deserialize;

/// Numbers of a table by key and column.
type Expected = BTreeMap<String, BTreeMap<String, f64>>;

#[derive(Deserialize)]
struct Golden {
    table: Vec<Vec<f32>>,
    seed: u64,
    rows: Vec<GoldenRow>,
    pairs: Vec<[Vec<u32>; 2]>,
    equal_rows: Vec<GoldenRow>,
    context_score: Expected,
    context_score_minus_embedding: Expected,
    self_sim: Expected,
    align_uniform_cls: BTreeMap<String, f64>,
    align_uniform_mean: BTreeMap<String, f64>,
    grad_cov: Expected,
}

#[derive(Deserialize)]
struct GoldenRow {
    document: usize,
    ids: Vec<u32>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../tests/golden/analyses.json")).expect("the file of the script")
}

/// Model whose states and gradients are rows of a table, as `tests/reference/analyses.py` describes them.
struct GivenModel {
    table: Vec<Vec<f32>>,
    facts: ModelFacts,
}

impl GivenModel {
    fn new(table: Vec<Vec<f32>>) -> Self {
        let tokens = (0..40).map(|id| format!("w{id}")).collect();
        let special = SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };
        let vocab = Vocab::new(tokens, vec![true; 40], vec![0; 40], special, &[]);
        Self { table, facts: ModelFacts { layers: 2, max_tokens: 62, vocab: Arc::new(vocab) } }
    }

    fn row(&self, number: usize) -> &[f32] {
        &self.table[number % self.table.len()]
    }
}

impl EncoderModel for GivenModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode(
        &self,
        rows: &[&[u32]],
        layers: &[usize],
        visit: &mut dyn FnMut(usize, Vec<Vectors>),
    ) -> Result<(), Error> {
        for (number, ids) in rows.iter().enumerate() {
            let state = |layer: usize, place: usize| self.row(7 * number + 3 * place + 5 * layer);
            let states = |layer: &usize| {
                let values = (0..ids.len() + 2).flat_map(|place| state(*layer, place)).copied().collect();
                Vectors::new(self.table[0].len(), values)
            };
            visit(number, layers.iter().map(states).collect());
        }
        Ok(())
    }

    fn word_vectors(&self, _: &[u32]) -> Result<Vectors, Error> {
        unreachable!("no analysis of this file reads word vectors")
    }

    fn gradient(&self, row: &MaskedRow, _: &str) -> Result<Vec<f32>, Error> {
        let neighbors = row.positions.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
        let factor = 0.25 * f32::from(u8::try_from(neighbors).expect("small"));
        let mut sum: Vec<f32> = self.table[0].iter().map(|value| factor * value).collect();
        for &at in &row.positions {
            let vector = self.row(row.ids[at] as usize + 11 * at);
            sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
        }
        Ok(sum)
    }

    fn objective_metrics(&self, _: &[&[u32]], _: u64) -> Result<Vec<ObjectiveMetric>, Error> {
        unreachable!("no analysis of this file reads metrics")
    }
}

fn rows(golden: &[GoldenRow]) -> Vec<TextRow> {
    golden.iter().map(|row| TextRow { document: row.document, ids: row.ids.clone() }).collect()
}

/// Computes an analysis, given as TOML, on the rows or the pairs of the file.
fn compute(golden: &Golden, analysis: &str, rows: Vec<TextRow>) -> FindingTable {
    let analysis: AnyAnalysis = toml::from_str(analysis).expect("an analysis");
    let pair = |[first, second]: &[Vec<u32>; 2]| EncodedPair { line: 1, first: first.clone(), second: second.clone() };
    let pairs = golden.pairs.iter().map(pair).collect();
    let data = AnalysisData { rows, pairs, ..AnalysisData::default() };
    let tables = analysis.compute(&GivenModel::new(golden.table.clone()), &data, golden.seed).expect("computed");
    tables.into_iter().next().expect("a table")
}

/// Compares the columns that the file has.
fn check(found: &FindingTable, key: &[&str], expected: &BTreeMap<String, f64>) {
    let row = found.rows.iter().find(|row| row.keys == key).unwrap_or_else(|| panic!("{key:?}: {:?}", found.rows));
    assert!(!expected.is_empty());
    for (name, expected) in expected {
        let column = found.values.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
        let value = row.values[column];
        assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{key:?} {name}: {value}, not {expected}");
    }
}

fn check_all(found: &FindingTable, expected: &Expected) {
    assert_eq!(found.rows.len(), expected.len());
    for (key, expected) in expected {
        check(found, &[key], expected);
    }
}

#[test]
fn contextual_scores_equal_those_of_numpy() {
    let golden = golden();
    let all = "kind = \"context_score\"\nmeasure = [\"cos\", \"dot\", \"l1\", \"l2\", \"l10\"]\n";
    check_all(&compute(&golden, all, rows(&golden.rows)), &golden.context_score);
    let less = format!("{all}minus_embedding = true\n");
    check_all(&compute(&golden, &less, rows(&golden.rows)), &golden.context_score_minus_embedding);
}

#[test]
fn self_similarities_equal_those_of_numpy() {
    let golden = golden();
    let layers = "kind = \"self_sim\"\nlayers = [0, 1, 2]\n";
    check_all(&compute(&golden, layers, rows(&golden.rows)), &golden.self_sim);
}

#[test]
fn alignment_and_uniformity_equal_those_of_numpy() {
    let golden = golden();
    for (of, expected) in [("cls", &golden.align_uniform_cls), ("mean", &golden.align_uniform_mean)] {
        let analysis = format!("kind = \"align_uniform\"\nrepr = \"{of}\"\n");
        check(&compute(&golden, &analysis, Vec::new()), &[], expected);
    }
}

#[test]
fn covariances_of_gradients_equal_those_of_numpy() {
    let golden = golden();
    let analysis = "kind = \"grad_cov\"\nratio = 0.25\nk = 2\nmasks = 8\ndistances = 3\n";
    check_all(&compute(&golden, analysis, rows(&golden.equal_rows)), &golden.grad_cov);
}
