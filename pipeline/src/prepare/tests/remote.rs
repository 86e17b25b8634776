//! Preparations from and to object stores.

use store::{FaultConfig, MemoryBackend};

use super::*;

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Contents by name, without what depends on the place.
fn contents(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.into_iter().filter(|(name, _)| name != "fingerprints.json" && name != LOCK).collect()
}

#[test]
fn inputs_and_a_folder_at_urls_give_the_same_bytes() {
    let home = Home::new();
    home.run().expect("prepared");
    let expected = contents(home.data());
    let folder = home.folder.path().join("remote");
    let inputs = vec![url(&home.folder.path().join("in")) + "/"];
    let config = PrepareConfig { inputs, folder: url(&folder).into(), ..home.config.clone() };
    prepare(&config).expect("prepared");
    assert!(contents(files(&folder)) == expected);
    assert!(prepare(&config).expect("nothing to do").nothing_to_do);
    // An object with other text replaces its parts.
    write_all(home.folder.path(), &[("in/1.txt", "a cat sat on a mat")]);
    let changed = prepare(&config).expect("prepared");
    assert_eq!(changed.change.map(|change| change.replaced), Some(1));
}

#[test]
fn a_store_that_loses_requests_gets_the_same_bytes() {
    let home = Home::new();
    home.run().expect("prepared");
    let expected = contents(home.data());
    let faults = FaultConfig { failures: 0.1, lost: 0.1, seed: 4, ..FaultConfig::none() };
    let memory = MemoryBackend::new(faults);
    let store = Store::from_memory(&memory);
    let inputs = vec![url(&home.folder.path().join("in")) + "/"];
    let config = PrepareConfig { inputs, ..home.config.clone() };
    let preparation = Preparation::plan_in(&config, &store).expect("planned");
    preparation.run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("prepared");
    let calm = Store::from_memory(&memory.with_faults(FaultConfig::none()));
    let names = calm.list("").expect("listed").into_iter().map(|entry| entry.name);
    let found = names.map(|name| (name.clone(), calm.get(&name).expect("there"))).collect();
    let found = contents(found);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found == expected);
    assert!(memory.tally().failed > 0 && memory.tally().lost > 0);
}
