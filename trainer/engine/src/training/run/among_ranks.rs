//! Agreements of ranks: stop requests, the same start, early stopping, the end.

use telemetry::training::{EarlyStopReport, ValidReport};
use trainer_plan::Error;
use trainer_plan::stop_request::StopRequest;

use super::Run;
use crate::training::checkpoint::{self, Snapshot};
use crate::training::early_stop::EarlyStop;
use crate::training::interfaces::{Host, RunOutcome};

impl Run<'_> {
    /// Stop request of any rank.
    pub(super) fn stop(&self, host: &dyn Host) -> Result<Option<StopRequest>, Error> {
        self.trainer.ranks().stop(host.stop())
    }

    /// Reads the newest checkpoint. Rank 0 finds it, and sets damaged ones aside; the others read it and change
    /// nothing.
    pub(super) fn newest_checkpoint(&self) -> Result<Option<(String, Snapshot)>, Error> {
        let ranks = self.trainer.ranks();
        let mut found = None;
        let step = ranks.decide("the newest checkpoint", || {
            found = checkpoint::newest(self.store)?;
            Ok(found.as_ref().map(|(_, snapshot)| snapshot.state.step))
        })?;
        if ranks.share().is_first() {
            return Ok(found);
        }
        step.map(|step| checkpoint::pick(self.store, Some(step))).transpose()
    }

    /// Fails if ranks begin with different weights or positions, as they do if they do not see the same files.
    pub(super) fn check_same_start(&self) -> Result<(), Error> {
        let ranks = self.trainer.ranks();
        if ranks.share().ranks() == 1 {
            return Ok(());
        }
        let mut hasher = blake3::Hasher::new();
        for (name, weight) in self.trainer.weights()? {
            hasher.update(name.as_bytes());
            for piece in weight.pieces()? {
                hasher.update(piece);
            }
        }
        let state = self.resumed.as_ref().map(|resumed| &resumed.state);
        hasher.update(&serde_json::to_vec(&state).map_err(|error| Error::Foreign(error.into()))?);
        let own = hasher.finalize();
        let all = ranks.gather("first weights", own.as_bytes())?;
        match all.iter().position(|other| other != own.as_bytes()) {
            None => Ok(()),
            Some(rank) => Err(Error::Config(format!(
                "rank {rank} and {} begin with different weights: all hosts need the same files in {} and, for a new run, the \
                 same folders `init_from`",
                ranks.share(),
                self.store.place("")
            ))),
        }
    }

    /// Compares a validation with those before it, on rank 0: other ranks may have had no batch of it. Returns the
    /// report if the run ends with it.
    pub(super) fn compare_validation(&mut self, report: &ValidReport) -> Result<Option<EarlyStopReport>, Error> {
        let done = self.trainer.done();
        let (Some(stop), Some(config)) = (&mut self.early_stop, self.trainer.plan().validation.stop.clone()) else {
            return Ok(None);
        };
        let ranks = self.trainer.ranks();
        let (saved, report) = ranks.decide("early stopping", || {
            let report = stop.compare(done, report)?;
            Ok((stop.saved(), report))
        })?;
        if !ranks.share().is_first() {
            *stop = EarlyStop::new(config, saved);
        }
        Ok(report)
    }

    /// Waits for the other ranks at the end of the run, or tells them that this rank fails.
    pub(super) fn leave_ranks(&self, outcome: Result<RunOutcome, Error>) -> Result<RunOutcome, Error> {
        let ranks = self.trainer.ranks();
        match outcome {
            Ok(outcome) => ranks.finish().map(|()| outcome),
            Err(error) => {
                ranks.abort(&error.to_string());
                Err(error)
            }
        }
    }
}
