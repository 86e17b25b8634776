//! Refused requests, which must leave the folder unchanged.

use super::dataset_versions::check_fresh;
use super::dataset_versions::many;
use super::dataset_versions::text;
use super::*;

#[test]
fn a_folder_prepared_otherwise_is_refused_with_what_differs() {
    let home = Home::new();
    home.run().expect("prepared");
    let before = home.data();
    let refused = |config: &PrepareConfig, expected: &[&str]| {
        let Err(Error::Config(message)) = prepare(config) else { panic!("not refused: {expected:?}") };
        let expected = expected.iter().chain(&["name another `prepare.folder`"]);
        expected.for_each(|word| assert!(message.contains(word), "`{word}` is missing in {message}"));
        assert!(home.data() == before, "nothing was touched");
    };
    let config = || home.config.clone();
    refused(&PrepareConfig { max_seq_len: 32, ..config() }, &["`max_seq_len` = 16, now 32"]);
    refused(
        &PrepareConfig { valid_fraction: 0.1, zstd_level: 2, ..config() },
        &["`valid_fraction` = 0.3, now 0.1", "`zstd_level`"],
    );
    refused(&PrepareConfig { packing: packing("taco"), ..config() }, &["`packing` = \"block\", now \"taco\""]);
    refused(&PrepareConfig { lowercase: Some(false), ..config() }, &["`tokenizer`"]);
    refused(&PrepareConfig { format: format("text_paragraphs"), ..config() }, &["`format`", "text_lines"]);
    refused(&PrepareConfig { part_bytes: Some(700), ..config() }, &["part_bytes"]);
    refused(&PrepareConfig { segment_bytes: 700, seed: 1, ..config() }, &["`segment_bytes`", "`seed` = 0, now 1"]);
    write_all(home.folder.path(), &[("other/9.txt", "the mat")]);
    let inputs = vec![home.folder.path().join("other").display().to_string()];
    refused(&PrepareConfig { inputs, ..config() }, &["none of its 3", "0.txt"]);
    let elsewhere = PrepareConfig { workers: Some(3), max_memory_bytes: 1 << 30, max_bad_lines: Some(5), ..config() };
    assert!(prepare(&elsewhere).expect("these decide no byte").nothing_to_do);
}

#[test]
fn a_held_folder_is_refused_until_it_is_free() {
    let home = Home::new();
    fs::create_dir(&home.config.folder).expect("made");
    let store = Store::folder(&home.config.folder).expect("made");
    let held = Lock::acquire(&store, LOCK, store::Holder::this_process(), store::LeaseConfig::default()).expect("free");
    let error = home.run().expect_err("held").to_string();
    assert!(error.contains("data/lock: locked by pid"), "{error}");
    drop(held);
    home.run().expect("free again");
}

#[test]
fn a_corpus_without_documents_leaves_nothing() {
    let home = Home::new();
    write_all(home.folder.path(), &[("empty/a.txt", "\n\n"), ("empty/b.txt", "")]);
    let config =
        PrepareConfig { inputs: vec![home.folder.path().join("empty").display().to_string()], ..home.config.clone() };
    let error = prepare(&config).expect_err("nothing there");
    assert!(matches!(&error, Error::UnusableCorpus(message) if message.contains("no valid document")), "{error}");
    assert!(files(&config.folder).is_empty(), "{:?}", files(&config.folder).keys());
}

#[test]
fn too_many_bad_records_are_refused_every_time() {
    let home = Home::new();
    let dirty = [&b"the cat\n".repeat(90)[..], &b"caf\xe9\n".repeat(11)].concat();
    write_all(home.folder.path(), &[("in/dirty.txt", dirty)]);
    // In the second run the parts exist, and the error is the same.
    for bound in [None, None, Some(3)] {
        let error = prepare(&PrepareConfig { max_bad_lines: bound, ..home.config.clone() }).expect_err("too dirty");
        let Error::UnusableCorpus(message) = &error else { panic!("{error}") };
        // A configured limit fails before the rest is read, so the first lines of the file are not known.
        let words: &[&str] = match bound {
            None => &[
                "11 of 341 lines",
                "invalid_utf8 11",
                "in/dirty.txt:91",
                "`prepare.encoding`",
                "`prepare.max_bad_lines`",
            ],
            Some(_) => &["invalid_utf8", "in/dirty.txt", "`prepare.max_bad_lines`"],
        };
        for word in words {
            assert!(message.contains(word), "`{word}` is missing in {message}");
        }
        assert!(!home.config.folder.join("manifest.json").exists());
    }
    let summary = prepare(&PrepareConfig { max_bad_lines: Some(11), ..home.config.clone() }).expect("allowed");
    assert_eq!(summary.corpus.rejected, BTreeMap::from([("invalid_utf8".to_owned(), 11)]));
    assert_eq!(summary.corpus.documents, 341, "repaired, not thrown away");
}

