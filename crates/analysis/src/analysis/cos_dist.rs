//! Distribution of the cosines of sentence vectors, for random and for similar pairs.
//!
//! # What
//! Histograms of the cosine of two sentence vectors: pairs of random rows of a text, and pairs of a file of similar
//! sentences. The model is not fine-tuned.
//!
//! # Why
//! Without a contrast of sequences, random pairs are nearly as similar as similar ones. COCO-LM spreads them.
//!
//! # Definition
//! A sentence vector is the last hidden state of `[CLS]`, or the mean over tokens. Random pairs are rows of two different
//! documents, drawn by the seed. A histogram has `bins` bins of equal width from −1 to 1; `share` is the count divided by
//! that of all pairs. Pairs with an empty text are left out, and so are the bins below and above all cosines.
//!
//! # Reference
//! Meng et al. 2021 (COCO-LM), figures 1 and 5, with the pairs of STS-B of score 5.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::measure::cosine;
use crate::model::EncoderModel;
use crate::random::Dice;
use crate::representation::Representation;
use crate::statistics::Mean;

/// Distribution of cosines. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CosDist {
    /// Sentence vector: of `[CLS]`, or the mean over tokens.
    pub repr: Representation,
    /// Random pairs to draw.
    pub random_pairs: usize,
    /// Bins of a histogram, from −1 to 1.
    pub bins: usize,
}

impl Default for CosDist {
    fn default() -> Self {
        Self { repr: Representation::Cls, random_pairs: 1000, bins: 40 }
    }
}

impl Analysis for CosDist {
    fn summary(&self) -> &'static str {
        "Histograms of the cosines of random and of similar sentences"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows, DataKind::Pairs]
    }

    fn problems(&self) -> Vec<String> {
        if (1..=10_000).contains(&self.bins) { Vec::new() } else { vec!["`bins` must be from 1 to 10000".to_owned()] }
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let rows: Vec<&[u32]> = data.rows.iter().map(|row| row.ids.as_slice()).collect();
        let vectors = self.repr.vectors(model, &rows)?;
        let random = self.random(data, seed).into_iter().map(|(one, other)| cosine(&vectors[one], &vectors[other]));
        let random: Vec<f64> = random.collect();
        let texts: Vec<&[u32]> = pair_texts(data);
        let vectors = self.repr.vectors(model, &texts)?;
        let similar: Vec<f64> = vectors.chunks_exact(2).map(|pair| cosine(&pair[0], &pair[1])).collect();
        let mut means =
            FindingTable::new("cosines", &["pairs"], &["mean", "deviation", "count"], &[ChartSpec::OverSteps("mean")]);
        let shares = &[ChartSpec::OverKey { key: "cosine", value: "share" }];
        let mut histogram = FindingTable::new("histogram", &["pairs", "cosine"], &["count", "share"], shares);
        let bins = occupied_bins(random.iter().chain(&similar), self.bins);
        for (name, cosines) in [("random", random), ("similar", similar)] {
            let mean: Mean = cosines.iter().copied().collect();
            means.push([name.to_owned()], [mean.mean(), mean.deviation(), mean.count()]);
            for (center, count) in histogram_of(&cosines, self.bins).take(bins.end).skip(bins.start) {
                histogram.push([name.to_owned(), center], [count, count / cosines.len() as f64]);
            }
        }
        Ok(vec![means, histogram])
    }
}

/// Returns the texts of all pairs without an empty one: first, second, first, …
pub(super) fn pair_texts(data: &AnalysisData) -> Vec<&[u32]> {
    let whole = data.pairs.iter().filter(|pair| !pair.first.is_empty() && !pair.second.is_empty());
    whole.flat_map(|pair| [pair.first.as_slice(), pair.second.as_slice()]).collect()
}

