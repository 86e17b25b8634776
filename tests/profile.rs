//! `cloze profile`: two profiles are compared, and wrong arguments are refused. `tests/timing` checks the verdicts.

use serde_json::Value;
use testkit::{Home, profile_args};

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[profile_args(args), SETS.to_vec()].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// The same profile, with a third of the items in each window.
fn three_times_slower(mut profile: Value) -> Value {
    for window in profile["windows"].as_array_mut().expect("a list") {
        *window = (window.as_f64().expect("a rate") / 3.0).into();
    }
    profile
}

#[test]
fn comparison_of_profiles_sets_the_exit_code() {
    let home = Home::prepared(200);
    let fast = profiled(&home, &["--seconds", "4", "--step-ms", "5"]);
    home.write("fast.json", &fast.to_string());
    home.write("slow.json", &three_times_slower(fast).to_string());
    home.write("other.json", "{\"version\": 0}");
    let compare = |before: &str, after: &str| home.run(&["profile", "compare", before, after, "--limit", "0.1"]);
    let worse = compare("fast.json", "slow.json");
    assert!(worse.code == Some(3) && worse.stdout.contains("slower by more than 10 %"), "{worse}");
    let better = compare("slow.json", "fast.json");
    assert!(better.code == Some(0) && better.stdout.contains("faster"), "{better}");
    let same = compare("slow.json", "slow.json");
    assert!(same.code == Some(0) && same.stdout.contains("no significant difference"), "{same}");
    let told = home.run(&["profile", "compare", "fast.json", "slow.json", "--json"]);
    let object: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let times = object["times_as_fast"]["mean"].as_f64().expect("a ratio");
    assert!(told.code == Some(3) && object["is_worse"] == true && times < 0.9, "{told}");
    for strange in ["other.json", "nothing.json"] {
        let refused = compare("fast.json", strange);
        assert!(refused.code == Some(2) && refused.stderr.contains(strange), "{refused}");
    }
}

#[test]
fn a_profile_of_too_few_batches_names_no_bottleneck() {
    let home = Home::prepared(200);
    let profile = profiled(&home, &["--batches", "10"]);
    assert_eq!(profile["verdict"]["bottleneck"], "unknown", "{profile:#}");
}

#[test]
fn unknown_slow_stages_are_refused() {
    let home = Home::prepared(20);
    for slow in ["unknown=5", "worker", "worker=x", "writer=5", "workers=-1"] {
        let outcome = home.run(&["profile", "loader", "--slow", slow].iter().chain(&SETS).copied().collect::<Vec<_>>());
        assert!(outcome.code == Some(2) && outcome.stderr.contains("`burst=MS`"), "{slow}: {outcome}");
    }
    assert_eq!(home.run(&["profile", "compare", "a.json"]).code, Some(2), "two are compared");
}
