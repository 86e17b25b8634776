//! Tests of every file of `configs/`: each is planned at full size and trained for three steps at a small size.
//!
//! The small form of a preset is its table with one overlay (`tests/fixtures/small.toml`). A corpus of this project and
//! temporary folders replace the data that the preset names. It runs through the same verbs as any other run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cloze::cli::{ConfigArgs, ExportFamily, Gpu};
use cloze::commands::{prepare, tokenizer};
use cloze::config::{ConfigSource, merge};
use cloze::plan::dry_run::DryRun;
use cloze::plan::step_estimate::TargetMachine;
use serde_json::Value as Json;
use store::{Lines, Store};
use testkit::{corpus, root};
use toml::{Table, Value};
use trainer::device::tensors;
use trainer_plan::networks::MAIN;

use crate::{export, train};

mod exports;
mod on_cuda;

/// Files of runs of this project, which have separate tests.
const OWN: [&str; 7] =
    ["demo.toml", "tiny.toml", "eltec-mlm.toml", "eltec-taco.toml", "eltec-taco-matched.toml", "mini", "small"];

/// Parts of weight names that must not exist in an ablation.
const ABSENT: [(&str, &str); 9] = [
    ("ablations/coco-lm/rtd-only", "heads.clm"),
    ("ablations/coco-lm/rtd-only", "heads.scl"),
    ("ablations/coco-lm/clm-only", "heads.scl"),
    ("ablations/coco-lm/scl-rtd", "heads.clm"),
    ("ablations/coco-lm/all-token-lm", "heads.scl"),
    ("ablations/coco-lm/no-relative-positions", "relative"),
    ("ablations/coco-lm/random-replacements", "generator"),
    ("mlm-base", "heads.tc"),
    ("fe-mlm-base", "generator"),
];

/// Weights that a run does not change.
struct UntrainedWeights {
    preset: &'static str,
    /// Part of the names of the weights.
    part: &'static str,
    /// Preset whose run provides these weights.
    from: &'static str,
}

const UNMOVED: [UntrainedWeights; 2] = [
    UntrainedWeights { preset: "ablations/coco-lm/converged-auxiliary", part: "generator.", from: "coco-lm-base" },
    UntrainedWeights { preset: "ablations/taco/frozen-trained-embeddings", part: "embeddings.word", from: "mlm-small" },
];

/// Operations relative to plain masked language modelling with the same encoder, computed by hand. `B` is the cost of
/// encoding a token (188.74 M at 512 columns, 179.31 M at 256). `H` is the cost of scoring it (48.06 M with 30,522
/// ids). Plain masked language modelling costs `3 (B + 0.15 H)`.
const RATIOS: [(&str, f64); 6] = [
    ("mlm-base", 1.0),
    ("taco-base", 1.0),
    ("fe-mlm-base", 1.0),
    // Plus the pass of the teacher: (559.55 + 179.31) / 559.55.
    ("tacl-base", 1.320_4),
    // The main network without a vocabulary, the generator with one: (566.23 + 75.50 + 21.27) / 587.86.
    ("electra-base", 1.127_8),
    // Two main passes (512 and 464 columns), two of the auxiliary network, three heads:
    // (566.23 + 508.34 + 188.74 + 70.64 + 23.18 + 22.65) / 589.41.
    ("coco-lm-base", 2.340_9),
];

/// Weights that an ablation has in addition to its preset, or that it freezes.
const OWN_DECODER: (&str, &str) = ("ablations/taco/unshared-embeddings", "heads.mlm.decoder.weight");
const FROZEN: [(&str, &str); 4] = [
    ("ablations/taco/frozen-random-embeddings", "encoder.embeddings.word.weight"),
    ("ablations/taco/frozen-trained-embeddings", "encoder.embeddings.word.weight"),
    ("ablations/coco-lm/converged-auxiliary", "generator.head.dense.weight"),
    ("tacl-base", "teacher.encoder.layers.0.attention.qkv.weight"),
];

