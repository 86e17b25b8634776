//! `cloze profile --scale`: the law of lanes that are in one another's way is found, and where it has no say that is said.

use serde_json::Value;

use crate::support::Home;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.lanes=2"];

fn scaled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&["profile", "--json"].iter().chain(args).chain(&SETS).copied().collect::<Vec<_>>());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// What is said on a machine that lets threads sleep as long as they ask for: a busy one is asked again.
fn found(home: &Home, args: &[&str], is_right: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..5 {
        last = scaled(home, args);
        if is_right(&last["scale"]) {
            return last;
        }
    }
    panic!("never: {last:#}");
}

fn is_near(law: &Value, coefficient: &str, truth: f64) -> bool {
    let [mean, low, high] = ["mean", "low", "high"].map(|name| law[coefficient][name].as_f64().unwrap_or(f64::NAN));
    (mean / truth - 1.0).abs() < 0.1 && low <= mean && mean <= high
}

#[test]
fn coefficients_that_were_planted_are_found() {
    let home = Home::prepared(200);
    // A round of n batches takes 40 + 10 n ms: σ = 10 / 50. With pairs 40 + 4 n (n − 1): κ = 4 / 40.
    let turns = ["--seconds", "5", "--scale", "4,1,2,2", "--slow", "lanes=40,turns=10"];
    let profile = found(&home, &turns, |scale| is_near(&scale["law"], "sigma", 0.2));
    let points = profile["scale"]["points"].as_array().expect("a list");
    let lanes: Vec<u64> = points.iter().filter_map(|point| point["lanes"].as_u64()).collect();
    assert_eq!(lanes, [1, 2, 4], "each once, in order");
    assert!(profile["scale"]["law"]["kappa"]["mean"].as_f64().is_some_and(|kappa| kappa < 0.02), "{profile:#}");
    let pairs = ["--seconds", "5", "--scale", "1,2,4,6", "--slow", "lanes=40,pairs=4"];
    let profile = found(&home, &pairs, |scale| is_near(&scale["law"], "kappa", 0.1));
    assert_eq!(profile["scale"]["law"]["peak"], 3, "the root of 10: {profile:#}");
}

#[test]
fn lanes_that_gain_nothing_are_said_to() {
    let home = Home::prepared(200);
    let args = ["--seconds", "4", "--scale", "1,2,3", "--slow", "lock=20"];
    let says = |scale: &Value, words: &str| scale["law"]["sentence"].as_str().is_some_and(|said| said.contains(words));
    found(&home, &args, |scale| says(scale, "more lanes gain nothing") && is_near(&scale["law"], "sigma", 1.0));
    let free = ["--seconds", "4", "--scale", "1,2,3", "--slow", "lanes=40"];
    found(&home, &free, |scale| says(scale, "nothing of it is seen up to 3 lanes"));
}

#[test]
fn what_something_else_holds_back_is_shown_and_not_fitted() {
    let home = Home::prepared(200);
    // Two micro-batches a step with a trainer, one without: either is slower than three lanes of 20 ms.
    let args = ["--seconds", "4", "--scale", "1,3,4", "--slow", "lanes=20", "--step-ms", "30"];
    let held = |scale: &Value| scale["points"][2]["not_fitted"] == "the trainer binds";
    let profile = found(&home, &args, held);
    let why = profile["scale"]["law"]["none"].as_str().expect("no law of so few points");
    assert!(why.contains("the law takes 3 numbers of lanes"), "{why}");
    let said = || home.run_ok(&[&["profile"], &args[..], &SETS].concat()).stdout;
    let is_said = |words: &String| words.contains("not fitted: ") && words.contains("lanes on the trainer binds");
    assert!((0..5).map(|_| said()).any(|words| is_said(&words)), "never: {}", said());
}

#[test]
fn a_preparation_has_numbers_of_lanes_too() {
    let home = Home::with_corpus(200);
    home.run_ok(&["tokenizer", "train"]);
    let sets = ["--set", "prepare.part_bytes=4096"];
    let args =
        [&["--half", "prepare", "--seconds", "1", "--scale", "1,2,3", "--slow", "writer=20"], &sets[..]].concat();
    let profile = scaled(&home, &args);
    let points = profile["scale"]["points"].as_array().expect("a list");
    assert!(profile["half"] == "prepare" && points.len() == 3, "{profile:#}");
    assert!(
        points.iter().all(|point| point["tokens_per_s"]["mean"].as_f64().is_some_and(|it| it > 0.0)),
        "{profile:#}"
    );
}

#[test]
fn numbers_of_lanes_that_are_none_are_refused() {
    let home = Home::prepared(20);
    for lanes in ["0", "1,x", "", "1,,2", "2000", "-1"] {
        let scale = format!("--scale={lanes}");
        let refused = home.run(&[&["profile", &scale], &SETS[..]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains("--scale"), "{lanes}: {refused}");
    }
    let checked = home.run(&[&["profile", "--scale", "1,2", "--check"], &SETS[..]].concat());
    assert!(checked.code == Some(2) && checked.stderr.contains("--check"), "{checked}");
}
