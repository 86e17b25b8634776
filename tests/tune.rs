//! `cloze tune`: settings of the command line stay, and wrong arguments are refused.
//! `tests/timing` checks the written file.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use testkit::tuning::{RUN, SLOW, home, text, tune};

#[test]
fn command_line_settings_are_not_written() {
    let home = home(RUN);
    let before = text(&home);
    let given =
        tune(&home, &[&SLOW[..], &["--set", "data.workers=8", "--set", "data.prefetch_batches=3", "--json"]].concat());
    let found: Value = serde_json::from_str(&given.stdout).unwrap_or_else(|error| panic!("{error}: {given}"));
    assert_eq!((&found["written"], &found["changes"]), (&Value::Bool(false), &Value::Array(Vec::new())), "{given}");
    assert!(found["notes"].to_string().contains("`data.workers` stays 8: `--set` sets it"), "{given}");
    assert_eq!(text(&home), before);
}

#[test]
fn invalid_arguments_are_refused_before_the_measurement() {
    let home = home(RUN);
    for (args, words) in [
        (["--memory", "8XB"].as_slice(), "8GiB"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--step-ms=-1"], "--step-ms"),
        (&["--slow", "unknown=5"], "`burst=MS`"),
        (&["--set", "data.lanse=5"], "data.lanse"),
    ] {
        let refused = home.run(&[&["tune", "-c", "run.toml"], args].concat());
        refused.assert_fails(2, &[words]);
    }
    home.run(&["tune", "-c", "nowhere.toml"]).assert_fails(2, &["nowhere.toml"]);
    let path = home.join("run.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("it is ours");
    tune(&home, &SLOW).assert_fails(2, &["run.toml", "the file is read-only", "--dry-run"]);
    home.write("half.toml", "[train\n");
    home.run(&["tune", "-c", "half.toml"]).assert_fails(2, &["half.toml"]);
}