#[test]
fn a_folder_of_the_first_format_is_refused_with_the_way_on() {
    let home = many();
    let first: [(&str, &str); 2] = [("manifest.json", "{\"version\": 1}\n"), ("parts/part-00000.json", "{}")];
    for (index, word) in [(0, "format 1"), (1, "before 3")] {
        let _ = fs::remove_dir_all(&home.config.folder);
        write_all(&home.config.folder, &first[index..=index]);
        let Err(Error::Config(message)) = home.run() else { panic!("not refused") };
        assert!(message.contains(word) && message.contains("name another `prepare.folder`"), "{message}");
        assert_eq!(home.data().len(), 1, "nothing was touched");
    }
}

/// Manifest of a later program version with lists that this one can read.
#[test]
fn a_folder_of_a_later_format_is_not_written_over() {
    let home = many();
    home.run().expect("prepared");
    let manifest = String::from_utf8(home.data()["manifest.json"].clone()).expect("JSON");
    write_all(&home.config.folder, &[("manifest.json", manifest.replacen("\"version\": 3", "\"version\": 4", 1))]);
    let before = home.data();
    let Err(Error::Config(message)) = home.run() else { panic!("not refused") };
    assert!(message.contains("prepared in format 4"), "{message}");
    assert!(home.data() == before, "nothing was touched");
}

#[test]
fn a_corpus_that_was_emptied_takes_nothing_that_was_published_with_it() {
    let home = many();
    home.run().expect("prepared");
    let before = home.data();
    (0..40).for_each(|file| home.put(file, "\n"));
    for _ in 0..2 {
        assert!(matches!(home.run().expect_err("nothing is left"), Error::UnusableCorpus(_)));
        let after = home.data();
        assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{:?}", after.keys());
    }
    (0..40).for_each(|file| home.put(file, &text(file, 6)));
    assert_eq!(home.run().expect("it is there again").corpus.documents, 240);
    check_fresh(&home);
}

#[test]
fn the_last_document_is_not_forgotten_by_a_folder_of_nothing() {
    let home = Home::new();
    fs::remove_dir_all(home.folder.path().join("in")).expect("there");
    write_all(home.folder.path(), &[("in/a.txt", "the cat\nthe mat\n"), ("in/b.txt", "the mat\n")]);
    home.run().expect("prepared");
    let forget = |text: &str| home.forget(&Document::digest(text));
    assert_eq!(forget("the cat").expect("forgotten").0.corpus.documents, 2);
    let before = home.data();
    let error = forget("the mat").expect_err("the others are the same text");
    assert!(
        matches!(&error, Error::Config(message) if message.contains("no other document") && message.contains("runs that read it")),
        "{error}"
    );
    assert!(home.data() == before, "nothing was touched");
}

/// Otherwise part numbers would be reused and forgotten documents would return.
#[test]
fn a_lost_list_is_missed() {
    let (home, list, bytes) = of_two_versions();
    fs::remove_file(&list).expect("there");
    let before = home.data();
    let error = home.run().expect_err("a list is missing").to_string();
    assert!(error.contains("versions/00001.json: it is missing") && home.data() == before, "{error}");
    put_list(&home, 1, &bytes);
    assert!(home.run().expect("as it was").nothing_to_do);
}

/// Settings of a program version with fewer keys, all of which change no bytes: the parts are valid.
#[test]
fn folder_without_a_neutral_key_is_continued() {
    let home = many();
    home.run().expect("prepared");
    let store = home.store();
    let lists = VersionLists::read(&home.store()).expect("readable");
    let mut list = serde_json::to_value(lists.iter().next().expect("a list")).expect("JSON");
    list["settings"].as_object_mut().expect("a table").remove("id_field").expect("a key");
    let list: part_list::PartList = serde_json::from_value(list).expect("a list");
    store.put(&part_list::file_name(0), &schemas::Sealed::seal(&list)).expect("written");
    for entry in store.list("parts").expect("answered") {
        let mut record: commit_record::CommitRecord =
            schemas::Sealed::unseal(&store.get(&entry.name).expect("there")).expect("a record");
        record.settings = list.settings.digest();
        store.put(&entry.name, &schemas::Sealed::seal(&record)).expect("written");
    }
    let summary = home.run().expect("the same settings");
    assert!(summary.nothing_to_do, "{summary:?}");
    let other = PrepareConfig { encoding: Some("latin1".into()), ..home.config.clone() };
    assert!(
        prepare(&other).expect_err("other bytes").to_string().contains("`encoding` = not set, now \"windows-1252\"")
    );
}

