//! Tests that tracing does not change batches, and that unused options are refused.

use clap::Parser as _;
use pipeline::load::{self, BatchStream, StreamOptions};
pub(super) use profiler::trace::{Limits, Trace, layer};
use schemas::{RankShard, RowIndex};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::cli::{Cli, ConfigArgs, Verb};
use crate::plan::Plan;
use crate::run::data::Purpose;

/// Digests of the rows of the first batches.
fn digests(args: &ConfigArgs) -> Vec<blake3::Hash> {
    let plan = Plan::new(args, load::find, Purpose::ReadOnly).expect("it is prepared");
    let options = StreamOptions { digests: true, ..StreamOptions::default() };
    let stream = BatchStream::new(plan.load(), RowIndex(0), RankShard::ALONE, options);
    stream.take(60).flat_map(|batch| batch.expect("good").row_digests().to_vec()).collect()
}

#[test]
fn batches_are_the_same_with_a_trace_and_without() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| home.path().join(name).display().to_string();
    let words = ["a", "the", "cat", "dog", "tree", "sees", "likes", "old", "small", "green"];
    let line = |row: usize| (0..40).map(|at| words[(row * 7 + at * at + row * at) % 10]).collect::<Vec<_>>().join(" ");
    let text = (0..300).map(line).collect::<Vec<_>>().join("\n");
    store::Store::folder(home.path()).and_then(|store| store.put("corpus.txt", text.as_bytes())).expect("written");
    let sets = [
        format!("prepare.inputs=[\"{}\"]", place("corpus.txt")),
        format!("prepare.tokenizer={}", place("tokenizer.json")),
        format!("prepare.folder={}", place("data")),
        format!("data.folder={}", place("data")),
        "prepare.format=text_lines".to_owned(),
        "tokenizer.vocab_size=60".to_owned(),
        "data.workers=2".to_owned(),
    ];
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/tiny.toml");
    for verb in ["tokenizer train", "prepare"] {
        let words = ["cloze"].into_iter().chain(verb.split(' ')).chain(["--config", config]);
        let words = words.chain(sets.iter().flat_map(|set| ["--set", set]));
        crate::commands::dispatch(Cli::try_parse_from(words).expect("a command").verb).expect(verb);
    }
    let args = ConfigArgs { config: config.into(), set: sets.to_vec() };
    // Workers are other threads, so the layer must be global. No other test of this binary sets one.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer())).expect("the only one");
    let before = digests(&args);
    let trace = std::iter::repeat_with(|| Trace::begin(Limits::default())).find_map(Result::ok).expect("in the end");
    let during = digests(&args);
    let recorded = trace.end();
    assert!(before.len() >= 60 && before == during && during == digests(&args));
    assert!(recorded.entries() > 300, "{} entries", recorded.entries());
}

#[test]
fn options_of_other_targets_are_refused() {
    let checked = |words: &str| {
        let cli = Cli::try_parse_from(["cloze", "profile"].into_iter().chain(words.split(' '))).expect("a command");
        let Verb::Profile(verb) = cli.verb else { panic!("{words}: another verb") };
        super::check(&verb.measurement().expect("a measurement").1).map_err(|error| error.to_string())
    };
    for accepted in [
        "loader --step-ms 5 --check",
        "prepare --slow writer=1 --scale 1,2 --seconds 1",
        "train --batches 9 --report a.html",
        "step --steps 3 --json",
        "all --step-ms 5 --seconds 3 --check",
    ] {
        assert_eq!(checked(accepted), Ok(()), "{accepted}");
    }
    for (refused, users) in [
        ("step --step-ms 5", "--step-ms: `cloze profile step` does not use it, only `loader`, `all`"),
        ("train --step-ms 5", "--step-ms: `cloze profile train` does not use it, only `loader`, `all`"),
        ("loader --steps 5", "--steps: `cloze profile loader` does not use it, only `step`"),
        ("prepare --seconds 5", "--seconds: `cloze profile prepare` does not use it, only `loader`, `train`, `all`"),
        ("prepare --check", "--check: `cloze profile prepare` does not use it, only `loader`, `train`, `all`"),
        ("step --batches 5", "--batches: `cloze profile step` does not use it, only `loader`, `train`, `all`"),
        ("all --scale 1,2", "--scale: `cloze profile all` does not use it, only `loader`, `prepare`, `train`"),
        ("all --report a.html", "--report: `cloze profile all` does not use it, only `loader`, `prepare`, `train`"),
    ] {
        assert_eq!(checked(refused), Err(users.to_owned()));
    }
}
