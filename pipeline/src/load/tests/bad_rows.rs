//! Rows that panic while they are made, and rows that are excluded.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;

use super::*;

/// Fault injector that panics for the given rows and attempts.
#[derive(Debug)]
pub(super) struct Panics(pub(super) fn(u64, u32) -> bool);

impl RowFaults for Panics {
    fn inject(&self, row: RowIndex, attempt: u32) {
        if (self.0)(row.0, attempt) {
            resume_unwind(Box::new(format!("row {row} is too much")));
        }
    }
}

/// In-memory replacement for the list in the run folder.
#[derive(Debug, Default)]
pub(super) struct MemoryBadRows(pub(super) Mutex<Vec<BadRow>>);

impl MemoryBadRows {
    fn rows(&self) -> Vec<u64> {
        self.0.lock().expect("whole").iter().map(|bad| bad.row.row.0).collect()
    }
}

impl BadRows for MemoryBadRows {
    fn in_range(&self, rows: Range<u64>) -> Vec<BadRow> {
        let kept = self.0.lock().expect("whole");
        kept.iter().filter(|bad| rows.contains(&bad.row.row.0)).cloned().collect()
    }

    fn count(&self) -> u64 {
        self.0.lock().expect("whole").len() as u64
    }

    fn leave_out(&self, row: &BadRow) -> Result<()> {
        self.0.lock().expect("whole").push(row.clone());
        Ok(())
    }
}

fn stream(
    plan: &Arc<LoadPlan>,
    from: u64,
    kept: Option<&Arc<MemoryBadRows>>,
    panics: fn(u64, u32) -> bool,
) -> BatchStream {
    let bad_rows = kept.map(|kept| Arc::clone(kept) as Arc<dyn BadRows>);
    let policy = RowPolicy { bad_rows, faults: Some(Arc::new(Panics(panics))), ..RowPolicy::default() };
    BatchStream::new(plan, RowIndex(from), RankShard::ALONE, StreamOptions { policy, ..StreamOptions::default() })
}

fn digests(batches: impl Iterator<Item = Result<Batch>>, count: usize) -> Vec<blake3::Hash> {
    batches.take(count).flat_map(|batch| batch.expect("good").row_digests().to_vec()).collect()
}

const BATCHES: usize = 12;

#[test]
fn a_row_that_panics_once_is_rebuilt_and_nothing_else_happens() {
    let home = home(&Synthetic { lengths: 0..63, ..Synthetic::default() });
    for workers in [1, 3] {
        let plan = home.plan(&data(workers), Rows::Train);
        let baseline = digests(plan.stream(RowIndex(0), RankShard::ALONE), BATCHES);
        let faulty = digests(stream(&plan, 0, None, |row, attempt| attempt == 0 && row % 3 == 1), BATCHES);
        assert_eq!(faulty, baseline, "{workers} workers");
    }
}

/// Three rows of the first two batches, and one of the sixth.
fn always(row: u64, _: u32) -> bool {
    [3, 7, 11, 44].contains(&row)
}

#[test]
fn row_that_panics_twice_becomes_padding_and_is_recorded_before_its_batch() {
    let home = home(&Synthetic::default());
    for workers in [1, 3] {
        let plan = home.plan(&DataConfig { max_bad_rows: 4, ..data(workers) }, Rows::Train);
        let kept = Arc::<MemoryBadRows>::default();
        let mut faulty = stream(&plan, 0, Some(&kept), always);
        let mut seen = Vec::new();
        for number in 0..BATCHES as u64 {
            let batch = faulty.next().expect("endless").expect("they are left out");
            let until: Vec<u64> = [3, 7, 11, 44].into_iter().filter(|row| *row < 8 * (number + 1)).collect();
            assert_eq!(
                kept.rows(),
                until,
                "{workers} workers, batch {number}: as many as were handed on, in their order"
            );
            let said: Vec<u64> = faulty.bad_rows().iter().map(|bad| bad.row.row.0).collect();
            assert_eq!(said, until.into_iter().filter(|row| *row >= 8 * number).collect::<Vec<_>>());
            seen.extend(batch.row_digests().to_vec());
            for row in (0..8).filter(|row| always(8 * number + row, 0)) {
                let row = usize::try_from(row).expect("small");
                assert!(batch.column("masked", ATTENTION_MASK).expect("padded").row(row).iter().all(|&real| real == 0));
                assert!(batch.column("masked", LABELS).expect("made").row(row).iter().all(|&label| label == -100));
            }
        }
        let baseline = digests(plan.stream(RowIndex(0), RankShard::ALONE), BATCHES);
        for (row, (seen, baseline)) in seen.iter().zip(&baseline).enumerate() {
            assert_eq!(seen != baseline, always(row as u64, 0), "row {row}");
        }
        // A run that continues from any row knows the bad rows, even if they would not panic again.
        for from in [0, 1, 5] {
            let again = digests(stream(&plan, 8 * from, Some(&kept), |_, _| false), BATCHES);
            let from = 8 * usize::try_from(from).expect("small");
            assert_eq!(again[..8 * BATCHES - from], seen[from..], "{workers} workers from row {from}");
        }
        // A resumed run does not count known bad rows twice.
        assert_eq!(kept.rows(), [3, 7, 11, 44]);
    }
}

