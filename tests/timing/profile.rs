//! `cloze profile`: the planted bottleneck is named, and the change that it predicts is measured.

use serde_json::Value;
use testkit::Home;

use crate::profiled;

fn named(home: &Home, args: &[&str], bottleneck: &str) -> Value {
    let profile = profiled(home, args);
    assert_eq!(profile["verdict"]["bottleneck"], bottleneck, "{profile:#}");
    profile
}

#[test]
fn slowed_stage_is_named_and_times_add_up() {
    let home = Home::prepared(200);
    for (args, bottleneck) in [
        (["--seconds", "4", "--step-ms", "20"].as_slice(), "trainer"),
        (&["--seconds", "4", "--slow", "worker=20"], "worker"),
        (&["--seconds", "4", "--slow", "workers=40", "--step-ms", "5"], "outside"),
    ] {
        let profile = named(&home, args, bottleneck);
        let worker = (bottleneck == "worker").then_some("batch-0");
        assert_eq!(profile["verdict"]["worker"].as_str(), worker, "{profile:#}");
        for actor in profile["actors"].as_array().expect("a list") {
            let share = |name: &str| actor[name].as_f64().expect("a share");
            let sum = share("busy") + share("starved") + share("blocked");
            // Clocks of one snapshot are read in sequence.
            assert!((sum - 1.0).abs() < 0.1, "{actor}");
        }
    }
    let parts = ["--set", "prepare.part_bytes=4000", "--set", "prepare.folder=none", "--set", "prepare.workers=2"];
    let written = profiled(&home, &[&["prepare", "--slow", "writer=200"], &parts[..]].concat());
    let sentence = written["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("writing"), "{sentence}");
}

#[test]
fn prediction_names_the_key_and_is_checked() {
    let home = Home::prepared(200);
    let profile = named(&home, &["--seconds", "5", "--slow", "workers=30", "--step-ms", "5", "--check"], "outside");
    let first = &profile["what_if"][0];
    assert_eq!(first["key"], "data.workers", "{profile:#}");
    // Workers of 30 ms: two produce a batch every 15 ms, and six every 5 ms.
    let gain = first["gain"].as_f64().expect("a share");
    assert!(gain > 1.0, "{profile:#}");
    assert!(profile["checked_gain"].as_f64().is_some_and(|brought| brought > 0.3), "{profile:#}");
}
