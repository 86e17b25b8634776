//! Throughput of each filter on one core: `cargo bench -p cloze-filters`.
//!
//! `TEXT` names a file of UTF-8 whose documents are separated by blank lines. The default is this project's documentation.

use std::io::Write as _;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use filters::{AnyFilter, Normalization, UnicodeForm};

/// Documents of the text, of at least 1000 bytes each.
fn documents() -> Vec<String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = if let Some(path) = std::env::var_os("TEXT") {
        std::fs::read_to_string(path).expect("TEXT is a file of UTF-8")
    } else {
        let pages = ["prepare.md", "data.md", "results.md", "benchmarks.md", "operations.md"];
        let read = |page| std::fs::read_to_string(home.join("docs").join(page)).expect("a page of the documentation");
        pages.map(read).concat()
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
    let list = tempfile::NamedTempFile::new().expect("a temporary file");
    (0..500).try_for_each(|number| writeln!(&list, "blocked word {number}")).expect("room for a list");
    let blocklist = format!("kind = 'blocklist'\nfile = '{}'", list.path().display());
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    for filter in AnyFilter::examples() {
        // A pattern and a word list have no defaults.
        let loaded = match filter.kind() {
            "regex" => toml::from_str::<AnyFilter>("kind = 'regex'\npattern = '(?i)all rights reserved'"),
            "blocklist" => toml::from_str(&blocklist),
            _ => Ok(filter),
        };
        let loaded = loaded.expect("valid settings").load().unwrap_or_else(|problem| panic!("{problem}"));
        group.bench_function(loaded.kind(), |bencher| {
            bencher.iter(|| {
                documents.iter().map(|text| loaded.apply(text)).filter(|it| *it == filters::FilterVerdict::Keep).count()
            });
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
