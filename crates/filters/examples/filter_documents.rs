//! Result and cost of each filter on a list of documents: `filter_documents FILE [SETTINGS …]`.
//!
//! The file has one JSON string per line. The settings are filters in TOML, by default one of each kind that needs no
//! settings. Prints one JSON object per filter. `scripts/bench-filters` compares them with other programs.

use std::collections::BTreeMap;
use std::time::Instant;

use filters::{AnyFilter, FilterVerdict, LoadedFilter};

/// Passes over the documents. The fastest one counts.
const PASSES: usize = 3;

#[expect(clippy::print_stdout, reason = "output of an example")]
fn main() {
    let mut words = std::env::args().skip(1);
    let file = words.next().expect("the first argument is a file");
    let text = std::fs::read_to_string(file).expect("a readable file");
    let documents: Vec<String> = text.lines().map(|line| serde_json::from_str(line).expect("a JSON string")).collect();
    let given: Vec<AnyFilter> = words.map(|settings| toml::from_str(&settings).expect("a filter in TOML")).collect();
    let filters = if given.is_empty() { AnyFilter::examples() } else { given };
    for filter in filters.iter().filter(|filter| filter.problems().is_empty()) {
        let loaded = filter.load().unwrap_or_else(|problem| panic!("{problem}"));
        println!("{}", report(&loaded, &documents));
    }
}

fn report(filter: &LoadedFilter, documents: &[String]) -> serde_json::Value {
    let mut seconds = f64::INFINITY;
    let mut verdicts = Vec::new();
    for _ in 0..PASSES {
        let begin = Instant::now();
        verdicts = documents.iter().map(|text| filter.apply(text)).collect::<Vec<_>>();
        seconds = seconds.min(begin.elapsed().as_secs_f64());
    }
    let mut removed: BTreeMap<&str, u64> = BTreeMap::new();
    let mut removed_bytes = 0;
    let mut changed = 0;
    let mut cut_bytes = 0;
    for (text, verdict) in documents.iter().zip(&verdicts) {
        match verdict {
            FilterVerdict::Keep => {}
            FilterVerdict::Change(new) => {
                changed += 1;
                cut_bytes += text.len().saturating_sub(new.len());
            }
            FilterVerdict::Remove(reason) => {
                *removed.entry(reason.rule).or_default() += 1;
                removed_bytes += text.len();
            }
        }
    }
    let rule = |verdict: &FilterVerdict| if let FilterVerdict::Remove(reason) = verdict { reason.rule } else { "" };
    serde_json::json!({
        "filter": filter.kind(),
        "documents": documents.len(),
        "bytes": documents.iter().map(String::len).sum::<usize>(),
        "seconds": seconds,
        "removed": removed,
        "removed_bytes": removed_bytes,
        "changed": changed,
        "cut_bytes": cut_bytes,
        "rules": verdicts.iter().map(rule).collect::<Vec<_>>(),
    })
}
