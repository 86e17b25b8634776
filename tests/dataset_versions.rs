//! Prepared folders that grow or shrink while runs read them.

use pipeline::shard::synthetic::Synthetic;
use serde_json::Value;
use store::Store;
use testkit::Home;

use crate::ranks::train_ranks;

/// 230 samples: an epoch of 14 steps and a few rows.
fn home() -> Home {
    let home = Home::with_corpus(4);
    Synthetic::default().write(&data(&home)).expect("written");
    home
}

fn data(home: &Home) -> Store {
    Store::folder(home.join("data")).expect("there")
}

/// Constant learning rate, so that a stopped run can continue to more steps.
fn train<'a>(run: &'a str, rule: &'a str, steps: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run, "--set", rule, "--set", steps, "--set", "schedule.kind=constant"];
    args.extend(["--set", "report.every_steps=1", "--set", "data.workers=2", "--set", "checkpoints.keep=9"]);
    args.extend(more);
    args
}

/// Returns the hash of the batches after each step.
fn hashes(home: &Home, run: &str) -> Vec<String> {
    let entries = home.log(run).into_iter();
    entries.filter_map(|entry| entry["batch_hash"].as_str().map(str::to_owned)).collect()
}

/// Returns (epoch, dataset version) of each span in a run's list.
pub(crate) fn version_spans(home: &Home, run: &str) -> Vec<(u64, u64)> {
    let list = std::fs::read(home.join(run).join("dataset_versions.json")).expect("a list");
    let list: Value = serde_json::from_slice(&list).expect("JSON");
    let spans = list["content"]["spans"].as_array().expect("spans").iter();
    let number = |span: &Value, key: &str| span[key].as_u64().expect("a number");
    spans.map(|span| (number(span, "epoch"), number(span, "dataset_version"))).collect()
}

#[test]
fn run_continues_with_an_added_version_under_both_rules() {
    let home = home();
    home.run_ok(&train("run.folder=alone", "data.version=pinned", "train.steps=60", &[]));
    let alone = hashes(&home, "alone");
    for rule in ["pinned", "latest"] {
        let run = format!("run.folder={rule}");
        let rule = format!("data.version={rule}");
        home.run_ok(&train(&run, &rule, "train.steps=20", &[]));
    }
    let of_ranks = ["--set", "train.micro_batch_size=4", "--set", "train.threads=1"];
    train_ranks(&home, 2, &train("run.folder=ranks", "data.version=latest", "train.steps=20", &of_ranks));
    Synthetic::default().add(&data(&home), &[1], &[]).expect("added");
    let mut planned = train("run.folder=pinned", "data.version=pinned", "train.steps=60", &[]);
    planned[0] = "plan";
    let plan = home.run_ok(&planned);
    assert!(plan.stdout.contains("dataset version 0 of the folder; 1 is there, the run stays with it"), "{plan}");
    for rule in ["pinned", "latest"] {
        let run = format!("run.folder={rule}");
        let rule = format!("data.version={rule}");
        let outcome = home.run_ok(&train(&run, &rule, "train.steps=60", &[]));
        let is_announced = outcome.stderr.contains("rows from 460 on are of dataset version 1 of the data (before: 0)");
        assert_eq!(is_announced, rule.ends_with("latest"), "{outcome}");
    }
    assert_eq!((hashes(&home, "pinned"), version_spans(&home, "pinned")), (alone.clone(), vec![(0, 0)]));
    // Epoch 1 had started when the version was added. It ends with row 460, in step 28.
    let newest = hashes(&home, "latest");
    let equal = newest.iter().zip(&alone).take_while(|(a, b)| a == b).count();
    assert_eq!((equal, newest.len(), version_spans(&home, "latest")), (28, 60, vec![(0, 0), (2, 1)]));
    train_ranks(&home, 2, &train("run.folder=ranks", "data.version=latest", "train.steps=60", &of_ranks));
    assert_eq!((hashes(&home, "ranks"), version_spans(&home, "ranks")), (newest.clone(), vec![(0, 0), (2, 1)]));

    // The run is killed after step 40, with another version added since. Earlier decisions stay.
    Synthetic::default().add(&data(&home), &[2], &[]).expect("added");
    for step in ["step-00000050", "step-00000060"] {
        std::fs::remove_dir_all(home.join("latest/checkpoints").join(step)).expect("a checkpoint");
    }
    home.run_ok(&train("run.folder=latest", "data.version=latest", "train.steps=60", &[]));
    assert_eq!((hashes(&home, "latest"), version_spans(&home, "latest")), (newest, vec![(0, 0), (2, 1)]));
}

#[test]
fn a_run_on_dropped_parts_is_refused_by_name() {
    let home = home();
    let unvalidated = ["--set", "validation.every_steps=0"];
    home.run_ok(&train("run.folder=first", "data.version=pinned", "train.steps=10", &[]));
    home.run_ok(&train("run.folder=newest", "data.version=latest", "train.steps=10", &unvalidated));
    Synthetic::default().add(&data(&home), &[1], &[0]).expect("replaced");
    let words = [
        "reads dataset version 0 of the folder, and dataset version 1 dropped part 0 of it",
        "run.folder",
        "train.init_from",
    ];
    home.run(&train("run.folder=first", "data.version=pinned", "train.steps=20", &[])).assert_fails(2, &words);
    home.run(&train("run.folder=newest", "data.version=latest", "train.steps=20", &unvalidated))
        .assert_fails(2, &words);
    // A finished run reads no data.
    let done = home.run_ok(&train("run.folder=first", "data.version=pinned", "train.steps=10", &[]));
    assert!(done.stderr.contains("done: 10 steps"), "{done}");
    // A new run reads the current version.
    home.run_ok(&train("run.folder=other", "data.version=pinned", "train.steps=10", &[]));
    assert_eq!(version_spans(&home, "other"), [(0, 1)]);
}

/// Exporting a model does not depend on its training data.
#[test]
fn a_model_outlives_the_parts_that_it_was_trained_on() {
    let home = home();
    home.run_ok(&train("run.folder=run", "data.version=pinned", "train.steps=10", &[]));
    let export = |out: &str| home.run(&["export", "run", "--out", out]);
    Synthetic::default().add(&data(&home), &[1], &[0]).expect("replaced");
    let exported = export("model");
    assert!(exported.stdout.contains("step 10"), "{exported}");
    export("run").assert_fails(2, &["this is a run or a prepared folder", "--out"]);
    // A tokenizer that changed later is not that of the model.
    data(&home).put("tokenizer.json", b"{}").expect("written");
    export("other").assert_fails(1, &["tokenizer.json", "damaged"]);
    assert!(!home.join("other").exists());
}

#[test]
fn run_with_a_lost_or_changed_list_is_refused() {
    let home = home();
    let args = train("run.folder=run", "data.version=latest", "train.steps=10", &[]);
    home.run_ok(&args);
    let folder = Store::folder(home.join("run")).expect("there");
    let list = std::fs::read(home.join("run/dataset_versions.json")).expect("a list");
    let changed = String::from_utf8(list.clone()).expect("JSON").replace("\"epochs\": ", "\"epochs\": 1");
    folder.put("dataset_versions.json", changed.as_bytes()).expect("written");
    home.run(&args).assert_fails(2, &["dataset_versions.json", "damaged", "restore it"]);
    // Without the list, the run would start with another dataset version.
    Synthetic::default().add(&data(&home), &[1], &[]).expect("added");
    std::fs::remove_file(home.join("run/dataset_versions.json")).expect("a list");
    home.run(&args).assert_fails(2, &["data.content"]);
}
