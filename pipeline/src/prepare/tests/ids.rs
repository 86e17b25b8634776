//! Ids are the crate's, and a run that finds others stops.

use std::io::Write as _;

use super::*;
use crate::corpus::Corpus;
use crate::tokenize::{self, Facts, TokenizeBy, Tokenizer};

/// A tokenizer that the crate disagrees with about cats.
struct Wrong(Box<dyn Tokenizer>);

impl Tokenizer for Wrong {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn way(&self) -> &str {
        self.0.way()
    }

    fn compare(&self, text: &str) -> Result<()> {
        if text.contains("cat") { Err(Error::Config(format!("they disagree on {text:?}"))) } else { Ok(()) }
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        self.0.encode(text, pieces)
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
    preparation.planned.tokenizer = Box::new(Wrong(Box::new(right)));
    let error = preparation.run(PrepareOptions::default(), &Clock::still(), &mut Many::default());
    assert!(error.expect_err("stopped").to_string().contains("they disagree on"));
}

#[test]
fn ids_are_the_same_by_either_way() {
    let home = Home::packed("sentences");
    let by_crate = PrepareConfig { tokenize_by: TokenizeBy::Crate, ..home.config("crate", 1) };
    let fastest = home.config("fastest", 2);
    for config in [&fastest, &by_crate] {
        run(config, PrepareOptions::default(), &Clock::still(), &mut Many::default()).expect("prepared");
    }
    let shards = |config: &PrepareConfig| {
        let manifest = Manifest::from_json(&fs::read(config.folder.join(schemas::manifest::NAME)).expect("written"));
        manifest.expect("a manifest").now().train.shards.iter().map(|shard| shard.blake3.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shards(&fastest), shards(&by_crate));
    // A folder that one of them has begun may be gone on with by the other.
    let other = PrepareConfig { tokenize_by: TokenizeBy::Crate, ..fastest };
    assert!(run(&other, PrepareOptions::default(), &Clock::still(), &mut Many::default()).expect("kept").nothing_to_do);
}

/// `CORPUS` names files, a folder or a glob, `FORMAT` how documents lie there if it is not plain text, `TOKENIZER` a tokenizer
/// (`LOWERCASE=true` or `false`, where it is a `vocab.txt`), as for the benchmark.
#[test]
fn every_document_of_a_corpus_has_the_crates_ids() {
    let (Ok(corpus), Ok(tokenizer)) = (std::env::var("CORPUS"), std::env::var("TOKENIZER")) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED documents of a corpus: `CORPUS` and `TOKENIZER` name none");
        return;
    };
    let lowercase = std::env::var("LOWERCASE").ok().map(|value| value == "true");
    let tokenizer = tokenize::load(Path::new(&tokenizer), lowercase).expect("a tokenizer");
    let format = format(&std::env::var("FORMAT").unwrap_or_else(|_| "text".to_owned()));
    let config = PrepareConfig { inputs: vec![corpus], format, ..PrepareConfig::default() };
    let corpus = Corpus::open(&config.corpus()).expect("readable text");
    let parts = corpus.parts().expect("readable text");
    let found = parts.iter().flat_map(|part| corpus.read(part).expect("readable text"));
    let (mut documents, mut bytes) = (0, 0);
    for document in found.filter_map(|found| found.expect("readable text").document) {
        tokenizer.compare(&document.text).expect("the same ids");
        (documents, bytes) = (documents + 1, bytes + document.text.len());
    }
    let _ = writeln!(std::io::stderr(), "{documents} documents of {bytes} bytes: {}", tokenizer.way());
    assert!(documents > 0, "a corpus has documents");
}
