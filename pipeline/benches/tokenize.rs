//! Cost of preparation per stage, one thread: `cargo bench -p cloze-pipeline --bench tokenize`.
//!
//! All figures are per token, so that they add up. `CORPUS` names files, a folder or a glob of text, `TOKENIZER` a
//! tokenizer (lowercase, if it is a `vocab.txt`). The default text is this project's own documentation, repeated up to
//! 4 MB, with tokenizers of 4 k ids trained on it. That is enough to compare two versions of the code, but it favours
//! `tokenize`, since it has no new word after the first 50 kB.

use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pipeline::corpus::{Corpus, Part};
use pipeline::pack::{AnyPacking, Packed, Packer};
use pipeline::prepare::PrepareConfig;
use pipeline::shard::{ShardOptions, ShardWriter};
use pipeline::tokenize::{self, HfTokenizer, Tokenizer as _};
use pipeline::tokenizer_training::{Family, TokenizerConfig, train};
use schemas::SpecialIds;
use store::Store;

/// Tokens of a row.
const ROW: u32 = 512;

/// Text in memory and on disk.
struct Text {
    config: PrepareConfig,
    corpus: Corpus,
    parts: Vec<Part>,
    documents: Vec<String>,
}

impl Text {
    fn read(home: &Path) -> Self {
        let inputs = vec![std::env::var("CORPUS").unwrap_or_else(|_| documentation(home))];
        let config = PrepareConfig { inputs, valid_fraction: 0.0, ..PrepareConfig::default() };
        let corpus = Corpus::open(&config.corpus()).expect("readable text");
        let parts = corpus.parts().expect("readable text");
        let found = parts.iter().flat_map(|part| corpus.read(part).expect("readable text"));
        let documents = found.filter_map(|found| found.expect("readable text").document);
        let documents = documents.map(|document| document.text).collect();
        Self { config, corpus, parts, documents }
    }

    /// Returns the tokenizer that the environment names, or one of each family.
    fn tokenizers(&self, home: &Path) -> Vec<HfTokenizer> {
        if let Ok(path) = std::env::var("TOKENIZER") {
            let path = Path::new(&path);
            let lowercase = path.extension().is_some_and(|extension| extension == "txt").then_some(true);
            return vec![tokenize::load(path, lowercase).expect("a tokenizer")];
        }
        let trained = |kind| {
            let tokenizer = home.join(format!("{kind:?}.json"));
            let config = TokenizerConfig { kind, vocab_size: 4096, ..TokenizerConfig::default() };
            train(&config, &PrepareConfig { tokenizer: tokenizer.clone(), ..self.config.clone() }, &mut |_| {})
                .expect("trainable");
            tokenize::load(&tokenizer, None).expect("just written")
        };
        [Family::Wordpiece, Family::ByteBpe].map(trained).into()
    }

    fn ids(&self, tokenizer: &HfTokenizer) -> Vec<Vec<u32>> {
        self.documents.iter().map(|text| tokenizer.ids(text).expect("encodable")).collect()
    }
}

/// Writes 4 MB of this project's documentation. Returns the folder.
fn documentation(home: &Path) -> String {
    let files = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = files.map(|name| std::fs::read_to_string(project.join(name)).expect("part of the project")).concat();
    let folder = Store::folder(home.join("text")).expect("a writable folder");
    for copy in 0..(4 << 20) / text.len() {
        folder.put(&format!("{copy}.md"), text.as_bytes()).expect("written");
    }
    home.join("text").display().to_string()
}

/// Packs all documents into `sink`.
fn pack(documents: &[Vec<u32>], special: SpecialIds, mut sink: impl FnMut(Packed<'_>) -> pipeline::Result<()>) {
    let mut packer = Packer::new(&AnyPacking::default(), ROW, special);
    for (name, ids) in (0..).zip(documents) {
        packer.begin(name, 0);
        packer.extend(ids, &mut sink).expect("nothing fails here");
        packer.end(&mut sink).expect("nothing fails here");
    }
    packer.finish(&mut sink).expect("nothing fails here");
}

fn stages(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let text = Text::read(home.path());
    for tokenizer in text.tokenizers(home.path()) {
        let facts = &tokenizer.facts().manifest;
        let documents = text.ids(&tokenizer);
        let mut group = criterion.benchmark_group("prepare, per token");
        group.sample_size(10);
        group.throughput(Throughput::Elements(documents.iter().map(|ids| ids.len() as u64).sum()));
        let name = |stage: &str| BenchmarkId::new(stage, &facts.kind);
        group.bench_function(name("read"), |bencher| {
            bencher.iter(|| text.parts.iter().flat_map(|part| text.corpus.read(part).expect("readable text")).count());
        });
        group.bench_function(name("tokenize"), |bencher| bencher.iter(|| text.ids(&tokenizer)));
        group.bench_function(name("pack"), |bencher| {
            bencher.iter(|| {
                let mut tokens = 0;
                pack(&documents, facts.special, |sample| {
                    tokens += sample.input_ids.len();
                    Ok(())
                });
                tokens
            });
        });
        let store = Store::folder(home.path()).expect("there");
        group.bench_function(name("pack and write"), |bencher| {
            bencher.iter(|| {
                let options = ShardOptions { vocab_size: facts.vocab_size, ..ShardOptions::default() };
                let mut writer = ShardWriter::new(&store, options);
                pack(&documents, facts.special, |sample| writer.write(sample));
                writer.finish().expect("there is room")
            });
        });
    }
}

criterion_group!(benches, stages);
criterion_main!(benches);
