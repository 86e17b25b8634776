//! Inputs from public bug reports of people who do this job with other programs. Each test names the report.

use std::io::Write as _;

use serde_json::Value;
use testkit::Home;

use crate::faults::{home, prepare, put};

const LINE: &str = "{\"text\": \"Anna read the newspaper.\"}\n";

fn read_json(home: &Home, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.join(name)).expect(name)).expect("JSON")
}

/// Returns the number of documents and the counts of rejected lines of the folder `data`.
fn counts(home: &Home) -> (u64, Value) {
    let corpus = &read_json(home, "data/manifest.json")["content"]["dataset_versions"][0]["corpus"];
    (corpus["documents"].as_u64().expect("a number"), corpus["rejected"].clone())
}

/// zlib#984: decoders that stop after the first member. Archives and block devices pad files with zeros.
#[test]
fn all_members_of_a_compressed_file_are_read_and_padding_is_not() {
    let home = home();
    let member = |lines: usize| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(LINE.repeat(lines).as_bytes()).and_then(|()| encoder.finish()).expect("memory")
    };
    put(&home, "in/a.jsonl.gz", &[member(7), member(8), vec![0; 512]].concat());
    let frame = |lines: usize| zstd::encode_all(LINE.repeat(lines).as_bytes(), 3).expect("memory");
    let skippable = [&b"\x50\x2a\x4d\x18\x04\0\0\0"[..], b"abcd"].concat();
    put(&home, "in/b.jsonl.zst", &[skippable.clone(), frame(9), skippable, frame(6)].concat());
    assert_eq!(prepare(&home, "in", "jsonl", &[]).code, Some(0));
    assert_eq!(counts(&home).0, 30);
}

/// datasets#7222: a field that is always null in one file, and text in another.
#[test]
fn a_field_that_is_null_in_one_file_is_text_in_the_next() {
    let home = home();
    put(&home, "in/a.jsonl", "{\"id\": null, \"text\": \"Anna read.\"}\n".repeat(20).as_bytes());
    put(&home, "in/b.jsonl", "{\"id\": \"x\", \"text\": \"Anna ate.\"}\n{\"text\": \"Anna slept.\"}\n".as_bytes());
    assert_eq!(prepare(&home, "in", "jsonl", &[]).code, Some(0));
    assert_eq!(counts(&home), (22, serde_json::json!({})));
}

/// torchtext#563: the text is in an object within the object, and no option reaches it.
#[test]
fn text_in_an_inner_object_has_a_way_out() {
    let home = home();
    put(&home, "in/a.jsonl", "{\"meta\": {\"text\": \"Anna read.\"}}\n".repeat(20).as_bytes());
    let words = ["they have `meta`", "jq -c '{text: .meta.text}'"];
    prepare(&home, "in", "jsonl", &["prepare.text_field=meta.text"]).assert_fails(2, &words);
}

