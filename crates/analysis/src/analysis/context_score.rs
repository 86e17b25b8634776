//! Contextual score: similarity of tokens within a row, less that of tokens of different documents.
//!
//! # What
//! Compares the last hidden state of each token with that of another token of its row (intra) and of a token of another
//! document (inter).
//!
//! # Why
//! TACO shows with it when a model begins to encode the context of a row: the score stays near 0, then rises.
//!
//! # Definition
//! For every non-special token `i`, `j ≠ i` is a random non-special token of its row and `k` one of another document.
//! `intra` and `inter` are the means over tokens of `sim(h_i, h_j)` and `sim(h_i, h_k)`; `difference = intra − inter`,
//! `ratio = intra / inter`. The similarities are the cosine, the inner product, and the distances `L_1`, `L_2` and `L_10`.
//! With `minus_embedding`, `h` less the output of the embedding block takes the place of `h`. A token without a partner is
//! left out of that mean.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022 (TACO), figures 3b, 4 and 6a, table 9.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind, TextRow};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::measure::{Measure, wide};
use crate::model::{EncoderModel, Vectors};
use crate::random::Dice;
use crate::statistics::Mean;

/// Contextual score. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextScore {
    /// Measures of similarity: `cos`, `dot`, or the distances `l1`, `l2`, `l10`.
    pub measure: Vec<Measure>,
    /// Compare hidden states minus the embeddings of their tokens.
    pub minus_embedding: bool,
    /// Most tokens to compare; a sample if the rows have more.
    pub max_tokens: usize,
}

impl Default for ContextScore {
    fn default() -> Self {
        Self { measure: vec![Measure::Cos], minus_embedding: false, max_tokens: 20_000 }
    }
}

/// Position of a token: row, and index within its ids.
type TokenPlace = (usize, usize);

/// Token with its partners.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Comparison {
    token: TokenPlace,
    intra: Option<TokenPlace>,
    inter: Option<TokenPlace>,
}

impl Analysis for ContextScore {
    fn summary(&self) -> &'static str {
        "Similarity of tokens of one row, compared with tokens of other documents"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows]
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.measure.is_empty() {
            problems.push("`measure` names no measure".to_owned());
        }
        if self.max_tokens == 0 {
            problems.push("`max_tokens` must be at least 1".to_owned());
        }
        problems
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let facts = model.facts();
        let comparisons = comparisons(&data.rows, &|id| !facts.vocab.is_special(id), self.max_tokens, seed);
        let states = self.states(model, &data.rows)?;
        let state = |(row, at): TokenPlace| states[row].at(at);
        let mut sums = vec![(Mean::default(), Mean::default()); self.measure.len()];
        for comparison in &comparisons {
            let own = state(comparison.token);
            let intra = comparison.intra.map(state);
            let inter = comparison.inter.map(state);
            for (measure, sums) in self.measure.iter().zip(&mut sums) {
                if let Some(other) = &intra {
                    sums.0.add(measure.compare(&own, other));
                }
                if let Some(other) = &inter {
                    sums.1.add(measure.compare(&own, other));
                }
            }
        }
        let mut table = FindingTable::new(
            "scores",
            &["measure"],
            &["intra", "inter", "difference", "ratio", "tokens"],
            &[
                ChartSpec::OverSteps("difference"),
                ChartSpec::OverSteps("intra"),
                ChartSpec::OverSteps("inter"),
                ChartSpec::OverSteps("ratio"),
            ],
        );
        for (measure, (intra, inter)) in self.measure.iter().zip(&sums) {
            let [intra, inter] = [intra, inter].map(Mean::mean);
            let tokens = comparisons.len() as f64;
            table.push([measure.name().to_owned()], [intra, inter, intra - inter, intra / inter, tokens]);
        }
        Ok(vec![table])
    }
}

impl ContextScore {
    fn states(&self, model: &dyn EncoderModel, rows: &[TextRow]) -> Result<Vec<RowStates>, Error> {
        let layers = [model.facts().layers, 0];
        let layers = if self.minus_embedding { &layers[..] } else { &layers[..1] };
        let ids: Vec<&[u32]> = rows.iter().map(|row| row.ids.as_slice()).collect();
        let mut states = Vec::with_capacity(rows.len());
        model.encode(&ids, layers, &mut |_, found| {
            let mut found = found.into_iter();
            let hidden = found.next().expect("the last layer was asked for");
            states.push(RowStates { hidden, subtracted: found.next() });
        })?;
        Ok(states)
    }
}

/// Hidden states of a row.
struct RowStates {
    hidden: Vectors,
    subtracted: Option<Vectors>,
}

impl RowStates {
    /// Returns the vector of a token. Position 0 of the states is `[CLS]`.
    fn at(&self, at: usize) -> Vec<f64> {
        let mut vector = wide(self.hidden.get(at + 1));
        if let Some(subtracted) = &self.subtracted {
            vector.iter_mut().zip(subtracted.get(at + 1)).for_each(|(value, less)| *value -= f64::from(*less));
        }
        vector
    }
}

