//! Fuzz test of a damaged list of bad rows.

use pipeline::load::{BadRow, BadRows as _, RowFacts};
use schemas::{DatasetVersion, Epoch, RowIndex, SampleAddress, Sealed as _};
use store::{FaultConfig, Store};

use super::{List, NAME, RunBadRows};

#[test]
fn a_list_of_rows_is_usable_or_refused() {
    let bad = |row| BadRow {
        row: RowFacts {
            row: RowIndex(row),
            of: Some("books".to_owned()),
            epoch: Epoch(0),
            dataset_version: DatasetVersion(0),
            sample: SampleAddress::numbered(row),
            piece: 0,
            copy: 0,
            shard: "a".into(),
            group: 0,
            row_in_group: 0,
            source: 0,
            documents: vec![1],
        },
        why: "b".into(),
    };
    let seed = List { identity: "c".into(), rows: vec![bad(3), bad(5)] }.seal();
    fuzz::target!("left-out", vec![seed], |bytes: &[u8]| {
        let Some(list) = fuzz::unsealed::<List>(bytes) else { return };
        let store = Store::in_memory(FaultConfig::none());
        store.put(NAME, &list.seal()).expect("memory takes all");
        let read = RunBadRows::open(&store).expect("it is sealed");
        for bad in &list.rows {
            let found = read.in_range(bad.row.row.0..bad.row.row.0.saturating_add(1));
            assert!(bad.row.row.0 == u64::MAX || found.iter().any(|found| found.row.row == bad.row.row));
            assert!(!bad.row.to_string().is_empty());
        }
    });
}