/// transformers#860, SudachiTra#64: a line of a vocabulary may be empty or a line separator of Unicode, and counts.
#[test]
fn each_line_of_a_vocabulary_has_a_number() {
    let home = Home::with_corpus(20);
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let letters = ('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    let lines: Vec<String> = special.map(str::to_owned).into_iter().chain(letters).collect();
    let ids = |separator: &str, extra: &[&str]| {
        let (before, after) = lines.split_at(20);
        let all = [before.join(separator), extra.join(separator), after.join(separator)].join(separator);
        home.write("vocab.txt", &(all + separator));
        home.run_ok(&["prepare", "--set", "prepare.tokenizer=vocab.txt", "--set", "prepare.lowercase=true"]);
        let ids = read_json(&home, "data/tokenizer.json")["model"]["vocab"]["z"].clone();
        std::fs::remove_dir_all(home.join("data")).expect("prepared");
        ids.as_u64().expect("an id")
    };
    let plain = ids("\n", &["!"]);
    assert_eq!(plain, 56);
    assert_eq!(ids("\r\n", &["!"]), plain, "line ends of Windows");
    assert_eq!(ids("\n", &["\u{2028}"]), plain, "a line separator is a token");
    assert_eq!(ids("\n", &["!", ""]), plain + 1, "an empty line counts");
}

/// arrow-rs#4454, polars#23292: names that are not what they are in an address.
#[test]
fn names_of_files_are_no_addresses() {
    let home = home();
    let names = ["a b", "c%20d", "e#f", "g?h", "i[0]", "j{k}", "l@m=1", "n+o", "p'q\"r", "s:t", "\u{e9}", "e\u{301}"];
    for name in names {
        put(&home, &format!("in/{name}.jsonl"), LINE.repeat(2).as_bytes());
    }
    assert_eq!(prepare(&home, "in", "jsonl", &[]).code, Some(0));
    assert_eq!(counts(&home).0, 2 * names.len() as u64);
    home.run_ok(&["verify", "data"]);
    let again = prepare(&home, "in", "jsonl", &[]);
    assert!(again.stdout.contains("nothing to do"), "{again}");
    for name in names {
        let outcome =
            prepare(&home, &format!("in/{name}.jsonl").replace('"', "\\\""), "jsonl", &["prepare.folder=one"]);
        assert_eq!(outcome.code, Some(0), "{outcome}");
        std::fs::remove_dir_all(home.join("one")).expect("prepared");
    }
}

/// dolma#176, transformers#22490: text that spells a special token becomes that token, without a word.
#[test]
fn special_tokens_that_the_text_spells_are_counted() {
    let home = Home::with_corpus(80);
    home.run_ok(&["tokenizer", "train"]);
    let quiet = home.run_ok(&["prepare"]);
    assert!(!quiet.stdout.contains("special token"), "{quiet}");
    home.write("corpus/4.txt", "Anna wrote [MASK] and [SEP] and [MASK] on the page.\n");
    let outcome = home.run_ok(&["prepare", "--set", "prepare.folder=spelled", "--set", "prepare.valid_fraction=0"]);
    let expected =
        "warning: the text spells special tokens, which become their ids and are never masked: 2 `[MASK]`, 1 `[SEP]`";
    assert!(outcome.stdout.contains(expected), "{outcome}");
}

/// Rewrites the names of the tensors of a safetensors file.
fn rename_tensors(path: &std::path::Path, rename: impl Fn(&str) -> String) {
    let bytes = std::fs::read(path).expect("there");
    let (length, rest) = bytes.split_first_chunk().expect("8 bytes");
    let (header, tensors) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).expect("short"));
    let header: serde_json::Map<String, Value> = serde_json::from_slice(header).expect("JSON");
    let name = |name: String| if name == "__metadata__" { name } else { rename(&name) };
    let header: serde_json::Map<String, Value> = header.into_iter().map(|(key, value)| (name(key), value)).collect();
    let header = serde_json::to_vec(&header).expect("JSON");
    let folder = store::Store::folder(path.parent().expect("a folder")).expect("there");
    let bytes = [&(header.len() as u64).to_le_bytes(), &header[..], tensors].concat();
    folder.put("model.safetensors", &bytes).expect("a test can write");
}

/// pytorch#101107: `torch.compile` and `DataParallel` save names with their prefixes.
#[test]
fn weights_of_wrapped_models_are_read_and_foreign_names_are_refused_by_the_plan() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=3"]);
    home.run_ok(&["export", "run", "--out", "model"]);
    let set = ["--set", "train.init_from=model", "--set", "train.steps=2", "--set", "report.every_steps=1"];
    let start = |run: &str| {
        let folder = format!("run.folder={run}");
        home.run_ok(&[&["train", "--set", &folder][..], &set].concat());
        let reports = home.log(run).into_iter().filter(|event| event["kind"] == "report");
        reports.map(|report| report["loss"].clone()).collect::<Vec<_>>()
    };
    let expected = start("plain");
    let weights = home.join("model/model.safetensors");
    rename_tensors(&weights, |name| format!("_orig_mod.module.{name}"));
    assert_eq!(start("wrapped"), expected);
    rename_tensors(&weights, |name| format!("student.{name}"));
    let outcome = home.run(&[&["plan", "--set", "run.folder=other"][..], &set].concat());
    outcome.assert_fails(2, &["has no `bert.embeddings.word_embeddings.weight`", "`student.", "`save_pretrained`"]);
}

