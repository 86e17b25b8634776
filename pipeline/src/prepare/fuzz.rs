//! Fuzz targets for commit records and part lists that were damaged or modified.

use std::collections::BTreeMap;

use schemas::manifest::{CorpusReport, FileEntry};
use schemas::{DatasetVersion, PartId, Sealed, Shard};
use store::{FaultConfig, Store};

use super::commit_record::{CommitRecord, Example, FoundPart, PartBinding, sparse};
use super::config::Settings;
use super::fingerprints::{self, Fingerprints};
use super::listing::ObjectListing;
use super::part_list::{PartList, VersionLists};
use crate::corpus::{DocumentPlace, InputFile, Part, Piece, PieceEnd};

fn part() -> Part {
    Part { id: PartId(0), bytes: 7, pieces: vec![Piece { name: "a.txt".into(), bytes: 7, range: 0..7 }] }
}

fn record() -> CommitRecord {
    let reached = PieceEnd { to: 7, lines: 3, blake3: "b".into() };
    let shard = Shard {
        path: "train/part-00000-00-00.parquet".into(),
        part: PartId(0),
        first_row: 0,
        rows: 3,
        tokens: 30,
        groups: vec![3],
        bytes: 5,
        blake3: "c".into(),
        content: "d".into(),
    };
    CommitRecord {
        settings: "s".into(),
        part: part(),
        segment: 0,
        forgotten: "f".into(),
        verdicts: String::new(),
        from: DocumentPlace::default(),
        first_rows: [0, 0],
        read: vec![(0, reached.clone())],
        next: Some(DocumentPlace { piece: 0, reached: Some(reached) }),
        train: vec![shard],
        valid: Vec::new(),
        documents: Some(FileEntry { path: "documents/part-00000-00.parquet".into(), blake3: "e".into() }),
        removed: Some(FileEntry { path: "removed/part-00000-00.jsonl.zst".into(), blake3: "f".into() }),
        report: CorpusReport { rejected: BTreeMap::from([("nul".to_owned(), 1)]), ..CorpusReport::default() },
        lines: 3,
        examples: vec![Example { reason: "nul".into(), piece: 0, line: 1 }],
        filtered: Vec::new(),
        contaminated: Vec::new(),
        unknown_words: vec![("☃".into(), 3)],
        counts: sparse(&[0, 5, 0, 7]),
    }
}

#[test]
fn a_record_is_read_as_written_or_refused() {
    fuzz::target!("record", vec![record().seal()], |bytes: &[u8]| {
        let Some(record) = fuzz::unsealed::<CommitRecord>(bytes) else { return };
        let store = Store::in_memory(FaultConfig::none());
        store.put("parts/part-00000-00.json", &record.seal()).expect("memory takes all");
        let part = part();
        let bound = PartBinding { settings: &record.settings, forgotten: "f", verdicts: "", part: &part };
        let mut found = FoundPart::read(&store, bound).expect("answered");
        assert!(found.records.iter().all(|read| *read == record));
        found.verify(&store, &ObjectListing::default()).expect("answered");
        assert!(found.records.is_empty() || record.objects().count() == 0, "nothing that it vouches for is there");
    });
}

#[test]
fn part_lists_are_usable_or_refused() {
    let settings: Settings = serde_json::from_str(r#"{"seed":1}"#).expect("settings");
    let list = |dataset_version, dropped, parts| PartList {
        dataset_version: DatasetVersion(dataset_version),
        settings: settings.clone(),
        dropped,
        forgotten: vec!["x".into()],
        parts,
    };
    let first = list(0, Vec::new(), vec![part()]).seal();
    let second = list(1, vec![PartId(0)], vec![Part { id: PartId(1), ..part() }]).seal();
    fuzz::target!("part-list", vec![first.clone(), second], |bytes: &[u8]| {
        let Some(list) = fuzz::unsealed::<PartList>(bytes) else { return };
        let store = Store::in_memory(FaultConfig::none());
        let number = list.dataset_version.0.min(1);
        store.put("versions/00000.json", &first).expect("memory takes all");
        store.put(&format!("versions/{number:05}.json"), &list.seal()).expect("memory takes all");
        let Ok(lists) = VersionLists::read(&store) else { return };
        assert!(lists.iter().any(|read| *read == list));
        let (dataset_version, next) = lists.next();
        assert!(lists.in_effect().keys().all(|id| *id < next), "a number that comes is used already");
        assert!(lists.forgotten(dataset_version).len() >= usize::from(!list.forgotten.is_empty()));
    });
}

#[test]
fn fingerprints_are_read_as_written_or_discarded() {
    let file = fuzz::on_disk(".txt", b"a text");
    let input = InputFile::new(file.path().to_owned(), "a.txt".into()).expect("it is there");
    let mut seen = Fingerprints::default();
    seen.note(&input);
    fuzz::target!("seen", vec![seen.seal()], |bytes: &[u8]| {
        let store = Store::in_memory(FaultConfig::none());
        store.put(fingerprints::NAME, bytes).expect("memory takes all");
        let found = Fingerprints::read(&store).expect("answered");
        found.write(&store).expect("memory takes all");
        assert_eq!(Fingerprints::read(&store).expect("answered"), found);
    });
}