/// Plans every file unchanged and without prepared data, as a new user does.
#[test]
fn every_file_in_configs_plans_at_full_size() {
    let mut ratios = BTreeMap::new();
    for name in files(|_| true) {
        let config = root().join(format!("configs/{name}.toml"));
        // A folder that exists on no machine.
        let set = vec!["data.folder=\"not/prepared\"".to_owned()];
        let target = TargetMachine { gpu: Some(Gpu::H100), ..TargetMachine::default() };
        let outlook =
            DryRun::new(&ConfigArgs { config, set }, target).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let mut warnings = outlook.warnings();
        // A preset may start from weights that are not in the repository, an ablation omits objectives, and presets for
        // CPUs compute in float32.
        let expected = |it: &String| {
            it.ends_with("is not in `[loss]`: it is not built")
                || it.ends_with("begins with it")
                || it.starts_with("`train.precision` is `f32`")
        };
        warnings.retain(|it| !expected(it));
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        let lines = outlook.lines().join("\n");
        assert!(lines.contains("not prepared yet") && lines.contains("prepare    "), "{name}: {lines}");
        assert!(
            !lines.contains("epochs;") && !lines.contains("per epoch"),
            "{name}: these lines require the data: {lines}"
        );
        ratios.insert(name, outlook.train().flops_ratio());
    }
    for (name, expected) in RATIOS {
        assert!((ratios[name] - expected).abs() < 5e-4, "{name}: {} operations, not {expected}", ratios[name]);
    }
}

#[test]
fn every_preset_and_ablation_trains_at_a_small_size() {
    let home = Home::new();
    let mut weights: BTreeMap<String, String> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for name in presets() {
        let run = home.train(&name);
        assert_terms(&name, &run);
        let tensors = run.weights();
        for (_, absent) in ABSENT.iter().filter(|(preset, _)| *preset == name) {
            assert!(!tensors.keys().any(|weight| weight.contains(absent)), "{name} has `{absent}`");
        }
        for UntrainedWeights { part, from, .. } in UNMOVED.iter().filter(|unmoved| unmoved.preset == name) {
            let source: &Run = places.get(*from).expect("presets train before their ablations");
            assert_unmoved(&name, part, &source.weights(), &tensors);
        }
        assert_eq!(tensors.contains_key(OWN_DECODER.1), name == OWN_DECODER.0, "{name}");
        for (_, frozen) in FROZEN.iter().filter(|(preset, _)| *preset == name) {
            assert!(tensors.contains_key(*frozen), "{name} lacks `{frozen}`");
            assert!(!run.optimizer().contains_key(&format!("mean.{frozen}")), "{name}: the optimizer moves `{frozen}`");
        }
        exports::export_and_fill(&name, &run, &home.path(&format!("exports/{name}")));
        let digest = format!("{tensors:?}");
        let digest = blake3::hash(digest.as_bytes()).to_hex().to_string();
        if let Some(other) = weights.insert(digest, name.clone()) {
            panic!("`{other}` and `{name}` have equal weights after three steps");
        }
        places.insert(name, run);
    }
    assert!(weights.len() >= 35, "{} presets and ablations", weights.len());
}

/// Returns the names of presets and their ablations.
fn presets() -> Vec<String> {
    files(|name| !OWN.contains(&name))
}

/// Returns paths below `configs/` without `.toml`, ablations last. `wanted` filters files and folders by name.
fn files(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let root = root().join("configs");
    let mut found = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("configs/ is there") {
            let path = entry.expect("a readable entry").path();
            let name = path.strip_prefix(&root).expect("it is below").to_str().expect("UTF-8").to_owned();
            if path.is_dir() && wanted(&name) {
                open.push(path);
            } else if let Some(stem) = name.strip_suffix(".toml").filter(|_| wanted(&name)) {
                found.insert((stem.starts_with("ablations"), stem.to_owned()));
            }
        }
    }
    found.into_iter().map(|(_, name)| name).collect()
}

/// Shrinks the generator to two layers, as wide as the small network, or half as wide if it was narrower.
fn shrink_generator(table: &mut Table) {
    let hidden = table["encoder"].get("hidden").cloned();
    let generator = table.get_mut("networks").and_then(|networks| networks.get_mut("generator"));
    let Some(generator) = generator.and_then(Value::as_table_mut) else { return };
    let narrow = generator.get("hidden").is_some_and(|width| Some(width) != hidden.as_ref());
    let width = if narrow { 16 } else { 32 };
    for (key, value) in [("layers", 2), ("hidden", width), ("heads", 2), ("feed_forward", 2 * width)] {
        generator.insert(key.to_owned(), value.into());
    }
}