const SETTINGS: [&str; 8] = ["--epochs", "1", "--max-seq-len", "32", "--batch-size", "8", "--set", "train.threads=1"];

/// Fine-tunes a trained run on the task file `task.toml` with the files in `task/`.
fn finetune(home: &Home, task: &str) -> testkit::Outcome {
    home.write("task.toml", task);
    home.run(&[&["finetune", "task", "--task", "task.toml", "--from", "run", "--out", "out"], &SETTINGS[..]].concat())
}

fn trained() -> Home {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=2"]);
    home
}

/// bert#652, cellxgene#1115: labels are names, or numbers that a table program wrote as `1.0`.
#[test]
fn labels_that_were_not_declared_have_a_way_out() {
    let home = trained();
    let task = "kind = \"custom_classification\"\ntext = \"text\"\n";
    let files = "[files]\ntrain = \"train.tsv\"\ndev = \"dev.tsv\"\n";
    let rows = "Anna ate.\t1.0\nPeter ate.\t0.0\n".repeat(8);
    for name in ["train", "dev"] {
        home.write(&format!("task/{name}.tsv"), &format!("text\tlabel\n{rows}"));
    }
    let outcome = finetune(&home, &format!("{task}{files}"));
    outcome.assert_fails(2, &[".tsv:2: column `label`: unknown label `1.0`", "`0`, `1`", "the key `labels`"]);
    let outcome = finetune(&home, &format!("{task}labels = [\"0.0\", \"1.0\"]\n{files}"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

/// dbmdz/berts#48: the tokenizer deletes a word entirely, and the labels of the words after it move.
#[test]
fn a_word_without_tokens_keeps_its_place_in_word_labels() {
    let home = trained();
    let sentence = "Anna B-X\n\u{200b}\u{e059} O\nate O\nbread B-X\n\n";
    for name in ["train", "dev"] {
        home.write(&format!("task/{name}.txt"), &sentence.repeat(16));
    }
    let task = "kind = \"custom_token_classification\"\nlabels = [\"O\", \"B-X\", \"I-X\"]\n";
    let outcome = finetune(&home, &format!("{task}[files]\ntrain = \"train.txt\"\ndev = \"dev.txt\"\n"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let predictions = std::fs::read_to_string(home.join("out/run/predictions/dev.txt")).expect("predicted");
    let words: Vec<&str> = predictions.lines().take(5).map(|line| line.split('\t').next().expect("a word")).collect();
    assert_eq!(words, ["Anna", "\u{200b}\u{e059}", "ate", "bread", ""]);
}

/// argilla#5729, doccano#2484: offsets of answers count UTF-16 units; one question id occurs twice.
#[test]
fn offsets_in_other_units_and_repeated_ids_of_questions_are_refused() {
    let home = trained();
    let question = |id: &str, passage: &str, start: usize| {
        let answer = serde_json::json!({ "text": "bread", "answer_start": start });
        let question = serde_json::json!({ "id": id, "question": "What?", "answers": [answer] });
        serde_json::json!({ "title": "t", "paragraphs": [{ "context": passage, "qas": [question] }] })
    };
    let write = |articles: &[Value]| {
        for name in ["train-v1.1", "dev-v1.1"] {
            home.write(&format!("task/{name}.json"), &serde_json::json!({ "data": articles }).to_string());
        }
        home.run(&[&["finetune", "task", "--task", "squad", "--from", "run", "--out", "out"], &SETTINGS[..]].concat())
    };
    let emoji = "\u{1f600}\u{1f600} Anna ate bread";
    let words = ["question `b`", "`bread` is not at offset 14", "code points"];
    write(&[question("a", "Anna ate bread", 9), question("b", emoji, 14)]).assert_fails(2, &words);
    let words = ["the question id `a` occurs twice"];
    write(&[question("a", "Anna ate bread", 9), question("a", emoji, 12)]).assert_fails(2, &words);
    let outcome = write(&[question("a", "Anna ate bread", 9), question("b", emoji, 12)]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}
