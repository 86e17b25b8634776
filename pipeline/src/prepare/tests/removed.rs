//! Lists of removed documents: what each line says, and the same bytes for every split of the work.

use std::num::NonZeroU64;

use serde_json::{Value, json};
use store::FaultConfig;

use super::duplicates::planted;
use super::*;

/// Returns the lines of all removed documents of a folder, without those of dropped parts.
fn lines(store: &Store) -> Vec<Value> {
    let names = store.list("removed").expect("listed").into_iter().map(|entry| entry.name);
    let text = names.map(|name| {
        let bytes = store.get(&name).expect("there");
        String::from_utf8(zstd::decode_all(&bytes[..]).expect("zstd")).expect("UTF-8")
    });
    text.collect::<String>().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Text of a document, by its place.
fn text(home: &Home, source: &str, start: u64) -> String {
    let text = fs::read_to_string(home.folder.path().join("in").join(source)).expect("there");
    let start = usize::try_from(start).expect("small");
    text[start..].lines().next().expect("a line").to_owned()
}

/// Corpus with documents that each of three filters, the normalization, both kinds of duplicates and a test set remove.
fn home() -> Home {
    let mut home = planted();
    let texts =
        ["cat and a secret word", "cat", "\u{7}\u{7}", "one two three four five six seven eight nine ten eleven"];
    write_all(home.folder.path(), &[("in/7.txt", texts.join("\n").as_str()), ("tests/own.txt", &texts[3][4..40])]);
    let removal = "write_removed = true\n\
                   [normalization]\nremove_control = true\n\
                   [[filters]]\nkind = 'regex'\npattern = 's.cret'\n\
                   [[filters]]\nkind = 'text_length'\nmin_characters = 4\n\
                   [decontamination]\nrun_words = 6\ntest_sets = [{ files = ['TESTS/own.txt'], name = 'own' }]\n";
    let removal = removal.replace("TESTS", &home.folder.path().join("tests").display().to_string());
    let given: PrepareConfig = toml::from_str(&removal).expect("TOML");
    home.config = PrepareConfig {
        write_removed: true,
        normalization: given.normalization,
        filters: given.filters,
        decontamination: given.decontamination,
        ..home.config
    };
    home
}

/// Returns the lines of one reason, each without its place in the file, by the text that was removed.
fn of_reason(home: &Home, lines: &[Value], reason: &str) -> BTreeMap<String, Value> {
    let found = lines.iter().filter(|line| line["reason"] == reason).map(|line| {
        let mut line = line.clone();
        let source = line["source"].as_str().expect("a name").to_owned();
        let start = line["start"].as_u64().expect("a number");
        let text = text(home, &source, start);
        assert_eq!(line["end"].as_u64().expect("a number"), start + text.len() as u64, "{line}");
        assert_eq!(line["id"], Document::digest(&text));
        for key in ["source", "start", "end", "id", "reason"] {
            assert!(line.as_object_mut().expect("an object").remove(key).is_some(), "{key}");
        }
        (text, line)
    });
    found.collect()
}

#[test]
fn each_removed_document_has_a_line_with_the_reason() {
    let home = home();
    let corpus = home.run().expect("prepared").corpus;
    let lines = lines(&home.store());
    let removed: u64 = corpus.filters.iter().map(|filter| filter.removed_in_all().documents).sum();
    let duplicates = corpus.duplicates.exact_documents + corpus.duplicates.near_documents;
    assert_eq!((removed, duplicates, corpus.contaminated.documents, lines.len()), (3, 7, 1, 11), "{lines:#?}");
    let expected = [
        ("cat and a secret word", json!({"filter": "regex", "rule": "match", "found": "secret"})),
        ("cat", json!({"filter": "text_length", "rule": "too_few_characters", "value": 3.0, "bound": 4.0})),
        ("\u{7}\u{7}", json!({"filter": "normalization", "rule": "blank"})),
    ];
    let expected = expected.map(|(text, line)| (text.to_owned(), line));
    assert_eq!(of_reason(&home, &lines, "filter"), BTreeMap::from(expected));
    let contaminated = of_reason(&home, &lines, "contamination");
    let run = "two three four five six seven";
    let text = "one two three four five six seven eight nine ten eleven".to_owned();
    assert_eq!(contaminated, BTreeMap::from([(text, json!({"test_set": "own", "run": run}))]));
}

/// Equal bands of two texts, without the code under test.
fn equal_bands(one: &str, other: &str) -> u32 {
    let near = DuplicatesConfig::default().near_options();
    let bands = |text: &str| ::duplicates::Signer::new(near).sign(text).bands.to_vec();
    u32::try_from(bands(one).iter().zip(bands(other)).filter(|(a, b)| **a == *b).count()).expect("few")
}

#[test]
fn duplicates_name_the_document_that_they_repeat() {
    let home = home();
    home.run().expect("prepared");
    let lines = lines(&home.store());
    let found = of_reason(&home, &lines, "duplicate");
    let line = |file: usize, line: usize| {
        let text = fs::read_to_string(home.folder.path().join(format!("in/{file}.txt"))).expect("there");
        text.lines().nth(line).expect("a line").to_owned()
    };
    let start = |file: usize, at: usize| (0..at).map(|before| line(file, before).len() as u64 + 1).sum::<u64>();
    let pairs = [
        ((1, 7), (1, 2), "exact"),
        ((2, 0), (0, 0), "exact"),
        ((2, 3), (0, 5), "exact"),
        ((4, 11), (3, 1), "exact"),
        ((5, 0), (3, 1), "exact"),
        ((3, 4), (0, 8), "near"),
        ((5, 9), (4, 6), "near"),
    ];
    let mut expected = Vec::new();
    for (of, by, kind) in pairs {
        let partner = line(by.0, by.1);
        let place =
            json!({"source": format!("{}.txt", by.0), "start": start(by.0, by.1), "id": Document::digest(&partner)});
        let mut told = json!({"kind": kind, "partner": place});
        if kind == "near" {
            let share = f64::from(equal_bands(&line(of.0, of.1), &partner)) / 14.0;
            assert!(share > 0.0);
            told["similarity"] = ((share.powf(1.0 / 8.0) * 1000.0).round() / 1000.0).into();
        }
        expected.push((line(of.0, of.1), told));
    }
    // Two of the removed texts are equal.
    assert_eq!(found, expected.into_iter().collect());
    assert_eq!(lines.iter().filter(|line| line["reason"] == "duplicate").count(), pairs.len());
}

#[test]
fn the_list_changes_no_shard_and_is_written_by_choice_only() {
    let mut home = home();
    let with = home.run().expect("prepared");
    let manifest = load::open(&home.store()).expect("a manifest");
    let listed = home.data();
    fs::remove_dir_all(&home.config.folder).expect("there");
    home.config.write_removed = false;
    let without = home.run().expect("prepared");
    assert_eq!(with.corpus, without.corpus);
    let plain = load::open(&home.store()).expect("a manifest");
    assert_eq!(plain, manifest, "contents and hashes of all shards");
    let ours = |name: &&String| name.ends_with(".jsonl.zst");
    assert_eq!(home.data().keys().filter(ours).count(), 0);
    assert!(listed.keys().filter(ours).count() > 10);
    assert!(!String::from_utf8(home.data()["versions/00000.json"].clone()).expect("JSON").contains("write_removed"));
    home.config.write_removed = true;
    let error = home.run().expect_err("other settings").to_string();
    assert!(error.contains("`write_removed` = not set, now true"), "{error}");
}

#[test]
fn the_list_does_not_depend_on_workers_memory_or_the_split_of_the_work() {
    let home = home();
    prepare(&home.config("data", 1)).expect("prepared");
    let expected = home.data();
    prepare(&home.config("four", 4)).expect("prepared");
    assert!(files(&home.folder.path().join("four")) == expected);
    let store = Store::in_memory(FaultConfig::none());
    let plan = Preparation::plan_in(&home.config, &store).expect("a plan");
    plan.write_plan(&Clock::still(), &mut Fanout::default()).expect("written");
    let (_stopper, stop) = cancel_pair();
    let open = || SharedPreparation::open_in(&home.config, &store).expect("planned");
    let shares = [2, 0, 1].map(|index| Share::Index { index, count: NonZeroU64::new(3).expect("above 0") });
    for share in shares {
        open().sign(share, &stop, &Clock::still(), &mut Fanout::default()).expect("signed");
    }
    for share in shares {
        let options = PrepareOptions::default();
        open().run(share, options, &stop, &Clock::still(), &mut Fanout::default(), None).expect("made");
    }
    open().finalize(&stop, &Clock::still(), &mut Fanout::default()).expect("complete");
    for (name, bytes) in &expected {
        assert_eq!(store.get(name).expect("there"), *bytes, "{name}");
    }
}

/// One compressed file of many segments. Kills leave whole lists or none.
#[test]
fn a_kill_leaves_whole_lists_or_none() {
    let mut home = Home::new();
    let text: Vec<String> = (0..500).map(|line| format!("the cat sat on the mats, {} {line}", line / 2 * 7)).collect();
    write_all(home.folder.path(), &[("in/z.txt.zst", [text.join("\n"), text.join("\n")].join("\n"))]);
    home.config.segment_bytes = 2000;
    home.config.duplicates = Some(DuplicatesConfig { near: false, ..DuplicatesConfig::default() });
    home.config.write_removed = true;
    home.config.workers = Some(1);
    prepare(&home.config("whole", 1)).expect("prepared");
    let whole = files(&home.folder.path().join("whole"));
    let lists = |files: &BTreeMap<String, Vec<u8>>| files.keys().filter(|name| name.starts_with("removed/")).count();
    assert!(lists(&whole) >= 6, "{:?}", whole.keys());
    home.run().expect("prepared");
    let made = ["parts/", "removed/", "train/", "valid/", "documents/", "manifest.json"];
    for name in whole.keys().filter(|name| made.iter().any(|prefix| name.starts_with(prefix))) {
        fs::remove_file(home.config.folder.join(name)).expect("there");
    }
    let mut inside = 0;
    for writes in (55..).step_by(3) {
        let outcome = home.run_interrupted(writes);
        let after = home.data();
        assert!(after.iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "half-written after {writes} writes");
        inside += usize::from(lists(&after) > 0 && lists(&after) < lists(&whole));
        if outcome.is_ok() {
            break;
        }
    }
    assert!(inside > 0, "no kill between the first and the last list");
    assert!(home.data() == whole);
}

#[test]
fn damaged_lists_are_found_and_their_parts_remade() {
    let home = home();
    home.run().expect("prepared");
    let (_stopper, stop) = cancel_pair();
    let check = || verify(&home.store(), 2, &stop, &mut |_, _| ()).expect("answered");
    assert_eq!(check().problems, []);
    let whole = home.data();
    let list = whole.keys().find(|name| name.starts_with("removed/")).expect("a list");
    let partners = whole.keys().find(|name| name.starts_with("verdicts/") && name.ends_with(".jsonl.zst"));
    let ids = "signatures/part-00001.jsonl.zst".to_owned();
    for (name, parts) in [(list, 1), (partners.expect("partners"), 0), (&ids, 0)] {
        let mut damaged = whole[name].clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        write_all(&home.config.folder, &[(name.as_str(), damaged)]);
        let found = check();
        assert_eq!((found.problems.len(), found.damaged_parts().len()), (1, parts), "{name}: {:?}", found.problems);
        let preparation = Preparation::plan(&home.config).expect("a plan");
        preparation.remake(&found.damaged_parts(), &Clock::still(), &mut Fanout::default()).expect("remade");
        assert_eq!(check().problems, [], "{name}");
        let after = home.data();
        assert!(after.iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "{name}");
    }
}

/// Forgets a document that may be one that no part has.
fn forget_absent(home: &Home, id: &str) -> PrepareSummary {
    let preparation = Preparation::plan(&home.config).expect("a plan");
    preparation.forget_document(id, true, &Clock::still(), &mut Fanout::default()).expect("forgotten").0
}

#[test]
fn the_id_of_a_removed_duplicate_can_be_forgotten_and_the_one_that_stays_is_named() {
    let home = home();
    home.run().expect("prepared");
    let is_copy = |line: &Value| line["partner"]["id"].is_string() && line["partner"]["id"] != line["id"];
    let line = lines(&home.store()).into_iter().find(is_copy).expect("a near duplicate");
    let [id, partner] = [&line["id"], &line["partner"]["id"]].map(|id| id.as_str().expect("an id").to_owned());
    let error = home.forget(&id).expect_err("no part has it").to_string();
    assert!(error.contains(&format!("duplicate of `{partner}`; forget that one")), "{error}");
    assert!(error.contains("`--absent`"), "{error}");
    let summary = forget_absent(&home, &id);
    let dropped = summary.change.map(|change| change.dropped);
    assert_eq!((dropped, summary.parts_made), (Some(0), 0));
    assert!(home.forget(&id).expect("known").1.is_some(), "forgotten already");
    assert!(home.run().expect("prepared").nothing_to_do);
}

#[test]
fn a_document_that_is_forgotten_in_advance_never_arrives() {
    let home = Home::new();
    home.run().expect("prepared");
    let before = home.data();
    let late = "the hat sat on a cat";
    forget_absent(&home, &Document::digest(late));
    let unchanged = |name: &&String| home.data().get(*name) == before.get(*name);
    assert!(before.keys().filter(|name| name.contains("part-")).all(|name| unchanged(&name)));
    write_all(home.folder.path(), &[("in/late.txt", format!("{late}\nthe cat sat on a hat"))]);
    let corpus = home.run().expect("prepared").corpus;
    assert_eq!((corpus.documents, corpus.forgotten), (241, 1));
}

#[test]
fn lists_of_dropped_parts_are_removed_and_forgotten_documents_are_not_listed() {
    let mut home = home();
    home.config.part_bytes = Some(100_000);
    home.run().expect("prepared");
    let before = lines(&home.store()).len();
    // Removed as a duplicate of a document of the same part.
    let copy = text(&home, "1.txt", 0);
    write_all(home.folder.path(), &[("in/8.txt", format!("{copy}\n{copy}\ncat"))]);
    home.run().expect("prepared");
    assert_eq!(lines(&home.store()).len(), before + 3);
    fs::remove_file(home.folder.path().join("in/8.txt")).expect("there");
    home.run().expect("prepared");
    assert_eq!(lines(&home.store()).len(), before, "the part was dropped");
    home.forget(&Document::digest(&copy)).expect("forgotten");
    let listed = lines(&home.store());
    assert!(listed.iter().all(|line| line["id"] != Document::digest(&copy)), "{listed:?}");
}
