//! Rows of sentence pairs: partners, and compatibility of folders and views.

use schemas::columns::{IS_RANDOM, TOKEN_TYPES};

use super::*;
use crate::pack::AnyPacking;
use crate::testing::{assert_same_law, assert_share};

fn packing(name: &str) -> AnyPacking {
    AnyPacking::of_kind(name).expect("a known packing")
}

/// Folder of sentences: documents of `rows_per_document` samples.
fn sentences(rows_per_document: u64) -> Synthetic {
    let pack = packing("sentences");
    Synthetic { lengths: 30..62, documents: 1, rows_per_document, pack, ..Synthetic::default() }
}

impl Home {
    /// Plan of a `pair` view and a mask of it, with all of their columns.
    fn pairs(&self, data: &DataConfig, rows: Rows) -> Arc<LoadPlan> {
        let views = "pair = { kind = \"pair\" }\nmasked = { kind = \"mask\", of = \"pair\" }";
        let views: BTreeMap<ViewName, AnyView> = toml::from_str(views).expect("two views");
        let columns = [
            INPUT_IDS.spec(),
            TOKEN_TYPES.spec(),
            IS_RANDOM.spec(),
            ORIGIN.spec(),
            DOCUMENT.spec(),
            ATTENTION_MASK.spec(),
        ];
        let both = columns.into_iter().flat_map(|spec| ["pair", "masked"].map(|view| (view.to_owned(), spec)));
        let wanted: BTreeSet<_> = both.chain([("masked".to_owned(), LABELS.spec())]).collect();
        Arc::new(LoadPlan::new(&LoadRequest { rows, ..self.request(data, &views, &wanted) }).expect("no problem"))
    }
}

#[test]
fn pairs_are_independent_of_worker_count_and_start() {
    let home = home(&sentences(3));
    let plan = home.pairs(&DataConfig { copies_per_sample: 2, ..data(1) }, Rows::Train);
    assert!(plan.sources[0].epoch_plan.first().sampler().windows_per_epoch() > 2, "windows come and go");
    let groups = plan.groups();
    // The rows exceed an epoch of 230 · 2 rows.
    let expected: Vec<_> =
        (0..70).map(|index| plan.batch(&groups, BatchIndex(index)).expect("good").row_digests().to_vec()).collect();
    for workers in [1, 2, 3, 7] {
        let plan = home.pairs(&DataConfig { copies_per_sample: 2, ..data(workers) }, Rows::Train);
        for start in [0, 5, 50] {
            let mut stream = plan.stream(RowIndex(8 * start), RankShard::ALONE);
            let seen: Vec<_> =
                stream.by_ref().take(20).map(|batch| batch.expect("good").row_digests().to_vec()).collect();
            let start = usize::try_from(start).expect("small");
            assert_eq!(seen, expected[start..start + 20], "{workers} workers from {start}");
            assert!(stream.groups().alive_max() <= plan.facts().groups_alive_max, "windows are freed");
        }
    }
}

#[test]
fn a_random_second_segment_is_of_another_document() {
    for rows in [Rows::Train, Rows::Valid { rows: 33 }] {
        let home = home(&sentences(3));
        let plan = home.pairs(&data(2), rows);
        let mut random = 0_u32;
        let mut all = 0_u32;
        for batch in plan.stream(RowIndex(0), RankShard::ALONE).take(80) {
            let batch = batch.expect("good");
            let [ids, document] = [INPUT_IDS, DOCUMENT].map(|column| batch.column("pair", column).expect("made"));
            let types = batch.column("pair", TOKEN_TYPES).expect("made");
            let label = batch.column("pair", IS_RANDOM).expect("made");
            for row in 0..batch.rows() {
                let names = |segment: u8| {
                    let cells = (0..64).filter(|&at| types.row(row)[at] == segment && document.row(row)[at] >= 0);
                    cells.map(|at| document.row(row)[at]).collect::<BTreeSet<i32>>()
                };
                let a = names(0);
                let b = names(1);
                assert_eq!((a.len(), b.len()), (1, 1), "{:?}", ids.row(row));
                let is_random = label.row(row)[0];
                assert_eq!(label.row(row), [is_random; 64]);
                assert_eq!(a == b, is_random == 0);
                random += u32::from(is_random);
                all += 1;
            }
        }
        assert_share(random as usize, all as usize, 0.5);
    }
}

