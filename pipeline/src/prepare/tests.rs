use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use schemas::{Document, Manifest, Sample};
use telemetry::Fanout;
use testkit::files;

use super::part_pool::PULSE;
use super::progress::Progress;
use super::*;
use crate::corpus::AnyFormat;
use crate::load;
use crate::pack::AnyPacking;
use crate::shard::reader::{ShardExpectation, ShardReader};
use crate::testing;
use crate::testing::write_all;
use crate::tokenize::Tokenizer as _;

/// Corpus of 240 short documents in three files, cut into a dozen parts, and a tokenizer.
struct Home {
    folder: tempfile::TempDir,
    config: PrepareConfig,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lines = ["the cat sat on the mat.", "it's a mat, a cat, 1 hat", "cats sat; the mats sat on 中文"];
        for file in 0..3 {
            let text: Vec<String> = (0..80).map(|line| format!("{} {}", lines[(file + line) % 3], line)).collect();
            write_all(folder.path(), &[(format!("in/{file}.txt").as_str(), text.join("\n"))]);
        }
        write_all(folder.path(), &[("vocab.txt", testing::VOCAB.join("\n"))]);
        let config = PrepareConfig {
            inputs: vec![folder.path().join("in").display().to_string()],
            format: format("text_lines"),
            tokenizer: folder.path().join("vocab.txt"),
            lowercase: Some(true),
            folder: folder.path().join("data"),
            max_seq_len: 16,
            valid_fraction: 0.3,
            part_bytes: Some(500),
            workers: Some(2),
            ..PrepareConfig::default()
        };
        Self { folder, config }
    }

    /// Home with another packing, and with a document of many sentences in each file.
    fn packed(pack: &str) -> Self {
        let mut home = Self::new();
        home.config.packing = packing(pack);
        for file in 0..3 {
            let text = "The cat sat on the mat. It's 中文。A cat? The mat! ".repeat(3 + file);
            write_all(home.folder.path(), &[(format!("in/many-{file}.txt").as_str(), text)]);
        }
        home
    }

    fn config(&self, folder: &str, workers: usize) -> PrepareConfig {
        PrepareConfig { folder: self.folder.path().join(folder), workers: Some(workers), ..self.config.clone() }
    }

    fn store(&self) -> Store {
        Store::existing(&self.config.folder).expect("it is there")
    }

    fn data(&self) -> BTreeMap<String, Vec<u8>> {
        // A preparation that fails early creates no folder.
        if self.config.folder.exists() { files(&self.config.folder) } else { BTreeMap::new() }
    }

    fn run(&self) -> Result<PrepareSummary> {
        prepare(&self.config)
    }

    /// Prepares with a store that fails after that number of writes, as if the process had been killed.
    fn run_interrupted(&self, writes: u64) -> Result<PrepareSummary> {
        store::faults::fail_after(&self.config.folder, Some(writes));
        let outcome = self.run();
        store::faults::fail_after(&self.config.folder, None);
        // The lock could not be released, and its holder, this process, is still alive.
        let _ = fs::remove_file(self.config.folder.join(LOCK));
        outcome
    }

    fn forget(&self, document: &str) -> Result<(PrepareSummary, Option<DatasetVersion>)> {
        Preparation::plan(&self.config)?.forget_document(document, false, &Clock::still(), &mut Fanout::default())
    }
}

fn format(name: &str) -> AnyFormat {
    AnyFormat::of_kind(name).expect("a known format")
}

fn prepare(config: &PrepareConfig) -> Result<PrepareSummary> {
    run(config, PrepareOptions::default(), &Clock::still(), &mut Fanout::default())
}

fn records(files: &BTreeMap<String, Vec<u8>>) -> usize {
    files.keys().filter(|name| name.starts_with("parts/")).count()
}

