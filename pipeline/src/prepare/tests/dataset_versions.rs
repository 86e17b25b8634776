//! Effects of changes of the corpus on the folder.

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;

/// Forty files of six lines, about four files per part.
pub(super) fn many() -> Home {
    files_of_six(40)
}

pub(super) fn files_of_six(files: usize) -> Home {
    let mut home = Home::new();
    fs::remove_dir_all(home.folder.path().join("in")).expect("there");
    (0..files).for_each(|file| home.put(file, &text(file, 6)));
    home.config.part_bytes = Some(800);
    home
}

pub(super) fn text(file: usize, lines: usize) -> String {
    let words = ["cat", "mat", "hat 7", "1 it", "the cats"];
    let line = |line| format!("the {} sat on {file} and {line}", words[(file + line) % 5]);
    (0..lines).map(line).chain([String::new()]).collect::<Vec<_>>().join("\n")
}

impl Home {
    pub(super) fn put(&self, file: usize, text: &str) {
        write_all(self.folder.path(), &[(format!("in/{file:02}.txt").as_str(), text)]);
    }

    fn bytes(&self, file: usize) -> u64 {
        fs::metadata(self.folder.path().join(format!("in/{file:02}.txt"))).expect("there").len()
    }

    /// Returns the parts in effect that contain a file.
    pub(super) fn holders(&self, file: usize) -> BTreeSet<String> {
        let name = format!("{file:02}.txt");
        let lists = VersionLists::read(&Store::existing(&self.config.folder).expect("there")).expect("readable");
        let held = |part: &crate::corpus::Part| part.pieces.iter().any(|piece| piece.name == name);
        let holders = lists.in_effect().into_values().filter(|(_, part)| held(part));
        holders.map(|(_, part)| format!("part-{:05}-", part.id.0)).collect()
    }

    /// Returns an independent copy of the corpus and the folder.
    fn copy(&self) -> Self {
        let copy = Self { folder: tempfile::tempdir().expect("a folder"), config: self.config.clone() };
        for (name, bytes) in files(self.folder.path()) {
            if !name.ends_with(LOCK) {
                write_all_plain(copy.folder.path(), &name, &bytes);
            }
        }
        let at = |name: &str| copy.folder.path().join(name);
        let config = PrepareConfig {
            inputs: vec![at("in").display().to_string()],
            tokenizer: at("vocab.txt"),
            folder: at("data"),
            ..self.config.clone()
        };
        Self { config, ..copy }
    }
}

/// Writes the bytes without compression, whatever the name.
fn write_all_plain(home: &Path, name: &str, bytes: &[u8]) {
    let store = Store::folder(home).expect("there");
    store.put(name, bytes).expect("written");
}

