//! Audit tests: a clean run passes for every view, and each broken rule is reported.
//!
//! A faulty view consists of two configurations: one renders, the other audits.

use std::collections::{BTreeMap, BTreeSet};

use schemas::columns::{IGNORE, INPUT_IDS, LABELS, POSITIVES};
use schemas::{BatchBuilder, BatchIndex, Column, ColumnSpec, Element, Manifest};
use store::{FaultConfig, Store};

use super::*;
use crate::load::{DataConfig, LoadPlan, LoadRequest, MissingParts, Rows, read_vocab};
use crate::shard::synthetic::Synthetic;
use crate::views::AnyView;

struct Home {
    store: Store,
    manifest: Manifest,
    vocab: Arc<Vocab>,
}

/// Rows of 3 to 64 tokens that include the five special tokens. A third of all ids continue words, and ids have unequal
/// frequencies.
fn home() -> Home {
    let synthetic = Synthetic { ids: 98..1000, lengths: 1..63, train_rows: 1000, ..Synthetic::default() };
    let store = Store::in_memory(FaultConfig::none());
    let manifest = synthetic.write(&store).expect("written");
    let plain = read_vocab(&store, &manifest, manifest.newest()).expect("as written");
    let tokens = (0..1000).map(|id| if id < 98 { format!("[unused{id}]") } else { format!("w{id}") }).collect();
    let starts = (0..1000).map(|id| id % 3 > 0).collect();
    let counts = (0..1000).map(|id| 1 + id % 7).collect();
    let vocab = Arc::new(Vocab::new(tokens, starts, counts, plain.special(), &[0, 100, 101, 102, 103]));
    Home { store, manifest, vocab }
}

impl Home {
    /// Plan of `views` with all columns that runs read.
    fn plan(&self, views: &str, copies: u32) -> LoadPlan {
        let views: BTreeMap<String, AnyView> = toml::from_str(views).expect("views");
        let data = DataConfig { copies_per_sample: copies, ..DataConfig::default() };
        let standard = [INPUT_IDS.spec(), ATTENTION_MASK.spec()];
        let of = |(name, view): (&String, &AnyView)| {
            let columns: BTreeSet<ColumnSpec> = standard.into_iter().chain(view.columns().iter().copied()).collect();
            columns.into_iter().map(|column| (name.clone(), column)).collect::<Vec<_>>()
        };
        let mut wanted: BTreeSet<_> = views.iter().flat_map(of).collect();
        wanted.extend(standard.map(|column| ("original".to_owned(), column)));
        let request = LoadRequest {
            sources: &[],
            store: &self.store,
            manifest: &self.manifest,
            dataset_version: self.manifest.newest(),
            epoch_versions: None,
            segment_source: None,
            vocab: Arc::clone(&self.vocab),
            rows: Rows::Train,
            missing_parts: MissingParts::Refused,
            data: &data,
            views: &views,
            wanted: &wanted,
            cache: None,
            seed: 7,
            rows_per_batch: 30,
        };
        LoadPlan::new(&request).expect("no problem")
    }
}

/// Audits the first `batches` of `renders`, each changed by `change`, against the rules of `audits`.
fn said(renders: &LoadPlan, audits: &LoadPlan, batches: u64, change: impl Fn(Batch) -> Batch) -> Result<()> {
    let groups = renders.groups();
    let mut audit = audits.audit();
    for index in 0..batches {
        audit.add(&change(renders.batch(&groups, BatchIndex(index)).expect("good")));
    }
    for (view, count) in audit.counts() {
        assert!(count.law.of > 0.0, "{view}: {count}");
    }
    audit.check()
}

