//! Conversion between a trainer and a snapshot, and initialization from `init_from`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemas::ordinal::Step;
use store::Store;
use tch::{Device, Tensor};
use telemetry::change::KeyChange;
use telemetry::training::Warning;
use trainer_plan::Error;
use trainer_plan::checkpoint::{IdentityChange, MAIN_FILE, SavedEarlyStop, SidecarState, State, Validated};
use trainer_plan::init_weights::{FolderFormat, missing_token_head};
use trainer_plan::run::resume_check::{check_resumed, misfit};

use crate::device::native;
use crate::device::native::copies::{Copies, Sources};
use crate::device::tensors;
use crate::device::tensors::{HostTensor, HostTensors, overwrite};
use crate::hf;
use crate::model::networks::built::copy_to_teacher;
use crate::training::checkpoint::{self, Snapshot};
use crate::training::moment_shards::gather_moments;
use crate::training::step::Trainer;

/// Name and version of the program, written to checkpoints.
const PROGRAM: &str = concat!("cloze ", env!("CARGO_PKG_VERSION"));
/// Name of the word embedding table.
const WORD_TABLE: &str = "encoder.embeddings.word.weight";

/// Part of the checkpoint state that the training loop holds.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// Rows of the stream consumed by all ranks, which is the first row of the next step.
    pub rows_consumed: u64,
    /// Real tokens of these rows.
    pub tokens_consumed: u64,
    /// Whether the validation of this step is still pending.
    pub validation_pending: bool,
    /// Running hash of the consumed rows.
    pub batch_hash: String,
    /// Skipped steps.
    pub skips: Vec<Step>,
    /// Seconds that the run has trained, if `train.max_hours` limits it.
    pub trained_s: Option<f64>,
    /// Number of recorded clock readings up to this step.
    pub readings: usize,
    /// Best validation so far, if `validation.stop` may end the run.
    pub early_stop: Option<SavedEarlyStop>,
    /// Result of the validation of this step.
    pub validated: Option<Validated>,
}

