//! Checks between a configuration and a run: all mistakes are reported at once, and none of them starts a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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

/// Settings that would run, but with another meaning than written.
#[test]
fn settings_that_fail_silently_are_refused() {
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
    check(
        &["objectives.tc.negative_columns=matched", "views.neighbors.max_offset=5"],
        &["max_offset", "up to 5 tokens away"],
    );
    let tacl = "objectives.tacl={kind=\"teacher_contrastive\", clean=\"cropped\"}";
    let others = ["networks.teacher={kind=\"teacher\"}", "views.cropped={kind=\"crop\"}"];
    check(&[tacl, others[0], others[1]], &["objectives.tacl", "`masked` and `cropped` for the same tokens"]);
    check(&["networks.tutor={kind=\"teacher\"}", "objectives.mlm.network=tutor"], &["`tutor` has no head"]);
    let clm = "objectives.clm={kind=\"corrective_lm\", view=\"masked\"}";
    let loss = "loss={clm=1.0}";
    check(&[clm, loss, "encoder.embedding=16"], &["encoder.embedding", "with the word table"]);
    check(&["views.masked.span=spanbert"], &["views.masked", "only with `unit = \"span\"`"]);
    let warned = home.run_ok(&["plan", "--set", "run.folder=run", "--set", "views.masked.disjoint=true"]);
    assert!(warned.stdout.contains("`data.copies_per_sample` is 1"), "{warned}");
}

/// A run with a checkpoint is not compared with data that does not exist yet.
#[test]
fn a_run_can_be_planned_with_data_that_is_not_prepared() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=1"]);
    let absent = ["plan", "--set", "run.folder=run", "--set", "train.steps=1", "--set", "prepare.folder=absent"];
    let plan = home.run_ok(&[&absent[..], &["--set", "data.folder=absent"]].concat());
    assert!(plan.stdout.contains("not prepared yet"), "{plan}");
}

