//! `scripts/gpu-day`: a killed call leaves no process behind.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{root, send, skip};

/// Starts a program with a child, prints the process ids of both, and waits for them.
const CALL: &str = r#"
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from child import Child
program = Child(["sh", "-c", "sleep 600 & echo $$ $!; wait"], dict(os.environ), Path("/"))
while "\n" not in program.said():
    pass
print(program.said().strip(), flush=True)
program.wait(600)
"#;

#[test]
fn a_killed_call_leaves_no_process_of_a_program_or_its_children() {
    let is_python =
        |version: &str| Command::new("python3").args(["-c", version]).status().is_ok_and(|status| status.success());
    if !is_python("import sys; sys.exit(sys.version_info < (3, 11))") {
        skip("gpu-day: python3 of version 3.11");
        return;
    }
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let mut call = Command::new("python3");
        call.args(["-c", CALL]).arg(root().join("scripts/gpu-day")).stdout(Stdio::piped());
        let mut call = call.spawn().expect("python3");
        let mut line = String::new();
        BufReader::new(call.stdout.take().expect("a pipe")).read_line(&mut line).expect("UTF-8");
        let places: Vec<String> = line.split_whitespace().map(|id| format!("/proc/{id}/stat")).collect();
        assert_eq!(places.len(), 2, "{line}");
        // A process that ended may still have an entry without a parent that collects it.
        let is_alive = |place: &String| {
            std::fs::read_to_string(place)
                .is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|it| it.1.starts_with('Z')))
        };
        assert!(places.iter().all(is_alive), "both work");
        send(&call, signal);
        call.wait().expect("it ends");
        let begun = Instant::now();
        while places.iter().any(is_alive) {
            assert!(begun.elapsed() < Duration::from_secs(30), "processes outlive the call after signal {signal}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
