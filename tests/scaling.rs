//! `cloze profile --scale`: every number of workers is measured, and invalid numbers are refused. `tests/timing`
//! checks the law.

use serde_json::Value;
use testkit::{Home, profile_args};

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

fn scaled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[profile_args(args), SETS.to_vec()].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

#[test]
fn a_preparation_has_numbers_of_workers_too() {
    let home = Home::with_corpus(200);
    home.run_ok(&["tokenizer", "train"]);
    let sets = ["--set", "prepare.part_bytes=4096"];
    let args = [&["prepare", "--seconds", "1", "--scale", "1,2,3", "--slow", "writer=20"], &sets[..]].concat();
    let profile = scaled(&home, &args);
    let points = profile["scale"]["points"].as_array().expect("a list");
    assert!(profile["target"] == "prepare" && points.len() == 3, "{profile:#}");
    assert!(
        points.iter().all(|point| point["tokens_per_s"]["mean"].as_f64().is_some_and(|it| it > 0.0)),
        "{profile:#}"
    );
}

#[test]
fn numbers_of_workers_that_are_none_are_refused() {
    let home = Home::prepared(20);
    for workers in ["0", "1,x", "", "1,,2", "2000", "-1"] {
        let scale = format!("--scale={workers}");
        let refused = home.run(&[&["profile", "loader", &scale], &SETS[..]].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains("--scale"), "{workers}: {refused}");
    }
    let checked = home.run(&[&["profile", "loader", "--scale", "1,2", "--check"], &SETS[..]].concat());
    assert!(checked.code == Some(2) && checked.stderr.contains("--check"), "{checked}");
}
