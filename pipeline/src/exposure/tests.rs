use proptest::prelude::*;
use store::{FaultConfig, MemoryBackend};
use testkit::crash_after;

use super::*;

fn row(row: u64, documents: &[u64]) -> RowDocuments {
    RowDocuments {
        row: RowIndex(row),
        of: if row.is_multiple_of(2) { "books" } else { "news" }.into(),
        dataset_version: DatasetVersion(u32::from(row >= 100)),
        documents: documents.to_vec(),
        bad: row % 7 == 3,
    }
}

/// Rows with one document each that only they contain, and one document that two rows share.
fn rows(range: std::ops::Range<u64>) -> Vec<RowDocuments> {
    range.map(|at| row(at, &[at, 1000 + at / 2])).collect()
}

fn empty_run() -> Store {
    Store::in_memory(FaultConfig::none())
}

fn begun(run: &Store, at: u64) -> Exposure {
    let mut ledger = Exposure::default();
    ledger.begin(run, RowIndex(at)).expect("it adds up");
    ledger
}

/// Consumes rows and writes a page.
fn consume(ledger: &mut Exposure, range: std::ops::Range<u64>, fate: RowOutcome) {
    ledger.give(rows(range.clone()));
    ledger.consume(RowIndex(range.end), fate).expect("few documents");
    ledger.end_page().expect("there are rows").write().expect("written");
}

fn read(folder: &Store, pages: &[ListedPage]) -> Vec<ExposurePage> {
    pages.iter().map(|page| ExposurePage::read(folder, &page.name).expect("as written")).collect()
}

fn kept(run: &Store) -> Vec<ExposurePage> {
    read(&run.prefixed(FOLDER), &pages(run).expect("listed"))
}

fn taken_back(run: &Store) -> Vec<ExposurePage> {
    read(&run.prefixed(FOLDER).prefixed(ROLLED_BACK), &rolled_back_pages(run).expect("listed"))
}

#[test]
fn every_row_is_counted_once_by_its_outcome() {
    let run = empty_run();
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, RowOutcome::Trained);
    consume(&mut ledger, 8..12, RowOutcome::Skipped);
    let pages = kept(&run);
    // Row 3 is left out. In a skipped step, all rows are skipped.
    let counts = pages.iter().map(|page| (page.from, page.to, page.rows)).collect::<Vec<_>>();
    let [first, second] = [Counts { trained: 7, bad: 1, skipped: 0 }, Counts { skipped: 4, ..Counts::default() }];
    assert_eq!(counts, [(0, 8, first), (8, 12, second)]);
    let of = |source: &str, document: u64| {
        let found = pages[0].entries.iter().filter(|entry| (&*entry.of, entry.document) == (source, document));
        found.map(|entry| entry.counts).collect::<Vec<_>>()
    };
    let trained = Counts { trained: 1, ..Counts::default() };
    let bad = Counts { bad: 1, ..Counts::default() };
    assert_eq!((of("books", 2), of("news", 2)), (vec![trained], vec![]));
    // Rows 2 and 3: one id in two sources is two documents.
    assert_eq!((of("books", 1001), of("news", 1001)), (vec![trained], vec![bad]));
}

#[test]
fn rollback_moves_the_repeated_pages() {
    let run = empty_run();
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, RowOutcome::Trained);
    consume(&mut ledger, 8..16, RowOutcome::Trained);
    // Rows that are on no page yet.
    ledger.give(rows(16..20));
    ledger.consume(RowIndex(18), RowOutcome::Trained).expect("few documents");
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    let spans = |pages: Vec<ExposurePage>| pages.iter().map(|page| (page.from, page.to)).collect::<Vec<_>>();
    assert_eq!((spans(kept(&run)), spans(taken_back(&run))), (vec![(0, 8)], vec![(8, 16), (16, 18)]));
    consume(&mut ledger, 8..16, RowOutcome::Skipped);
    assert_eq!(spans(kept(&run)), [(0, 8), (8, 16)]);
    // Rolls back again, over a page of the same name.
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    assert_eq!(taken_back(&run).len(), 3);
}

/// Consumes rows whose page cannot be written: a folder has the path of the page.
fn consume_in_vain(ledger: &mut Exposure, range: std::ops::Range<u64>, place: &std::path::Path) {
    std::fs::create_dir_all(place.join("in the way")).expect("made");
    ledger.give(rows(range.clone()));
    ledger.consume(RowIndex(range.end), RowOutcome::Trained).expect("few documents");
    ledger.end_page().expect("there are rows").write().expect_err("a folder is no object");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn failed_page_is_written_before_the_next() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let run = Store::folder(home.path()).expect("made");
    let place = home.path().join("exposure/rows-000000000008-000000000016.parquet");
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, RowOutcome::Trained);
    consume_in_vain(&mut ledger, 8..16, &place);
    consume(&mut ledger, 16..24, RowOutcome::Trained);
    begun(&run, 24);
    assert_eq!(kept(&run).iter().map(|page| page.from).collect::<Vec<_>>(), [0, 8, 16]);
    assert!(ledger.end_page().is_none(), "all are written");
    // No more rows are consumed: a save at exit still has to write the page.
    let mut ledger = begun(&run, 8);
    consume_in_vain(&mut ledger, 8..16, &place);
    ledger.end_page().expect("one is not written").write().expect("written");
    begun(&run, 16);
    // A rollback also writes the page first, because its rows were consumed.
    let mut ledger = begun(&run, 8);
    consume_in_vain(&mut ledger, 8..16, &place);
    let before = taken_back(&run).len();
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    assert_eq!((kept(&run).len(), taken_back(&run).len()), (1, before + 1));
}

