//! Training from text files to an exported folder, and the output of the tools.

use std::process::Command;

use serde_json::Value;
use testkit::{Home, every_objective, files, root};

const RUN: [&str; 3] = ["train", "--set", "run.folder=run"];

#[test]
fn text_files_become_a_model_that_fills_in_blanks() {
    let home = Home::prepared(200);
    let outcome = home.run_ok(&RUN);
    assert!(outcome.stdout.contains("step 60") && outcome.stdout.contains("tok/s"), "{outcome}");
    let log = home.log("run");
    let valid: Vec<&Value> = log.iter().filter(|entry| entry["kind"] == "validation").collect();
    assert_eq!(valid.len(), 3, "at steps 20, 40 and 60");
    let loss = |entry: &Value| entry["mlm"]["loss"].as_f64().expect("a number");
    assert!(loss(valid[2]) < loss(valid[0]), "{} then {}", loss(valid[0]), loss(valid[2]));
    let ln_vocab = valid[2]["mlm"]["ln_vocab"].as_f64().expect("a number");
    assert!((loss(valid[0]) - ln_vocab).abs() < 1.0, "it begins near ln V");

    let environment = &log[0];
    assert_eq!((&environment["kind"], &environment["products"]), (&"environment".into(), &"f32".into()));
    assert_eq!(environment["program"], env!("CARGO_PKG_VERSION"));
    let start = &log[1];
    assert_eq!((&start["kind"], &start["random"], &start["step"]), (&"start".into(), &true.into(), &1.into()));
    assert_eq!(
        (&start["unexpected_losses"], outcome.stdout.matches("started from random weights").count()),
        (&Value::Array(Vec::new()), 1)
    );
    let [low, high] = ["low", "high"].map(|bound| start["expected"]["mlm"][bound].as_f64().expect("a bound"));
    let first = start["terms"]["mlm"].as_f64().expect("a number");
    assert!(low < first && first < high && (low + high - 2.0 * ln_vocab).abs() < 1e-9, "{start}");
    assert!(outcome.stderr.contains("audited") && outcome.stderr.contains("become `[MASK]`"), "{outcome}");
    let kinds = |kind: &str| log.iter().filter(|entry| entry["kind"] == kind).count();
    assert!(kinds("audit") > 2 && kinds("checkpoint") == 6, "every 10 steps");
    let end = log.last().expect("it ended");
    let rows = end["rows_seen"].as_u64();
    let epoch = end["epoch"].as_f64();
    assert_eq!((&end["kind"], &end["why"], &end["saved"]), (&"stop".into(), &"finished".into(), &true.into()));
    assert!(rows == Some(60 * 16) && epoch.is_some_and(|epoch| epoch > 1.0), "{end}");

    home.run_ok(&["export", "run", "--out", "model"]);
    let exported: Vec<String> = files(&home.join("model")).into_keys().collect();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        assert!(exported.iter().any(|file| file == name), "{name} in {exported:?}");
    }

    let filled = home.run_ok(&["fill", "run", "Anna ate [MASK] and drank some water."]);
    assert_eq!(filled.stdout.matches('%').count(), 10, "five words, each with the unigram's share\n{filled}");
    home.run(&["fill", "run", "no blank here"]).assert_fails(2, &["[MASK]"]);
    home.run(&["fill", "run", "--top", "0", "a [MASK]"]).assert_fails(2, &["--top", "at least 1"]);
    let partly = home.run(&["fill", "run", "no blank here", "Anna ate [MASK] and drank some water."]);
    partly.assert_fails(2, &["text 1: `no blank here` has no [MASK]", "1 of 2 texts"]);
    assert_eq!(partly.stdout, filled.stdout, "the other text is filled");
    let long = "Anna ate [MASK] ".repeat(500);
    let partly = home.run(&["fill", "run", &long, "Anna ate [MASK] and drank some water."]);
    partly.assert_fails(2, &["text 1: the text has ", "shorten the text", "1 of 2 texts"]);
    assert_eq!(partly.stdout, filled.stdout, "the other text is filled");
    let of_model = home.run_ok(&["fill", "model", "Anna ate [MASK] and drank some water."]);
    assert!(filled.stdout.starts_with(&of_model.stdout), "the model has the weights of the run\n{of_model}\n{filled}");

    // The exported model can be continued by another method.
    home.run_ok(&["init", "corpus", "--method", "tacl", "--from", "model", "--out", "tacl.toml"]);
    let text = std::fs::read_to_string(home.join("tacl.toml")).expect("written");
    for line in [
        "init_from = \"model\"",
        "tokenizer = \"model\"",
        "hidden = 32",
        "layers = 2",
        "kind = \"teacher_contrastive\"",
    ] {
        assert!(text.contains(line), "`{line}` is missing in\n{text}");
    }
    home.run_ok(&["prepare", "-c", "tacl.toml"]);
    let plan = home.run_ok(&["plan", "-c", "tacl.toml"]);
    assert!(!plan.stdout.contains("warning "), "{plan}");
}

