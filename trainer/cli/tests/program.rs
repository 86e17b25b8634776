//! Tests of `cloze-train` alone: versions, and verbs that it passes to the library.

use std::process::{Command, Output};

/// Runs the program as `cloze` of a version executes it: with `exec`, in the process of another program.
fn run(arguments: &[&str], executed_by: Option<&str>) -> Output {
    let script = match executed_by {
        Some(version) => format!("CLOZE_EXECUTED_BY={version}@$$ exec \"$@\""),
        None => "exec \"$@\"".to_owned(),
    };
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_cloze-train")]).args(arguments);
    command.env_remove("CLOZE_EXECUTED_BY").output().expect("it was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn version_is_that_of_the_package() {
    let output = run(&["--version"], None);
    assert_eq!(text(&output.stdout).trim(), concat!("cloze ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn another_version_of_cloze_is_refused() {
    // The version is checked before arguments that only the other version knows.
    let output = run(&["config", "--of-another-version"], Some("0.0.1"));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("0.0.1") && error.contains(env!("CARGO_PKG_VERSION")), "{error}");
}

#[test]
fn verbs_without_tensors_are_passed_to_cloze() {
    let output = run(&["config", "train.steps"], Some(env!("CARGO_PKG_VERSION")));
    assert!(output.status.success() && text(&output.stdout).contains("steps"), "{}", text(&output.stderr));
}
