//! Tests of the version list of a run.

use pipeline::shard::synthetic::Synthetic;
use schemas::Sealed as _;
use store::Store;

use super::list::{NAME, VersionList, VersionSpan};
use super::*;

struct Home {
    folder: tempfile::TempDir,
    shape: Synthetic,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a temporary folder"), shape: Synthetic::default() };
        home.shape.write(&home.data()).expect("written");
        home
    }

    fn data(&self) -> Store {
        Store::folder(self.folder.path().join("data")).expect("there")
    }

    fn add(&self, part: u32) {
        self.shape.add(&self.data(), &[part], &[]).expect("written");
    }

    fn run(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    fn open(&self) -> Result<DatasetVersions> {
        let manifest = load::open(&self.data()).expect("as written");
        let choice = VersionChoice::Latest;
        DatasetVersions::open(&self.run(), &self.data(), None, RowOrder::Shuffled, choice, &hashes_of(&manifest))
    }

    fn kept(&self) -> DatasetVersions {
        let dataset_versions = self.open().expect("a list");
        dataset_versions.record_in(Store::folder(self.run()).expect("there")).expect("the only one");
        dataset_versions
    }
}

fn versions_of(dataset_versions: &DatasetVersions, epochs: std::ops::Range<u64>) -> Vec<u32> {
    epochs.map(|epoch| dataset_versions.snapshot(Epoch(epoch)).expect("an answer").dataset_version.0).collect()
}

#[test]
fn an_epoch_keeps_its_dataset_version_after_a_kill() {
    let home = Home::new();
    let dataset_versions = home.kept();
    assert_eq!((dataset_versions.first(), versions_of(&dataset_versions, 1..2)), (DatasetVersion(0), vec![0]));
    home.add(1);
    assert_eq!(versions_of(&dataset_versions, 2..4), [1, 1]);
    home.add(2);
    drop(dataset_versions);
    let again = home.kept();
    assert_eq!(
        (again.first(), versions_of(&again, 0..4)),
        (DatasetVersion(0), vec![0, 0, 1, 1]),
        "as it was written down"
    );
    assert_eq!(versions_of(&again, 4..6), [2, 2]);
}

#[test]
fn other_ranks_wait_for_the_decisions_of_rank_0() {
    let home = Home::new();
    let [first, other] = [(); 2].map(|()| home.open().expect("none is there"));
    let run = || Store::folder(home.run()).expect("there");
    other.follow(run());
    let (_source, stop) = runtime::cancel_pair();
    let await_decision = |epoch| other.await_decision(Epoch(epoch), Some(&stop));
    await_decision(0).expect("every list has it");
    std::thread::scope(|scope| {
        let early = scope.spawn(|| {
            await_decision(1).expect("decided");
            versions_of(&other, 1..2)
        });
        first.record_in(run()).expect("the only one");
        assert_eq!(versions_of(&first, 1..2), [0]);
        home.add(1);
        assert_eq!(early.join().expect("no panic"), [0], "not the version that is now the newest");
    });
    assert_eq!(versions_of(&first, 2..3), [1]);
    home.add(2);
    await_decision(2).expect("decided");
    assert_eq!(versions_of(&other, 2..3), [1]);

    let (source, stop) = runtime::cancel_pair();
    source.cancel();
    assert!(matches!(other.await_decision(Epoch(3), Some(&stop)), Err(Error::Stopped)), "rank 0 has not decided");
    assert!(matches!(other.await_decision(Epoch(3), None), Err(Error::Stopped)));
    let list =
        VersionList { epochs: 3, spans: Vec::new(), ..VersionList::read(&run(), NAME).expect("read").expect("there") };
    list.write(&run(), NAME).expect("written");
    other.await_decision(Epoch(3), Some(&stop)).expect_err("a damaged list");
}

