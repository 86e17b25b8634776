//! What a run keeps, complete or absent.
//!
//! # The checkpoint format, version 2
//!
//! `RUN/checkpoints/step-00001200/` holds
//!
//! - `main.safetensors`: every weight by its name in [`Parameters`](crate::model::parameters::Parameters), float32;
//! - `optimizer.safetensors`: `mean.NAME`, `variance.NAME`, `updates`; `report.N.sum` and, where the device counts,
//!   `report.N.count`, of the N-th mean of the report under way; `skipped.count`, `skipped.first`;
//! - `state.json`, written last: [`State`] and its checksum.
//!
//! `RUN/checkpoints/latest` is a file that holds the newest folder's name, for people and scripts. A checkpoint is
//! written under `.step-00001200.tmp` and renamed when all of it is on disk; a kill leaves at most that, and the next
//! start removes it. A reader must refuse another version, a file whose BLAKE3 is not the one in `state.json`, and a
//! `state.json` that is not, byte for byte, what its own content would be written as.
//!
//! A checkpoint records what was *consumed*: `rows_consumed` is the whole position in the stream.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemas::atomic::{Folder, rename_folder};
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};

use crate::device::tensors;
use crate::device::tensors::HostTensors;
use crate::error::Error;
use crate::plan::identity::Identity;
use crate::training::tally::SavedMean;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 2;

/// The tensor files, in the order in which they are written.
const MAIN_FILE: &str = "main.safetensors";
const OPTIMIZER_FILE: &str = "optimizer.safetensors";
const STATE_FILE: &str = "state.json";

/// `state.json` without its checksum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// [`VERSION`].
    pub version: u32,
    /// Steps done.
    pub step: Step,
    /// Rows of the stream that they took.
    pub rows_consumed: u64,
    /// Whether the validation of this step is still to be done (a stop came first).
    pub validation_pending: bool,
    /// Running BLAKE3 over the digests of all batches consumed, in hexadecimal.
    pub batch_hash: String,
    /// Content hash of the data.
    pub data_content: String,
    /// Threads of libtorch: another number resumes, not to the bit.
    pub threads: usize,
    /// Where it was trained.
    pub device: String,
    /// The means of the report under way, in order; their sums are in `optimizer.safetensors`.
    pub report: Vec<SavedMean>,
    /// What makes it this run.
    pub identity: Identity,
    /// BLAKE3 of every file beside this one.
    pub files: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    state: State,
    checksum: String,
}

impl State {
    /// The bytes of `state.json`.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let checksum = blake3::hash(json(self).as_bytes()).to_hex().to_string();
        let mut bytes = json(&Sealed { state: self.clone(), checksum }).into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// Reads what [`to_json`](Self::to_json) wrote, and nothing else.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Peek {
            state: PeekState,
        }
        #[derive(Deserialize)]
        struct PeekState {
            version: u32,
        }
        let damaged = |error| Unreadable::Damaged(format!("no checkpoint state: {error}"));
        let peek: Peek = serde_json::from_slice(bytes).map_err(damaged)?;
        if peek.state.version != VERSION {
            return Err(Unreadable::Version(peek.state.version));
        }
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(damaged)?;
        if sealed.state.to_json() != bytes {
            return Err(Unreadable::Damaged("its checksum does not match".to_owned()));
        }
        Ok(sealed.state)
    }
}

/// Why a `state.json` is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not as it was written.
    Damaged(String),
    /// It is whole, and of another version of the format.
    Version(u32),
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data with finite numbers and string keys")
}

/// Everything that a run needs to go on, in host memory: making it waits for the device, writing it does not.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The state; `files` is filled when it is written.
    pub state: State,
    /// The weights.
    pub main: HostTensors,
    /// The optimizer's state and the report under way.
    pub optimizer: HostTensors,
}

impl Snapshot {
    /// The folder's name.
    #[must_use]
    pub fn name(&self) -> String {
        folder_name(self.state.step)
    }

    /// Writes `checkpoints/NAME` below `run`, points `latest` at it, and removes all but the `keep` newest.
    ///
    /// # Errors
    /// [`Error::Io`]; the checkpoint is then absent, and the older ones are as they were.
    pub fn write(&self, run: &Path, keep: usize) -> Result<PathBuf, Error> {
        let checkpoints = Folder::create(run.join("checkpoints"))?;
        let target = checkpoints.path().join(self.name());
        let unfinished = checkpoints.path().join(format!(".{}.tmp", self.name()));
        remove_if_there(&unfinished)?;
        if let Err(error) = self.fill(&unfinished).and_then(|()| Ok(remove_if_there(&target)?)) {
            // Room for the next attempt; the failure itself is on its way up.
            let _ = remove_if_there(&unfinished);
            return Err(error);
        }
        rename_folder(&unfinished, &target)?;
        checkpoints.write("latest", format!("{}\n", self.name()).as_bytes())?;
        for (_, old) in list(checkpoints.path())?.into_iter().skip(keep) {
            fs::remove_dir_all(old)?;
        }
        Ok(target)
    }

