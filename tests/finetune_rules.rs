//! Fine-tuning that ends early, and on a frozen encoder.

use serde_json::Value;
use testkit::{Home, Outcome};

/// Writes a task: a review is good if it names Anna.
fn write_task(home: &Home) {
    let words = ["bread", "water", "milk", "an apple", "a pear", "soup"];
    let line = |number: usize| {
        let (who, label) = if number.is_multiple_of(2) { ("Anna", "good") } else { ("Peter", "bad") };
        format!("{{\"text\": \"{who} ate {}\", \"label\": \"{label}\"}}\n", words[number % 6])
    };
    home.write("reviews/train.jsonl", &(0..256).map(line).collect::<String>());
    home.write("reviews/dev.jsonl", &(301..341).map(line).collect::<String>());
    let task = "kind = \"custom_classification\"\ntext = \"text\"\nlabel = \"label\"\nlabels = [\"bad\", \"good\"]\n";
    let metrics = "metric = \"matthews\"\n";
    home.write("task.toml", &format!("{task}{metrics}[files]\ntrain = \"train.jsonl\"\ndev = \"dev.jsonl\"\n"));
}

fn finetune(home: &Home, out: &str, set: &[&str]) -> Outcome {
    let args = ["finetune", "reviews", "--task", "task.toml", "--from", "run", "--out", out, "--max-seq-len", "32"];
    let hyper = ["--epochs", "20", "--lr", "2e-3", "--batch-size", "16", "--set", "train.threads=1"];
    let set = set.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
    home.run(&[&args[..], &hyper, &set].concat())
}

fn events(home: &Home, kind: &str) -> Vec<Value> {
    home.log("out/run").into_iter().filter(|event| event["kind"] == kind).collect()
}

#[test]
fn a_fine_tuning_ends_when_a_metric_of_its_task_no_longer_improves() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    write_task(&home);
    let stop = "validation.stop={metric=\"task.matthews\",patience=2}";
    let outcome = finetune(&home, "out", &[stop]);
    assert!(outcome.code == Some(0) && outcome.stderr.contains("ends early: `task.matthews` is"), "{outcome}");
    let ends = events(&home, "early_stop");
    let [end] = &ends[..] else { panic!("one event: {ends:?}") };
    let [step, best_step] = ["step", "best_step"].map(|key| end[key].as_u64().expect("a step"));
    // An epoch has 16 steps. Two epochs follow the best one.
    assert!(step == best_step + 32 && step < 320, "{end}");
    let validations = events(&home, "validation");
    let values: Vec<f64> =
        validations.iter().map(|event| event["metrics"]["task.matthews"].as_f64().unwrap_or(f64::NAN)).collect();
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(end["best"].as_f64().map(f64::to_bits), Some(best.to_bits()), "{values:?}");
    assert!(validations[0]["metrics"]["task.macro_f1"].is_f64(), "{:?}", validations[0]);
    for kept in [best_step, step] {
        assert!(home.join(&format!("out/run/checkpoints/step-{kept:08}/state.json")).is_file(), "{kept} is kept");
    }
    assert_eq!(events(&home, "stop").last().map(|stop| stop["why"].clone()), Some("finished".into()));

    // `cloze evaluate` computes the same metric from the files of the task.
    let evaluated = home.run_ok(&["evaluate", "out/run", "--step", &best_step.to_string(), "--json"]);
    let results: Value = serde_json::from_str(&evaluated.stdout).expect("JSON");
    let value = results["sets"][0]["metrics"][0]["value"].as_f64().expect("a number");
    assert!((value - best).abs() < 1e-12, "{results} {best}");

    let again = finetune(&home, "out", &[stop]);
    assert!(again.code == Some(0) && events(&home, "validation").len() == validations.len(), "{again}");
}

#[test]
fn a_probe_trains_its_head_alone() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    write_task(&home);
    let keys = ["encoder.frozen=[\"encoder\"]", "objectives.task.layer=1", "train.steps=8"];
    let outcome = finetune(&home, "out", &[&keys[..], &["objectives.task.class_weights=[1.0,2.0]"]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(home.join("out/run/plan.json")).expect("a plan")).expect("JSON");
    let width = 32;
    assert_eq!(plan["parameters"], width * width + width + 2 * width + 2, "the head: {plan}");
    assert!(plan["parameters_frozen"].as_u64().is_some_and(|frozen| frozen > 1000), "{plan}");
    finetune(&home, "other", &["objectives.task.layer=9"]).assert_fails(2, &["`layer` is 9, but the encoder has"]);
}