impl Trainer {
    /// Copies everything that the next step depends on to the host. Waits neither for the device nor for the copies.
    /// The reader of the snapshot waits for the copies; on the device, the next update waits for them.
    ///
    /// `moments` are those that the ranks share, from [`gather_moments`](Self::gather_moments).
    pub fn snapshot(&mut self, position: Position, moments: HostTensors) -> Result<Snapshot, Error> {
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
            threads: self.threads(),
            device: format!("{:?}", self.device()),
            report,
            skips: position.skips,
            guard,
            detectors: self.detectors.detectors.clone(),
            early_stop: position.early_stop,
            identity: self.plan().identity.clone(),
            files: std::collections::BTreeMap::new(),
            changes: self.changes.clone(),
            trained_s: position.trained_s,
            sidecars: SidecarState { readings: position.readings, spans: self.plan().amended.spans.len() },
        };
        let first = accumulators.len() + ring.len();
        let resting = self.optimizer.state().chain(skips);
        let mut all: Vec<(String, &Tensor)> = accumulators.into_iter().chain(ring).chain(resting).collect();
        let state_tensors = all.len();
        all.extend(self.parameters().iter().map(|(name, weight)| (name.to_owned(), &weight.tensor)));
        let tensors: Vec<&Tensor> = all.iter().map(|(_, tensor)| *tensor).collect();
        let (changing, resting) = tensors.split_at(first);
        let (copied, copies) = tensors::copy_behind(Sources { changing, resting }, self.device())?;
        let mut named: Vec<(String, HostTensor)> = all.into_iter().map(|(name, _)| name).zip(copied).collect();
        let main = named.split_off(state_tensors).into_iter().collect();
        if let Some(copies) = copies {
            self.track_copies(copies);
        }
        let optimizer = named.into_iter().chain(moments).collect();
        Ok(Snapshot { state, main, optimizer, validated: position.validated })
    }

    /// Returns the moments that the ranks share, on rank 0. All ranks must call it. Waits for the device if the ranks share
    /// moments.
    pub(crate) fn gather_moments(&self) -> Result<HostTensors, Error> {
        gather_moments(self.ranks(), &self.optimizer)
    }

    fn track_copies(&mut self, copies: Arc<Copies>) {
        if !copies.are_pinned() && !std::mem::replace(&mut self.lacks_pinned, true) {
            tracing::warn!(
                bytes = copies.total(),
                "no pinned memory for checkpoints: each checkpoint delays a step; check whether the host memory is full"
            );
        }
        self.copies.push(copies);
    }

    /// Makes the device finish the copies of checkpoints before it changes their sources.
    pub(crate) fn fence_copies(&mut self) -> Result<(), Error> {
        self.copies.drain(..).try_for_each(|copies| copies.ensure())
    }

    /// Copies all weights to the host, by name.
    pub fn weights(&self) -> Result<HostTensors, Error> {
        self.parameters()
            .iter()
            .map(|(name, weight)| Ok((name.to_owned(), HostTensor::copy_of(&weight.tensor)?)))
            .collect()
    }

    /// Restores a snapshot of this run. Returns warnings about changes of the environment, and the identity keys that
    /// were changed with permission.
    ///
    /// # Errors
    /// [`Error::Identity`] if the snapshot belongs to another run, [`Error::Config`] if it does not fit the changes.
    pub fn restore(&mut self, place: &str, snapshot: &Snapshot) -> Result<(Vec<Warning>, Vec<KeyChange>), Error> {
        let changed = check_resumed(self.plan(), place, &snapshot.state)?;
        self.load(place, snapshot).map_err(|error| match error {
            // The bytes were verified, so that a checkpoint that does not fit is a consequence of the changes.
            Error::Checkpoint { problem, .. } if !changed.is_empty() => misfit(place, &changed, &problem),
            error => error,
        })?;
        let state = &snapshot.state;
        let noted = changed.iter().map(|key| IdentityChange { step: state.step, key: key.clone() });
        self.changes = state.changes.iter().cloned().chain(noted).collect();
        Ok((self.changes_since(state), changed))
    }

    /// Restores a snapshot that is known to belong to this run, without the identity check.
    pub(crate) fn load(&mut self, place: &str, snapshot: &Snapshot) -> Result<(), Error> {
        self.fence_copies()?;
        let state = &snapshot.state;
        let device = self.device();
        let refuse = |problem| Error::Checkpoint { path: place.into(), problem };
        let steps = state.step.0;
        let rows = state.rows_consumed;
        let each = self.plan().train.global_batch_size;
        if steps.checked_mul(each) != Some(rows) {
            return Err(refuse(format!(
                "{steps} steps took {rows} rows, but {each} rows a step make {}; the position in the data \
                 is inconsistent",
                steps.saturating_mul(each)
            )));
        }
        for (name, weight) in self.parameters.iter() {
            overwrite(&weight.tensor, &snapshot.main, name, device).map_err(refuse)?;
        }
        self.optimizer.load(&snapshot.optimizer, device).map_err(refuse)?;
        self.tally.load(&snapshot.optimizer, &state.report).map_err(refuse)?;
        self.guard.load(&snapshot.optimizer, &state.guard, device).map_err(refuse)?;
        if !self.ranks().share().is_first() {
            // Rank 0 has the sums of all ranks.
            self.tally.clear();
            self.guard.ring.clear_losses();
        }
        self.detectors.detectors = state.detectors.clone();
        overwrite(&self.skips.count, &snapshot.optimizer, "skipped.count", device).map_err(refuse)?;
        overwrite(&self.skips.first, &snapshot.optimizer, "skipped.first", device).map_err(refuse)?;
        self.done = state.step;
        Ok(())
    }

    /// Returns warnings about changes of the program and device, with their effect on the results.
    fn changes_since(&self, state: &State) -> Vec<Warning> {
        let warning = |topic: &str, message: String, then: &str, now: &str| Warning {
            topic: topic.to_owned(),
            message,
            hint: Some(format!("`{then}` then, `{now}` now")),
        };
        let rounding = |what: &str| format!("{what} changed: results will differ in the last bits");
        let now = self.threads();
        let device = format!("{:?}", self.device());
        let mut warnings = Vec::new();
        if state.program != PROGRAM {
            let message = "version of the program changed: results may differ in the last bits".to_owned();
            warnings.push(warning("program", message, &state.program, PROGRAM));
        }
        if state.libtorch != native::LIBTORCH {
            warnings.push(warning("libtorch", rounding("libtorch"), &state.libtorch, native::LIBTORCH));
        }
        if self.device() == Device::Cpu && state.device == device && state.threads != now {
            let then = state.threads.to_string();
            let now = now.to_string();
            warnings.push(warning("threads", rounding("number of threads"), &then, &now));
        }
        if state.device != device {
            let message = "the run has moved to another device, which sums in another order and draws other dropout \
                           and samples: the run continues, but is not bit-identical";
            warnings.push(warning("device", message.to_owned(), &state.device, &device));
        }
        warnings
    }

    /// Initializes the weights of a new run as its plan names them, in this order:
    ///
    /// 1. `train.init_from` for the main encoder, and for the heads and generators that the folder has.
    /// 2. `networks.NAME.init_from` for all weights of a generator.
    /// 3. `encoder.word_init` for the word table.
    ///
    /// All other weights stay randomly initialized. Teachers are copies of the resulting weights.
    ///
    /// # Errors
    /// A folder that cannot be used is an error of the configuration.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.initialize().map_err(|error| match error {
            Error::Checkpoint { .. } => Error::Config(error.to_string()),
            error => error,
        })
    }

    fn initialize(&mut self) -> Result<(), Error> {
        let plan = self.plan().clone();
        let networks = plan.used_networks();
        if let Some(folder) = &plan.train.init_from {
            let mut saved = saved(folder, &self.main_target())?;
            self.adopt_pooler(&mut saved);
            self.adopt_token_head(folder, &mut saved)?;
            let is_copy = |name: &str| {
                let of = name.split('.').next().and_then(|network| networks.get(network));
                of.is_some_and(|network| network.copies_main())
            };
            self.load_into(folder, &saved, |name| !is_copy(name))?;
        }
        for (name, network) in &networks {
            if let Some(folder) = network.init() {
                self.init_network(name, folder)?;
            }
        }
        if let Some(folder) = &plan.encoder.word_init {
            let saved = saved(folder, &self.main_target())?;
            self.load_into(folder, &saved, |weight| weight == WORD_TABLE)?;
        }
        copy_to_teacher(&networks, self.parameters());
        Ok(())
    }

    /// Initializes all weights of a network other than the main one from a folder that has it.
    fn init_network(&self, name: &str, folder: &Path) -> Result<(), Error> {
        let refuse = |problem| Err(Error::Checkpoint { path: folder.to_owned(), problem });
        let Some(target) = trainer_plan::hf::Target::next_to(self.plan(), name) else {
            return refuse(format!("network `{name}` has no weights; remove `networks.{name}.init_from`"));
        };
        let mut saved = saved(folder, &target)?;
        let prefix = format!("{name}.");
        let own = || self.parameters.iter().map(|(weight, _)| weight).filter(|weight| weight.starts_with(&prefix));
        share_back(&mut saved, own());
        if let Some(missing) = own().find(|weight| !saved.contains_key(*weight)) {
            return refuse(format!("it has no weight `{missing}`, which `networks.{name}.init_from` must provide"));
        }
        self.load_into(folder, &saved, |weight| weight.starts_with(&prefix))
    }

    /// Gives the pooler of next sentence prediction to a head for labelled rows, as `transformers` does.
    fn adopt_pooler(&self, saved: &mut HostTensors) {
        for (name, _) in self.parameters.iter().filter(|(name, _)| self.plan().is_label_head(name)) {
            let Some(at) = name.find(".pooler.").filter(|_| !saved.contains_key(name)) else { continue };
            let other = saved.iter().find(|(other, _)| other.starts_with("heads.") && other.ends_with(&name[at..]));
            if let Some(pooler) = other.map(|(_, pooler)| pooler.clone()) {
                saved.insert(name.to_owned(), pooler);
            }
        }
    }

    /// Renames the weights of the heads that this run continues.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the folder has no such head.
    fn adopt_token_head(&self, folder: &Path, saved: &mut HostTensors) -> Result<(), Error> {
        for (name, _) in self.parameters.iter() {
            let Some(source) = self.plan().continued_weight(name) else { continue };
            let Some(weight) = saved.get(&source).cloned() else {
                let problem = missing_token_head(&source, part_of(name));
                return Err(Error::Checkpoint { path: folder.to_owned(), problem });
            };
            saved.insert(name.to_owned(), weight);
        }
        Ok(())
    }

    fn main_target(&self) -> trainer_plan::hf::Target<'_> {
        trainer_plan::hf::Target::main(self.plan(), self.parameters.iter().map(|(name, _)| name))
    }

    /// Overwrites the weights that `wants` selects. Only weights of heads and other networks may be missing in `saved`; the
    /// head of a labelled task is new if its shape is another one.
    fn load_into(&self, folder: &Path, saved: &HostTensors, wants: impl Fn(&str) -> bool) -> Result<(), Error> {
        let mut missing = BTreeMap::<&str, usize>::new();
        for (name, weight) in self.parameters.iter().filter(|(name, _)| wants(name)) {
            let is_other_head =
                |found: &HostTensor| self.plan().is_label_head(name) && !found.has_shape(&weight.tensor.size());
            if !name.starts_with("encoder.") && saved.get(name).is_none_or(is_other_head) {
                *missing.entry(part_of(name)).or_default() += 1;
                continue;
            }
            let refuse = |problem| Error::Checkpoint { path: folder.to_owned(), problem };
            overwrite(&weight.tensor, saved, name, self.device()).map_err(refuse)?;
            if !saved[name].is_finite()? {
                return Err(refuse(format!(
                    "`{name}` has NaN or infinite values; use weights from before the divergence"
                )));
            }
        }
        if !missing.is_empty() {
            let parts: Vec<String> = missing.iter().map(|(part, weights)| format!("{part} ({weights})")).collect();
            let parts = parts.join(", ");
            tracing::info!(parts, "init: weights are not in the folder and stay randomly initialized");
        }
        Ok(())
    }
}

