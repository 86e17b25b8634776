//! Status of a run or a preparation for clients of its HTTP server.

pub(crate) mod preparing;
mod settings;
mod sibling_runs;
mod training;

use server::{Kind, RunInfo};

pub(crate) use self::settings::settings;
pub use self::training::TrainingBackend;

/// Name and version of the program.
pub(crate) const PROGRAM: &str = concat!("cloze ", env!("CARGO_PKG_VERSION"));

/// File in the run folder with the address of the server, for programs on the same machine.
pub(crate) const ADDRESS: &str = "serve.json";

/// Host name of this machine; `None` if it is unknown.
pub(crate) fn this_host() -> Option<String> {
    Some(telemetry::host::name()).filter(|name| !name.is_empty())
}

/// Returns the description of a run or a preparation in that folder, before its first event.
pub(crate) fn about(kind: Kind, folder: &std::path::Path) -> RunInfo {
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    RunInfo { kind, name, place: folder.display().to_string(), program: PROGRAM.to_owned() }
}
