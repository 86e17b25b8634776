//! `cloze-train`, the program with libtorch: found and executed.
//!
//! `cloze` parses its arguments, and replaces itself by `cloze-train` with the same arguments for verbs that compute
//! tensors. Process id, signals, standard streams and exit code are then those of one process.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::cli::{TuneArgs, Verb};
use crate::exit::Usage;

/// File name of `cloze-train`.
pub const NAME: &str = "cloze-train";

/// Environment variable with the version and the process id of the `cloze` that executes `cloze-train`: `0.2.0@4711`.
const VERSION_VARIABLE: &str = "CLOZE_EXECUTED_BY";

/// Version of both programs.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns whether a verb computes tensors, so that only `cloze-train` runs it.
#[must_use]
pub fn is_needed(verb: &Verb) -> bool {
    match verb {
        Verb::Train { .. }
        | Verb::Finetune { .. }
        | Verb::Evaluate { .. }
        | Verb::Analyze(_)
        | Verb::Plan { measure: true, .. }
        | Verb::Export { .. }
        | Verb::Explain { .. }
        | Verb::Replay { .. }
        | Verb::Fill { .. }
        | Verb::Parity { .. }
        | Verb::Tune { options: TuneArgs { step_ms: None, .. }, .. } => true,
        Verb::Profile(verb) => verb.computes_tensors(),
        _ => false,
    }
}

/// Replaces this process by `cloze-train` with the same arguments. Returns only if that fails.
#[must_use]
pub fn execute() -> anyhow::Error {
    let own = env::current_exe().ok();
    let Some(program) = find(own.as_deref(), env::var_os("PATH").as_deref()) else {
        let folder = own.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        return Usage(format!(
            "this verb computes tensors, for which `{NAME}` is needed; it is neither in {} nor in `PATH`: install it next to \
             `cloze` (`make install`), or use the bundle of `make dist`",
            folder.display()
        ))
        .into();
    };
    let refuse = |why: &str| Usage(format!("{}: {why}: install it again (`make install`)", program.display())).into();
    if executed_by().is_some() {
        return refuse("it is `cloze` itself");
    }
    match is_program(&program) {
        Ok(true) => {}
        // `execvp` runs a file without a known format as a shell script: an empty one would end with 0.
        Ok(false) => return refuse("it is not a program"),
        Err(error) => return refuse(&error.to_string()),
    }
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_else(|| NAME.into());
    let this = format!("{VERSION}@{}", process::id());
    let error = Command::new(&program).arg0(name).args(arguments).env(VERSION_VARIABLE, this).exec();
    match error.kind() {
        // Transient errors.
        ErrorKind::OutOfMemory | ErrorKind::WouldBlock | ErrorKind::ExecutableFileBusy => {
            anyhow::Error::from(error).context(format!("{}: cannot be executed", program.display()))
        }
        _ => refuse(&format!("it cannot be executed: {error}")),
    }
}

/// Checks that the `cloze` that executed this process has the same version. Call it before parsing arguments, because
/// arguments of another version may be unknown.
///
/// # Errors
/// [`Usage`] with both versions.
pub fn check_version() -> anyhow::Result<()> {
    match executed_by() {
        Some(version) if version != VERSION => {
            let program = env::current_exe().unwrap_or_else(|_| NAME.into());
            Err(Usage(format!(
                "{} has version {VERSION}, and the `cloze` that executes it has version {version}: install the same version of both \
                 (`make install`)",
                program.display(),
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// Version of the `cloze` that executed this process; `None` if a user did. The variable names the process id, which
/// `exec` preserves. Child processes inherit the variable, but have another id.
fn executed_by() -> Option<String> {
    version_for(&env::var(VERSION_VARIABLE).ok()?, process::id())
}

fn version_for(variable: &str, process: u32) -> Option<String> {
    let (version, pid) = variable.rsplit_once('@')?;
    (pid.parse() == Ok(process)).then(|| version.to_owned())
}

/// Finds the program in the folder of `cloze`, or in the first folder of `path` that has it. Relative folders of `path`
/// are skipped, so that the executed program does not depend on the working directory.
fn find(cloze: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let own = cloze.and_then(Path::parent).map(Path::to_owned);
    let folders = path.into_iter().flat_map(env::split_paths).filter(|folder| folder.is_absolute());
    own.into_iter().chain(folders).map(|folder| folder.join(NAME)).find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Whether a file begins like an ELF program, or like a script with an interpreter.
fn is_program(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut head)?;
    Ok(head == *b"\x7fELF" || head.starts_with(b"#!"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn program_in(folder: &Path) {
        store::Store::folder(folder).and_then(|folder| folder.put(NAME, b"")).expect("put");
        fs::set_permissions(folder.join(NAME), fs::Permissions::from_mode(0o755)).expect("it is ours");
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
        fs::set_permissions(own.path().join(NAME), fs::Permissions::from_mode(0o644)).expect("it is ours");
        assert_eq!(find(), Some(other.path().join(NAME)), "a file that is not executable is not a program");
    }

    #[test]
    fn the_variable_applies_to_the_process_that_it_names() {
        assert_eq!(version_for("0.1.0@7", 7).as_deref(), Some("0.1.0"));
        for other in ["0.1.0@8", "0.1.0", "", "@", "0.1.0@"] {
            assert_eq!(version_for(other, 7), None, "{other}");
        }
    }
}
