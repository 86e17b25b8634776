//! Profiles of training with slow data.

use serde_json::Value;
use testkit::{Home, every_objective, with_every_objective};

/// Profile of a training with every objective.
fn trained(home: &Home, more: &[&'static str]) -> Value {
    let half = ["profile", "train", "--seconds", "8", "--json", "--set", "run.folder=none"];
    let outcome = home.run_ok(&every_objective(&half, more));
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// Milliseconds per step that the host waits for its batch.
fn wait_ms(profile: &Value) -> f64 {
    let phases = profile["training"]["phases"].as_array().expect("a list");
    phases.iter().find(|phase| phase["what"] == "wait").and_then(|phase| phase["host_ms"].as_f64()).unwrap_or(0.0)
}

#[test]
fn training_waits_for_slow_workers() {
    let home = with_every_objective();
    let usual = trained(&home, &[]);
    // Each worker takes 200 ms for a batch.
    let slowed = trained(&home, &["--slow", "workers=200"]);
    assert_eq!(slowed["verdict"]["bottleneck"], "outside", "{slowed:#}");
    assert!(wait_ms(&slowed) > 10.0 * wait_ms(&usual).max(0.1), "{slowed:#}");
}

#[test]
fn slow_trainer_is_the_bottleneck() {
    let home = Home::prepared(200);
    let all = ["profile", "all", "--seconds", "4", "--set", "run.folder=none", "--set", "train.steps=100000"];
    let outcome = home.run_ok(&all);
    assert!(outcome.stdout.contains("bottleneck: trainer; training takes"), "{outcome}");
}
