//! `cloze tune`: settings of the command line stay, and wrong arguments are refused. `tests/timing` checks what it writes.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use testkit::tuning::{RUN, SLOW, home, text, tune};

#[test]
fn what_is_given_on_the_command_line_is_measured_and_not_written() {
    let home = home(RUN);
    let before = text(&home);
    let given =
        tune(&home, &[&SLOW[..], &["--set", "data.workers=8", "--set", "data.prefetch_batches=3", "--json"]].concat());
    let found: Value = serde_json::from_str(&given.stdout).unwrap_or_else(|error| panic!("{error}: {given}"));
    assert_eq!((&found["written"], &found["changes"]), (&Value::Bool(false), &Value::Array(Vec::new())), "{given}");
    assert!(found["notes"].to_string().contains("`data.workers` stays 8: `--set` says it"), "{given}");
    assert_eq!(text(&home), before);
}

#[test]
fn what_cannot_be_tuned_is_refused_before_it_is_measured() {
    let home = home(RUN);
    for (args, words) in [
        (["--memory", "8XB"].as_slice(), "8GiB"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--step-ms=-1"], "--step-ms"),
        (&["--slow", "nobody=5"], "`burst=MS`"),
        (&["--set", "data.lanse=5"], "data.lanse"),
    ] {
        let refused = home.run(&[&["tune", "-c", "run.toml"], args].concat());
        refused.assert_fails(2, &[words]);
    }
    home.run(&["tune", "-c", "nowhere.toml"]).assert_fails(2, &["nowhere.toml"]);
    let path = home.join("run.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("it is ours");
    tune(&home, &SLOW).assert_fails(2, &["run.toml", "it may only be read", "--dry-run"]);
    home.write("half.toml", "[train\n");
    home.run(&["tune", "-c", "half.toml"]).assert_fails(2, &["half.toml"]);
}
