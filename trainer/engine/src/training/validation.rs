//! Validation on the validation split, in eval mode, without effect on the training state.
//!
//! Every objective reports its terms and metrics. In addition, `valid/mlm` is plain masked language modelling on one
//! fixed mask view, [`VALID_MLM`], for every run, so that runs are comparable on the same masked tokens. It uses the
//! first head that predicts tokens, in the order of the objectives. A run without such a head has no `valid/mlm`. A
//! network that never reads `[MASK]` in training (COCO-LM's) has not seen such a view: do not compare its value with
//! other networks.

use std::collections::BTreeSet;
use std::time::Instant;

use schemas::Batch;
use schemas::columns::{IGNORE, LABELS};
use telemetry::training::{MlmReport, ValidReport};
use trainer_plan::Error;
use trainer_plan::metric_name::MetricName;
use trainer_plan::networks::MAIN;
use trainer_plan::pass::Pass;
use trainer_plan::requirements::VALID_MLM;

use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::objectives::masked_lm;
use crate::objectives::masked_lm::Prediction;
use crate::training::interfaces::ValidationScorer;
use crate::training::metric_accumulator::{Mean, MetricAccumulator, MetricReading, PendingAdditions, fetch, written};
use crate::training::predict::row_scores;
use crate::training::process_group::ProcessGroup;
use crate::training::step::{Trainer, to_u64};

/// Validation in progress.
#[derive(Debug)]
pub(crate) struct Validation {
    tally: MetricAccumulator,
    // Empty without a head that predicts tokens.
    extra: BTreeSet<Pass>,
    loss: Mean,
    accuracy: Mean,
    // Occurrences of each id among the masked targets.
    targets: Vec<u64>,
    rows: u64,
    started: Instant,
}

impl Validation {
    /// Starts a validation of the current weights.
    pub(crate) fn new(trainer: &Trainer) -> Result<Self, Error> {
        trainer.parameters().round()?;
        let extra =
            if trainer.token_head().is_some() { BTreeSet::from([Pass::new(MAIN, VALID_MLM)]) } else { BTreeSet::new() };
        let targets = vec![0; trainer.plan().vocab.size as usize];
        let device = trainer.device();
        let loss = Mean::new(device);
        let accuracy = Mean::new(device);
        let tally = MetricAccumulator::new(device);
        Ok(Self { tally, extra, loss, accuracy, targets, rows: 0, started: Instant::now() })
    }

    /// Adds one batch. `scorer` gets its predictions.
    pub(crate) fn add(
        &mut self,
        trainer: &Trainer,
        batch: &Batch,
        scorer: Option<&mut dyn ValidationScorer>,
    ) -> Result<(), Error> {
        let rows = batch;
        let batch = HostBatch::new(batch, trainer.networks())?;
        let forward = trainer.evaluate(&batch, &self.extra, |_| true, &mut self.tally)?;
        self.rows += batch.rows() as u64;
        if !self.extra.is_empty() {
            self.add_mlm(trainer, &forward)?;
        }
        if let Some(scorer) = scorer {
            let scores = row_scores(trainer, scorer.objective(), &forward)?;
            scorer.add(rows, scores).map_err(Error::Foreign)?;
        }
        Ok(())
    }

    fn add_mlm(&mut self, trainer: &Trainer, forward: &Forward<'_>) -> Result<(), Error> {
        let _guard = tch::no_grad_guard();
        let predicted = forward.predicted(VALID_MLM);
        let hidden_btd = &forward.encoded(MAIN, VALID_MLM).hidden_btd;
        let hidden_nd = Forward::gather(hidden_btd, &predicted.positions_n);
        let head = trainer.token_head().expect("a head was found when the validation began");
        let scored = head.score(&hidden_nd, &predicted.targets_n, |_| {});
        let Prediction { sum, hits } = masked_lm::of_scored(&scored, &predicted.targets_n, None);
        let mut sums = PendingAdditions::default();
        self.loss.add(&sum, predicted.count as f64, &mut sums);
        self.accuracy.add(&hits, predicted.count as f64, &mut sums);
        sums.settle()?;
        for &label in forward.batch().column(VALID_MLM, LABELS).values().iter().filter(|&&label| label != IGNORE) {
            self.targets[usize::try_from(label).expect("labels are ids")] += 1;
        }
        Ok(())
    }

    /// Returns the result, with the metrics of `scorer`. Waits for the device.
    pub(crate) fn finish(
        mut self,
        trainer: &Trainer,
        scorer: Option<Box<dyn ValidationScorer>>,
    ) -> Result<ValidReport, Error> {
        self.gather(trainer.ranks())?;
        let (MetricReading { loss, terms, metrics, .. }, _) = self.tally.read(trainer.ranks(), &[])?;
        let mlm = if self.extra.is_empty() || self.rows == 0 { None } else { Some(self.mlm(trainer)?) };
        let terms = written(terms);
        let mut metrics = written(metrics);
        if let Some(scorer) = scorer {
            let objective = scorer.objective().to_owned();
            for (name, value) in scorer.finish() {
                // An accuracy of the objective has the same value and is of every report.
                metrics.entry(MetricName::new(&objective, &name).to_string()).or_insert(value);
            }
        }
        let seconds = self.started.elapsed().as_secs_f64();
        Ok(ValidReport { rows: self.rows, loss, terms, metrics, mlm, seconds })
    }

    /// Sums the counts over all ranks. All ranks must decide by the sums, so that they decide the same.
    fn gather(&mut self, ranks: &dyn ProcessGroup) -> Result<(), Error> {
        let own = std::iter::once(&self.rows).chain(&self.targets);
        let mut counts: Vec<f64> = own.map(|&count| count as f64).collect();
        ranks.sum(&mut counts)?;
        for (count, sum) in std::iter::once(&mut self.rows).chain(&mut self.targets).zip(counts) {
            *count = to_u64(sum);
        }
        Ok(())
    }

    fn mlm(&self, trainer: &Trainer) -> Result<MlmReport, Error> {
        let (mut read, _) = fetch(trainer.ranks(), [&self.loss, &self.accuracy], &[])?;
        let mut next = || read.next().expect("fetch returns one number per mean");
        Ok(MlmReport {
            loss: next(),
            accuracy: next(),
            ln_vocab: f64::from(trainer.plan().vocab.size).ln(),
            unigram_cross_entropy: Some(&trainer.plan().vocab.unigram_log_probabilities)
                .filter(|counted| !counted.is_empty())
                .map(|counted| cross_entropy(&self.targets, counted)),
        })
    }
}

/// Mean of −ln p over the counted ids; 0 if there are none.
fn cross_entropy(counts: &[u64], log_probabilities: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().zip(log_probabilities).map(|(&count, log)| -(count as f64) * log).sum::<f64>() / total
}
