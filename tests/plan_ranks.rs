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
    home.run(&["plan", "--ranks", "4"]).assert_fails(2, &["which 4 ranks cannot share; set it to a divisor of 4"]);
    for (option, wrong) in [("--ranks", "0"), ("--ranks", "65537"), ("--bandwidth", "0"), ("--bandwidth", "fast")] {
        home.run(&["plan", option, wrong]).assert_fails(2, &[option]);
    }
}