const CLEAN: [&str; 22] = [
    "it = { kind = \"mask\" }",
    "it = { kind = \"mask\", replacement = [100, 0, 0], rate = 1.0 }",
    "it = { kind = \"mask\", replacement = [85, 0, 15], rate = 0.0 }",
    "it = { kind = \"mask\", replacement = [40, 60, 0], random_words = \"unigram\" }",
    "it = { kind = \"mask\", rate_base = \"all\", mask_special_tokens = true, rate = 0.3 }",
    "it = { kind = \"mask\", rate_base = \"all\", mask_special_tokens = true, mask_cls = true, rate = 0.97, count = \"stochastic_round\" }",
    "it = { kind = \"mask\", count = \"bernoulli\" }",
    "it = { kind = \"mask\", count = \"bernoulli\", mask_special_tokens = true, rate = 0.01 }",
    "it = { kind = \"mask\", count = \"stochastic_round\" }",
    "it = { kind = \"mask\", count = \"stochastic_round\", rate_base = \"all\" }",
    "it = { kind = \"mask\", unit = \"word\" }",
    "it = { kind = \"mask\", unit = \"word\", count = \"stochastic_round\", mask_special_tokens = true }",
    "it = { kind = \"mask\", unit = \"word\", count = \"bernoulli\" }",
    "it = { kind = \"mask\", unit = \"word\", word_budget = \"words\" }",
    "it = { kind = \"mask\", unit = \"word\", word_budget = \"words\", count = \"stochastic_round\" }",
    "it = { kind = \"mask\", unit = \"span\" }",
    "it = { kind = \"mask\", unit = \"span\", span = \"spanbert\", count = \"bernoulli\", rate = 0.4 }",
    "it = { kind = \"corrupt\" }",
    "it = { kind = \"corrupt\", count = \"bernoulli\", rate = 0.5 }",
    "cut = { kind = \"crop\" }\nit = { kind = \"mask\", of = \"cut\" }\nnear = { kind = \"window\", of = \"it\" }",
    "cut = { kind = \"crop\", style = \"raw\", keep_cls = true, keep_fraction = 0.5 }\nnear = { kind = \"window\", of = \"cut\" }",
    "it = { kind = \"window\", max_offset = 5, edge = \"anywhere\" }",
];

const DISJOINT: [&str; 8] = [
    "it = { kind = \"mask\", disjoint = true }",
    "it = { kind = \"mask\", disjoint = true, rate = 0.4 }",
    "it = { kind = \"mask\", disjoint = true, count = \"bernoulli\" }",
    "it = { kind = \"mask\", disjoint = true, count = \"stochastic_round\", mask_special_tokens = true, rate_base = \"all\" }",
    "it = { kind = \"mask\", disjoint = true, unit = \"word\", word_budget = \"words\", rate = 0.2 }",
    "it = { kind = \"mask\", disjoint = true, unit = \"span\" }",
    "it = { kind = \"mask\", disjoint = true, unit = \"span\", rate = 0.3, count = \"stochastic_round\" }",
    "cut = { kind = \"crop\", keep_fraction = 0.6 }\nit = { kind = \"mask\", of = \"cut\", disjoint = true }",
];

#[test]
fn a_clean_run_is_clean() {
    let home = home();
    let views = CLEAN.iter().map(|views| (views, 1)).chain(CLEAN.iter().map(|views| (views, 4)));
    for (views, copies) in views.chain(DISJOINT.iter().flat_map(|views| [(views, 1), (views, 2), (views, 7)])) {
        let plan = home.plan(views, copies);
        said(&plan, &plan, 300, |batch| batch).unwrap_or_else(|error| panic!("{views}, {copies} copies: {error}"));
    }
}

/// Asserts that auditing batches of `renders` with the rules of `audits` fails with `what`.
#[track_caller]
fn assert_seen(renders: &str, audits: &str, what: &str) {
    let home = home();
    let renders = home.plan(renders, 3);
    let audits = home.plan(audits, 3);
    let error = said(&renders, &audits, 64, |batch| batch).expect_err("another configuration").to_string();
    assert!(error.contains(what) && error.contains("view `it`") && error.contains("inspect batch"), "{error}");
}

#[test]
fn another_rate_is_seen() {
    let views = |more: &str| format!("it = {{ kind = \"mask\", {more} }}");
    for (count, what) in [
        ("exact", "wrong number of masked tokens"),
        ("bernoulli", "masked tokens: "),
        ("stochastic_round", "masked tokens: "),
    ] {
        let of = |rate: &str| views(&format!("rate = {rate}, count = \"{count}\""));
        assert_seen(&of("0.17"), &of("0.15"), what);
    }
    assert_seen(&views("rate_base = \"all\""), &views("rate_base = \"maskable\""), "wrong number of masked tokens");
    let words = |rate: &str| views(&format!("unit = \"word\", rate = {rate}"));
    assert_seen(&words("0.15"), &words("0.25"), "wrong number of masked tokens");
    assert_seen(&words("0.25"), &words("0.15"), "wrong number of masked tokens");
    assert_seen("it = { kind = \"corrupt\", rate = 0.1 }", "it = { kind = \"corrupt\" }", "wrong number");
}

