//! Filters, duplicates and lists of removed documents, from the command line.

use serde_json::Value;
use testkit::Home;

const SETS: [&str; 8] = [
    "--set",
    "prepare.filters=[{kind=\"regex\", pattern=\"on Monday\"}, {kind=\"text_length\", min_words=1}]",
    "--set",
    "prepare.duplicates={}",
    "--set",
    "prepare.write_removed=true",
    "--set",
    "prepare.part_bytes=6000",
];

/// Corpus whose first forty documents occur twice.
fn corpus() -> Home {
    let home = Home::with_corpus(600);
    home.run_ok(&["tokenizer", "train"]);
    let text = std::fs::read_to_string(home.join("corpus/0.txt")).expect("the corpus");
    home.write("corpus/copies.txt", &text.split_inclusive('\n').take(40).collect::<String>());
    home
}

fn prepare(home: &Home, more: &[&str]) -> String {
    home.run_ok(&[&["prepare"], &SETS[..], more].concat()).stdout
}

/// Number of lists of removed documents.
fn lists(home: &Home) -> usize {
    std::fs::read_dir(home.join("data/removed")).map_or(0, Iterator::count)
}

#[test]
fn a_dry_run_of_all_documents_tells_the_result_as_json() {
    let home = corpus();
    let dry: Value = serde_json::from_str(&prepare(&home, &["--dry-run", "--sample", "1", "--json"])).expect("JSON");
    assert!(!home.join("data").exists(), "a dry run writes nothing");
    let dry = &dry["corpora"][0];
    prepare(&home, &[]);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(home.join("data/manifest.json")).expect("there")).expect("JSON");
    let version = &manifest["content"]["dataset_versions"][0];
    let corpus = &version["corpus"];
    for (key, found) in [
        ("documents", &dry["kept"]["documents"]),
        ("documents", &dry["estimate"]["documents"]),
        ("tokens", &dry["estimate"]["tokens"]),
        ("text_bytes", &dry["kept"]["text_bytes"]),
        ("filters", &dry["filters"]),
    ] {
        assert_eq!(&corpus[key], found, "{key}: {dry:#}");
    }
    assert_eq!(dry["duplicates"]["exact"], corpus["duplicates"]["exact_documents"]);
    assert!(dry["duplicates"]["exact"].as_u64().is_some_and(|exact| exact >= 20), "{dry:#}");
    assert_eq!((&dry["duplicates"]["is_lower_bound"], &dry["estimate"]["is_exact"]), (&false.into(), &true.into()));
    let parts = version["parts"].as_array().expect("parts");
    let shards =
        || parts.iter().flat_map(|part| [&part["train"], &part["valid"]]).filter_map(Value::as_array).flatten();
    let sum = |key: &str| shards().map(|shard| shard[key].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(dry["estimate"]["rows"], sum("rows"));
    assert_eq!(dry["estimate"]["shard_bytes"], sum("bytes"));
    assert_eq!(dry["estimate"]["shards"], shards().count());
    assert!(lists(&home) > 1);
    home.run_ok(&["verify", "data"]);
}

#[test]
fn a_dry_run_of_a_sample_says_what_its_numbers_rest_on() {
    let home = corpus();
    let dry = prepare(&home, &["--dry-run", "--sample", "0.5"]);
    for words in [
        "duplicates within the sample: ",
        "this is a lower bound for the whole corpus",
        "rows, ",
        "basis: documents are scaled by",
    ] {
        assert!(dry.contains(words), "`{words}` is missing in {dry}");
    }
    let json: Value = serde_json::from_str(&prepare(&home, &["--dry-run", "--sample", "0.5", "--json"])).expect("JSON");
    let json = &json["corpora"][0];
    assert_eq!((&json["duplicates"]["is_lower_bound"], &json["estimate"]["is_exact"]), (&true.into(), &false.into()));
    assert!(json["documents_sampled"].as_u64() < json["documents_read"].as_u64(), "{json:#}");
    home.run(&["prepare", "--json"]).assert_fails(2, &["--dry-run"]);
}
