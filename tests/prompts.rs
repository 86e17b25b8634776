//! `cloze finetune --prompt`: label words of prompts, few examples and demonstrations.

use serde_json::Value;
use testkit::{Home, Outcome, files};

/// Writes a task: it rained if Anna ate, else it snowed. Two examples of each text have the same label.
fn write_task(home: &Home) {
    let foods = ["bread", "an apple", "cold soup", "a pear", "cheese", "honey cake"];
    let line = |number: usize| {
        let (who, label) = if number.is_multiple_of(2) { ("Anna", "wet") } else { ("Tomas", "cold") };
        format!("{{\"text\": \"{who} ate {} and drank some water\", \"label\": \"{label}\"}}\n", foods[number / 2 % 6])
    };
    home.write("days/train.jsonl", &(0..64).map(line).collect::<String>());
    home.write("days/dev.jsonl", &(0..24).map(line).collect::<String>());
    let task = "kind = \"custom_classification\"\nlabels = [\"wet\", \"cold\"]\n";
    let prompt = "template = \"{first}. There was {mask}.\"\nwords = [\"rain\", \"snow\"]\n";
    let files = "[files]\ntrain = \"train.jsonl\"\ndev = \"dev.jsonl\"\n";
    home.write("task.toml", &format!("{task}{prompt}{files}"));
    home.write("plain.toml", &format!("{task}{files}"));
    home.write("rare.toml", &format!("{task}{}{files}", prompt.replace("snow", "hurricane")));
}

/// Trains a model with masked language modelling.
fn home() -> Home {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    write_task(&home);
    home
}

fn finetune(home: &Home, out: &str, more: &[&str]) -> Outcome {
    let args = ["finetune", "days", "--task", "task.toml", "--from", "run", "--out", out, "--prompt", "--shots", "4"];
    let hyper = ["--lr", "2e-3", "--batch-size", "4", "--max-seq-len", "64", "--set", "train.threads=1"];
    home.run(&[&args[..], &hyper, more].concat())
}

fn json(home: &Home, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(home.join(name)).expect(name)).expect("JSON")
}

#[test]
fn a_few_examples_train_the_head_of_the_pretraining() {
    let home = home();
    let outcome = finetune(&home, "out", &["--epochs", "30"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("training on 4 of 64 examples of each class"), "{outcome}");
    assert!(outcome.stdout.contains("8 examples to train on, 8 to validate on; rows of 64"), "{outcome}");
    assert!(outcome.stdout.contains("few_shot_dev: 8 examples: accuracy 1.0000"), "{outcome}");
    assert!(outcome.stdout.contains("dev: 24 examples: accuracy 1.0000"), "{outcome}");
    let config = std::fs::read_to_string(home.join("out/run.toml")).expect("a configuration");
    for line in [
        "kind = \"prompt_classification\"    # {first}. There was {mask}.",
        "form = \"transform\"    # of the model",
        "init_head = \"mlm\"    # of the model",
        "target = \"tokens\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}\n{config}");
    }
    assert!(config.contains("    # rain, snow\n"), "{config}");
    let results = json(&home, "out/run/results.json");
    assert_eq!((&results["sets"][0]["set"], &results["sets"][1]["set"]), (&"few_shot_dev".into(), &"dev".into()));
    // Validations have the metrics of the drawn examples.
    let last = home.log("out/run").into_iter().rfind(|event| event["kind"] == "validation");
    assert!(last.expect("validations")["metrics"]["task.accuracy"].as_f64().is_some_and(|it| it > 0.99));
    let parameters = |run: &str| json(&home, &format!("{run}/plan.json"))["parameters"].as_u64().expect("a number");
    assert!(parameters("out/run") <= parameters("run"), "no weight is new");

    // The same command has nothing to train, and other flags are refused.
    let before = files(&home.join("out/run/predictions"));
    let again = finetune(&home, "out", &["--epochs", "30"]);
    assert!(again.code == Some(0) && !again.stdout.contains("started from"), "{again}");
    assert_eq!(files(&home.join("out/run/predictions")), before);
    finetune(&home, "out", &["--epochs", "30", "--demonstrations", "1"])
        .assert_fails(2, &["out/data", "prompt", "--out"]);
    finetune(&home, "out", &["--epochs", "30", "--seed", "2"]).assert_fails(2, &["out/data", "shots", "--out"]);

    // The head is that of masked language modelling.
    home.run_ok(&["export", "out/run", "--out", "model"]);
    assert_eq!(json(&home, "model/config.json")["architectures"][0], "BertForMaskedLM");
    let args =
        ["finetune", "days", "--task", "task.toml", "--from", "model", "--out", "next", "--prompt", "--shots", "2"];
    let hyper = ["--lr", "1e-6", "--epochs", "1", "--max-seq-len", "64"];
    let next = home.run(&[&args[..], &hyper].concat());
    assert!(next.code == Some(0) && next.stdout.contains("dev: 24 examples: accuracy 1.0000"), "{next}");
}