/// Checks that every term of `[loss]` is in the log, finite and not 0.
fn assert_terms(name: &str, run: &Run) {
    let report = run.reports().pop().expect("a report");
    let terms = report["terms"].as_object().unwrap_or_else(|| panic!("{name}: {report}"));
    for (objective, _) in run.table["loss"].as_table().expect("an equation") {
        let below = |term: &&String| *term == objective || term.starts_with(&format!("{objective}."));
        let mut own = terms.iter().filter(|(term, _)| below(term)).peekable();
        assert!(own.peek().is_some(), "{name}: no term of `{objective}` in {report}");
        for (term, value) in own {
            let value = value.as_f64().unwrap_or(f64::NAN);
            assert!(value.is_finite() && value.abs() > 0.0, "{name}: `{term}` is {value}");
        }
    }
}

fn assert_unmoved(name: &str, part: &str, before: &tensors::HostTensors, after: &tensors::HostTensors) {
    let mut count = 0;
    for (weight, value) in after.iter().filter(|(weight, _)| weight.contains(part)) {
        count += 1;
        // A table that was shared has a separate copy now.
        let shared = weight.split_once('.').and_then(|(_, rest)| before.get(rest));
        assert_eq!(Some(value), before.get(weight).or(shared), "{name}: `{weight}` has moved");
    }
    assert!(count > 0, "{name}: no weight is named like `{part}`");
}

/// Finished small run.
struct Run {
    folder: PathBuf,
    table: Table,
}

impl Run {
    /// Returns all weights of the last checkpoint, of every network.
    fn weights(&self) -> tensors::HostTensors {
        self.tensors("main.safetensors")
    }

    fn optimizer(&self) -> tensors::HostTensors {
        self.tensors("optimizer.safetensors")
    }

    /// Returns the report events.
    fn reports(&self) -> Vec<Json> {
        let log = Lines::new(&Store::existing(&self.folder).expect("a run"), telemetry::jsonl::LOG).expect("a log");
        let events = log.map(|line| serde_json::from_slice::<Json>(&line.expect("readable")).expect("JSON"));
        events.filter(|event| event["kind"] == "report").collect()
    }

    fn tensors(&self, file: &str) -> tensors::HostTensors {
        let checkpoints = self.folder.join("checkpoints");
        let newest = std::fs::read_to_string(checkpoints.join("latest")).expect("a checkpoint");
        tensors::read(&checkpoints.join(newest.trim()).join(file)).expect("whole")
    }
}

/// Temporary folder with tokenizers, prepared corpora and runs. Each is made once.
struct Home {
    root: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns the preset's table with the overlay, and with paths in this folder.
    fn small(&self, name: &str) -> Table {
        let root = root();
        let mut table = ConfigSource::read(&root.join(format!("configs/{name}.toml")), &[])
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .0
            .table;
        let text = std::fs::read_to_string(root.join("tests/fixtures/small.toml")).expect("the overlay");
        let mut overlay: Table = toml::from_str(&text).expect("TOML");
        let has = |path: [&str; 2]| table.get(path[0]).and_then(|section| section.get(path[1])).is_some();
        if !has(["encoder", "embedding"]) {
            overlay["encoder"].as_table_mut().expect("a table").remove("embedding");
        }
        shrink_generator(&mut table);
        merge(&mut table, overlay, 0);
        let tokenizer = self.tokenizer(&table);
        let data = self.data(&mut table, &tokenizer);
        let data_section = table["data"].as_table_mut().expect("a table");
        data_section.remove("seq_len");
        data_section.insert("folder".into(), data.into());
        // Runs that a preset builds on are in this folder.
        let text = toml::to_string(&table).expect("plain values");
        let runs = format!("\"{}/", self.path("runs").display());
        toml::from_str(&text.replace("\"runs/", &runs)).expect("TOML")
    }

