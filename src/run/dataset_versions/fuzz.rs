//! Fuzz test of a damaged list of dataset versions.

use schemas::{DatasetVersion, Epoch, Sealed as _};
use store::{FaultConfig, Store};

use super::list::{NAME, VersionList, VersionSpan};

#[test]
fn a_list_of_dataset_versions_is_usable_or_refused() {
    let span = |epoch, dataset_version| VersionSpan {
        epoch: Epoch(epoch),
        dataset_version: DatasetVersion(dataset_version),
        content: "a".into(),
    };
    let seed = VersionList { epochs: 5, spans: vec![span(0, 0), span(2, 1)], streamed: None }.seal();
    fuzz::target!("dataset_versions", vec![seed], |bytes: &[u8]| {
        let Some(list) = fuzz::unsealed::<VersionList>(bytes) else { return };
        let store = Store::in_memory(FaultConfig::none());
        list.write(&store, NAME).expect("memory takes all");
        if let Ok(Some(read)) = VersionList::read(&store, NAME) {
            assert_eq!(read, list);
            for epoch in [0, 1, 2, 4, 5, u64::MAX] {
                assert_eq!(read.version_at(Epoch(epoch)).is_some(), epoch < read.epochs);
            }
        }
    });
}