/// Returns the objects of parts, by name.
fn parts(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let is_part = |name: &String| ["train/", "valid/", "documents/", "parts/"].iter().any(|at| name.starts_with(at));
    files.iter().filter(|(name, _)| is_part(name)).map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

/// Asserts that parts without `gone` are unchanged, and that parts with `gone` are removed.
pub(super) fn check_others(
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
    gone: &BTreeSet<String>,
) {
    for (name, bytes) in parts(before) {
        if gone.iter().any(|stem| name.contains(stem.as_str())) {
            assert!(!after.contains_key(&name), "{name} is of a part that was dropped");
        } else {
            assert!(after.get(&name) == Some(&bytes), "{name} is another");
        }
    }
}

/// Asserts that the folder has the same content as one that is prepared from scratch, except for the parts.
pub(super) fn check_fresh(home: &Home) {
    let fresh = home.copy();
    fs::remove_dir_all(&fresh.config.folder).expect("there");
    let expected = fresh.run().expect("prepared").corpus;
    let manifest = load::open(&home.store()).expect("a manifest");
    let newest = manifest.dataset_version(manifest.newest());
    let found = &newest.corpus;
    assert_eq!((found.documents, found.tokens, found.words), (expected.documents, expected.tokens, expected.words));
    let vocab = |home: &Home| {
        let manifest = load::open(&home.store()).expect("a manifest");
        load::read_vocab(&home.store(), &manifest, manifest.newest()).expect("a vocabulary").counts().to_vec()
    };
    assert_eq!(vocab(home), vocab(&fresh), "tokens of the training split");
    assert_eq!(newest.content, manifest.now().train.content());
}

fn change(added: u64, replaced: u64, removed: u64) -> impl Fn(&DatasetChange) -> bool {
    move |change| (change.added, change.replaced, change.removed, change.forgotten) == (added, replaced, removed, 0)
}

#[test]
fn an_added_file_is_a_part_more() {
    let home = many();
    let first = home.run().expect("prepared");
    let before = home.data();
    home.put(77, &text(77, 9));
    let second = home.run().expect("prepared");
    let after = home.data();
    assert!(second.change.is_some_and(|found| change(1, 0, 0)(&found) && found.dropped == 0), "{second:?}");
    assert_eq!((second.parts_made, second.parts_skipped), (1, first.parts_made));
    assert_eq!(second.bytes_read, home.bytes(77), "nothing else is read");
    assert_eq!(
        second.change.expect("one").to_string(),
        "1 file added: dataset version 1 drops 0 parts and makes 1 part"
    );
    check_others(&before, &after, &BTreeSet::new());
    check_fresh(&home);
    let manifest = load::open(&home.store()).expect("a manifest");
    let old = Manifest::from_json(&before["manifest.json"]).expect("a manifest");
    assert_eq!(manifest.dataset_versions.len(), 2);
    assert_eq!(manifest.dataset_versions[0], old.dataset_versions[0], "what was published stays");
    assert_eq!(after["vocab/00000.parquet"], before["vocab/00000.parquet"]);
    assert!(home.run().expect("prepared").nothing_to_do);
}

#[test]
fn replaced_file_is_detected_with_equal_length_and_mtime() {
    // Longer; of the same length; of the same length and older than its record.
    for case in 0..3 {
        let home = many();
        home.run().expect("prepared");
        let before = home.data();
        let gone = home.holders(13);
        let mut new = text(13, if case == 0 { 8 } else { 6 });
        if case > 0 {
            new = new.replace("mat", "sat");
        }
        home.put(13, &new);
        let path = home.folder.path().join("in/13.txt");
        if case == 2 {
            let long_ago = std::time::SystemTime::now() - Duration::from_secs(1_000_000);
            File::options().append(true).open(path).and_then(|file| file.set_modified(long_ago)).expect("set");
        }
        let summary = home.run().expect("prepared");
        assert!(summary.change.is_some_and(|found| change(0, 1, 0)(&found) && found.dropped == 1), "{summary:?}");
        assert!((1..3).contains(&summary.parts_made), "{summary:?}");
        assert!(summary.bytes_read < 2000, "a part of it: {summary:?}");
        check_others(&before, &home.data(), &gone);
        check_fresh(&home);
    }
}

#[test]
fn a_touched_file_is_read_again_and_is_what_it_was() {
    let home = many();
    home.run().expect("prepared");
    let before = home.data();
    home.put(13, &text(13, 6));
    for bytes_read in [home.bytes(13), 0, 0] {
        let summary = home.run().expect("prepared");
        assert!(summary.nothing_to_do && summary.change.is_none(), "{summary:?}");
        assert_eq!(summary.bytes_read, bytes_read, "once");
        assert!(home.data() == before);
    }
    // A fingerprint must not hide a later change.
    home.put(13, &text(13, 6).replace("mat", "sat"));
    assert!(home.run().expect("prepared").change.is_some_and(|found| change(0, 1, 0)(&found)));
    check_fresh(&home);
    let seen = || home.store().head(fingerprints::NAME).expect("answered");
    home.put(14, &text(14, 6));
    home.run().expect("prepared");
    assert!(seen().is_some());
    home.store().put(fingerprints::NAME, b"damaged").expect("written");
    let all = (0..40).map(|file| home.bytes(file)).sum::<u64>();
    assert_eq!(home.run().expect("prepared").bytes_read, all, "touched shortly before their list: read again, once");
    assert_eq!(home.run().expect("prepared").bytes_read, 0);
}

/// Timestamps cannot show the change: the list is dated tomorrow, as from another machine.
#[test]
fn files_are_distinguished_for_any_list_time() {
    let home = many();
    home.run().expect("prepared");
    let tomorrow = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    let list = home.config.folder.join(part_list::file_name(0));
    fs::File::open(list).and_then(|list| list.set_modified(tomorrow)).expect("the list's time");
    home.put(13, &text(13, 6).replace("mat", "sat"));
    assert!(home.run().expect("prepared").change.is_some_and(|found| change(0, 1, 0)(&found)));
    check_fresh(&home);
}

#[test]
fn a_removed_file_takes_its_part_with_it() {
    let home = many();
    home.run().expect("prepared");
    let before = home.data();
    let gone = home.holders(13);
    fs::remove_file(home.folder.path().join("in/13.txt")).expect("there");
    let summary = home.run().expect("prepared");
    assert!(summary.change.is_some_and(|found| change(0, 0, 1)(&found)), "{summary:?}");
    assert!(summary.bytes_read < 800, "what is left of a part: {summary:?}");
    check_others(&before, &home.data(), &gone);
    check_fresh(&home);
    let manifest = load::open(&home.store()).expect("a manifest");
    assert_eq!(manifest.dropped_since(DatasetVersion(0)).len(), gone.len(), "a run that had it is told");
}

#[test]
fn a_forgotten_document_is_nowhere() {
    let home = many();
    home.run().expect("prepared");
    let before = home.data();
    let gone = home.holders(7);
    let line = text(7, 6).lines().nth(2).expect("a line").to_owned();
    let id = Document::digest(&line);
    let forget = |id: &str| home.forget(id);
    let error = forget("unknown").expect_err("nowhere").to_string();
    assert!(error.contains("no document `unknown`") && home.data() == before, "{error}");
    let (summary, already) = forget(&id).expect("forgotten");
    assert_eq!((already, summary.corpus.documents, summary.corpus.forgotten), (None, 239, 1));
    assert!(summary.bytes_read < 800, "{summary:?}");
    let after = home.data();
    check_others(&before, &after, &gone);
    let held = |files: &BTreeMap<String, Vec<u8>>, id: &str| {
        let tables = files.iter().filter(|(name, _)| name.starts_with("documents/"));
        tables.filter(|(_, bytes)| entries(bytes).iter().any(|entry| entry.0 == id)).count()
    };
    assert_eq!((held(&before, &id), held(&after, &id)), (1, 0));
    assert!(after.values().all(|bytes| !bytes.windows(id.len()).any(|window| window == id.as_bytes())));
    let (again, already) = forget(&id).expect("no error");
    assert!(already == Some(DatasetVersion(1)) && again.nothing_to_do && home.data() == after, "{again:?}");
    // The document stays forgotten if its file returns in another part.
    home.put(7, &(text(7, 6) + "one more\n"));
    let summary = home.run().expect("prepared");
    assert_eq!((summary.corpus.documents, summary.corpus.forgotten), (240, 1));
}

/// Returns id and split, document number, row and tokens of each row of a table.
pub(super) fn entries(bytes: &[u8]) -> Vec<(String, bool, u64, u64, u32)> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt32Type, UInt64Type};
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes.to_vec()));
    let mut found = Vec::new();
    for batch in reader.and_then(ParquetRecordBatchReaderBuilder::build).expect("a table") {
        let batch = batch.expect("readable");
        let column = |name| batch.column_by_name(name).expect("a column");
        for row in 0..batch.num_rows() {
            found.push((
                column("id").as_string::<i32>().value(row).to_owned(),
                column("valid").as_boolean().value(row),
                column("document").as_primitive::<UInt64Type>().value(row),
                column("row").as_primitive::<UInt64Type>().value(row),
                column("tokens").as_primitive::<UInt32Type>().value(row),
            ));
        }
    }
    found
}

