//! A CUDA device made of host memory, for a libtorch without CUDA: the path that a GPU would take, on any machine.
//!
//! The device is a shared library that a process loads before its own libraries (`native/`, whose files say how it works).
//! It computes what the CPU computes, and is strict where a GPU is: memory of the device cannot be read by the host, what
//! is fresh is NaN, tensors of two devices do not mix, work of two streams is ordered by events or fails, and memory has an
//! end. It counts kernels, copies and waits. It says nothing of speed, of CUDA's own kernels, or of their rounding.
//!
//! # Variables
//! | variable | meaning |
//! |---|---|
//! | `PRETEND_CUDA_REPORT=FILE` | a line of JSON at the process's end: what was counted |
//! | `PRETEND_CUDA_MARK=_fused_adamw_` | a line also at each call of that operator, with what was counted since the one before |
//! | `PRETEND_CUDA_BYTES=N` | the device has so many bytes |
//! | `PRETEND_CUDA_DEVICES=N` | there are so many devices; memory and streams are those of one |
//! | `PRETEND_CUDA=1`, `=0` | tests take this device where there is a real one too; or the real one, whatever there is |
//! | `PRETEND_CUDA_LIBRARY=FILE` | where tests find the library, if it has been moved |
//! | `PRETEND_CUDA_CPU_DRAWS=1` | its generator draws what the CPU's draws after the same seed |

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{say, skip};

mod counts;
#[cfg(test)]
mod tests;

pub use self::counts::{Counts, limit};

/// A device that tests can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// That of this machine.
    Real,
    /// That of this package.
    Pretend,
}

impl Device {
    /// The real one where there are a driver and a libtorch for it; else the other.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find() -> Result<Self, String> {
        let is_real = || Path::new("/dev/nvidiactl").exists() && option_env!("PRETEND_CUDA_NOT_NEEDED").is_some();
        let is_real = std::env::var("PRETEND_CUDA").map_or_else(|_| is_real(), |wish| wish == "0");
        if is_real { Ok(Self::Real) } else { library().map(|_| Self::Pretend) }
    }

    /// Lets a process that is yet to start have the device.
    pub fn give(self, command: &mut Command) {
        if let (Self::Pretend, Ok(library)) = (self, library()) {
            command.env("LD_PRELOAD", library);
        }
    }
}

/// A folder with what passes for CUDA's driver, where programs look for libraries if they are told to; `None` where it is
/// not built.
#[must_use]
pub fn driver() -> Option<&'static Path> {
    option_env!("PRETEND_CUDA_DRIVER").map(Path::new)
}

/// Set where a test runs in a process that was given the device.
const INSIDE: &str = "PRETEND_CUDA_INSIDE";

/// Whether the calling test runs in a process that has the device. Where it does not, it is run again in one that does, and
/// fails if it fails there; where none can be had, that is said aloud.
///
/// `module` is the test's `module_path!()`.
///
/// # Panics
/// If the test fails on the device.
pub fn is_here(module: &str, test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let path = module.split_once("::").map_or_else(|| test.to_owned(), |(_, module)| format!("{module}::{test}"));
    run_on_device(&[&path], &["--exact"]);
    false
}

/// Runs tests of the calling binary again, in a process that has the device: those of the modules, without the tests that
/// are excluded by name. In such a process it does nothing. Without a device it is a skip.
///
/// # Panics
/// If one of the tests fails, or if a module has none.
pub fn run_modules(modules: &[&str], excluded: &[&str]) {
    let excluded: Vec<&str> = excluded.iter().flat_map(|test| ["--skip", test]).collect();
    run_on_device(modules, &excluded);
}

/// Runs the tests whose names contain one of the words, each word at least one.
fn run_on_device(words: &[&str], options: &[&str]) {
    let device = match Device::find() {
        Ok(_) if std::env::var_os(INSIDE).is_some() => return,
        Ok(device) => device,
        Err(why) => return skip(&format!("{} on CUDA: {why}", words[0])),
    };
    let program = std::env::current_exe().expect("a test has a program");
    let mut command = Command::new(program);
    device.give(&mut command);
    command.args(words).args(options).args(["--nocapture", "--test-threads=2"]);
    command.env(INSIDE, "1").env("CLOZE_TEST_DEVICE", "cuda");
    // A comparison of the device with the CPU needs the same draws.
    command.env("PRETEND_CUDA_CPU_DRAWS", "1");
    let output = command.output().expect("it starts again");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && stdout.contains("test result: ok."), "on the device:\n{stdout}\n{stderr}");
    for word in words {
        let ran = stdout.lines().any(|line| line.starts_with("test ") && line.contains(word));
        assert!(ran, "no test `{word}` ran on the device:\n{stdout}\n{stderr}");
    }
    // The process has counted its skips.
    stderr.lines().filter(|line| line.starts_with("SKIPPED")).for_each(say);
}

/// Where the library is, or why there is none: `build.rs` says one of the two.
fn library() -> Result<PathBuf, String> {
    let moved = std::env::var_os("PRETEND_CUDA_LIBRARY").map(PathBuf::from);
    let built = option_env!("PRETEND_CUDA_LIBRARY").map(PathBuf::from);
    moved.or(built).ok_or_else(|| option_env!("PRETEND_CUDA_MISSING").unwrap_or("it is not built").to_owned())
}
