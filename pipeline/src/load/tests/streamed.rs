//! First epochs that are read as they are prepared.

use std::sync::{Condvar, Mutex, PoisonError};

use runtime::{CancelToken, NextItem, cancel_pair};
use schemas::{SampleAddress, Shard};

use super::*;
use crate::epoch_plan::{EpochVersions, Segment, SegmentSource, SplitSnapshot, segments};
use crate::error::Error;

/// Segment source that releases segments on request, or all at once if they exist from the start.
#[derive(Debug)]
struct ManualSegments {
    segments: Vec<Segment>,
    parts: u64,
    there: Mutex<usize>,
    more: Condvar,
    /// Number of known segments at each call.
    asked: Mutex<Vec<usize>>,
}

impl ManualSegments {
    fn new(segments: Vec<Segment>, there: usize) -> Arc<Self> {
        let parts = segments.last().map_or(0, |last| last.place + 1);
        let there = Mutex::new(there);
        let more = Condvar::new();
        let asked = Mutex::default();
        Arc::new(Self { segments, parts, there, more, asked })
    }

    fn release(&self, count: usize) {
        *self.there.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.more.notify_all();
    }
}

impl SegmentSource for ManualSegments {
    fn segments_after(&self, known: usize, stop: Option<&CancelToken>) -> Result<Vec<Segment>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(known);
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        while *there <= known && known < self.segments.len() {
            let Some(stop) = stop else {
                return Err(Error::Unfinished { place: "memory".into(), message: "not yet".into() });
            };
            if stop.is_cancelled() {
                return Err(Error::Stopped);
            }
            there = self.more.wait_timeout(there, Duration::from_millis(1)).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(self.segments[known..(*there).min(self.segments.len()).max(known)].to_vec())
    }

    fn parts(&self) -> u64 {
        self.parts
    }
}

/// All epochs after the first read the newest dataset version.
#[derive(Debug)]
struct Whole(Manifest);

impl EpochVersions for Whole {
    fn snapshot(&self, _: Epoch) -> Result<Arc<SplitSnapshot>> {
        Ok(Arc::new(SplitSnapshot::train(&self.0, self.0.newest())))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}

/// Twelve parts of 1 to 3 row groups; one has no training rows.
fn listed() -> Home {
    let shape = Synthetic { lengths: 0..63, train_rows: 50, valid_rows: 3, ..Synthetic::default() };
    let mut home = home(&shape);
    for part in 1..12_u32 {
        let train_rows = if part == 4 { 0 } else { u64::from(part * 13 % 55 + 5) };
        home.manifest =
            Synthetic { train_rows, valid_rows: 0, ..shape.clone() }.add(&home.store, &[part], &[]).expect("written");
    }
    home
}

impl Home {
    fn streamed(&self, data: &DataConfig, growth: &Arc<ManualSegments>) -> Arc<LoadPlan> {
        let (views, wanted) = all_views();
        let data = DataConfig { order: RowOrder::Streamed, shuffle_window_groups: 4, ..data.clone() };
        let views: BTreeMap<_, _> = views.into_iter().filter(|(_, view)| view.needs_counts().is_none()).collect();
        let wanted = wanted.into_iter().filter(|(name, _)| views.contains_key(name)).collect();
        let request = self.request(&data, &views, &wanted);
        let follow = Some(Arc::new(Whole(self.manifest.clone())) as Arc<dyn EpochVersions>);
        let growth = Some(Arc::clone(growth) as Arc<dyn SegmentSource>);
        Arc::new(
            LoadPlan::new(&LoadRequest { epoch_versions: follow, segment_source: growth, ..request })
                .expect("no problem"),
        )
    }

    fn segments(&self) -> Vec<Segment> {
        segments(&self.manifest, self.manifest.newest())
    }
}

fn facts(plan: &LoadPlan, batches: std::ops::Range<u64>) -> Vec<RowFacts> {
    let groups = plan.groups();
    batches.flat_map(|index| plan.explain(&groups, BatchIndex(index)).expect("good")).collect()
}

fn digests(plan: &Arc<LoadPlan>, batches: usize) -> Vec<blake3::Hash> {
    let stream = plan.stream(RowIndex(0), RankShard::ALONE);
    stream.take(batches).flat_map(|batch| batch.expect("good").row_digests().to_vec()).collect()
}

#[test]
fn the_first_epoch_is_the_list_and_a_window_closes_with_the_segment_that_fills_it() {
    let home = listed();
    let all = home.segments();
    assert_eq!(all.iter().map(|segment| segment.place).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]);
    let plan = home.streamed(&data(1), &ManualSegments::new(all.clone(), all.len()));
    let rows = home.manifest.now().train.rows();
    let found = facts(&plan, 0..(2 * rows).div_ceil(8));
    // Expected windows, computed from the segments by the definition.
    let mut expected = Vec::new();
    let mut open = Vec::<&Shard>::new();
    let mut groups = 0;
    for (index, segment) in all.iter().enumerate() {
        open.extend(&segment.shards);
        groups += segment.shards.iter().map(|shard| shard.groups.len()).sum::<usize>();
        if groups >= 4 || index + 1 == all.len() {
            let samples = open.drain(..).flat_map(|shard| {
                (0..u32::try_from(shard.rows).expect("few"))
                    .map(|row| SampleAddress { part: shard.part, row: shard.first_row + row })
            });
            expected.push(samples.collect::<BTreeSet<_>>());
            groups = 0;
        }
    }
    assert!(expected.len() > 3);
    let mut row = 0;
    for (number, window) in expected.iter().enumerate() {
        let found = &found[row..row + window.len()];
        let samples: Vec<SampleAddress> = found.iter().map(|row| row.sample).collect();
        assert_eq!(samples.iter().copied().collect::<BTreeSet<_>>(), *window, "window {number}");
        assert!(found.iter().all(|row| row.epoch.0 == 0) && !samples.is_sorted(), "window {number} is shuffled");
        row += window.len();
    }
    assert_eq!(row as u64, rows, "the epoch ends with the last part");
    let second = &found[row..2 * row];
    let samples: BTreeSet<SampleAddress> = second.iter().map(|row| row.sample).collect();
    assert_eq!((samples.len(), second[0].epoch.0), (row, 1), "and the next has every sample once");
    let last = |rows: &[RowFacts]| rows.iter().map(|row| row.sample.part.0).max();
    assert!(last(&second[..30]) > last(&found[..30]), "from all over the list");
}

