//! Checkpoints of a run: format, listing and retention.
//!
//! # The checkpoint format, version 4
//!
//! The folder `RUN/checkpoints/step-00001200/` contains:
//!
//! - `main.safetensors`: every weight by its name in `Parameters`, float32;
//! - `optimizer.safetensors`: `mean.NAME`, `variance.NAME`, `updates`; `report.N.sum` and, if the device counts,
//!   `report.N.count`, of the N-th mean of the unfinished report; `skipped.count`, `skipped.first`; `guard.ring`;
//! - `state.json`, written last and removed first: [`State`], [sealed](schemas::sealed);
//! - `validation_scores.json`, if the step was validated: [`Validated`];
//! - `pinned.json`, if the user [pinned](pin) the checkpoint;
//! - with `checkpoints.export`, the files that `transformers` loads: `config.json`, `model.safetensors`, the tokenizer.
//!
//! A checkpoint exists if its `state.json` exists. A folder without one is unfinished. The next start removes it,
//! unless `latest` names it and no other checkpoint exists. A `state.json` that is not a regular file (a pipe, a
//! dangling link) is an error. A reader must refuse:
//!
//! - another version;
//! - a file with another BLAKE3 than the one in `state.json`;
//! - a `state.json` that differs, byte for byte, from the serialization of its content;
//! - a `state.json` of another step than the name of its folder.
//!
//! A checkpoint that differs from its written content is *damaged*. If an older one is complete, the `state.json` of
//! the damaged one is renamed to `damaged.json`. The other files stay for inspection. `RUN/checkpoints/latest` contains
//! the name of the newest checkpoint, for users and scripts.
//!
//! A checkpoint records the *consumed* rows: `rows_consumed` is the complete position in the stream.

mod list;
mod retention;
mod state;

pub(crate) use self::list::beyond;
pub use self::list::{
    CheckpointForm, absent, check, checkpoint_store, folder_name, list, newest_complete, newest_complete_state,
    newest_state, none_whole, note, refuse_newer_links, state_of, step_of_folder, steps, verify,
};
pub(crate) use self::retention::point;
pub use self::retention::{
    KeepReason, ListedCheckpoint, best_step, copy, discard, empty, invalidate, is_larger_better, list_with_reasons,
    pin, point_at, remove, retain, set_aside, unpin,
};
pub use self::state::{
    IdentityChange, SavedDetector, SavedEarlyStop, SavedGuard, SavedMean, SidecarState, State, UnreadState, Validated,
};

/// Folder of a run's checkpoints.
pub const FOLDER: &str = "checkpoints";
/// File with the name of the newest checkpoint, for users and scripts.
pub const LATEST: &str = "latest";
/// File of the weights.
pub const MAIN_FILE: &str = "main.safetensors";
/// File of the optimizer's state and of the unfinished report.
pub const OPTIMIZER_FILE: &str = "optimizer.safetensors";
/// File that is written last. Its presence makes the folder a checkpoint.
pub const STATE_FILE: &str = "state.json";
/// State of a checkpoint that was found damaged. The folder is no longer a checkpoint.
pub const DAMAGED_FILE: &str = "damaged.json";
/// File of the validation scores of its step.
pub const FIGURES_FILE: &str = "validation_scores.json";
/// Mark of a checkpoint that the user wants to keep.
pub const PINNED_FILE: &str = "pinned.json";
/// File by which `transformers` recognizes a model.
const CONFIG_FILE: &str = "config.json";

/// Files that a checkpoint may have. Files of other names belong to the user, and are never removed.
const OWN_FILES: [&str; 12] = [
    MAIN_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    DAMAGED_FILE,
    FIGURES_FILE,
    PINNED_FILE,
    CONFIG_FILE,
    crate::hf::WEIGHTS,
    crate::hf::OWN_CODE,
    schemas::manifest::TOKENIZER,
    "tokenizer_config.json",
    "vocab.txt",
];

/// Whether a checkpoint may have a file of that name.
#[must_use]
pub fn is_own_file(name: &str) -> bool {
    OWN_FILES.contains(&name)
}