impl CosDist {
    /// Draws pairs of rows of two documents; none if there is one document.
    fn random(&self, data: &AnalysisData, seed: u64) -> Vec<(usize, usize)> {
        let rows = &data.rows;
        if rows.iter().all(|row| row.document == rows[0].document) {
            return Vec::new();
        }
        let mut dice = Dice::new(seed, "random pairs");
        let draw = |_| {
            let one = dice.below(rows.len());
            let others: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].document != rows[one].document).collect();
            (one, others[dice.below(others.len())])
        };
        (0..self.random_pairs).map(draw).collect()
    }
}

/// Returns the bin of a cosine, of those from −1 to 1.
fn bin_of(cosine: f64, bins: usize) -> usize {
    let is_above = |bin: &usize| cosine >= 2.0 * *bin as f64 / bins as f64 - 1.0;
    (0..bins).rfind(is_above).unwrap_or(0)
}

/// Returns the range from the first to the last bin with a cosine; empty without cosines.
fn occupied_bins<'a>(cosines: impl Iterator<Item = &'a f64>, bins: usize) -> Range<usize> {
    let found = cosines.map(|&cosine| bin_of(cosine, bins));
    let range = found.fold(None, |range: Option<Range<usize>>, bin| {
        let Range { start, end } = range.unwrap_or(bin..bin);
        Some(start.min(bin)..end.max(bin + 1))
    });
    range.unwrap_or(0..0)
}

/// Returns the centers of the bins from −1 to 1, and the count of each.
fn histogram_of(cosines: &[f64], bins: usize) -> impl Iterator<Item = (String, f64)> {
    let mut counts = vec![0.0; bins];
    for &cosine in cosines {
        counts[bin_of(cosine, bins)] += 1.0;
    }
    let center = move |bin: usize| (2.0 * bin as f64 + 1.0) / bins as f64 - 1.0;
    counts.into_iter().enumerate().map(move |(bin, count)| (format!("{:.4}", center(bin)), count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::EncodedPair;
    use crate::testing::{ToyModel, data, rows};

    #[test]
    fn cosines_fall_into_their_bins() {
        let found: Vec<_> = histogram_of(&[-1.0, -0.51, -0.5, 0.0, 0.999, 1.0], 4).collect();
        let expected = [("-0.7500", 2.0), ("-0.2500", 1.0), ("0.2500", 1.0), ("0.7500", 2.0)];
        assert_eq!(found, expected.map(|(center, count)| (center.to_owned(), count)));
        assert_eq!(occupied_bins([0.0, -0.51].iter(), 4), 0..3, "an empty bin between others stays");
        assert_eq!((occupied_bins([0.9].iter(), 40), occupied_bins([].iter(), 40)), (38..39, 0..0));
    }

    #[test]
    fn random_pairs_are_of_two_documents_and_similar_pairs_are_compared() {
        let analysis = CosDist { random_pairs: 500, ..CosDist::default() };
        let whole = data();
        let drawn = analysis.random(&whole, 1);
        assert!(drawn.iter().all(|&(one, other)| whole.rows[one].document != whole.rows[other].document));
        let same = |ids: &[u32]| EncodedPair { line: 1, first: ids.into(), second: ids.into() };
        let pairs = vec![same(&[7, 8]), same(&[9]), same(&[])];
        let found = analysis.compute(&ToyModel::new(), &AnalysisData { pairs, ..whole }, 1).expect("computed");
        assert!((found[0].number(&["similar"], "mean") - 1.0).abs() < 1e-9);
        assert_eq!((found[0].number(&["similar"], "count"), found[0].number(&["random"], "count")), (2.0, 500.0));
        assert!((found[1].number(&["similar", "0.9750"], "share") - 1.0).abs() < 1e-12);
        let one = AnalysisData { rows: rows(&[(0, &[7]), (0, &[8])]), ..AnalysisData::default() };
        let found = analysis.compute(&ToyModel::new(), &one, 1).expect("computed");
        assert!(found[0].number(&["random"], "mean").is_nan());
    }
}
