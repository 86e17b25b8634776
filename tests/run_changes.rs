//! Changes to a run that has started: rollback, branch, extension and changed keys. Each is compared with an
//! unchanged run.

use serde_json::Value;
use store::Store;
use testkit::{Home, Outcome, assert_equal_runs, files};

/// Arguments of a training that keeps all checkpoints and reports every step.
fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run, "--set", "report.every_steps=1", "--set", "checkpoints.keep=9"];
    args.extend_from_slice(more);
    args
}

/// Arguments that resume from the saved configuration.
fn resume(config: &str) -> [&str; 3] {
    ["train", "--config", config]
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}\n{outcome}"))
}

fn changes(home: &Home, run: &str) -> Vec<Value> {
    home.log(run).into_iter().filter(|event| event["kind"] == "change").collect()
}

/// Returns the steps of a run's checkpoints, with the reasons for keeping each.
fn kept(home: &Home, run: &str) -> Vec<(u64, Vec<String>)> {
    let listed = json(&home.run_ok(&["checkpoints", run, "--json"]));
    let words = |it: &Value| -> Vec<String> {
        let why = it["why"].as_array().expect("a list").iter();
        why.map(|why| why.as_str().expect("a word").to_owned()).collect()
    };
    listed.as_array().expect("a list").iter().map(|it| (it["step"].as_u64().expect("a step"), words(it))).collect()
}

#[test]
fn rolled_back_run_equals_the_uninterrupted_run() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=calm", &[]));
    home.run_ok(&train("run.folder=run", &[]));
    let before = files(&home.join("run"));
    let undone = json(&home.run_ok(&["rollback", "run", "--step", "30", "--reason", "to see", "--json"]));
    let record = &undone["rolled_back"];
    assert_eq!((record["from"].as_u64(), record["to"].as_u64()), (Some(60), Some(30)));
    assert_eq!((record["rows_from"].as_u64(), record["rows_to"].as_u64()), (Some(960), Some(480)));
    assert_eq!(record["why"].as_str(), Some("to see"));
    assert_eq!(kept(&home, "run").into_iter().map(|it| it.0).collect::<Vec<_>>(), [10, 20, 30]);
    assert!(
        home.log("run").iter().all(|event| event["step"].as_u64().is_none_or(|step| step <= 30)),
        "the log is truncated too"
    );
    assert_eq!(changes(&home, "run")[0]["how"], "rollback");
    // The rollback moves all files, without loss.
    for name in ["checkpoints/step-00000060/main.safetensors", "checkpoints/step-00000040/state.json"] {
        assert!(files(&home.join("run/rolled_back/000"))[name] == before[name], "{name}");
    }
    home.run_ok(&train("run.folder=run", &[]));
    assert_equal_runs(&home, "calm", "run");
    // A second rollback goes further back and has its own folder.
    home.run_ok(&["rollback", "run", "--step", "10"]);
    home.run_ok(&train("run.folder=run", &[]));
    assert_equal_runs(&home, "calm", "run");
    assert!(home.join("run/rolled_back/001/rolled_back.json").exists());
    home.run(&["rollback", "run", "--step", "7"])
        .assert_fails(2, &["no checkpoint after step 7", "the run has those after 10, 20"]);
    home.run(&["rollback", "nowhere", "--step", "7"]).assert_fails(2, &["no run is here"]);
}

