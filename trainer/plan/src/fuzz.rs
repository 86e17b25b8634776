//! Fuzz tests of readers: files of a run and of models of other libraries, after changes by a disk or a user.

use std::collections::BTreeMap;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::{FaultConfig, Store};

use crate::checkpoint::SidecarState;
use crate::checkpoint::{State, Validated};
use crate::hf::ModelConfig;
use crate::run::rollback_archive::RollbackArchive;
use crate::run::step_budget;
use crate::run::time_budget::{self, TimeBudget};
use crate::schedule::{LrSchedule, ScheduleConfig, Span};
use crate::testing;

fn state() -> Vec<u8> {
    let files = BTreeMap::from([("main.safetensors".to_owned(), "ef".to_owned())]);
    let sidecars = SidecarState { readings: 2, spans: 1 };
    State { files, skips: vec![Step(3)], trained_s: Some(1.5), sidecars, ..testing::state(40) }.seal()
}

#[test]
fn a_checkpoint_state_is_read_as_written_or_refused() {
    fuzz::target!("state", vec![state()], |bytes: &[u8]| {
        if let Ok(state) = State::unseal(bytes) {
            assert_eq!(state.seal(), bytes);
        }
        if let Some(state) = fuzz::unsealed::<State>(bytes) {
            assert_eq!(State::unseal(&state.seal()).expect("as written"), state);
        }
    });
}

/// Creates a folder in memory with one object.
fn folder(name: &str, bytes: &[u8]) -> Store {
    let run = Store::in_memory(FaultConfig::none());
    run.put(name, bytes).expect("written");
    run
}

#[test]
fn clock_readings_are_in_order_or_refused() {
    fuzz::target!("hours", vec![time_budget::tests::seed()], |bytes: &[u8]| {
        if let Ok(hours) = TimeBudget::open(&folder("time_budget.json", bytes), 1.0, 0.0, 0.0) {
            let shares = [0, 3, 5, u64::MAX].map(|step| hours.share(Step(step)));
            assert!(shares[0] >= 0.0 && shares.is_sorted(), "{shares:?}");
        }
    });
}

#[test]
fn an_extension_is_valid_or_refused() {
    let run = Store::in_memory(FaultConfig::none());
    step_budget::extend(&run, 40, Span { from: Step(30), steps: 60 }).expect("written");
    let seed = run.get("step_budget.json").expect("just put");
    fuzz::target!("extended", vec![seed], |bytes: &[u8]| {
        if let Ok(spans) = step_budget::spans(&folder("step_budget.json", bytes)) {
            let schedule = LrSchedule::new(&ScheduleConfig::default(), 9, &spans);
            for step in [0, 29, 30, 61, u64::MAX] {
                assert!((0.0..=1.0).contains(&schedule.rate(Step(step))));
            }
        }
    });
}

#[test]
fn a_rollback_is_read_as_written_or_refused() {
    let why = Some("a".to_owned());
    let archive = RollbackArchive { number: 0, from: Step(6), to: Step(2), rows_from: 48, rows_to: 16, time: 7, why };
    fuzz::target!("undone", vec![archive.seal()], |bytes: &[u8]| {
        if let Ok(all) = RollbackArchive::all(&folder("rolled_back/000/rolled_back.json", bytes)) {
            assert_eq!(all[0].seal(), bytes);
        }
        if let Some(archive) = fuzz::unsealed::<RollbackArchive>(bytes) {
            let run = Store::in_memory(FaultConfig::none());
            archive.write(&run).expect("written");
            assert_eq!(RollbackArchive::all(&run).expect("as written"), [archive]);
        }
    });
}

#[test]
fn validation_scores_are_read_as_written_or_refused() {
    let validated = Validated { step: Step(6), figures: [("loss".to_owned(), 0.5)].into() };
    fuzz::target!("figures", vec![validated.seal()], |bytes: &[u8]| {
        if let Ok(found) = Validated::unseal(bytes) {
            assert_eq!(found.seal(), bytes);
        }
    });
}

const BERT: &str = r#"{"architectures":["BertForMaskedLM"],"model_type":"bert","vocab_size":30522,"hidden_size":128,
    "num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":512,"max_position_embeddings":512,
    "type_vocab_size":2,"layer_norm_eps":1e-12,"pad_token_id":0}"#;

#[test]
fn a_model_config_is_read_or_refused() {
    let seeds = ["bert", "roberta", "electra", "mpnet", "cloze"]
        .map(|kind| BERT.replace("\"bert\"", &format!("\"{kind}\"")).into_bytes());
    fuzz::target!("model-config", seeds.to_vec(), |bytes: &[u8]| {
        let Ok(config) = ModelConfig::parse(bytes) else { return };
        let _ = (config.first_position(), config.token_types(), config.class());
        let written = config.to_json();
        let again = ModelConfig::parse(&written).unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(again.to_json(), written);
    });
}
