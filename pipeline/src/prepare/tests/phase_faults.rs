//! Faults of the disk in each phase of a shared preparation, and in a repair.

use std::num::NonZeroU64;

use super::duplicates::planted;
use super::*;

/// Command that writes to the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Plan,
    Sign,
    RunIndex,
    RunLeases,
    Finalize,
    Repair,
}

/// Damaged objects of the repair.
const DAMAGED: [&str; 2] = ["train/part-00001-00-00.parquet", "documents/part-00003-00.parquet"];

impl Phase {
    fn run(self, home: &Home) -> Result<()> {
        let (_stopper, stop) = cancel_pair();
        let clock = Clock::still();
        let mut observer = Fanout::default();
        let open = || SharedPreparation::open(&home.config);
        let plan = || Preparation::plan(&home.config);
        let whole = Share::Index { index: 0, count: NonZeroU64::MIN };
        let leases = Share::Leases { expiry: Duration::from_secs(60) };
        let options = PrepareOptions::default();
        match self {
            Self::Plan => plan()?.write_plan(&clock, &mut observer).map(drop),
            Self::Sign => open()?.sign(whole, &stop, &clock, &mut observer).map(drop),
            Self::RunIndex => open()?.run(whole, options, &stop, &clock, &mut observer, None).map(drop),
            Self::RunLeases => open()?.run(leases, options, &stop, &clock, &mut observer, None).map(drop),
            Self::Finalize => open()?.finalize(&stop, &clock, &mut observer).map(drop),
            Self::Repair => {
                let damaged = verify(&home.store(), 2, &stop, &mut |_, _| ())?.damaged_parts();
                plan()?.remake(&damaged, &clock, &mut observer).map(drop)
            }
        }
    }

    /// Runs the phases before this one without faults.
    fn begin(self, home: &Home) {
        let before: &[Self] = match self {
            Self::Plan => &[],
            Self::Sign => &[Self::Plan],
            Self::RunIndex | Self::RunLeases => &[Self::Plan, Self::Sign],
            Self::Finalize => &[Self::Plan, Self::Sign, Self::RunIndex],
            Self::Repair => &[Self::Plan, Self::Sign, Self::RunIndex, Self::Finalize],
        };
        for phase in before {
            phase.run(home).expect("no fault");
        }
        for name in DAMAGED.into_iter().filter(|_| self == Self::Repair) {
            write_all(&home.config.folder, &[(name, "damaged")]);
        }
    }

    /// Runs this phase and those after it without faults.
    fn finish(self, home: &Home) {
        let after: &[Self] = match self {
            Self::Plan => &[self, Self::Sign, Self::RunIndex, Self::Finalize],
            Self::Sign => &[self, Self::RunIndex, Self::Finalize],
            Self::RunIndex | Self::RunLeases => &[self, Self::Finalize],
            Self::Finalize | Self::Repair => &[self],
        };
        for phase in after {
            phase.run(home).expect("the disk is well again");
        }
    }
}

/// Corpus with duplicates, in few parts.
fn home() -> Home {
    let mut home = planted();
    home.config.part_bytes = Some(6000);
    home
}

/// Removes locks that could not be released; their holder, this process, is still alive.
fn forget_locks(home: &Home) {
    let _ = fs::remove_file(home.config.folder.join(LOCK));
    let _ = fs::remove_dir_all(home.config.folder.join("leases"));
}

/// Checks a folder after a fault: every object is whole, and objects that were whole before are still there.
fn check_objects(home: &Home, whole: &BTreeMap<String, Vec<u8>>, before: &BTreeMap<String, Vec<u8>>, what: &str) {
    let after = home.data();
    let is_whole = |name: &String, bytes: &Vec<u8>| whole.get(name) == Some(bytes);
    for (name, bytes) in after.iter().filter(|(name, _)| *name != planned_inputs::NAME) {
        let is_damaged = DAMAGED.contains(&name.as_str()) && bytes == b"damaged";
        assert!(is_whole(name, bytes) || is_damaged, "{what}: {name} is half-written");
    }
    // A repair begins with the removal of the records of damaged parts.
    let is_outdated = |name: &str| ["parts/part-00001-", "parts/part-00003-"].iter().any(|part| name.starts_with(part));
    for (name, bytes) in before.iter().filter(|(name, bytes)| is_whole(name, bytes) && !is_outdated(name)) {
        assert!(after.get(name) == Some(bytes), "{what}: {name} was complete, and is lost");
    }
}

/// Lets the disk fail after an increasing number of writes until the phase succeeds. Each attempt continues where the
/// one before ended.
fn check_phase(phase: Phase, step: usize, whole: &BTreeMap<String, Vec<u8>>) {
    let home = home();
    phase.begin(&home);
    forget_locks(&home);
    let folder = &home.config.folder;
    let mut failed = 0;
    for writes in (0..).step_by(step) {
        let what = format!("{phase:?} after {writes} writes");
        let before = home.data();
        store::faults::fail_after(folder, Some(writes));
        let outcome = phase.run(&home);
        store::faults::fail_after(folder, None);
        forget_locks(&home);
        check_objects(&home, whole, &before, &what);
        let Err(error) = outcome else { break };
        let is_named = error.to_string().contains(&folder.display().to_string());
        assert!(matches!(error, Error::Io(_)) && is_named, "{what}: {error}");
        failed += 1;
    }
    assert!(failed >= 3, "{phase:?}: {failed} faults");
    phase.finish(&home);
    assert!(home.data() == *whole, "{phase:?}");
}

fn whole() -> BTreeMap<String, Vec<u8>> {
    let home = home();
    home.run().expect("prepared");
    let whole = home.data();
    assert!(records(&whole) >= 5 && DAMAGED.iter().all(|name| whole.contains_key(*name)), "{:?}", whole.keys());
    whole
}

#[test]
fn a_failing_disk_in_a_plan_or_a_last_phase_loses_nothing() {
    let whole = whole();
    check_phase(Phase::Plan, 7, &whole);
    check_phase(Phase::Finalize, 7, &whole);
}

#[test]
fn a_failing_disk_in_a_share_loses_only_parts_in_progress() {
    let whole = whole();
    for phase in [Phase::Sign, Phase::RunIndex, Phase::RunLeases] {
        check_phase(phase, 23, &whole);
    }
}

#[test]
fn a_failing_disk_in_a_repair_loses_no_part_that_was_sound() {
    check_phase(Phase::Repair, 11, &whole());
}

#[test]
fn a_full_disk_in_any_phase_is_named_and_the_phase_continues() {
    let whole = whole();
    for phase in [Phase::Plan, Phase::Sign, Phase::RunIndex, Phase::RunLeases, Phase::Finalize, Phase::Repair] {
        let home = home();
        phase.begin(&home);
        let before = home.data();
        store::faults::fill_disk(&home.config.folder, true);
        let error = phase.run(&home).expect_err("full").to_string();
        store::faults::fill_disk(&home.config.folder, false);
        forget_locks(&home);
        assert!(error.contains("free some space"), "{phase:?}: {error}");
        check_objects(&home, &whole, &before, &format!("{phase:?}"));
        phase.finish(&home);
        assert!(home.data() == whole, "{phase:?}");
    }
}
