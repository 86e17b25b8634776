//! Folders that grow while a run reads them.

use std::sync::{Mutex, PoisonError};

use schemas::{DatasetVersion, PartId, SampleAddress};

use super::*;
use crate::epoch_plan::{EpochVersions, SplitSnapshot};

/// Fixed answers, epoch by epoch from the second on; records the requests.
#[derive(Debug)]
struct FixedVersions {
    manifest: Manifest,
    /// Dataset version of each epoch. The last one applies to all later epochs.
    epochs: Vec<u32>,
    asked: Mutex<Vec<u64>>,
}

impl FixedVersions {
    fn of(home: &Home, epochs: &[u32]) -> Arc<Self> {
        Arc::new(Self { manifest: home.manifest.clone(), epochs: epochs.to_vec(), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<u64> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EpochVersions for FixedVersions {
    fn snapshot(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(epoch.0);
        let at = usize::try_from(epoch.0).expect("small").min(self.epochs.len() - 1);
        Ok(Arc::new(SplitSnapshot::train(&self.manifest, DatasetVersion(self.epochs[at]))))
    }

    fn decided(&self) -> u64 {
        self.epochs.len() as u64
    }
}

/// Folder of 230 rows, to which 230 more were added, and then 60 small parts of 3.
fn grown() -> Home {
    let shape = Synthetic { lengths: 0..63, ..Synthetic::default() };
    let mut home = home(&shape);
    shape.add(&home.store, &[1], &[]).expect("written");
    let small = Synthetic { train_rows: 3, valid_rows: 0, ..shape };
    home.manifest = small.add(&home.store, &(2..62).collect::<Vec<u32>>(), &[]).expect("written");
    home
}

impl Home {
    fn following(&self, data: &DataConfig, dataset_version: u32, follow: Option<&Arc<FixedVersions>>) -> Arc<LoadPlan> {
        let (views, wanted) = all_views();
        let follow = follow.map(|told| Arc::clone(told) as Arc<dyn EpochVersions>);
        let request = self.request(data, &views, &wanted);
        let gone = if follow.is_some() { MissingParts::Unread } else { request.missing_parts };
        let request = LoadRequest {
            dataset_version: DatasetVersion(dataset_version),
            epoch_versions: follow,
            missing_parts: gone,
            ..request
        };
        Arc::new(LoadPlan::new(&request).expect("no problem"))
    }
}

/// Returns the digests of rows by their origin.
fn rendered(plan: &Arc<LoadPlan>, batches: u64) -> BTreeMap<(u64, SampleAddress, u32), blake3::Hash> {
    let groups = plan.groups();
    let mut rows = BTreeMap::new();
    for index in (0..batches).map(BatchIndex) {
        let batch = plan.batch(&groups, index).expect("good");
        for (facts, digest) in plan.explain(&groups, index).expect("good").into_iter().zip(batch.row_digests()) {
            rows.insert((facts.epoch.0, facts.sample, facts.copy), *digest);
        }
    }
    rows
}

#[test]
fn the_rows_of_a_part_do_not_depend_on_the_parts_around_it() {
    let home = grown();
    let copies = DataConfig { copies_per_sample: 2, ..data(1) };
    // Two epochs of 460 rows, and one of 1280.
    let alone = rendered(&home.following(&copies, 0, None), 115);
    let among = rendered(&home.following(&copies, 2, None), 160);
    let common: Vec<_> = alone.keys().filter(|key| among.contains_key(key)).collect();
    assert!(common.len() >= 460 && common.iter().all(|key| key.1.part == PartId(0)), "{}", common.len());
    assert!(common.iter().all(|key| alone[key] == among[key]));
    let first = SampleAddress { part: PartId(0), row: 5 };
    let second = SampleAddress { part: PartId(1), row: 5 };
    assert_ne!(among[&(0, first, 0)], among[&(0, second, 0)], "parts have rows of their own");
}

#[test]
fn a_run_that_stays_with_its_first_dataset_version_sees_no_other() {
    let mut home = grown();
    let expected = rendered(&home.following(&data(1), 0, None), 60);
    home.manifest.dataset_versions.truncate(1);
    assert_eq!(rendered(&home.following(&data(1), 0, None), 60), expected);
}

#[test]
fn epoch_uses_its_dataset_version_and_row_numbers_continue() {
    let home = grown();
    let told = FixedVersions::of(&home, &[0, 0, 1, 2]);
    let plan = home.following(&data(3), 0, Some(&told));
    let groups = plan.groups();
    let facts: Vec<RowFacts> =
        (0..220).flat_map(|index| plan.explain(&groups, BatchIndex(index)).expect("good")).collect();
    let mut row = 0;
    for (epoch, (dataset_version, rows)) in [(0, 230), (0, 230), (1, 460), (2, 640)].into_iter().enumerate() {
        let part = &facts[row..row + rows];
        let samples: BTreeSet<SampleAddress> = part.iter().map(|row| row.sample).collect();
        assert_eq!(samples.len(), rows, "epoch {epoch} has every sample once");
        assert!(
            part.iter().all(|row| row.epoch.0 == epoch as u64 && row.dataset_version.0 == dataset_version),
            "{epoch}"
        );
        row += rows;
    }
    assert_eq!(told.asked(), [1, 2, 3, 4], "once for each epoch, in order");
}

#[test]
fn passes_are_counted_over_borders_and_decide_nothing() {
    let home = grown();
    let told = FixedVersions::of(&home, &[0, 0, 1, 2]);
    let plan = home.following(&data(1), 0, Some(&told));
    for (rows, epochs) in
        [(0, 0.0), (115, 0.5), (230, 1.0), (345, 1.5), (460, 2.0), (690, 2.5), (920, 3.0), (1240, 3.5)]
    {
        let found = plan.epochs(RowIndex(rows)).expect("told");
        assert!((found - epochs).abs() < 1e-12, "{rows} rows are {found} epochs, not {epochs}");
        // The epoch of the next row is not requested.
        let begun = (1..4).filter(|&epoch| [230, 460, 920][epoch - 1] < rows).count();
        assert_eq!(told.asked().len(), begun, "after {rows} rows");
    }
}

#[test]
fn a_stream_over_a_border_is_the_same_from_any_row_for_any_workers_and_ranks() {
    let home = grown();
    let epochs = [0, 1, 1, 2, 0];
    let expected: Vec<blake3::Hash> = {
        let plan = home.following(&data(1), 0, Some(&FixedVersions::of(&home, &epochs)));
        let groups = plan.groups();
        (0..290)
            .flat_map(|index| plan.batch(&groups, BatchIndex(index)).expect("good").row_digests().to_vec())
            .collect()
    };
    for (workers, ranks) in [(1, 1), (2, 3), (5, 1), (7, 2)] {
        for from in [0, 3, 226, 689, 1150, 1790, 2020] {
            let told = FixedVersions::of(&home, &epochs);
            let plan = home.following(&data(workers), 0, Some(&told));
            for rank in 0..ranks {
                let share = RankShard::new(rank, ranks).expect("a rank");
                for batch in plan.stream(RowIndex(from), share).take(30) {
                    let batch = batch.expect("good");
                    let at = usize::try_from(batch.first_row().0).expect("small");
                    let rows = batch.rows().min(expected.len().saturating_sub(at));
                    assert_eq!(
                        &batch.row_digests()[..rows],
                        &expected[at.min(expected.len())..][..rows],
                        "from {from}"
                    );
                }
            }
            // For any number of workers, each epoch is requested once, in order.
            let asked = told.asked();
            assert_eq!(asked, (1..=asked.len() as u64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn two_windows_are_the_most_over_a_border_too() {
    let shape = Synthetic { train_rows: 1000, ..Synthetic::default() };
    let mut home = home(&shape);
    home.manifest = shape.add(&home.store, &[1], &[]).expect("written");
    for workers in [1, 4] {
        let data = DataConfig { shuffle_window_groups: 5, ..data(workers) };
        let plan = home.following(&data, 0, Some(&FixedVersions::of(&home, &[0, 1, 0, 1])));
        let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
        // Three and a half epochs: 1000, 2000, 1000 rows and half of 2000.
        stream.by_ref().take(625).for_each(|batch| drop(batch.expect("good")));
        let groups = Arc::clone(stream.groups());
        drop(stream);
        let decoded = usize::try_from(groups.decoded()).expect("small");
        assert!((250..=250 + plan.facts().window_blocks).contains(&decoded), "{decoded} with {workers} workers");
        assert!(groups.alive_max() <= plan.facts().groups_alive_max, "{} with {workers} workers", groups.alive_max());
    }
}

#[test]
fn decoded_split_is_freed_after_its_last_row() {
    let home = grown();
    let plan = home.following(
        &DataConfig { shuffle_window_groups: 100, ..data(2) },
        0,
        Some(&FixedVersions::of(&home, &[0, 0, 1])),
    );
    assert!(plan.facts().resident);
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    stream.by_ref().take(100).for_each(|batch| drop(batch.expect("good")));
    let groups = Arc::clone(stream.groups());
    assert_eq!(groups.decoded(), 12 + 24, "each dataset version's once");
    stream.by_ref().take(100).for_each(|batch| drop(batch.expect("good")));
    assert_eq!((groups.decoded(), groups.alive()), (12 + 24, 24), "none is left of the one that was left");
}

#[test]
fn a_dataset_version_whose_parts_were_dropped_is_refused_by_name() {
    let shape = Synthetic::default();
    let mut home = home(&shape);
    shape.add(&home.store, &[1, 2], &[]).expect("written");
    home.manifest = shape.add(&home.store, &[3], &[0, 2]).expect("written");
    let views = taco();
    let wanted = wanted();
    let data = data(2);
    let request = LoadRequest { dataset_version: DatasetVersion(1), ..home.request(&data, &views, &wanted) };
    for rows in [Rows::Train, Rows::Valid { rows: 8 }] {
        let problems = LoadPlan::new(&LoadRequest { rows, ..request.clone() }).expect_err("parts are gone");
        let text = problems[0].to_string();
        let expected = "the run reads dataset version 1 of the folder, and dataset version 2 dropped parts 0, 2 of it";
        assert!(problems.len() == 1 && text.contains(expected) && text.contains("begin a new run"), "{text}");
    }
    // `MissingParts::LeftOut` uses the one part that no later dataset version dropped.
    let left = LoadRequest { rows: Rows::Valid { rows: 1000 }, missing_parts: MissingParts::LeftOut, ..request };
    assert_eq!(LoadPlan::new(&left).expect("a part is left").batches(), Some(33 / 8));
    // A run that follows the folder fails at rows of dropped parts, and continues after them.
    let plan = home.following(&data, 1, Some(&FixedVersions::of(&home, &[1, 2])));
    let error = plan.stream(RowIndex(100), RankShard::ALONE).next().expect("an item").expect_err("refused").to_string();
    assert!(error.contains("dataset version 2 dropped parts 0, 2 of it; begin a new run"), "{error}");
    // The row after an epoch of 690 rows.
    let plan = home.following(&data, 1, Some(&FixedVersions::of(&home, &[1, 2])));
    assert!(plan.stream(RowIndex(690), RankShard::ALONE).take(20).all(|batch| batch.is_ok()));
    // A dataset version that only adds parts causes no error.
    let plan = home.following(&data, 2, None);
    assert!(plan.stream(RowIndex(0), RankShard::ALONE).take(20).all(|batch| batch.is_ok()));
}

/// Folder whose parts are dropped while a run reads an older version.
#[derive(Debug)]
struct DroppedLater {
    manifest: Mutex<Manifest>,
    asked: Mutex<Vec<u64>>,
}

impl EpochVersions for DroppedLater {
    fn snapshot(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(epoch.0);
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::new(SplitSnapshot::train(&manifest, DatasetVersion(0))))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}

#[test]
fn a_process_fails_at_parts_that_were_dropped_since_it_began() {
    let mut home = home(&Synthetic::default());
    let answers = Arc::new(DroppedLater { manifest: Mutex::new(home.manifest.clone()), asked: Mutex::default() });
    let (views, wanted) = all_views();
    let data = DataConfig { shuffle_window_groups: 1000, ..data(1) };
    let request =
        LoadRequest { epoch_versions: Some(Arc::clone(&answers) as _), ..home.request(&data, &views, &wanted) };
    let plan = Arc::new(LoadPlan::new(&request).expect("no problem"));
    assert!(plan.facts().resident, "nothing is read a second time");
    let groups = plan.groups();
    for index in (0..60).chain([1 << 40]) {
        plan.batch(&groups, BatchIndex(index)).expect("all of it is there");
    }
    assert!(answers.asked.lock().unwrap_or_else(PoisonError::into_inner).len() < 5, "epochs between are not asked for");
    home.manifest = Synthetic::default().add(&home.store, &[1], &[0]).expect("written");
    *answers.manifest.lock().unwrap_or_else(PoisonError::into_inner) = home.manifest.clone();
    let error = plan.batch(&groups, BatchIndex(1 << 41)).expect_err("part 0 is gone").to_string();
    assert!(error.contains("dataset version 1 dropped part 0") && error.contains("begin a new run"), "{error}");
    assert!(plan.epochs(RowIndex(460)).expect("what was seen was seen") > 1.9);
}

#[test]
fn lookahead_stops_at_undecided_epochs() {
    let home = grown();
    let plan = home.following(&data(1), 0, Some(&FixedVersions::of(&home, &[0, 0, 1, 2])));
    assert_eq!(plan.rows_decided().expect("told"), Some(RowIndex(230 + 230 + 460 + 640)));
    assert_eq!(home.following(&data(1), 0, None).rows_decided().expect("told"), None);
    let dataset_versions: Vec<u32> =
        [0, 229, 459, 460, 919, 920].map(|row| plan.dataset_version(RowIndex(row)).expect("told").0).to_vec();
    assert_eq!(dataset_versions, [0, 0, 0, 1, 1, 2]);
}
