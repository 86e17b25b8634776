//! `cloze finetune` and `cloze evaluate`: from labelled files to metrics and predictions.

use serde_json::Value;
use testkit::{Home, Outcome, files};

/// Writes CoLA's files: a sentence is acceptable if it names Anna.
fn write_cola(home: &Home) {
    let words = ["bread", "water", "milk", "an apple", "a pear", "soup"];
    let sentence = |number: usize| {
        let who = if number.is_multiple_of(2) { "Anna" } else { "Peter" };
        format!("{who} ate {} and drank {}", words[number % 6], words[number / 6 % 6])
    };
    let labelled = |numbers: std::ops::Range<usize>| {
        let line = |number: usize| format!("x\t{}\t\t{}\n", u8::from(number.is_multiple_of(2)), sentence(number));
        numbers.map(line).collect::<String>()
    };
    home.write("CoLA/train.tsv", &labelled(0..256));
    home.write("CoLA/dev.tsv", &labelled(301..341));
    let test = (0..5).map(|number| format!("{number}\t{}\n", sentence(number))).collect::<Vec<_>>().concat();
    home.write("CoLA/test.tsv", &format!("index\tsentence\n{test}"));
}

const CHANGES: [&str; 10] =
    ["--epochs", "6", "--lr", "2e-3", "--max-seq-len", "32", "--batch-size", "16", "--set", "train.threads=1"];

fn finetune(home: &Home, out: &str, more: &[&str]) -> Outcome {
    home.run(&[&["finetune", "CoLA", "--task", "cola", "--from", "run", "--out", out], &CHANGES[..], more].concat())
}

#[test]
fn a_run_learns_a_task_and_predicts_it() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    write_cola(&home);
    let outcome = finetune(&home, "cola", &[]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("256 examples to train on, 40 to validate on; rows of 32"), "{outcome}");
    assert!(outcome.stdout.contains("dev: 40 examples: matthews 1.0000, accuracy 1.0000"), "{outcome}");
    let read = |name: &str| std::fs::read_to_string(home.join(name)).expect(name);
    let results: Value = serde_json::from_str(&read("cola/run/results.json")).expect("JSON");
    assert_eq!((&results["task"], &results["step"]), (&"cola".into(), &96.into()));
    assert_eq!(results["sets"][0]["metrics"][0]["metric"], "matthews");
    assert_eq!(read("cola/run/predictions/CoLA.tsv"), "index\tprediction\n0\t1\n1\t0\n2\t1\n3\t0\n4\t1\n");

    // The same command has nothing to train, and gives the same bytes.
    let before = files(&home.join("cola/run/predictions"));
    let again = finetune(&home, "cola", &[]);
    assert!(again.code == Some(0) && !again.stdout.contains("started from"), "{again}");
    assert_eq!(files(&home.join("cola/run/predictions")), before);
    let evaluated = home.run_ok(&["evaluate", "cola/run", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&evaluated.stdout).expect("JSON"), results);

    // A second folder has the same weights and predictions.
    assert_eq!(finetune(&home, "second", &[]).code, Some(0));
    assert_eq!(files(&home.join("second/run/predictions")), before);

    // Without its prepared folder, a run keeps the names of the classes and can be evaluated.
    std::fs::rename(home.join("second/data"), home.join("moved")).expect("renamed");
    home.run_ok(&["export", "second/run", "--out", "model"]);
    testkit::exports::assert_tokenizer(&home.join("model"));
    let config: Value = serde_json::from_str(&read("model/config.json")).expect("JSON");
    assert_eq!((&config["id2label"]["1"], &config["label2id"]["0"]), (&"1".into(), &0.into()));
    assert_eq!(config["architectures"][0], "BertForSequenceClassification");
    home.run_ok(&["evaluate", "second/run"]);

    finetune(&home, "cola", &["--seed", "2"]).assert_fails(2, &["run.toml", "other arguments", "--out"]);
    home.run(&["finetune", "CoLA", "--task", "cola", "--from", "run", "--out", "cola", "--max-seq-len", "16"])
        .assert_fails(2, &["cola/data", "row length", "--out"]);
    home.write("CoLA/dev.tsv", "x\t1\t\tAnna ate soup\n");
    home.run(&["evaluate", "cola/run"]).assert_fails(2, &["dev.tsv", "has changed"]);
}

