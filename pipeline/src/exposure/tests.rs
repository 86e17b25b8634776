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
        left_out: row % 7 == 3,
    }
}

/// Rows of a document of their own and of one that two rows share.
fn rows(range: std::ops::Range<u64>) -> Vec<RowDocuments> {
    range.map(|at| row(at, &[at, 1000 + at / 2])).collect()
}

fn calm() -> Store {
    Store::memory(FaultConfig::calm())
}

fn begun(run: &Store, at: u64) -> Exposure {
    let mut ledger = Exposure::default();
    ledger.begin(run, RowIndex(at)).expect("it adds up");
    ledger
}

/// Consumes rows, and writes a page.
fn consume(ledger: &mut Exposure, range: std::ops::Range<u64>, fate: Fate) {
    ledger.give(rows(range.clone()));
    ledger.consume(RowIndex(range.end), fate).expect("few documents");
    ledger.end_page().expect("there are rows").write().expect("written");
}

fn read(folder: &Store, pages: &[(String, u64, u64)]) -> Vec<ExposurePage> {
    pages.iter().map(|(name, ..)| ExposurePage::read(folder, name).expect("as written")).collect()
}

fn kept(run: &Store) -> Vec<ExposurePage> {
    read(&run.within(FOLDER), &pages(run).expect("listed"))
}

fn taken_back(run: &Store) -> Vec<ExposurePage> {
    read(&run.within(FOLDER).within(ROLLED_BACK), &undone(run).expect("listed"))
}

#[test]
fn every_row_is_counted_once_by_what_became_of_it() {
    let run = calm();
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, Fate::Trained);
    consume(&mut ledger, 8..12, Fate::Skipped);
    let pages = kept(&run);
    // Row 3 is left out; of a step that is skipped all rows are skipped.
    let counts = pages.iter().map(|page| (page.from, page.to, page.rows)).collect::<Vec<_>>();
    let [first, second] = [Counts { trained: 7, left_out: 1, skipped: 0 }, Counts { skipped: 4, ..Counts::default() }];
    assert_eq!(counts, [(0, 8, first), (8, 12, second)]);
    let of = |source: &str, document: u64| {
        let found = pages[0].entries.iter().filter(|entry| (&*entry.of, entry.document) == (source, document));
        found.map(|entry| entry.counts).collect::<Vec<_>>()
    };
    let (trained, left_out) = (Counts { trained: 1, ..Counts::default() }, Counts { left_out: 1, ..Counts::default() });
    assert_eq!((of("books", 2), of("news", 2)), (vec![trained], vec![]));
    // Of rows 2 and 3: what has one name in two sources is two documents.
    assert_eq!((of("books", 1001), of("news", 1001)), (vec![trained], vec![left_out]));
}

#[test]
fn who_goes_back_moves_what_comes_again() {
    let run = calm();
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, Fate::Trained);
    consume(&mut ledger, 8..16, Fate::Trained);
    // Some that no page tells of yet.
    ledger.give(rows(16..20));
    ledger.consume(RowIndex(18), Fate::Trained).expect("few documents");
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    let spans = |pages: Vec<ExposurePage>| pages.iter().map(|page| (page.from, page.to)).collect::<Vec<_>>();
    assert_eq!((spans(kept(&run)), spans(taken_back(&run))), (vec![(0, 8)], vec![(8, 16), (16, 18)]));
    consume(&mut ledger, 8..16, Fate::Skipped);
    assert_eq!(spans(kept(&run)), [(0, 8), (8, 16)]);
    // And once more, over a page of the same name.
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    assert_eq!(taken_back(&run).len(), 3);
}

/// Consumes rows whose page cannot be written: a folder stands where it is to go.
fn consume_in_vain(ledger: &mut Exposure, range: std::ops::Range<u64>, place: &std::path::Path) {
    std::fs::create_dir_all(place.join("in the way")).expect("made");
    ledger.give(rows(range.clone()));
    ledger.consume(RowIndex(range.end), Fate::Trained).expect("few documents");
    ledger.end_page().expect("there are rows").write().expect_err("a folder is no object");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn a_page_that_could_not_be_written_goes_before_the_next() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let run = Store::folder(home.path()).expect("made");
    let place = home.path().join("exposure/rows-000000000008-000000000016.parquet");
    let mut ledger = begun(&run, 0);
    consume(&mut ledger, 0..8, Fate::Trained);
    consume_in_vain(&mut ledger, 8..16, &place);
    consume(&mut ledger, 16..24, Fate::Trained);
    begun(&run, 24);
    assert_eq!(kept(&run).iter().map(|page| page.from).collect::<Vec<_>>(), [0, 8, 16]);
    assert!(ledger.end_page().is_none(), "all are written");
    // Nothing more is consumed: what saves once more on its way out has to write it nevertheless.
    let mut ledger = begun(&run, 8);
    consume_in_vain(&mut ledger, 8..16, &place);
    ledger.end_page().expect("one is not written").write().expect("written");
    begun(&run, 16);
    // And whoever goes back behind it: its rows were consumed.
    let mut ledger = begun(&run, 8);
    consume_in_vain(&mut ledger, 8..16, &place);
    let before = taken_back(&run).len();
    ledger.begin(&run, RowIndex(8)).expect("it adds up");
    assert_eq!((kept(&run).len(), taken_back(&run).len()), (1, before + 1));
}

