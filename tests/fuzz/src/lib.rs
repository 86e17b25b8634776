//! Broken inputs for every parser of foreign bytes. For tests only.
//!
//! # What
//! A target is a parser and the law that it keeps for any bytes: it never panics, never allocates without bound, and
//! says no, or gives something that survives being written and read again. [`target!`] makes a test of it, next to the
//! parser:
//!
//! ```text
//! #[test]
//! fn a_document_is_read_or_refused() {
//!     fuzz::target!("jsonl", |bytes: &[u8]| { … });
//! }
//! ```
//!
//! # Why
//! Random bytes are refused by the first line of every parser. What finds something begins with files that are nearly
//! right, and knows how such files go wrong: so inputs are *seeds*, mutated a few times ([`mutation`]).
//!
//! # Definition
//! Seeds are the files of `tests/fuzz/seeds/TARGET/`, and what the target adds. Each is tried as it is, then
//! [`INPUTS`] mutated ones are, the same each time: a test that fails today failed yesterday. Where
//! `BOLERO_RANDOM_TEST_TIME_MS` is set (`make fuzz`), inputs are drawn again for as long as is said, by what watches
//! coverage under `cargo bolero`, and one that failed is made smaller. Either way it is printed as the line of shell that puts it among the seeds,
//! where `make test` tries it forever. One that ended the whole program, by a stack that overflowed, lies in the folder
//! that `CLOZE_FUZZ_LAST` names.
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

/// Mutated inputs of a target in an ordinary run of the tests.
pub const INPUTS: usize = 1000;

/// The seeds of a target: its files, and those it has made.
#[derive(Debug)]
pub struct Seeds {
    target: &'static str,
    inputs: Vec<Input>,
}

impl Seeds {
    /// The files of `tests/fuzz/seeds/TARGET`, if there are any, and `made`.
    ///
    /// # Panics
    /// If there are none at all, or a file cannot be read.
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

    /// Tries each seed as it is.
    pub fn replay(&self, law: impl Fn(&[u8])) {
        self.inputs.iter().for_each(|input| guarded(input, &law));
    }

    /// Tries [`INPUTS`] inputs that are nearly seeds, the same in every run.
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

    /// Inputs that are nearly seeds.
    #[must_use]
    pub fn mutated(&self) -> Mutated {
        Mutated::new(self.target, self.inputs.iter().map(|input| input.bytes.clone()).collect())
    }
}

/// What a sealed file would hold if its seal were right: the seal turns nearly everything away, and what lies behind it is
/// tried without.
#[must_use]
pub fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut file = serde_json::from_slice::<serde_json::Value>(bytes).ok()?;
    serde_json::from_value(file.get_mut("content")?.take()).ok()
}

/// What the changes of one input are drawn from.
fn draws(target: &str, number: usize) -> Vec<u8> {
    let mut draws = vec![0; 4096];
    let mut hasher = blake3::Hasher::new();
    hasher.update(target.as_bytes()).update(&(number as u64).to_le_bytes());
    hasher.finalize_xof().fill(&mut draws);
    draws
}

/// Whether somebody asks for new inputs.
#[must_use]
pub fn searches() -> bool {
    std::env::var_os("BOLERO_RANDOM_TEST_TIME_MS").is_some()
}

/// Says which input it was, if the test ends here.
struct Named<'a>(&'a Input);

impl Drop for Named<'_> {
    #[expect(clippy::print_stderr, reason = "what a failed test says")]
    fn drop(&mut self) {
        if std::thread::panicking() && !searches() {
            eprintln!("the input that failed: {:?}", self.0);
        }
    }
}

/// Tries one input: the law is kept, and memory is bounded.
///
/// # Panics
/// If not.
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

/// Shortened behind the bytes, not before: a file that is emptied and filled is flushed to disk each time by ext4.
fn keep(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// A file of these bytes, for parsers that open their own; gone when it is dropped. `suffix` is how its name ends.
///
/// # Panics
/// If there is no room for it.
#[must_use]
pub fn on_disk(suffix: &str, bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    file
}

/// Tries a parser on all that is nearly right: `target!("name", law)`, or `target!("name", seeds, law)` with seeds that
/// code has made. The law panics where it is broken.
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