#[test]
fn scores_are_learned_from_pairs() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    let line = |number: usize| {
        let [first, second] = ["Anna ate bread", "Peter drank milk"];
        let (score, other) = if number.is_multiple_of(2) { ("1.0", first) } else { ("0.0", second) };
        format!("{{\"a\": \"{first}\", \"b\": \"{other}\", \"s\": {score}}}\n")
    };
    home.write("pairs/train.jsonl", &(0..128).map(line).collect::<String>());
    home.write("pairs/dev.jsonl", &(0..20).map(line).collect::<String>());
    let task = "kind = \"custom_regression\"\ntext = \"a\"\nsecond_text = \"b\"\nscore = \"s\"\n";
    home.write("task.toml", &format!("{task}[files]\ntrain = \"train.jsonl\"\ndev = \"dev.jsonl\"\n"));
    let args = ["finetune", "pairs", "--task", "task.toml", "--from", "run", "--out", "out", "--max-seq-len", "32"];
    let outcome = home.run(&[&args[..], &["--epochs", "16", "--lr", "2e-3", "--batch-size", "16"]].concat());
    assert!(outcome.code == Some(0) && outcome.stdout.contains("dev: 20 examples: spearman 1.0000"), "{outcome}");
    home.run_ok(&["export", "out/run", "--out", "model"]);
    testkit::exports::assert_tokenizer(&home.join("model"));
    let card = std::fs::read_to_string(home.join("model/README.md")).expect("a model card");
    assert!(card.contains(r#"tokenizer("The first text.", "The second text.", truncation=True"#), "{card}");
}

#[test]
fn answers_are_extracted_from_windows() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    let question = |number: usize| {
        let who = ["Anna", "Peter", "Mary"][number % 3];
        let eats = ["bread", "soup", "milk"][number / 3 % 3];
        let context = format!(
            "{} {who} had {eats} . {}",
            "it was a day .".repeat(number % 7),
            "then it was night .".repeat(number % 5)
        );
        let start = context.find(eats).expect("it is there");
        let (answers, is_impossible) = if number.is_multiple_of(4) {
            (serde_json::json!([]), true)
        } else {
            (serde_json::json!([{ "text": eats, "answer_start": start }]), false)
        };
        let text = if is_impossible { "who was king ?" } else { "what was eaten ?" };
        let qa = serde_json::json!({ "id": format!("q{number}"), "question": text, "answers": answers, "is_impossible": is_impossible });
        serde_json::json!({ "title": "t", "paragraphs": [{ "context": context, "qas": [qa] }] })
    };
    let file = |numbers: std::ops::Range<usize>| {
        serde_json::json!({ "version": "v2.0", "data": numbers.map(question).collect::<Vec<_>>() }).to_string()
    };
    home.write("squad/train-v2.0.json", &file(0..180));
    home.write("squad/dev-v2.0.json", &file(300..345));
    let args = [
        "finetune",
        "squad",
        "--task",
        "squad_v2",
        "--from",
        "run",
        "--out",
        "out",
        "--max-seq-len",
        "32",
        "--stride",
        "8",
    ];
    let more = ["--epochs", "8", "--lr", "2e-3", "--batch-size", "16", "--set", "train.threads=1"];
    let outcome = home.run(&[&args[..], &more].concat());
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let results = std::fs::read_to_string(home.join("out/run/results.json")).expect("written");
    let results: Value = serde_json::from_str(&results).expect("JSON");
    let metrics = results["sets"][0]["metrics"].as_array().expect("a list");
    let value =
        |name: &str| metrics.iter().find(|it| it["metric"] == name).expect(name)["value"].as_f64().expect("a number");
    assert!(value("exact_match") > 0.9 && value("answerable_exact_match") > 0.9, "{results}");
    let answers = std::fs::read_to_string(home.join("out/run/predictions/dev.json")).expect("written");
    let answers: Value = serde_json::from_str(&answers).expect("JSON");
    assert_eq!((&answers["q300"], &answers["q301"]), (&"".into(), &"soup".into()), "{answers}");
}

