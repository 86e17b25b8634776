//! Fuzz tests for every parser of external bytes. For tests only.
//!
//! # What
//! A target is a parser with a property that holds for any bytes. The parser never panics and never allocates without
//! bound. It returns an error, or a value that survives writing and reading. [`target!`] defines a test of the
//! property, next to the parser:
//!
//! ```text
//! #[test]
//! fn a_document_is_read_or_refused() {
//!     fuzz::target!("jsonl", |bytes: &[u8]| { … });
//! }
//! ```
//!
//! # Why
//! Every parser refuses random bytes at once. Effective inputs start from nearly valid files and contain typical
//! damage. Inputs are therefore *seeds*, mutated a few times ([`mutation`]).
//!
//! # Definition
//! Seeds are the files of `tests/fuzz/seeds/TARGET/` and those that the target adds. Each is tried unchanged,
//! followed by [`INPUTS`] mutated ones. The mutated inputs are the same in every run, so failures are reproducible.
//! If `BOLERO_RANDOM_TEST_TIME_MS` is set (`make fuzz`), new inputs are drawn for that time, guided by coverage under
//! `cargo bolero`, and a failing input is shrunk. In both cases the failing input is printed as a shell command that
//! adds it to the seeds, so that `make test` always tries it. An input that ended the whole program, by a stack
//! overflow, is in the folder that `CLOZE_FUZZ_LAST` names.
//!
//! # Reference
//! Zeller et al., "The Fuzzing Book", chapter "Mutation-Based Fuzzing"; `bolero` for drivers and shrinking.

mod input;
pub mod memory;
pub mod mutation;

use std::io::Write as _;
use std::path::Path;

use bolero::generator::bolero_generator::ValueGenerator as _;
use bolero::generator::bolero_generator::driver::{ByteSliceDriver, Options};
use serde::de::DeserializeOwned;

pub use bolero;

pub use self::input::Input;
use self::mutation::Mutated;

/// Number of mutated inputs of a target in a normal test run.
pub const INPUTS: usize = 1000;

/// Seeds of a target: files, and generated ones.
#[derive(Debug)]
pub struct Seeds {
    target: &'static str,
    inputs: Vec<Input>,
}

impl Seeds {
    /// Returns the files of `tests/fuzz/seeds/TARGET`, if there are any, and `made`.
    ///
    /// # Panics
    /// Panics if there are no seeds, or if a file cannot be read.
    #[must_use]
    pub fn of(target: &'static str, made: Vec<Vec<u8>>) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        let entries = std::fs::read_dir(&folder).into_iter().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
        paths.sort();
        let read = |path| std::fs::read(path).expect("a seed is a readable file");
        let inputs: Vec<_> = paths.iter().map(read).chain(made).map(|bytes| Input { target, bytes }).collect();
        assert!(!inputs.is_empty(), "the target `{target}` has no seeds in {}", folder.display());
        Self { target, inputs }
    }

    /// Tries each seed unchanged.
    pub fn replay(&self, law: impl Fn(&[u8])) {
        self.inputs.iter().for_each(|input| guarded(input, &law));
    }

    /// Tries [`INPUTS`] mutated seeds, the same in every run.
    pub fn vary(&self, law: impl Fn(&[u8])) {
        let mutated = self.mutated();
        for number in 0..INPUTS {
            let draws = draws(self.target, number);
            let mut driver = ByteSliceDriver::new(&draws, &Options::default());
            if let Some(input) = mutated.generate(&mut driver) {
                guarded(&input, &law);
            }
        }
    }

    /// Generates mutated seeds.
    #[must_use]
    pub fn mutated(&self) -> Mutated {
        Mutated::new(self.target, self.inputs.iter().map(|input| input.bytes.clone()).collect())
    }
}

/// Returns the content of a sealed file. A damaged seal would be refused at once, so the content is fuzzed without
/// the seal.
#[must_use]
pub fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut file = serde_json::from_slice::<serde_json::Value>(bytes).ok()?;
    serde_json::from_value(file.get_mut("content")?.take()).ok()
}

/// Source of the mutations of one input.
fn draws(target: &str, number: usize) -> Vec<u8> {
    let mut draws = vec![0; 4096];
    let mut hasher = blake3::Hasher::new();
    hasher.update(target.as_bytes()).update(&(number as u64).to_le_bytes());
    hasher.finalize_xof().fill(&mut draws);
    draws
}

/// Returns whether new inputs are requested.
#[must_use]
pub fn searches() -> bool {
    std::env::var_os("BOLERO_RANDOM_TEST_TIME_MS").is_some()
}

/// Prints the input if the test ends during its trial.
struct Named<'a>(&'a Input);

impl Drop for Named<'_> {
    #[expect(clippy::print_stderr, reason = "what a failed test says")]
    fn drop(&mut self) {
        if std::thread::panicking() && !searches() {
            eprintln!("the input that failed: {:?}", self.0);
        }
    }
}

/// Tries one input: checks the property, and bounds the memory.
///
/// # Panics
/// Panics if the property or the bound is violated.
pub fn guarded(input: &Input, law: impl Fn(&[u8])) {
    if let Some(folder) = std::env::var_os("CLOZE_FUZZ_LAST") {
        keep(&Path::new(&folder).join(input.target), &input.bytes).expect("the folder of CLOZE_FUZZ_LAST is writable");
    }
    let named = Named(input);
    let peak = memory::peak(input, || law(&input.bytes));
    let most = memory::allowed(input.bytes.len());
    assert!(peak <= most, "{peak} bytes of memory for an input of {}, {most} are enough", input.bytes.len());
    drop(named);
}

/// The file is truncated after writing. ext4 flushes a file to disk that is truncated first and then filled.
fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Temporary file with these bytes, for parsers that open files. It is deleted on drop. `suffix` is the end of its
/// name.
///
/// # Panics
/// Panics if the file cannot be written.
#[must_use]
pub fn on_disk(suffix: &str, bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    file
}

/// Fuzzes a parser: `target!("name", law)`, or `target!("name", seeds, law)` with generated seeds. The law panics if
/// the property is violated.
#[macro_export]
macro_rules! target {
    ($target:literal, $law:expr) => {
        $crate::target!($target, Vec::new(), $law)
    };
    ($target:literal, $made:expr, $law:expr) => {{
        let law = $law;
        let seeds = $crate::Seeds::of($target, $made);
        seeds.replay(&law);
        if $crate::searches() {
            let check = $crate::bolero::check!().with_generator(seeds.mutated());
            check.for_each(|input| $crate::guarded(input, &law));
        } else {
            seeds.vary(&law);
        }
    }};
}

#[cfg(test)]
mod tests;
