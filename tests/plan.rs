//! What stands between a file and a run: every mistake at once, and no start with any of them.

use testkit::Home;

#[test]
fn seven_mistakes_are_seven_reports() {
    let home = Home::prepared(40);
    home.write(
        "wrong.toml",
        r#"
sede = 1
[data]
folder = "data"
seq_len = 63
[encoder]
layres = 2
hidden = 32
heads = 2
feed_forward = 64
max_positions = 64
[views.masked]
kind = "musk"
[views.neighbors]
kind = "window"
of = "original"
ofset_max = 2
[objectives.mlm]
kind = "masked_lm"
view = "original"
[objectives.tc]
kind = "token_contrastive"
view = "original"
positives = "nowhere"
[loss]
mlm = 1.0
tcc = 1.0
[train]
steps = "many"
global_batch_size = 16
micro_batch_size = 5
[run]
folder = "run"
"#,
    );
    let outcome = home.run(&["plan", "--config", "wrong.toml"]);
    outcome.assert_fails(
        2,
        &[
            "unknown section `sede`",
            "did you mean `seed`?",
            "unknown key `layres`",
            "did you mean `layers`?",
            "unknown choice `musk`",
            "did you mean `mask`?",
            "unknown key `ofset_max`",
            "wrong.toml:17, [views.neighbors], `ofset_max`",
            "reads column `labels` of view `original`, which it does not make",
            "`tcc`",
            "wrong.toml:29, [train], `steps`",
        ],
    );
    let reports = outcome.stderr.matches("error: ").count();
    assert!(reports >= 7, "{reports} reports\n{outcome}");
    assert!(!home.join("run").exists(), "a plan with mistakes writes nothing");
}

#[test]
fn a_plan_prints_the_run_before_it_costs_anything() {
    let home = Home::prepared(40);
    let outcome = home.run_ok(&["plan", "--set", "run.folder=run"]);
    for word in ["masked", "neighbors", "loss", "parameters", "FLOP", "row groups", "steps per epoch", "tc", "mlm"] {
        assert!(outcome.stdout.contains(word), "`{word}` is missing in\n{outcome}");
    }
    assert!(!home.join("run").exists(), "planning writes nothing");
    let json = home.run_ok(&["plan", "--json", "--set", "run.folder=run"]);
    let plan: serde_json::Value = serde_json::from_str(&json.stdout).expect("one JSON object");
    assert_eq!(plan["global_batch_size"], 16);
}

