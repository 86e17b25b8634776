//! Ranks of a run: what a process of several does differently from a single one.
//!
//! Rank 0 holds the run folder, writes everything, and serves the page. The other ranks train on their share, and read
//! the checkpoint from the same folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use cloze::exit::Usage;
use cloze::plan::Plan;
use pipeline::load::RowOrder;
use serde_json::json;
use store::Store;
use trainer::training::{ProcessGroup, SingleProcess};
use trainer_plan::launch::Launch;

use super::options::Options;
use super::task_scorer;

/// Variable with the file for the error of a rank. torchrun prints the error of the rank that failed first.
const ERROR_FILE: &str = "TORCHELASTIC_ERROR_FILE";

/// Whether this process is rank 0 or the only one.
pub(super) fn is_first(launch: Option<&Launch>) -> bool {
    launch.is_none_or(|launch| launch.rank == 0)
}

/// Refuses options that only a single process has.
pub(super) fn check_options(launch: Option<&Launch>, options: Options<'_>) -> anyhow::Result<()> {
    let Some(launch) = launch else { return Ok(()) };
    let single = [("--prepare", options.prepare), ("--replay", options.replay.is_some())];
    match single.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((option, _)) => Err(Usage(format!(
            "{option} with {} ranks: run it in a single process first, without a launcher; {}",
            launch.world_size,
            launch.origin()
        ))
        .into()),
    }
}

/// Place of this process among several ranks. `None` for a single process.
pub(crate) fn launched() -> anyhow::Result<Option<Launch>> {
    Ok(Launch::from_env()?.filter(|launch| launch.world_size > 1))
}

/// Connects this process with the other ranks that its launcher has started, to train without a run folder.
pub(crate) fn connect_launched(plan: &Plan) -> anyhow::Result<Arc<dyn ProcessGroup>> {
    let Some(launch) = launched()? else { return Ok(Arc::new(SingleProcess)) };
    check_plan(&launch, plan)?;
    connect(&launch, plan)
}

/// Connects this rank with the others, and checks that all have the same plan.
pub(super) fn connect(launch: &Launch, plan: &Plan) -> anyhow::Result<Arc<dyn ProcessGroup>> {
    let group = connect_group(launch, plan)?;
    check_same_plan(group.as_ref(), plan)?;
    Ok(group)
}

/// Connects this rank with the others. Waits for them at most `run.stall_timeout_seconds`.
pub(super) fn connect_group(launch: &Launch, plan: &Plan) -> anyhow::Result<Arc<dyn ProcessGroup>> {
    let seconds = plan.config().run.stall_timeout_seconds;
    let limit = (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(trainer::training::connect(launch, limit)?)
}

/// Refuses plans that only a single process can train.
pub(super) fn check_plan(launch: &Launch, plan: &Plan) -> anyhow::Result<()> {
    let ranks = launch.world_size;
    let problem = if let Some(problem) = plan.train().ranks_problem(ranks) {
        problem
    } else if plan.config().data.order == RowOrder::Streamed {
        format!("`data.order = \"streamed\"` with {ranks} ranks: end the preparation first, and set it to \"shuffled\"")
    } else if task_scorer::task_of(plan)?.is_some() {
        format!("a fine-tuning with {ranks} ranks: start it as a single process")
    } else {
        return Ok(());
    };
    Err(Usage(format!("{problem}; {}", launch.origin())).into())
}

/// Fails if ranks have different plans. Names the first key that differs.
pub(super) fn check_same_plan(group: &dyn ProcessGroup, plan: &Plan) -> anyhow::Result<()> {
    let mut own = plan.keys_of_all_ranks();
    own.insert("the program".to_owned(), format!("{} ({})", env!("CARGO_PKG_VERSION"), executable_hash()?));
    own.insert("the content of the data".to_owned(), plan.train().data_content.clone());
    let all = group.gather("plans", &serde_json::to_vec(&own)?)?;
    for (rank, bytes) in all.iter().enumerate() {
        let theirs: BTreeMap<String, String> = serde_json::from_slice(bytes)?;
        let keys: BTreeSet<&String> = own.keys().chain(theirs.keys()).collect();
        if let Some(key) = keys.into_iter().find(|key| own.get(*key) != theirs.get(*key)) {
            let value =
                |keys: &BTreeMap<String, String>| keys.get(key).cloned().unwrap_or_else(|| "nothing".to_owned());
            return Err(Usage(format!(
                "rank {rank} and {} have different plans: {key} is {} and {}; start all ranks with the same configuration, \
                 program and data",
                group.share(),
                value(&theirs),
                value(&own)
            ))
            .into());
        }
    }
    Ok(())
}

/// Returns the beginning of the hash of this program, because two builds can have one version.
fn executable_hash() -> anyhow::Result<String> {
    // The link also reaches a program that was replaced since its start.
    let file = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?));
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.context("cannot read this program")?).context("cannot read this program")?;
    Ok(hasher.finalize().to_hex()[..12].to_owned())
}

/// Writes the error of this rank to the file that torchrun has named, if any.
pub(super) fn report_error(error: &anyhow::Error) {
    let Some(path) = std::env::var_os(ERROR_FILE) else { return };
    let path = Path::new(&path);
    if let Err(problem) = write_error(path, error) {
        tracing::warn!(path = %path.display(), error = %problem, "ranks: no error file for torchrun");
    }
}

fn write_error(path: &Path, error: &anyhow::Error) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidFilename)?;
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let content = json!({ "message": format!("{error:#}"), "timestamp": timestamp }).to_string();
    Store::folder(path.parent().unwrap_or(Path::new("")))?.put(name, content.as_bytes())?;
    Ok(())
}