#[test]
fn a_page_that_is_missing_or_damaged_is_named() {
    let run = calm();
    let mut ledger = begun(&run, 0);
    (0..3).for_each(|step| consume(&mut ledger, 8 * step..8 * step + 8, Fate::Trained));
    let names: Vec<String> = pages(&run).expect("listed").into_iter().map(|(name, ..)| name).collect();
    let folder = run.within(FOLDER);
    let bytes = folder.read(&names[1]).expect("there");
    folder.remove(&names[1]).expect("removed");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("a gap").to_string();
    assert!(error.contains("from 8 to 16"), "{error}");
    let error = Exposure::default().begin(&run, RowIndex(32)).expect_err("it ends too early").to_string();
    assert!(error.contains("from 8 to 16"), "{error}");
    folder.put(&names[1], &bytes).expect("put");
    let first = folder.read(&names[0]).expect("there");
    folder.remove(&names[0]).expect("removed");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("no beginning").to_string();
    assert!(error.contains("from 0 to 8"), "{error}");
    folder.put(&names[0], &bytes).expect("put");
    let error = Exposure::default().begin(&run, RowIndex(24)).expect_err("another page").to_string();
    assert!(error.contains("from 8 to 16") && error.contains("restore it"), "{error}");
    folder.put(&names[0], &first).expect("put");
    // What is the page of more rows.
    folder.put("rows-000000000008-000000000017.parquet", &bytes).expect("put");
    let error = ExposurePage::read(&folder, "rows-000000000008-000000000017.parquet").expect_err("8 rows").to_string();
    assert!(error.contains("not the 9"), "{error}");
    for broken in [&b""[..], b"PAR1", &bytes[..bytes.len() / 2]] {
        folder.put(&names[1], broken).expect("put");
        ExposurePage::read(&folder, &names[1]).expect_err("no page");
    }
}

#[test]
fn a_page_that_does_not_say_which_rows_it_tells_of_is_read() {
    let run = calm();
    let rows = Counts { trained: 8, ..Counts::default() };
    let page = ExposurePage { first: None, from: 8, to: 16, rows, entries: Vec::new() };
    page.put(&run.within(FOLDER), &page.name()).expect("put");
    consume(&mut begun(&run, 16), 16..24, Fate::Trained);
    begun(&run, 24);
    assert_eq!(kept(&run).iter().map(|page| page.first).collect::<Vec<_>>(), [None, Some(8)]);
}

#[test]
fn a_run_that_had_no_ledger_counts_from_where_it_gets_one() {
    let run = calm();
    let mut ledger = begun(&run, 40);
    consume(&mut ledger, 40..48, Fate::Trained);
    begun(&run, 48);
    assert_eq!(kept(&run).len(), 1);
}

proptest! {
    /// A run that is killed anywhere, also while it goes back, over a store that fails: no row is missing, and none is there
    /// twice.
    #[test]
    fn whatever_is_killed_pages_add_up(
        kills in prop::collection::vec((1_u64..6, any::<bool>(), 0_u64..8), 0..6),
        seed: u64,
    ) {
        let memory = MemoryBackend::new(FaultConfig { seed, failures: 0.1, lost: 0.1, ..FaultConfig::calm() });
        let run = Store::of_memory(&memory);
        let (mut saved, mut comes_again) = (0, 0);
        let undone = || taken_back(&run).iter().map(|page| page.rows.total()).sum::<u64>();
        for (steps, page_is_written, changes) in kills.into_iter().chain([(2, true, 3)]) {
            // Whoever dies here has gone back as far as that.
            let _ = Exposure::default().begin(&crash_after(&memory, changes), RowIndex(saved));
            prop_assert!(undone() <= comes_again);
            let mut ledger = begun(&run, saved);
            prop_assert_eq!(undone(), comes_again);
            let end = saved + 4 * steps;
            for step in 0..steps {
                ledger.give(rows(saved + 4 * step..saved + 4 * step + 4));
                ledger.consume(RowIndex(saved + 4 * step + 4), Fate::Trained).expect("few documents");
            }
            if page_is_written {
                ledger.end_page().expect("there are rows").write().expect("written in the end");
                // Killed before the checkpoint, or behind it.
                let is_saved = steps % 2 == 0;
                comes_again += if is_saved { 0 } else { end - saved };
                saved = if is_saved { end } else { saved };
            }
        }
        begun(&run, saved);
        prop_assert_eq!(kept(&run).iter().map(|page| page.rows.total()).sum::<u64>(), saved);
        prop_assert_eq!(undone(), comes_again);
    }
}
