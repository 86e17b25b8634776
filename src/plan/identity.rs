//! Identity of a run: all keys of its configuration except those excluded by name.
//!
//! The rule fails safe. A new key that is not listed here belongs to the identity. The worst case is a refused resume,
//! never a resume with different numbers.

use std::collections::BTreeMap;

use pipeline::load::{LoadPlan, RowOrder, SourceFacts};
use pipeline::mixture::PERIOD;
use toml::{Table, Value};
use trainer_plan::identity::Identity;
use trainer_plan::objectives::Normalize;
use trainer_plan::requirements::used_networks;
use trainer_plan::schedule::ScheduleKind;

use crate::config::{Config, Training};
use crate::run::data::PreparedData;

macro_rules! excluded {
    ($($key:literal: $why:literal,)+) => {
        /// Keys that change no number of a run. A name stands for all keys below it.
        ///
        /// | key | why it is excluded |
        /// |---|---|
        $(#[doc = concat!("| `", $key, "` | ", $why, " |")])+
        ///
        /// Keys `sources.NAME` are replaced by their effects, in [`of_source`]. [`unused`] excludes under conditions
        /// `views.NAME`, `objectives.NAME`, `networks.NAME`, `train.steps`, `data.order`, `train.micro_batch_size`,
        /// `train.tf32`, `train.bf16_all_reduce`, `optimizer.layer_decay`, `schedule.decay_fraction`,
        /// `schedule.decay_shape` and `negatives_from` of an objective. `train.max_tokens` and `train.max_hours` belong
        /// to the identity if they are written.
        const EXCLUDED: &[(&str, &str)] = &[$(($key, $why)),+];
    };
}

excluded! {
    "expects": "affects only warnings",
    "tokenizer": "its output is identified by its content, `data.content`",
    "prepare": "its output is identified by its content, `data.content`",
    "data.folder": "a folder is identified by its content, `data.content`",
    "data.workers": "affects which worker builds a batch, not its content",
    "data.prefetch_batches": "affects when a batch is built, not its content",
    "data.max_memory_bytes": "affects how many batches are prefetched, not their content",
    "data.cache_folder": "the place of local copies",
    "data.cache_bytes": "affects what is read from local copies, not its content",
    "data.max_bad_rows": "a limit; the bad rows themselves are recorded with the run",
    "train.device": "equal up to rounding; a change of the device is logged",
    "train.threads": "equal up to rounding; a change is logged",
    "train.deterministic": "equal up to rounding",
    "train.activation_checkpointing": "the same bits, in less memory",
    "optimizer.shard": "the same bits, in less memory",
    "train.max_skipped_steps": "a limit without effect on the weights",
    "validation": "affects when a run is validated; validation does not train",
    "checkpoints": "affects when a run is saved, and retention",
    "report": "affects only when reports are logged",
    "spike_guard": "the skipped steps are recorded with the run",
    "run": "the place of a run",
    "serve": "the status server of a run",
    "alerts": "the recipients of alerts",
}

/// Returns the identity of a run. `train.init_from` is part of it as written.
pub(super) fn identity(config: &Config, data: &PreparedData, load: Option<&LoadPlan>) -> Identity {
    let facts = load.map(LoadPlan::facts);
    let rendered: Vec<&str> = facts.iter().flat_map(|facts| &facts.views).map(|view| view.name.as_str()).collect();
    let always = EXCLUDED.iter().map(|(key, _)| (*key).to_owned());
    let mut keys = keys_but(&config.resolved(), &always.chain(unused(config, &rendered)).collect::<Vec<_>>());
    // The effective value, whether the key is written or not.
    keys.insert("data.seq_len".into(), config.data.seq_len.unwrap_or(data.manifest.max_seq_len).to_string());
    if config.sources.is_empty() {
        keys.insert("data.content".into(), data.content());
    }
    // The windows of a streamed run are not raised to hold its batches.
    if let Some(facts) = facts.filter(|facts| facts.streamed.is_none()) {
        keys.insert("data.shuffle_window_groups".into(), facts.window_blocks.to_string());
        if !facts.sources.is_empty() {
            // Each source has its own windows.
            keys.remove("data.shuffle_window_groups");
        }
        keys.extend(facts.sources.iter().flat_map(|source| of_source(source, data)));
    }
    Identity::new(keys)
}

/// Identity keys of a source: its content and its effective weight and window.
fn of_source(source: &SourceFacts, data: &PreparedData) -> [(String, String); 3] {
    let key = |key: &str| format!("sources.{}.{key}", source.name);
    let shares = source.shares.iter().map(|(row, share)| format!("from row {row}: {share} of {PERIOD}"));
    [
        (key("content"), data.of_source(Some(&source.name)).content_alone().to_owned()),
        (key("weight"), shares.collect::<Vec<_>>().join(", ")),
        (key("shuffle_window_groups"), source.window_blocks.to_string()),
    ]
}

/// Returns keys that have no effect in this run, although they have in others.
fn unused(config: &Config, rendered: &[&str]) -> Vec<String> {
    let training = &config.training;
    let active = || training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let networks = used_networks(&training.networks, active().map(|(_, objective)| objective));
    // Components that no objective reads are not built.
    let views = config.views.keys().filter(|name| !rendered.contains(&name.as_str()));
    let objectives = training.objectives.keys().filter(|name| !training.loss.contains_key(*name));
    let others = training.networks.keys().filter(|name| !networks.contains_key(*name));
    let mut unused: Vec<String> = views.map(|name| format!("views.{name}")).collect();
    // Replaced by their effects, in `of_source`.
    unused.extend(config.sources.keys().map(|name| format!("sources.{name}")));
    unused.extend(objectives.map(|name| format!("objectives.{name}")));
    unused.extend(others.map(|name| format!("networks.{name}")));
    // At a constant rate, a longer run begins with the same steps as a shorter one.
    if training.schedule.kind == ScheduleKind::Constant {
        unused.push("train.steps".to_owned());
    }
    // Runs from before these keys existed must resume.
    if config.data.order == RowOrder::Shuffled {
        unused.push("data.order".to_owned());
    }
    for (key, is_set) in
        [("train.tf32", training.train.tf32), ("train.bf16_all_reduce", training.train.bf16_all_reduce)]
    {
        if !is_set {
            unused.push(key.to_owned());
        }
    }
    if training.optimizer.has_one_rate() {
        unused.push("optimizer.layer_decay".to_owned());
    }
    if training.schedule.kind != ScheduleKind::Wsd {
        unused.extend(["schedule.decay_fraction", "schedule.decay_shape"].map(str::to_owned));
    }
    for (name, objective) in active() {
        unused.extend(objective.unused_keys().into_iter().map(|key| format!("objectives.{name}.{key}")));
    }
    // Validations contrast the rows of a micro-batch.
    let coupled = active().any(|(_, objective)| objective.contrasted_rows().is_some());
    let draws = networks.values().filter_map(|network| network.output_view()).any(|made| !made.reads_draws);
    if !(coupled || draws || training.train.normalize == Normalize::MicroBatch || drops_out(training)) {
        unused.push("train.micro_batch_size".to_owned());
    }
    unused
}

/// Whether dropout is active. It is drawn for each micro-batch.
fn drops_out(training: &Training) -> bool {
    let main = &training.encoder;
    let others = training.networks.values().filter_map(|network| network.shape(main));
    main.dropout > 0.0 || others.into_iter().any(|shape| shape.dropout > 0.0)
}

/// Keys that ranks may have different values of: places and machines.
const OF_RANKS: [&str; 12] = [
    "tokenizer",
    "prepare",
    "data.folder",
    "data.workers",
    "data.prefetch_batches",
    "data.max_memory_bytes",
    "data.cache_folder",
    "data.cache_bytes",
    "train.device",
    "train.threads",
    "serve",
    "alerts",
];

/// Returns the keys that all ranks of a run must have in common, with their values.
pub(super) fn keys_of_all_ranks(config: &Config) -> BTreeMap<String, String> {
    keys_but(&config.resolved(), &OF_RANKS.map(str::to_owned))
}

/// Returns the keys of a configuration with their values, without those of `excluded` and the keys below them.
pub(crate) fn keys_but(resolved: &Table, excluded: &[String]) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    resolved.iter().for_each(|(key, value)| flatten(key, value, &mut keys));
    let is_below = |key: &str, above: &str| key.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    keys.retain(|key, _| !excluded.iter().any(|above| key == above || is_below(key, above)));
    keys
}