    fn fill(&self, path: &Path) -> Result<(), Error> {
        let folder = Folder::create(path)?;
        let mut state = self.state.clone();
        for (name, tensors) in [(MAIN_FILE, &self.main), (OPTIMIZER_FILE, &self.optimizer)] {
            let mut file = Hashing { target: folder.begin(name)?, hasher: blake3::Hasher::new() };
            tensors::write(tensors, &mut file)?;
            file.target.commit()?;
            state.files.insert(name.to_owned(), file.hasher.finalize().to_hex().to_string());
        }
        Ok(folder.write(STATE_FILE, &state.to_json())?)
    }

    /// Reads and verifies the checkpoint in `folder`.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let at = |name: &str, problem: String| Error::Checkpoint { path: folder.join(name), problem };
        let bytes = |name: &str| fs::read(folder.join(name)).map_err(|error| at(name, error.to_string()));
        let state = State::from_json(&bytes(STATE_FILE)?).map_err(|unreadable| match unreadable {
            Unreadable::Damaged(problem) => at(STATE_FILE, problem),
            Unreadable::Version(version) => Error::CheckpointVersion { folder: folder.to_owned(), version },
        })?;
        let tensors = |name: &str| {
            let bytes = bytes(name)?;
            if state.files.get(name).map(String::as_str) != Some(blake3::hash(&bytes).to_hex().as_str()) {
                return Err(at(name, "its BLAKE3 is not the one in `state.json`".to_owned()));
            }
            tensors::parse(&folder.join(name), &bytes)
        };
        let (main, optimizer) = (tensors(MAIN_FILE)?, tensors(OPTIMIZER_FILE)?);
        Ok(Self { state, main, optimizer })
    }
}

/// The folder of the checkpoint after `step`.
#[must_use]
pub fn folder_name(step: Step) -> String {
    format!("step-{:08}", step.0)
}

