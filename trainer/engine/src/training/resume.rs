//! A trainer to a snapshot and back.

use std::path::Path;
use std::sync::Arc;

use schemas::ordinal::Step;
use store::Store;
use tch::{Device, Tensor};
use telemetry::change::KeyChange;
use telemetry::training::Warning;
use trainer_plan::Error;
use trainer_plan::checkpoint::Beside;
use trainer_plan::checkpoint::{IdentityChange, State, Validated};
use trainer_plan::identity;

use crate::device::native;
use crate::device::native::copies::{Copies, Sources};
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors, overwrite};
use crate::hf;
use crate::model::networks::built::teach;
use crate::training::checkpoint::{self, Snapshot};
use crate::training::step::{Trainer, threads};

/// What writes checkpoints.
const PROGRAM: &str = concat!("cloze ", env!("CARGO_PKG_VERSION"));
/// The word table's name.
const WORD_TABLE: &str = "encoder.embeddings.word.weight";

/// The part of the state that the loop keeps.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// Rows of the stream consumed, over all ranks: where the next step begins.
    pub rows_consumed: u64,
    /// Real tokens of these rows.
    pub tokens_consumed: u64,
    /// Whether this step's validation is still to be done.
    pub validation_pending: bool,
    /// Running hash of the rows consumed.
    pub batch_hash: String,
    /// The steps that were skipped.
    pub skips: Vec<Step>,
    /// Seconds that the run has trained, where hours end it.
    pub trained_s: Option<f64>,
    /// Looks at the clock that it has passed.
    pub readings: usize,
    /// What the validation of this step found.
    pub validated: Option<Validated>,
}

impl Trainer {
    /// Copies everything that the next step depends on to the host, and waits neither for the device nor for the copies:
    /// who reads the snapshot does, and on the device the next update.
    pub fn snapshot(&mut self, position: Position) -> Result<Snapshot, Error> {
        let (accumulators, report) = self.tally.save();
        let (ring, guard) = self.guard.save();
        let skips = [("skipped.count", &self.skips.count), ("skipped.first", &self.skips.first)];
        let skips = skips.map(|(name, tensor)| (name.to_owned(), tensor));
        let state = State {
            step: self.done,
            rows_consumed: position.rows_consumed,
            tokens_consumed: position.tokens_consumed,
            validation_pending: position.validation_pending,
            batch_hash: position.batch_hash,
            data_content: self.plan().data_content.clone(),
            program: PROGRAM.to_owned(),
            libtorch: native::LIBTORCH.to_owned(),
            threads: threads(self.plan().train.threads),
            device: format!("{:?}", self.device()),
            report,
            skips: position.skips,
            guard,
            identity: self.plan().identity.clone(),
            files: std::collections::BTreeMap::new(),
            changes: self.changes.clone(),
            trained_s: position.trained_s,
            beside: Beside { readings: position.readings, spans: self.plan().amended.spans.len() },
        };
        let (first, resting) = (accumulators.len() + ring.len(), self.optimizer.state().chain(skips));
        let mut all: Vec<(String, &Tensor)> = accumulators.into_iter().chain(ring).chain(resting).collect();
        let state_tensors = all.len();
        all.extend(self.parameters().iter().map(|(name, weight)| (name.to_owned(), &weight.tensor)));
        let tensors: Vec<&Tensor> = all.iter().map(|(_, tensor)| *tensor).collect();
        let (changing, resting) = tensors.split_at(first);
        let (copied, copies) = tensors::copy_behind(Sources { changing, resting }, self.device())?;
        let mut named: Vec<(String, HostTensor)> = all.into_iter().map(|(name, _)| name).zip(copied).collect();
        let main = named.split_off(state_tensors).into_iter().collect();
        if let Some(copies) = copies {
            self.note_copies(copies);
        }
        Ok(Snapshot { state, main, optimizer: named.into_iter().collect(), validated: position.validated })
    }

    fn note_copies(&mut self, copies: Arc<Copies>) {
        if !copies.are_pinned() && !std::mem::replace(&mut self.lacks_pinned, true) {
            tracing::warn!(
                bytes = copies.total(),
                "this machine lends no pinned memory for checkpoints: each makes a step wait (is its memory full?)"
            );
        }
        self.copies.push(copies);
    }

    /// Lets the device finish copying what is about to change.
    pub(crate) fn pass_copies(&mut self) -> Result<(), Error> {
        self.copies.drain(..).try_for_each(|copies| copies.hold())
    }