/// Rows contain several documents here, so attention across documents changes the result.
/// Also of a mixture, and of a run that begins before its corpus is complete.
#[test]
fn a_run_is_exported_and_fills_without_its_prepared_folder() {
    let home = Home::prepared(60);
    let mixture = ["--set", "sources.a={folder=\"data\", weight=1}", "--set", "sources.b={folder=\"data\", weight=2}"];
    let streamed = ["--set", "data.order=streamed"];
    let text = "Anna ate [MASK] and drank some water.";
    let runs = [("run", &[][..]), ("mixed", &mixture), ("streamed", &streamed)];
    let made = |run: &str, suffix: &str| {
        let out = format!("{run}-{suffix}");
        home.run_ok(&["export", run, "--out", &out]);
        (files(&home.join(&out)), home.run_ok(&["fill", run, text]).stdout)
    };
    let before = runs.map(|(run, more)| {
        let folder = format!("run.folder={run}");
        home.run_ok(&[&["train", "--set", "train.steps=4", "--set", &folder], more].concat());
        made(run, "before")
    });
    std::fs::rename(home.join("data"), home.join("elsewhere")).expect("moved");
    for ((run, _), (model, filled)) in runs.iter().zip(&before) {
        let (model_now, filled_now) = made(run, "after");
        assert_eq!(model_now.keys().collect::<Vec<_>>(), model.keys().collect::<Vec<_>>());
        for (name, bytes) in model.iter().filter(|(name, _)| *name != "README.md") {
            assert!(model_now[name] == *bytes, "{run}: {name}");
        }
        if *run != "streamed" {
            assert_eq!(filled_now, *filled);
        }
    }
    let exposure = home.run_ok(&["exposure", "run"]);
    assert!(exposure.stderr.contains("run/prepared: this copy has no documents"), "{exposure}");
    home.run(&["train", "--set", "train.steps=4", "--set", "run.folder=other"])
        .assert_fails(2, &["data", "no prepared corpus here"]);
    // A damaged copy is not used.
    home.write("run/prepared/tokenizer.json", "{}");
    home.run(&["fill", "run", text]).assert_fails(1, &["run/prepared/tokenizer.json"]);
}

#[test]
fn documents_in_one_row_can_be_separated() {
    let home = Home::prepared(60);
    let train = |attend: &str, activation_checkpointing: bool| {
        let folder = format!("{attend}-{activation_checkpointing}");
        let attend = format!("encoder.attention_scope={attend}");
        let run = format!("run.folder={folder}");
        let recomputed = format!("train.activation_checkpointing={activation_checkpointing}");
        let sets =
            [attend.as_str(), &run, &recomputed, "train.steps=6", "validation.every_steps=3", "report.every_steps=1"];
        let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
        home.run_ok(&[["train"].as_slice(), &sets].concat());
        let log = home.log(&folder).into_iter();
        let reported = log.filter(|event| event["kind"] == "report" || event["kind"] == "validation");
        reported.map(|event| event["loss"].clone()).collect::<Vec<_>>()
    };
    let row = train("row", false);
    let document = train("document", false);
    let recomputed = train("document", true);
    assert_eq!((row.len(), document.len()), (8, 8));
    assert!(row.iter().zip(&document).all(|(row, document)| row != document), "{row:?}, {document:?}");
    assert_eq!(document, recomputed, "equal to the bit");
}

#[test]
fn a_run_starts_from_an_exported_folder() {
    let home = Home::prepared(100);
    home.run_ok(&[RUN[0], RUN[1], RUN[2], "--set", "train.steps=20"]);
    let last = home.log("run").into_iter().rfind(|entry| entry["kind"] == "report").expect("a report");
    for family in ["bert", "roberta", "electra"] {
        let wrote = home.run_ok(&["export", "run", "--out", family, "--as", family]);
        testkit::exports::assert_tokenizer(&home.join(family));
        assert!(wrote.stdout.to_lowercase().contains(&format!("{family}formaskedlm.from_pretrained")), "{wrote}");
        let folder = format!("run.folder=on-{family}");
        let init = format!("train.init_from={family}");
        let outcome = home.run_ok(&["train", "--set", &folder, "--set", &init, "--set", "train.steps=10"]);
        assert!(!outcome.stdout.contains("other tokens"), "{outcome}");
        let first = home.log(&format!("on-{family}")).remove(1);
        let expects_nothing = first["expected"].as_object().is_some_and(serde_json::Map::is_empty);
        assert!(first["kind"] == "start" && first["random"] == false && expects_nothing, "{first}");
        let loss = |entry: &Value| entry["terms"]["mlm"].as_f64().expect("mlm");
        let before = loss(&last);
        let after = loss(&first);
        assert!((before - after).abs() < 0.5, "{family}: it continues from {before}, not from {after}");
    }
}

