//! Preparations by several processes: any split of the parts gives the same folder.

use std::num::NonZeroU64;

use store::MemoryBackend;
use store::{FaultConfig, Lock};

use super::dataset_versions::many;
use super::*;
use crate::corpus::InputFile;

/// Expiry of leases in tests, which do not wait for one.
const EXPIRY: Duration = Duration::from_secs(60);

pub(super) fn plan_in(home: &Home, store: &Store) -> PreparePlan {
    Preparation::plan_in(&home.config, store)
        .expect("a plan")
        .write_plan(&Clock::still(), &mut Fanout::default())
        .expect("written")
}

pub(super) fn share_in(home: &Home, store: &Store, share: Share) -> Result<ShareSummary> {
    let (_stopper, stop) = cancel_pair();
    let shared = SharedPreparation::open_in(&home.config, store)?;
    shared.run(share, PrepareOptions::default(), &stop, &Clock::still(), &mut Fanout::default(), None)
}

fn finalize_in(home: &Home, store: &Store) -> Result<PrepareSummary> {
    let (_stopper, stop) = cancel_pair();
    SharedPreparation::open_in(&home.config, store)?.finalize(&stop, &Clock::still(), &mut Fanout::default())
}

pub(super) fn index(index: u64, count: u64) -> Share {
    Share::Index { index, count: NonZeroU64::new(count).expect("above 0") }
}

/// Returns every object except the lock and those that depend on the machine.
fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let names = store.list("").expect("listed").into_iter().map(|entry| entry.name);
    let names = names.filter(|name| name != LOCK && name != fingerprints::NAME);
    names.map(|name| (name.clone(), store.get(&name).expect("there"))).collect()
}

#[test]
fn every_split_of_the_work_gives_the_same_folder() {
    let home = many();
    home.run().expect("prepared");
    let whole = objects(&home.store());
    for count in [1, 2, 3, 7, 500] {
        let store = Store::in_memory(FaultConfig::none());
        let parts = plan_in(&home, &store).parts as u64;
        let mut made = 0;
        // Backwards, and one share twice.
        for share in (0..count).rev().chain([0]) {
            made += share_in(&home, &store, index(share, count)).expect("made").parts_made;
        }
        assert_eq!(made, parts, "each part is made once");
        let summary = finalize_in(&home, &store).expect("complete");
        assert_eq!((summary.parts_made, summary.parts_skipped), (0, parts));
        assert_eq!(objects(&store), whole, "{count} shares");
        assert!(finalize_in(&home, &store).expect("complete").nothing_to_do);
    }
}

#[test]
fn processes_with_leases_make_each_part_once_in_spite_of_faults() {
    let home = many();
    home.run().expect("prepared");
    let whole = objects(&home.store());
    for seed in 0..4 {
        let faults = FaultConfig { seed, failures: 0.1, lost: 0.1, ..FaultConfig::none() };
        let memory = MemoryBackend::new(faults);
        let parts = plan_in(&home, &Store::from_memory(&memory)).parts as u64;
        let process = || {
            let summary = share_in(&home, &Store::from_memory(&memory), Share::Leases { expiry: EXPIRY });
            summary.expect("all parts exist").parts_made
        };
        let made: u64 = std::thread::scope(|scope| {
            let processes = [(); 3].map(|()| scope.spawn(process));
            processes.map(|process| process.join().expect("no panic")).iter().sum()
        });
        assert_eq!(made, parts, "seed {seed}");
        let reliable = Store::from_memory(&memory.with_faults(FaultConfig::none()));
        finalize_in(&home, &reliable).expect("complete");
        assert_eq!(objects(&reliable), whole, "seed {seed}");
    }
}

