//! Runs for `cloze tune`.

use crate::home::Home;
use crate::outcome::Outcome;
use crate::root;

/// Configuration of a run to tune, with a prepared corpus.
pub const RUN: &str = "\
# a run to tune

[tokenizer]
vocab_size = 400

[prepare]
inputs    = ['corpus']
format    = 'text_lines'
tokenizer = 'tokenizer.json'
folder    = 'data'

[data]
workers = 1   # a comment to keep
prefetch_batches = 2

# folder of the run
[run]
folder = 'run'
";

/// Arguments with which a worker needs 20 ms per batch and the trainer takes a batch every 6 ms. Without the trainer, a
/// step is one batch.
pub const SLOW: [&str; 4] = ["--step-ms", "12", "--slow", "workers=20"];

/// Returns a prepared folder with `run.toml`.
pub fn home(text: &str) -> Home {
    let home = Home::prepared(200);
    write(&home, text);
    home
}

/// Writes `run.toml`, which extends `configs/tiny.toml`.
pub fn write(home: &Home, text: &str) {
    let tiny = root().join("configs/tiny.toml");
    home.write("run.toml", &format!("extends = '{}'\n{text}", tiny.display()));
}

/// Returns the content of `run.toml`.
pub fn text(home: &Home) -> String {
    std::fs::read_to_string(home.join("run.toml")).expect("a file")
}

/// Runs `cloze tune` on `run.toml`.
pub fn tune(home: &Home, args: &[&str]) -> Outcome {
    home.run(&[&["tune", "-c", "run.toml", "--seconds", "3"], args].concat())
}
