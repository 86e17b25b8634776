//! One vector for a text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::measure::wide;
use crate::model::EncoderModel;

/// Vector that stands for a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Representation {
    /// Last hidden state of the first token of the row, `[CLS]`.
    #[default]
    Cls,
    /// Mean of the last hidden states of all tokens between `[CLS]` and `[SEP]`.
    Mean,
}

impl Representation {
    /// Returns the vector of each text. A text without tokens has the mean of nothing, which is NaN.
    pub(crate) fn vectors(self, model: &dyn EncoderModel, texts: &[&[u32]]) -> Result<Vec<Vec<f64>>, Error> {
        let mut vectors = Vec::with_capacity(texts.len());
        model.encode(texts, &[model.facts().layers], &mut |text, states| {
            vectors.push(match self {
                Self::Cls => wide(states[0].get(0)),
                Self::Mean => {
                    let tokens = texts[text].len();
                    let mut mean = vec![0.0; states[0].get(0).len()];
                    for state in states[0].iter().skip(1).take(tokens) {
                        mean.iter_mut().zip(state).for_each(|(sum, value)| *sum += f64::from(*value));
                    }
                    mean.iter().map(|sum| sum / tokens as f64).collect()
                }
            });
        })?;
        Ok(vectors)
    }
}
