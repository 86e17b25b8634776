//! Wall clocks that jump: of the machine that prepares, of the storage, and of the machine that wrote the inputs.
//!
//! A jump appears as times of objects and files in the far past or future. Leases and locks read the monotonic clock of
//! their observer only, so that no time of an object decides.

use std::path::PathBuf;
use std::time::SystemTime;

use store::LeaseContender;

use super::dataset_versions::{check_fresh, many, text};
use super::*;

/// Times that no object of a test has by itself: thirty years before now, and as long after it.
fn jumps() -> [SystemTime; 2] {
    let years = Duration::from_secs(30 * 365 * 86_400);
    let now = SystemTime::now();
    [now - years, now + years]
}

fn set_time(path: &Path, time: SystemTime) {
    File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("set");
}

/// Sets the times of all files below a folder.
fn set_times(folder: &Path, time: SystemTime) {
    for name in files(folder).into_keys().chain([LOCK.to_owned(), fingerprints::NAME.to_owned()]) {
        let path: PathBuf = folder.join(name);
        if path.exists() {
            set_time(&path, time);
        }
    }
}

#[test]
fn a_prepared_folder_with_any_times_has_nothing_to_do_and_notices_changes() {
    for jump in jumps() {
        let home = many();
        home.run().expect("prepared");
        let before = home.data();
        set_times(&home.config.folder, jump);
        assert!(home.run().expect("prepared").nothing_to_do);
        assert!(home.data() == before);
        // Objects with times out of order: each record is older than its objects, which are then hashed.
        set_times(&home.config.folder.join("train"), jump + Duration::from_secs(1));
        assert!(home.run().expect("prepared").nothing_to_do);
        home.put(13, &text(13, 6).replace("mat", "sat"));
        let changed = home.run().expect("prepared").change.expect("a change");
        assert_eq!((changed.replaced, changed.dropped), (1, 1));
        check_fresh(&home);
    }
}

#[test]
fn inputs_with_any_times_give_the_same_bytes_and_changes_are_noticed() {
    let home = many();
    home.run().expect("prepared");
    let expected = home.data();
    for jump in jumps() {
        fs::remove_dir_all(&home.config.folder).expect("made");
        set_times(&home.folder.path().join("in"), jump);
        home.run().expect("prepared");
        assert!(home.data() == expected);
        // The clock jumps back: the changed file is older than the part list.
        home.put(13, &text(13, 6).replace("mat", "sat"));
        set_time(&home.folder.path().join("in/13.txt"), jump - Duration::from_secs(86_400));
        assert_eq!(home.run().expect("prepared").change.expect("a change").replaced, 1);
        home.put(13, &text(13, 6));
    }
}

/// Lease of a live process on another machine, so that only its counter tells that it is alive.
fn hold_elsewhere(store: &Store, name: &str) -> Lock {
    let held = Lock::acquire(store, name, store::Holder::this_process(), leases::terms(Duration::from_secs(60)));
    let held = held.expect("free");
    let mut content: serde_json::Value = serde_json::from_slice(&store.get(name).expect("there")).expect("JSON");
    content["holder"]["host"] = "elsewhere".into();
    store.put(name, content.to_string().as_bytes()).expect("put");
    held
}

#[test]
fn a_lease_with_any_time_is_taken_over_only_by_the_clock_of_its_observer() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(home.path()).expect("made");
    let name = leases::name(PartId(3));
    let held = hold_elsewhere(&store, &name);
    let contender = LeaseContender::new(&store, leases::terms(Duration::from_secs(60)));
    for jump in jumps() {
        // A changed time is a changed version, which the contender counts as a heartbeat.
        set_time(&home.path().join(&name), jump);
        for _ in 0..2 {
            assert!(contender.try_acquire(&name).expect("answered").is_none(), "60 seconds have not passed");
        }
        held.check().expect("the holder has not lost it");
    }
}

/// The storage's clock decides only whether a plain preparation waits for a lease, never who writes a part.
#[test]
fn a_lease_of_the_future_refuses_a_plain_preparation_and_one_of_the_past_does_not() {
    let [past, future] = jumps();
    let home = many();
    home.run().expect("prepared");
    let expected = home.data();
    fs::remove_dir_all(&home.config.folder).expect("made");
    let plan = || Preparation::plan(&home.config).expect("a plan");
    plan().write_plan(&Clock::still(), &mut Fanout::default()).expect("written");
    let name = leases::name(PartId(3));
    let _held = hold_elsewhere(&home.store(), &name);
    let run = || plan().run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default());
    set_time(&home.config.folder.join(&name), future);
    let error = run().expect_err("it may be alive").to_string();
    assert!(error.contains(&name) && error.contains("wait for it"), "{error}");
    set_time(&home.config.folder.join(&name), past);
    run().expect("it was not renewed for years");
    assert!(home.data() == expected);
}
