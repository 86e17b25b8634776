//! Removal of duplicates: which documents stay, in every split of the work and after every interruption.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{ArrayAccessor as _, RecordBatch, StringArray};
use schemas::Sealed as _;

use super::*;
use crate::prepare::signatures::SignatureRecord;

/// Place of a document: number of its file and of its line.
type Place = (usize, usize);

/// Words of an unrelated document.
fn line(file: usize, line: usize) -> Vec<String> {
    let word = |at: usize| {
        let hash = Document::hash(&format!("{file} {line} {at}"));
        if hash.is_multiple_of(3) { "cat".to_owned() } else { (hash % 9973).to_string() }
    };
    (0..90).map(word).collect()
}

/// Six files of twelve documents. Each planted document is a copy of another one: the later of both is removed.
pub(super) fn planted() -> Home {
    let mut home = Home::new();
    fs::remove_dir_all(home.folder.path().join("in")).expect("there");
    let mut texts: Vec<Vec<String>> = (0..6).map(|file| (0..12).map(|at| line(file, at).join(" ")).collect()).collect();
    // Exact: in another file, in the same file, and three times.
    texts[2][3] = texts[0][5].to_uppercase().replace(' ', ", ");
    texts[1][7] = format!("“{}”!", texts[1][2]);
    texts[5][0] = texts[4][11].clone();
    texts[3][1] = texts[4][11].clone();
    // Near: one word of ninety is another.
    texts[3][4] = texts[0][8].replacen("cat", "hat", 1);
    texts[4][6] = texts[5][9].replacen("cat", "mat", 1);
    // Two documents that are shorter than a shingle.
    texts[0][0] = "Cat 1 2 3".to_owned();
    texts[2][0] = "cat 1 2, 3.".to_owned();
    texts[2][1] = "cat 1 2 4".to_owned();
    for (file, text) in texts.iter().enumerate() {
        write_all(home.folder.path(), &[(format!("in/{file}.txt").as_str(), text.join("\n"))]);
    }
    home.config.part_bytes = Some(1500);
    home.config.duplicates = Some(DuplicatesConfig::default());
    home
}

/// Places that the definition removes: exact duplicates, then near ones.
const EXACT: [Place; 5] = [(1, 7), (2, 0), (2, 3), (4, 11), (5, 0)];
const NEAR: [Place; 2] = [(3, 4), (5, 9)];

/// Returns the places of the documents in effect.
fn kept(home: &Home) -> BTreeSet<Place> {
    let mut kept = BTreeSet::new();
    let mut keep = |batch: &RecordBatch| {
        let starts = batch.column_by_name("start")?.as_primitive_opt::<UInt64Type>()?.values();
        let sources = batch.column_by_name("source")?.as_dictionary_opt::<Int32Type>()?;
        let sources = sources.downcast_dict::<StringArray>()?;
        for (row, start) in starts.iter().enumerate() {
            let source = sources.value(row);
            let text = fs::read_to_string(home.folder.path().join("in").join(source)).expect("there");
            let line = text[..usize::try_from(*start).expect("small")].matches('\n').count();
            let file = source.trim_end_matches(".txt").parse().expect("a number");
            assert!(kept.insert((file, line)), "{file}:{line} is there twice");
        }
        Some(())
    };
    document_table::each_table(&home.store(), |_| true, &["source", "start"], &mut keep).expect("readable");
    kept
}

fn everything() -> BTreeSet<Place> {
    (0..6).flat_map(|file| (0..12).map(move |line| (file, line))).collect()
}

fn removed(home: &Home) -> BTreeSet<Place> {
    everything().difference(&kept(home)).copied().collect()
}

fn expected() -> BTreeSet<Place> {
    EXACT.into_iter().chain(NEAR).collect()
}