#[test]
fn words_are_labelled() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    let sentence = |number: usize| {
        let who = ["Anna B-PER", "Peter B-PER", "bread O", "soup O"][number % 4];
        let what = ["bread O", "milk O", "Mary B-PER\nAnna I-PER"][number / 4 % 3];
        format!("then O\n{who}\nand O\n{what}\nwent O\nand O\nate O\nbread O\n\n")
    };
    let file = |numbers: std::ops::Range<usize>| numbers.map(sentence).collect::<String>();
    home.write("ner/train.txt", &file(0..240));
    home.write("ner/dev.txt", &file(300..336));
    home.write("task.toml", "kind = \"custom_token_classification\"\nlabels = [\"O\", \"B-PER\", \"I-PER\"]\n");
    let args = ["finetune", "ner", "--task", "task.toml", "--from", "run", "--out", "out", "--max-seq-len", "8"];
    let more = ["--epochs", "6", "--lr", "2e-3", "--batch-size", "16", "--set", "train.threads=1"];
    let outcome = home.run(&[&args[..], &more].concat());
    assert!(outcome.code == Some(0) && outcome.stdout.contains("dev: 36 examples: entity_f1 1.0000"), "{outcome}");
    assert!(outcome.stdout.contains("entities are read and scored as BIO (IOB2 or IOB1)"), "{outcome}");
    // Most sentences have several rows. The validation of a step has the metrics that its evaluation has.
    let first = home.log("out/run").into_iter().find(|event| event["kind"] == "validation").expect("a validation");
    let step = first["step"].to_string();
    let keep = ["--out", "first", "--set", "checkpoints.keep=9", "--set"];
    let every = format!("checkpoints.every_steps={step}");
    let kept = home.run(&[&args[..6], &["--max-seq-len", "8"], &more, &keep, &[&every]].concat());
    assert_eq!(kept.code, Some(0), "{kept}");
    let evaluated = home.run_ok(&["evaluate", "first/run", "--step", &step, "--json"]);
    let evaluated: Value = serde_json::from_str(&evaluated.stdout).expect("JSON");
    for metric in evaluated["sets"][0]["metrics"].as_array().expect("metrics") {
        let name = format!("task.{}", metric["metric"].as_str().expect("a name"));
        let [value, validated] = [&metric["value"], &first["metrics"][&name]].map(Value::as_f64);
        let difference = value.expect("a number") - validated.expect("a number");
        assert!(difference.abs() < 1e-6, "{name}: {evaluated} {first}");
    }
    let predicted = std::fs::read_to_string(home.join("out/run/predictions/dev.txt")).expect("written");
    assert!(predicted.starts_with("then\tO\nAnna\tB-PER\nand\tO\nbread\tO\nwent\tO\nand\tO\n"), "{predicted}");
}

#[test]
fn unusable_tasks_files_and_models_are_refused() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    let refused = |args: &[&str], words: &[&str]| {
        home.run(&[&["finetune", "CoLA", "--out", "out"], args].concat()).assert_fails(2, words);
        assert!(!home.join("out").exists(), "nothing is written");
    };
    refused(&["--task", "cola", "--from", "run"], &["train.tsv: no such file", "`cola`"]);
    write_cola(&home);
    refused(&["--task", "colla", "--from", "run"], &["no such task", "cola, "]);
    refused(&["--task", "ax", "--from", "run"], &["no training set", "`mnli`"]);
    refused(&["--task", "cola", "--from", "absent"], &["--from absent", "neither a run of `cloze` nor"]);
    refused(&["--task", "cola", "--from", "run", "--lr", "0"], &["--lr", "above 0"]);
    home.write("CoLA/train.tsv", "x\t1\t\tAnna ate\nx\t7\t\tPeter ate\n");
    refused(&["--task", "cola", "--from", "run"], &["train.tsv:2", "`7`"]);
    home.write("task.toml", "kind = \"custom_classification\"\n[files]\ndev = \"\"\n");
    refused(&["--task", "task.toml", "--from", "run"], &["needs a dev set"]);
    home.write("task.toml", "kind = \"custom_classification\"\nlabels = [\"a\\nseed = 2\", \"b\"]\n");
    refused(&["--task", "task.toml", "--from", "run"], &["control character", "a\\nseed = 2"]);
    home.write("task.toml", "kind = \"custom_token_classification\"\nlabels = [\"O\", \"B-A\", \"M-A\", \"E-A\"]\n");
    refused(
        &["--task", "task.toml", "--from", "run"],
        &["`labels`: the prefixes `B-`, `E-`, `M-`", "metric = \"accuracy\""],
    );
    // The labels of a public test set are hidden, and a file that is named must exist.
    home.write("CoLA/labels.tsv", "text\tlabel\nAnna ate\t0\nPeter ate\t1\n");
    home.write("CoLA/hidden.tsv", "text\tlabel\nAnna ate\t-1\n");
    let task = |more: &str| {
        let columns = "kind = \"custom_classification\"\ntext = \"text\"\nlabel = \"label\"\nlabels = [\"0\", \"1\"]\n";
        home.write("task.toml", &format!("{columns}[files]\ntrain = \"labels.tsv\"\ndev = \"labels.tsv\"\n{more}"));
    };
    task("test = \"hidden.tsv\"\n");
    let of_file = ["--task", "task.toml", "--from", "run"];
    refused(&of_file, &["hidden.tsv:2", "unknown label `-1`", "set `files.test_has_labels = false`"]);
    task("test = \"absent.tsv\"\n");
    refused(&of_file, &["absent.tsv: no such file; correct `files.test`"]);
    task("test = \"hidden.tsv\"\ntest_has_labels = false\n");
    home.run_ok(&[&["finetune", "CoLA", "--out", "hidden", "--epochs", "1"], &of_file[..]].concat());
    let task = ["finetune", "CoLA", "--task", "cola", "--from", "run"];
    let refused = |args: &[&str], words: &[&str]| home.run(&[&task[..], args].concat()).assert_fails(2, words);
    refused(&["--out", "out", "--seed", "18446744073709551615"], &["--seed"]);
    refused(&["--out", "out", "--set", "run.folder=other"], &["--set run.folder=other", "`--out` sets the folder"]);
    refused(&["--out", "s3://bucket/out"], &["--out s3://bucket/out", "a URL"]);
    refused(&["--out", "task.toml/out"], &["--out task.toml/out", "a file is here"]);
    refused(&["--out", "run"], &["--out run", "a run is here"]);
    assert!(!home.join("out").exists() && !home.join("s3:").exists() && !home.join("run/data").exists());
    home.run(&["fill", "CoLA", "a [MASK]"]).assert_fails(2, &["neither a run of `cloze` nor a `transformers` model"]);
    home.run(&["evaluate", "run"]).assert_fails(2, &["no `task.json` is here", "cloze finetune"]);
}