/// Returns the head or the network that a weight belongs to: `heads.NAME` or `NAME`.
fn part_of(weight: &str) -> &str {
    let depth = usize::from(weight.starts_with("heads."));
    weight.match_indices('.').nth(depth).map_or(weight, |(end, _)| &weight[..end])
}

/// Copies embedding tables of the main network to the weights of `own` that are missing in `saved`. A saved generator
/// that shared a table with the main network has no separate copy.
fn share_back<'a>(saved: &mut HostTensors, own: impl Iterator<Item = &'a str>) {
    for weight in own.filter(|weight| weight.contains(".encoder.embeddings.")) {
        let shared = weight.split_once('.').and_then(|(_, rest)| saved.get(rest)).cloned();
        if let Some(table) = shared.filter(|_| !saved.contains_key(weight)) {
            saved.insert(weight.to_owned(), table);
        }
    }
}

/// Reads the weights of a `transformers` model for `target`, of a checkpoint, or of the newest checkpoint of a run.
fn saved(folder: &Path, target: &trainer_plan::hf::Target<'_>) -> Result<HostTensors, Error> {
    if !folder.is_dir() {
        let hint = "set `init_from` to a run, a checkpoint or a `transformers` model folder";
        return Err(Error::Config(format!("{}: folder not found; {hint}", folder.display())));
    }
    match FolderFormat::of(folder) {
        FolderFormat::Checkpoint => tensors::read(&folder.join(MAIN_FILE)),
        FolderFormat::Model => hf::import(folder, target),
        FolderFormat::Run => checkpoint::pick(&Store::existing(folder)?, None).map(|(_, snapshot)| snapshot.main),
    }
}

#[cfg(test)]
mod tests;