/// Both models fill in blanks as the run does. `MPNet` exchanges the padding id, in the weights and in the tokenizer.
#[test]
fn runs_with_relative_positions_are_exported_with_them() {
    let home = Home::prepared(100);
    let relative = "encoder.relative_positions={kind=\"t5\",num_buckets=32,max_distance=128}";
    let sets = ["--set", "train.steps=20", "--set", relative];
    let plan = home.run_ok(&[&["plan"], &sets[..]].concat());
    assert!(plan.stdout.contains("`cloze export` writes a `MPNetForMaskedLM`"), "{plan}");
    home.run_ok(&[&RUN[..], &sets[..]].concat());
    let text = "Anna ate [MASK] and drank some water.";
    let filled = home.run_ok(&["fill", "run", text]);
    for (family, load) in [
        ("mpnet", "MPNetForMaskedLM.from_pretrained(\"mpnet\")"),
        ("cloze", "AutoModelForMaskedLM.from_pretrained(\"cloze\", trust_remote_code=True)"),
    ] {
        let exported = home.run_ok(&["export", "run", "--out", family, "--as", family]);
        assert!(exported.stdout.contains(load), "{exported}");
        testkit::exports::assert_tokenizer(&home.join(family));
        let of_model = home.run_ok(&["fill", family, text]);
        assert!(filled.stdout.starts_with(&of_model.stdout), "{of_model}\n{filled}");
    }
    let vocab = |family: &str| std::fs::read_to_string(home.join(family).join("vocab.txt")).expect("written");
    let [ours, theirs] = [vocab("cloze"), vocab("mpnet")];
    let [ours, theirs] = [&ours, &theirs].map(|text| text.lines().collect::<Vec<_>>());
    assert_eq!((ours[0], theirs[1], ours[1]), ("[PAD]", "[PAD]", theirs[0]));
    assert_eq!(ours[2..], theirs[2..]);
    assert!(home.join("cloze/modeling_cloze.py").is_file());
    home.run(&["export", "run", "--out", "bert", "--as", "bert"]).assert_fails(2, &["export it as `mpnet`"]);
    home.run(&["export", "run", "--out", "other", "--network", "other"])
        .assert_fails(2, &["trains no network `other`"]);
    std::fs::rename(home.join("run"), home.join("<img src=x>|`b`")).expect("renamed");
    home.run_ok(&["export", "<img src=x>|`b`", "--out", "named"]);
    let card = std::fs::read_to_string(home.join("named/README.md")).expect("a model card");
    assert!(card.contains("\n# &lt;img src=x&gt;\\|\\`b\\`\n"), "{card}");
    let saves = ["--set", "run.folder=other", "--set", "checkpoints.export=bert"];
    home.run(&[&["plan"], &sets[..], &saves].concat()).assert_fails(2, &["checkpoints.export", "export it as `mpnet`"]);
}

#[test]
fn other_vocabulary_of_the_same_size_is_detected() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=model", "--set", "train.steps=1"]);
    home.write("model/vocab.txt", "[PAD]\n[unused0]\n");
    let outcome = home.run_ok(&["plan", "--set", "run.folder=run", "--set", "train.init_from=model"]);
    assert!(outcome.stdout.contains("has other tokens for 1 of the data"), "{outcome}");
}

