//! The loss of each row by itself.

use std::collections::BTreeSet;

use schemas::Batch;
use schemas::ordinal::RowIndex;
use trainer_plan::Error;

use crate::model::host_batch::HostBatch;
use crate::training::metric_accumulator::MetricAccumulator;
use crate::training::step::Trainer;

impl Trainer {
    /// What the model makes of each row alone, without dropout and without learning: the sum of the terms with their weights,
    /// each over the row's own positions. Objectives that contrast rows with one another say nothing of one row, and are left
    /// out. One pass and one wait for each row: for who looks for a culprit.
    pub fn row_losses(&self, batches: &[Batch]) -> Result<Vec<(RowIndex, f64)>, Error> {
        self.parameters().round()?;
        let mut losses = Vec::new();
        for batch in batches {
            for at in 0..batch.rows() {
                let row = batch.slice(at, 1);
                let mut tally = MetricAccumulator::new(self.device());
                let couples = |name: &str| self.plan().objectives[name].batch_coupled();
                let row_alone = HostBatch::new(&row, self.networks())?;
                self.evaluate(&row_alone, &BTreeSet::new(), |member| !couples(&member.name), &mut tally)?;
                let (read, _) = tally.read(self.ranks(), &[])?;
                losses.push((row.first_row(), read.loss));
            }
        }
        Ok(losses)
    }
}
