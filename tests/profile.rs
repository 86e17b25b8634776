//! `cloze profile`: what was planted is named, clocks add up, and two profiles are told apart.

use serde_json::Value;

use crate::support::Home;

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.lanes=2"];

fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&["profile", "--json"].iter().chain(args).chain(&SETS).copied().collect::<Vec<_>>());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

/// A profile that says so. On a machine that others keep busy it may rightly say that instead: it is asked again.
fn named(home: &Home, args: &[&str], binding: &str) -> Value {
    let mut last = Value::Null;
    for _ in 0..5 {
        last = profiled(home, args);
        if last["verdict"]["binding"] == binding {
            return last;
        }
    }
    panic!("never {binding}: {last:#}");
}

#[test]
fn what_was_slowed_is_named_and_clocks_add_up() {
    let home = Home::prepared(200);
    for (args, binding) in [
        (["--seconds", "4", "--step-ms", "20"].as_slice(), "trainer"),
        (&["--seconds", "4", "--slow", "lane=20"], "lane"),
        (&["--seconds", "4", "--slow", "lanes=40", "--step-ms", "5"], "outside"),
        (&["--batches", "10"], "unknown"),
    ] {
        let profile = named(&home, args, binding);
        if binding == "unknown" {
            continue;
        }
        let lane = (binding == "lane").then_some("batch-0");
        assert_eq!(profile["verdict"]["lane"].as_str(), lane, "{profile:#}");
        for actor in profile["actors"].as_array().expect("a list") {
            let share = |name: &str| actor[name].as_f64().expect("a share");
            let sum = share("busy") + share("starved") + share("blocked");
            // Clocks of one look are read one after another.
            assert!((sum - 1.0).abs() < 0.1, "{actor}");
        }
    }
    let written = profiled(&home, &["--half", "prepare", "--slow", "writer=50"]);
    let sentence = written["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("writing") || sentence.contains("too few parts"), "{sentence}");
}

#[test]
fn what_is_foretold_names_the_key_and_is_checked() {
    let home = Home::prepared(200);
    let profile = named(&home, &["--seconds", "5", "--slow", "lanes=30", "--step-ms", "5", "--check"], "outside");
    let first = &profile["what_if"][0];
    assert_eq!(first["key"], "data.lanes", "{profile:#}");
    // Lanes of 30 ms: two make a batch each 15 ms, which six do in 5.
    let gain = first["gain"].as_f64().expect("a share");
    assert!(gain > 1.0, "{profile:#}");
    assert!(profile["checked_gain"].as_f64().is_some_and(|brought| brought > 0.3), "{profile:#}");
}

#[test]
fn two_profiles_are_told_apart_by_their_code() {
    let home = Home::prepared(200);
    for (name, ms) in [("fast.json", "5"), ("slow.json", "15")] {
        home.write(name, &profiled(&home, &["--seconds", "4", "--step-ms", ms]).to_string());
    }
    home.write("other.json", "{\"version\": 0}");
    let compare = |before: &str, after: &str| home.run(&["profile", "compare", before, after, "--limit", "0.1"]);
    let worse = compare("fast.json", "slow.json");
    assert!(worse.code == Some(3) && worse.stdout.contains("slower by more than 10 %"), "{worse}");
    let better = compare("slow.json", "fast.json");
    assert!(better.code == Some(0) && better.stdout.contains("faster"), "{better}");
    let same = compare("slow.json", "slow.json");
    assert!(same.code == Some(0) && same.stdout.contains("no difference"), "{same}");
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
fn what_cannot_be_slowed_is_refused() {
    let home = Home::prepared(20);
    for slow in ["nobody=5", "lane", "lane=x", "writer=5", "lanes=-1"] {
        let outcome = home.run(&["profile", "--slow", slow].iter().chain(&SETS).copied().collect::<Vec<_>>());
        assert!(outcome.code == Some(2) && outcome.stderr.contains("`burst=MS`"), "{slow}: {outcome}");
    }
    assert_eq!(home.run(&["profile", "compare", "a.json"]).code, Some(2), "two are compared");
}
