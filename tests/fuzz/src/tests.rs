//! Tests that the fuzzer finds planted bugs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::input::Input;

fn message(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it is found");
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()))
        .unwrap_or_default()
}

/// Parser of `length:payload` that trusts the length.
fn trusting(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((length, payload)) = text.split_once(':') else { return };
    let Ok(length) = length.parse::<usize>() else { return };
    assert!(length <= 1 << 16 || payload.is_empty(), "planted");
}

#[test]
fn injected_panic_is_found() {
    let found = message(|| crate::target!("planted", vec![b"4:abcd".to_vec(), b"1:x".to_vec()], trusting));
    assert!(found.contains("planted"), "{found}");
}

#[test]
fn memory_without_bound_is_found() {
    let greedy = |bytes: &[u8]| drop(vec![0_u8; bytes.len() << 22]);
    let found = message(|| crate::target!("planted", vec![b"0123456789".to_vec()], greedy));
    assert!(found.contains("bytes of memory for an input of 10"), "{found}");
    let thrifty = |bytes: &[u8]| drop(bytes.to_vec());
    crate::target!("planted", vec![b"0123456789".to_vec()], thrifty);
}

#[test]
fn an_input_is_printed_as_the_shell_takes_it() {
    let input = Input { target: "x", bytes: (0..=255).collect() };
    let line = format!("{input:?}").replace(">tests/fuzz/seeds/x/NAME", "");
    let output = std::process::Command::new("bash").args(["-c", &line]).output().expect("bash runs");
    assert_eq!(output.stdout, input.bytes);
}
