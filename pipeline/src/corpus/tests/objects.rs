//! Corpora in object stores: the same documents as from files, few requests, and changes that are detected.

use std::fs;

use store::{FaultConfig, MemoryBackend};

use super::*;
use crate::Error;
use crate::corpus::object::StoredObject;

fn at_url(home: &Path, below: &str) -> String {
    format!("file://{}{below}", home.display())
}

/// Returns the names of the files and of the skipped paths.
fn found(inputs: &[String]) -> Result<(Vec<String>, Option<String>)> {
    let cut = config(Path::new(""), format("text_lines"), None);
    let corpus = Corpus::open(&CorpusConfig { inputs: inputs.to_vec(), ..cut.config })?;
    let names = corpus.files().iter().map(|file| file.name.clone()).collect();
    Ok((names, corpus.skipped_files().description()))
}

#[test]
fn objects_have_the_documents_of_files() {
    for format in AnyFormat::examples() {
        let example = format.example();
        let home = tempfile::tempdir().expect("a temporary folder");
        let texts: Vec<String> = (0..2000).map(|index| format!("some words of number {index}")).collect();
        let bytes = (example.write)(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let extension = format.extensions()[0];
        let files = [format!("a/x.{extension}"), format!("y.{extension}.zst"), format!("z.{extension}")];
        for name in &files[..2] {
            write_all(home.path(), &[(name.as_str(), &bytes)]);
        }
        write_all(home.path(), &[(files[2].as_str(), &example.dirty)]);
        let local = config(home.path(), format.clone(), Some(4000));
        let inputs = vec![at_url(home.path(), "/")];
        let remote = Cut { config: CorpusConfig { inputs, ..local.config.clone() }, ..local };
        let of = |cut: &Cut| read(cut).expect("readable");
        let local = Cut { config: local.config, ..local };
        assert!(of(&local) == of(&remote), "{extension}");
        assert!(of(&local).0.len() >= 2 * texts.len() - 1 || format.kind() == "text", "{extension}");
        let pieces = |cut: &Cut| parts(&Corpus::open(&cut.config).expect("found"), 4000).expect("cut");
        assert_eq!(pieces(&local), pieces(&remote), "{extension}");
    }
}

#[test]
fn a_url_names_an_object_a_prefix_or_a_glob() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let files = [
        "a/x.txt",
        "a/b/y.txt.gz",
        "a/.hidden/z.txt",
        "a/w.bin",
        "c.txt",
        "run/checkpoints/s.txt",
        "run/log/l.txt",
        "a/data/versions/v.txt",
        "a/data/parts/p.txt",
        "a/data/train/t.txt",
    ];
    write_all(home.path(), &files.map(|name| (name, "1")));
    let names = |below: &[&str]| found(&below.iter().map(|below| at_url(home.path(), below)).collect::<Vec<_>>());
    let (all, skipped) = names(&["/"]).expect("found");
    assert_eq!(all, ["a/b/y.txt.gz", "a/x.txt", "c.txt"]);
    let skipped = skipped.expect("something");
    assert!(skipped.contains("2 folders that `cloze` wrote") && skipped.contains("1 `*.bin`"), "{skipped}");
    assert_eq!(names(&["/a"]).expect("found").0, ["b/y.txt.gz", "x.txt"], "without a slash");
    assert_eq!(names(&["/a/x.txt"]).expect("found").0, ["x.txt"]);
    assert_eq!(names(&["/a/w.bin"]).expect("found").0, ["w.bin"], "a named object is taken");
    assert_eq!(names(&["/*/*.txt"]).expect("found").0, ["a/x.txt"]);
    assert_eq!(names(&["/**/*.gz", "/c.txt"]).expect("found").0, ["a/b/y.txt.gz", "c.txt"]);
    assert_eq!(names(&["/a/b/", "/a/"]).expect("found").0, ["b/y.txt.gz", "x.txt"], "the longest name");
    for (below, expected) in [("/a/*.zip", "no input here"), ("/a/data/", "no input here"), ("/none", "prepare.inputs")]
    {
        let error = names(&[below]).expect_err("nothing there").to_string();
        assert!(error.contains(expected) && error.contains(&at_url(home.path(), below)), "{error}");
    }
}

#[test]
fn a_check_and_the_corpus_share_a_listing_and_the_next_corpus_sees_changes() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("x.txt", "1")]);
    let inputs = vec![at_url(home.path(), "/")];
    assert_eq!(FileExtensions::detect(&inputs).format().map(|format| format.kind()), Some("text"));
    write_all(home.path(), &[("y.txt", "1")]);
    assert_eq!(found(&inputs).expect("found").0, ["x.txt"], "as the check saw it");
    assert_eq!(found(&inputs).expect("found").0, ["x.txt", "y.txt"]);
}