#[test]
fn the_first_of_equal_documents_stays_whatever_the_order_of_the_parts() {
    let mut home = planted();
    for (seed, part_bytes) in [(0, 1500), (1, 1500), (2, 400), (3, 100_000)] {
        (home.config.seed, home.config.part_bytes) = (seed, Some(part_bytes));
        let _ = fs::remove_dir_all(&home.config.folder);
        let corpus = home.run().expect("prepared").corpus;
        assert_eq!(removed(&home), expected(), "seed {seed}, parts of {part_bytes}");
        let counts = corpus.duplicates;
        assert_eq!((counts.exact_documents, counts.near_documents), (EXACT.len() as u64, NEAR.len() as u64));
        let bytes = |places: &[Place]| -> u64 {
            let text = |file| fs::read_to_string(home.folder.path().join(format!("in/{file}.txt"))).expect("there");
            places.iter().map(|&(file, line)| text(file).lines().nth(line).expect("a line").len() as u64).sum()
        };
        assert_eq!((counts.exact_bytes, counts.near_bytes), (bytes(&EXACT), bytes(&NEAR)));
        assert_eq!(corpus.documents + counts.exact_documents + counts.near_documents, 72);
        assert!(corpus.rejected.is_empty(), "duplicates are no rejects");
    }
}

#[test]
fn each_kind_of_duplicate_can_stay() {
    let mut home = planted();
    home.config.duplicates = Some(DuplicatesConfig { near: false, ..DuplicatesConfig::default() });
    home.run().expect("prepared");
    assert_eq!(removed(&home), EXACT.into_iter().collect());
    fs::remove_dir_all(&home.config.folder).expect("there");
    home.config.duplicates = Some(DuplicatesConfig { exact: false, ..DuplicatesConfig::default() });
    let counts = home.run().expect("prepared").corpus.duplicates;
    // Equal documents with a shingle are near duplicates too.
    let short = BTreeSet::from([(2, 0)]);
    assert_eq!(removed(&home), expected().difference(&short).copied().collect());
    assert_eq!((counts.exact_documents, counts.near_documents), (0, 6));
    fs::remove_dir_all(&home.config.folder).expect("there");
    home.config.duplicates = None;
    home.run().expect("prepared");
    assert_eq!(kept(&home), everything());
    let extra = |name: &&String| name.starts_with("signatures/") || name.starts_with("verdicts/");
    assert_eq!(home.data().keys().filter(extra).count(), 0);
}

#[test]
fn comparisons_do_not_depend_on_the_workers_or_the_memory() {
    let home = planted();
    prepare(&home.config("one", 1)).expect("prepared");
    let expected = files(&home.folder.path().join("one"));
    assert!(expected.keys().filter(|name| name.starts_with("verdicts/part-")).count() > 10, "too few parts");
    prepare(&home.config("four", 4)).expect("prepared");
    assert!(files(&home.folder.path().join("four")) == expected);
    let options = PrepareOptions { in_order: true, ..PrepareOptions::default() };
    run(&home.config("ordered", 3), options, &Clock::still(), &mut Fanout::default()).expect("prepared");
    assert!(files(&home.folder.path().join("ordered")) == expected);
}

