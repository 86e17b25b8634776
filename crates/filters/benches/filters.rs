//! Throughput of each filter on one core: `cargo bench -p cloze-filters`.
//!
//! `TEXT` names a file of UTF-8 whose documents are separated by blank lines. The default is this project's documentation.

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use filters::{AnyFilter, Normalization, UnicodeForm};

/// Documents of the text, of at least 1000 bytes each.
fn documents() -> Vec<String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = match std::env::var_os("TEXT") {
        Some(path) => std::fs::read_to_string(path).expect("TEXT is a file of UTF-8"),
        None => {
            let pages = ["prepare.md", "data.md", "results.md", "benchmarks.md", "operations.md"];
            let read = |page| std::fs::read_to_string(home.join("docs").join(page)).expect("a page of the documentation");
            pages.map(read).concat()
        }
    };
    let mut documents = vec![String::new()];
    for paragraph in text.split("\n\n") {
        let last = documents.last_mut().expect("there is one");
        last.push_str(paragraph);
        last.push('\n');
        if last.len() > 1000 {
            documents.push(String::new());
        }
    }
    documents
}

fn filters(criterion: &mut Criterion) {
    let documents = documents();
    let bytes: usize = documents.iter().map(String::len).sum();
    let mut group = criterion.benchmark_group("filters");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    for filter in AnyFilter::examples() {
        // A pattern and a word list have no defaults.
        let loaded = match filter.kind() {
            "regex" => toml::from_str::<AnyFilter>("kind = 'regex'\npattern = '(?i)all rights reserved'"),
            "blocklist" => toml::from_str("kind = 'blocklist'\nfile = '/dev/null'"),
            _ => Ok(filter),
        };
        let Ok(loaded) = loaded.expect("valid settings").load() else { continue };
        group.bench_function(loaded.kind(), |bencher| {
            bencher.iter(|| documents.iter().map(|text| loaded.apply(text)).filter(|it| *it == filters::Verdict::Keep).count());
        });
    }
    let normalization = Normalization {
        unicode: UnicodeForm::Nfkc,
        remove_control: true,
        collapse_blanks: true,
        trim_lines: true,
        max_blank_lines: Some(1),
    };
    group.bench_function("normalization", |bencher| {
        bencher.iter(|| documents.iter().map(|text| normalization.apply(text).len()).sum::<usize>());
    });
    group.finish();
}

criterion_group!(benches, filters);
criterion_main!(benches);
