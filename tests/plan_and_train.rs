//! `cloze plan` refuses what `cloze train` refuses, with the same errors.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use store::Store;
use testkit::{Home, Outcome};

/// Settings of which each case takes some: valid ones, mistakes, and changes of a run that exists. A corpus that is not
/// prepared is not among them: it can be planned, and not trained on.
const SETTINGS: [&str; 33] = [
    "train.device=cuda",
    "train.device=cuda:7",
    "train.device=cpu",
    "train.precision=bf16",
    "train.precision=bf16_hidden",
    "train.tf32=true",
    "train.deterministic=true",
    "train.init_from=absent",
    "train.init_from=wide",
    "train.init_from=saved",
    "encoder.word_init=absent",
    "encoder.hidden=48",
    "encoder.heads=5",
    "encoder.layers=0",
    "encoder.max_positions=8",
    "train.micro_batch_size=5",
    "train.micro_batch_size=4",
    "train.global_batch_size=32",
    "data.seq_len=1024",
    "data.workers=0",
    "data.workers=2",
    "run.folder=https://host/run",
    "run.folder=data",
    "checkpoints.export=electra",
    "checkpoints.export=bert",
    "checkpoints.best_by=valid/none",
    "optimizer.lr=-1",
    "optimizer.lr=0.01",
    "schedule.kind=cosine",
    "views.masked.rate=1.5",
    "objectives.mlm.view=absent",
    "loss={}",
    "seed=9",
];

/// Number of cases.
const CASES: usize = 60;

/// Returns pseudo-random settings: up to three, and every setting alone in the first cases.
fn settings(case: usize) -> Vec<&'static str> {
    let draw = |slot: usize| {
        let mut hasher = DefaultHasher::new();
        (case, slot).hash(&mut hasher);
        usize::try_from(hasher.finish() % SETTINGS.len() as u64).expect("an index")
    };
    match SETTINGS.get(case) {
        Some(alone) => vec![alone],
        None => (0..2 + case % 2).map(|slot| SETTINGS[draw(slot)]).collect(),
    }
}

/// Returns the errors without their hints. The reason for a missing driver is known to the trainer only.
fn errors(outcome: &Outcome) -> BTreeSet<String> {
    let errors = outcome.stderr.lines().filter(|line| line.starts_with("error: "));
    errors.map(|line| line.replace(" (libcuda.so.1)", "")).collect()
}

/// A run whose checkpoints are on a disk that is not mounted does not start again.
#[test]
fn lost_checkpoints_are_refused_by_plan_and_train() {
    let home = Home::prepared(60);
    let args = ["--set", "run.folder=run", "--set", "train.steps=4"];
    home.run_ok(&[&["train"], &args[..]].concat());
    std::fs::rename(home.join("run/checkpoints"), home.join("unmounted")).expect("renamed");
    let log = home.log("run");
    for command in ["plan", "train"] {
        home.run(&[&[command], &args[..]].concat()).assert_fails(
            2,
            &["run: the run has saved a checkpoint after step 4, but `checkpoints` has none", "mount"],
        );
    }
    assert_eq!(home.log("run"), log, "nothing is deleted");
    std::fs::rename(home.join("unmounted"), home.join("run/checkpoints")).expect("renamed");
    home.run_ok(&[&["train"], &args[..]].concat());
}

#[test]
fn plan_refuses_what_train_refuses() {
    let home = Home::prepared(60);
    let train = |folder: &str, more: &[&str]| {
        let folder = format!("run.folder={folder}");
        home.run_ok(&[&["train", "--set", &folder, "--set", "train.steps=1"], more].concat());
    };
    train("saved", &[]);
    train("wide", &["--set", "encoder.feed_forward=16"]);
    let store = Store::folder(home.path()).expect("it is there");
    let mut refused = 0;
    for case in 0..CASES {
        // Every third case continues a copy of a run that has saved.
        let folder = format!("run-{case}");
        if case % 3 == 0 {
            for (name, bytes) in testkit::files(&home.join("saved")) {
                store.put(&format!("{folder}/{name}"), &bytes).expect("copied");
            }
        }
        let folder = format!("run.folder={folder}");
        let mut args = vec!["--set", "train.steps=1", "--set", &folder];
        args.extend(settings(case).into_iter().flat_map(|setting| ["--set", setting]));
        let [plan, train] = ["plan", "train"].map(|command| home.run(&[&[command], &args[..]].concat()));
        assert_eq!(plan.code, train.code, "{args:?}\nplan: {plan}\ntrain: {train}");
        // The trainer looks for its device after all other checks have passed.
        assert!(errors(&train).is_subset(&errors(&plan)), "{args:?}\nplan: {plan}\ntrain: {train}");
        refused += usize::from(plan.code == Some(2));
    }
    assert!(refused > CASES / 4 && refused < CASES, "{refused} of {CASES} cases are refused");
}

