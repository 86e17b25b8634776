//! `cloze` and the program `cloze-train`: how it is executed, and errors if it is missing or broken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Folder that contains only `cloze`, and an empty `PATH`.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        // The folder is on the file system of the program, so that a link is enough.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        fs::hard_link(env!("CARGO_BIN_EXE_cloze"), folder.path().join("cloze")).expect("linked");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Installs a shell script as `cloze-train`.
    fn second(&self, script: &str, mode: u32) {
        let program = self.path().join("cloze-train");
        let folder = store::Store::folder(self.path()).expect("a folder");
        folder.put("cloze-train", script.as_bytes()).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.path().join("cloze"));
        command.args(args).env("PATH", "").current_dir(self.path()).output().expect("it starts")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn missing_train_program_is_one_error_with_the_fix() {
    let installed = Installed::new();
    for args in [&["train", "-c", "none.toml"][..], &["fill", "a", "text"], &["tune", "-c", "none.toml"]] {
        let output = installed.run(args);
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains("`cloze-train` is needed") && text.contains("make install"), "{text}");
    }
    // A file of that name without execute permission is not used.
    installed.second("", 0o644);
    assert_eq!(installed.run(&["train", "-c", "none.toml"]).status.code(), Some(2));
    // A command without tensors needs no `cloze-train`.
    let output = installed.run(&["config", "train.steps"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn it_has_the_arguments_the_process_and_the_exit_code() {
    let installed = Installed::new();
    installed.second("#!/bin/sh\necho \"$CLOZE_EXECUTED_BY|$$|$*\"\nexit 43\n", 0o755);
    let output = installed.run(&["train", "-c", "a b.toml", "--set", "train.steps=2"]);
    assert_eq!(output.status.code(), Some(43), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let [executed_by, process, arguments] = text.trim_end().split('|').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!(executed_by, format!("{}@{process}", env!("CARGO_PKG_VERSION")), "one process");
    assert_eq!(arguments, "train -c a b.toml --set train.steps=2");
    installed.second("#!/bin/sh\nkill -TERM $$\n", 0o755);
    assert_eq!(installed.run(&["train", "-c", "a.toml"]).status.signal(), Some(15), "a signal ends the same process");
}

#[test]
fn one_that_cannot_be_executed_is_a_mistake_of_the_installation() {
    let installed = Installed::new();
    for (script, word) in
        [("#!/no/such/interpreter\n", "cannot be executed"), ("", "not a program"), ("\n", "not a program")]
    {
        installed.second(script, 0o755);
        let output = installed.run(&["train", "-c", "a.toml"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word) && text.contains("cloze-train"), "{text}");
    }
    // `cloze` installed under the other name must not execute itself in a loop.
    fs::remove_file(installed.path().join("cloze-train")).expect("it is there");
    fs::hard_link(installed.path().join("cloze"), installed.path().join("cloze-train")).expect("linked");
    let text = stderr(&installed.run(&["train", "-c", "a.toml"]));
    assert!(text.contains("it is `cloze` itself"), "{text}");
}
