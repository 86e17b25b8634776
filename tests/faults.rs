//! Hostile inputs. Each gives one error with its place and a fix, the documented exit code, and no partial files.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use store::Store;
use testkit::{Home, Outcome, files, folder_hash, is_temporary, skip};

/// Home with a tokenizer, whose corpus each case replaces.
pub(crate) fn home() -> Home {
    let home = Home::with_corpus(80);
    home.run_ok(&["tokenizer", "train"]);
    home
}

pub(crate) fn put(home: &Home, name: &str, bytes: &[u8]) {
    Store::folder(home.path()).and_then(|folder| folder.put(name, bytes)).expect("a test can write");
}

pub(crate) fn prepare(home: &Home, input: &str, format: &str, more: &[&str]) -> Outcome {
    let input = format!("prepare.inputs=[\"{input}\"]");
    let format = format!("prepare.format={format}");
    let mut args = vec!["prepare", "--set", &input, "--set", &format];
    for set in more {
        args.extend(["--set", *set]);
    }
    home.run(&args)
}

/// Checks that an input is fatal before any file is written.
#[track_caller]
fn check_fatal(input: &str, format: &str, bytes: &[u8], code: i32, words: &[&str]) {
    let home = home();
    if !bytes.is_empty() {
        put(&home, input, bytes);
    }
    prepare(&home, input, format, &[]).assert_fails(code, words);
    let written = home.join("data");
    assert!(!written.exists() || files(&written).is_empty(), "{:?}", files(&written).keys());
}

#[test]
fn inputs_that_cannot_be_read_are_fatal_before_anything_is_written() {
    check_fatal("nowhere.txt", "text", b"", 2, &["nowhere.txt"]);
    check_fatal("corpus/*.nothing", "text", b"", 2, &["corpus/*.nothing"]);
    check_fatal("binary.txt", "text_lines", b"a\0b\x01\x02 not text\n", 42, &["binary.txt", "NUL"]);
    check_fatal("empty.txt", "text_lines", b"\n\n\n", 42, &["no", "document"]);
    check_fatal("not.parquet", "parquet", b"this is not Parquet", 42, &["not.parquet"]);
    let home = home();
    std::fs::create_dir(home.join("hollow")).expect("made");
    prepare(&home, "hollow", "text", &[]).assert_fails(2, &["hollow", "no input here"]);
}

