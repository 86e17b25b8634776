//! The second program by itself: versions, and verbs that it passes back to the library.

use std::process::{Command, Output};

/// Runs it as the `cloze` of a version executes it: in a process that had another program before.
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
fn it_is_of_the_version_of_the_package() {
    let output = run(&["--version"], None);
    assert_eq!(text(&output.stdout).trim(), concat!("cloze ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn another_version_of_cloze_is_refused() {
    // Also with arguments that only the other version knows.
    let output = run(&["config", "--of-another-version"], Some("0.0.1"));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("0.0.1") && error.contains(env!("CARGO_PKG_VERSION")), "{error}");
}

#[test]
fn a_verb_without_tensors_is_that_of_cloze() {
    let output = run(&["config", "train.steps"], Some(env!("CARGO_PKG_VERSION")));
    assert!(output.status.success() && text(&output.stdout).contains("steps"), "{}", text(&output.stderr));
}
