//! Temporary working folder of the program with a corpus.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use store::Store;
use tempfile::TempDir;

use crate::outcome::Outcome;
use crate::running::Running;
use crate::{corpus, root};

/// Program under test: `CLOZE_TEST_PROGRAM`, or the one that cargo built for these tests.
///
/// # Panics
/// If there is none. Cargo builds it before the tests of the packages `cloze` and `cloze-train`.
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("CLOZE_TEST_PROGRAM") {
        return program.into();
    }
    // A test is `target/<profile>/deps/<name>-<hash>`.
    let test = std::env::current_exe().expect("a test has a program");
    let program = test.parent().and_then(Path::parent).expect("two folders above a test").join("cloze");
    assert!(program.is_file(), "{}: no such program; `cargo test --workspace` builds it", program.display());
    program
}

/// Temporary folder with a corpus and, after [`Home::prepared`], a prepared folder.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// Writes `documents` generated documents to four files, one document per line.
    pub fn with_corpus(documents: usize) -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for (part, chunk) in corpus::documents(documents).chunks(documents.div_ceil(4)).enumerate() {
            home.write(&format!("corpus/{part}.txt"), &(chunk.join("\n") + "\n"));
        }
        home
    }

    /// Like [`with_corpus`](Self::with_corpus), with a tokenizer of at most 400 ids and a dataset of 64-token rows.
    pub fn prepared(documents: usize) -> Self {
        let home = Self::with_corpus(documents);
        home.run_ok(&["tokenizer", "train"]);
        home.run_ok(&["prepare"]);
        home
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Path of an entry of the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and creates its folders.
    pub fn write(&self, name: &str, text: &str) {
        let folder = Store::folder(self.path()).expect("the folder exists");
        folder.put(name, text.as_bytes()).expect("a test can write");
    }

    /// Returns the program with `args`. Verbs that read a configuration get `configs/tiny.toml` with the paths of this
    /// folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.path()).stdin(Stdio::null());
        command
            .env("NO_COLOR", "1")
            .env("XDG_CACHE_HOME", self.join("cache"))
            .env_remove("RUST_LOG")
            .env_remove("CLOZE_LOG_FORMAT");
        // If a key is set twice, the last value wins, so the `--set` options of the test follow these.
        let verb = args.iter().position(|arg| arg.starts_with('-')).unwrap_or(args.len());
        command.args(&args[..verb]);
        if reads_config(args) && !args.contains(&"--config") && !args.contains(&"-c") {
            command.arg("--config").arg(root().join("configs/tiny.toml"));
            for set in [
                "tokenizer.vocab_size=400",
                "prepare.inputs=[\"corpus\"]",
                "prepare.format=text_lines",
                "prepare.tokenizer=tokenizer.json",
                "prepare.folder=data",
                "data.folder=data",
            ] {
                command.args(["--set", set]);
            }
        }
        command.args(&args[verb..]);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Outcome {
        Outcome::new(self.command(args).output().expect("the program starts"))
    }

    /// Runs the program. Panics unless it exits with 0.
    pub fn run_ok(&self, args: &[&str]) -> Outcome {
        let outcome = self.run(args);
        assert_eq!(outcome.code, Some(0), "cloze {args:?}\n{outcome}");
        outcome
    }

    /// Starts the program and captures only its stderr.
    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Starts a training whose output is read while it runs.
    pub fn watch(&self, args: &[&str]) -> Running {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Running::new(child.expect("the program starts"))
    }

    /// Returns all events in the log of a run.
    pub fn log(&self, run: &str) -> Vec<serde_json::Value> {
        let store = Store::existing(self.join(run)).expect("a run");
        let lines = store::Lines::new(&store, "log").expect("a log").map(|line| line.expect("readable"));
        lines.map(|line| serde_json::from_slice(&line).expect("one JSON object a line")).collect()
    }
}

/// Returns the arguments of `cloze profile TARGET --json`. The target is the first of `args`, or `loader` if the first
/// is an option.
#[must_use]
pub fn profile_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let (target, options) = match args {
        [target, options @ ..] if !target.starts_with("--") => (*target, options),
        options => ("loader", options),
    };
    [&["profile", target, "--json"], options].concat()
}

fn reads_config(args: &[&str]) -> bool {
    !matches!(args, ["profile", "compare" | "live" | "report", ..])
        && matches!(args, ["tokenizer" | "prepare" | "plan" | "train" | "profile", ..] | ["inspect", "batch", ..])
}
