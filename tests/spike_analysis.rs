//! Analysis of a loss spike: its cause, its replay and its skip.

use serde_json::Value;
use testkit::{Home, files};

/// Text that is nearly always the same word, so that the usual loss is soon known.
const USUAL: [&str; 9] = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
/// Words that occur in one document only.
const OTHERS: [&str; 10] =
    ["zebra", "quartz", "vexing", "jumps", "foxglove", "wyvern", "sphinx", "kayak", "oxide", "quiver"];

/// Returns a fixed sequence of numbers below `end`.
fn numbers(seed: u64, end: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(seed), |last| {
        Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .skip(1)
    .map(move |number| usize::try_from(number >> 33).expect("31 bits") % end)
}

fn usual(number: usize) -> String {
    let word = |drawn: usize| if drawn < 9 { USUAL[drawn] } else { "one" };
    let words: Vec<&str> = numbers(number as u64, 900).take(150).map(word).collect();
    format!("{} {number} .", words.join(" "))
}

fn poison() -> String {
    let words: Vec<&str> = numbers(7, OTHERS.len()).take(60).map(|drawn| OTHERS[drawn]).collect();
    words.join(" ")
}

/// Home with 401 documents, one of them of words that no other has.
fn home() -> Home {
    let home = Home::with_corpus(4);
    std::fs::remove_dir_all(home.join("corpus")).expect("it was just written");
    let mut documents: Vec<String> = (0..400).map(usual).collect();
    documents.insert(233, poison());
    home.write("corpus/all.txt", &(documents.join("\n") + "\n"));
    home.run_ok(&["tokenizer", "train"]);
    home.run_ok(&["prepare", "--set", "prepare.valid_fraction=0"]);
    home
}

const STEPS: u64 = 120;

/// Trains, and restarts after each kill.
fn train(home: &Home, folder: &str, rule: &str, kills: &[u64]) {
    let folder = format!("run.folder={folder}");
    let rule = format!("spike_guard.action={rule}");
    let steps = format!("train.steps={STEPS}");
    let loss = "loss={mlm=1.0}";
    let sets = [
        folder.as_str(),
        &rule,
        &steps,
        loss,
        "seed=3",
        "train.global_batch_size=8",
        "train.micro_batch_size=4",
        "spike_guard.loss_sigmas=6",
        "spike_guard.norm_sigmas=0",
        "spike_guard.window=40",
        "report.every_steps=5",
        "validation.every_steps=0",
        "optimizer.lr=0.003",
        "schedule.kind=constant",
    ];
    let args: Vec<&str> = ["train"].into_iter().chain(sets.iter().flat_map(|set| ["--set", *set])).collect();
    for step in kills {
        let mut running = home.watch(&args);
        running.wait_for_step(*step);
        running.kill();
    }
    home.run_ok(&args);
}

fn events(home: &Home, run: &str, kind: &str) -> Vec<Value> {
    home.log(run).into_iter().filter(|event| event["kind"] == kind).collect()
}

fn json(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(args);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

#[test]
fn spike_document_is_found_and_skipped_despite_kills() {
    let home = home();
    train(&home, "warned", "warn", &[]);
    let spikes = events(&home, "warned", "loss_spike");
    let [spike] = spikes.as_slice() else { panic!("{spikes:?}") };
    let step = spike["spike_step"].as_u64().expect("a step");
    assert!(step > 32 && step < STEPS - 10, "{spike}: choose another seed");
    let step_text = step.to_string();

    // Find the document that caused the spike.
    let explained = json(&home, &["explain", "warned", "--step", &step_text, "--rows", "1", "--json"]);
    let row = &explained["rows"][0];
    assert_eq!(explained["log"]["loss"], spike["value"], "{explained}");
    let documents = row["documents"].as_array().expect("a list");
    let culprit =
        documents.iter().find(|document| document["text"].as_str().is_some_and(|text| text.contains("wyvern")));
    let culprit = culprit.unwrap_or_else(|| panic!("the hardest row is of that document: {explained}"));
    assert!(
        poison().starts_with(culprit["text"].as_str().expect("text")) && culprit["source"] == "all.txt",
        "{culprit}"
    );
    let shown = home.run_ok(&["explain", "warned", "--step", &step_text, "--rows", "1"]);
    assert!(
        shown.stdout.contains("wyvern") && shown.stdout.contains("all.txt") && shown.stdout.contains("masked"),
        "{shown}"
    );

    // Replay the step to the bit, and without the document.
    let row = row["row"].as_u64().expect("a row").to_string();
    let replayed = json(&home, &["replay", "warned", "--step", &step_text, "--without", &row, "--json"]);
    assert_eq!((&replayed["figures"], &replayed["hashes"]), (&"equal".into(), &"equal".into()), "{replayed}");
    let loss = |of: &Value| of["loss"].as_f64().expect("a number");
    assert!(loss(&replayed["seen"]) - loss(&replayed["without"]) > 0.5, "{replayed}");
    home.run(&["replay", "warned", "--step", &step_text, "--without", "0"]).assert_fails(2, &["rows of the step"]);
    home.run(&["replay", "warned", "--step", "9999"]).assert_fails(2, &["120"]);

    // Both an uninterrupted run and one that is killed before and after the step skip it.
    train(&home, "calm", "skip", &[]);
    let before = step - step % 5;
    train(&home, "killed", "skip", &[before - 10, before, before + 10]);
    let skips = events(&home, "calm", "skip");
    let [skip] = skips.as_slice() else { panic!("{skips:?}") };
    assert_eq!((&skip["spike_step"], &skip["step"]), (&spike["spike_step"], &(step - 1).into()), "{skip}");
    let suspects = skip["suspects"][0]["documents"].as_array().expect("a list");
    assert!(suspects.contains(&culprit["id"]), "{skip}");
    assert_eq!(events(&home, "killed", "skip").len(), 1);
    let calm = files(&home.join("calm/checkpoints"));
    let killed = files(&home.join("killed/checkpoints"));
    assert!(calm.keys().any(|name| name.contains("00000120")), "{:?}", calm.keys());
    assert!(calm == killed, "{:?} and {:?}", calm.keys(), killed.keys());
    let passed = home.run_ok(&["replay", "calm", "--step", &step_text]);
    assert!(passed.stdout.contains("skipped: its rows"), "{passed}");

    // All rows are accounted for.
    for run in ["calm", "killed"] {
        let exposure = json(&home, &["exposure", run, "--json"]);
        let rows = &exposure["rows"];
        assert_eq!((&rows["trained"], &rows["skipped"]), (&(8 * (STEPS - 1)).into(), &8.into()), "{exposure}");
        assert!(exposure["rolled_back_rows"].as_u64() > Some(0), "{exposure}");
        let of = json(&home, &["exposure", run, "--document", culprit["id"].as_str().expect("an id"), "--json"]);
        assert!(of["dataset_versions"][0]["rows"]["skipped"].as_u64() >= Some(1), "{of}");
    }
    let exposure = json(&home, &["exposure", "warned", "--json"]);
    assert_eq!(
        (&exposure["rows"]["trained"], &exposure["rolled_back_rows"]),
        (&(8 * STEPS).into(), &0.into()),
        "{exposure}"
    );
}

/// A step is replayed as it was run, regardless of later changes.
#[test]
fn steps_before_a_change_are_replayed_with_their_old_keys() {
    let home = Home::prepared(120);
    let train = |lr: &'static str, steps: &'static str, more: &[&'static str]| {
        let sets = ["run.folder=run", lr, steps, "loss={mlm=1.0}", "checkpoints.keep=9", "schedule.kind=constant"];
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        ["train"].into_iter().chain(sets).chain(more.iter().copied()).collect::<Vec<_>>()
    };
    home.run_ok(&train("optimizer.lr=0.001", "train.steps=20", &[]));
    home.run_ok(&train("optimizer.lr=0.0005", "train.steps=40", &["--allow-change", "optimizer.lr"]));
    for step in ["5", "15", "20", "25", "35"] {
        let replayed = json(&home, &["replay", "run", "--step", step, "--json"]);
        assert_eq!(
            (&replayed["figures"], &replayed["hashes"]),
            (&"equal".into(), &"equal".into()),
            "{step}: {replayed}"
        );
    }
    for (step, lr) in [("15", "lr 1.0e-3"), ("35", "lr 5.0e-4")] {
        let explained = home.run_ok(&["explain", "run", "--step", step, "--rows", "1"]);
        assert!(explained.stdout.contains(lr), "{explained}");
    }
    // Explaining a step with other settings is refused.
    home.run(&["explain", "run", "--step", "35", "--set", "optimizer.lr=1"])
        .assert_fails(2, &["a different configuration", "optimizer.lr"]);
}

/// Invalid run folders and damaged files.
#[test]
fn missing_runs_and_damaged_files_are_named() {
    let home = Home::with_corpus(4);
    for verb in ["explain", "replay"] {
        home.run(&[verb, "nowhere", "--step", "1"]).assert_fails(2, &["nowhere", "no run is here"]);
    }
    home.run(&["exposure", "corpus"]).assert_fails(2, &["no exposure record"]);
    home.write("corpus/exposure/rows-000000000000-000000000008.parquet", "PAR1");
    home.run(&["exposure", "corpus"]).assert_fails(1, &["rows-000000000000-000000000008.parquet"]);
}
