//! Failures that a training survives, and its messages otherwise: dead terminals, full pipes, repeated signals, and
//! replaced run folders.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Home, Outcome, Running, files, program, send, wait_for_handler};

fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run, "--set", "report.every_steps=1", "--set", "train.threads=1"];
    args.extend_from_slice(more);
    args
}

fn weights(home: &Home, run: &str) -> Vec<u8> {
    std::fs::read(home.join(run).join("checkpoints/step-00000060/main.safetensors")).expect("saved")
}

/// Returns the last event of a run.
fn end(home: &Home, run: &str) -> serde_json::Value {
    home.log(run).pop().expect("the log has an event")
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("a device of Linux").into()
}

#[test]
fn run_without_readable_output_continues() {
    let home = Home::with_corpus(120);
    home.run_ok(&["tokenizer", "train"]);
    for _ in 0..2 {
        let prepared = home.command(&["prepare"]).stdout(full()).stderr(full()).status().expect("the program starts");
        assert_eq!(prepared.code(), Some(0), "a preparation survives a full stdout");
    }
    home.run_ok(&train("run.folder=whole", &[]));

    let deaf = home.command(&train("run.folder=deaf", &[])).stdout(full()).stderr(full()).status();
    assert_eq!(deaf.expect("the program starts").code(), Some(0));
    // The reader of stdout and stderr is gone after the first line, like `| head -1`.
    let mut cut = home.command(&train("run.folder=cut", &[]));
    let mut cut = cut.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop((cut.stdout.take(), cut.stderr.take()));
    assert_eq!(cut.wait().expect("it ends").code(), Some(0));
    for run in ["deaf", "cut"] {
        assert_eq!((end(&home, run)["why"].as_str(), home.log(run).len()), (Some("finished"), home.log("whole").len()));
        assert!(weights(&home, run) == weights(&home, "whole"), "{run}");
    }
    // If only stdout is full, this is reported once.
    let outcome = home.command(&train("run.folder=full", &[])).stdout(full()).stderr(Stdio::piped()).output();
    let outcome = Outcome::new(outcome.expect("the program starts"));
    assert_eq!((outcome.code, outcome.stderr.matches("warning: stdout").count()), (Some(0), 1), "{outcome}");
}

/// Returns a pipe that no process reads, and its reader.
fn stalled() -> (std::io::PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // Capacity of a Linux pipe in bytes.
    writer.write_all(&vec![b'.'; 1 << 16]).expect("written");
    (reader, writer.into())
}

#[test]
fn stalled_reader_does_not_block_the_run() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", &[]));
    let (_out, stdout) = stalled();
    let (_err, stderr) = stalled();
    let mut child =
        home.command(&train("run.folder=stalled", &[])).stdout(stdout).stderr(stderr).spawn().expect("it starts");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(weights(&home, "stalled") == weights(&home, "whole"));

    let (_out, stdout) = stalled();
    let (_err, stderr) = stalled();
    let args = train("run.folder=asked", &["--slow", "step=60"]);
    let mut child = home.command(&args).stdout(stdout).stderr(stderr).spawn().expect("it starts");
    while !home.join("asked/log").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it was asked to");
    }
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
    assert_eq!(end(&home, "asked")["saved"], true);

    let (_err, stderr) = stalled();
    let mut child =
        home.command(&["prepare", "--set", "prepare.folder=new"]).stderr(stderr).spawn().expect("it starts");
    wait_for_handler(&child, libc::SIGINT);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("a child").is_none(), "it waits for its first line to be read");
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// Sends signals to a run half-way, checks that it is saved, and resumes it.
fn stop_by(home: &Home, signals: &[libc::c_int], codes: &[i32], run: &str) {
    let folder = format!("run.folder={run}");
    let mut running = home.watch(&train(&folder, &["--slow", "step=60"]));
    running.wait_for_step(13);
    for signal in signals {
        running.signal(*signal);
    }
    let outcome = running.end();
    assert!(outcome.code.is_some_and(|code| codes.contains(&code)), "{codes:?}: {outcome}");
    let stop = end(home, run);
    assert!(stop["kind"] == "stop" && stop["saved"] == true && stop["kept"] == stop["step"], "{stop}");
    home.run_ok(&train(&folder, &[]));
    assert!(weights(home, run) == weights(home, "whole"), "{run} ends as if it had not been stopped");
}

