//! A list of dataset versions that was changed on disk.

use schemas::{DatasetVersion, Epoch, Sealed as _};
use store::{FaultConfig, Store};

use super::list::{NAME, VersionList, VersionSpan};

#[test]
fn a_list_of_dataset_versions_is_usable_or_refused() {
    let stretch = |epoch, dataset_version| VersionSpan {
        epoch: Epoch(epoch),
        dataset_version: DatasetVersion(dataset_version),
        content: "a".into(),
    };
    let seed = VersionList { epochs: 5, stretches: vec![stretch(0, 0), stretch(2, 1)], streamed: None }.seal();
    fuzz::target!("dataset_versions", vec![seed], |bytes: &[u8]| {
        let Some(list) = fuzz::unsealed::<VersionList>(bytes) else { return };
        let store = Store::memory(FaultConfig::calm());
        list.write(&store, NAME).expect("memory takes all");
        if let Ok(Some(read)) = VersionList::read(&store, NAME) {
            assert_eq!(read, list);
            for epoch in [0, 1, 2, 4, 5, u64::MAX] {
                assert_eq!(read.at(Epoch(epoch)).is_some(), epoch < read.epochs);
            }
        }
    });
}