#[test]
fn parquet_without_the_column_names_those_it_has() {
    let home = Home::prepared(40);
    let outcome = prepare(&home, "data/vocab/00000.parquet", "parquet", &["prepare.folder=other"]);
    outcome.assert_fails(2, &["00000.parquet", "`text`", "token"]);
    assert!(!home.join("other").exists() || files(&home.join("other")).is_empty());
    // The fix that the error names works.
    let sets = ["prepare.folder=other", "prepare.text_field=token"];
    let outcome = prepare(&home, "data/vocab/00000.parquet", "parquet", &sets);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

/// Checks that dirty text is accepted, counted by reason, and logged with file and line.
#[track_caller]
fn check_counted(name: &str, format: &str, bytes: &[u8], reason: &str, place: &str) {
    let home = home();
    put(&home, name, bytes);
    let outcome = prepare(&home, name, format, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let manifest = std::fs::read_to_string(home.join("data/manifest.json")).expect("prepared");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let rejected =
        manifest["content"]["dataset_versions"][0]["corpus"]["rejected"].as_object().expect("counts by reason");
    assert!(rejected.keys().any(|key| key.contains(reason)), "{reason} in {rejected:?}");
    assert!(outcome.stderr.contains(place), "`{place}` in\n{outcome}");
    assert!(outcome.stdout.contains(reason), "the report counts it\n{outcome}");
}

#[test]
fn invalid_text_is_counted_by_reason() {
    let good = "{\"text\": \"Anna read the timetable aloud.\"}\n".repeat(20);
    let jsonl = |bad: &str| format!("{good}{bad}\n{good}").into_bytes();
    check_counted("a.jsonl", "jsonl", &jsonl("{\"text\": \"cut"), "json", "a.jsonl:21");
    check_counted("b.jsonl", "jsonl", &jsonl("{\"body\": \"x\"}"), "field", "b.jsonl:21");
    check_counted("c.jsonl", "jsonl", &jsonl("{\"text\": 5}"), "string", "c.jsonl:21");
    check_counted("d.jsonl", "jsonl", &jsonl("{\"text\": \"\"}"), "empty", "d.jsonl:21");
    let mut latin1 = b"Anna read.\n".repeat(30);
    latin1.extend(b"caf\xe9 noir\n");
    check_counted("e.txt", "text_lines", &latin1, "utf", "e.txt:31");
    // After the first 8 KiB a NUL does not mark the file as binary.
    let mut nul = b"Anna read the newspaper.\n".repeat(400);
    nul.extend(b"a\0b\n");
    check_counted("f.txt", "text_lines", &nul, "nul", "f.txt:401");
}

#[test]
fn too_many_bad_lines_are_refused() {
    let home = home();
    put(&home, "bad.jsonl", &[b"{\"text\": \"Anna read.\"}\n".repeat(30), b"{broken\n".repeat(11)].concat());
    prepare(&home, "bad.jsonl", "jsonl", &[]).assert_fails(42, &["max_bad_lines", "bad.jsonl"]);
    assert!(!home.join("data/manifest.json").exists());
}

#[test]
fn marks_line_ends_long_lines_and_empty_files_are_silent_and_right() {
    let home = home();
    put(&home, "clean/a.txt", b"Anna ate bread.\nThe miller read a letter.\n");
    put(&home, "odd/a.txt", b"\xef\xbb\xbfAnna ate bread.\r\nThe miller read a letter.\r\n");
    put(&home, "odd/empty.txt", b"");
    for (input, folder) in [("clean", "prepare.folder=one"), ("odd", "prepare.folder=two")] {
        let outcome = prepare(&home, input, "text_lines", &[folder, "prepare.valid_fraction=0.0"]);
        assert_eq!(outcome.code, Some(0), "{outcome}");
        assert!(!outcome.stderr.contains("WARN"), "{outcome}");
    }
    let content = |folder: &str| {
        let text = std::fs::read_to_string(home.join(folder).join("manifest.json")).expect("prepared");
        let manifest = schemas::Manifest::from_json(text.as_bytes()).expect("valid");
        (manifest.now().train.tokens(), manifest.dataset_versions[0].corpus.documents)
    };
    assert_eq!(content("one"), content("two"));
    put(&home, "long.txt", &[b"bread and ".repeat(200_000), b"\n".to_vec()].concat());
    let outcome = prepare(&home, "long.txt", "text_lines", &["prepare.folder=three"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

#[test]
fn a_truncated_archive_is_named_and_earlier_parts_stay() {
    let text = "Anna read the newspaper in the library.\n".repeat(4000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory");
    for (name, whole) in [("b.txt.gz", gzip), ("b.txt.zst", zstd)] {
        let home = home();
        put(&home, "in/a.txt", text.as_bytes());
        put(&home, &format!("in/{name}"), &whole[..whole.len() * 2 / 3]);
        let part = ["prepare.part_bytes=100000", "prepare.workers=1"];
        prepare(&home, "in", "text_lines", &part).assert_fails(42, &[name, "replace the file", "run the same command"]);
        assert!(!home.join("data/manifest.json").exists());
        let kept = files(&home.join("data"));
        // The fix that the error names works.
        put(&home, &format!("in/{name}"), &whole);
        let outcome = prepare(&home, "in", "text_lines", &part);
        assert_eq!(outcome.code, Some(0), "{outcome}");
        assert!(outcome.stdout.contains("8,000 documents"), "{outcome}");
        assert!(
            outcome.stderr.contains("1 file replaced: dataset version 1 drops 1 part and makes 1 part"),
            "{outcome}"
        );
        let now = files(&home.join("data"));
        assert!(kept.iter().all(|(name, bytes)| now.get(name) == Some(bytes)), "finished parts are kept");
    }
}

#[test]
fn a_tokenizer_that_lacks_a_mask_is_refused_with_the_token_to_add() {
    let home = home();
    put(&home, "vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n");
    let outcome = prepare(&home, "corpus", "text_lines", &["prepare.tokenizer=vocab.txt", "prepare.lowercase=true"]);
    outcome.assert_fails(2, &["vocab.txt", "[MASK]"]);
    let outcome = prepare(&home, "corpus", "text_lines", &["prepare.tokenizer=vocab.txt"]);
    outcome.assert_fails(2, &["lowercase"]);
    prepare(&home, "corpus", "text_lines", &["prepare.tokenizer=none.json"]).assert_fails(2, &["none.json"]);
}

#[test]
fn another_corpus_or_setting_is_refused_with_what_differs() {
    let home = Home::prepared(60);
    let outcome = home.run(&["prepare", "--set", "prepare.max_seq_len=32"]);
    outcome.assert_fails(2, &["max_seq_len", "prepare.folder"]);
    home.write("other/9.txt", "A new file.\n");
    let other = ["prepare", "--set", "prepare.inputs=[\"other\"]"];
    home.run(&other).assert_fails(2, &["none of its 4", "prepare.folder"]);
}

#[test]
fn a_held_folder_is_refused_by_a_second_prepare() {
    let home = home();
    let folder = store::Store::folder(home.join("data")).expect("made");
    let held = store::Lock::acquire(&folder, "lock", store::Holder::this_process(), store::LeaseConfig::default());
    let held = held.expect("free");
    home.run(&["prepare"]).assert_fails(1, &["data/lock", "locked by pid"]);
    drop(held);
    home.run_ok(&["prepare"]);
}

/// Checks a flipped byte and a truncated tail in a file of a prepared folder. `words` must be in the error of `verb`.
#[track_caller]
fn check_damage(home: &Home, file: &Path, verb: &[&str], code: i32, words: &[&str]) {
    let whole = std::fs::read(file).expect("there");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() - 7]] {
        let name = file.strip_prefix(home.path()).expect("in the home").to_string_lossy().into_owned();
        put(home, &name, damaged);
        home.run(verb).assert_fails(code, words);
        put(home, &name, &whole);
    }
}

#[test]
fn a_damaged_manifest_shard_or_vocabulary_is_named() {
    let home = Home::prepared(60);
    let data = home.join("data");
    let inspect = ["inspect", "batch", "0", "--set", "run.folder=run"];
    check_damage(&home, &data.join("manifest.json"), &inspect, 1, &["manifest.json"]);
    check_damage(&home, &data.join("vocab/00000.parquet"), &inspect, 1, &["00000.parquet"]);
    let shard = files(&data).into_keys().find(|name| name.starts_with("train/")).expect("a shard");
    check_damage(&home, &data.join(&shard), &inspect, 1, &[&shard]);
    let before = folder_hash(&data);
    check_repair(&home, &data, &shard);
    assert_eq!(folder_hash(&data), before, "preparing again repairs");
}

fn check_repair(home: &Home, data: &Path, shard: &str) {
    let whole = std::fs::read(data.join(shard)).expect("there");
    put(home, &format!("data/{shard}"), &whole[..whole.len() - 7]);
    home.run_ok(&["prepare"]);
}

/// Runs `args` with a file size limit of `bytes`, which simulates a full disk.
pub(crate) fn run_on_a_small_disk(home: &Home, args: &[&str], bytes: u64) -> Outcome {
    let mut command = home.command(args);
    // SAFETY: setrlimit and signal are async-signal-safe and touch only the child.
    #[expect(unsafe_code, reason = "limits are set between fork and exec")]
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    Outcome::new(command.output().expect("the program starts"))
}

#[test]
fn a_full_disk_during_prepare_leaves_nothing_half_written() {
    let home = home();
    let small = run_on_a_small_disk(&home, &["prepare"], 2048);
    small.assert_fails(1, &["data", "free some space"]);
    assert!(!home.join("data/manifest.json").exists());
    assert!(files(&home.join("data")).keys().all(|name| !is_temporary(name)), "no temporary file is left");
    home.run_ok(&["prepare"]);
}

/// The same on a real file system of half a MiB, if the machine allows a user to mount one.
#[test]
fn a_full_file_system_during_prepare_leaves_nothing_half_written() {
    let home = Home::with_corpus(12_000);
    home.run_ok(&["tokenizer", "train"]);
    std::fs::create_dir(home.join("small")).expect("made");
    let allowed = Command::new("unshare").args(["-Urm", "true"]).output().is_ok_and(|output| output.status.success());
    if !allowed {
        return skip("a full file system: `unshare -Urm` is not allowed here; other tests use RLIMIT_FSIZE");
    }
    let inner = home.command(&["prepare", "--set", "prepare.folder=small/data", "--set", "prepare.part_bytes=100000"]);
    let quote = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let words: Vec<String> = std::iter::once(inner.get_program()).chain(inner.get_args()).map(quote).collect();
    let script = format!(
        "mount -t tmpfs -o size=512k tmpfs small || exit 99\n{}\necho code $?\nfind small -name '*.tmp' -o -name manifest.json",
        words.join(" ")
    );
    let output = Command::new("unshare").args(["-Urm", "sh", "-c", &script]).current_dir(home.path()).output();
    let outcome = Outcome::new(output.expect("unshare starts"));
    if outcome.code == Some(99) {
        return skip("a full file system: no tmpfs can be mounted here; other tests use RLIMIT_FSIZE");
    }
    assert_eq!(outcome.stdout.trim_end(), "code 1", "{outcome}");
    assert!(outcome.stderr.contains("free some space") && !outcome.stderr.contains("panicked"), "{outcome}");
}

mod runs {
    use super::*;

    const SHORT: [&str; 5] = ["train", "--set", "run.folder=run", "--set", "train.steps=20"];

    #[test]
    fn a_full_disk_during_a_checkpoint_keeps_the_one_before() {
        let home = Home::prepared(60);
        home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=20"]);
        let kept = files(&home.join("run/checkpoints"));
        let more = ["train", "--set", "run.folder=other", "--set", "train.steps=20"];
        run_on_a_small_disk(&home, &more, 20_000).assert_fails(1, &["other/checkpoints", "free some space"]);
        assert!(!home.join("other/checkpoints/step-00000010/state.json").exists(), "no half of a checkpoint");
        home.run_ok(&more);
        let again = files(&home.join("other/checkpoints"));
        assert_eq!(again.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    }

    #[test]
    fn damaged_checkpoint_is_set_aside_with_a_warning_and_the_previous_is_used() {
        let home = Home::prepared(60);
        home.run_ok(&SHORT);
        let newest = home.join("run/checkpoints/step-00000020");
        let expected = std::fs::read(newest.join("main.safetensors")).expect("weights");
        for file in ["main.safetensors", "optimizer.safetensors", "state.json"] {
            for cut in [true, false] {
                let mut bytes = std::fs::read(newest.join(file)).expect("there");
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                bytes.truncate(if cut { middle } else { bytes.len() });
                put(&home, &format!("run/checkpoints/step-00000020/{file}"), &bytes);
                let outcome = home.run_ok(&SHORT);
                let named = format!("step-00000020/{file}");
                assert!(outcome.stderr.contains(&named) && outcome.stderr.contains("damaged"), "{outcome}");
                assert!(outcome.stderr.contains("continuing after step 10"), "{outcome}");
                let again = std::fs::read(newest.join("main.safetensors")).expect("trained again");
                assert!(again == expected, "the same weights, after {file} was damaged");
            }
        }
    }

    #[test]
    fn run_without_a_valid_checkpoint_does_not_restart() {
        let home = Home::prepared(60);
        home.run_ok(&SHORT);
        for step in ["10", "20"] {
            put(&home, &format!("run/checkpoints/step-000000{step}/main.safetensors"), b"garbage");
        }
        let before = files(&home.join("run"));
        home.run(&SHORT).assert_fails(1, &["no checkpoint of it is whole", "step-00000010/main", "run.folder"]);
        assert!(files(&home.join("run")) == before, "the log and the checkpoints are unchanged");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let home = home();
    put(&home, "a.txt", "Anna read the newspaper.\n".repeat(30).as_bytes());
    prepare(&home, "a.txt", "text_lines", &["prepare.folder=/proc/x/y"]).assert_fails(1, &["/proc/x"]);
}

#[test]
fn too_long_document_is_skipped_if_configured() {
    let home = home();
    let long = "Anna read the newspaper. ".repeat(100);
    put(&home, "a.txt", format!("{}{long}\n", "Anna read the newspaper.\n".repeat(30)).as_bytes());
    let outcome = prepare(&home, "a.txt", "text_lines", &["prepare.max_document_bytes=1000"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("1 × too_long") && outcome.stdout.contains(" 30 documents"), "{outcome}");
    assert!(outcome.stderr.contains("a.txt:31"), "with its place: {outcome}");
}