#[test]
fn a_row_too_many_ends_the_stream_with_its_address() {
    let home = home(&Synthetic::default());
    for (workers, allowed, named) in [(1, 0, 3), (3, 0, 3), (3, 1, 7), (3, 2, 11)] {
        let plan = home.plan(&DataConfig { max_bad_rows: allowed, ..data(workers) }, Rows::Train);
        let kept = Arc::<MemoryBadRows>::default();
        let mut faulty = stream(&plan, 0, Some(&kept), always);
        let error = faulty.find_map(Result::err).expect("one too many").to_string();
        let facts = &plan.explain(&plan.groups(), BatchIndex(named / 8)).expect("good")
            [usize::try_from(named % 8).expect("small")];
        for word in [
            &format!("row {named} of the stream"),
            &facts.shard,
            &format!("sample {}", facts.sample),
            &format!("row {named} is too much"),
            &format!("`data.max_bad_rows` allows {allowed} bad rows, and {allowed} are recorded"),
            &format!("cloze inspect batch {}", named / 8),
        ] {
            assert!(error.contains(word.as_str()), "`{word}`: {error}");
        }
        assert!(faulty.next().is_none(), "nothing after it");
        assert_eq!(kept.count(), allowed, "nothing is written down of what is refused");
    }
    // Without a list of bad rows, no row is replaced.
    let plan = home.plan(&DataConfig { max_bad_rows: 9, ..data(2) }, Rows::Train);
    let error = stream(&plan, 0, None, always).find_map(Result::err).expect("the first").to_string();
    assert!(
        error.contains("row 3 of the stream") && error.contains("validation and inspection do not replace bad rows"),
        "{error}"
    );
}

#[test]
fn excluded_rows_are_padding_and_all_others_stay() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&data(2), Rows::Train);
    let policy = RowPolicy { excluded: [RowIndex(2), RowIndex(13)].into_iter().collect(), ..RowPolicy::default() };
    let baseline = digests(plan.stream(RowIndex(0), RankShard::ALONE), 3);
    let options = StreamOptions { policy: policy.clone(), ..StreamOptions::default() };
    let without = digests(BatchStream::new(&plan, RowIndex(0), RankShard::ALONE, options), 3);
    for (row, (without, baseline)) in without.iter().zip(&baseline).enumerate() {
        assert_eq!(without != baseline, [2, 13].contains(&row), "row {row}");
    }
    let groups = plan.groups();
    let one = plan.batch_with(&groups, BatchIndex(1), &policy).expect("good");
    assert_eq!(one.row_digests(), &without[8..16]);
    assert_eq!(without[2], without[13], "padding is padding");
}

#[test]
fn an_audit_takes_padding_for_what_it_is() {
    let home = home(&Synthetic { lengths: 0..63, ..Synthetic::default() });
    let (views, wanted) = all_views();
    let data = DataConfig { copies_per_sample: 3, seq_len: Some(24), ..data(1) };
    let plan = LoadPlan::new(&home.request(&data, &views, &wanted)).expect("no problem");
    let policy =
        RowPolicy { excluded: (0..800).filter(|row| row % 7 < 3).map(RowIndex).collect(), ..RowPolicy::default() };
    let groups = plan.groups();
    let mut audit = plan.audit();
    for index in 0..100 {
        audit.add(&plan.batch_with(&groups, BatchIndex(index), &policy).expect("good"));
        audit.check().expect("as promised");
    }
}
