//! What makes a run this run: every key of its configuration that is not left out by name.
//!
//! The rule fails safe. A key that somebody adds and forgets here belongs to the identity: at worst a run is refused that
//! could have gone on, never is one continued with other numbers.

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

macro_rules! left_out {
    ($($key:literal: $why:literal,)+) => {
        /// Keys that change no number, whatever they say. A name stands for all keys below it.
        ///
        /// | key | why it is left out |
        /// |---|---|
        $(#[doc = concat!("| `", $key, "` | ", $why, " |")])+
        ///
        /// Known by what they come to, in [`of_source`], are `sources.NAME`. Under conditions, in [`unused`], so are
        /// `views.NAME`, `objectives.NAME`, `networks.NAME`, `train.steps`, `data.order`, `train.micro_batch_size`,
        /// `train.tf32`, `schedule.decay_fraction` and `schedule.decay_shape`. `train.max_tokens` and `train.max_hours` belong to it
        /// where they are written.
        const LEFT_OUT: &[(&str, &str)] = &[$(($key, $why)),+];
    };
}

left_out! {
    "expects": "what to warn of",
    "tokenizer": "what it makes is known by its content, `data.content`",
    "prepare": "what it makes is known by its content, `data.content`",
    "data.folder": "a folder is known by its content, `data.content`",
    "data.workers": "who makes a batch, not what is in it",
    "data.prefetch_batches": "when a batch is made, not what is in it",
    "data.max_memory_bytes": "how many batches are made ahead, not what is in them",
    "data.max_bad_rows": "when to give up; the rows themselves are written down with the run",
    "train.device": "equal up to rounding; a move is announced",
    "train.threads": "equal up to rounding; a change is announced",
    "train.deterministic": "equal up to rounding",
    "train.activation_checkpointing": "the same bits, in less memory",
    "train.max_skipped_steps": "when to give up, not what is learned",
    "validation": "when a run is looked at; nothing is learned from it",
    "checkpoints": "when a run is kept, and for how long",
    "report": "when a run is told of",
    "spike_guard": "what it skips is written down with the run, whatever it says later",
    "run": "where a run is kept",
    "serve": "where a run is seen",
    "alerts": "whom it tells what happens",
}

/// All that changes a run's numbers; what it starts from as it is written there.
pub(super) fn identity(config: &Config, data: &PreparedData, load: Option<&LoadPlan>) -> Identity {
    let facts = load.map(LoadPlan::facts);
    let rendered: Vec<&str> = facts.iter().flat_map(|facts| &facts.views).map(|view| view.name.as_str()).collect();
    let always = LEFT_OUT.iter().map(|(key, _)| (*key).to_owned());
    let mut keys = keys_but(&config.resolved(), &always.chain(unused(config, &rendered)).collect::<Vec<_>>());
    // As they work out, whether they are written or not.
    keys.insert("data.seq_len".into(), config.data.seq_len.unwrap_or(data.manifest.max_seq_len).to_string());
    if config.sources.is_empty() {
        keys.insert("data.content".into(), data.content());
    }
    // The windows of a streamed run are not raised to hold its batches.
    if let Some(facts) = facts.filter(|facts| facts.streamed.is_none()) {
        keys.insert("data.shuffle_window_groups".into(), facts.window_blocks.to_string());
        if !facts.sources.is_empty() {
            // Each source has windows of its own.
            keys.remove("data.shuffle_window_groups");
        }
        keys.extend(facts.sources.iter().flat_map(|source| of_source(source, data)));
    }
    Identity::new(keys)
}

/// What is known of a source by what it holds, and by what its weight comes to next to the others.
fn of_source(source: &SourceFacts, data: &PreparedData) -> [(String, String); 3] {
    let key = |key: &str| format!("sources.{}.{key}", source.name);
    let shares = source.shares.iter().map(|(row, share)| format!("from row {row}: {share} of {PERIOD}"));
    [
        (key("content"), data.of_source(Some(&source.name)).content_alone().to_owned()),
        (key("weight"), shares.collect::<Vec<_>>().join(", ")),
        (key("shuffle_window_groups"), source.window_blocks.to_string()),
    ]
}

/// Keys that say nothing in this run, though they would in another.
fn unused(config: &Config, rendered: &[&str]) -> Vec<String> {
    let training = &config.training;
    let active = || training.objectives.iter().filter(|(name, _)| training.loss.contains_key(*name));
    let networks = used_networks(&training.networks, active().map(|(_, objective)| objective));
    // Components that nobody reads are not built.
    let views = config.views.keys().filter(|name| !rendered.contains(&name.as_str()));
    let objectives = training.objectives.keys().filter(|name| !training.loss.contains_key(*name));
    let others = training.networks.keys().filter(|name| !networks.contains_key(*name));
    let mut unused: Vec<String> = views.map(|name| format!("views.{name}")).collect();
    // Known as they work out.
    unused.extend(config.sources.keys().map(|name| format!("sources.{name}")));
    unused.extend(objectives.map(|name| format!("objectives.{name}")));
    unused.extend(others.map(|name| format!("networks.{name}")));
    // At a constant rate a longer run begins as a shorter one does.
    if training.schedule.kind == ScheduleKind::Constant {
        unused.push("train.steps".to_owned());
    }
    // A run that began before there were such keys continues.
    if config.data.order == RowOrder::Shuffled {
        unused.push("data.order".to_owned());
    }
    if !training.train.tf32 {
        unused.push("train.tf32".to_owned());
    }
    if training.schedule.kind != ScheduleKind::Wsd {
        unused.extend(["schedule.decay_fraction", "schedule.decay_shape"].map(str::to_owned));
    }
    let coupled = active().any(|(_, objective)| objective.batch_coupled());
    let draws = networks.values().filter_map(|network| network.makes()).any(|made| !made.reads_draws);
    if !(coupled || draws || training.train.normalize == Normalize::MicroBatch || drops_out(training)) {
        unused.push("train.micro_batch_size".to_owned());
    }
    unused
}

/// Whether dropout is drawn, which is drawn micro-batch by micro-batch.
fn drops_out(training: &Training) -> bool {
    let main = &training.encoder;
    let others = training.networks.values().filter_map(|network| network.shape(main));
    main.dropout > 0.0 || others.into_iter().any(|shape| shape.dropout > 0.0)
}

/// The keys of a configuration with their values but for those of `left_out` and what is below them.
pub(crate) fn keys_but(resolved: &Table, left_out: &[String]) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    resolved.iter().for_each(|(key, value)| flatten(key, value, &mut keys));
    let is_below = |key: &str, above: &str| key.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    keys.retain(|key, _| !left_out.iter().any(|above| key == above || is_below(key, above)));
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
        let always = LEFT_OUT.iter().map(|(key, _)| (*key).to_owned());
        keys_but(resolved, &always.chain(unused(config, &["masked"])).collect::<Vec<_>>()).into_keys().collect()
    }

    #[test]
    fn a_key_that_nobody_thought_of_belongs_to_the_identity() {
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
        for (key, why) in LEFT_OUT {
            let mut value = Some(&Value::Table(resolved.clone())).cloned();
            for part in key.split('.') {
                value = value.and_then(|table| table.get(part).cloned());
            }
            // An optional key is absent where it is not set.
            assert!(value.is_some() || *key == "data.workers", "`{key}` ({why}) is no key of a configuration");
        }
    }

    #[test]
    fn what_nobody_reads_is_left_out_and_comes_back_with_its_reader() {
        let mut config = config();
        let found = keys(&config, &config.resolved());
        let has = |found: &BTreeSet<String>, start: &str| found.iter().any(|key| key.starts_with(start));
        assert!(has(&found, "views.masked.") && has(&found, "objectives.mlm."));
        assert!(!has(&found, "views.idle") && !has(&found, "objectives.tc") && !has(&found, "networks."));
        config.training.loss.insert("tc".to_owned(), 1.0);
        assert!(has(&keys(&config, &config.resolved()), "objectives.tc."));
    }

    #[test]
    fn the_micro_batch_belongs_where_it_changes_a_number() {
        let belongs = |change: &dyn Fn(&mut Config)| {
            let mut config = config();
            config.training.encoder.dropout = 0.0;
            change(&mut config);
            keys(&config, &config.resolved()).contains("train.micro_batch_size")
        };
        assert!(!belongs(&|_| {}), "a sum over positions does not see how it was cut");
        assert!(belongs(&|config| config.training.encoder.dropout = 0.1), "dropout is drawn for a micro-batch");
        assert!(belongs(&|config| config.training.train.normalize = Normalize::MicroBatch));
        assert!(belongs(&|config| _ = config.training.loss.insert("tc".to_owned(), 1.0)), "rows are negatives");
    }

    #[test]
    fn rounded_products_belong_where_they_are_asked_for() {
        let mut config = config();
        assert!(!keys(&config, &config.resolved()).contains("train.tf32"), "runs of before have no such key");
        config.training.train.tf32 = true;
        assert!(keys(&config, &config.resolved()).contains("train.tf32"));
    }

    #[test]
    fn steps_belong_where_the_rate_falls() {
        let mut config = config();
        assert!(keys(&config, &config.resolved()).contains("train.steps"));
        config.training.schedule.kind = ScheduleKind::Constant;
        assert!(!keys(&config, &config.resolved()).contains("train.steps"));
    }

    #[test]
    fn a_budget_belongs_where_it_is_written_and_a_decay_where_there_is_one() {
        let mut config = config();
        let found = |config: &Config| {
            let keys = keys(config, &config.resolved());
            ["train.max_tokens", "train.max_hours", "schedule.decay_fraction", "schedule.decay_shape"]
                .map(|key| keys.contains(key))
        };
        assert_eq!(found(&config), [false; 4], "runs of before have no such keys");
        (config.training.train.max_tokens, config.training.train.max_hours) = (Some(5), Some(1.5));
        config.training.schedule.kind = ScheduleKind::Wsd;
        assert_eq!(found(&config), [true; 4]);
    }
}
