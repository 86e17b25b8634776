//! Nearest neighbors of a word in context.
//!
//! # What
//! Finds the words of a text whose contextual vectors are closest to that of a word in a given sentence.
//!
//! # Why
//! The shortest look at what a model encodes: are the neighbors of `bank` in a sentence about a river about rivers?
//!
//! # Definition
//! The vector of a word is the mean of the last hidden states of its tokens. Neighbors are ranked by cosine. If the text
//! has more than `max_words` words, a sample is searched. Special tokens are no words.
//!
//! # Reference
//! Peters et al. 2018, "Deep contextualized word representations", table 4.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind, EncodedSentence};
use crate::error::Error;
use crate::findings::FindingTable;
use crate::measure::{cosine, dot, unit};
use crate::model::{EncoderModel, Vectors};
use crate::random::Dice;
use crate::words::{RowWord, words};

/// Words of the context on each side.
const CONTEXT: usize = 6;

/// Nearest neighbors of a word. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Neighbors {
    /// Word of the sentences. Default: the last word of each.
    pub word: String,
    /// Neighbors to show for each sentence.
    pub top: usize,
    /// Most words of the text to search.
    pub max_words: usize,
}

impl Default for Neighbors {
    fn default() -> Self {
        Self { word: String::new(), top: 10, max_words: 50_000 }
    }
}

/// Neighbor: its row, its word and the cosine.
#[derive(Clone, Copy, Debug)]
struct Found {
    row: usize,
    word: usize,
    cosine: f64,
}

impl Analysis for Neighbors {
    fn summary(&self) -> &'static str {
        "Words of a text with the most similar vectors to a word of a sentence"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows, DataKind::Sentences]
    }

    fn problems(&self) -> Vec<String> {
        let zeros = [("top", self.top), ("max_words", self.max_words)].into_iter().filter(|(_, value)| *value == 0);
        zeros.map(|(name, _)| format!("`{name}` must be at least 1")).collect()
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let facts = model.facts();
        let queries = self.queries(model, &data.sentences)?;
        let row_words: Vec<Vec<RowWord>> = data.rows.iter().map(|row| words(&facts.vocab, &row.ids)).collect();
        let total = row_words.iter().map(Vec::len).sum();
        let mut chosen = Dice::new(seed, "words").subset(total, self.max_words).into_iter().peekable();
        let rows: Vec<&[u32]> = data.rows.iter().map(|row| row.ids.as_slice()).collect();
        let mut found: Vec<Vec<Found>> = vec![Vec::new(); queries.len()];
        let mut passed = 0;
        model.encode(&rows, &[facts.layers], &mut |row, states| {
            for (word, of_row) in row_words[row].iter().enumerate() {
                if chosen.next_if_eq(&(passed + word)).is_none() {
                    continue;
                }
                let vector = word_vector(&states[0], of_row);
                for (query, found) in queries.iter().zip(&mut found) {
                    insert(found, self.top, Found { row, word, cosine: cosine(query, &vector) });
                }
            }
            passed += row_words[row].len();
        })?;
        let keys = &["sentence", "rank", "word", "context"];
        let mut table = FindingTable::new("neighbors", keys, &["cosine"], &[]);
        for (number, found) in found.iter().enumerate() {
            for (rank, found) in found.iter().enumerate() {
                let words = &row_words[found.row];
                let keys = [(number + 1).to_string(), (rank + 1).to_string()];
                let texts = [words[found.word].text.clone(), context(words, found.word)];
                table.push(keys.into_iter().chain(texts), [found.cosine]);
            }
        }
        Ok(vec![table])
    }
}

impl Neighbors {
    /// Returns the unit vector of the word of each sentence.
    fn queries(&self, model: &dyn EncoderModel, sentences: &[EncodedSentence]) -> Result<Vec<Vec<f64>>, Error> {
        let facts = model.facts();
        let mut asked = Vec::with_capacity(sentences.len());
        for sentence in sentences {
            let all = words(&facts.vocab, &sentence.ids);
            let is_it = |word: &&RowWord| word.text.to_lowercase() == self.word.to_lowercase();
            let found = if self.word.is_empty() { all.last() } else { all.iter().find(is_it) };
            let Some(found) = found else {
                let known: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
                return Err(Error::Usage(format!(
                    "--word `{}`: the sentence `{}` has no such word; its words are: {}",
                    self.word,
                    sentence.text,
                    known.join(" ")
                )));
            };
            asked.push(found.clone());
        }
        let ids: Vec<&[u32]> = sentences.iter().map(|sentence| sentence.ids.as_slice()).collect();
        let mut queries = Vec::with_capacity(sentences.len());
        model.encode(&ids, &[facts.layers], &mut |number, states| {
            queries.push(unit(&word_vector(&states[0], &asked[number])));
        })?;
        debug_assert!(queries.iter().all(|query| dot(query, query) < 1.0 + 1e-9), "unit vectors");
        Ok(queries)
    }
}

/// Returns the mean of the states of a word's tokens. Position 0 of the states is `[CLS]`.
fn word_vector(states: &Vectors, word: &RowWord) -> Vec<f64> {
    let mut mean = vec![0.0; states.get(0).len()];
    for at in word.range.clone() {
        mean.iter_mut().zip(states.get(at + 1)).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    mean.iter().map(|sum| sum / word.range.len() as f64).collect()
}

/// Inserts a neighbor into a list of at most `top`, the most similar first.
fn insert(list: &mut Vec<Found>, top: usize, found: Found) {
    let place = list.partition_point(|known| known.cosine >= found.cosine);
    if place < top {
        list.insert(place, found);
        list.truncate(top);
    }
}

/// Returns the words around a word.
fn context(words: &[RowWord], at: usize) -> String {
    let text = |words: &[RowWord]| words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let before = text(&words[at.saturating_sub(CONTEXT)..at]);
    let after = text(&words[at + 1..words.len().min(at + 1 + CONTEXT)]);
    format!("{before} [{}] {after}", words[at].text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ToyModel, rows};

    fn sentence(ids: &[u32]) -> EncodedSentence {
        EncodedSentence { text: "a sentence".to_owned(), ids: ids.to_vec() }
    }

    #[test]
    fn the_word_itself_in_the_same_context_is_the_nearest() {
        // Ids of 30 and more continue a word: 8 and 31 are one.
        let rows = rows(&[(0, &[5, 6, 7]), (1, &[9, 8, 31, 10]), (2, &[12, 13, 1])]);
        let data = AnalysisData { rows, sentences: vec![sentence(&[9, 8, 31, 10])], ..AnalysisData::default() };
        let analysis = Neighbors { word: "W8w31".to_owned(), top: 3, ..Neighbors::default() };
        let table = &analysis.compute(&ToyModel::new(), &data, 1).expect("computed")[0];
        let first = &table.rows[0];
        assert_eq!(first.keys, ["1", "1", "w8w31", "w9 [w8w31] w10"]);
        assert!((first.values[0] - 1.0).abs() < 1e-9 && table.rows.len() == 3);
        assert!(table.rows.is_sorted_by(|one, other| one.values[0] >= other.values[0]));
        let all = Neighbors { top: 99, ..analysis.clone() };
        let table = &all.compute(&ToyModel::new(), &data, 1).expect("computed")[0];
        assert_eq!(table.rows.len(), 8, "the unknown token is no word");
        let error = Neighbors { word: "x".to_owned(), ..analysis }.compute(&ToyModel::new(), &data, 1);
        let error = error.expect_err("the sentence has no such word").to_string();
        assert!(error.contains("`x`") && error.contains("w9 w8w31 w10"), "{error}");
    }
}
