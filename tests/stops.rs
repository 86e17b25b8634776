//! A stop that is requested in any phase is obeyed, and the run that is resumed ends as if it had not been requested.
//!
//! No test guesses how long a phase lasts: `--slow PHASE@N` holds it, and stderr says that it has begun.

use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::{Home, Outcome, Running, assert_equal_runs};

/// How a run is asked to stop, and what comes of it.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Signal(libc::c_int, i32, &'static str),
    File,
}

const ASKS: [Ask; 4] = [
    Ask::Signal(libc::SIGTERM, 143, "terminate"),
    Ask::Signal(libc::SIGINT, 130, "interrupt"),
    Ask::Signal(libc::SIGUSR1, 138, "requeue"),
    Ask::File,
];

impl Ask {
    fn code(self) -> i32 {
        match self {
            Self::Signal(_, code, _) => code,
            Self::File => 143,
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Signal(_, _, why) => why,
            Self::File => "terminate",
        }
    }
}

/// Phases with the time of each that is held. There are two micro-batches a step: some steps are done before.
const PHASES: [(&str, u64); 5] = [("start", 1), ("data", 5), ("step", 5), ("validation", 1), ("checkpoint", 1)];

fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run];
    for set in ["report.every_steps=1", "train.steps=12", "validation.every_steps=8", "checkpoints.every_steps=4"] {
        args.extend(["--set", set]);
    }
    args.extend_from_slice(more);
    args
}

fn end(home: &Home, run: &str) -> serde_json::Value {
    home.log(run).pop().expect("it has said something")
}

/// Requests a stop in a phase that is held until then; returns the output of the run.
fn ask(home: &Home, run: &str, by: Ask, phase: &str, number: u64) -> Outcome {
    let (folder, slow) = (format!("run.folder={run}"), format!("{phase}@{number}"));
    let args = train(&folder, &["--slow", &slow]);
    let stop = format!("{run}/stop");
    let mut running = home.watch(&args);
    running.wait_for_line(&format!("holding phase `{phase}`"));
    match by {
        Ask::Signal(signal, ..) => running.signal(signal),
        Ask::File => home.write(&stop, ""),
    }
    running.end()
}

#[test]
fn every_way_of_asking_is_heard_in_every_phase() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=whole", &[]));
    for (phase, number) in PHASES {
        for by in ASKS {
            let run = format!("{phase}-{}-{}", by.why(), by.code() + i32::from(matches!(by, Ask::File)));
            let outcome = ask(&home, &run, by, phase, number);
            assert_eq!(outcome.code, Some(by.code()), "{by:?} in `{phase}`: {outcome}");
            assert!(outcome.stderr.contains(&format!("during={phase}")), "{by:?} in `{phase}`: {outcome}");
            let log = home.join(&run).join("log");
            if phase == "start" {
                assert!(!log.exists() && outcome.stderr.contains("nothing has happened"), "{by:?}: {outcome}");
            } else {
                let stop = end(&home, &run);
                let saved = stop["saved"] == true && stop["kept"] == stop["step"];
                assert!(stop["kind"] == "stop" && stop["why"] == by.why() && saved, "{by:?} in `{phase}`: {stop}");
            }
            assert!(!home.join(&run).join("stop").exists(), "a file that was obeyed is gone");
            home.run_ok(&train(&format!("run.folder={run}"), &[]));
            assert_equal_runs(&home, "whole", &run);
        }
    }
}

/// A run whose data does not exist yet.
fn without_data(home: &Home, run: &str) -> Running {
    let folder = format!("run.folder={run}");
    let args = train(&folder, &["--set", "data.order=streamed", "--set", "data.folder=later"]);
    home.watch(&args)
}

