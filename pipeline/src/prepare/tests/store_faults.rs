//! Preparations over a failing store: results, and remains after a failure.

use store::{FaultConfig, MemoryBackend, Retries};

use super::dataset_versions::many;
use super::dataset_versions::text;
use super::*;

fn faults(seed: u64) -> FaultConfig {
    FaultConfig { seed, failures: 0.2, lost: 0.2, ..FaultConfig::none() }
}

/// Returns every object except those that depend on time or machine.
fn objects(memory: &MemoryBackend) -> BTreeMap<String, Vec<u8>> {
    let store = Store::from_memory(&memory.with_faults(FaultConfig::none()));
    let entries = store
        .list("")
        .expect("no fault")
        .into_iter()
        .filter(|entry| entry.name != LOCK && entry.name != fingerprints::NAME);
    entries.map(|entry| (entry.name.clone(), store.get(&entry.name).expect("no fault"))).collect()
}

fn prepare_in(home: &Home, store: &Store) -> Result<PrepareSummary> {
    Preparation::plan_in(&home.config, store)?.run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default())
}

fn forget_in(home: &Home, store: &Store, id: &str) -> Result<PrepareSummary> {
    Preparation::plan_in(&home.config, store)?
        .forget_document(id, false, &Clock::still(), &mut Fanout::default())
        .map(|(summary, _)| summary)
}

fn check_equal(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ: Vec<_> = names.into_iter().filter(|name| found.get(*name) != expected.get(*name)).collect();
    assert!(differ.is_empty(), "{what}: {differ:?}");
}

#[test]
fn store_faults_change_no_byte() {
    let home = many();
    home.run().expect("prepared");
    for seed in 0..8 {
        let memory = MemoryBackend::new(faults(seed));
        let store = Store::from_memory(&memory);
        prepare_in(&home, &store).expect("prepared");
        check_equal(&objects(&memory), &home.data(), &format!("seed {seed}"));
        let tally = memory.tally();
        assert!(tally.failed > 20 && tally.lost > 20, "{tally:?}");
        assert!(prepare_in(&home, &store).expect("prepared").nothing_to_do);
    }
}

#[test]
fn store_faults_during_a_change_change_no_byte() {
    let home = many();
    home.run().expect("prepared");
    let memory = MemoryBackend::new(faults(11));
    let store = Store::from_memory(&memory);
    prepare_in(&home, &store).expect("prepared");
    home.put(13, &text(13, 7));
    home.put(77, &text(77, 9));
    fs::remove_file(home.folder.path().join("in/14.txt")).expect("there");
    for step in 0..2 {
        let id = Document::digest(text(7, 6).lines().nth(2).expect("a line"));
        if step == 0 {
            home.run().expect("prepared");
            prepare_in(&home, &store).expect("prepared");
        } else {
            forget_in(&home, &Store::existing(&home.config.folder).expect("there"), &id).expect("forgotten");
            forget_in(&home, &store, &id).expect("forgotten");
        }
        check_equal(&objects(&memory), &home.data(), &format!("step {step}"));
    }
}

/// With 3 attempts instead of 20, about one call in 25 fails permanently.
#[test]
fn lasting_faults_name_an_object_and_lose_no_committed_part() {
    let home = many();
    home.run().expect("prepared");
    let whole = home.data();
    let mut kept = BTreeSet::new();
    let mut given_up = 0;
    for seed in 0..72 {
        let memory = MemoryBackend::new(faults(seed));
        let reliable = Store::from_memory(&memory.with_faults(FaultConfig::none()));
        let before = if seed % 2 == 0 {
            BTreeMap::new()
        } else {
            // A committed segment that is temporarily unreadable is neither remade nor lost.
            prepare_in(&home, &reliable).expect("no fault");
            reliable.delete("parts/part-00003-00.json").expect("no fault");
            reliable.delete(LOCK).expect("no fault");
            objects(&memory)
        };
        let impatient =
            Retries { attempts_max: 3, pause: Duration::ZERO, pause_max: Duration::ZERO, ..Retries::default() };
        let faulty = Store::from_memory(&memory).with_retries(impatient);
        if let Err(error) = prepare_in(&home, &faulty) {
            given_up += 1;
            let error = error.to_string();
            assert!(error.contains("memory:") && error.contains("3 times in a row"), "seed {seed}: {error}");
        }
        let after = objects(&memory);
        for (name, bytes) in &after {
            assert!(whole.get(name) == Some(bytes), "seed {seed}: {name} is half-written");
        }
        assert!(before.keys().all(|name| after.contains_key(name)), "seed {seed}: what was there stays");
        kept.insert(records(&after));
        // If the release of the lock was lost, the next run would wait for it.
        reliable.delete(LOCK).expect("no fault");
        let last = prepare_in(&home, &reliable).expect("no fault");
        assert_eq!(last.parts_skipped, records(&after) as u64, "seed {seed}: no finished part is made twice");
        check_equal(&objects(&memory), &whole, &format!("seed {seed}"));
    }
    assert!(given_up >= 16 && kept.len() >= 4, "{given_up} gave up, after {kept:?} records");
}