/// Draws the tokens to compare, by place, and their partners.
fn comparisons(rows: &[TextRow], counts: &dyn Fn(u32) -> bool, max_tokens: usize, seed: u64) -> Vec<Comparison> {
    let tokens_of = |row: &TextRow| -> Vec<usize> {
        row.ids.iter().enumerate().filter(|(_, id)| counts(**id)).map(|(at, _)| at).collect()
    };
    let tokens: Vec<Vec<usize>> = rows.iter().map(tokens_of).collect();
    let flat: Vec<TokenPlace> =
        tokens.iter().enumerate().flat_map(|(row, tokens)| tokens.iter().map(move |&at| (row, at))).collect();
    let chosen = Dice::new(seed, "tokens").subset(flat.len(), max_tokens);
    let mut dice = Dice::new(seed, "partners");
    // Tokens of one document are consecutive.
    let mut documents: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    for (place, (row, _)) in flat.iter().enumerate() {
        match documents.last_mut() {
            Some((document, range)) if *document == rows[*row].document => range.end = place + 1,
            _ => documents.push((rows[*row].document, place..place + 1)),
        }
    }
    chosen
        .into_iter()
        .map(|place| {
            let token = flat[place];
            let own = &tokens[token.0];
            let intra = (own.len() > 1).then(|| {
                let other = own[dice.below(own.len() - 1)];
                (token.0, if other >= token.1 { own[own.partition_point(|&at| at <= other)] } else { other })
            });
            let found = documents.partition_point(|(_, range)| range.end <= place);
            let document = &documents[found].1;
            let others = flat.len() - document.len();
            let inter = (others > 0).then(|| {
                let other = dice.below(others);
                flat[if other >= document.start { other + document.len() } else { other }]
            });
            Comparison { token, intra, inter }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{ToyModel, rows};

    #[test]
    fn partners_are_of_the_same_row_and_of_another_document() {
        let rows = rows(&[(0, &[5, 6, 0, 7]), (0, &[8, 9]), (1, &[10, 11, 12]), (2, &[13])]);
        let mut seen: BTreeSet<(TokenPlace, TokenPlace)> = BTreeSet::new();
        let mut seen_inter = BTreeSet::new();
        for seed in 0..200 {
            let found = comparisons(&rows, &|id| id != 0, 100, seed);
            assert_eq!(found.len(), 9);
            for Comparison { token, intra, inter } in found {
                match intra {
                    None => assert_eq!(token.0, 3, "only a row of one token has no partner"),
                    Some(other) => {
                        assert!(other.0 == token.0 && other.1 != token.1 && rows[other.0].ids[other.1] != 0);
                        seen.insert((token, other));
                    }
                }
                let other = inter.expect("there are three documents");
                assert_ne!(rows[other.0].document, rows[token.0].document);
                assert_ne!(rows[other.0].ids[other.1], 0);
                seen_inter.insert((token, other));
            }
        }
        // Every admissible pair occurs: 3·2 + 2·1 + 3·2 within rows; 5·4 + 3·6 + 1·8 across documents.
        assert_eq!((seen.len(), seen_inter.len()), (14, 46));
        assert_eq!(comparisons(&rows, &|id| id != 0, 4, 1).len(), 4);
        assert_eq!(comparisons(&rows, &|id| id != 0, 4, 1), comparisons(&rows, &|id| id != 0, 4, 1));
    }

    #[test]
    fn a_text_of_one_document_has_no_inter_similarity() {
        let data = AnalysisData { rows: rows(&[(0, &[5, 6, 7])]), ..AnalysisData::default() };
        let tables = ContextScore::default().compute(&ToyModel::new(), &data, 1).expect("computed");
        let number = |value| tables[0].number(&["cos"], value);
        assert!(number("intra").is_finite() && number("inter").is_nan() && number("difference").is_nan());
        let data = AnalysisData { rows: rows(&[(0, &[5]), (1, &[6])]), ..AnalysisData::default() };
        let tables = ContextScore::default().compute(&ToyModel::new(), &data, 1).expect("computed");
        let number = |value| tables[0].number(&["cos"], value);
        assert!(number("intra").is_nan() && number("inter").is_finite() && number("ratio").is_nan());
    }

    #[test]
    fn the_embedding_is_subtracted_at_the_same_position() {
        let model = ToyModel::new();
        let data = AnalysisData { rows: rows(&[(0, &[5, 6]), (1, &[7, 8])]), ..AnalysisData::default() };
        let analysis = ContextScore { minus_embedding: true, measure: vec![Measure::Dot], ..ContextScore::default() };
        let tables = analysis.compute(&model, &data, 1).expect("computed");
        // The toy's last layer is its embedding and the mean of the row: what remains is that mean.
        let mean = |ids: &[u32]| {
            let mut mean = [0.0; 4];
            for id in model.facts().framed(ids) {
                mean.iter_mut().zip(ToyModel::vector(id)).for_each(|(sum, value)| *sum += f64::from(value));
            }
            mean.iter().map(|sum| sum / 4.0).collect::<Vec<_>>()
        };
        let [a, b] = [mean(&[5, 6]), mean(&[7, 8])];
        let expected = f64::midpoint(Measure::Dot.compare(&a, &a), Measure::Dot.compare(&b, &b));
        let found = tables[0].number(&["dot"], "intra");
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        let found = tables[0].number(&["dot"], "inter");
        assert!((found - Measure::Dot.compare(&a, &b)).abs() < 1e-5, "{found}");
    }
}