#[test]
fn branch_without_changes_equals_the_run() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=run", &[]));
    let before = files(&home.join("run"));
    home.run_ok(&["branch", "run", "--step", "20", "--out", "same"]);
    home.run_ok(&resume("same/config.toml"));
    assert_equal_runs(&home, "run", "same");
    assert_eq!(json(&home.run_ok(&["diff", "run", "same", "--json"]))["reports"]["figures_part_at"], Value::Null);

    let other = ["branch", "run", "--step", "20", "--out", "other", "--set", "optimizer.lr=2e-3", "--json"];
    let branched = json(&home.run_ok(&other));
    assert_eq!(branched["branch"]["keys"][0]["key"], "optimizer.lr");
    home.run_ok(&resume("other/config.toml"));
    let event = &changes(&home, "other")[0];
    assert_eq!(
        (&event["how"], &event["keys"][0]["then"], event["step"].as_u64()),
        (&"branch".into(), &"0.001".into(), Some(20))
    );
    let diff = json(&home.run_ok(&["diff", "run", "other", "--json"]));
    assert_eq!((&diff["config"][0]["key"], &diff["reports"]["data_parts_at"]), (&"optimizer.lr".into(), &Value::Null));
    assert_eq!(diff["reports"]["figures_part_at"].as_u64(), Some(21), "the first step at another rate");
    assert_eq!(files(&home.join("run")), before, "the run itself is only read");

    // Invalid branches.
    let branch = |set: &str| home.run(&["branch", "run", "--step", "20", "--out", "none", "--set", set]);
    branch("train.global_batch_size=32").assert_fails(2, &["train.global_batch_size", "which rows come next"]);
    branch("encoder.hidden=64").assert_fails(2, &["changes the weights", "train.init_from"]);
    branch("optimizer.lr=-1").assert_fails(2, &["optimizer.lr"]);
    home.run(&other[..6]).assert_fails(2, &["other", "name an empty folder"]);
    home.run(&["branch", "run", "--step", "25", "--out", "none"]).assert_fails(2, &["no checkpoint after step 25"]);
}

#[test]
fn extended_run_of_constant_rate_equals_the_longer_run() {
    let home = Home::prepared(120);
    let constant = ["--set", "schedule.kind=constant", "--set"];
    home.run_ok(&train("run.folder=long", &[&constant[..], &["train.steps=60"]].concat()));
    let short = [&constant[..], &["train.steps=40"]].concat();
    home.run_ok(&train("run.folder=run", &short));
    home.run_ok(&["extend", "run", "--steps", "60"]);
    home.run(&["extend", "run", "--steps", "60"]).assert_fails(2, &["it has 60 steps"]);
    // The original command continues the run.
    home.run_ok(&train("run.folder=run", &short));
    assert_equal_runs(&home, "long", "run");
    home.run(&["extend", "run", "--steps", "50"]).assert_fails(2, &["it has done 60 steps already"]);
}

