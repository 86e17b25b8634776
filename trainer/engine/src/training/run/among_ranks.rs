//! Agreements of ranks: stop requests, the same start, early stopping, the end.

use std::thread::sleep;
use std::time::{Duration, Instant};

use telemetry::training::{EarlyStopReport, ValidReport};
use trainer_plan::Error;
use trainer_plan::stop_request::StopRequest;

use super::Run;
use crate::training::checkpoint::{self, Snapshot};
use crate::training::early_stop::EarlyStop;
use crate::training::interfaces::{Host, RunOutcome};

/// Interval at which rank 0 tells the others that it still writes a checkpoint.
const NEWS: Duration = Duration::from_millis(500);
/// Interval of looks for the end of a write.
const LOOK: Duration = Duration::from_millis(5);

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

    /// Fails if the weights of a rank differ from those of the others. Every rank computes the same updates, but on its own
    /// processor and memory.
    pub(super) fn check_same_weights(&self) -> Result<(), Error> {
        let ranks = self.trainer.ranks();
        if ranks.share().ranks() == 1 {
            return Ok(());
        }
        let own = self.trainer.checksums()?;
        let bytes: Vec<u8> = own.iter().flat_map(|(_, sum)| sum.to_le_bytes()).collect();
        let all = ranks.gather("checksums of the weights", &bytes)?;
        let agreeing = |sums: &Vec<u8>| all.iter().filter(|other| *other == sums).count();
        // The first of equally frequent ones.
        let usual = all.iter().rev().max_by_key(|sums| agreeing(sums)).expect("there are ranks");
        let Some(rank) = all.iter().position(|sums| sums != usual) else { return Ok(()) };
        let differs = all[rank].chunks(8).zip(usual.chunks(8)).position(|(one, other)| one != other);
        let weight = differs.and_then(|at| own.get(at)).map_or("", |(name, _)| name);
        let found = agreeing(usual);
        Err(Error::Foreign(
            format!(
                "rank {rank} has other weights than {found} of {} ranks after step {}, first in `{weight}`: its processor or \
                 device computes differently, or its memory is faulty; the checkpoint before is not affected: continue on hosts \
                 of one kind, without that of rank {rank}",
                all.len(),
                self.trainer.done()
            )
            .into(),
        ))
    }

    /// Waits on all ranks until rank 0 has written the last checkpoint. The others learn at short intervals that it is still
    /// being written, because a store may need longer than a rank may be silent.
    pub(super) fn wait_for_writer(&self, host: &dyn Host) -> Result<(), Error> {
        let ranks = self.trainer.ranks();
        if ranks.share().ranks() == 1 {
            return Ok(());
        }
        let is_writing = || {
            let begun = Instant::now();
            while host.is_writing() && begun.elapsed() < NEWS {
                sleep(LOOK);
            }
            Ok(host.is_writing())
        };
        while ranks.decide("the write of the checkpoint", is_writing)? {}
        Ok(())
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