/// The newest checkpoint of a run that verifies, with its folder.
///
/// What a kill left unfinished is removed. A damaged checkpoint is named aloud, renamed to `NAME.damaged` so that
/// somebody can look at it, and passed over; one of another version of the format is no damage, and refused.
pub fn newest(run: &Path) -> Result<Option<(PathBuf, Snapshot)>, Error> {
    let checkpoints = run.join("checkpoints");
    if !checkpoints.exists() {
        return Ok(None);
    }
    sweep(&checkpoints)?;
    for (name, folder) in list(&checkpoints)? {
        match Snapshot::read(&folder) {
            Ok(snapshot) => return Ok(Some((folder, snapshot))),
            Err(Error::Checkpoint { path, problem }) => {
                let aside = checkpoints.join(format!("{name}.damaged"));
                remove_if_there(&aside)?;
                rename_folder(&folder, &aside)?;
                let (file, kept) = (path.display().to_string(), aside.display().to_string());
                tracing::error!(%file, %problem, %kept, "damaged checkpoint, taking an older one");
            }
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// The checkpoint after `step`, or the newest that verifies, for looking at: changes nothing, since the run may be
/// under way.
pub fn pick(run: &Path, step: Option<Step>) -> Result<(PathBuf, Snapshot), Error> {
    let checkpoints = run.join("checkpoints");
    if let Some(step) = step {
        let folder = checkpoints.join(folder_name(step));
        return Snapshot::read(&folder).map(|snapshot| (folder, snapshot));
    }
    let folders = if checkpoints.exists() { list(&checkpoints)? } else { Vec::new() };
    for (_, folder) in folders {
        match Snapshot::read(&folder) {
            // The run itself will name it aloud.
            Err(Error::Checkpoint { .. }) => {}
            read => return read.map(|snapshot| (folder, snapshot)),
        }
    }
    Err(Error::Config(format!("{}: there is no checkpoint here yet; train first", run.display())))
}

/// Checkpoint folders, newest first, with their names.
fn list(checkpoints: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(checkpoints)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let digits = name.strip_prefix("step-").unwrap_or_default();
        if let Ok(step) = digits.parse::<u64>() {
            found.push((step, name, entry.path()));
        }
    }
    found.sort_by_key(|&(step, ..)| std::cmp::Reverse(step));
    Ok(found.into_iter().map(|(_, name, path)| (name, path)).collect())
}

fn sweep(checkpoints: &Path) -> io::Result<()> {
    for entry in fs::read_dir(checkpoints)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".step-") && Path::new(&name).extension().is_some_and(|extension| extension == "tmp") {
            tracing::info!(%name, "removing an unfinished checkpoint");
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Hashes what passes through.
struct Hashing<W> {
    target: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.target.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;
    use crate::device::tensors::HostTensor;

    fn snapshot(step: u64) -> Snapshot {
        let tensors = |value: f32| -> HostTensors {
            [("w".to_owned(), HostTensor::copy_of(&Tensor::from_slice(&[value; 5])).expect("float32"))].into()
        };
        let state = State {
            version: VERSION,
            step: Step(step),
            rows_consumed: 8 * step,
            validation_pending: false,
            batch_hash: "ab".to_owned(),
            data_content: "cd".to_owned(),
            threads: 2,
            device: "cpu".to_owned(),
            report: vec![SavedMean::Norm { count: 3.0 }],
            identity: Identity::new([("seed".to_owned(), "1".to_owned())].into()),
            files: BTreeMap::new(),
        };
        Snapshot { state, main: tensors(1.0), optimizer: tensors(2.0) }
    }

    #[test]
    fn the_newest_checkpoints_stay() {
        let home = tempfile::tempdir().expect("a temporary folder");
        for step in 1..=4 {
            snapshot(step).write(home.path(), 2).expect("written");
        }
        let names: Vec<String> =
            list(&home.path().join("checkpoints")).expect("readable").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["step-00000004", "step-00000003"]);
        let latest = fs::read_to_string(home.path().join("checkpoints/latest")).expect("written");
        assert_eq!(latest, "step-00000004\n");
        let (_, newest) = newest(home.path()).expect("readable").expect("there are two");
        assert_eq!((newest.state.step, &newest.main), (Step(4), &snapshot(4).main));
    }

    #[test]
    fn any_flipped_byte_is_noticed_and_the_older_checkpoint_taken() {
        let home = tempfile::tempdir().expect("a temporary folder");
        snapshot(1).write(home.path(), 3).expect("written");
        let good = snapshot(2).write(home.path(), 3).expect("written");
        let state = fs::read(good.join(STATE_FILE)).expect("there");
        for at in 0..state.len() {
            let mut flipped = state.clone();
            flipped[at] ^= 4;
            assert!(State::from_json(&flipped).is_err(), "byte {at} of `state.json` was changed");
        }
        for name in [MAIN_FILE, OPTIMIZER_FILE, STATE_FILE] {
            let bytes = fs::read(good.join(name)).expect("there");
            for at in (0..bytes.len()).step_by(23) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 4;
                assert_damaged(home.path(), &good, name, &flipped, &bytes);
            }
            assert_damaged(home.path(), &good, name, &bytes[..bytes.len() - 1], &bytes);
        }
        assert_eq!(newest(home.path()).expect("readable").expect("mended").1.state.step, Step(2));
    }

    #[test]
    fn another_version_is_refused_by_name_and_left_where_it_is() {
        let home = tempfile::tempdir().expect("a temporary folder");
        snapshot(1).write(home.path(), 3).expect("written");
        let folder = snapshot(2).write(home.path(), 3).expect("written");
        let mut old = snapshot(2);
        old.state.version = 1;
        Folder::create(&folder).and_then(|folder| folder.write(STATE_FILE, &old.state.to_json())).expect("written");
        for error in [newest(home.path()).expect_err("refused"), pick(home.path(), None).expect_err("refused")] {
            let message = error.to_string();
            assert!(error.is_usage() && message.contains("made by version 1 of the format"), "{message}");
            assert!(message.contains(&format!("`train.init = \"{}\"`", folder.display())), "{message}");
        }
        assert!(folder.join(STATE_FILE).exists(), "it is not set aside as damaged");
    }

    // Writes `bad` into a file of the newest checkpoint, expects the older one, and mends the file.
    fn assert_damaged(run: &Path, good: &Path, name: &str, bad: &[u8], bytes: &[u8]) {
        let folder = Folder::create(good).expect("there");
        folder.write(name, bad).expect("written");
        let (_, found) = newest(run).expect("readable").expect("the older one is whole");
        assert_eq!(found.state.step, Step(1), "{name} was changed");
        let aside = good.with_extension("damaged");
        fs::rename(&aside, good).expect("it was kept aside");
        folder.write(name, bytes).expect("mended");
    }

    #[test]
    fn a_failing_disk_leaves_the_older_checkpoint_and_no_debris() {
        let home = tempfile::tempdir().expect("a temporary folder");
        snapshot(1).write(home.path(), 1).expect("written");
        for writes in 0..4 {
            schemas::atomic::faults::fail_after(home.path(), Some(writes));
            let outcome = snapshot(2).write(home.path(), 1);
            schemas::atomic::faults::fail_after(home.path(), None);
            assert!(matches!(outcome, Err(Error::Io(_))), "{writes} writes are not enough");
            let entries = fs::read_dir(home.path().join("checkpoints")).expect("there").count();
            assert_eq!(entries, 2, "the older checkpoint and `latest`");
        }
    }

    #[test]
    fn what_a_kill_left_is_removed() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let unfinished = home.path().join("checkpoints/.step-00000003.tmp");
        fs::create_dir_all(&unfinished).expect("made");
        assert!(newest(home.path()).expect("readable").is_none());
        assert!(!unfinished.exists());
    }
}