#[test]
fn a_new_run_begins_with_the_newest_version_and_reading_writes_nothing() {
    let home = Home::new();
    home.add(1);
    let dataset_versions = home.open().expect("none is there");
    assert_eq!((dataset_versions.first(), versions_of(&dataset_versions, 1..3)), (DatasetVersion(1), vec![1, 1]));
    assert!(!home.run().exists());
}

#[test]
fn a_damaged_list_is_refused() {
    let home = Home::new();
    drop(home.kept());
    let store = Store::folder(home.run()).expect("there");
    let good = store.get(NAME).expect("written");
    let refused = |bytes: &[u8], words: &[&str]| {
        store.put(NAME, bytes).expect("written");
        let error = home.open().expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    refused(&damaged, &["dataset_versions.json", "begin a new run"]);
    let no_epoch = VersionList { epochs: 0, spans: Vec::new(), streamed: None };
    refused(&no_epoch.seal(), &["does not begin with epoch 0"]);
    let span =
        |dataset_version, content: &str| VersionSpan { epoch: Epoch(0), dataset_version, content: content.to_owned() };
    for other in [span(DatasetVersion(0), "other"), span(DatasetVersion(7), "")] {
        let list = VersionList { epochs: 1, spans: vec![other], streamed: None };
        refused(&list.seal(), &["with other data than is here now", "set the folder"]);
    }
}

#[test]
fn two_processes_that_plan_at_once_do_not_both_write() {
    let home = Home::new();
    let early = home.open().expect("none");
    let late = home.open().expect("none");
    early.record_in(Store::folder(home.run()).expect("there")).expect("the first");
    assert_eq!(versions_of(&early, 1..2), [0]);
    let error = late.record_in(Store::folder(home.run()).expect("there")).expect_err("it planned before").to_string();
    assert!(error.contains("run the same command again"), "{error}");
}

#[test]
fn an_answer_that_could_not_be_written_is_not_given() {
    let home = Home::new();
    let dataset_versions = home.kept();
    home.add(1);
    // A file replaces the run folder.
    std::fs::remove_dir_all(home.run()).expect("ours");
    Store::folder(home.folder.path()).expect("there").put("run", b"").expect("written");
    assert!(dataset_versions.snapshot(Epoch(1)).is_err());
    std::fs::remove_file(home.run()).expect("ours");
    Store::folder(home.run()).expect("free");
    home.add(2);
    assert_eq!(versions_of(&dataset_versions, 1..2), [2], "the failed call decided nothing");
    let list =
        VersionList::read(&Store::existing(home.run()).expect("there"), NAME).expect("readable").expect("written");
    assert_eq!((list.epochs, list.version_at(Epoch(1))), (2, Some(DatasetVersion(2))));
}

#[test]
fn a_pinned_run_is_refused_only_if_its_own_data_is_dropped() {
    let home = Home::new();
    let staying = PinnedVersion(Arc::new(home.kept()));
    let first = staying.snapshot(Epoch(1)).expect("there");
    assert!(Arc::ptr_eq(&first, &staying.snapshot(Epoch(2)).expect("there")), "nothing is read again");
    home.add(1);
    assert_eq!(staying.snapshot(Epoch(3)).expect("there").refusal(), None, "added parts do not affect it");
    home.shape.add(&home.data(), &[2], &[1]).expect("written");
    assert_eq!(
        staying.snapshot(Epoch(4)).expect("there").refusal(),
        None,
        "nor do dropped parts that it does not read"
    );
    home.shape.add(&home.data(), &[3], &[0]).expect("written");
    let refusal = staying.snapshot(Epoch(5)).expect("readable").refusal().expect("dropped");
    assert!(refusal.contains("dataset version 3 dropped part 0"), "{refusal}");
    let other = Synthetic { seed: 9, ..home.shape.clone() };
    std::fs::remove_dir_all(home.folder.path().join("data")).expect("ours");
    other.write(&home.data()).expect("written");
    let error = staying.snapshot(Epoch(6)).expect_err("another folder").to_string();
    assert!(error.contains("with other data than is here now"), "{error}");
}