fn packing(name: &str) -> AnyPacking {
    AnyPacking::of_kind(name).expect("a known packing")
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_workers() {
    for &pack in AnyPacking::KINDS {
        let home = Home::packed(pack);
        let one = prepare(&home.config("one", 1)).expect("prepared");
        let expected = files(&home.folder.path().join("one"));
        assert!(records(&expected) >= 10, "too few parts to prove anything");
        for workers in [2, 4] {
            let name = workers.to_string();
            let summary = prepare(&home.config(&name, workers)).expect("prepared");
            assert!(files(&home.folder.path().join(&name)) == expected, "{workers} workers");
            assert_eq!((&summary.corpus, summary.rows), (&one.corpus, one.rows));
        }
    }
}

#[test]
fn a_second_run_has_nothing_to_do() {
    let home = Home::new();
    let first = home.run().expect("prepared");
    let before = home.data();
    let second = home.run().expect("nothing to do");
    assert!(!first.nothing_to_do && second.nothing_to_do);
    assert_eq!((second.parts_made, second.parts_skipped), (0, first.parts_made));
    assert_eq!((&second.corpus, second.train, second.valid), (&first.corpus, first.train, first.valid));
    assert!(home.data() == before);
}

/// The disk fails after an increasing number of writes; each run continues where the previous one ended.
#[test]
fn faults_lose_only_parts_in_progress() {
    for pack in ["block", "sentences"] {
        faults_cost_only_the_parts_in_hand_of(&Home::packed(pack));
    }
}

fn faults_cost_only_the_parts_in_hand_of(home: &Home) {
    prepare(&home.config("whole", 1)).expect("prepared");
    let whole = files(&home.folder.path().join("whole"));
    let mut between = 0;
    let mut torn = 0;
    for writes in (0..400).step_by(11) {
        let before = home.data();
        let outcome = home.run_interrupted(writes);
        let after = home.data();
        for (name, bytes) in &after {
            assert!(whole.get(name) == Some(bytes), "{name} is half-written after {writes} writes");
        }
        assert!(before.keys().all(|name| after.contains_key(name)), "what was committed stays");
        let Err(error) = outcome else { break };
        assert!(error.to_string().contains(&home.config.folder.display().to_string()), "{error}");
        between += usize::from((1..records(&whole)).contains(&records(&after)));
        let unrecorded = |name: &&String| {
            let stem = name.strip_prefix("train/").and_then(|name| name.get(.."part-00000-00".len()));
            stem.is_some_and(|stem| !after.contains_key(&format!("parts/{stem}.json")))
        };
        torn += usize::from(after.keys().filter(unrecorded).count() > 0);
    }
    assert!(between >= 3 && torn >= 1, "{between} faults between the first and the last commit, {torn} within a part");
    let committed = records(&home.data()) as u64;
    let last = home.run().expect("the disk is well again");
    assert_eq!(last.parts_skipped, committed, "no finished part is made twice");
    assert!(home.data() == whole);
}

#[test]
fn leftovers_of_a_kill_are_removed() {
    let home = Home::new();
    home.run().expect("prepared");
    let whole = home.data();
    // File names that a store does not accept.
    for half in ["train/.part-00003-00-00.parquet.h-1-0123456789abcdef.tmp", ".manifest.json.h-1-0123456789abcdef.tmp"]
    {
        fs::copy(home.config.folder.join("manifest.json"), home.config.folder.join(half)).expect("writable");
    }
    fs::remove_file(home.config.folder.join("parts/part-00003-00.json")).expect("there");
    assert_eq!(home.run().expect("prepared").parts_made, 1);
    assert!(home.data() == whole);
}

#[test]
fn damage_is_repaired_by_running_again() {
    let home = Home::new();
    home.run().expect("prepared");
    let whole = home.data();
    let shard = "train/part-00002-00-00.parquet";
    for (name, parts) in [
        (shard, 1),
        ("parts/part-00002-00.json", 1),
        ("documents/part-00002-00.parquet", 1),
        ("manifest.json", 0),
        ("vocab/00000.parquet", 0),
        ("tokenizer.json", 0),
        ("tokenizer_config.json", 0),
    ] {
        let bytes = &whole[name];
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        for damaged in [Some(&flipped[..]), Some(&bytes[..bytes.len() - 7]), None] {
            fs::remove_file(home.config.folder.join(name)).expect("there");
            if let Some(damaged) = damaged {
                write_all(&home.config.folder, &[(name, damaged)]);
            }
            let summary = home.run().expect("repaired");
            assert_eq!((summary.parts_made, summary.nothing_to_do), (parts, false), "{name}");
            assert!(home.data() == whole, "{name}");
        }
    }
}

/// The shards contain the tokens of the documents, each in its split.
#[test]
fn shards_hold_the_tokens_of_their_split() {
    let home = Home::new();
    let summary = home.run().expect("prepared");
    let manifest = load::open(&home.store()).expect("a manifest");
    let vocab = load::read_vocab(&home.store(), &manifest, manifest.newest()).expect("a vocabulary");
    let promise = ShardExpectation::from_manifest(&manifest);
    let separator = manifest.tokenizer.special.sep;
    let mut counts = vec![0; vocab.size() as usize];
    let mut separators = 0;
    let mut sides = [BTreeSet::new(), BTreeSet::new()];
    for (side, split) in [manifest.now().train, manifest.now().valid].into_iter().enumerate() {
        for shard in &split.shards {
            let reader = ShardReader::open(&home.store(), shard, promise).expect("whole");
            let group = reader.read(0).expect("one row group");
            for row in 0..group.rows() {
                let sample = group.sample(row);
                sides[side].extend(sample.documents.iter().copied());
                separators += sample.input_ids.iter().filter(|&id| id == separator).count() as u64;
                if side == 0 {
                    sample.input_ids.iter().filter(|&id| id != separator).for_each(|id| counts[id as usize] += 1);
                }
            }
        }
    }
    assert_eq!(counts, vocab.counts(), "the vocabulary counts the training split");
    assert!(sides[0].is_disjoint(&sides[1]) && sides[1].iter().all(|&document| Document::is_valid(document, 0.3)));
    assert_eq!((sides[0].len() + sides[1].len()) as u64, summary.corpus.documents);
    assert!((40..110).contains(&sides[1].len()), "about 30 % of 240 documents are held out: {}", sides[1].len());
    assert_eq!(summary.stored_tokens, summary.corpus.tokens + separators, "tokens are conserved");
    assert_eq!((summary.train.1, summary.valid.1), (manifest.now().train.tokens(), manifest.now().valid.tokens()));
}

/// Calls `see` with every sample of the prepared folder.
fn see_samples(home: &Home, mut see: impl FnMut(&Sample<'_>)) -> Manifest {
    let manifest = load::open(&home.store()).expect("a manifest");
    let now = manifest.now();
    for shard in now.train.shards.iter().chain(&now.valid.shards) {
        let reader =
            ShardReader::open(&home.store(), shard, ShardExpectation::from_manifest(&manifest)).expect("whole");
        let group = reader.read(0).expect("one row group");
        (0..group.rows()).for_each(|row| see(&group.sample(row)));
    }
    manifest
}

#[test]
fn every_style_keeps_its_shape_and_its_tokens() {
    for &pack in AnyPacking::KINDS {
        let home = Home::packed(pack);
        let summary = home.run().expect("prepared");
        let mut tokens = 0;
        let mut specials = 0;
        let mut sentences = 0;
        let manifest = see_samples(&home, |sample| {
            let length = sample.input_ids.len() as u64;
            tokens += length;
            specials += sample.input_ids.iter().filter(|&id| id == 2 || id == 3).count() as u64;
            sentences += sample.sentence_starts.len() as u64;
            assert_eq!(sample.frame, packing(pack).frame());
            assert_eq!(sample.sentence_starts.is_empty(), pack != "sentences");
            assert!(sample.documents.len() == 1 || matches!(pack, "block" | "taco"), "{sample:?}");
            assert!(length == 16 || pack != "taco", "{sample:?}");
        });
        let report = summary.corpus.packing;
        assert_eq!(
            (manifest.pack.name.as_str(), manifest.pack.frame, manifest.dataset_versions[0].corpus.packing),
            (pack, packing(pack).frame(), report)
        );
        let dropped_specials = if pack == "taco" { 2 * summary.corpus.documents - specials } else { 0 };
        assert_eq!(tokens - specials + report.cut_tokens - dropped_specials, summary.corpus.tokens, "{pack:?}");
        assert_eq!(report.cut_documents > 0, pack == "document");
        assert_eq!(report.cut_tokens > 0, matches!(pack, "document" | "taco"));
        // The long document has four sentences, repeated. The others have one sentence each, a few have two.
        assert_eq!(report.sentences, if pack == "sentences" { sentences } else { 0 });
    }
}

#[test]
fn sentence_starts_are_those_of_the_splitter() {
    let home = Home::packed("sentences");
    home.run().expect("prepared");
    let mut many = Vec::new();
    see_samples(&home, |sample| {
        let ends = sample.sentence_starts.iter().copied().skip(1).map(usize::from).chain([sample.input_ids.len()]);
        let runs = sample.sentence_starts.iter().map(|&start| usize::from(start)).zip(ends);
        if sample.sentence_starts.len() >= 3 {
            many.extend(runs.map(|(start, end)| sample.input_ids.slice(start..end).iter().collect::<Vec<u32>>()));
        }
    });
    let tokenizer = testing::tokenizer("wordpiece");
    let known = ["The cat sat on the mat.", "It's 中文。", "A cat?", "The mat!"].map(|text| tokenizer.ids(text));
    let known = known.map(|ids| ids.expect("encodable"));
    assert!(many.len() > 20 && many.iter().all(|sentence| known.contains(sentence)), "{many:?}");
}

#[test]
fn a_null_writer_writes_nothing_and_a_slow_one_is_found_out() {
    let home = Home::new();
    let options =
        PrepareOptions { null_writer: true, write_delay: Duration::from_millis(20), ..PrepareOptions::default() };
    let slow = run(&home.config, options, &Clock::still(), &mut Fanout::default()).expect("run");
    assert!(!home.config.folder.exists());
    assert_eq!(slow.stages.slowest(), Stage::Write, "{:?}", slow.stages);
    let written = home.run().expect("prepared");
    assert_eq!((slow.rows, &slow.corpus), (written.rows, &written.corpus), "the same work");
}

mod allocations;
mod clock_jumps;
mod dataset_versions;
mod decontamination;
mod dirty;
mod dry_run;
mod duplicates;
mod events;
mod file_names;
mod filters;
mod foreign_files;
mod ids;
mod lost_lists;
mod masks;
mod phase_faults;
mod refusals;
mod remote;
mod removed;
mod segments;
mod shared;
mod store_faults;
mod unfit;
mod verify;