#[test]
fn an_object_that_changes_or_vanishes_is_refused() {
    let text = "a line\n".repeat(100);
    for change in ["other bytes", "longer", "shorter", "gone"] {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("x.txt", &text)]);
        let cut = config(home.path(), format("text_lines"), None);
        let corpus =
            Corpus::open(&CorpusConfig { inputs: vec![at_url(home.path(), "/")], ..cut.config }).expect("found");
        let parts = parts(&corpus, 1 << 20).expect("cut");
        match change {
            "other bytes" => write_all(home.path(), &[("x.txt", text.to_uppercase())]),
            "longer" => write_all(home.path(), &[("x.txt", text.clone() + "more")]),
            "shorter" => write_all(home.path(), &[("x.txt", &text[..70])]),
            _ => fs::remove_file(home.path().join("x.txt")).expect("ours"),
        }
        let mut documents = documents(&corpus, &parts[0]).expect("nothing is opened yet");
        let error = documents.find_map(Result::err).expect("it is another").to_string();
        let expected = if change == "gone" { "prepare.inputs" } else { "it changed after the preparation began" };
        assert!(error.contains(expected) && error.contains("x.txt"), "{change}: {error}");
    }
}

/// A store that fails is no damage of the object, also below a decoder: a scheduler tries again.
#[test]
fn a_failing_store_is_no_damaged_object() {
    let text: String = (0..60_000)
        .map(|line| blake3::hash(&[u8::try_from(line % 251).expect("below 256")]).to_string() + "\n")
        .collect();
    for extension in ["txt", "txt.gz", "txt.zst", "txt.bz2", "txt.xz", "txt.lz4"] {
        let name = format!("a.{extension}");
        let memory = MemoryBackend::new(FaultConfig::none());
        let store = Store::from_memory(&memory);
        store.put(&name, &crate::testing::compressed(&name, text.as_bytes())).expect("written");
        let stat = store.head(&name).expect("answered").expect("there");
        let broken = Store::from_memory(&memory.with_faults(FaultConfig { failures: 1.0, ..FaultConfig::none() }));
        let object = StoredObject::new(broken, name.clone());
        let file = InputFile::from_object(format!("s3://bucket/{name}").into(), name.clone(), object, &stat);
        let reading = config(Path::new(""), format("text_lines"), None).config.reading;
        let read = || {
            let mut reader = format("text_lines").open(&file, &(0..file.bytes), &reading)?;
            while reader.next(&mut RecordBuffers::default())?.is_some() {}
            Ok(())
        };
        let error: Error = read().expect_err("no request succeeds");
        assert!(matches!(error, Error::Corpus { .. }), "{extension}: {error}");
        assert!(error.to_string().contains("run the same command again"), "{extension}: {error}");
    }
}

#[test]
fn a_parquet_object_takes_one_request_per_row_group_and_one_for_its_end() {
    for (words, expected) in [(1, 1), (1000, 4)] {
        // Words that do not compress.
        let word = |index: usize| blake3::hash(&index.to_le_bytes()).to_hex()[..16].to_owned();
        let text = |index: usize| (0..words).map(|at| word(index * words + at)).collect::<Vec<_>>().join(" ");
        let texts: Vec<String> = (0..60).map(text).collect();
        let bytes = contract::parquet_file(&texts.iter().map(|text| Some(text.as_str())).collect::<Vec<_>>(), 20);
        let memory = MemoryBackend::new(FaultConfig { failures: 0.2, seed: 3, ..FaultConfig::none() });
        let store = Store::from_memory(&memory);
        store.put("a.parquet", &bytes).expect("written");
        let stat = store.head("a.parquet").expect("answered").expect("there");
        let object = StoredObject::new(store, "a.parquet".to_owned());
        let file = InputFile::from_object("s3://bucket/a.parquet".into(), "a.parquet".into(), object, &stat);
        let reading = config(Path::new(""), format("parquet"), None).config.reading;
        let before = memory.tally();
        let mut reader = format("parquet").open(&file, &(0..3), &reading).expect("opened");
        let mut found = Vec::new();
        while let Some(record) = reader.next(&mut RecordBuffers::default()).expect("read") {
            found.extend(record.document.map(|document| document.text));
        }
        assert!(found == texts, "{words} words");
        let after = memory.tally();
        assert_eq!((after.calls - before.calls) - (after.failed - before.failed), expected, "{} bytes", bytes.len());
    }
}