#[test]
fn extended_run_of_falling_rate_follows_the_printed_rule() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=long", &["--set", "train.steps=60"]));
    let short = train("run.folder=run", &["--set", "train.steps=30"]);
    home.run_ok(&short);
    let outcome = home.run_ok(&["extend", "run", "--steps", "60"]);
    assert!(
        outcome.stdout.contains("has 60 steps instead of 30") && outcome.stdout.contains("from 0.000 to 0.556"),
        "{outcome}"
    );
    home.run_ok(&short);
    let rates = |run: &str| -> Vec<(u64, f64)> {
        let log = home.log(run);
        let reports = log.iter().filter(|event| event["kind"] == "report");
        reports.map(|event| (event["step"].as_u64().expect("a step"), event["lr"].as_f64().expect("a rate"))).collect()
    };
    let long = rates("long");
    let run = rates("run");
    assert_eq!(run.len(), 60);
    assert_eq!(run[30..], long[30..], "from there on the rates equal those of the longer run");
    assert!(run[20..30].iter().zip(&long[20..30]).all(|(short, long)| short.1 < long.1), "before, it was not");
    assert_eq!(changes(&home, "run")[0]["keys"][0]["now"], "60");
    // The new number of steps continues the same run; any other number is refused.
    let again = home.run_ok(&train("run.folder=run", &["--set", "train.steps=60"]));
    assert!(again.stderr.contains("done: 60 steps"), "{again}");
    home.run(&train("run.folder=run", &["--set", "train.steps=90"]))
        .assert_fails(2, &["`train.steps`", "cloze extend"]);
    // A branch means the number that it sets, also if it is the original one.
    home.run_ok(&["branch", "run", "--step", "20", "--out", "short", "--set", "train.steps=30"]);
    assert!(home.run_ok(&resume("short/config.toml")).stderr.contains("done: 30 steps"));
    home.run_ok(&["branch", "run", "--step", "40", "--out", "same"]);
    assert!(home.run_ok(&resume("same/config.toml")).stderr.contains("done: 60 steps"));
    let has_steps = |steps: u64| {
        home.run_ok(&["report", "run", "--out", "report.html"]);
        let page = std::fs::read_to_string(home.join("report.html")).expect("a report");
        page.contains(&format!(r#""key":"train.steps","value":"{steps}""#))
    };
    assert!(has_steps(60), "the configuration has 30 steps, the run has 60");
    // After a rollback to before the extension, the run has its original length, and says so.
    let rolled_back = home.run_ok(&["rollback", "run", "--step", "20"]);
    let words = ["the run has 30 steps again, and not 60", "`cloze extend run --steps 60`"];
    assert!(words.iter().all(|words| rolled_back.stdout.contains(words)), "{rolled_back}");
    assert!(has_steps(30));
    let back = home.run_ok(&short);
    assert!(back.stderr.contains("done: 30 steps"), "{back}");
    // A rollback that keeps all of the run's lengths has nothing to say about them.
    assert!(!home.run_ok(&["rollback", "run", "--step", "20"]).stdout.contains("steps again"));
}

fn figures(home: &Home, run: &str) -> Vec<(f64, String)> {
    let log = home.log(run);
    let reports = log.iter().filter(|event| event["kind"] == "report");
    reports
        .map(|it| (it["loss"].as_f64().expect("a loss"), it["batch_hash"].as_str().expect("a hash").to_owned()))
        .collect()
}

#[test]
fn micro_batch_size_may_change_if_rows_are_independent() {
    let home = Home::prepared(120);
    let steps = ["--set", "train.steps=20", "--set", "schedule.kind=constant", "--set", "encoder.dropout=0.0"];
    let mlm = ["--set", "loss={mlm=1.0}", "--set", "train.micro_batch_size=16"];
    let whole = [&steps[..], &mlm].concat();
    home.run_ok(&train("run.folder=whole", &whole));
    home.run_ok(&train("run.folder=run", &[&whole[..], &["--set", "train.steps=10"]].concat()));
    home.run_ok(&train("run.folder=run", &[&whole[..], &["--set", "train.micro_batch_size=4"]].concat()));
    let run = figures(&home, "run");
    let expected = figures(&home, "whole");
    assert_eq!(run.len(), 20);
    for (step, ((loss, hash), (expected, expected_hash))) in run.iter().zip(&expected).enumerate() {
        assert_eq!(hash, expected_hash, "the same rows");
        // Gradient sums are in another order, and ten steps amplify the difference of the last bits.
        assert!((loss - expected).abs() < 1e-4 * expected, "step {}: {loss}, not {expected}", step + 1);
    }

    // If dropout is drawn per micro-batch, the run would change. It continues only with `--allow-change`.
    let dropout = ["--set", "train.steps=20", "--set", "loss={mlm=1.0}"];
    let half = |more: &[&'static str]| [&dropout[..], more].concat();
    home.run_ok(&train("run.folder=drawn", &half(&["--set", "schedule.kind=constant", "--set", "train.steps=10"])));
    let smaller = ["--set", "schedule.kind=constant", "--set", "train.micro_batch_size=4"];
    let refused = home.run(&train("run.folder=drawn", &half(&smaller)));
    refused.assert_fails(2, &["train.micro_batch_size  8 → 4", "--allow-change train.micro_batch_size"]);
    let allowed = [&smaller[..], &["--allow-change", "train.micro_batch_size"]].concat();
    home.run_ok(&train("run.folder=drawn", &half(&allowed)));
    let event = &changes(&home, "drawn")[0];
    assert_eq!((&event["how"], event["step"].as_u64()), (&"allow".into(), Some(10)));
    let state = std::fs::read_to_string(home.join("drawn/checkpoints/step-00000020/state.json")).expect("saved");
    let state: Value = serde_json::from_str(&state).expect("JSON");
    assert_eq!(state["content"]["changes"][0]["key"]["key"], "train.micro_batch_size");
    // The allowed change persists, with or without the flag.
    let again = home.run_ok(&train("run.folder=drawn", &half(&smaller)));
    assert!(again.stderr.contains("done: 20 steps"), "{again}");
    let rows = home.run(&train("run.folder=drawn", &half(&["--allow-change", "train.global_batch_size"])));
    rows.assert_fails(2, &["train.global_batch_size", "which rows come next"]);
}

/// A change that adds or reshapes weights or moments is refused by name, however it is allowed.
#[test]
fn changes_of_the_weights_are_refused_by_train_and_branch() {
    let home = Home::prepared(60);
    let start = ["train", "--set", "run.folder=run", "--set", "train.steps=4", "--set", "schedule.kind=constant"];
    home.run_ok(&[&start[..], &["--set", "encoder.frozen=[\"word\"]"]].concat());
    let frozen = "encoder.frozen=[\"word\"]";
    let ways = ["run.folder", "train.init_from"];
    for (key, changes) in [
        ("encoder.hidden", &[frozen, "encoder.hidden=16"][..]),
        ("encoder.layers", &[frozen, "encoder.layers=3"]),
        ("encoder.heads", &[frozen, "encoder.heads=1"]),
        ("encoder.feed_forward", &[frozen, "encoder.feed_forward=16"]),
        ("encoder.max_positions", &[frozen, "encoder.max_positions=128"]),
        ("encoder.embedding", &[frozen, "encoder.embedding=16"]),
        ("encoder.relative_positions.kind", &[frozen, "encoder.relative_positions.kind=t5"]),
        ("objectives.mlm.tied", &[frozen, "objectives.mlm.tied=false"]),
        ("encoder.frozen", &[]),
        ("loss.again", &[frozen, "objectives.again={kind=\"masked_lm\"}", "loss.again=1.0"]),
    ] {
        let sets: Vec<&str> = changes.iter().flat_map(|change| ["--set", change]).collect();
        let more = ["again.kind", "again.view", "again.network", "again.tied", "again.reduction"];
        let more = more.map(|name| format!("objectives.{name}"));
        let more = more.iter().filter(|_| key == "loss.again").flat_map(|name| ["--allow-change", name]);
        let longer = ["--set", "train.steps=8", "--allow-change", key];
        let args: Vec<&str> = [&start[..], &sets, &longer].concat().into_iter().chain(more).collect();
        home.run(&args).assert_fails(2, &[&[&*format!("`{key}`")], &ways[..]].concat());
        if key != "encoder.frozen" {
            let branch = [&["branch", "run", "--step", "4", "--out", "other"], &sets[..]].concat();
            home.run(&branch).assert_fails(2, &[&[&*format!("`{key}`")], &ways[..]].concat());
        }
    }
    let unfrozen = ["branch", "run", "--step", "4", "--out", "other", "--set", "encoder.frozen=[]"];
    home.run(&unfrozen).assert_fails(2, &["`encoder.frozen`", "it has no `mean.encoder.embeddings.word.weight`"]);
}

/// Retention rules that change after the end of a run apply when it is started again, which trains no step.
#[test]
fn retention_of_a_finished_run_can_change() {
    let home = Home::prepared(60);
    let train = |keep: &str| {
        let keep = format!("checkpoints.keep={keep}");
        home.run_ok(&["train", "--set", "run.folder=run", "--set", "checkpoints.every_steps=20", "--set", &keep])
    };
    train("3");
    let steps = || kept(&home, "run").into_iter().map(|it| it.0).collect::<Vec<_>>();
    let log = home.log("run");
    assert_eq!(steps(), [20, 40, 60]);
    train("1");
    assert_eq!(steps(), [60]);
    assert_eq!(home.log("run"), log, "no step was trained");
    let config = std::fs::read_to_string(home.join("run/config.toml")).expect("saved");
    assert!(config.contains("keep = 1"), "the rules that apply are saved:\n{config}");
}

#[test]
fn checkpoints_are_listed_verified_pinned_and_removed() {
    let home = Home::prepared(60);
    let mut args = vec!["train", "--set", "run.folder=run", "--set", "checkpoints.keep=1"];
    args.extend(["--set", "checkpoints.keep_every_steps=25", "--set", "checkpoints.keep_best=1"]);
    args.extend(["--set", "checkpoints.best_by=valid/mlm", "--set", "checkpoints.export=bert"]);
    home.run_ok(&args);
    let listed = kept(&home, "run");
    let of = |step: u64| listed.iter().find(|it| it.0 == step).map(|it| it.1.clone()).unwrap_or_default();
    assert_eq!((of(25), of(50)), (vec!["milestone".to_owned()], vec!["milestone".to_owned()]));
    assert!(of(60).contains(&"newest".to_owned()), "{listed:?}");
    let best: Vec<u64> = listed.iter().filter(|it| it.1.contains(&"best".to_owned())).map(|it| it.0).collect();
    let valid = home.log("run").into_iter().filter(|event| event["kind"] == "validation");
    let lowest = valid.min_by(|a, b| {
        let loss = |event: &Value| event["mlm"]["loss"].as_f64().expect("a loss");
        loss(a).total_cmp(&loss(b))
    });
    assert_eq!(best, [lowest.expect("three validations")["step"].as_u64().expect("a step")]);

    // Each checkpoint contains the files of `export`, byte for byte, without the model card.
    home.run_ok(&["export", "run", "--out", "model", "--step", "25"]);
    let checkpoint = files(&home.join("run/checkpoints/step-00000025"));
    let mut model = files(&home.join("model"));
    let card = String::from_utf8(model.remove("README.md").expect("a model card")).expect("UTF-8");
    for (name, bytes) in &model {
        assert!(checkpoint[name] == *bytes, "{name}");
    }
    for part in ["BertForMaskedLM", "| steps | 25 of 60 |", "| loss | 1 `mlm` (`masked_lm`)", "\n[objectives.mlm]\n"] {
        assert!(card.contains(part), "{part:?} in {card}");
    }
    let vocab = String::from_utf8(model["vocab.txt"].clone()).expect("UTF-8");
    let tokenizer: Value = serde_json::from_slice(&model["tokenizer.json"]).expect("JSON");
    for (id, token) in vocab.lines().enumerate() {
        assert_eq!(tokenizer["model"]["vocab"][token], id, "{token}");
    }
    assert_eq!(vocab.lines().count(), tokenizer["model"]["vocab"].as_object().expect("tokens").len());
    // The exported folder can start a run, with its heads.
    let init = "train.init_from=run/checkpoints/step-00000025";
    home.run_ok(&["train", "--set", "run.folder=next", "--set", "train.steps=2", "--set", init]);

    home.run_ok(&["checkpoints", "run", "pin", "25"]);
    home.run(&["checkpoints", "run", "remove", "25"]).assert_fails(2, &["pinned"]);
    home.run_ok(&["checkpoints", "run", "unpin", "25"]);
    home.run_ok(&["checkpoints", "run", "verify"]);
    home.run_ok(&["checkpoints", "run", "remove", "25"]);
    home.run(&["checkpoints", "run", "remove", "60"]).assert_fails(2, &["cloze rollback"]);
    home.run(&["checkpoints", "run", "verify", "25"]).assert_fails(2, &["no checkpoint after step 25"]);
    let weights = "run/checkpoints/step-00000050/model.safetensors";
    let folder = Store::folder(home.path()).expect("it is there");
    let mut bytes = folder.get(weights).expect("exported");
    bytes[99] ^= 1;
    folder.put(weights, &bytes).expect("put");
    home.run(&["checkpoints", "run", "verify"]).assert_fails(1, &["step-00000050/model.safetensors", "BLAKE3"]);
    let text = home.run_ok(&["checkpoints", "run"]).stdout;
    assert!(text.contains("milestone") && text.contains("one of the newest"), "{text}");
}

#[test]
fn unreachable_milestones_are_refused_before_training() {
    let home = Home::prepared(60);
    for (set, words) in [
        ("loss={tc=1.0}", ["checkpoints.export", "needs a head of `masked_lm` on the main network"]),
        ("checkpoints.best_by=rtd.accuracy", ["checkpoints.best_by", "`rtd.accuracy`"]),
        ("validation.every_steps=0", ["checkpoints.keep_best", "without validation"]),
        ("train.max_tokens=0", ["train.max_tokens", "at least one token"]),
        ("train.max_hours=-2", ["train.max_hours", "above 0"]),
        ("schedule.decay_fraction=0.0", ["schedule.decay_fraction", "fraction above 0"]),
    ] {
        let kept = ["--set", "checkpoints.keep_best=1", "--set", "checkpoints.export=bert", "--set", set];
        home.run(&train("run.folder=run", &kept)).assert_fails(2, &words);
    }
    assert!(!home.join("run").exists());
    // Steps that are not configured do not end the run.
    let plan = ["plan", "--set", "train.max_tokens=1000000", "--set", "train.steps=1099511627776"];
    let plan = home.run_ok(&plan).stdout;
    assert!(plan.contains("budget     1,000,000 tokens") && plan.contains("977 steps ="), "{plan}");
}

#[test]
fn runs_below_a_folder_are_listed_with_their_state() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=runs/done", &["--set", "train.steps=20"]));
    let mut stopped = home.watch(&train("run.folder=runs/deep/stopped", &["--slow", "step=60"]));
    stopped.wait_for_step(3);
    stopped.signal(libc::SIGTERM);
    assert_eq!(stopped.end().code, Some(143));
    let mut killed = home.watch(&train("run.folder=runs/killed", &["--slow", "step=60"]));
    killed.wait_for_step(3);
    killed.kill();
    let mut running = home.watch(&train("run.folder=runs/under-way", &["--slow", "step=100"]));
    running.wait_for_step(3);
    let runs = json(&home.run_ok(&["runs", "runs", "--json"]));
    let states: Vec<(&str, &str)> = runs
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| (run["run"].as_str().expect("a name"), run["state"].as_str().expect("a state")))
        .collect();
    let expected = [
        ("runs/deep/stopped", "stopped"),
        ("runs/done", "finished"),
        ("runs/killed", "killed"),
        ("runs/under-way", "training"),
    ];
    assert_eq!(states, expected);
    assert_eq!((runs[1]["step"].as_u64(), runs[1]["steps"].as_u64()), (Some(20), Some(20)));
    assert!(runs[1]["valid"].as_f64().is_some_and(|valid| valid > 0.0) && runs[3]["holder"].is_string());
    // Commands that change the run wait for its end; read-only commands do not.
    let words = ["another process trains in this folder", "pid", "stop it with `touch", "runs/under-way/stop`"];
    for args in [
        &["rollback", "runs/under-way", "--step", "10"][..],
        &["extend", "runs/under-way", "--steps", "99"],
        &["checkpoints", "runs/under-way", "pin", "10"],
    ] {
        home.run(args).assert_fails(1, &words);
    }
    home.run_ok(&["checkpoints", "runs/under-way"]);
    home.run_ok(&["diff", "runs/under-way", "runs/done"]);
    running.kill();
    let table = home.run_ok(&["runs", "runs"]).stdout;
    assert!(table.contains("4 runs") && table.contains("20 / 20") && table.contains("valid loss"), "{table}");
    // An unreadable run does not hide the others.
    home.write("runs/killed/step_budget.json", "x");
    let runs = home.run(&["runs", "runs", "--json"]);
    runs.assert_fails(1, &["1 of 4 runs"]);
    let listed = json(&runs);
    assert_eq!((&listed[2]["state"], &listed[1]["state"]), (&"damaged".into(), &"finished".into()), "{runs}");
    assert!(listed[2]["error"].as_str().is_some_and(|error| error.contains("step_budget.json")), "{runs}");
    let table = home.run(&["runs", "runs"]);
    assert_eq!(table.code, Some(1));
    assert!(table.stdout.contains("step_budget.json") && table.stdout.contains("20 / 20"), "{table}");
}