/// Opening a pipe would block forever, and reading a device would fill the memory.
#[test]
fn non_files_among_the_objects_are_named_and_not_opened() {
    for name in ["parts/part-00002-00.json", "manifest.json", "versions/00000.json"] {
        let home = many();
        home.run().expect("prepared");
        let whole = home.data();
        let path = home.config.folder.join(name);
        for kind in 0..3 {
            let _ = fs::remove_file(&path);
            match kind {
                0 => assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("it runs").success()),
                1 => std::os::unix::fs::symlink("/dev/zero", &path).expect("linked"),
                _ => fs::create_dir(&path).expect("made"),
            }
            match home.run() {
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
                // A record that is no file counts as missing, and the segment is made again.
                Ok(summary) => {
                    assert!(name.starts_with("parts") && kind < 2, "{name} is no file: {kind}");
                    assert!(summary.parts_made == 1 && home.data() == whole);
                }
            }
            if path.is_dir() {
                fs::remove_dir(&path).expect("empty");
            }
        }
        // The fix: remove the file and run again.
        let _ = fs::remove_file(&path);
        write_all(&home.config.folder, &[(name, &whole[name])]);
        assert!(home.run().expect("as it was").nothing_to_do && home.data() == whole);
    }
}

#[test]
fn a_file_where_the_folder_is_to_be_is_named() {
    let home = Home::new();
    write_all(home.folder.path(), &[("data", "a file")]);
    let error = home.run().expect_err("a file");
    assert!(matches!(&error, Error::Config(message) if message.contains("another `prepare.folder`")), "{error}");
    prepare(&home.config("elsewhere", 1)).expect("the way out");
}

#[test]
fn forgetting_waits_for_what_is_to_be_prepared() {
    let home = many();
    let id = Document::digest(text(7, 6).lines().nth(2).expect("a line"));
    let refused = |word: &str| {
        let error = home.forget(&id).expect_err("not yet").to_string();
        assert!(error.contains(word) && error.contains("run `cloze prepare`"), "{error}");
        home.run().expect("the way out");
    };
    refused("no prepared corpus here");
    home.put(77, &text(77, 9));
    refused("the corpus has changed (1 file added");
    fs::remove_file(home.config.folder.join("parts/part-00003-00.json")).expect("there");
    refused("part 3 is not there");
    home.forget(&id).expect("forgotten");
}

/// Prepares twice, each time with more files, and returns the home with the bytes of the newest list.
fn of_two_versions() -> (Home, std::path::PathBuf, Vec<u8>) {
    let home = many();
    home.run().expect("prepared");
    home.put(77, &text(77, 9));
    home.run().expect("prepared");
    let list = home.config.folder.join("versions/00001.json");
    let bytes = fs::read(&list).expect("there");
    (home, list, bytes)
}

/// Writes the part list of a dataset version.
fn put_list(home: &Home, version: u32, bytes: &[u8]) {
    write_all(&home.config.folder, &[(format!("versions/{version:05}.json").as_str(), bytes)]);
}

#[test]
fn a_damaged_newest_list_is_remade() {
    let (home, list, bytes) = of_two_versions();
    let before = home.data();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for damage in [&b""[..], b"{", &flipped, &bytes[..bytes.len() / 2]] {
        put_list(&home, 1, damage);
        assert!(home.run().expect("it is remade").nothing_to_do);
        assert_eq!(fs::read(&list).expect("there"), bytes);
        assert!(home.data() == before, "nothing else has changed");
    }
}

#[test]
fn a_damaged_list_that_cannot_be_remade_is_named() {
    // The corpus has changed since.
    let (home, _, bytes) = of_two_versions();
    put_list(&home, 1, b"{");
    home.put(77, &text(78, 9));
    let error = home.run().expect_err("of another corpus").to_string();
    assert!(error.contains("versions/00001.json: not readable") && error.contains("restore the original"), "{error}");
    home.put(77, &text(77, 9));
    // An older list.
    put_list(&home, 1, &bytes);
    put_list(&home, 0, b"{");
    let error = home.run().expect_err("an older one").to_string();
    assert!(error.contains("versions/00000.json: not readable"), "{error}");
    // A document must stay forgotten.
    let (home, _, _) = of_two_versions();
    let document = text(77, 9);
    home.forget(&Document::digest(document.lines().next().expect("a line"))).expect("forgotten");
    put_list(&home, 2, b"{");
    let error = home.run().expect_err("a list that forgets").to_string();
    assert!(error.contains("versions/00002.json: not readable"), "{error}");
}
