//! Loss of each row alone.

use std::collections::BTreeSet;

use schemas::Batch;
use schemas::ordinal::RowIndex;
use trainer_plan::Error;

use crate::model::host_batch::HostBatch;
use crate::training::metric_accumulator::MetricAccumulator;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

impl Trainer {
    /// Computes the loss of each row alone, in eval mode and without an update. The loss is the weighted sum of the
    /// terms, each over the positions of the row. Objectives that contrast rows with one another are excluded, because
    /// one row alone has no such loss. Each row costs one forward pass and one wait for the device, so use it only for
    /// diagnosis.
    pub fn row_losses(&self, batches: &[Batch]) -> Result<Vec<(RowIndex, f64)>, Error> {
        self.parameters().round()?;
        let mut losses = Vec::new();
        for batch in batches {
            for at in 0..batch.rows() {
                let row = batch.slice(at, 1);
                let mut tally = MetricAccumulator::new(self.device());
                let couples = |name: &str| self.plan().objectives[name].contrasted_rows().is_some();
                let row_alone = HostBatch::new(&row, self.networks())?;
                self.evaluate(&row_alone, &BTreeSet::new(), |member| !couples(&member.name), &mut tally)?;
                let (read, _) = tally.read(&SingleProcess, &[])?;
                losses.push((row.first_row(), read.loss));
            }
        }
        Ok(losses)
    }
}