fn flatten(path: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, keys)),
        plain => {
            keys.insert(path.to_owned(), plain.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn config() -> Config {
        let objectives = "mlm = { kind = 'masked_lm' }\ntc = { kind = 'token_contrastive' }";
        Config {
            views: toml::from_str("masked = { kind = 'mask' }\nidle = { kind = 'mask' }").expect("two views"),
            training: Training {
                objectives: toml::from_str(objectives).expect("two objectives"),
                networks: toml::from_str("generator = { kind = 'generator' }").expect("a network"),
                loss: [("mlm".to_owned(), 1.0)].into(),
                ..Training::default()
            },
            ..Config::default()
        }
    }

    fn keys(config: &Config, resolved: &Table) -> BTreeSet<String> {
        let always = EXCLUDED.iter().map(|(key, _)| (*key).to_owned());
        keys_but(resolved, &always.chain(unused(config, &["masked"])).collect::<Vec<_>>()).into_keys().collect()
    }

    #[test]
    fn an_unlisted_key_belongs_to_the_identity() {
        let config = config();
        let mut resolved = config.resolved();
        let before = keys(&config, &resolved);
        for section in ["train", "data", "encoder", "optimizer", "schedule"] {
            let table = resolved.get_mut(section).and_then(Value::as_table_mut).expect("a section");
            table.insert("brand_new".to_owned(), Value::Boolean(true));
        }
        resolved.insert("brand_new".to_owned(), Value::Boolean(true));
        let added: Vec<String> = keys(&config, &resolved).difference(&before).cloned().collect();
        let expected =
            ["brand_new", "data.brand_new", "encoder.brand_new", "optimizer.brand_new", "schedule.brand_new"];
        assert_eq!(added, [&expected[..], &["train.brand_new"]].concat());
    }

    #[test]
    fn every_line_of_the_table_names_a_key() {
        let resolved = config().resolved();
        for (key, why) in EXCLUDED {
            let mut value = Some(&Value::Table(resolved.clone())).cloned();
            for part in key.split('.') {
                value = value.and_then(|table| table.get(part).cloned());
            }
            // An optional key is absent where it is not set.
            assert!(value.is_some() || *key == "data.workers", "`{key}` ({why}) is not a configuration key");
        }
    }

    #[test]
    fn unread_components_are_excluded_until_an_objective_reads_them() {
        let mut config = config();
        let found = keys(&config, &config.resolved());
        let has = |found: &BTreeSet<String>, start: &str| found.iter().any(|key| key.starts_with(start));
        assert!(has(&found, "views.masked.") && has(&found, "objectives.mlm."));
        assert!(!has(&found, "views.idle") && !has(&found, "objectives.tc") && !has(&found, "networks."));
        config.training.loss.insert("tc".to_owned(), 1.0);
        assert!(has(&keys(&config, &config.resolved()), "objectives.tc."));
    }

    #[test]
    fn keys_that_earlier_versions_lack_belong_if_they_have_an_effect() {
        let belongs = |keys_of_objective: &str| {
            let mut config = config();
            let objective = format!("scl = {{ kind = 'sequence_contrastive'{keys_of_objective} }}");
            config.training.objectives = toml::from_str(&objective).expect("an objective");
            config.training.loss = [("scl".to_owned(), 1.0)].into();
            keys(&config, &config.resolved()).contains("objectives.scl.negatives_from")
        };
        assert!(!belongs("") && !belongs(", negatives_from = 'micro_batch'"));
        assert!(belongs(", negatives_from = 'global_batch'"));
    }

    #[test]
    fn the_micro_batch_belongs_if_it_changes_a_number() {
        let belongs = |change: &dyn Fn(&mut Config)| {
            let mut config = config();
            config.training.encoder.dropout = 0.0;
            change(&mut config);
            keys(&config, &config.resolved()).contains("train.micro_batch_size")
        };
        assert!(!belongs(&|_| {}), "a sum over positions does not depend on the micro-batches");
        assert!(belongs(&|config| config.training.encoder.dropout = 0.1), "dropout is drawn for a micro-batch");
        assert!(belongs(&|config| config.training.train.normalize = Normalize::MicroBatch));
        assert!(belongs(&|config| _ = config.training.loss.insert("tc".to_owned(), 1.0)), "rows are negatives");
    }

    #[test]
    fn tf32_belongs_if_it_is_enabled() {
        let mut config = config();
        assert!(!keys(&config, &config.resolved()).contains("train.tf32"), "older runs lack the key");
        config.training.train.tf32 = true;
        assert!(keys(&config, &config.resolved()).contains("train.tf32"));
    }

    #[test]
    fn layer_decay_belongs_if_it_changes_a_rate() {
        let mut config = config();
        assert!(!keys(&config, &config.resolved()).contains("optimizer.layer_decay"), "older runs lack the key");
        config.training.optimizer.layer_decay = 0.8;
        assert!(keys(&config, &config.resolved()).contains("optimizer.layer_decay"));
    }

    #[test]
    fn steps_belong_if_the_rate_decays() {
        let mut config = config();
        assert!(keys(&config, &config.resolved()).contains("train.steps"));
        config.training.schedule.kind = ScheduleKind::Constant;
        assert!(!keys(&config, &config.resolved()).contains("train.steps"));
    }

    #[test]
    fn a_budget_belongs_if_it_is_written_and_a_decay_if_it_exists() {
        let mut config = config();
        let found = |config: &Config| {
            let keys = keys(config, &config.resolved());
            ["train.max_tokens", "train.max_hours", "schedule.decay_fraction", "schedule.decay_shape"]
                .map(|key| keys.contains(key))
        };
        assert_eq!(found(&config), [false; 4], "older runs lack the keys");
        (config.training.train.max_tokens, config.training.train.max_hours) = (Some(5), Some(1.5));
        config.training.schedule.kind = ScheduleKind::Wsd;
        assert_eq!(found(&config), [true; 4]);
    }
}
