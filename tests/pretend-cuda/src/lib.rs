//! CUDA device simulated in host memory, for a libtorch without CUDA. It runs the GPU code path on any machine.
//!
//! The device is a shared library that a process preloads (`native/`, described in its files). It computes the
//! results of the CPU with the restrictions of a GPU. The host cannot read device memory. Fresh memory is NaN.
//! Tensors of two devices do not mix. Work of two streams must be ordered by events, otherwise it fails. Memory is
//! limited. The library counts kernels, copies and waits. It does not simulate the speed, the kernels or the rounding
//! of CUDA.
//!
//! # Variables
//! | variable | meaning |
//! |---|---|
//! | `PRETEND_CUDA_REPORT=FILE` | writes the counts as a line of JSON at the end of the process |
//! | `PRETEND_CUDA_MARK=_fused_adamw_` | also writes a line at each call of that operator, with the counts since the
//! previous one |
//! | `PRETEND_CUDA_BYTES=N` | memory size of the device in bytes |
//! | `PRETEND_CUDA_DEVICES=N` | number of devices; memory and streams are those of one |
//! | `PRETEND_CUDA=1`, `=0` | 1: tests use this device even if there is a real one; 0: tests use the real one |
//! | `PRETEND_CUDA_LIBRARY=FILE` | path of the library, if it has been moved |
//! | `PRETEND_CUDA_CPU_DRAWS=1` | the generator draws the same numbers as the CPU's with the same seed |

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{print_uncaptured, skip};

mod counts;
#[cfg(test)]
mod tests;

pub use self::counts::{Counts, limit, slow_nccl_calls};

/// Device for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// CUDA device of this machine.
    Real,
    /// Simulated device of this package.
    Pretend,
}

impl Device {
    /// Returns the real device if there are a driver and a libtorch for it, otherwise the simulated one.
    ///
    /// # Errors
    /// Returns the reason if there is no device.
    pub fn find() -> Result<Self, String> {
        let is_real = || Path::new("/dev/nvidiactl").exists() && option_env!("PRETEND_CUDA_NOT_NEEDED").is_some();
        let is_real = std::env::var("PRETEND_CUDA").map_or_else(|_| is_real(), |wish| wish == "0");
        if is_real { Ok(Self::Real) } else { library().map(|_| Self::Pretend) }
    }

    /// Gives the device to a process before its start.
    pub fn give(self, command: &mut Command) {
        if let (Self::Pretend, Ok(library)) = (self, library()) {
            command.env("LD_PRELOAD", library);
        }
    }
}

/// Returns a folder with a stub of CUDA's driver, for the library search path. `None` if the stub is not built.
#[must_use]
pub fn driver() -> Option<&'static Path> {
    option_env!("PRETEND_CUDA_DRIVER").map(Path::new)
}

/// Environment variable of a test process that has the device.
const INSIDE: &str = "PRETEND_CUDA_INSIDE";

/// Returns whether the calling test runs in a process that has the device. Otherwise the test is run again in such a
/// process, and fails if it fails there. If there is no device, the skip is reported.
///
/// `module` is the test's `module_path!()`.
///
/// # Panics
/// Panics if the test fails on the device.
pub fn is_here(module: &str, test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let path = module.split_once("::").map_or_else(|| test.to_owned(), |(_, module)| format!("{module}::{test}"));
    run_on_device(&[&path], &["--exact"]);
    false
}

/// Runs tests of the calling binary again in a process that has the device: the tests of the modules, without those
/// excluded by name. Does nothing in such a process. Without a device it is a skip.
///
/// # Panics
/// Panics if a test fails, or if a module has no test.
pub fn run_modules(modules: &[&str], excluded: &[&str]) {
    let excluded: Vec<&str> = excluded.iter().flat_map(|test| ["--skip", test]).collect();
    run_on_device(modules, &excluded);
}

/// Runs the tests whose names contain one of the words. Each word must select at least one.
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
    // A comparison of the device with the CPU needs the same random numbers.
    command.env("PRETEND_CUDA_CPU_DRAWS", "1");
    let output = command.output().expect("it starts again");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && stdout.contains("test result: ok."), "on the device:\n{stdout}\n{stderr}");
    for word in words {
        let ran = stdout.lines().any(|line| line.starts_with("test ") && line.contains(word));
        assert!(ran, "no test `{word}` ran on the device:\n{stdout}\n{stderr}");
    }
    // The child process has counted its skips.
    stderr.lines().filter(|line| line.starts_with("SKIPPED")).for_each(print_uncaptured);
}

/// Returns the path of the library, or the reason why it is missing. `build.rs` provides one of the two.
fn library() -> Result<PathBuf, String> {
    let moved = std::env::var_os("PRETEND_CUDA_LIBRARY").map(PathBuf::from);
    let built = option_env!("PRETEND_CUDA_LIBRARY").map(PathBuf::from);
    moved.or(built).ok_or_else(|| option_env!("PRETEND_CUDA_MISSING").unwrap_or("it is not built").to_owned())
}
