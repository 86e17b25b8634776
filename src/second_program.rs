//! `cloze-train`, the program with libtorch: found and executed.
//!
//! `cloze` parses its arguments, and replaces itself by `cloze-train` with the same arguments for verbs that compute
//! tensors. Process id, signals, standard streams and exit code are then those of one process.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::Usage;

/// The file name of the second program.
pub const NAME: &str = "cloze-train";

/// The environment variable by which `cloze` tells `cloze-train` its version.
const VERSION_VARIABLE: &str = "CLOZE_EXECUTED_BY";

/// The version of both programs.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Replaces this process by `cloze-train` with the same arguments. Returns only if that fails.
#[must_use]
pub(crate) fn execute() -> anyhow::Error {
    let beside = env::current_exe().ok();
    let Some(program) = find(beside.as_deref(), env::var_os("PATH").as_deref()) else {
        let folder = beside.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        return Usage(format!(
            "this verb computes tensors, for which `{NAME}` is needed; it is neither in {} nor in `PATH`: install it next to \
             `cloze` (`make install`), or use the bundle of `make dist`",
            folder.display()
        ))
        .into();
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| NAME.into());
    let error = Command::new(&program).arg0(name).args(arguments).env(VERSION_VARIABLE, VERSION).exec();
    anyhow::Error::from(error).context(format!("{}: cannot be executed", program.display()))
}

/// Checks that the `cloze` that executed this process is of the same version.
///
/// # Errors
/// [`Usage`] with both versions.
pub fn check_version() -> anyhow::Result<()> {
    check(env::var_os(VERSION_VARIABLE).as_deref())
}

fn check(executed_by: Option<&OsStr>) -> anyhow::Result<()> {
    match executed_by {
        Some(version) if version != VERSION => {
            let program = env::current_exe().unwrap_or_else(|_| NAME.into());
            Err(Usage(format!(
                "{} is version {VERSION}, the `cloze` that executes it {}: install both of one version (`make install`)",
                program.display(),
                version.display()
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// The program in the folder of `cloze`, or in the first folder of `path` that has it.
fn find(cloze: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let beside = cloze.and_then(Path::parent).map(Path::to_owned);
    let folders = beside.into_iter().chain(path.into_iter().flat_map(env::split_paths));
    folders.map(|folder| folder.join(NAME)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_in(folder: &Path) {
        store::Store::folder(folder).and_then(|folder| folder.put(NAME, b"")).expect("put");
    }

    #[test]
    fn the_folder_of_cloze_comes_before_path() {
        let [own, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let path = env::join_paths([other.path()]).expect("no colon");
        let find = || find(Some(&own.path().join("cloze")), Some(&path));
        assert_eq!(find(), None);
        program_in(other.path());
        assert_eq!(find(), Some(other.path().join(NAME)));
        program_in(own.path());
        assert_eq!(find(), Some(own.path().join(NAME)));
    }

    #[test]
    fn another_version_is_refused_with_both() {
        assert!(check(None).is_ok() && check(Some(OsStr::new(VERSION))).is_ok());
        let error = check(Some(OsStr::new("0.0.1"))).expect_err("another").to_string();
        assert!(error.contains(VERSION) && error.contains("0.0.1"), "{error}");
    }
}
