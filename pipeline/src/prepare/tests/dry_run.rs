//! Dry runs: comparison of duplicates within the sample, and estimates for the whole corpus.

use super::duplicates::planted;
use super::*;

fn dry(home: &Home, workers: usize, share: f64) -> PrepareSummary {
    let options = PrepareOptions { null_writer: true, sample: Some(share), ..PrepareOptions::default() };
    let config = home.config("dry", workers);
    let planned = Preparation::plan_dry(&config).expect("a plan");
    let summary = planned.run(options, &Clock::still(), &mut Fanout::default()).expect("a sample");
    assert!(!home.folder.path().join("dry").exists(), "a dry run writes nothing");
    summary
}

#[test]
fn an_estimate_from_all_documents_is_exact_for_any_packing() {
    for pack in AnyPacking::KINDS {
        let home = Home::packed(pack);
        let found = dry(&home, 2, 1.0).estimate.expect("an estimate");
        let real = home.run().expect("prepared");
        assert_eq!(real.estimate, None);
        let manifest = load::open(&home.store()).expect("a manifest");
        let now = manifest.now();
        let shards = now.train.shards.len() + now.valid.shards.len();
        let expected = [real.corpus.documents, real.corpus.tokens, real.rows, shards as u64, real.shard_bytes];
        let estimate = [found.documents, found.tokens, found.rows, found.shards, found.shard_bytes];
        assert_eq!(estimate.map(f64::to_bits), expected.map(|number| (number as f64).to_bits()), "{pack}: {found:?}");
        assert!(found.is_whole());
        assert_eq!(found.read_documents, real.lines);
    }
}

#[test]
fn an_estimate_from_a_sample_is_close_and_the_same_for_any_workers() {
    for pack in ["block", "document"] {
        let home = Home::packed(pack);
        let real = home.run().expect("prepared");
        let [one, four] = [1, 4].map(|workers| dry(&home, workers, 0.5).estimate.expect("an estimate"));
        assert_eq!(one, four);
        assert!(!one.is_whole() && one.read_documents == 243, "{one:?}");
        let pairs = [
            (one.documents, real.corpus.documents),
            (one.tokens, real.corpus.tokens),
            (one.rows, real.rows),
            (one.shard_bytes, real.shard_bytes),
        ];
        for (estimate, real) in pairs {
            assert!((0.8..1.2).contains(&(estimate / real as f64)), "{pack}: {estimate} of {real}");
        }
    }
}

#[test]
fn duplicates_are_compared_within_the_sample() {
    let mut home = planted();
    // Partners are for lists of removed documents, which a dry run does not write.
    home.config.write_removed = true;
    let real = home.run().expect("prepared").corpus;
    assert_eq!(dry(&home, 2, 1.0).corpus, real);
    let [one, four] = [1, 4].map(|workers| dry(&home, workers, 0.7).corpus);
    assert_eq!(one, four);
    // Of each planted cluster, all sampled documents but the first are removed.
    let is_sampled = |&(file, line): &(usize, usize)| {
        let text = fs::read_to_string(home.folder.path().join(format!("in/{file}.txt"))).expect("there");
        let start: usize = text.lines().take(line).map(|line| line.len() + 1).sum();
        Document::is_sampled(&format!("{} {start} {file}.txt", home.config.seed), 0.7)
    };
    let removed = |clusters: &[&[(usize, usize)]]| -> usize {
        let sampled = clusters.iter().map(|cluster| cluster.iter().filter(|place| is_sampled(place)).count());
        sampled.map(|documents| documents.saturating_sub(1)).sum()
    };
    let exact: [&[_]; 4] = [&[(1, 2), (1, 7)], &[(0, 0), (2, 0)], &[(0, 5), (2, 3)], &[(3, 1), (4, 11), (5, 0)]];
    let near: [&[_]; 2] = [&[(0, 8), (3, 4)], &[(4, 6), (5, 9)]];
    let expected = [removed(&exact), removed(&near)].map(|documents| documents as u64);
    assert_eq!([one.duplicates.exact_documents, one.duplicates.near_documents], expected);
    assert!((1..7).contains(&expected.iter().sum::<u64>()), "a part of the duplicates is in the sample: {expected:?}");
}

/// The limit of bad lines holds for the corpus, of which long documents outside the sample are a part.
#[test]
fn long_documents_outside_the_sample_count() {
    let mut home = Home::packed("block");
    home.config.max_document_bytes = Some(20);
    home.config.max_bad_lines = Some(3);
    let run = |share: f64| {
        let options = PrepareOptions { null_writer: true, sample: Some(share), ..PrepareOptions::default() };
        let planned = Preparation::plan_dry(&home.config).expect("a plan");
        planned.run(options, &Clock::still(), &mut Fanout::default()).map(drop)
    };
    for share in [0.05, 1.0] {
        let error = run(share).expect_err("too many long documents").to_string();
        assert!(error.contains("too_long"), "{share}: {error}");
    }
}

#[test]
fn a_sample_that_filters_empty_is_reported() {
    let mut home = Home::packed("block");
    home.config.filters = super::filters::filters("[[filters]]\nkind = 'text_length'\nmin_words = 100000\n");
    let summary = dry(&home, 1, 0.5);
    assert_eq!(summary.corpus.documents, 0);
    assert!(summary.corpus.filters.iter().any(|filter| filter.removed_in_all().documents > 0));
}