#[test]
fn other_replacements_are_seen() {
    let views =
        |replace: &str, more: &str| format!("it = {{ kind = \"mask\", replacement = {replace}, rate = 0.4{more} }}");
    for (replace, what) in
        [("[90, 5, 5]", "become `[MASK]`: "), ("[80, 20, 0]", "that stay: "), ("[100, 0, 0]", "become `[MASK]`: ")]
    {
        assert_seen(&views(replace, ""), &views("[80, 10, 10]", ""), what);
        assert_seen(&views(replace, ", unit = \"word\""), &views("[80, 10, 10]", ", unit = \"word\""), what);
        assert_seen(&views(replace, ", unit = \"span\""), &views("[80, 10, 10]", ", unit = \"span\""), what);
    }
    let one_of_all = |batch: Batch| {
        edited(&batch, |cells| {
            if let Some(label) =
                cells.labels.iter_mut().find(|label| **label != IGNORE).filter(|_| batch.index().0 == 9)
            {
                *label = 500;
            }
        })
    };
    let home = home();
    let plan = home.plan("it = { kind = \"mask\", replacement = [0, 0, 100] }", 1);
    let error = said(&plan, &plan, 32, one_of_all).expect_err("a share of 100 % has no exception").to_string();
    assert!(error.contains("that stay"), "{error}");
}

#[test]
fn other_units_are_seen() {
    let subwords = "it = { kind = \"mask\" }";
    assert_seen(subwords, "it = { kind = \"mask\", unit = \"word\" }", "a word is masked in part");
    assert_seen("it = { kind = \"mask\", mask_special_tokens = true }", subwords, "a special token is masked");
    let cls = "it = { kind = \"mask\", mask_special_tokens = true, mask_cls = true, rate = 0.5 }";
    assert_seen(cls, "it = { kind = \"mask\", mask_special_tokens = true, rate = 0.5 }", "a special token is masked");
}

#[test]
fn overlapping_copies_are_seen() {
    for unit in ["subword", "span"] {
        let apart = format!("it = {{ kind = \"mask\", unit = \"{unit}\", disjoint = true }}");
        let alone = format!("it = {{ kind = \"mask\", unit = \"{unit}\" }}");
        assert_seen(&alone, &apart, "two copies of a row predict the same token");
    }
}

#[test]
fn another_window_is_seen() {
    let window =
        |reach: u32, edge: &str| format!("it = {{ kind = \"window\", max_offset = {reach}, edge = \"{edge}\" }}");
    for edge in ["window", "anywhere"] {
        assert_seen(&window(3, edge), &window(2, edge), "not another token within the window");
    }
    assert_seen(&window(2, "anywhere"), &window(2, "window"), "not another token within the window");
}

#[test]
fn another_crop_is_seen() {
    for style in ["content", "raw"] {
        let crop = |share: &str| format!("it = {{ kind = \"crop\", keep_fraction = {share}, style = \"{style}\" }}");
        assert_seen(&crop("0.92"), &crop("0.9"), "a crop has a wrong length");
    }
}

/// Columns of the view `it` that a test can change.
struct Cells {
    width: usize,
    ids: Vec<i32>,
    labels: Vec<i32>,
    positives: Vec<i16>,
}

/// Returns a copy of the batch with changed columns of `it`.
fn edited(batch: &Batch, change: impl Fn(&mut Cells)) -> Batch {
    fn copy<T: Element>(batch: &Batch, column: Column<T>) -> Option<Vec<T>> {
        batch.find("it", column).expect("no type clash").map(|grid| grid.values().to_vec())
    }
    let ids = batch.column("it", INPUT_IDS).expect("made");
    let labels = copy(batch, LABELS);
    let positives = copy(batch, POSITIVES);
    let has_labels = labels.is_some();
    let has_positives = positives.is_some();
    let labels = labels.unwrap_or_default();
    let positives = positives.unwrap_or_default();
    let mut cells = Cells { width: ids.width(), ids: ids.values().to_vec(), labels, positives };
    change(&mut cells);
    let mut builder = BatchBuilder::new(batch.index(), batch.rows());
    builder.push("it", INPUT_IDS, cells.width, cells.ids);
    if has_labels {
        builder.push("it", LABELS, cells.width, cells.labels);
    }
    if has_positives {
        builder.push("it", POSITIVES, cells.width, cells.positives);
    }
    if let Some(mask) = copy(batch, ATTENTION_MASK) {
        builder.push("original", ATTENTION_MASK, cells.width, mask.clone());
        builder.push("it", ATTENTION_MASK, cells.width, mask);
    }
    builder.finish()
}

