//! Result of a finished program.

use std::process::Output;

/// Exit code and output of a program.
pub struct Outcome {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Converts the output of a program that writes UTF-8.
    pub fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Panics unless the program exited with `code` and a clean error that contains all of `words`.
    #[track_caller]
    pub fn assert_fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing in\n{self}");
        }
        for word in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!self.stderr.contains(word), "not a clean error:\n{self}");
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}
