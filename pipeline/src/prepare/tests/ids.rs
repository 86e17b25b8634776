//! Ids equal those of the reference tokenizer; a run that finds a difference stops.

use crate::prepare::document_table::DocumentLength;
use schemas::PartId;

use super::*;
use crate::corpus::Corpus;
use crate::tokenize::Texts;
use crate::tokenize::Tokenizer;
use crate::tokenize::TokenizerBackend;
use crate::tokenize::{self, Facts};

/// Tokenizer whose comparison with the reference fails for cats.
struct Wrong(Box<dyn Tokenizer>);

impl Tokenizer for Wrong {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn implementation_name(&self) -> &str {
        self.0.implementation_name()
    }

    fn compare(&self, text: &str) -> Result<()> {
        if text.contains("cat") { Err(Error::Config(format!("they disagree on {text:?}"))) } else { Ok(()) }
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        self.0.encode(text, pieces)
    }

    fn encode_texts(&self, texts: Texts<'_>, ids: &mut Vec<u32>, lengths: &mut Vec<usize>) -> Result<()> {
        self.0.encode_texts(texts, ids, lengths)
    }

    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        self.0.encode_runs(text, starts, runs)
    }
}

#[test]
fn a_run_stops_where_ids_are_not_the_crates() {
    let home = Home::new();
    let mut preparation = Preparation::plan(&home.config).expect("a plan");
    assert!(preparation.describe().tokenized_by.starts_with("WordPiece by "), "{:?}", preparation.describe());
    let right = tokenize::load(&home.config.tokenizer, Some(true)).expect("a tokenizer");
    preparation.planned.tools.tokenizer = Box::new(Wrong(Box::new(right)));
    let error = preparation.run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default());
    assert!(error.expect_err("stopped").to_string().contains("they disagree on"));
}

/// Short documents are tokenized together, long ones separately. The result does not depend on it.
#[test]
fn documents_of_every_length_come_in_order() {
    let home = Home::new();
    let words = |index: usize| "cat mat 中 hat ".repeat(index * index / 6);
    let text: Vec<String> = (0..90).map(|index| format!("{index} {}\n\u{1}\n", words(index % 45))).collect();
    assert!(text.iter().any(|text| text.len() > 1 << 12), "some are long");
    write_all(home.folder.path(), &[("in/0.txt", text.concat())]);
    let config = PrepareConfig { part_bytes: Some(1 << 20), max_bad_lines: Some(1000), ..home.config("some", 1) };
    let summary = run(&config, PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("prepared");
    assert_eq!(summary.corpus.documents, 90 + 160);
    assert_eq!(summary.corpus.rejected["empty_document"], 90);
    let tokenizer = tokenize::load(&config.tokenizer, Some(true)).expect("a tokenizer");
    let mut found = Vec::new();
    let parts = (0..9).map(PartId).collect();
    let store = Store::existing(&config.folder).expect("it is there");
    let note = |document: DocumentLength<'_>| {
        if document.source.ends_with("0.txt") {
            found.push((document.id.to_owned(), document.tokens as usize));
        }
    };
    each_length(&store, &parts, note).expect("readable");
    let documents = text.iter().map(|text| text.split_once('\n').expect("two lines").0);
    let expected = documents.map(|text| (Document::digest(text), tokenizer.ids(text).expect("encodable").len()));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn ids_are_the_same_by_either_way() {
    ["sentences", "block"].into_iter().for_each(are_the_same_by_either_way);
}

fn are_the_same_by_either_way(pack: &str) {
    let home = Home::packed(pack);
    let by_crate = PrepareConfig { tokenizer_backend: TokenizerBackend::Reference, ..home.config("crate", 1) };
    let fastest = home.config("fastest", 2);
    for config in [&fastest, &by_crate] {
        run(config, PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("prepared");
    }
    let shards = |config: &PrepareConfig| {
        let manifest = Manifest::from_json(&fs::read(config.folder.join(schemas::manifest::NAME)).expect("written"));
        manifest.expect("a manifest").now().train.shards.iter().map(|shard| shard.blake3.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shards(&fastest), shards(&by_crate));
    // A folder that was begun with one backend can be continued with the other.
    let other = PrepareConfig { tokenizer_backend: TokenizerBackend::Reference, ..fastest };
    assert!(
        run(&other, PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("kept").nothing_to_do
    );
}

/// Compares documents of this repository. `CORPUS` and `TOKENIZER` name others, as for the benchmark. `CORPUS` is a
/// file, a folder or a glob, and `FORMAT` its format (default: plain text). `LOWERCASE` is `true` or `false` if the
/// tokenizer is a `vocab.txt`.
#[test]
fn every_document_of_a_corpus_has_the_crates_ids() {
    let variable = |name: &str| std::env::var(name).ok();
    let corpus = variable("CORPUS").unwrap_or_else(|| testkit::root().join("docs/*.md").display().to_string());
    let lowercase = variable("LOWERCASE").map(|value| value == "true");
    let tokenizers = match variable("TOKENIZER") {
        Some(path) => vec![tokenize::load(Path::new(&path), lowercase).expect("a tokenizer")],
        None => testing::TOKENIZERS.map(testing::tokenizer).into(),
    };
    let format = format(variable("FORMAT").as_deref().unwrap_or("text"));
    let config = PrepareConfig { inputs: vec![corpus], format, ..PrepareConfig::default() };
    let corpus = Corpus::open(&config.corpus()).expect("readable text");
    let parts = corpus.parts().expect("readable text");
    for tokenizer in tokenizers {
        let found = parts.iter().flat_map(|part| corpus.read(part).expect("readable text"));
        let mut documents = 0;
        let mut bytes = 0;
        for document in found.filter_map(|found| found.expect("readable text").document) {
            tokenizer.compare(&document.text).expect("the same ids");
            (documents, bytes) = (documents + 1, bytes + document.text.len());
        }
        testkit::print_uncaptured(&format!(
            "{documents} documents of {bytes} bytes: {}",
            tokenizer.implementation_name()
        ));
        assert!(documents > 0, "a corpus has documents");
    }
}