    /// Returns a tokenizer of the preset's kind.
    fn tokenizer(&self, table: &Table) -> String {
        let (kind, lowercase) = match table["prepare"].get("lowercase").and_then(Value::as_bool) {
            Some(lowercase) => ("wordpiece", lowercase),
            None => ("byte_bpe", false),
        };
        let path = self.path(&format!("{kind}-{lowercase}.json"));
        if !path.exists() {
            let config = format!(
                "[tokenizer]\nkind = \"{kind}\"\nvocab_size = 400\nlowercase = {lowercase}\n\
                 [prepare]\nformat = \"text_lines\"\ninputs = [\"{}\"]\ntokenizer = \"{}\"\n",
                self.corpus(0),
                path.display()
            );
            tokenizer::train(&self.config("tokenizer.toml", &config)).expect("a tokenizer");
        }
        path.display().to_string()
    }

    /// Returns a corpus. Corpora of different numbers have different documents.
    fn corpus(&self, number: usize) -> String {
        let path = self.path(&format!("corpus-{number}/stories.txt"));
        if !path.exists() {
            let documents = corpus::documents(160 + 40 * number).split_off(40 * number);
            self.write(&format!("corpus-{number}"), "stories.txt", &documents.join("\n"));
        }
        path.display().to_string()
    }

    /// Returns a folder prepared by the preset's `[prepare]`.
    fn data(&self, table: &mut Table, tokenizer: &str) -> String {
        // Presets with different inputs use different documents.
        let inputs = table["prepare"]["inputs"].to_string();
        let number = usize::from(blake3::hash(inputs.as_bytes()).as_bytes()[0] % 8);
        let section = table["prepare"].as_table_mut().expect("a table");
        section.insert("inputs".into(), vec![Value::from(self.corpus(number))].into());
        section.insert("tokenizer".into(), tokenizer.into());
        section.remove("folder");
        let name = blake3::hash(section.to_string().as_bytes()).to_hex().to_string();
        let folder = self.path(&format!("data/{name}"));
        section.insert("folder".into(), folder.display().to_string().into());
        if !folder.exists() {
            let config = format!("[prepare]\n{section}");
            prepare::run(&self.config("prepare.toml", &config), prepare::Options::default())
                .expect("a prepared folder");
        }
        folder.display().to_string()
    }

    fn train(&self, name: &str) -> Run {
        self.run(name, self.with_init(name, self.small(name)))
    }

    /// Adds the initial weights to a small form.
    fn with_init(&self, name: &str, mut table: Table) -> Table {
        if table["train"].get("init_from").is_some() {
            let init = self.init(name, &table);
            table["train"]["init_from"] = init.into();
        }
        table
    }

    /// Returns a folder with initial weights: the preset, initialized at random, trained and exported.
    fn init(&self, name: &str, table: &Table) -> String {
        let mut table = table.clone();
        table["train"].as_table_mut().expect("a table").remove("init_from");
        table["loss"] = Table::from_iter([("mlm".to_owned(), Value::from(1.0))]).into();
        table["run"]["folder"] = self.path(&format!("before/{name}")).display().to_string().into();
        let run = self.run(name, table);
        let model = self.path(&format!("models/{name}"));
        let options = export::Options { out: &model, step: None, family: Some(ExportFamily::Bert), network: MAIN };
        export::run(&run.folder, &options).expect("an exported folder");
        model.display().to_string()
    }

    fn run(&self, name: &str, table: Table) -> Run {
        let folder = PathBuf::from(table["run"]["folder"].as_str().expect("a path"));
        let text = toml::to_string(&table).expect("plain values");
        let config = self.config("run.toml", &text);
        train::run(&config, train::Options::default()).unwrap_or_else(|error| panic!("{name}: {error:#}\n{text}"));
        Run { folder, table }
    }

    fn config(&self, name: &str, text: &str) -> ConfigArgs {
        self.write("", name, text);
        ConfigArgs { config: self.path(name), set: Vec::new() }
    }

    fn write(&self, folder: &str, name: &str, text: &str) {
        let folder = Store::folder(self.path(folder)).expect("a folder");
        folder.put(name, text.as_bytes()).expect("written");
    }
}