/// A plan of an existing run says where it continues, how fast it was, and refuses a run without a usable checkpoint.
#[test]
fn a_plan_of_an_existing_run_continues_it() {
    let home = Home::prepared(60);
    let run = ["--set", "run.folder=run", "--set", "train.steps=4"];
    let plan = |more: &[&str]| home.run(&[&["plan"], &run[..], more].concat());
    let outcome = plan(&[]);
    assert!(outcome.stdout.contains("           starts at step 1 with random weights\n"), "{outcome}");
    home.run_ok(&[&["train"], &run[..]].concat());
    let outcome = plan(&[]);
    assert!(outcome.stdout.contains("           finished after step 4; `cloze extend` adds steps\n"), "{outcome}");
    assert!(outcome.stdout.contains("time       no step is left\n"), "{outcome}");
    home.run_ok(&["extend", "run", "--steps", "10"]);
    let outcome = plan(&[]);
    assert!(outcome.stdout.contains("           continues after step 4; 6 steps are left\n"), "{outcome}");
    assert!(outcome.stdout.contains(" for the steps that are left, at "), "{outcome}");
    let json: serde_json::Value = serde_json::from_str(&plan(&["--json"]).stdout).expect("JSON");
    assert_eq!(json["time"]["done_steps"], 4);
    let outcome = plan(&["--on", "H100"]);
    assert!(outcome.stdout.contains("continues after step 4") && outcome.stdout.contains(" on one H100"), "{outcome}");
    std::fs::rename(home.join("run/checkpoints/step-00000004"), home.join("moved")).expect("renamed");
    std::os::unix::fs::symlink(home.join("moved"), home.join("run/checkpoints/step-00000004")).expect("linked");
    plan(&[]).assert_fails(2, &["step-00000004: it is a symbolic link, which is not followed"]);
    std::fs::remove_file(home.join("run/checkpoints/step-00000004")).expect("removed");
    std::fs::rename(home.join("moved"), home.join("run/checkpoints/step-00000004")).expect("renamed");
    let weights = home.join("run/checkpoints/step-00000004/main.safetensors");
    std::fs::rename(&weights, home.join("moved")).expect("renamed");
    home.write("run/checkpoints/step-00000004/main.safetensors", "cut");
    plan(&[]).assert_fails(2, &["main.safetensors", "restore a checkpoint from a copy, or set another `run.folder`"]);
    std::fs::rename(home.join("moved"), &weights).expect("renamed");
    home.write("run/checkpoints/step-00000004/state.json", "{");
    plan(&[]).assert_fails(2, &["state.json", "restore a checkpoint from a copy, or set another `run.folder`"]);
}

/// Folders that cannot be made are found before a run starts.
#[test]
fn impossible_folders_are_refused_by_plan_and_train() {
    let home = Home::prepared(40);
    home.write("file", "text");
    std::os::unix::fs::symlink("loop", home.join("loop")).expect("linked");
    std::os::unix::fs::symlink("nowhere", home.join("gone")).expect("linked");
    for (folder, words) in [
        ("file", "file: a file is here"),
        ("file/run", "file: a file is here"),
        ("loop", "loop: "),
        ("loop/a/b", "loop/a/b: "),
        ("gone/run", "gone: a symbolic link to a folder that does not exist"),
    ] {
        let set = format!("run.folder={folder}");
        for verb in ["plan", "train"] {
            home.run(&[verb, "--set", &set]).assert_fails(2, &[words, "[run], `folder`"]);
        }
    }
}