/// First and second command of a new user.
#[test]
fn a_run_is_planned_before_its_corpus_is_prepared() {
    let home = Home::with_corpus(40);
    let plan = || home.run_ok(&["plan"]);
    let before = plan();
    for word in [
        "tokenizer train` creates it",
        "not prepared yet",
        "400 lowercased ids (`tokenizer.vocab_size`)",
        "waits for the data",
    ] {
        assert!(before.stdout.contains(word), "`{word}` is missing in\n{before}");
    }
    assert!(!before.stdout.contains("per epoch"), "{before}");
    // Of a corpus of unknown size, no number of row groups is claimed.
    assert!(before.stdout.contains("the number of row groups, and so the mixture error, is unknown"), "{before}");
    assert!(!before.stdout.contains("mix badly"), "{before}");
    let json = home.run_ok(&["plan", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("one JSON object");
    assert_eq!(
        (&json["prepared"], &json["samples"], &json["mixture_error"], &json["steps"]),
        (&false.into(), &serde_json::Value::Null, &serde_json::Value::Null, &60.into())
    );
    home.run_ok(&["tokenizer", "train"]);
    let trained = plan();
    for word in ["4 text_lines files, ", ", the largest of", "wordpiece", "(`prepare.tokenizer`)"] {
        assert!(trained.stdout.contains(word), "`{word}` is missing in\n{trained}");
    }
    home.run_ok(&["prepare"]);
    let after = plan();
    assert!(after.stdout.contains("steps per epoch") && !after.stdout.contains("not prepared"), "{after}");
    // A run needs more than a plan.
    home.run(&["train"]).assert_fails(2, &["a run needs a folder", "set `run.folder`"]);
    let shard =
        testkit::files(&home.join("data")).into_keys().find(|name| name.starts_with("train/")).expect("a shard");
    std::fs::remove_file(home.join("data").join(shard)).expect("deleted");
    assert!(plan().stdout.contains("training shards are gone"), "{}", plan());
}

/// One report contains all mistakes.
#[test]
fn data_mistakes_are_reported_with_all_others() {
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
            "99 is not a zstd level\n   in: --set prepare.zstd_level=99, [prepare], `zstd_level`",
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
        ("train.micro_batch_size=0", "it must be above 0"),
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
fn suspicious_settings_give_warnings() {
    let home = Home::with_corpus(4);
    for (set, expected) in [
        ("encoder.feed_forward=3072", "`encoder.feed_forward` is 3072 with `encoder.hidden` = 32"),
        ("encoder.max_positions=512", "`encoder.max_positions` is 512, but rows have 64 tokens"),
        ("views.masked.rate=0", "`views.masked.rate`: 0 leaves nothing to predict"),
        ("views.masked.rate=0.9", "`views.masked.rate`: 0.9 leaves less than half"),
        ("encoder.dropout=0.9", "most of each layer is dropped"),
        ("optimizer.lr=1", "AdamW diverges well below"),
        ("optimizer.weight_decay=10", "0.01 to 0.1 is usual"),
        ("report.every_steps=100", "it reports only at its end"),
        ("loss.mlm=-1", "the run maximizes this loss"),
        ("schedule.warmup_steps=100", "never reaches its maximum"),
        ("train.init_from=absent", "`train.init_from`: absent does not exist"),
    ] {
        let outcome = home.run_ok(&["plan", "--set", set]);
        assert!(outcome.stdout.contains(expected), "`{expected}` is missing in\n{outcome}");
        let warnings = outcome.stdout.matches("warning ").count();
        assert_eq!(warnings, 1, "{set}\n{outcome}");
    }
    let home = Home::with_corpus(4);
    for (set, expected) in [
        ("train.precision=bf16_hidden", "`tc` compares hidden states closely"),
        ("encoder.attention_scope=document", "only the first document of a row sees `[CLS]`"),
        ("encoder.attention_scope=document", "view `neighbors` also pairs tokens of neighbouring documents"),
    ] {
        let outcome = home.run_ok(&["plan", "--on", "h100", "--set", set]);
        assert!(outcome.stdout.contains(expected), "`{expected}` is missing in\n{outcome}");
    }
    let home = Home::prepared(40);
    let outcome = home.run_ok(&["plan", "--set", "train.steps=500000"]);
    assert!(outcome.stdout.contains("epochs are unusually many"), "{outcome}");
}

/// The time of a run is computed for a named GPU and measured for this machine.
#[test]
fn a_plan_prints_how_long_the_run_takes() {
    let home = Home::prepared(60);
    let time = |more: &[&str]| -> serde_json::Value {
        let plan = home.run_ok(&[&["plan", "--json", "--set", "validation.every_steps=0"], more].concat());
        serde_json::from_str::<serde_json::Value>(&plan.stdout).expect("one JSON object")["time"].take()
    };
    let seconds = |more: &[&str]| time(more)["seconds"].as_f64();
    assert_eq!(seconds(&[]), None, "nothing was measured");
    let text = home.run_ok(&["plan"]).stdout;
    assert!(text.contains("`cloze plan --measure`") && text.contains("`--on h100`"), "{text}");

    let micro_batches = 2.0;
    let computed = seconds(&["--on", "h100"]).expect("a time");
    let twice = seconds(&["--on", "h100", "--set", "train.steps=120"]).expect("a time");
    assert!((twice / computed - 2.0).abs() < 1e-9, "{computed} and {twice}");
    // 60 steps of 2 layers, which is less work than launching their kernels takes.
    assert!((computed - 60.0 * 2.0 * 0.4e-3 * micro_batches).abs() < 1e-9, "{computed}");
    let base = ["--on", "h100", "--set", "encoder.hidden=768", "--set", "encoder.heads=12"];
    let plan: serde_json::Value = serde_json::from_str(
        &home.run_ok(&[&["plan", "--json", "--set", "validation.every_steps=0"], &base[..]].concat()).stdout,
    )
    .expect("one JSON object");
    // 60 steps of 16 rows of 64 tokens.
    let flops = plan["flops_per_token"].as_f64().expect("a number") * 61_440.0;
    // 63 % of 67 TFLOP/s in float32.
    let expected = (flops / (0.63 * 67e12)).max(60.0 * 2.0 * 0.4e-3 * micro_batches);
    assert!((seconds(&base).expect("a time") / expected - 1.0).abs() < 1e-6, "{expected}");
    let energy = time(&["--on", "h100", "--watts", "700"])["energy_kwh"].as_f64().expect("an energy");
    assert!((energy / (computed / 3600.0 * 0.7) - 1.0).abs() < 1e-9, "{energy}");

    let measured = home.run_ok(&["plan", "--measure"]).stdout;
    assert!(measured.contains("on this machine (") && measured.contains("as measured"), "{measured}");
    assert!(measured.contains("(median of 5 steps, ") && measured.contains(" ms to "), "{measured}");
    let remembered = time(&[]);
    let [min, median, max] = ["min_seconds", "seconds", "max_seconds"].map(|key| remembered[key].as_f64());
    assert!(median.is_some_and(|seconds| seconds > 0.0), "the measured time is remembered");
    assert!(min <= median && median <= max && min < max, "five steps do not take the same time: {remembered}");
    assert_eq!(seconds(&["--set", "encoder.feed_forward=16"]), None, "another shape was not measured");
}

/// `plan` finds folders of start weights that `train` would refuse.
#[test]
fn unusable_start_weights_are_refused_by_plan_and_train() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=other", "--set", "train.steps=2", "--set", "encoder.feed_forward=16"]);
    std::fs::create_dir(home.join("empty")).expect("created");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/hf_bert");
    for (folder, words) in [
        ("absent", vec!["[train], `init_from`", "folder not found"]),
        ("empty", vec!["[train], `init_from`", "neither `config.json`, `main.safetensors` nor a complete checkpoint"]),
        ("other", vec!["has another shape", "encoder.layers.0", "[16, 32]", "[64, 32]"]),
        (golden, vec!["`encoder.hidden` is 32, the model has 64", "vocabulary of 301 ids, the model of 300"]),
    ] {
        for command in ["plan", "train"] {
            let init = format!("train.init_from={folder}");
            home.run(&[command, "--set", "run.folder=run", "--set", &init]).assert_fails(2, &words);
        }
    }
    let absent = ["plan", "--set", "run.folder=run", "--set", "encoder.word_init=absent"];
    home.run(&absent).assert_fails(2, &["`word_init`", "folder not found"]);
    // A run that has saved continues without the folder.
    let args = ["--set", "run.folder=run", "--set", "train.init_from=copy", "--set", "encoder.feed_forward=16"];
    std::fs::rename(home.join("other"), home.join("copy")).expect("renamed");
    home.run_ok(&[&["train", "--set", "train.steps=2"], &args[..]].concat());
    std::fs::rename(home.join("copy"), home.join("gone")).expect("renamed");
    home.run_ok(&[&["plan", "--set", "train.steps=2"], &args[..]].concat());
}

/// Start weights are read from the newest checkpoint that is not damaged, by `plan` as by `train`.
#[test]
fn damaged_checkpoints_of_start_weights_are_skipped() {
    let home = Home::prepared(60);
    let saves = ["--set", "checkpoints.every_steps=4", "--set", "checkpoints.keep=2"];
    home.run_ok(&[&["train", "--set", "run.folder=other", "--set", "train.steps=8"], &saves[..]].concat());
    let newest = "other/checkpoints/step-00000008/main.safetensors";
    assert!(home.join(newest).is_file() && home.join("other/checkpoints/step-00000004").is_dir());
    home.write(newest, "damaged");
    for command in ["plan", "train"] {
        let init = ["--set", "train.init_from=other", "--set", "train.steps=2"];
        home.run_ok(&[&[command, "--set", "run.folder=run"], &init[..]].concat());
    }
}

/// The trainer also reads heads and generators of a folder, so `plan` compares their shapes.
#[test]
fn start_weights_of_generators_of_another_shape_are_refused_by_plan_and_train() {
    let home = Home::prepared(60);
    let sets = |hidden: u32| {
        let network = format!("networks.small={{kind=\"generator\",layers=1,hidden={hidden},heads=2,feed_forward=16}}");
        let objective = "objectives.g={kind=\"masked_lm\",network=\"small\"}".to_owned();
        [network, objective, "loss.g=1.0".to_owned(), "train.steps=2".to_owned()]
    };
    let args = |verb: &str, run: &str, hidden: u32, init: Option<&str>| {
        let mut args = vec![verb.to_owned(), "--set".to_owned(), format!("run.folder={run}")];
        for set in sets(hidden).into_iter().chain(init.map(|folder| format!("train.init_from={folder}"))) {
            args.extend(["--set".to_owned(), set]);
        }
        args
    };
    let run = |args: Vec<String>| home.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(run(args("train", "other", 16, None)).code, Some(0));
    for command in ["plan", "train"] {
        run(args(command, "run", 8, Some("other"))).assert_fails(2, &["has another shape", "`small.encoder."]);
        assert_eq!(run(args(command, &format!("same-{command}"), 16, Some("other"))).code, Some(0), "{command}");
    }
}

/// Exit code for mistakes that a restart cannot fix.
#[test]
fn usage_errors_have_exit_code_2() {
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
    check(&["prepare", "--set", "prepare.inputs=[\"ftp://host/a\"]"], &["is not a supported store"]);
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
    check(&["profile", "prepare", "--slow", "unknown=5"], &["no such file or folder"]);
}

/// Every renamed key of the change log is refused with its new name as the hint.
#[test]
fn renamed_keys_are_refused_with_their_new_names() {
    let renamed = renamed_keys();
    assert!(renamed.len() > 50, "{renamed:?}");
    let mut sections: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, _) in &renamed {
        let (section, key) = path.rsplit_once('.').expect("a section and a key");
        sections.entry(section.replace("NAME", "one")).or_default().push(key);
    }
    let mut text = String::new();
    for (section, keys) in sections {
        let kind = match section.split('.').next() {
            Some("views") => "kind = \"mask\"\n",
            Some("networks") => "kind = \"generator\"\n",
            Some("objectives") => "kind = \"masked_lm\"\n",
            _ => "",
        };
        writeln!(text, "[{section}]\n{kind}{} = 1", keys.join(" = 1\n")).expect("a string");
    }
    let home = Home::with_corpus(1);
    home.write("old.toml", &text);
    let outcome = home.run(&["plan", "-c", "old.toml"]);
    assert_eq!(outcome.code, Some(2), "{outcome}");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    for (path, new) in renamed {
        let key = path.rsplit_once('.').expect("a key").1;
        let section = path.split('.').next().expect("a section");
        let is_hinted = lines.windows(3).any(|report| {
            report[0].contains(&format!("unknown key `{key}`"))
                && report[1].contains(&format!("[{section}"))
                && report[2].contains(&format!("renamed to `{new}` in version 0.2"))
        });
        assert!(is_hinted, "{path} → {new}\n{outcome}");
    }
}

/// Reads the renamed keys of configurations, `(section.key, new key)`, from the table in the change log.
fn renamed_keys() -> Vec<(String, String)> {
    let log = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/CHANGELOG.md")).expect("a change log");
    let rows = log.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `"));
    let is_key = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || "._".contains(it));
    let keys = rows.filter(|(old, new)| is_key(old) && old.contains('.') && is_key(new) && !new.contains('.'));
    keys.map(|(old, new)| (old.to_owned(), new.to_owned())).collect()
}

/// Numbers that no machine reaches are typing mistakes, and a device is no configuration.
#[test]
fn impossible_sizes_are_refused() {
    let home = Home::prepared(40);
    let sizes = ["encoder.layers=10000", "encoder.hidden=1048576", "encoder.feed_forward=1048576"];
    let sets: Vec<&str> = sizes.iter().flat_map(|size| ["--set", *size]).collect();
    home.run(&[&["plan"], &sets[..]].concat()).assert_fails(2, &["`hidden`", " parameters, more than 10000000000000"]);
    home.run(&["plan", "--set", "encoder.layers=1000000000"])
        .assert_fails(2, &["1000000000 is not between 1 and 10000"]);
    home.run(&["plan", "-c", "/dev/zero"]).assert_fails(2, &["/dev/zero: more than 16 MiB are no configuration"]);
    for watts in ["1e308", "-1", "nan", "0"] {
        let watts = format!("--watts={watts}");
        home.run(&["plan", &watts]).assert_fails(2, &["expected a power from 0 to 1e9 watts"]);
    }
    home.write("cache/cloze/step_times.json", &" ".repeat(2 << 20));
    let outcome = home.run_ok(&["plan"]);
    assert!(outcome.stdout.contains("time       unknown on this machine"), "{outcome}");
}