/// Settings that would run and mean something else than they say.
#[test]
fn what_would_go_wrong_in_silence_is_refused() {
    let home = Home::prepared(40);
    let generator = "networks.generator={kind=\"generator\", layers=1, output_view=\"MADE\"}";
    let check = |settings: &[&str], words: &[&str]| {
        let mut args = vec!["plan", "--set", "run.folder=run"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        home.run(&args).assert_fails(2, words);
    };
    let rtd = "objectives.rtd={kind=\"replaced_token\", view=\"masked\"}";
    check(&[rtd, &generator.replace("MADE", "masked")], &["networks.generator", "`masked` is a view of the data"]);
    check(&["data.copies_per_sample=2"], &["data.copies_per_sample", "`tc` would contrast a row with its own copies"]);
    check(&["objectives.tc.negative_columns=matched", "views.neighbors.max_offset=5"], &["max_offset", "up to 5 away"]);
    let tacl = "objectives.tacl={kind=\"teacher_contrastive\", clean=\"cropped\"}";
    let others = ["networks.teacher={kind=\"teacher\"}", "views.cropped={kind=\"crop\"}"];
    check(&[tacl, others[0], others[1]], &["objectives.tacl", "`masked` and `cropped` for the same tokens"]);
    check(&["networks.tutor={kind=\"teacher\"}", "objectives.mlm.network=tutor"], &["`tutor` has no head"]);
    let clm = "objectives.clm={kind=\"corrective_lm\", view=\"masked\"}";
    let loss = "loss={clm=1.0}";
    check(&[clm, loss, "encoder.embedding=16"], &["encoder.embedding", "against the word table"]);
    check(&["views.masked.span=spanbert"], &["views.masked", "only with `unit = \"span\"`"]);
    let warned = home.run_ok(&["plan", "--set", "run.folder=run", "--set", "views.masked.disjoint=true"]);
    assert!(warned.stdout.contains("`data.copies_per_sample` is 1"), "{warned}");
}

/// The newcomer's first command, and the second.
#[test]
fn a_run_is_planned_before_its_corpus_is_prepared() {
    let home = Home::with_corpus(40);
    let plan = || home.run_ok(&["plan"]);
    let before = plan();
    for word in [
        "tokenizer train` makes it",
        "not prepared yet",
        "400 lowercased ids (`tokenizer.vocab_size`)",
        "waits for the data",
    ] {
        assert!(before.stdout.contains(word), "`{word}` is missing in\n{before}");
    }
    assert!(!before.stdout.contains("per epoch"), "{before}");
    let json = home.run_ok(&["plan", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("one JSON object");
    assert_eq!(
        (&json["prepared"], &json["samples"], &json["steps"]),
        (&false.into(), &serde_json::Value::Null, &60.into())
    );
    home.run_ok(&["tokenizer", "train"]);
    let trained = plan();
    for word in ["4 text_lines files", "parts, the largest of", "wordpiece", "(`prepare.tokenizer`)"] {
        assert!(trained.stdout.contains(word), "`{word}` is missing in\n{trained}");
    }
    home.run_ok(&["prepare"]);
    let after = plan();
    assert!(after.stdout.contains("steps per epoch") && !after.stdout.contains("not prepared"), "{after}");
    // A run needs what a plan does not.
    home.run(&["train"]).assert_fails(2, &["a run needs a folder", "set `run.folder`"]);
    let shard =
        testkit::files(&home.join("data")).into_keys().find(|name| name.starts_with("train/")).expect("a shard");
    std::fs::remove_file(home.join("data").join(shard)).expect("deleted");
    assert!(plan().stdout.contains("training shards are gone"), "{}", plan());
}

/// One report has everything, whatever else is wrong.
#[test]
fn mistakes_of_the_data_stand_beside_all_others() {
    let home = Home::with_corpus(4);
    let mistakes =
        ["train.stesp=5", "prepare.zstd_level=99", "encoder.heads=5", "views.masked.of=nowhere", "data.seq_len=2"];
    let set: Vec<&str> = mistakes.iter().flat_map(|mistake| ["--set", mistake]).collect();
    let train = [&["train"], &set[..]].concat();
    let outcome = home.run(&train);
    outcome.assert_fails(
        2,
        &[
            "did you mean `steps`?",
            "99 is no level of zstd\n   in: --set prepare.zstd_level=99, [prepare], `zstd_level`",
            "32 is not a multiple of `encoder.heads` = 5",
            "there is no view `nowhere`",
            "2 does not fit samples prepared for rows of 64",
            "there is no prepared corpus here",
            "a run needs a folder",
            "7 problems",
        ],
    );
}

#[test]
fn one_mistake_is_one_problem() {
    let home = Home::prepared(40);
    for (set, expected) in [
        ("train.micro_batch_size=0", "0 rows are no batch"),
        ("views.neighbors.of=nowhere", "there is no view `nowhere`"),
        ("views.masked.of=nowhere", "there is no view `nowhere`"),
        ("views.neighbors.of=neighbors", "an edit of `neighbors` itself"),
        ("data.seq_len=2", "2 does not fit"),
        ("networks.generator=3", "`networks.generator` is a whole number, not a component"),
    ] {
        let outcome = home.run(&["plan", "--set", set]);
        outcome.assert_fails(2, &[expected]);
        assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{set}\n{outcome}");
    }
}

#[test]
fn what_is_allowed_and_hardly_meant_is_said() {
    let home = Home::with_corpus(4);
    for (set, expected) in [
        ("encoder.feed_forward=3072", "`encoder.feed_forward` is 3072 next to `encoder.hidden` = 32"),
        ("encoder.max_positions=512", "`encoder.max_positions` is 512, rows have 64 tokens"),
        ("views.masked.rate=0", "`views.masked.rate`: 0 leaves nothing to predict"),
        ("views.masked.rate=0.9", "`views.masked.rate`: 0.9 leaves less than half"),
        ("encoder.dropout=0.9", "most of each layer is dropped"),
        ("optimizer.lr=1", "AdamW diverges well below"),
        ("optimizer.weight_decay=10", "0.01 to 0.1 is usual"),
        ("report.every_steps=100", "it reports nothing"),
        ("loss.mlm=-1", "the run unlearns it"),
        ("schedule.warmup_steps=100", "never reaches its height"),
        ("train.init_from=absent", "`train.init_from`: absent is not here"),
    ] {
        let outcome = home.run_ok(&["plan", "--set", set]);
        assert!(outcome.stdout.contains(expected), "`{expected}` is missing in\n{outcome}");
        let said = outcome.stdout.matches("warning ").count();
        assert_eq!(said, 1, "{set}\n{outcome}");
    }
    let home = Home::prepared(40);
    let outcome = home.run_ok(&["plan", "--set", "train.steps=500000"]);
    assert!(outcome.stdout.contains("epochs: each row is learned so often"), "{outcome}");
}

/// What a supervisor is told of mistakes that no second try mends.
#[test]
fn mistakes_of_whoever_types_are_code_2() {
    let home = Home::with_corpus(4);
    home.write("broken.toml", "[train\nsteps = 5\n");
    home.write("jsonl/a.jsonl.zst", "no matter");
    let check = |args: &[&str], words: &[&str]| home.run(args).assert_fails(2, words);
    check(
        &["plan", "--config", "absent.toml"],
        &["cannot read the configuration absent.toml: No such file", "in: --config"],
    );
    check(&["plan", "--config", "broken.toml"], &["in: broken.toml:1", "TOML parse error"]);
    check(&["plan", "--set", "train.steps"], &["a key and a value", "in: --set train.steps"]);
    check(&["plan", "--set", "train..steps=5"], &["`train..steps` has an empty name"]);
    check(&["prepare", "--set", "prepare.inputs=[\"s3://bucket/a\"]"], &["a store of that kind cannot be read"]);
    check(
        &["prepare", "--set", "prepare.inputs=[\"absent\"]"],
        &["absent: no such file or folder", "[prepare], `inputs`"],
    );
    check(&["tokenizer", "train", "--set", "prepare.inputs=[\"absent\"]"], &["absent: no such file or folder"]);
    check(
        &["prepare", "--set", "prepare.inputs=[\"jsonl\"]"],
        &["set `prepare.format = \"jsonl\"`", "no such file or folder"],
    );
    check(&["prepare", "--set", "prepare.folder=broken.toml"], &["broken.toml: a file is here", "name a folder"]);
    check(&["train", "--set", "run.folder=broken.toml"], &["broken.toml: a file is here", "name a folder"]);
    check(&["profile", "prepare", "--slow", "nobody=5"], &["no such file or folder"]);
}
