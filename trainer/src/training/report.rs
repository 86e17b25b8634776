//! What a run says of itself.

use std::collections::BTreeMap;
use std::fmt;

use schemas::ordinal::Step;
use serde::Serialize;

use crate::objectives::expectation::Expectation;
use crate::objectives::figure::FigureName;

/// What a run reports: one line for people ([`Display`](fmt::Display)), one JSON object for machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Report {
    /// After the first step of a run.
    Start(StartReport),
    /// After some steps.
    Train(StepReport),
    /// After a look at the valid split.
    Valid(ValidReport),
}

/// What a run began with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartReport {
    /// Steps done: one.
    pub step: Step,
    /// Whether all weights were drawn. Otherwise nothing is expected.
    pub random: bool,
    /// Each term over the first step, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// What those that have a law should be.
    pub expected: BTreeMap<String, Expectation>,
    /// Those that are not.
    pub surprises: Vec<Surprise>,
}

/// Training since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// What was learned. The same command reports the same, to the bit, on an equal number of threads.
    #[serde(flatten)]
    pub figures: Figures,
    /// Running BLAKE3 over the digests of all batches consumed.
    pub batch_hash: String,
    /// How fast: no two runs agree.
    #[serde(flatten)]
    pub speed: Speed,
}

/// A first value that is not what guessing costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Surprise {
    /// `objective` or `objective.term`.
    pub term: String,
    /// What it is.
    pub value: f64,
    /// What it should be.
    #[serde(flatten)]
    pub expected: Expectation,
    /// What usually causes it.
    pub hint: &'static str,
}

/// The numbers of the steps since the last report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Steps done.
    pub step: Step,
    /// The sum of the terms with their weights.
    pub loss: f64,
    /// Each term in nats or its own unit, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    pub metrics: BTreeMap<String, f64>,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Mean norm of the gradient before clipping; a skipped step counts as 0.
    pub grad_norm: f64,
    /// Steps skipped since the run began.
    pub skipped: u64,
}

/// Numbers that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Real tokens (no padding) per second of wall time.
    pub tokens_per_s: f64,
    /// Share of the device's peak that the model needed; CUDA only.
    pub mfu: Option<f64>,
    /// Share of wall time spent waiting for batches.
    pub wait: f64,
}

/// The valid split, in eval mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidReport {
    /// Steps done.
    pub step: Step,
    /// Rows looked at.
    pub rows: u64,
    /// The sum of the terms with their weights.
    pub loss: f64,
    /// Each term, by `objective` or `objective.term`.
    pub terms: BTreeMap<String, f64>,
    /// By `objective.metric`.
    pub metrics: BTreeMap<String, f64>,
    /// Plain masked language modelling on the fixed mask; none without a head that predicts tokens.
    pub mlm: Option<MlmReport>,
    /// Seconds it took.
    pub seconds: f64,
}

/// The yardstick: one fixed mask for all runs on the same data, beside what needs no context at all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MlmReport {
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Share of masked tokens whose best guess is right.
    pub accuracy: f64,
    /// ln of the vocabulary's size: where an untrained model begins.
    pub ln_vocab: f64,
    /// Entropy of the masked targets' own distribution: what no model without context can beat.
    pub unigram_entropy: f64,
    /// Their cross-entropy under the training split's unigram distribution: what a model without context reaches.
    pub unigram_cross_entropy: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(report) => report.fmt(f),
            Self::Train(report) => report.fmt(f),
            Self::Valid(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for StartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.random { "at random" } else { "from weights it was given" };
        write!(f, "step {}  began {how} with {}", self.step, list(&self.terms))
    }
}

impl fmt::Display for StepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { step, loss, terms, lr, grad_norm, skipped, .. } = &self.figures;
        write!(f, "step {step}  loss {loss:.4} ({})  lr {lr:.1e}  norm {grad_norm:.2}", list(terms))?;
        write!(f, "  {}", rate(self.speed.tokens_per_s))?;
        if let Some(mfu) = self.speed.mfu {
            write!(f, "  mfu {:.0} %", 100.0 * mfu)?;
        }
        write!(f, "  wait {:.1} %", 100.0 * self.speed.wait)?;
        if *skipped > 0 {
            write!(f, "  skipped {skipped}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ValidReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}  valid loss {:.4} ({})", self.step, self.loss, list(&self.terms))?;
        if let Some(mlm) = &self.mlm {
            write!(f, "  valid/mlm {:.4} (ln V {:.2}, unigram {:.2})", mlm.loss, mlm.ln_vocab, mlm.unigram_entropy)?;
        }
        Ok(())
    }
}

/// Figures as reports name them.
pub(crate) fn written(figures: BTreeMap<FigureName, f64>) -> BTreeMap<String, f64> {
    figures.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn list(terms: &BTreeMap<String, f64>) -> String {
    terms.iter().map(|(name, value)| format!("{name} {value:.4}")).collect::<Vec<_>>().join(", ")
}

fn rate(tokens_per_s: f64) -> String {
    if tokens_per_s >= 1e6 {
        format!("{:.2} M tok/s", tokens_per_s / 1e6)
    } else if tokens_per_s >= 1e4 {
        format!("{:.0} k tok/s", tokens_per_s / 1e3)
    } else {
        format!("{tokens_per_s:.0} tok/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line_and_one_object() {
        let report = Report::Train(StepReport {
            figures: Figures {
                step: Step(1200),
                loss: 3.41,
                terms: [("mlm".to_owned(), 2.9), ("tc".to_owned(), 0.51)].into(),
                metrics: [("mlm.accuracy".to_owned(), 0.4)].into(),
                lr: 1e-4,
                grad_norm: 0.8,
                skipped: 0,
            },
            batch_hash: "ab".to_owned(),
            speed: Speed { tokens_per_s: 745_000.0, mfu: Some(0.44), wait: 0.003 },
        });
        assert_eq!(
            report.to_string(),
            "step 1200  loss 3.4100 (mlm 2.9000, tc 0.5100)  lr 1.0e-4  norm 0.80  745 k tok/s  mfu 44 %  wait 0.3 %"
        );
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!((&json["kind"], &json["terms"]["tc"], &json["step"]), (&"train".into(), &0.51.into(), &1200.into()));
    }
}
