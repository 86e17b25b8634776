//! Each planted fault is detected, and correct programs pass.

use std::process::{Command, Output};

/// Returns the exit status of a trial and its output. `None` if there is no library.
fn tried(name: &str) -> Option<Output> {
    let skip = |why: &String| testkit::skip(&format!("trials of the pretend device: {why}"));
    let trial = super::library().inspect_err(skip).ok()?.with_file_name("trial");
    Some(Command::new(trial).arg(name).output().expect("the trial starts"))
}

#[track_caller]
fn gives(name: &str, expected: f64) {
    let Some(output) = tried(name) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {output:?}");
    let found: f64 = text.trim().parse().unwrap_or_else(|_| panic!("{name} printed {text}"));
    assert!((found - expected).abs() < 1e-6, "{name} gives {found}, not {expected}");
    assert!(output.stderr.is_empty(), "{name}: {output:?}");
}

#[track_caller]
fn fails(name: &str, with: &str) {
    let Some(output) = tried(name) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && text.contains(with), "{name}: {output:?}");
}

#[track_caller]
fn gives_no_number(name: &str) {
    let Some(output) = tried(name) else { return };
    assert!(String::from_utf8_lossy(&output.stdout).contains("nan"), "{name}: {output:?}");
}

#[test]
fn copy_on_another_stream_is_ordered_or_fails() {
    gives("event", 3.0);
    fails("missing-event", "stream 0 reads what stream 1 writes, and no event or wait orders the two");
}

#[test]
fn a_pinned_buffer_is_free_again_once_its_copy_is_known_to_be_done() {
    gives("buffer", 3.0);
    fails("buffer-reused-too-early", "the host wrote to pinned memory while a copy from it was under way");
}

#[test]
fn a_result_is_there_once_the_host_has_waited() {
    gives("result", 5.0);
    gives_no_number("result-read-too-early");
}

#[test]
fn tensors_of_two_devices_do_not_mix() {
    gives("one-device", 2.0);
    fails("two-devices", "Expected all tensors to be on the same device");
    gives("second-device", 2.0);
    fails("first-and-second-device", "found at least two devices, cuda:1 and cuda:0");
    gives("indices", 4.0);
    fails("indices-of-the-host", "Expected all tensors to be on the same device");
}

#[test]
fn fresh_memory_is_not_a_number() {
    gives("moment", 1.0);
    gives_no_number("uninitialised-moment");
}

#[test]
fn waits_of_the_host_are_counted() {
    gives("no-wait", 0.0);
    gives("hidden-wait", 1.0);
}

#[test]
fn the_host_cannot_read_memory_of_the_device() {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(output) = tried("raw-read") else { return };
    assert_eq!(output.status.signal(), Some(11), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the host reads or writes device memory"), "{output:?}");
}

#[test]
fn memory_that_another_stream_uses_is_kept_for_it() {
    gives("freed", 1000.0);
    let Some(output) = tried("freed-too-early") else { return };
    assert!(String::from_utf8_lossy(&output.stderr).contains("another stream may still use"), "{output:?}");
}
