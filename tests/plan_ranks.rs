//! `cloze plan --ranks`: a step that several ranks share, computed before it costs anything.

use serde_json::Value;
use testkit::{Home, Outcome};

/// Two micro-batches of 8 rows of 64 tokens.
const PLAN: [&str; 4] = ["plan", "--json", "--on", "h100"];

fn plan(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{outcome}");
    serde_json::from_str(&outcome.stdout).expect("one JSON object")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number: {value:#}"))
}

#[test]
fn a_plan_computes_what_ranks_share() {
    let home = Home::prepared(60);
    let of = |more: &[&str]| plan(&home.run_ok(&[&PLAN, more].concat()));
    let single = of(&[]);
    assert!(single.get("ranks").is_none(), "nothing about ranks without several: {single:#}");
    let two = of(&["--ranks", "2", "--bandwidth", "10"]);
    let ranks = &two["ranks"];
    assert_eq!((&ranks["ranks"], &ranks["micro_batches_per_rank"]), (&2.into(), &1.into()));
    let gradients = 4.0 * number(&two, "parameters");
    assert!((number(ranks, "gradient_bytes") - gradients).abs() < 0.5);
    // One bucket within a host: half of it in each of two messages over 370 GB/s, 3.4 µs each.
    let communication = gradients / 370e9 + 6.8e-6;
    assert!((number(ranks, "communication_seconds") - communication).abs() < 1e-9, "{ranks:#}");
    assert!((number(ranks, "exposed_seconds") - communication).abs() < 1e-9, "the last bucket is all of it");
    // Of 8 bytes of moments for each weight, a rank has half; it completes weights in groups, four of them at a time.
    let saved = number(ranks, "memory_bytes") - number(ranks, "sharded_memory_bytes");
    assert!((saved - gradients + 4.0 * number(ranks, "last_bucket_bytes")).abs() < 0.5, "{saved}");
    // Several ranks need memory for their communication.
    let alone = number(&single, "memory_bytes");
    assert!(number(ranks, "memory_bytes") > alone + 512e6, "{alone}: {ranks:#}");
    let shares = ranks["shares"].as_object().expect("shares").values().filter_map(Value::as_f64).sum::<f64>();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let per_day = number(ranks, "failures_per_day");
    assert!((per_day - 2.0 * 419.0 / (16_384.0 * 54.0)).abs() < 1e-9, "{per_day}");

    // 16 ranks are two hosts, between which each rank sends an eighth of the bytes.
    let more =
        ["--ranks", "16", "--set", "train.global_batch_size=32", "--set", "train.micro_batch_size=2", "--bandwidth"];
    let [fast, slow] =
        ["40", "2"].map(|bandwidth| number(&of(&[&more[..], &[bandwidth]].concat())["ranks"], "communication_seconds"));
    let expected = gradients / 8.0 * (1.0 / 2e9 - 1.0 / 40e9);
    assert!((slow - fast - expected).abs() < 1e-9, "{slow} and {fast}: {expected}");

    let text = home.run_ok(&["plan", "--on", "h100", "--ranks", "2"]).stdout;
    for expected in ["ranks      2, each with 1 micro-batch of a step", "efficiency ", "bottleneck: ", "failures a day"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// The figures of a plan are those of the machines that it plans for: all ranks, not one of them.
#[test]
fn time_energy_and_price_are_those_of_all_ranks() {
    let home = Home::prepared(60);
    let power = ["--watts", "1400", "--price", "2.5"];
    let shape = ["--set", "encoder.hidden=768", "--set", "encoder.heads=12", "--set", "encoder.feed_forward=3072"];
    let steps = ["--set", "train.steps=100000", "--set", "validation.every_steps=0"];
    // A checkpoint takes longer than a step of this small model.
    let shape = [&shape[..], &steps, &["--set", "checkpoints.every_steps=100000"]].concat();
    let of = |ranks: &[&str]| plan(&home.run_ok(&[&PLAN[..], &shape, &power, ranks].concat()));
    let [single, two] = [of(&[]), of(&["--ranks", "2"])];
    let ranks = &two["ranks"];
    let time = |plan: &Value, key: &str| number(&plan["time"], key);
    let kept = 1.0 - number(&ranks["shares"], "failures");
    let expected = 100_000.0 * number(ranks, "step_seconds") / kept;
    assert!((time(&two, "seconds") / expected - 1.0).abs() < 1e-9, "{two:#}");
    assert!(time(&two, "seconds") < 0.9 * time(&single, "seconds"), "{two:#}");
    let hours = time(&two, "seconds") / 3600.0;
    for (key, expected) in [("device_hours", 2.0 * hours), ("price", 5.0 * hours), ("energy_kwh", 1.4 * hours)] {
        assert!((time(&two, key) / expected - 1.0).abs() < 1e-9, "{key}: {two:#}");
    }
    assert!(time(&two, "shard_bytes") > 0.0 && time(&two, "host_bytes_per_rank") > 0.0, "{two:#}");

    let args = [&["plan", "--on", "h100"][..], &shape, &power, &["--ranks", "2"]].concat();
    let text = home.run_ok(&args).stdout;
    for expected in [
        " on 2 H100, with an efficiency of ",
        " GPU-hours, ",
        " at 2.5 for each",
        " kWh at 1400 W for all 2 ranks",
        " of shards",
        "host       each rank needs at most ",
        // The objective `tc` compares hidden states closely.
        "warning    `train.precision` is `f32`",
        "`train.precision = \"bf16\"` is about ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = home.run_ok(&[&args[..], &["--set", "train.precision=bf16"]].concat()).stdout;
    assert!(!text.contains("tensor cores"), "{text}");
}

/// The number of checkpoints does not follow from a number of steps that is unknown, and exports take space too.
#[test]
fn the_disk_of_a_plan_has_all_checkpoints_and_their_exports() {
    let home = Home::prepared(60);
    let of = |more: &[&str]| plan(&home.run_ok(&[&PLAN[..], &["--set", "checkpoints.keep=3"], more].concat()));
    let time = |plan: &Value, key: &str| number(&plan["time"], key);
    let steps = of(&["--set", "checkpoints.every_steps=10"]);
    // Three are kept, and one is being written.
    assert!((time(&steps, "max_checkpoints") - 4.0).abs() < 1e-9, "{steps:#}");
    let hours = [
        "--set",
        "train.steps=1099511627776",
        "--set",
        "train.max_hours=1",
        "--set",
        "checkpoints.keep_every_steps=500",
    ];
    let by_hours = of(&hours);
    assert!(time(&by_hours, "max_checkpoints") >= 4.0, "{by_hours:#}");
    let exported = of(&["--set", "checkpoints.every_steps=10", "--set", "checkpoints.export=cloze"]);
    let export = time(&exported, "checkpoint_bytes") - time(&steps, "checkpoint_bytes");
    let parameters = number(&steps, "parameters") + number(&steps, "parameters_frozen");
    assert!((export - 4.0 * parameters).abs() < 0.5, "{exported:#}");
}

/// A run that two ranks have trained, for one rank and elsewhere.
#[test]
fn the_speed_of_a_log_is_that_of_its_ranks() {
    let home = Home::prepared(60);
    let set = ["--set", "run.folder=run", "--set", "train.steps=4", "--set", "report.every_steps=1"];
    home.run_ok(&[&["train"], &set[..], &["--set", "checkpoints.every_steps=2"]].concat());
    let longer = ["extend", "run", "--steps", "90"];
    home.run_ok(&longer);
    let text =
        |more: &[&str]| home.run_ok(&[&["plan"], &set[..], &["--set", "checkpoints.every_steps=2"], more].concat());
    assert!(text(&[]).stdout.contains("for the steps that are left, at "), "{}", text(&[]));
    assert!(text(&["--ranks", "2"]).stdout.contains("time       unknown on this machine"), "one rank wrote the log");
    let elsewhere = text(&["--on", "h100"]).stdout;
    assert!(elsewhere.contains("for all steps of the run on one H100, "), "{elsewhere}");
}

#[test]
fn an_unknown_step_time_leaves_communication_and_memory() {
    let home = Home::prepared(60);
    let found = plan(&home.run_ok(&["plan", "--json", "--ranks", "2", "--bandwidth", "1"]));
    let ranks = &found["ranks"];
    assert!(ranks["efficiency"].is_null() && ranks["shares"].is_null(), "{ranks:#}");
    assert!(number(ranks, "communication_seconds") > 0.0 && number(ranks, "memory_bytes") > 0.0);
    let text = home.run_ok(&["plan", "--ranks", "2"]).stdout;
    assert!(text.contains("efficiency unknown on this machine: `cloze plan --measure`"), "{text}");
}

#[test]
fn ranks_of_the_launcher_are_planned() {
    let home = Home::prepared(60);
    let launched = |ranks: &str| {
        let mut command = home.command(&PLAN);
        command.env("RANK", "0").env("WORLD_SIZE", ranks).env("MASTER_ADDR", "127.0.0.1");
        Outcome::new(command.output().expect("the program starts"))
    };
    assert_eq!(plan(&launched("2"))["ranks"]["ranks"], 2);
    assert!(plan(&launched("1")).get("ranks").is_none(), "a single rank is no news");
    launched("x").assert_fails(2, &["WORLD_SIZE=\"x\": not a number"]);
}

#[test]
fn ranks_that_cannot_share_a_step_are_not_planned() {
    let home = Home::prepared(60);
    home.run(&["plan", "--ranks", "3"]).assert_fails(
        2,
        &["a step of 16 rows has 2 micro-batches of 8 rows, which 3 ranks cannot share", "to a multiple of 3"],
    );
    home.run(&["plan", "--ranks", "4"])
        .assert_fails(2, &["which 4 ranks cannot share; set it to 4 or another divisor of 4"]);
    for (option, wrong) in [("--ranks", "0"), ("--ranks", "65537"), ("--bandwidth", "0"), ("--bandwidth", "fast")] {
        home.run(&["plan", option, wrong]).assert_fails(2, &[option]);
    }
}

/// `srun --pty bash`: the shell has the variables of task 0 of 3, and two micro-batches are not for three.
#[test]
fn a_shell_within_a_step_of_slurm_names_its_variables() {
    let home = Home::prepared(60);
    let step = [
        ("SLURM_JOB_ID", "77"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEPID", "0"),
        ("SLURM_PROCID", "0"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "0"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_STEP_NUM_TASKS", "3"),
        ("SLURM_STEP_TASKS_PER_NODE", "3"),
        ("SLURM_STEP_NODELIST", "localhost"),
    ];
    for command in ["plan", "train"] {
        let run = |without: &[&str]| {
            let mut started = home.command(&[command, "--set", "run.folder=alone", "--set", "train.steps=2"]);
            started.envs(step);
            for name in without {
                started.env_remove(name);
            }
            Outcome::new(started.output().expect("the program starts"))
        };
        let way_out = "to start a single process, unset them: `env -u SLURM_STEP_ID -u SLURM_STEPID cloze …`";
        run(&[]).assert_fails(2, &["3 ranks cannot share", "a shell within `srun`", way_out]);
        let outcome = run(&["SLURM_STEP_ID", "SLURM_STEPID"]);
        assert_eq!(outcome.code, Some(0), "{outcome}");
    }
}
