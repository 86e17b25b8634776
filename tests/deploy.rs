//! Files in `deploy/` match the program: files, keys, exit codes, and the Slurm script with a two-line substitute for
//! Slurm. `scripts/test-deploy` tests the same files with the real software.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use testkit::tree::{files, read};
use testkit::{Home, Outcome, root, send};

/// Exit codes after which no restart happens, and those of a run that was stopped as requested. The table is in
/// src/exit.rs.
const FINAL: [u8; 6] = [2, 42, 43, 44, 45, 127];
const STOPPED: [u8; 5] = [46, 129, 130, 138, 143];

fn deployed() -> Vec<(String, String)> {
    let all = files(root()).into_iter().filter(|path| path.starts_with("deploy/"));
    all.map(|path| (path.clone(), read(root(), &path))).collect()
}

/// Instructions of the Dockerfile, with continued lines joined.
fn instructions() -> Vec<Vec<String>> {
    let text = read(root(), "deploy/Dockerfile");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    joined.lines().map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn an_image_is_made_of_what_is_there() {
    let makefile = read(root(), "Makefile");
    let mut stages = BTreeSet::new();
    let mut offences = Vec::new();
    for words in instructions() {
        let line = words.join(" ");
        match words[0].as_str() {
            "FROM" => {
                stages.insert(words[3].clone());
            }
            "COPY" => {
                let (flags, paths): (Vec<&String>, Vec<&String>) =
                    words[1..].iter().partition(|word| word.starts_with("--"));
                let from = flags.iter().find_map(|flag| flag.strip_prefix("--from="));
                let is_there = |path: &&String| from.is_some() || root().join(path.as_str()).exists();
                if paths.len() < 2 || !paths[..paths.len() - 1].iter().all(is_there) {
                    offences.push(format!("{line}: no such file"));
                }
                if from.is_some_and(|stage| !stages.contains(stage)) {
                    offences.push(format!("{line}: no such stage"));
                }
            }
            "RUN" => {
                let verbs = words.windows(2).filter(|pair| pair[0] == "make" && !pair[1].starts_with('g'));
                let missing = verbs.filter(|pair| !makefile.contains(&format!("\n{}:", pair[1])));
                offences.extend(missing.map(|pair| format!("{line}: the Makefile has no `{}`", pair[1])));
            }
            "WORKDIR" | "ENV" | "USER" | "STOPSIGNAL" | "ENTRYPOINT" | "CMD" => {}
            _ => offences.push(format!("{line}: scripts/test-deploy does not know it")),
        }
    }
    assert!(["cpu", "cuda"].iter().all(|stage| stages.contains(*stage)), "{stages:?}");
    // The image needs none of the files that git ignores.
    let ignored = read(root(), "deploy/Dockerfile.dockerignore");
    for line in read(root(), ".gitignore").lines().map(|line| line.trim_start_matches('/')) {
        if !ignored.lines().any(|known| known.trim_start_matches("**/") == line) {
            offences.push(format!("deploy/Dockerfile.dockerignore lacks `{line}` of .gitignore"));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_key_that_is_deployed_is_one() {
    let home = Home::with_corpus(4);
    let mut tried = BTreeSet::new();
    let mut offences = Vec::new();
    for (path, text) in deployed() {
        for set in text.split("--set").skip(1) {
            let Some((key, _)) = set.trim_start_matches(['=', ' ']).split_once('=') else { continue };
            let is_key =
                key.contains('.') && key.chars().all(|letter| letter.is_ascii_lowercase() || "._".contains(letter));
            if !is_key || !tried.insert(key.to_owned()) {
                continue;
            }
            if home.run(&["config", key]).code != Some(0) {
                offences.push(format!("{path}: `{key}` is no key"));
            }
        }
    }
    assert!(offences.is_empty() && tried.len() > 3, "{tried:?}\n{}", offences.join("\n"));
}

/// Numbers of a line with this prefix, after blanks.
fn numbers(text: &str, begin: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(begin));
    let line = line.unwrap_or_else(|| panic!("no line `{begin}…`"));
    line.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn supervisors_agree_on_what_is_tried_again() {
    let widened = |codes: &[u8]| codes.iter().map(|code| u64::from(*code)).collect::<Vec<_>>();
    let service = read(root(), "deploy/systemd/cloze@.service");
    assert_eq!(numbers(&service, "RestartPreventExitStatus="), widened(&FINAL));
    assert!(numbers(&service, "SuccessExitStatus=").iter().all(|code| widened(&STOPPED).contains(code)));
    assert!(!numbers(&service, "SuccessExitStatus=").contains(&138), "138 asks for a requeue");
    let job = read(root(), "deploy/kubernetes/job.yaml");
    let (fails, rest) = job.split_once("action: Ignore").expect("a rule that ignores");
    assert_eq!(numbers(fails, "values: "), widened(&FINAL));
    assert_eq!(numbers(rest, "values: "), widened(&STOPPED));
    // The run's own shutdown timeout is shorter than that of the supervisor.
    let grace = numbers(&job, "- --set=run.shutdown_timeout_seconds=")[0];
    assert!(grace < numbers(&job, "terminationGracePeriodSeconds: ")[0]);
    for (path, text) in deployed().iter().filter(|(path, _)| path.ends_with(".service")) {
        assert!(text.contains("\nType=notify\n") && text.contains("\nWatchdogSec="), "{path}");
        assert!(text.contains("\nTimeoutStartSec=infinity\n"), "{path}: a run may wait for its data");
    }
}

#[test]
fn ranks_of_kubernetes_are_as_many_as_the_pods() {
    let [job, ranks] = ["job", "ranks"].map(|name| read(root(), &format!("deploy/kubernetes/{name}.yaml")));
    let world_size =
        numbers(&ranks.replace("WORLD_SIZE\n              value: \"", "WORLD_SIZE="), "- name: WORLD_SIZE=");
    for key in ["completions: ", "parallelism: "] {
        assert_eq!(numbers(&ranks, key), world_size[..1], "{key}");
    }
    let rules = |text: &str| {
        text.split_once("podFailurePolicy:").and_then(|(_, rest)| Some(rest.split_once("template:")?.0.to_owned()))
    };
    assert!(
        rules(&job).is_some_and(|rules_of_job| rules(&ranks) == Some(rules_of_job)),
        "one policy for the exit codes"
    );
}

/// Runs the Slurm script with a `cloze` of these lines and a `scontrol` that records its arguments.
fn batch(home: &Home, cloze: &str) -> Command {
    let programs = [("bin/cloze", cloze), ("bin/scontrol", "echo \"$*\" >>asked")];
    for (name, lines) in programs {
        home.write(name, &format!("#!/bin/sh\n{lines}\n"));
        std::fs::set_permissions(home.join(name), std::fs::Permissions::from_mode(0o755)).expect("it is there");
    }
    let mut command = Command::new("bash");
    command.arg(root().join("deploy/slurm/train.sbatch")).args(["run.toml", "--set", "seed=2"]);
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    command.current_dir(home.path()).env("PATH", path).env("SLURM_JOB_ID", "7").env("FAILURES_MAX", "2");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn asked(home: &Home) -> String {
    let asked = std::fs::read_to_string(home.join("asked")).unwrap_or_default();
    let _ = std::fs::remove_file(home.join("asked"));
    asked
}

#[test]
fn a_job_of_slurm_is_queued_again_where_that_helps() {
    let home = Home::with_corpus(4);
    let ends = |code: u8| {
        let outcome = Outcome::new(batch(&home, &format!("echo \"$*\"; exit {code}")).output().expect("bash"));
        assert_eq!(outcome.code, Some(i32::from(code)), "{outcome}");
        assert!(outcome.stdout.starts_with("train --config run.toml --set seed=2\n"), "{outcome}");
        asked(&home)
    };
    for code in FINAL.into_iter().chain([0, 46, 129, 130, 143]) {
        assert_eq!(ends(code), "", "{code} is not queued again");
    }
    assert_eq!(ends(138), "requeue 7\n");
    // A failure is retried, but not forever. A finished job resets the count.
    assert_eq!([1, 137, 1].map(ends), ["requeue 7\n", "requeue 7\n", ""]);
    assert_eq!([0, 1].map(ends), ["", "requeue 7\n"]);
}

#[test]
fn slurm_job_forwards_signals_and_waits_for_the_run() {
    let home = Home::with_corpus(4);
    for (signal, name, code, again) in [
        (libc::SIGUSR1, "USR1", 138, "requeue 7\n"),
        (libc::SIGUSR1, "USR1", 46, "requeue 7\n"),
        (libc::SIGTERM, "TERM", 143, ""),
        (libc::SIGTERM, "TERM", 46, ""),
    ] {
        // The command saves until a second signal, or for ten seconds.
        let saves = "touch saves; for i in $(seq 100); do [ -e twice ] && break; sleep 0.1; done";
        let cloze = format!("trap '{saves}; exit {code}' {name}\ntouch hears\nwhile :; do sleep 0.1; done");
        let child = batch(&home, &cloze).spawn().expect("bash");
        while !home.join("hears").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        send(&child, signal);
        while !home.join("saves").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        send(&child, signal);
        home.write("twice", "");
        let outcome = Outcome::new(child.wait_with_output().expect("it ends"));
        assert_eq!(outcome.code, Some(code), "{outcome}");
        assert_eq!(asked(&home), again);
        for file in ["hears", "saves", "twice"] {
            std::fs::remove_file(home.join(file)).expect("there");
        }
    }
}