type Step<'a> = &'a dyn Fn(&Home);

/// Every change, with a disk that fails after an increasing number of writes. The final state is the same as without
/// failures.
#[test]
fn change_with_faults_equals_one_without() {
    let line = Document::digest(text(7, 6).lines().nth(2).expect("a line"));
    let changes: [(&str, Step<'_>); 4] = [
        ("add", &|home| home.put(77, &text(77, 9))),
        ("replace", &|home| home.put(13, &text(13, 7))),
        ("remove", &|home| fs::remove_file(home.folder.path().join("in/13.txt")).expect("there")),
        ("forget", &|_| {}),
    ];
    let home = many();
    home.run().expect("prepared");
    for (name, change) in changes {
        let go = |home: &Home| match name {
            "forget" => home.forget(&line).map(|_| ()),
            _ => home.run().map(|_| ()),
        };
        let baseline = home.copy();
        change(&baseline);
        go(&baseline).expect("no fault");
        let mut failed = 0;
        for writes in [1, 3, 4, 6, 8, 11, 14] {
            let faulty = home.copy();
            change(&faulty);
            store::faults::fail_after(&faulty.config.folder, Some(writes));
            failed += usize::from(go(&faulty).is_err());
            store::faults::fail_after(&faulty.config.folder, None);
            let _ = fs::remove_file(faulty.config.folder.join(LOCK));
            // The same command continues.
            go(&faulty).expect("well again");
            let found = faulty.data();
            let expected = baseline.data();
            let differ = found.iter().filter(|(name, bytes)| expected.get(*name) != Some(bytes)).map(|(name, _)| name);
            assert!(found == expected, "{name} after {writes} writes: {:?}", differ.collect::<Vec<_>>());
        }
        assert!(failed >= 4, "{name}: only {failed} failures");
    }
}

/// If another list follows an incomplete one, the parts that it dropped are never made.
#[test]
fn a_change_before_the_first_is_finished_is_one_more_list() {
    let home = many();
    let whole = zstd::encode_all(text(78, 900).as_bytes(), 1).expect("memory");
    let archive = |bytes: &[u8]| write_all_plain(home.folder.path(), "in/z.txt.zst", bytes);
    archive(&whole[..whole.len() / 2]);
    home.run().expect_err("an archive that was cut short");
    archive(&whole);
    home.put(13, &text(13, 9));
    let gone = home.holders(13);
    assert!(!gone.is_empty(), "the first list is there");
    let summary = home.run().expect("prepared");
    assert_eq!(summary.dataset_version, DatasetVersion(1));
    check_fresh(&home);
    assert!(gone.iter().all(|stem| home.data().keys().all(|name| !name.contains(stem.as_str()))));
    let manifest = load::open(&home.store()).expect("a manifest");
    assert_eq!(
        (manifest.dataset_versions.len(), manifest.dataset_versions[0].content.as_str()),
        (2, ""),
        "it never was whole"
    );
}

#[test]
fn a_lost_manifest_comes_back_as_far_as_parts_are_there() {
    let home = many();
    home.run().expect("prepared");
    home.put(77, &text(77, 9));
    home.run().expect("prepared");
    let before = home.data();
    fs::remove_file(home.config.folder.join("manifest.json")).expect("there");
    fs::remove_file(home.config.folder.join("vocab/00000.parquet")).expect("there");
    home.run().expect("prepared");
    assert!(home.data() == before, "both dataset versions are computed again");
    fs::remove_file(home.folder.path().join("in/13.txt")).expect("there");
    home.run().expect("prepared");
    let published = load::open(&home.store()).expect("a manifest");
    fs::remove_file(home.config.folder.join("manifest.json")).expect("there");
    home.run().expect("prepared");
    let again = load::open(&home.store()).expect("a manifest");
    assert_eq!(again.dataset_versions[2], published.dataset_versions[2]);
    assert_eq!(again.dataset_versions[0].content, "", "a part of it is gone");
    assert_eq!(again.dropped_since(DatasetVersion(0)), published.dropped_since(DatasetVersion(0)));
}

#[test]
fn a_record_in_the_place_of_another_is_no_evidence() {
    let home = many();
    home.run().expect("prepared");
    let before = home.data();
    write_all(&home.config.folder, &[("parts/part-00004-00.json", &before["parts/part-00003-00.json"])]);
    assert_eq!(home.run().expect("prepared").parts_made, 1);
    assert!(home.data() == before);
}

/// The split of a document depends on its id, not on its file or on other inputs.
#[test]
fn more_inputs_move_no_document_to_the_other_side() {
    let sides = |home: &Home| -> BTreeMap<String, bool> {
        let tables = home.data().into_iter().filter(|(name, _)| name.starts_with("documents/"));
        tables.flat_map(|(_, bytes)| entries(&bytes)).map(|entry| (entry.0, entry.1)).collect()
    };
    let home = many();
    home.run().expect("prepared");
    let mut wider = home.copy();
    fs::remove_dir_all(&wider.config.folder).expect("there");
    write_all(wider.folder.path(), &[("more/00.txt", text(50, 4)), ("more/x.txt", text(51, 4))]);
    wider.config.inputs.push(wider.folder.path().join("more").display().to_string());
    wider.run().expect("prepared");
    let few = sides(&home);
    let all = sides(&wider);
    assert_eq!((few.len(), all.len()), (240, 248));
    assert!(few.iter().all(|(id, side)| all[id] == *side));
}