#[test]
fn a_part_of_a_dead_process_is_taken_over_and_that_of_a_live_one_is_not() {
    let home = many();
    let store = Store::in_memory(FaultConfig::none());
    let parts = plan_in(&home, &store).parts as u64;
    let lease = |part: u32| leases::name(schemas::PartId(part));
    let terms = leases::terms(EXPIRY);
    let alive = Lock::acquire(&store, &lease(3), store::Holder::this_process(), terms).expect("free");
    // Lease that is not renewed, of a holder on another machine.
    let mut content: serde_json::Value = serde_json::from_slice(&store.get(&lease(3)).expect("there")).expect("JSON");
    content["holder"]["host"] = "elsewhere".into();
    content["takeover_delay_ms"] = 0.into();
    store.put(&lease(5), content.to_string().as_bytes()).expect("put");
    let waiting = std::thread::scope(|scope| {
        let short = Share::Leases { expiry: Duration::from_millis(120) };
        let (home, store) = (&home, &store);
        let process = scope.spawn(move || share_in(home, store, short));
        while store.list("parts").expect("listed").len() < usize::try_from(parts).expect("few") - 1 {
            std::thread::yield_now();
        }
        assert!(!process.is_finished(), "part 3 is leased");
        drop(alive);
        process.join().expect("no panic")
    });
    assert_eq!(waiting.expect("all parts exist").parts_made, parts);
    // A plain preparation does not sweep the temporary files of live processes.
    let _alive = Lock::acquire(&store, &lease(3), store::Holder::this_process(), terms).expect("free");
    let error = Preparation::plan_in(&home.config, &store).expect("a plan");
    let error = error.run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default());
    assert!(matches!(error, Err(Error::Locked { path, .. }) if path.display().to_string().ends_with(&lease(3))));
}

/// A worker that hangs reads nothing. Its writer sleeps here.
#[test]
fn a_part_whose_worker_hangs_is_taken_over() {
    let mut home = many();
    home.config.workers = Some(1);
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    let share = Share::Leases { expiry: Duration::from_millis(120) };
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| {
            let (_stopper, stop) = cancel_pair();
            let options = PrepareOptions { write_delay: Duration::from_secs(10), ..PrepareOptions::default() };
            let shared = SharedPreparation::open_in(&home.config, &store).expect("planned");
            shared.run(share, options, &stop, &Clock::still(), &mut Fanout::default(), None)
        });
        while store.list("leases").expect("listed").is_empty() {
            std::thread::yield_now();
        }
        share_in(&home, &store, share).expect("all parts exist");
        assert!(!hanging.is_finished(), "the other process makes its part");
        hanging.join().expect("no panic").expect("the same bytes");
    });
    home.run().expect("prepared");
    finalize_in(&home, &store).expect("complete");
    assert_eq!(objects(&store), objects(&home.store()));
}

#[test]
fn unfinished_and_unplanned_folders_are_refused_with_what_is_missing() {
    let home = many();
    let store = Store::in_memory(FaultConfig::none());
    let error = share_in(&home, &store, index(0, 2)).expect_err("no plan").to_string();
    assert!(error.contains("run `cloze prepare plan` first"), "{error}");
    let parts = plan_in(&home, &store).parts;
    let made = share_in(&home, &store, index(0, 2)).expect("made").parts_made;
    let error = finalize_in(&home, &store).expect_err("half of it").to_string();
    let expected = format!("{} of {parts} parts are missing (", parts as u64 - made);
    assert!(error.contains(&expected) && error.contains("cloze prepare run"), "{error}");
    let other = PrepareConfig { max_seq_len: 32, ..home.config.clone() };
    let error = SharedPreparation::open_in(&other, &store).expect_err("other settings").to_string();
    assert!(error.contains("`max_seq_len` = 16, now 32"), "{error}");
}

#[test]
fn a_file_that_changed_after_the_plan_is_refused() {
    let home = many();
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    let path = home.folder.path().join("in/13.txt");
    let text = fs::read(&path).expect("there");
    write_all(home.folder.path(), &[("in/13.txt", text.to_ascii_uppercase())]);
    let file = File::options().write(true).open(&path).expect("there");
    let soon = InputFile::new(path.clone(), "13.txt".into()).expect("there").touched + Duration::from_secs(1);
    file.set_modified(soon).expect("set");
    let error = (0..4).find_map(|share| share_in(&home, &store, index(share, 4)).err()).expect("one has the file");
    let error = error.to_string();
    assert!(error.contains("13.txt") && error.contains("changed since the plan"), "{error}");
    plan_in(&home, &store);
    share_in(&home, &store, index(0, 1)).expect("made");
    finalize_in(&home, &store).expect("complete");
    home.run().expect("prepared");
    assert_eq!(objects(&store).keys().collect::<Vec<_>>(), objects(&home.store()).keys().collect::<Vec<_>>());
}