#[test]
fn every_stop_signal_saves_and_has_its_own_code() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", &[]));
    stop_by(&home, &[libc::SIGUSR1], &[138], "requeue");
    // Two signals of a scheduler do not force an exit, in either order.
    stop_by(&home, &[libc::SIGTERM, libc::SIGINT], &[143, 130], "both");
    stop_by(&home, &[libc::SIGTERM, libc::SIGTERM], &[143], "twice");
    assert_eq!(end(&home, "requeue")["why"], "finished");
}

/// Runs in a separate terminal, which ends with `script`.
#[test]
fn run_is_saved_if_its_terminal_closes() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", &[]));
    let plain = home.command(&train("run.folder=hangup", &["--slow", "step=60"]));
    let words = std::iter::once(plain.get_program()).chain(plain.get_args()).map(|word| word.to_string_lossy());
    let line: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    // The waiting process survives the terminal and reports the exit code. The terminal's own shell ends with it.
    home.write("go.sh", &format!("trap : HUP\n{}\necho $? > code\n", line.join(" ")));
    let mut command = Command::new("script");
    command.args(["-qec", "sh go.sh; true", "/dev/null"]).current_dir(home.path()).env("NO_COLOR", "1");
    let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut terminal) = started else { return testkit::skip("closed terminal: no `script` here") };
    while !home.join("hangup/log").exists() {
        assert!(terminal.try_wait().expect("a child").is_none(), "it ended before its terminal did");
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.kill().expect("SIGKILL");
    terminal.wait().expect("it ended");
    while !home.join("code").exists() || std::fs::read(home.join("code")).expect("there").is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(home.join("code")).expect("there").trim(), "129");
    let stop = end(&home, "hangup");
    assert!(stop["why"] == "hangup" && stop["saved"] == true, "{stop}");
    home.run_ok(&train("run.folder=hangup", &[]));
    assert!(weights(&home, "hangup") == weights(&home, "whole"));
}

#[test]
fn ignored_hangup_stays_ignored() {
    let home = Home::prepared(60);
    let plain = home.command(&train("run.folder=run", &["--slow", "step=20", "--set", "train.steps=20"]));
    let mut command = Command::new("nohup");
    command.current_dir(home.path()).arg(plain.get_program()).args(plain.get_args());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nohup");
    let mut running = Running::new(child);
    running.wait_for_step(3);
    running.signal(libc::SIGHUP);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

#[test]
fn second_ctrl_c_exits_at_once_without_a_crash() {
    let home = Home::prepared(60);
    // Steps are long, so that libtorch is inside one.
    let long = ["encoder.layers=12", "encoder.hidden=512", "encoder.feed_forward=2048", "train.micro_batch_size=16"];
    let set: Vec<&str> = long.iter().flat_map(|pair| ["--set", pair]).collect();
    for _ in 0..2 {
        let mut running = home.watch(&train("run.folder=run", &set));
        running.wait_for_step(1);
        running.signal(libc::SIGINT);
        running.wait_for_line("saving (press ctrl-c again");
        std::thread::sleep(std::time::Duration::from_millis(2100));
        running.signal(libc::SIGINT);
        let outcome = running.end();
        assert!([Some(46), Some(130)].contains(&outcome.code), "no signal ended it\n{outcome}");
    }
}

#[test]
fn run_does_not_write_to_a_folder_it_has_lost() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", &[]));
    // The run's folder is moved away, and another run starts under the old name.
    let mut old = home.watch(&train("run.folder=run", &["--slow", "step=60"]));
    old.wait_for_step(13);
    old.freeze();
    std::fs::rename(home.join("run"), home.join("moved")).expect("moved");
    let new = home.run_ok(&train("run.folder=run", &[]));
    assert!(new.stdout.contains("step 1 "), "it begins: {new}");
    let before = files(&home.join("run"));
    old.wake();
    let late = old.end();
    late.assert_fails(1, &["lost the lock", "run/lock"]);
    assert!(files(&home.join("run")) == before, "the old one wrote\n{late}");
    assert!(weights(&home, "run") == weights(&home, "whole"), "every checkpoint is the new run's");

    // The run's lock is removed: another process may take the folder, so this run ends first.
    let mut bare = home.watch(&train("run.folder=bare", &["--slow", "step=60"]));
    bare.wait_for_step(13);
    std::fs::remove_file(home.join("bare/lock")).expect("there");
    bare.end().assert_fails(1, &["the lock object was removed", "bare/lock"]);
}