    /// All weights on the host, by name.
    pub fn weights(&self) -> Result<HostTensors, Error> {
        self.parameters()
            .iter()
            .map(|(name, weight)| Ok((name.to_owned(), HostTensor::copy_of(&weight.tensor)?)))
            .collect()
    }

    /// Continues where a snapshot of this very run was taken. Returns what is not as it was then: what is worth a warning, and
    /// the keys that somebody has changed and was allowed to.
    ///
    /// # Errors
    /// [`Error::Identity`] if it was another run's.
    pub fn restore(&mut self, place: &str, snapshot: &Snapshot) -> Result<(Vec<Warning>, Vec<KeyChange>), Error> {
        let changed = self.check_identity(place, &snapshot.state)?;
        self.load(place, snapshot)?;
        let state = &snapshot.state;
        let noted = changed.iter().map(|key| IdentityChange { step: state.step, key: key.clone() });
        self.changes = state.changes.iter().cloned().chain(noted).collect();
        Ok((self.changes_since(state), changed))
    }

    /// The same of a snapshot that is known to be of this run, whatever was changed since.
    pub(crate) fn load(&mut self, place: &str, snapshot: &Snapshot) -> Result<(), Error> {
        self.pass_copies()?;
        let (state, device) = (&snapshot.state, self.device());
        let refuse = |problem| Error::Checkpoint { path: place.into(), problem };
        let (steps, rows, each) = (state.step.0, state.rows_consumed, self.plan().train.global_batch_size);
        if steps.checked_mul(each) != Some(rows) {
            return Err(refuse(format!(
                "{steps} steps took {rows} rows, and {each} rows a step make {}: it does not say where in the data it is",
                steps.saturating_mul(each)
            )));
        }
        for (name, weight) in self.parameters.iter() {
            overwrite(&weight.tensor, &snapshot.main, name, device).map_err(refuse)?;
        }
        self.optimizer.load(&snapshot.optimizer, device).map_err(refuse)?;
        self.tally.load(&snapshot.optimizer, &state.report).map_err(refuse)?;
        self.guard.load(&snapshot.optimizer, &state.guard, device).map_err(refuse)?;
        overwrite(&self.skips.count, &snapshot.optimizer, "skipped.count", device).map_err(refuse)?;
        overwrite(&self.skips.first, &snapshot.optimizer, "skipped.first", device).map_err(refuse)?;
        self.done = state.step;
        Ok(())
    }

    /// What has changed around a run, with what that does to its numbers.
    fn changes_since(&self, state: &State) -> Vec<Warning> {
        let warning = |topic: &str, message: String, then: &str, now: &str| Warning {
            topic: topic.to_owned(),
            message,
            hint: Some(format!("`{then}` then, `{now}` now")),
        };
        let rounding = |what: &str| format!("another {what}: results will differ in the last bits");
        let (now, device) = (threads(self.plan().train.threads), format!("{:?}", self.device()));
        let mut warnings = Vec::new();
        if state.program != PROGRAM {
            let message = "another version of the program: results may differ in the last bits".to_owned();
            warnings.push(warning("program", message, &state.program, PROGRAM));
        }
        if state.libtorch != native::LIBTORCH {
            warnings.push(warning("libtorch", rounding("libtorch"), &state.libtorch, native::LIBTORCH));
        }
        if self.device() == Device::Cpu && state.device == device && state.threads != now {
            let (then, now) = (state.threads.to_string(), now.to_string());
            warnings.push(warning("threads", rounding("number of threads"), &then, &now));
        }
        if state.device != device {
            let message = "the run has moved to another device, which adds up in another order and draws other dropout and \
                           samples: it continues as the same run, not to the bit";
            warnings.push(warning("device", message.to_owned(), &state.device, &device));
        }
        warnings
    }

    /// The keys of the identity that are others now, all of them allowed to.
    fn check_identity(&self, place: &str, state: &State) -> Result<Vec<KeyChange>, Error> {
        let plan = self.plan();
        let allowed = &plan.amended.allowed;
        identity::check_allowed(allowed).map_err(Error::Config)?;
        let (changed, mut keys) = plan.identity.changes(&state.identity, allowed);
        if state.data_content != plan.data_content {
            keys.push(format!("data content: {} → {}", state.data_content, plan.data_content));
        }
        if keys.is_empty() {
            return Ok(changed);
        }
        let ways = identity::ways_on(&plan.identity, &state.identity);
        Err(Error::Identity { checkpoint: place.into(), keys: keys.join(", "), ways })
    }