#[test]
fn a_preset_is_written_with_its_reasons_and_a_share_of_the_examples_is_drawn() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    write_cola(&home);
    let args = ["finetune", "CoLA", "--task", "cola", "--from", "run", "--out", "out", "--preset", "coco-lm-base"];
    let args = [&args[..], &["--epochs", "1", "--train-fraction", "0.1"]].concat();
    let outcome = home.run(&args);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("training on a share of 0.1 of 256 examples: 26 (0 "), "{outcome}");
    assert!(outcome.stdout.contains("26 examples to train on, 40 to validate on; rows of 64"), "{outcome}");
    let config = std::fs::read_to_string(home.join("out/run.toml")).expect("a configuration");
    for line in [
        "steps = 1    # 1 epochs of 1: `--epochs`",
        "global_batch_size = 26    # COCO-LM, base and base++, small tasks; of 32, 16",
        "lr = 3e-5    # COCO-LM, base and base++, small tasks; of 3e-5, 1e-5, 2e-5, 4e-5, 5e-5",
        "betas = [0.9, 0.98]    # COCO-LM, base and base++",
        "eps = 1e-6    # COCO-LM, base and base++",
        "max_grad_norm = 0.0    # COCO-LM, base and base++",
        "input_dropout = 0.1    # COCO-LM, base and base++",
        "dropout = 0.1",
        "keep_best = 1    # COCO-LM, base and base++",
        "best_by = \"task.matthews\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}\n{config}");
    }
    home.run(&[&args[..], &["--seed", "2"]].concat()).assert_fails(2, &["out/data", "training subset", "--out"]);
    let electra =
        home.run(&["finetune", "CoLA", "--task", "cola", "--from", "run", "--out", "e", "--preset", "electra"]);
    assert_eq!(electra.code, Some(0), "{electra}");
    let config = std::fs::read_to_string(home.join("e/run.toml")).expect("a configuration");
    for line in [
        "layer_decay = 0.8    # ELECTRA, small",
        "bias_correction = false    # ELECTRA",
        "eps = 1e-6    # not stated by ELECTRA",
    ] {
        assert!(config.contains(line), "{line}\n{config}");
    }
}

/// A model card names the part of the training set that its model has seen.
#[test]
fn a_model_card_states_the_share_of_the_examples() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    write_cola(&home);
    for (out, more) in [("whole", &[][..]), ("part", &["--train-fraction", "0.25", "--seed", "3"])] {
        let args = ["finetune", "CoLA", "--task", "cola", "--from", "run", "--out", out, "--epochs", "1"];
        home.run_ok(&[&args, &["--max-seq-len", "32", "--set", "train.threads=1"][..], more].concat());
        home.run_ok(&["export", &format!("{out}/run"), "--out", &format!("{out}-model")]);
        let card = std::fs::read_to_string(home.join(&format!("{out}-model/README.md"))).expect("a card");
        let row = "| training examples | 0.25 of the training set, drawn by seed 3 |";
        assert_eq!(card.contains(row), out == "part", "{card}");
        assert_eq!(card.contains("training examples"), out == "part", "{card}");
    }
}