/// The disk fails after each number of writes. States between signatures and verdicts, and within the verdicts, occur.
#[test]
fn a_kill_costs_at_most_the_signatures_in_progress() {
    let home = planted();
    prepare(&home.config("whole", 1)).expect("prepared");
    let whole = files(&home.folder.path().join("whole"));
    let count = |files: &BTreeMap<String, Vec<u8>>, prefix: &str, suffix: &str| {
        files.keys().filter(|name| name.starts_with(prefix) && name.ends_with(suffix)).count()
    };
    let parts = count(&whole, "signatures/", ".json");
    let mut signing = 0;
    for writes in 1.. {
        let before = home.data();
        let outcome = home.run_interrupted(writes);
        let after = home.data();
        let names: Vec<_> = after.iter().filter(|(name, bytes)| whole.get(*name) != Some(*bytes)).collect();
        assert!(names.is_empty(), "half-written after {writes} writes");
        assert!(before.keys().all(|name| after.contains_key(name)), "what was committed stays");
        if outcome.is_ok() {
            break;
        }
        let signed = count(&after, "signatures/", ".json");
        let is_decided = after.contains_key("verdicts/00000.json");
        assert!(is_decided || count(&after, "parts/", "") == 0, "no part before the verdicts");
        signing += usize::from((1..parts).contains(&signed));
    }
    assert!(signing > 0, "no kill among the signatures");
    assert!(home.data() == whole);
    // Kills while verdicts are written, each from the same state.
    let undecided = || {
        let later = ["verdicts/", "parts/", "train/", "valid/", "documents/", "manifest.json"];
        for name in home.data().into_keys().filter(|name| later.iter().any(|at| name.starts_with(at))) {
            fs::remove_file(home.config.folder.join(name)).expect("there");
        }
    };
    let mut deciding: u32 = 0;
    for writes in 1.. {
        undecided();
        let _ = home.run_interrupted(writes);
        let after = home.data();
        if after.contains_key("verdicts/00000.json") {
            break;
        }
        if count(&after, "verdicts/", ".bin") > 0 {
            deciding += 1;
            home.run().expect("prepared");
            assert!(home.data() == whole, "after {writes} writes");
        }
        if deciding == 3 {
            break;
        }
    }
    assert!(deciding > 0, "no kill among the verdicts");
    home.run().expect("prepared");
    assert!(home.data() == whole);
    // A kill between the last signature and the first verdict.
    let written =
        |name: &str| fs::metadata(home.config.folder.join(name)).and_then(|stat| stat.modified()).expect("there");
    let signatures: Vec<&String> = whole.keys().filter(|name| name.starts_with("signatures/")).collect();
    let before: Vec<_> = signatures.iter().map(|name| written(name)).collect();
    for name in whole.keys().filter(|name| ["verdicts/", "parts/", "train/"].iter().any(|at| name.starts_with(at))) {
        fs::remove_file(home.config.folder.join(name)).expect("there");
    }
    home.run().expect("prepared");
    assert!(home.data() == whole);
    assert_eq!(signatures.iter().map(|name| written(name)).collect::<Vec<_>>(), before, "signatures are reused");
}

#[test]
fn lost_or_damaged_verdicts_are_made_again() {
    let home = planted();
    home.run().expect("prepared");
    let whole = home.data();
    let blob = "verdicts/part-00000.bin";
    for names in
        [vec!["verdicts/00000.json"], vec![blob], vec!["verdicts/00000.json", blob, "signatures/part-00001.bin"]]
    {
        for name in names {
            write_all(&home.config.folder, &[(name, "damaged")]);
        }
        assert_eq!(home.run().expect("repaired").parts_made, 0);
        assert!(home.data() == whole);
    }
}

#[test]
fn a_reader_of_a_growing_folder_waits_for_the_verdicts() {
    let home = planted();
    home.run().expect("prepared");
    let lists = PartLists::read(&home.store()).expect("readable").expect("there");
    let mut pending = lists.pending(DatasetVersion(0)).expect("announced");
    assert!(!pending.more().expect("readable").is_empty());
    assert_eq!(pending.done().0, pending.done().1);
    let verdicts = home.store().get("verdicts/00000.json").expect("there");
    home.store().delete("verdicts/00000.json").expect("deleted");
    let mut pending = lists.pending(DatasetVersion(0)).expect("announced");
    assert!(pending.more().expect("readable").is_empty());
    home.store().put("verdicts/00000.json", &verdicts).expect("written");
    assert!(!pending.more().expect("readable").is_empty());
}