#[test]
fn predictions_with_demonstrations_are_the_same_for_a_seed() {
    let home = home();
    let demonstrations = ["--demonstrations", "3", "--epochs", "4"];
    let outcome = finetune(&home, "a", &demonstrations);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("8 examples to train on, 8 to validate on"), "{outcome}");
    // 8 examples of 3 sets are 24 rows, and an epoch has 8 of them.
    let config = std::fs::read_to_string(home.join("a/run.toml")).expect("a configuration");
    assert!(config.contains("steps = 8    # 4 epochs of 2"), "{config}");
    let predictions = files(&home.join("a/run/predictions"));
    assert_eq!(finetune(&home, "b", &demonstrations).code, Some(0));
    assert_eq!(files(&home.join("b/run/predictions")), predictions);
    home.run_ok(&["evaluate", "b/run"]);
    assert_eq!(files(&home.join("b/run/predictions")), predictions);
    assert_eq!(json(&home, "a/run/results.json"), json(&home, "b/run/results.json"));
    home.write("days/train.jsonl", "{\"text\": \"Anna ate\", \"label\": \"wet\"}\n");
    home.run(&["evaluate", "b/run"]).assert_fails(2, &["train.jsonl", "has changed"]);
}

#[test]
fn a_sweep_draws_other_examples_for_each_seed() {
    let home = home();
    let args = ["sweep", "days", "--task", "task.toml", "--from", "run", "--out", "sweep", "--prompt", "--shots", "4"];
    let hyper = ["--seeds", "2", "--lr", "1e-3", "--epochs", "2", "--max-seq-len", "64", "--set", "train.threads=1"];
    let outcome = home.run(&[&args[..], &hyper].concat());
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let report = std::fs::read_to_string(home.join("sweep/report.md")).expect("a report");
    assert!(report.contains("hyperparameters by accuracy of few_shot_dev"), "{report}");
    let data = |seed: u64| json(&home, &format!("sweep/runs/seed{seed}/data/task.json"))["content"].clone();
    assert_eq!((&data(1)["few_shot"]["seed"], &data(2)["few_shot"]["seed"]), (&1.into(), &2.into()));
    let refused = |args: &[&str], words: &[&str]| {
        home.run(&[&["sweep", "days", "--from", "run", "--out", "other"], args].concat()).assert_fails(2, words);
    };
    refused(&["--task", "plain.toml", "--prompt"], &["has no prompt"]);
    refused(&["--task", "task.toml", "--demonstrations", "1"], &["--prompt"]);
    refused(&["--task", "task.toml", "--shots", "4", "--train-fraction", "0.5"], &["--train-fraction"]);
}