#[test]
fn a_file_is_heard_while_a_run_waits_for_its_data() {
    let home = Home::with_corpus(4);
    let mut running = without_data(&home, "asked");
    running.wait_for_line("waiting for what the run begins with");
    home.write("asked/stop", "");
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "{outcome}");
    assert!(!home.join("asked/stop").exists() && outcome.stderr.contains("no such folder yet"), "{outcome}");
    // What is no file asks for nothing, and somebody hears so; a signal takes what does ask with it.
    std::fs::create_dir_all(home.join("told/stop")).expect("made");
    let mut running = without_data(&home, "told");
    running.wait_for_line("it is a folder");
    std::fs::remove_dir(home.join("told/stop")).expect("removed");
    running.freeze();
    home.write("told/stop", "");
    running.signal(libc::SIGINT);
    running.wake();
    let outcome = running.end();
    assert!([Some(130), Some(143)].contains(&outcome.code), "{outcome}");
    assert!(!home.join("told/stop").exists(), "{outcome}");
    assert_eq!(outcome.stderr.matches("it is a folder").count(), 1, "{outcome}");
    // Nobody comes.
    let outcome = without_data(&home, "deserted").end();
    outcome.assert_fails(1, &["nobody prepares the data", "later"]);
}

#[test]
fn a_grace_that_is_over_leaves_with_what_is_saved() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=whole", &[]));
    let slow = ["--slow", "step=60000", "--set", "run.shutdown_timeout_seconds=1"];
    let mut running = home.watch(&train("run.folder=run", &["--slow", "step=100"]));
    running.reach(7);
    running.kill();
    // It continues from step 4, and stays in its first step for a minute.
    let mut running = home.watch(&train("run.folder=run", &slow));
    let began = Instant::now();
    running.wait_for_handler(libc::SIGUSR2);
    running.wait_for_phase("step");
    running.signal(libc::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "{outcome}");
    assert!(outcome.stderr.contains("`run.shutdown_timeout_seconds` are over"), "{outcome}");
    assert!(began.elapsed() < Duration::from_secs(50), "it did not wait for its step");
    home.run_ok(&train("run.folder=run", &[]));
    assert_equal_runs(&home, "whole", "run");
}

/// A run without a controlling terminal.
fn service(home: &Home, args: &[&str]) -> Running {
    let plain = home.command(args);
    let mut command = std::process::Command::new("setsid");
    command.arg("-w").current_dir(home.path()).env("NO_COLOR", "1").env_remove("RUST_LOG");
    command.arg(plain.get_program()).args(plain.get_args());
    Running::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("setsid"))
}

#[test]
fn a_service_reads_its_log_level_anew_and_reports_and_goes_on() {
    let home = Home::prepared(60);
    let mut running = service(&home, &train("run.folder=run", &["--slow", "step=300"]));
    running.reach(2);
    running.signal(libc::SIGUSR2);
    running.wait_for_line("checkpoint: ");
    home.write("run/log-level", "debug\n");
    running.signal(libc::SIGHUP);
    running.wait_for_line("the log level was read again");
    home.write("run/log-level", "no=such=level");
    running.signal(libc::SIGHUP);
    running.wait_for_line("stays as it is");
    std::fs::remove_file(home.join("run/log-level")).expect("there");
    running.signal(libc::SIGHUP);
    running.wait_for_line("the log level was read again");
    let outcome = running.end();
    assert_eq!(outcome.code, Some(0), "nobody asked it to stop\n{outcome}");
    let words = ["the log level was read again level=debug", "stays as it is", "level=pipeline=info,trainer=info"];
    for word in words.iter().chain(&["trainer: step for", "batch-0: ", "items; busy", "queue ", "checkpoint: "]) {
        assert!(outcome.stderr.contains(word), "`{word}`\n{outcome}");
    }
}

#[test]
fn who_stands_still_is_named_and_not_killed() {
    let home = Home::prepared(60);
    let slow = ["--slow", "validation=2600", "--set", "run.stall_timeout_seconds=1", "--set", "validation.rows=8"];
    let outcome = home.run_ok(&train("run.folder=run", &slow));
    let barks: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("nothing happens")).collect();
    assert!(barks.iter().any(|bark| bark.contains("phase `validation`")), "{outcome}");
    let calm = home.run_ok(&train("run.folder=calm", &[]));
    assert!(!calm.stderr.contains("nothing happens"), "{calm}");
    // Something has happened between any two phases that are slow.
    assert!(barks.len() <= 6, "{barks:?}");
}