#[test]
fn a_first_value_that_is_not_a_guess_is_warned_of() {
    let home = Home::prepared(60);
    // Width that the contrastive loss needs for an expected first value.
    let set = ["--set", "encoder.hidden=128", "--set", "objectives.tc.temperature=0.001", "--set", "train.steps=2"];
    let outcome = home.run_ok(&[&RUN[..], &set].concat());
    assert!(
        outcome.stderr.contains("warning: first value of `tc` is") && outcome.stderr.contains("temperature"),
        "{outcome}"
    );
    let log = home.log("run");
    let surprise = &log[1]["unexpected_losses"][0];
    assert!(surprise["term"] == "tc" && surprise["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{surprise}");
    assert_eq!((&log[2]["kind"], &log[2]["topic"]), (&"warning".into(), &"first_value".into()));
}

#[test]
fn inspect_shows_what_is_masked_and_where_it_comes_from() {
    let home = Home::prepared(60);
    let outcome = home.run_ok(&["inspect", "batch", "3", "--rows", "2", "--set", "run.folder=run"]);
    for word in ["batch 3", "masked", "neighbors", "[MASK]‹", "train/part-"] {
        assert!(outcome.stdout.contains(word), "`{word}` is missing in\n{outcome}");
    }
    let shard = files(&home.join("data")).into_keys().find(|name| name.starts_with("train/")).expect("a shard");
    let outcome = home.run_ok(&["inspect", "shard", &format!("data/{shard}")]);
    assert!(outcome.stdout.contains("sample 0") && outcome.stdout.contains("document "), "{outcome}");
}

#[test]
fn a_step_is_timed_before_there_is_a_corpus() {
    let home = Home::with_corpus(1);
    let profile = |more: &[&str]| {
        let rows = ["--set", "train.micro_batch_size=4", "--set", "train.global_batch_size=8"];
        let width = ["--set", "data.seq_len=32", "--set", "prepare.max_seq_len=32"];
        home.run(&every_objective(&["profile", "step"], &[&["--json"], rows.as_slice(), &width, more].concat()))
    };
    let outcome = profile(&["--steps", "3", "--set", "train.device=cpu"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let timed: Value = serde_json::from_str(&outcome.stdout).expect("one JSON object");
    let number = |key: &str| timed[key].as_f64().unwrap_or_else(|| panic!("`{key}` in {timed}"));
    // Rows that are packed by sentences end with padding.
    assert_eq!((number("tokens"), number("steps")), (8.0 * 29.0, 3.0));
    let quartiles = &timed["step_ms_quartiles"];
    assert!(quartiles[0].as_f64() <= timed["step_ms"].as_f64() && timed["step_ms"].as_f64() <= quartiles[1].as_f64());
    assert!((number("tokens_per_s") * number("step_ms") / 1e3 - 8.0 * 29.0).abs() < 1e-6, "{timed}");
    assert!(number("loss").is_finite() && number("flops_ratio") > 1.0 && timed["mfu"].is_null(), "{timed}");
    assert!(!home.join("data").exists(), "nothing is prepared");
    profile(&["--steps", "0"]).assert_fails(2, &["--steps 0"]);
}

#[test]
fn parity_reproduces_the_worked_example() {
    let home = Home::with_corpus(4);
    let case = |tau: f64| {
        format!(
            r#"{{"id":"tc-{tau}","objective":"tc","variant":{{"tau":{tau},"candidates":"detached"}},"inputs":{{
            "h":{{"shape":[2,3,2],"data":[1,1,2,0,0,2,-1,0,0,-1,1,-1]}},
            "e":{{"shape":[2,3,2],"data":[0,1,1,0,0,1,0,0,0,0,0,0]}},
            "pos_col":{{"shape":[2,3],"data":[1,0,1,1,2,1]}},
            "neg_row":{{"shape":[2,3,2],"data":[1,1,1,1,1,1,0,0,0,0,0,0]}},
            "neg_col":{{"shape":[2,3,2],"data":[0,1,0,2,1,1,0,2,1,2,0,1]}},
            "anchor":{{"shape":[2,3],"data":[1,1,1,1,1,1]}}}}}}"#
        )
    };
    let cases: Vec<String> = [1.0, 0.5, 0.07].into_iter().map(case).collect();
    let unknown = r#"{"id":"x","objective":"nothing","variant":{},"inputs":{}}"#;
    home.write("in.json", &format!("{{\"cases\":[{},{unknown}]}}", cases.join(",")));
    let outcome = home.run_ok(&["parity", "--in", "in.json", "--out", "out.json"]);
    assert!(
        outcome.stdout.contains("nothing") || outcome.stderr.contains("nothing"),
        "the skip is reported\n{outcome}"
    );
    let results: Value = serde_json::from_slice(&std::fs::read(home.join("out.json")).expect("written")).expect("JSON");
    for (tau, mean) in [("1", 0.677_863_918_354), ("0.5", 0.489_617_043_869), ("0.07", 0.301_153_725_070)] {
        let loss = results["results"][format!("tc-{tau}")]["loss"].as_f64().expect("a loss");
        assert!((loss - mean).abs() < 1e-9, "tau {tau}: {loss}");
    }
}

/// A few steps of the demo's configuration on the demo's corpus.
#[test]
fn the_demo_runs_as_configured() {
    let home = Home::with_corpus(1);
    let root = root();
    let made =
        Command::new(root.join("scripts/demo-corpus")).arg(home.join("demo/corpus.jsonl")).current_dir(root).output();
    let made = made.expect("the script starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = root.join("configs/demo.toml");
    let config = config.to_str().expect("UTF-8");
    let run = |args: &[&str]| {
        let shorter = ["--config", config, "--set", "train.steps=20", "--set", "schedule.warmup_steps=5"];
        home.run_ok(&[args, &shorter].concat())
    };
    run(&["tokenizer", "train"]);
    run(&["prepare"]);
    run(&["plan"]);
    let trained = run(&["train"]);
    assert!(trained.stdout.contains("step 20"), "{trained}");
    home.run_ok(&["fill", "demo/run", "licensed under the [MASK] license"]);
}
