//! `cloze profile --scale`: planted contention coefficients are found, and a law that does not fit is not reported.

use serde_json::Value;
use testkit::Home;

use crate::{SETS, profiled};

fn is_near(law: &Value, coefficient: &str, truth: f64) -> bool {
    let [mean, low, high] = ["mean", "low", "high"].map(|name| law[coefficient][name].as_f64().unwrap_or(f64::NAN));
    (mean / truth - 1.0).abs() < 0.1 && low <= mean && mean <= high
}

#[test]
fn injected_coefficients_are_found() {
    let home = Home::prepared(200);
    // A round of n batches takes 40 + 10 n ms: σ = 10 / 50. With pairs it takes 40 + 4 n (n − 1): κ = 4 / 40.
    let turns = ["--seconds", "5", "--scale", "4,1,2,2", "--slow", "workers=40,turns=10"];
    let profile = profiled(&home, &turns);
    assert!(is_near(&profile["scale"]["law"], "sigma", 0.2), "{profile:#}");
    let points = profile["scale"]["points"].as_array().expect("a list");
    let workers: Vec<u64> = points.iter().filter_map(|point| point["workers"].as_u64()).collect();
    assert_eq!(workers, [1, 2, 4], "each once, in order");
    assert!(profile["scale"]["law"]["kappa"]["mean"].as_f64().is_some_and(|kappa| kappa < 0.02), "{profile:#}");
    let pairs = ["--seconds", "5", "--scale", "1,2,4,6", "--slow", "workers=40,pairs=4"];
    let profile = profiled(&home, &pairs);
    assert!(is_near(&profile["scale"]["law"], "kappa", 0.1), "{profile:#}");
    assert_eq!(profile["scale"]["law"]["peak"], 3, "the root of 10: {profile:#}");
}

#[test]
fn useless_workers_are_reported() {
    let home = Home::prepared(200);
    let args = ["--seconds", "4", "--scale", "1,2,3", "--slow", "lock=20"];
    let says = |law: &Value, words: &str| law["sentence"].as_str().is_some_and(|sentence| sentence.contains(words));
    let law = &profiled(&home, &args)["scale"]["law"];
    assert!(says(law, "more workers gain nothing") && is_near(law, "sigma", 1.0), "{law:#}");
    let free = ["--seconds", "4", "--scale", "1,2,3", "--slow", "workers=40"];
    let law = &profiled(&home, &free)["scale"]["law"];
    assert!(says(law, "no contention up to 3 workers"), "{law:#}");
}

#[test]
fn points_with_another_bottleneck_are_not_fitted() {
    let home = Home::prepared(200);
    // Two micro-batches per step with a trainer, one without: both are slower than three workers of 20 ms.
    let args = ["--seconds", "4", "--scale", "1,3,4", "--slow", "workers=20", "--step-ms", "30"];
    let profile = profiled(&home, &args);
    assert_eq!(profile["scale"]["points"][2]["not_fitted"], "the trainer is the bottleneck", "{profile:#}");
    let why = profile["scale"]["law"]["none"].as_str().expect("no law of so few points");
    assert!(why.contains("the law takes 3 numbers of workers"), "{why}");
    let table = home.run_ok(&[&["profile", "loader"], &args[..], &SETS].concat());
    let words = ["not fitted: ", "workers on, the trainer is the bottleneck"];
    assert!(words.iter().all(|words| table.stdout.contains(words)), "{table}");
}