/// Asserts the error of a run in which one cell of batch 5 is changed. The row is the first that ends in padding.
/// `change` receives the index of its first cell.
#[track_caller]
fn assert_found(views: &str, change: impl Fn(&mut Cells, usize), rule: &str, column: usize) {
    let home = home();
    let plan = home.plan(views, 1);
    let batch = plan.batch(&plan.groups(), BatchIndex(5)).expect("good");
    let ids = batch.column("it", INPUT_IDS).expect("made");
    let row = (0..ids.rows()).find(|&row| ids.row(row).ends_with(&[0])).expect("most rows");
    let change = |batch: Batch| {
        if batch.index() == BatchIndex(5) { edited(&batch, |cells| change(cells, row * cells.width)) } else { batch }
    };
    let error = said(&plan, &plan, 8, change).expect_err("one cell is enough").to_string();
    let place = format!("{rule} (1 times, first in batch 5, row {row}, column {column})");
    assert!(error.contains(&place) && error.contains("cloze inspect batch 5"), "{place}: {error}");
}

#[test]
fn a_single_broken_cell_is_found_where_it_is() {
    let mask = "it = { kind = \"mask\" }";
    assert_found(mask, |cells, row| cells.labels[row + 63] = 500, "padding is masked", 63);
    assert_found(mask, |cells, row| (cells.labels[row], cells.ids[row]) = (101, 103), "a special token is masked", 0);
    let all = "it = { kind = \"mask\", rate = 1.0, mask_special_tokens = true, mask_cls = true }";
    assert_found(all, |cells, row| cells.ids[row] = 7, "a token is replaced by a special or unused one", 0);
    let window = "it = { kind = \"window\" }";
    for positive in [0, 3, -1, 63] {
        let rule = "a positive is not another token within the window";
        assert_found(window, |cells, row| cells.positives[row] = positive, rule, 0);
    }
    assert_found(window, |cells, row| cells.positives[row + 63] = 0, "padding has a positive", 63);
}

#[test]
fn positives_of_one_side_are_seen() {
    let home = home();
    let plan = home.plan("it = { kind = \"window\" }", 1);
    let backward = |batch: Batch| {
        edited(&batch, |cells| {
            let anchors = (0..).zip(&mut cells.positives).filter(|(_, positive)| **positive >= 0);
            for (cell, positive) in anchors.filter(|(cell, _)| cell % cells.width > 0) {
                *positive = i16::try_from(cell % cells.width - 1).expect("a row is short");
            }
        })
    };
    let error = said(&plan, &plan, 8, backward).expect_err("none").to_string();
    assert!(error.contains("positives to the right"), "{error}");
}

#[test]
fn absent_statistics_are_not_audited() {
    let home = home();
    let plan = home.plan("it = { kind = \"mask\" }", 1);
    let without_labels = |batch: Batch| {
        let mut builder = BatchBuilder::new(batch.index(), batch.rows());
        let ids = batch.column("it", INPUT_IDS).expect("made");
        builder.push("it", INPUT_IDS, ids.width(), ids.values().to_vec());
        builder.finish()
    };
    said(&plan, &plan, 2, without_labels).expect("nothing is known");
}

#[test]
fn the_first_batches_and_then_some_are_watched() {
    let home = home();
    let plan = home.plan("masked = { kind = 'mask' }", 1);
    let groups = plan.groups();
    let mut watch = AuditWatch::new(plan.audit());
    for index in 0..250 {
        let batch = plan.batch(&groups, BatchIndex(index)).expect("good");
        let said = watch.check(&batch).expect("as promised").map(Audit::batches);
        let expected = match index + 1 {
            64 => Some(64),
            // The audit counts the 100th and the 200th too, but reports nothing.
            _ => None,
        };
        assert_eq!(said, expected, "batch {index}");
    }
    let broken = home.plan("masked = { kind = 'mask', rate = 0.9 }", 1);
    let batch = broken.batch(&broken.groups(), BatchIndex(0)).expect("good");
    for more in 251..300 {
        watch.check(&batch).unwrap_or_else(|error| panic!("batch {more} is not looked at: {error}"));
    }
    let error = watch.check(&batch).expect_err("the 300th is").to_string();
    assert!(error.contains("view `masked` breaks its rules"), "{error}");
}

#[test]
fn a_broken_rule_is_found_before_the_batch_is_trained_on() {
    let home = home();
    let [promised, rendered] =
        ["0.15", "0.2"].map(|rate| home.plan(&format!("masked = {{ kind = 'mask', rate = {rate} }}"), 1));
    let batches = (0..4).map(|index| rendered.batch(&rendered.groups(), BatchIndex(index)).expect("good"));
    let mut watch = AuditWatch::new(promised.audit());
    let error = batches.map(|batch| watch.check(&batch).map(|_| ())).find_map(Result::err).expect("another rate");
    assert!(error.to_string().contains("view `masked` breaks its rules"), "{error}");
}
