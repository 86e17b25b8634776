//! Files that cannot be split: parts of many segments.

use super::dataset_versions::entries;
use super::*;

/// One compressed file of 300 lines and three plain ones, committed every two kilobytes of text.
fn compressed() -> Home {
    let mut home = Home::new();
    let text: Vec<String> = (0..300).map(|line| format!("the cat sat on the mats, {line} {}", line * 7)).collect();
    write_all(home.folder.path(), &[("in/z.txt.zst", text.join("\n"))]);
    home.config.segment_bytes = 2000;
    home
}

fn segments(files: &BTreeMap<String, Vec<u8>>) -> usize {
    files.keys().filter(|name| name.starts_with("parts/") && !name.ends_with("-00.json")).count()
}

#[test]
fn segments_are_the_same_for_any_number_of_workers_and_rows_count_on_over_them() {
    for pack in AnyPacking::KINDS {
        let mut home = compressed();
        home.config.packing = packing(pack);
        let summary = prepare(&home.config("one", 1)).expect("prepared");
        let expected = files(&home.folder.path().join("one"));
        assert!(segments(&expected) >= 3, "{:?}", expected.keys());
        prepare(&home.config("data", 4)).expect("prepared");
        assert!(home.data() == expected);
        // A manifest with a gap in the row numbers is refused.
        let manifest = load::open(&home.store()).expect("a manifest");
        let now = manifest.now();
        assert_eq!((now.train.rows(), now.valid.rows()), (summary.train.0, summary.valid.0));
    }
}

/// The rows in the tables match those in the shards.
#[test]
fn documents_begin_in_the_rows_that_their_table_names() {
    for pack in ["block", "document", "sentences"] {
        let mut home = compressed();
        home.config.packing = packing(pack);
        home.run().expect("prepared");
        let manifest = load::open(&home.store()).expect("a manifest");
        let promise = ShardExpectation::from_manifest(&manifest);
        let now = manifest.now();
        let mut rows = BTreeMap::<(u32, bool, u64), Vec<u64>>::new();
        for (valid, split) in [(false, &now.train), (true, &now.valid)] {
            for shard in &split.shards {
                let reader = ShardReader::open(&home.store(), shard, promise).expect("whole");
                let group = reader.read(0).expect("one row group");
                for row in 0..group.rows() {
                    let at = u64::from(shard.first_row) + row as u64;
                    rows.insert((shard.part.0, valid, at), group.sample(row).documents.to_vec());
                }
            }
        }
        let mut documents = 0;
        let mut tokens = 0;
        for (name, bytes) in home.data().iter().filter(|(name, _)| name.starts_with("documents/")) {
            let part: u32 = name["documents/part-".len()..][..5].parse().expect("a number");
            for (_, valid, document, row, count) in entries(bytes) {
                documents += 1;
                tokens += u64::from(count);
                assert!(rows[&(part, valid, row)].contains(&document), "{pack}: {name}, row {row}");
                let earlier = row.checked_sub(1).and_then(|row| rows.get(&(part, valid, row)));
                assert!(earlier.is_none_or(|earlier| !earlier.contains(&document)), "{pack}: it begins there");
            }
        }
        let corpus = &manifest.dataset_versions[0].corpus;
        assert_eq!((documents, tokens), (corpus.documents, corpus.tokens));
    }
}

#[test]
fn kill_loses_only_the_segment_in_progress() {
    let mut home = compressed();
    home.config.workers = Some(1);
    prepare(&home.config("whole", 1)).expect("prepared");
    let whole = files(&home.folder.path().join("whole"));
    let mut inside = 0;
    for writes in (3..).step_by(7) {
        let before = home.data();
        let outcome = home.run_interrupted(writes);
        let after = home.data();
        assert!(after.iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "{:?}", after.keys());
        assert!(before.keys().all(|name| after.contains_key(name)), "what was committed stays");
        inside += usize::from(segments(&after) > segments(&before));
        if outcome.is_ok() {
            break;
        }
    }
    assert!(inside >= 2, "{inside} failures within the compressed file");
    home.run().expect("well again");
    assert!(home.data() == whole);
}

/// If a file changes, its earlier segments are not reused.
#[test]
fn a_file_that_changed_between_its_segments_is_made_from_its_beginning() {
    let mut home = compressed();
    home.config.part_bytes = Some(1 << 20);
    fs::remove_file(home.folder.path().join("in/z.txt.zst")).expect("there");
    home.run().expect("prepared");
    let record =
        |home: &Home, name: &str| -> serde_json::Value { serde_json::from_slice(&home.data()[name]).expect("JSON") };
    let last = home.data().into_keys().rfind(|name| name.starts_with("parts/")).expect("a segment");
    assert!(segments(&home.data()) >= 2 && record(&home, &last)["content"]["next"].is_null(), "{last}");
    fs::remove_file(home.config.folder.join(&last)).expect("there");
    // Changes the first file of the part without changing its length: its first segments are outdated.
    let first = record(&home, "parts/part-00000-00.json")["content"]["part"]["pieces"][0]["name"].clone();
    let name = format!("in/{}", first.as_str().expect("a name"));
    let text = fs::read_to_string(home.folder.path().join(&name)).expect("there").replace("cat", "mat");
    write_all(home.folder.path(), &[(name.as_str(), text)]);
    let summary = home.run().expect("prepared");
    let fresh = PrepareConfig { folder: home.folder.path().join("fresh"), ..home.config.clone() };
    let expected = prepare(&fresh).expect("prepared").corpus;
    assert_eq!((summary.corpus.tokens, summary.corpus.documents), (expected.tokens, expected.documents));
    let counts = |folder: &Path| {
        let store = Store::existing(folder).expect("it is there");
        let manifest = load::open(&store).expect("a manifest");
        load::read_vocab(&store, &manifest, manifest.newest()).expect("a vocabulary").counts().to_vec()
    };
    assert_eq!(counts(&home.config.folder), counts(&fresh.folder), "no half of it is of the old text");
}