#[test]
fn token_budget_ends_a_run_despite_kills() {
    let home = Home::prepared(120);
    let budget = |run: &'static str| train(run, &["--set", "train.max_tokens=20000"]);
    // The preset sets a number of steps larger than needed, which would also end the run.
    let args = |run| [&budget(run)[..], &["--set", "train.steps=1000"]].concat();
    home.run_ok(&args("run.folder=calm"));
    let log = home.log("calm");
    let last = log.iter().rfind(|event| event["kind"] == "report").expect("a report");
    assert!(last["tokens_seen"].as_u64().is_some_and(|tokens| (20_000..21_100).contains(&tokens)), "{last}");
    assert!(
        last["progress"].as_f64().is_some_and(|progress| progress >= 1.0) && last["step"].as_u64() < Some(40),
        "{last}"
    );
    let rates: Vec<f64> = log.iter().filter(|it| it["kind"] == "report").filter_map(|it| it["lr"].as_f64()).collect();
    assert!(rates[8..].windows(2).all(|pair| pair[0] > pair[1]), "after the warm-up it falls: {rates:?}");
    let mut running = home.watch(&[&args("run.folder=run")[..], &["--slow", "step=30"]].concat());
    running.wait_for_step(13);
    running.kill();
    home.run_ok(&args("run.folder=run"));
    assert_equal_runs(&home, "calm", "run");
    let again = home.run_ok(&args("run.folder=run"));
    assert!(again.stderr.contains("done: "), "there is nothing more to do\n{again}");
}