#[test]
fn diverged_run_is_not_retried_and_explains_how_to_diagnose() {
    let home = Home::prepared(60);
    let lr = "optimizer.lr=1e30";
    let clip = "optimizer.max_grad_norm=1e30";
    let quoted = "run.folder='a run'";
    let args = train(quoted, &["--set", lr, "--set", clip, "--set", "checkpoints.every_steps=1"]);
    let outcome = home.run(&args);
    outcome.assert_fails(43, &["is not finite", "train.max_skipped_steps", "train.init_from", "which is not saved"]);
    let last = outcome.stdout.lines().rfind(|line| line.contains("  loss ")).expect("a step was well");
    let last: u64 = last.split(' ').nth(1).and_then(|step| step.parse().ok()).expect("its number");
    assert!(outcome.stderr.contains(&format!("the gradient of step {} ", last + 1)), "as reports count\n{outcome}");

    // The printed command works as it is.
    let line = outcome.stderr.split('`').find(|part| part.starts_with("cloze inspect batch")).expect("a command");
    assert!(line.contains(&format!("batch {} ", 2 * last)), "{line}");
    let program = program();
    let folder = program.parent().expect("a folder").to_owned();
    let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths("/usr/bin:/bin")));
    let shown =
        Command::new("sh").args(["-c", line]).current_dir(home.path()).env("PATH", path.expect("a path")).output();
    let shown = Outcome::new(shown.expect("a shell"));
    assert!(shown.code == Some(0) && shown.stdout.contains("masked"), "{line}\n{shown}");
    // A supervisor that restarts the run gets the same code.
    assert_eq!(home.run(&args).code, Some(43));
}

#[test]
fn too_few_open_files_are_a_usage_error() {
    let home = Home::with_corpus(60);
    for command in ["train", "prepare"] {
        let line = format!("ulimit -n 6; exec \"$0\" {command}");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &line]).arg(program()).current_dir(home.path()).output();
        let outcome = Outcome::new(output.expect("a shell"));
        outcome.assert_fails(2, &["the limit of open files is 6", "`ulimit -n 1024`"]);
        assert!(!outcome.stderr.contains("panic"), "{outcome}");
    }
}

#[test]
fn missing_files_and_steps_are_usage_errors() {
    let home = Home::prepared(60);
    for name in ["data/train/nothing.parquet", "data/nothing.parquet", "nothing.parquet"] {
        home.run(&["inspect", "shard", name]).assert_fails(2, &["nothing.parquet"]);
    }
    home.run(&train("run.folder=run", &["--slow", "naps=10"])).assert_fails(2, &["--slow naps=10", "validation"]);
    home.run_ok(&train("run.folder=run", &["--set", "train.steps=10"]));
    home.run(&["export", "run", "--out", "model", "--step", "7"])
        .assert_fails(2, &["step 7", "the run has those after 10"]);
    assert!(!home.join("model").exists(), "an export that fails leaves nothing");
    home.run_ok(&["export", "run", "--out", "model"]);
    let again = home.run_ok(&["export", "run", "--out", "model"]);
    assert!(again.stderr.contains("replaced the model"), "{again}");
    let all = home.run_ok(&["fill", "run", "--top", "99999999", "Anna ate [MASK] and drank some water."]);
    let words = all.stdout.lines().nth(1).expect("the words of one mask").matches('%').count();
    assert!((100..=400).contains(&words), "every id of the vocabulary, and no other: {words}");
}

#[test]
fn extension_that_changes_the_run_is_refused_with_a_hint() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", &["--set", "train.steps=10"]));
    let words = ["train.steps  10 → 20", "schedule.kind = \"constant\"", "train.init_from"];
    home.run(&train("run.folder=run", &["--set", "train.steps=20"])).assert_fails(2, &words);
    let constant = ["--set", "schedule.kind=constant", "--set"];
    home.run_ok(&train("run.folder=even", &[&constant[..], &["train.steps=10"]].concat()));
    let longer = home.run_ok(&train("run.folder=even", &[&constant[..], &["train.steps=20"]].concat()));
    assert!(longer.stdout.contains("step 20 ") && !longer.stdout.contains("step 10 "), "{longer}");
}