#[test]
fn batches_are_the_same_whenever_the_segments_come_for_any_workers() {
    let home = listed();
    let all = home.segments();
    let batches = usize::try_from(home.manifest.now().train.rows() / 8 + 20).expect("small");
    let expected = digests(&home.streamed(&data(1), &ManualSegments::new(all.clone(), all.len())), batches);
    for workers in [1, 3] {
        let told = ManualSegments::new(all.clone(), 3);
        let plan = home.streamed(&data(workers), &told);
        assert!(!plan.facts().streamed.expect("it is").is_whole);
        let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
        let mut found = Vec::new();
        for there in 4..=all.len() {
            told.release(there);
            found.extend(stream.next().expect("endless").expect("good").row_digests().to_vec());
        }
        found.extend(stream.take(batches).flat_map(|batch| batch.expect("good").row_digests().to_vec()));
        assert!(found[..expected.len()] == expected[..], "{workers} workers");
    }
}

#[test]
fn a_resume_in_the_middle_needs_what_was_there_and_no_more() {
    let home = listed();
    let all = home.segments();
    let whole = home.streamed(&data(1), &ManualSegments::new(all.clone(), all.len()));
    let expected = digests(&whole, 20);
    let prefix = home.streamed(&data(2), &ManualSegments::new(all, 6));
    let again: Vec<_> = prefix.stream(RowIndex(40), RankShard::ALONE).take(10).collect();
    let again = again.into_iter().flat_map(|batch| batch.expect("there").row_digests().to_vec()).collect::<Vec<_>>();
    assert!(again == expected[40..120]);
    assert!((prefix.epochs(RowIndex(40)).expect("known") - whole.epochs(RowIndex(40)).expect("known")).abs() < 1e-15);
    let decided = prefix.rows_decided().expect("told").expect("there is an end").0;
    let groups = prefix.groups();
    assert!(decided >= 120 && prefix.batch(&groups, BatchIndex(decided / 8 - 1)).is_ok());
    let error = prefix.batch(&groups, BatchIndex(decided / 8 + 1)).expect_err("it is not there").to_string();
    assert!(error.contains("not yet"), "there is no wait without a stop: {error}");
}

#[test]
fn a_pass_is_counted_in_parts_and_by_what_was_read_alone() {
    let home = listed();
    let all = home.segments();
    let rows = home.manifest.now().train.rows();
    let whole = home.streamed(&data(1), &ManualSegments::new(all.clone(), all.len()));
    let prefix = home.streamed(&data(1), &ManualSegments::new(all, 6));
    let decided = prefix.rows_decided().expect("told").expect("an end").0;
    let mut before = 0.0;
    for row in 1..=rows + 5 {
        let passes = whole.epochs(RowIndex(row)).expect("known");
        assert!(passes > before && (passes <= 1.0) == (row <= rows), "{passes} after {row} of {rows} rows");
        if row <= decided {
            assert_eq!(prefix.epochs(RowIndex(row)).expect("known").to_bits(), passes.to_bits());
        }
        before = passes;
    }
}

#[test]
fn workers_that_wait_for_a_segment_end_with_their_reader() {
    let home = listed();
    let told = ManualSegments::new(home.segments(), 3);
    let plan = home.streamed(&data(3), &told);
    let there = plan.rows_decided().expect("told").expect("an end").0 / 8;
    let asked = || told.asked.lock().unwrap_or_else(PoisonError::into_inner).len();
    let before = asked();
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    let (cancel_source, stop) = cancel_pair();
    for _ in 0..there {
        assert!(matches!(stream.next_or_cancelled(&stop), NextItem::Item(Ok(_))));
    }
    // A worker requests a missing segment and waits.
    while asked() == before {
        std::thread::yield_now();
    }
    cancel_source.cancel();
    assert!(matches!(stream.next_or_cancelled(&stop), NextItem::Cancelled));
    // The drop would never return if workers kept waiting.
    drop(stream);
}

#[test]
fn unigram_draws_over_a_streamed_folder_are_refused() {
    let home = listed();
    let views: BTreeMap<ViewName, AnyView> =
        toml::from_str("odd = { kind = \"mask\", random_words = \"unigram\" }").expect("views");
    let data = DataConfig { order: RowOrder::Streamed, ..data(1) };
    let wanted = BTreeSet::new();
    let growth = Some(ManualSegments::new(home.segments(), 11) as Arc<dyn SegmentSource>);
    let follow = Some(Arc::new(Whole(home.manifest.clone())) as Arc<dyn EpochVersions>);
    let request =
        LoadRequest { epoch_versions: follow, segment_source: growth, ..home.request(&data, &views, &wanted) };
    let problems = LoadPlan::new(&request).expect_err("refused");
    assert!(problems.iter().any(|problem| problem.key == "views.odd.random_words"), "{problems:?}");
}