#[test]
fn time_budget_ends_a_run() {
    let home = Home::prepared(60);
    let args = train("run.folder=run", &["--set", "train.max_hours=0.0004", "--set", "train.steps=1000000"]);
    home.run_ok(&args);
    let log = home.log("run");
    let report = log.iter().rposition(|event| event["kind"] == "report").expect("a report");
    assert!(log[report]["progress"].as_f64().is_some_and(|progress| progress >= 1.0), "{}", log[report]);
    // Checkpoints of earlier steps are written in the background, and may be logged after the last report.
    let of_the_end = |event: &&Value| event["kind"] != "checkpoint" || event["step"] == log[report]["step"];
    let ends: Vec<&str> =
        log[report + 1..].iter().filter(of_the_end).filter_map(|event| event["kind"].as_str()).collect();
    assert_eq!(ends, ["validation", "checkpoint", "stop"], "{:?}", &log[report..]);
    let again = home.run_ok(&args);
    assert!(again.stderr.contains("done: ") && !again.stdout.contains("step "), "{again}");
    // If the saved clock readings are lost, the progress is unknown.
    std::fs::remove_file(home.join("run/time_budget.json")).expect("it was there");
    home.run(&args).assert_fails(2, &["time_budget.json", "are lost", "restore the file"]);
}

#[test]
fn an_extension_within_the_warm_up_says_that_the_rate_only_rises() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", &["--set", "train.steps=10", "--set", "schedule.warmup_steps=40"]));
    let outcome = home.run_ok(&["extend", "run", "--steps", "20"]);
    assert!(
        outcome.stdout.contains("ends within its warm-up of 40 steps: the learning rate rises to 0.500"),
        "{outcome}"
    );
    assert!(!outcome.stdout.contains("falls towards"), "{outcome}");
}

#[test]
fn extended_run_needs_its_step_budget_file() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", &["--set", "train.steps=20"]));
    for steps in ["1152921504606846976", "1099511627776"] {
        home.run(&["extend", "run", "--steps", steps]).assert_fails(2, &["no run has that many steps"]);
    }
    home.run_ok(&["extend", "run", "--steps", "40"]);
    let args = train("run.folder=run", &["--set", "train.steps=20"]);
    home.run_ok(&args);
    std::fs::remove_file(home.join("run/step_budget.json")).expect("it was there");
    home.run(&args).assert_fails(2, &["step_budget.json", "are lost"]);
}
