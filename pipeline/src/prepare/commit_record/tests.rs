use store::FaultConfig;

use super::*;

fn part(id: u32) -> Part {
    Part { id: schemas::PartId(id), bytes: 9, pieces: Vec::new() }
}

/// Record of a segment whose only shard has ten rows and is stored under its name.
fn record(part: &Part, segment: u32, last: bool) -> CommitRecord {
    let path = format!("train/{}-00.parquet", stem(part, segment as usize));
    let shard = Shard {
        path,
        part: part.id,
        first_row: segment * 10,
        rows: 10,
        tokens: 10,
        groups: vec![10],
        bytes: 5,
        blake3: blake3::hash(b"shard").to_hex().to_string(),
        content: String::new(),
    };
    let place = |segment| DocumentPlace { piece: segment, reached: None };
    CommitRecord {
        settings: "s".into(),
        part: part.clone(),
        segment,
        forgotten: "f".into(),
        verdicts: String::new(),
        from: place(segment as usize),
        first_rows: [segment * 10, 0],
        read: Vec::new(),
        next: (!last).then(|| place(segment as usize + 1)),
        train: vec![shard],
        valid: Vec::new(),
        documents: None,
        removed: None,
        report: CorpusReport::default(),
        lines: 0,
        examples: Vec::new(),
        filtered: Vec::new(),
        contaminated: Vec::new(),
        unknown_words: Vec::new(),
        counts: Vec::new(),
    }
}

fn keep(store: &Store, record: &CommitRecord) {
    store.put(&record.train[0].path, b"shard").expect("kept");
    store.put(&record.file_name(), &record.seal()).expect("kept");
}

fn found(store: &Store, part: &Part) -> FoundPart {
    let mut found =
        FoundPart::read(store, PartBinding { settings: "s", forgotten: "f", verdicts: "", part }).expect("answered");
    found.verify(store, &ObjectListing::default()).expect("answered");
    found
}

#[test]
fn segments_count_up_to_the_first_that_is_not_there() {
    let store = Store::in_memory(FaultConfig::none());
    let part = part(3);
    for (segment, last) in [(0, false), (1, false), (2, true)] {
        let before = found(&store, &part);
        assert_eq!(
            (before.records.len(), before.is_whole(), before.rows()),
            (segment, false, [10 * segment as u64, 0])
        );
        keep(&store, &record(&part, u32::try_from(segment).expect("small"), last));
    }
    assert!(found(&store, &part).is_whole());
    store.delete("parts/part-00003-01.json").expect("gone");
    assert_eq!(found(&store, &part).records.len(), 1);
}

#[test]
fn a_record_of_anything_else_is_no_evidence() {
    let here = part(3);
    let other = part(4);
    let alien = |change: fn(&mut CommitRecord)| {
        let mut record = record(&here, 0, true);
        change(&mut record);
        record
    };
    let cases = [
        (record(&other, 0, true), "another part"),
        (record(&here, 1, true), "another segment"),
        (alien(|record| record.forgotten.push('x')), "forgotten documents"),
        (alien(|record| record.first_rows[0] = 1), "does not start"),
        (alien(|record| record.train[0].path = "../../etc/passwd".into()), "objects of other segments"),
        (alien(|record| record.counts = vec![1]), "counts unknown"),
        (alien(|record| record.counts = vec![u64::MAX, 1, 1, 1]), "counts unknown"),
        (alien(|record| record.train[0].path = "train/part-00004-00-00.parquet".into()), "objects of other segments"),
    ];
    for (record, word) in cases {
        let store = Store::in_memory(FaultConfig::none());
        store.put("parts/part-00003-00.json", &record.seal()).expect("kept");
        let found = found(&store, &here);
        assert!(found.records.is_empty() && found.damage.as_ref().expect("told").contains(word), "{found:?}");
    }
}

/// All records under an accepted list must have its settings: parts of two folders are not mixed.
#[test]
fn a_record_of_other_settings_is_an_error_and_not_missing() {
    let store = Store::in_memory(FaultConfig::none());
    let part = part(3);
    keep(&store, &CommitRecord { settings: "other".into(), ..record(&part, 0, true) });
    let bound = PartBinding { settings: "s", forgotten: "f", verdicts: "", part: &part };
    let error = FoundPart::read(&store, bound).expect_err("of another folder").to_string();
    assert!(error.contains("parts/part-00003-00.json") && error.contains("other settings"), "{error}");
    // The fix that the error names.
    store.delete("parts/part-00003-00.json").expect("gone");
    assert!(FoundPart::read(&store, bound).expect("none").records.is_empty());
}

#[test]
fn changed_object_is_detected_and_earlier_ones_stay() {
    let part = part(3);
    for damage in [&b"shaRd"[..], b"shard."] {
        let store = Store::in_memory(FaultConfig::none());
        for (segment, last) in [(0, false), (1, true)] {
            keep(&store, &record(&part, segment, last));
        }
        store.put("train/part-00003-01-00.parquet", damage).expect("kept");
        let found = found(&store, &part);
        assert!(found.records.len() == 1 && found.damage.expect("told").contains("part-00003-01-00"));
    }
}

#[test]
fn unreachable_store_is_an_error_and_not_damage() {
    let memory = store::MemoryBackend::new(FaultConfig::none());
    let part = part(3);
    keep(&Store::from_memory(&memory), &record(&part, 0, true));
    let silent = Store::from_memory(&memory.with_faults(FaultConfig { failures: 1.0, ..FaultConfig::none() }));
    let bound = PartBinding { settings: "s", forgotten: "f", verdicts: "", part: &part };
    let error = FoundPart::read(&silent, bound).expect_err("the store does not answer").to_string();
    assert!(error.contains("memory:parts/part-00003-00.json"), "{error}");
    let mut found = FoundPart::read(&Store::from_memory(&memory), bound).expect("no fault");
    let error = found.verify(&silent, &ObjectListing::default()).expect_err("the store does not answer").to_string();
    assert!(error.contains("memory:parts/part-00003-00.json") && found.is_whole(), "{error}");
}

#[test]
fn sparse_counts_come_back() {
    for counts in [vec![], vec![0, 0], vec![3], vec![0, 5, 0, 0, 7, 1]] {
        let record = CommitRecord { counts: sparse(&counts), ..record(&part(0), 0, true) };
        let mut sums = vec![1; counts.len()];
        record.add_counts(&mut sums);
        assert_eq!(sums, counts.iter().map(|count| count + 1).collect::<Vec<_>>());
    }
}