    /// Gives a run that begins the weights that its plan names: `train.init_from` for the main encoder and for the heads and
    /// generators that the folder has, `networks.NAME.init_from` for a generator, all of it, and last `encoder.word_init` for
    /// the word table. What they leave out stays as it was drawn. Teachers are copies of what results.
    pub fn begin(&mut self) -> Result<(), Error> {
        let plan = self.plan().clone();
        let networks = plan.used_networks();
        if let Some(folder) = &plan.train.init_from {
            let saved = saved(folder, &self.main_target())?;
            let is_copy = |name: &str| {
                let of = name.split('.').next().and_then(|network| networks.get(network));
                of.is_some_and(|network| network.copies_main())
            };
            self.take(folder, &saved, |name| !is_copy(name))?;
        }
        for (name, network) in &networks {
            if let Some(folder) = network.init() {
                self.begin_network(name, folder)?;
            }
        }
        if let Some(folder) = &plan.encoder.word_init {
            let saved = saved(folder, &self.main_target())?;
            self.take(folder, &saved, |weight| weight == WORD_TABLE)?;
        }
        teach(&networks, self.parameters());
        Ok(())
    }

    /// Gives a network next to the main one all its weights from a folder that has it.
    fn begin_network(&self, name: &str, folder: &Path) -> Result<(), Error> {
        let refuse = |problem| Err(Error::Checkpoint { path: folder.to_owned(), problem });
        let Some(target) = trainer_plan::hf::Target::beside(self.plan(), name) else {
            return refuse(format!("network `{name}` has no weights; drop `networks.{name}.init_from`"));
        };
        let mut saved = saved(folder, &target)?;
        let prefix = format!("{name}.");
        let own = || self.parameters.iter().map(|(weight, _)| weight).filter(|weight| weight.starts_with(&prefix));
        share_back(&mut saved, own());
        if let Some(missing) = own().find(|weight| !saved.contains_key(*weight)) {
            return refuse(format!("it has no `{missing}`, which `networks.{name}.init_from` must give"));
        }
        self.take(folder, &saved, |weight| weight.starts_with(&prefix))
    }

    fn main_target(&self) -> trainer_plan::hf::Target<'_> {
        trainer_plan::hf::Target::main(self.plan(), self.parameters.iter().map(|(name, _)| name))
    }

    /// Overwrites the weights that `wants` names. Only heads and other networks may be missing among the `saved`.
    fn take(&self, folder: &Path, saved: &HostTensors, wants: impl Fn(&str) -> bool) -> Result<(), Error> {
        for (name, weight) in self.parameters.iter().filter(|(name, _)| wants(name)) {
            if !name.starts_with("encoder.") && !saved.contains_key(name) {
                tracing::info!(name, "not among the first weights, drawn afresh");
                continue;
            }
            overwrite(&weight.tensor, saved, name, self.device())
                .map_err(|problem| Error::Checkpoint { path: folder.to_owned(), problem })?;
        }
        Ok(())
    }
}

/// Where a finished generator shared a table with the main network, it has no copy of its own: this makes one of the main
/// network's for each weight of `own` that needs it.
fn share_back<'a>(saved: &mut HostTensors, own: impl Iterator<Item = &'a str>) {
    for weight in own.filter(|weight| weight.contains(".encoder.embeddings.")) {
        let shared = weight.split_once('.').and_then(|(_, rest)| saved.get(rest)).cloned();
        if let Some(table) = shared.filter(|_| !saved.contains_key(weight)) {
            saved.insert(weight.to_owned(), table);
        }
    }
}

/// The weights of a model that `transformers` saved, for that target, of a checkpoint, or of a run's newest checkpoint.
fn saved(folder: &Path, target: &trainer_plan::hf::Target<'_>) -> Result<HostTensors, Error> {
    if !folder.is_dir() {
        let hint = "`init_from` names a run, a checkpoint or a folder of `transformers`";
        return Err(Error::Config(format!("{}: no folder is here to begin from; {hint}", folder.display())));
    }
    if folder.join("main.safetensors").is_file() {
        // A checkpoint has more than the model that `transformers` may see in the same folder.
        tensors::read(&folder.join("main.safetensors"))
    } else if hf::is_model(folder) {
        hf::import(folder, target)
    } else if folder.join("checkpoints").is_dir() {
        checkpoint::pick(&Store::existing(folder)?, None).map(|(_, snapshot)| snapshot.main)
    } else {
        tensors::read(&folder.join("main.safetensors"))
    }
}

#[cfg(test)]
mod tests;