#[test]
fn documents_of_earlier_versions_stay_and_new_ones_are_compared_with_them() {
    let home = planted();
    home.run().expect("prepared");
    let before = home.data();
    let copy = line(3, 9).join(" ");
    let near = line(2, 6).join(" ").replacen("cat", "hat", 1);
    // The file sorts before the others, and has a copy of a removed document too.
    let lines = [copy, near, line(77, 0).join(" "), line(77, 0).join("  "), line(1, 2).join(" ")];
    write_all(home.folder.path(), &[("in/00.txt", lines.join("\n"))]);
    let second = home.run().expect("prepared");
    assert!(second.change.is_some_and(|change| (change.added, change.dropped) == (1, 0)), "{second:?}");
    let after = home.data();
    for (name, bytes) in before.iter().filter(|(name, _)| name.as_str() != "manifest.json") {
        assert!(after.get(name) == Some(bytes), "{name} changed");
    }
    let counts = second.corpus.duplicates;
    assert_eq!((counts.exact_documents, counts.near_documents), (EXACT.len() as u64 + 3, NEAR.len() as u64 + 1));
    assert!(home.run().expect("nothing").nothing_to_do);
}

#[test]
fn duplicates_of_a_forgotten_document_do_not_return() {
    let home = planted();
    home.run().expect("prepared");
    // The original of (2, 3), in another part.
    let id = Document::digest(&line(0, 5).join(" "));
    let (summary, _) = home.forget(&id).expect("forgotten");
    assert_eq!(summary.corpus.forgotten, 1);
    let gone = expected().into_iter().chain([(0, 5)]).collect();
    assert_eq!(removed(&home), gone);
    // The original of (1, 7), in the same file.
    let id = Document::digest(&line(1, 2).join(" "));
    home.forget(&id).expect("forgotten");
    assert_eq!(removed(&home), gone.into_iter().chain([(1, 2)]).collect());
    assert!(home.run().expect("nothing").nothing_to_do);
}

/// A document that is removed connects two others, of which the first is forgotten and the second in the same part.
#[test]
fn relatives_of_a_forgotten_document_do_not_return() {
    let mut home = planted();
    fs::remove_dir_all(home.folder.path().join("in")).expect("there");
    let [a, b, c, d] = [0, 1, 2, 3].map(|part| line(70, part)[..40].join(" "));
    let [first, between, last] = [[&*a, &*b], [&*b, &*c], [&*c, &*d]].map(|halves| halves.join(" "));
    let other = line(71, 0).join(" ");
    write_all(home.folder.path(), &[("in/0.txt", [&*first, &*last, &*other].join("\n")), ("in/1.txt", between)]);
    // Every pair that shares a shingle is found.
    home.config.duplicates = Some(DuplicatesConfig { bands: 100, rows: 1, ..DuplicatesConfig::default() });
    home.config.part_bytes = Some(900);
    home.run().expect("prepared");
    assert_eq!(kept(&home), BTreeSet::from([(0, 0), (0, 2)]));
    home.forget(&Document::digest(&first)).expect("forgotten");
    assert_eq!(kept(&home), BTreeSet::from([(0, 2)]), "the last one is in the cluster of the first");
}

/// Verdicts of an older dataset version follow from the parts of that time, not from those in effect now.
#[test]
fn lost_verdicts_of_an_older_version_are_made_again_from_its_parts() {
    let home = planted();
    home.run().expect("prepared");
    // The original of (2, 3), in another part.
    home.forget(&Document::digest(&line(0, 5).join(" "))).expect("forgotten");
    let whole = home.data();
    let lists = VersionLists::read(&home.store()).expect("readable");
    let dropped = *lists.dropped(lists.newest()).first().expect("a dropped part");
    let kept = lists.in_effect().into_keys().next().expect("a part");
    let blob = format!("verdicts/part-{:05}.bin", kept.0);
    for names in [vec!["verdicts/00000.json"], vec![&blob], vec!["verdicts/00000.json", "verdicts/00001.json", &blob]] {
        for name in &names {
            write_all(&home.config.folder, &[(*name, "damaged")]);
        }
        assert_eq!(home.run().expect("repaired").parts_made, 0);
        assert!(home.data() == whole, "{names:?}");
    }
    // Without the signatures of the dropped part, the copy of the forgotten document would return.
    home.store().delete(&format!("signatures/part-{:05}.json", dropped.0)).expect("deleted");
    write_all(&home.config.folder, &[("verdicts/00000.json", "damaged")]);
    let error = home.run().expect_err("not the same verdicts").to_string();
    assert!(error.contains("dataset version 0 are lost") && error.contains("restore `verdicts/`"), "{error}");
    let now = home.data();
    assert!(whole.iter().all(|(name, bytes)| name.contains('/') && name.starts_with("verdicts/000")
        || now.get(name) == Some(bytes)
        || name.starts_with("signatures/")));
}