/// A model must not infer the label from the amount of padding.
#[test]
fn pair_length_is_independent_of_its_label() {
    let home = home(&Synthetic { lengths: 5..62, ..sentences(3) });
    let plan = home.pairs(&data(1), Rows::Train);
    let mut totals = Vec::new();
    let mut seconds = Vec::new();
    for batch in plan.stream(RowIndex(0), RankShard::ALONE).take(1000) {
        let batch = batch.expect("good");
        let [types, labels] = [TOKEN_TYPES, IS_RANDOM].map(|column| batch.column("pair", column).expect("made"));
        let mask = batch.column("pair", ATTENTION_MASK).expect("made");
        for row in 0..batch.rows() {
            let is_random = labels.row(row)[0] == 1;
            let count = |cells: &[u8]| cells.iter().map(|&cell| usize::from(cell)).sum::<usize>();
            totals.push((count(mask.row(row)), is_random));
            seconds.push((count(types.row(row)), is_random));
        }
    }
    assert_same_law(&totals);
    assert_same_law(&seconds);
}

#[test]
fn without_another_document_all_pairs_follow() {
    let home = home(&Synthetic { train_rows: 40, ..sentences(1000) });
    let plan = home.pairs(&data(1), Rows::Train);
    for batch in plan.stream(RowIndex(0), RankShard::ALONE).take(10) {
        let batch = batch.expect("good");
        assert!(batch.column("pair", IS_RANDOM).expect("made").values().iter().all(|&label| label == 0));
        assert!(batch.column("pair", TOKEN_TYPES).expect("made").values().contains(&1));
    }
}

#[test]
fn styles_that_do_not_fit_are_refused() {
    let views: BTreeMap<ViewName, AnyView> =
        toml::from_str("pair = { kind = \"pair\" }\nsegments = { kind = \"segments\" }").expect("two views");
    let random = [("pair".to_owned(), IS_RANDOM.spec()), ("segments".to_owned(), IS_RANDOM.spec())].into();
    let block = home(&Synthetic::default());
    let data = data(1);
    let problems = LoadPlan::new(&block.request(&data, &views, &random)).expect_err("no sentences");
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (key, word) in
        [("`views.pair`: a `pair`", "`prepare.packing = \"sentences\"`"), ("`views.segments`: a", "`block`")]
    {
        assert!(shown.iter().any(|text| text.starts_with(key) && text.contains(word)), "{shown:#?}");
    }
    assert!(shown.iter().any(|text| text.contains("`is_random` is read, which a `segments`")), "{shown:#?}");
    let narrow = DataConfig { seq_len: Some(32), ..data.clone() };
    for pack in ["taco", "document", "sentences"] {
        let lengths = if pack == "taco" { 64..65 } else { 20..62 };
        let home = home(&Synthetic { lengths, pack: packing(pack), ..Synthetic::default() });
        let views = taco();
        let wanted = wanted();
        let problems = LoadPlan::new(&home.request(&narrow, &views, &wanted)).expect_err("not cut");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().contains("`data.seq_len`: rows of 32 are pieces"), "{problems:?}");
        let plan = LoadPlan::new(&home.request(&data, &views, &wanted)).expect("whole rows");
        let batch = plan.batch(&plan.groups(), BatchIndex(0)).expect("good");
        let origin = batch.column("masked", ORIGIN).expect("made");
        let longest = (0..batch.rows()).map(|row| origin.row(row).iter().filter(|&&index| index >= 0).count()).max();
        assert_eq!(longest == Some(64), pack == "taco", "{pack:?}: {longest:?}");
        assert!(longest > Some(40), "whole samples");
    }
}
