//! A home for each test, a corpus written for this project, and the program itself.

pub(crate) mod corpus;
pub(crate) mod running;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use store::Store;
use tempfile::TempDir;

/// The program under test: the one that cargo built beside the tests, or `CLOZE_TEST_PROGRAM` where both were carried away.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("CLOZE_TEST_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_cloze").into(), PathBuf::from)
}

/// The project's folder, or `CLOZE_TEST_ROOT` with what tests read of it.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    let carried =
        || std::env::var_os("CLOZE_TEST_ROOT").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    ROOT.get_or_init(carried)
}

/// A temporary folder with a corpus and, after [`Home::prepared`], a prepared folder.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    /// `documents` generated documents in four files of one document a line, and a tokenizer trained on them.
    pub(crate) fn with_corpus(documents: usize) -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        for (part, chunk) in corpus::documents(documents).chunks(documents.div_ceil(4)).enumerate() {
            home.write(&format!("corpus/{part}.txt"), &(chunk.join("\n") + "\n"));
        }
        home
    }

    /// The same with a tokenizer of at most 400 ids, and prepared with 64-token rows.
    pub(crate) fn prepared(documents: usize) -> Self {
        let home = Self::with_corpus(documents);
        home.run_ok(&["tokenizer", "train"]);
        home.run_ok(&["prepare"]);
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let folder = Store::folder(self.path()).expect("it is there");
        folder.put(name, text.as_bytes()).expect("a test can write");
    }

    /// The program with `args` and, where the verb reads one, the tiny configuration pointed at this home.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.path()).stdin(Stdio::null());
        command.env("NO_COLOR", "1").env_remove("RUST_LOG").env_remove("CLOZE_LOG_FORMAT");
        // The test's own `--set`s come last: the last one counts.
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

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.command(args).output().expect("the program starts"))
    }

    pub(crate) fn run_ok(&self, args: &[&str]) -> Outcome {
        let outcome = self.run(args);
        assert_eq!(outcome.code, Some(0), "cloze {args:?}\n{outcome}");
        outcome
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// A training that is watched.
    pub(crate) fn watch(&self, args: &[&str]) -> running::Running {
        let child = self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        running::Running::of(child.expect("the program starts"))
    }

    /// The log of a run, every event of it.
    pub(crate) fn log(&self, run: &str) -> Vec<serde_json::Value> {
        let store = store::Store::existing(self.join(run)).expect("a run");
        let lines = store::Lines::of(&store, "log").expect("a log").map(|line| line.expect("readable"));
        lines.map(|line| serde_json::from_slice(&line).expect("one JSON object a line")).collect()
    }
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn send(child: &Child, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: a plain system call on a child that this test started.
    #[expect(unsafe_code, reason = "std sends no signal but SIGKILL")]
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0);
}

/// Waits until a child has taken a signal upon itself: one that comes before ends it as any other program.
pub(crate) fn wait_until_it_hears(child: &Child, signal: libc::c_int) {
    let began = std::time::Instant::now();
    let hears = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default();
        u64::from_str_radix(caught, 16).is_ok_and(|caught| caught >> (signal - 1) & 1 == 1)
    };
    while !hears() {
        assert!(began.elapsed().as_secs() < 60, "it never listens to signal {signal}");
        std::thread::yield_now();
    }
}

fn reads_config(args: &[&str]) -> bool {
    !matches!(args, ["profile", "compare" | "live" | "report", ..])
        && matches!(args, ["tokenizer" | "prepare" | "plan" | "train" | "profile", ..] | ["inspect", "batch", ..])
}

/// How the program ended and what it said.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Fails unless the program ended with `code` and one clean error that says all of `words`.
    #[track_caller]
    pub(crate) fn assert_fails(&self, code: i32, words: &[&str]) {
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

/// One hash over names and bytes of every file below `folder` but its lock, which says who worked there, and what its
/// corpus was seen to be, which says when.
pub(crate) fn folder_hash(folder: &Path) -> String {
    let mut listing = String::new();
    for (name, bytes) in files(folder) {
        writeln!(listing, "{name} {}", blake3::hash(&bytes)).expect("a string takes any text");
    }
    blake3::hash(listing.as_bytes()).to_string()
}

/// Every file below `folder` by its relative name; but its lock, which says who worked there.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
                if !["lock", "seen.json"].contains(&name.as_str()) {
                    found.insert(name, std::fs::read(&path).expect("a readable file"));
                }
            }
        }
    }
    found
}

/// The same but its lock, which says who worked there last.
pub(crate) fn unlocked(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = files(folder);
    found.remove("lock");
    found
}

/// Whether a file is one that an interrupted write leaves.
pub(crate) fn is_temporary(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "tmp")
}

/// Says something aloud, past the capture of test output: a skip, or what a test has seen.
pub(crate) fn say(text: &str) {
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