#[test]
fn a_replaced_file_is_compared_again() {
    let home = planted();
    home.run().expect("prepared");
    // Without its original, the copy in a part that is made again returns; verdicts on other parts stay.
    let path = home.folder.path().join("in/1.txt");
    let text = fs::read_to_string(&path).expect("there");
    let text = text.replacen(&line(1, 2).join(" "), &line(88, 2).join(" "), 1);
    write_all(home.folder.path(), &[("in/1.txt", text)]);
    home.run().expect("prepared");
    assert_eq!(removed(&home), expected().into_iter().filter(|place| *place != (1, 7)).collect());
}

/// As after a flipped bit in the answer of a store while a file was signed: the file itself never changed.
#[test]
fn a_file_that_was_signed_wrongly_is_read_again_by_the_next_run() {
    let home = planted();
    home.run().expect("prepared");
    let store = home.store();
    let lists = VersionLists::read(&store).expect("readable");
    let settings = lists.settings().expect("a list").digest();
    let (_, part) = lists.in_effect()[&schemas::PartId(2)];
    let mut record = SignatureRecord::read(&store, &settings, part).expect("answered").expect("there");
    record.read[0].blake3 = blake3::hash(b"another text").to_hex().to_string();
    store.put("signatures/part-00002.json", &record.seal()).expect("written");
    store.delete("parts/part-00002-00.json").expect("deleted");
    let error = home.run().expect_err("another text").to_string();
    assert!(error.contains(".txt") && error.contains("changed after its documents were compared"), "{error}");
    // Although the identity of the file is known, it is read again, and its part is dropped.
    let summary = home.run().expect("the way out");
    assert!(summary.change.is_some_and(|change| change.replaced > 0), "{summary:?}");
    assert_eq!(removed(&home), expected());
}

#[test]
fn too_long_documents_remove_no_others() {
    let mut home = planted();
    let long = format!("{} and more {}", line(0, 1).join(" "), "cat ".repeat(90));
    write_all(home.folder.path(), &[("in/00.txt", format!("{long}\n{}", line(9, 9).join(" ")))]);
    write_all(home.folder.path(), &[("in/9.txt", long.replacen("cat", "hat", 3))]);
    home.config.max_document_bytes = Some(long.len() as u64 - 1);
    let corpus = home.run().expect("prepared").corpus;
    assert_eq!(corpus.rejected.values().sum::<u64>(), 2, "{:?}", corpus.rejected);
    assert_eq!(corpus.duplicates.near_documents, NEAR.len() as u64);
}

#[test]
fn a_folder_keeps_its_section() {
    let mut home = planted();
    home.config.duplicates = None;
    home.run().expect("prepared");
    let before = home.data();
    let versions = String::from_utf8(before["versions/00000.json"].clone()).expect("JSON");
    assert!(!versions.contains("duplicates") && !versions.contains("decontamination"), "{versions}");
    home.config.duplicates = Some(DuplicatesConfig::default());
    let error = home.run().expect_err("other settings").to_string();
    assert!(error.contains("`duplicates` = not set, now"), "{error}");
    assert!(home.data() == before);
}