#[test]
fn a_page_that_is_missing_or_damaged_is_named() {
    let run = empty_run();
    let mut ledger = begun(&run, 0);
    (0..3).for_each(|step| consume(&mut ledger, 8 * step..8 * step + 8, RowOutcome::Trained));
    let names: Vec<String> = pages(&run).expect("listed").into_iter().map(|page| page.name).collect();
    let folder = run.prefixed(FOLDER);
    let bytes = folder.get(&names[1]).expect("there");
    folder.delete(&names[1]).expect("removed");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("a gap").to_string();
    assert!(error.contains("from 8 to 16"), "{error}");
    let error = Exposure::default().begin(&run, RowIndex(32)).expect_err("it ends too early").to_string();
    assert!(error.contains("from 8 to 16"), "{error}");
    folder.put(&names[1], &bytes).expect("put");
    let first = folder.get(&names[0]).expect("there");
    folder.delete(&names[0]).expect("removed");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("no beginning").to_string();
    assert!(error.contains("from 0 to 8"), "{error}");
    folder.put(&names[0], &bytes).expect("put");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("another page").to_string();
    assert!(error.contains("from 8 to 16") && error.contains("restore it"), "{error}");
    folder.put(&names[0], &first).expect("put");
    // Page whose name has more rows than its content.
    folder.put("rows-000000000008-000000000017.parquet", &bytes).expect("put");
    let error = ExposurePage::read(&folder, "rows-000000000008-000000000017.parquet").expect_err("8 rows").to_string();
    assert!(error.contains("not the 9"), "{error}");
    for broken in [&b""[..], b"PAR1", &bytes[..bytes.len() / 2]] {
        folder.put(&names[1], broken).expect("put");
        ExposurePage::read(&folder, &names[1]).expect_err("no page");
    }
}

#[test]
fn page_without_a_row_range_is_read() {
    let run = empty_run();
    let rows = Counts { trained: 8, ..Counts::default() };
    let page = ExposurePage { first: None, from: 8, to: 16, rows, entries: Vec::new() };
    page.put(&run.prefixed(FOLDER), &page.name()).expect("put");
    consume(&mut begun(&run, 16), 16..24, RowOutcome::Trained);
    begun(&run, 24);
    assert_eq!(kept(&run).iter().map(|page| page.first).collect::<Vec<_>>(), [None, Some(8)]);
}

#[test]
fn run_without_pages_counts_from_its_resume() {
    let run = empty_run();
    let mut ledger = begun(&run, 40);
    consume(&mut ledger, 40..48, RowOutcome::Trained);
    begun(&run, 48);
    assert_eq!(kept(&run).len(), 1);
}

proptest! {
    /// A run that is killed at any point, also during a rollback, over a failing store: no row is missing or
    /// duplicated.
    #[test]
    fn pages_sum_up_after_any_kill(
        kills in prop::collection::vec((1_u64..6, any::<bool>(), 0_u64..8), 0..6),
        seed: u64,
    ) {
        let memory = MemoryBackend::new(FaultConfig { seed, failures: 0.1, lost: 0.1, ..FaultConfig::none() });
        let run = Store::from_memory(&memory);
        let mut saved = 0;
        let mut comes_again = 0;
        let rolled_back_pages = || taken_back(&run).iter().map(|page| page.rows.total()).sum::<u64>();
        for (steps, page_is_written, changes) in kills.into_iter().chain([(2, true, 3)]) {
            // The simulated crash leaves the rollback incomplete at this point.
            let _ = Exposure::default().begin(&crash_after(&memory, changes), RowIndex(saved));
            prop_assert!(rolled_back_pages() <= comes_again);
            let mut ledger = begun(&run, saved);
            prop_assert_eq!(rolled_back_pages(), comes_again);
            let end = saved + 4 * steps;
            for step in 0..steps {
                ledger.give(rows(saved + 4 * step..saved + 4 * step + 4));
                ledger.consume(RowIndex(saved + 4 * step + 4), RowOutcome::Trained).expect("few documents");
            }
            if page_is_written {
                ledger.end_page().expect("there are rows").write().expect("written in the end");
                // The kill comes before or after the checkpoint.
                let is_saved = steps % 2 == 0;
                comes_again += if is_saved { 0 } else { end - saved };
                saved = if is_saved { end } else { saved };
            }
        }
        begun(&run, saved);
        prop_assert_eq!(kept(&run).iter().map(|page| page.rows.total()).sum::<u64>(), saved);
        prop_assert_eq!(rolled_back_pages(), comes_again);
    }
}
