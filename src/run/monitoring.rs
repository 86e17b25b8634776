//! What a run and a preparation are seen by from elsewhere: who answers for them.

pub(crate) mod preparing;
mod settings;
mod sibling_runs;
mod training;

use server::{About, Kind};

pub(crate) use self::settings::settings;
pub use self::training::TrainingBackend;

/// Who runs it.
pub(crate) const PROGRAM: &str = concat!("cloze ", env!("CARGO_PKG_VERSION"));

/// What `[serve]` listens on, in the run's folder: for programs of this machine.
pub(crate) const ADDRESS: &str = "serve.json";

/// The name of this machine; none where nobody knows.
pub(crate) fn this_host() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

/// What there is to say of a run or a preparation in that folder before it has said anything.
pub(crate) fn about(kind: Kind, folder: &std::path::Path) -> About {
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    About { kind, name, place: folder.display().to_string(), program: PROGRAM.to_owned() }
}
