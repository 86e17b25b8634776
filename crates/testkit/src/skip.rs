//! Counted skips: `scripts/test` prints their number and compares it with `tests/max_skips`.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Variable with the path of the file that collects the skips of a test run.
const FILE: &str = "CLOZE_TEST_SKIPS";

/// Reports and counts that the calling test, or a part of it, does not run. The reason names the skipped part and the
/// missing requirement: `bfloat16 on the CPU: this processor has no products of it`.
///
/// # Panics
/// If the file of skips cannot be written, because an uncounted skip would look like a pass.
pub fn skip(reason: &str) {
    print_uncaptured(&format!("SKIPPED {reason}"));
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One write per line: processes that append at once do not mix their lines.
    let written = file.and_then(|mut file| file.write_all(format!("{}\n", reason.replace('\n', " ")).as_bytes()));
    written.unwrap_or_else(|error| panic!("{FILE}={}: {error}", path.display()));
}

/// Prints a line that the capture of test output does not hide.
pub fn print_uncaptured(text: &str) {
    // If stderr is closed, nothing can be printed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