/// On a machine that has the corpus elsewhere, the inputs of its configuration are searched.
#[test]
fn a_process_finds_the_files_at_another_place() {
    let mut home = many();
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    let there = home.folder.path().join("elsewhere");
    fs::rename(home.folder.path().join("in"), &there).expect("moved");
    home.config.inputs = vec![there.display().to_string()];
    share_in(&home, &store, index(0, 1)).expect("made");
    finalize_in(&home, &store).expect("complete");
    home.run().expect("prepared");
    assert_eq!(objects(&store), objects(&home.store()));
}

/// A machine has its own copy of the corpus. Times of copies differ, so the content counts.
#[test]
fn a_copy_of_another_text_is_refused_and_one_of_the_same_text_is_read() {
    let mut home = many();
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    let names: Vec<String> = (0..40).map(|number| format!("{number:02}.txt")).collect();
    for name in &names {
        let text = fs::read(home.folder.path().join("in").join(name)).expect("there");
        write_all(home.folder.path(), &[(format!("elsewhere/{name}").as_str(), text)]);
        let copy = File::options().write(true).open(home.folder.path().join("elsewhere").join(name)).expect("there");
        copy.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1)).expect("set");
    }
    let stale = home.folder.path().join("elsewhere/13.txt");
    let text = fs::read_to_string(&stale).expect("there");
    write_all(home.folder.path(), &[("elsewhere/13.txt", text.replacen("the", "she", 1))]);
    fs::rename(home.folder.path().join("in"), home.folder.path().join("hidden")).expect("moved");
    home.config.inputs = vec![home.folder.path().join("elsewhere").display().to_string()];
    let error = share_in(&home, &store, index(0, 1)).expect_err("another text").to_string();
    assert!(error.contains("elsewhere/13.txt: it differs from") && error.contains("in/13.txt"), "{error}");
    write_all(home.folder.path(), &[("elsewhere/13.txt", text)]);
    share_in(&home, &store, index(0, 1)).expect("the same text");
    finalize_in(&home, &store).expect("complete");
}

#[test]
fn finalize_of_an_older_plan_is_refused() {
    let home = many();
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    share_in(&home, &store, index(0, 1)).expect("made");
    let older = SharedPreparation::open_in(&home.config, &store).expect("complete");
    home.put(500, "the cat sat on another mat");
    plan_in(&home, &store);
    let (_stopper, stop) = cancel_pair();
    let error = older.finalize(&stop, &Clock::still(), &mut Fanout::default()).expect_err("an older plan").to_string();
    assert!(error.contains("the part list changed"), "{error}");
    share_in(&home, &store, index(0, 1)).expect("made");
    finalize_in(&home, &store).expect("complete");
}

/// A plain preparation would remove the temporary files of the process with the share.
#[test]
fn a_share_at_work_is_seen_by_plain_preparations() {
    let home = many();
    let store = Store::in_memory(FaultConfig::none());
    plan_in(&home, &store);
    let shared = SharedPreparation::open_in(&home.config, &store).expect("planned");
    let held = shared.hold_share(index(1, 2)).expect("answered").expect("free");
    let plan = || Preparation::plan_in(&home.config, &store).expect("a plan");
    let error = plan().run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default());
    assert!(matches!(error, Err(Error::Locked { path, .. }) if path.display().to_string().contains("/share-1-of-2-")));
    // Of the same share on another machine, which does not know that the first one is gone.
    let other = shared.hold_share(index(1, 2)).expect("answered");
    assert_eq!((other.is_some(), store.list("leases").expect("listed").len()), (true, 2));
    drop((held, other));
    plan().run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("the share has ended");
    assert_eq!(store.list("leases").expect("listed"), []);
}
