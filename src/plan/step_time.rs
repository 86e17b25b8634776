//! Measured time of a training step on this machine.
//!
//! # What
//! `step_times.json` in the user's cache folder has the seconds of a step for each shape of a run that was measured on
//! this machine with this version of the program. `cloze plan --measure` writes it, and every plan reads it.
//!
//! # Definition
//! Two runs have the same shape if everything that a step computes is equal: networks, objectives, widths, batch sizes,
//! precision, device, threads and the size of the vocabulary. Texts, seeds and learning rates do not matter.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemas::Sealed;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Store;
use trainer_plan::TrainPlan;
use trainer_plan::request::ActiveObjective;

/// Name of the file.
const NAME: &str = "step_times.json";

/// Maximum size of the file. A larger one is replaced, as a damaged one.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of shapes; the oldest are removed.
const MAX_SHAPES: usize = 256;

/// Measured time of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTime {
    /// Median seconds of a step.
    pub seconds: f64,
    /// Seconds of the fastest step.
    pub min_seconds: f64,
    /// Seconds of the slowest step.
    pub max_seconds: f64,
    /// Number of measured steps.
    pub steps: usize,
    /// Device of the steps: the name of a GPU, or `Cpu`.
    pub device: String,
    /// Time of the measurement, in milliseconds since the Unix epoch.
    pub measured: u64,
}

impl StepTime {
    /// Formats the median and the range: `12 ms (median of 5 steps, 11 ms to 14 ms)`.
    #[must_use]
    pub fn range(&self) -> String {
        let Self { seconds, min_seconds, max_seconds, steps, .. } = self;
        let [median, min, max] = [seconds, min_seconds, max_seconds].map(|&seconds| shown(seconds));
        format!("{median} (median of {steps} steps, {min} to {max})")
    }
}

/// Content of the file, by shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTimes {
    shapes: BTreeMap<String, StepTime>,
}

impl Sealed for StepTimes {
    const FORMAT: &'static str = "cloze step times";
    const VERSION: u32 = 2;
    const PRETTY: bool = true;
}

/// Formats the time of a step.
pub(super) fn shown(seconds: f64) -> String {
    match 1e3 * seconds {
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        _ => format!("{seconds:.1} s"),
    }
}

/// Returns the time of a step of this shape on this machine, if it was measured.
pub(crate) fn find(plan: &TrainPlan) -> Option<StepTime> {
    let store = Store::existing(&folder()?).ok()?;
    read(&store).shapes.remove(&shape(plan))
}

/// Records the time of a step. A file that cannot be read is replaced: it is a cache.
///
/// # Errors
/// If the cache folder is unknown (`HOME` is not set) or not writable.
pub fn record(plan: &TrainPlan, time: StepTime) -> std::io::Result<()> {
    let folder = folder().ok_or_else(|| std::io::Error::other("`HOME` is not set"))?;
    let store = Store::folder(&folder)?;
    let mut times = read(&store);
    times.shapes.insert(shape(plan), time);
    while times.shapes.len() > MAX_SHAPES {
        let oldest = times.shapes.iter().min_by_key(|(_, time)| time.measured).map(|(shape, _)| shape.clone());
        times.shapes.remove(&oldest.unwrap_or_default());
    }
    store.put(NAME, &times.seal())?;
    Ok(())
}

fn read(store: &Store) -> StepTimes {
    let is_small = store.head(NAME).ok().flatten().is_some_and(|stat| stat.bytes <= MAX_BYTES);
    let found = is_small.then(|| store.get_with_stat(NAME).ok().flatten()).flatten();
    found.and_then(|(bytes, _)| StepTimes::unseal(&bytes).ok()).unwrap_or_default()
}

/// Folder of the cache (XDG base directory specification, version 0.8).
fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(cache.join("cloze"))
}

/// Returns the key of a shape.
fn shape(plan: &TrainPlan) -> String {
    let train = &plan.train;
    let objectives: Vec<_> = plan
        .active()
        .map(|ActiveObjective { name, objective, weight }| json!([name, objective, weight != 0.0]))
        .collect();
    let shape = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "encoder": plan.encoder,
        "networks": plan.used_networks(),
        "objectives": objectives,
        "widths": [json!(plan.width), json!(plan.view_widths)],
        "rows": [train.global_batch_size, train.micro_batch_size],
        "device": [json!(train.device), json!(train.precision), json!(train.tf32), json!(train.deterministic)],
        "memory": train.activation_checkpointing,
        "threads": train.threads,
        "vocab_size": plan.vocab.size,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    });
    blake3::hash(shape.to_string().as_bytes()).to_hex()[..32].to_owned()
}