#[test]
fn the_best_checkpoint_is_evaluated_and_exported_if_the_run_keeps_it() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    write_cola(&home);
    let stop = "validation.stop={ metric = \"task.matthews\", patience = 2 }";
    let outcome = finetune(&home, "cola", &["--set", stop]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(home.join("cola/run").join(name).join("results.json")).expect("written");
        serde_json::from_str(&text).expect("JSON")
    };
    let results = read("");
    let best = results["step"].as_u64().expect("a step");
    let last = home.log("cola/run").iter().filter_map(|entry| entry["step"].as_u64()).max().expect("a step");
    assert_eq!((results["sets"][0]["metrics"][0]["value"].as_f64(), last), (Some(1.0), best + 2 * 16), "{results}");
    assert_eq!((results["last"]["step"].as_u64(), &results["last"]["sets"][0]["set"]), (Some(last), &"dev".into()));
    let exported = home.run_ok(&["export", "cola/run", "--out", "model"]);
    assert!(exported.stdout.contains(&format!("after step {best} of")), "{exported}");
    home.run_ok(&["evaluate", "cola/run", "--step", &last.to_string()]);
    assert_eq!((read(&format!("evaluations/step-{last}"))["step"].as_u64(), read("")), (Some(last), results.clone()));
    home.run_ok(&["evaluate", "cola/run"]);
    assert_eq!(read(""), results, "the results of the end have the last checkpoint too");
    // A further fine-tuning starts from the best checkpoint, or from the one that is named.
    let start = |out: &str, more: &[&str]| {
        let args = ["finetune", "CoLA", "--task", "cola", "--from", "cola/run", "--out", out, "--max-seq-len", "32"];
        home.run_ok(&[&args[..], &["--epochs", "1"], more].concat());
        let config: toml::Table =
            std::fs::read_to_string(home.join(out).join("run.toml")).expect("written").parse().expect("TOML");
        config["train"]["init_from"].as_str().expect("a path").to_owned()
    };
    assert!(start("next", &[]).ends_with(&format!("step-{best:08}")));
    let last = last.to_string();
    assert!(start("last", &["--from-step", &last]).ends_with(&format!("step-{last:0>8}")));
}

#[test]
fn a_run_is_evaluated_on_other_tasks() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
    write_cola(&home);
    assert_eq!(finetune(&home, "cola", &[]).code, Some(0));
    let before = files(&home.join("cola/run/predictions"));
    home.write(
        "other/dev.jsonl",
        "{\"t\": \"Anna ate soup\", \"l\": \"1\"}\n{\"t\": \"Peter ate soup\", \"l\": \"1\"}\n",
    );
    let task = |keys: &str| format!("{keys}text = \"t\"\n[files]\ntrain = \"train.jsonl\"\ndev = \"dev.jsonl\"\n");
    home.write("same.toml", &task("kind = \"custom_classification\"\nlabel = \"l\"\nlabels = [\"0\", \"1\"]\n"));
    let evaluate = |task: &str, data: &str| home.run(&["evaluate", "cola/run", "--task", task, "--data", data]);
    let outcome = evaluate("same.toml", "other");
    assert!(outcome.code == Some(0) && outcome.stdout.contains("dev: 2 examples: accuracy 0.5000"), "{outcome}");
    assert!(home.join("cola/run/evaluations/same/predictions/dev.tsv").is_file());

    let pair = |number: usize, label: &str| format!("{number}\tAnna ate\tshe ate{label}\n");
    home.write("WNLI/dev.tsv", &format!("index\tsentence1\tsentence2\tlabel\n{}{}", pair(0, "\t0"), pair(1, "\t1")));
    home.write("WNLI/test.tsv", &format!("index\tsentence1\tsentence2\n{}", pair(0, "")));
    let outcome = evaluate("wnli", "WNLI");
    assert!(outcome.code == Some(0) && outcome.stdout.contains("dev: 2 examples: accuracy 0.5000"), "{outcome}");
    assert!(outcome.stderr.contains("every prediction is `0`"), "{outcome}");
    let submitted = std::fs::read_to_string(home.join("cola/run/evaluations/wnli/predictions/WNLI.tsv"));
    assert_eq!(submitted.expect("written"), "index\tprediction\n0\t0\n");
    assert_eq!(files(&home.join("cola/run/predictions")), before, "the run's own predictions stay");

    home.write("score.toml", &task("kind = \"custom_regression\"\nscore = \"l\"\n"));
    evaluate("score.toml", "other")
        .assert_fails(2, &["--task score.toml", "a score from 0 to 1", "one of 0, 1 in the run"]);
    evaluate("ax", "other").assert_fails(2, &["--data other", "none of diagnostic.tsv"]);
    evaluate("cola", "absent").assert_fails(2, &["--data absent", "none of dev.tsv, test.tsv"]);
}
