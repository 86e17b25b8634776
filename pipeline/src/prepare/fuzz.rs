//! Commit records that a disk, or somebody, has changed.

use std::collections::BTreeMap;

use schemas::manifest::CorpusReport;

use super::record::{CommitRecord, sparse};
use crate::corpus::{Part, Piece};

fn record() -> Vec<u8> {
    let piece = Piece { source: 0, name: "a.txt".into(), range: 0..7 };
    let settings = serde_json::from_str(r#"{"tokens_max":64,"pack":"block"}"#).expect("a map");
    CommitRecord {
        part: Part { index: 0, bytes: 7, pieces: vec![piece] },
        settings,
        train: Vec::new(),
        valid: Vec::new(),
        report: CorpusReport { rejected: BTreeMap::from([("nul".to_owned(), 1)]), ..CorpusReport::default() },
        lines: 3,
        examples: Vec::new(),
        counts: sparse(&[0, 5, 0, 7]),
        checksum: String::new(),
    }
    .to_json()
}

#[test]
fn a_record_is_read_as_written_or_refused() {
    fuzz::target!("record", vec![record()], |bytes: &[u8]| {
        // Its checksum turns nearly everything away: what lies behind it is tried without.
        if let Ok(record) = serde_json::from_slice::<CommitRecord>(bytes) {
            let sealed = record.to_json();
            let read: CommitRecord = serde_json::from_slice(&sealed).expect("as written");
            assert_eq!(read.to_json(), sealed);
        }
    });
}