#[test]
fn the_language_model_of_coco_lm_predicts_label_words() {
    let home = home();
    home.write(
        "coco.toml",
        &format!(
            "extends = \"{}\"\n\
             [networks.generator]\nkind = \"generator\"\nlayers = 1\nshare = [\"word\", \"position\"]\n\
             [objectives.generator]\nkind = \"masked_lm\"\nnetwork = \"generator\"\n\
             [objectives.clm]\nkind = \"corrective_lm\"\n[objectives.rtd]\nkind = \"replaced_token\"\n",
            testkit::root().join("configs/tiny.toml").display()
        ),
    );
    let pretrain = |run: &str, other: &str| {
        let folder = format!("run.folder={run}");
        let loss = format!("loss={{generator=1.0,{other}=1.0}}");
        let sets = ["--set", "data.folder=data", "--set", "train.steps=4", "--set", &folder, "--set", &loss];
        home.run_ok(&[&["train", "-c", "coco.toml"], &sets[..]].concat());
    };
    pretrain("coco", "clm");
    pretrain("electra", "rtd");
    let args = |from: &'static str, out: &'static str| {
        ["finetune", "days", "--task", "task.toml", "--from", from, "--out", out, "--prompt", "--shots", "4"]
    };
    let hyper = ["--lr", "1e-3", "--epochs", "1", "--max-seq-len", "64"];
    let outcome = home.run(&[&args("coco", "out")[..], &hyper].concat());
    assert!(outcome.code == Some(0) && outcome.stdout.contains("dev: 24 examples: accuracy"), "{outcome}");
    let config = std::fs::read_to_string(home.join("out/run.toml")).expect("a configuration");
    assert!(config.contains("form = \"table\"") && config.contains("init_head = \"clm\""), "{config}");
    home.run_ok(&["export", "out/run", "--out", "model"]);
    assert_eq!(json(&home, "model/config.json")["architectures"][0], "ClozeForMaskedLM");
    let again = home.run(&[&args("model", "next")[..], &hyper].concat());
    assert!(again.code == Some(0) && again.stdout.contains("dev: 24 examples: accuracy"), "{again}");
    let refused = home.run(&[&args("electra", "none")[..], &hyper].concat());
    refused
        .assert_fails(2, &["--from electra", "no head that predicts tokens", "`replaced_token`", "exported generator"]);
    assert!(!home.join("none").exists(), "nothing is written");
}

#[test]
fn unusable_prompts_are_refused() {
    let home = home();
    let refused = |args: &[&str], words: &[&str]| {
        let common = ["finetune", "days", "--from", "run", "--out", "out"];
        home.run(&[&common[..], args].concat()).assert_fails(2, words);
        assert!(!home.join("out").exists(), "nothing is written");
    };
    refused(&["--task", "plain.toml", "--prompt"], &["has no prompt", "sst2", "`template` and `words`"]);
    refused(&["--task", "rare.toml", "--prompt"], &["`hurricane` is", "tokens", "`words`"]);
    refused(&["--task", "task.toml", "--shots", "40"], &["--shots 40", "32 examples of `wet`", "at most 16"]);
    refused(&["--task", "task.toml", "--shots", "4", "--train-fraction", "0.5"], &["--train-fraction"]);
    refused(&["--task", "task.toml", "--prompt", "--demonstrations", "1"], &["--shots"]);
    let one = ["--task", "task.toml", "--prompt", "--shots", "1", "--demonstrations", "1"];
    refused(&one, &["--demonstrations 1", "`rain`", "increase --shots"]);
    let short = ["--task", "task.toml", "--prompt", "--shots", "2", "--demonstrations", "1", "--max-seq-len", "16"];
    refused(&short, &["rows of 16 tokens", "3 templates", "--max-seq-len to"]);
    home.write(
        "task.toml",
        "kind = \"custom_classification\"\ntemplate = \"{first} {maks}\"\nwords = [\"a\", \"b\"]\n",
    );
    refused(&["--task", "task.toml", "--prompt"], &["`{maks}`", "`{mask}`"]);
    // Without `--prompt`, few examples train a new head.
    home.write("task.toml", &std::fs::read_to_string(home.join("plain.toml")).expect("a task"));
    let args = ["finetune", "days", "--from", "run", "--out", "plain", "--task", "task.toml", "--shots", "4"];
    let outcome = home.run(&[&args[..], &["--epochs", "1", "--max-seq-len", "64"]].concat());
    assert!(outcome.code == Some(0) && outcome.stdout.contains("few_shot_dev: 8 examples"), "{outcome}");
}
