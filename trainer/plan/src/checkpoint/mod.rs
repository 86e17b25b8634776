//! What a run keeps, complete or absent.
//!
//! # The checkpoint format, version 4
//!
//! Below `RUN/checkpoints/step-00001200/` lie
//!
//! - `main.safetensors`: every weight by its name in `Parameters`, float32;
//! - `optimizer.safetensors`: `mean.NAME`, `variance.NAME`, `updates`; `report.N.sum` and, where the device counts,
//!   `report.N.count`, of the N-th mean of the report under way; `skipped.count`, `skipped.first`; `guard.ring`;
//! - `state.json`, put last and removed first: [`State`], [sealed](schemas::sealed);
//! - `validation_scores.json`, where the step was validated: [`Validated`]; `pinned.json`, where somebody [pinned](pin) it;
//! - with `checkpoints.export`, what `transformers` loads: `config.json`, `model.safetensors`, the tokenizer.
//!
//! A checkpoint is there when its `state.json` is. What lies there without one is unfinished, and the next start removes
//! it, unless `latest` says that it was finished and there is no other. A `state.json` that is no file (a pipe, a link
//! that leads nowhere) is an error. A reader must refuse another version, a file whose BLAKE3 is not the one in `state.json`, a `state.json` that is
//! not, byte for byte, what its own content would be written as, and one of another step than its name says.
//!
//! A checkpoint that is not as it was written is *damaged*: where an older one is whole, the `state.json` of the damaged
//! one is kept as `damaged.json` and removed, and the rest stays, so that somebody can look at it. `RUN/checkpoints/latest`
//! holds the newest one's name, for people and scripts.
//!
//! A checkpoint records what was *consumed*: `rows_consumed` is the whole position in the stream.

mod list;
mod retention;
mod state;

pub(crate) use self::list::beyond;
pub use self::list::{
    CheckpointForm, absent, check, folder_name, list, newest_complete, newest_complete_state, newest_state, none_whole,
    note, state_of, steps, verify, within,
};
pub(crate) use self::retention::point;
pub use self::retention::{
    KeepReason, Listed, copy, discard, empty, invalidate, pin, point_at, remove, retain, set_aside, shelf, unpin,
};
pub use self::state::{Beside, IdentityChange, SavedGuard, SavedMean, State, Unread, Validated};

/// The folder of a run in which it keeps its checkpoints.
pub const FOLDER: &str = "checkpoints";
/// The name of the newest checkpoint, for people and scripts.
pub const LATEST: &str = "latest";
/// The weights of a checkpoint.
pub const MAIN_FILE: &str = "main.safetensors";
/// The optimizer's state and the report under way.
pub const OPTIMIZER_FILE: &str = "optimizer.safetensors";
/// The file that is put last: with it, there is a checkpoint.
pub const STATE_FILE: &str = "state.json";
/// The state of a checkpoint that was found damaged, which is no checkpoint any more.
pub const DAMAGED_FILE: &str = "damaged.json";
/// The scores of the validation of its step.
pub const FIGURES_FILE: &str = "validation_scores.json";
/// The mark of a checkpoint that the user wants to keep.
pub const PINNED_FILE: &str = "pinned.json";
/// The file by which `transformers` recognizes a model.
const CONFIG_FILE: &str = "config.json";
