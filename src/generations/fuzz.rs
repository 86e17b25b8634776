//! A list of generations that a disk, or somebody, has changed.

use schemas::{Epoch, Generation, Sealed as _};
use store::{Store, Weather};

use super::{List, NAME, Stretch, read};

#[test]
fn a_list_of_generations_is_usable_or_refused() {
    let stretch =
        |epoch, generation| Stretch { epoch: Epoch(epoch), generation: Generation(generation), content: "a".into() };
    let seed = List { epochs: 5, stretches: vec![stretch(0, 0), stretch(2, 1)], streamed: None }.seal();
    fuzz::target!("generations", vec![seed], |bytes: &[u8]| {
        let Some(list) = fuzz::unsealed::<List>(bytes) else { return };
        let store = Store::memory(Weather::calm());
        list.write(&store, NAME).expect("memory takes all");
        if let Ok(Some(read)) = read(&store, NAME) {
            assert_eq!(read, list);
            for epoch in [0, 1, 2, 4, 5, u64::MAX] {
                assert_eq!(read.at(Epoch(epoch)).is_some(), epoch < read.epochs);
            }
        }
    });
}
