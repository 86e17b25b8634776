//! Weights and checkpoints that a disk, or somebody, has changed.

use std::collections::BTreeMap;
use std::path::Path;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::{Store, Weather};
use tch::Tensor;

use crate::device::tensors::{self, HostTensor, HostTensors};
use crate::optimizer::schedule::{Course, ScheduleConfig, Span};
use crate::plan::identity::Identity;
use crate::training::beside::Beside;
use crate::training::checkpoint::{State, Validated};
use crate::training::guard::SavedGuard;
use crate::training::hours::{self, Hours};
use crate::training::tally::SavedMean;
use crate::training::{Undone, extended};

fn weights() -> Vec<u8> {
    let matrix = Tensor::from_slice(&[1_f32, -0.0, f32::INFINITY, 4.0, 5.0, 6.0]).view([3, 2]);
    let count = Tensor::from_slice(&[7_i64]);
    let tensors: HostTensors = [("encoder.w", &matrix), ("updates", &count)]
        .map(|(name, tensor)| (name.to_owned(), HostTensor::copy_of(tensor).expect("a known type")))
        .into();
    let mut bytes = Vec::new();
    tensors::write(&tensors, &mut bytes).expect("in memory");
    bytes
}

#[test]
fn weights_are_read_as_written_or_refused() {
    fuzz::target!("safetensors", vec![weights()], |bytes: &[u8]| {
        let Ok(read) = tensors::parse(Path::new("x"), bytes) else { return };
        for tensor in read.values() {
            if let Ok(made) = tensor.to_tensor() {
                let shape: Vec<i64> = tensor.shape().iter().map(|&size| i64::try_from(size).expect("small")).collect();
                assert_eq!(made.size(), shape);
            }
        }
        let mut written = Vec::new();
        if tensors::write(&read, &mut written).is_ok() {
            assert_eq!(tensors::parse(Path::new("x"), &written).expect("as written"), read);
        }
    });
}

fn state() -> Vec<u8> {
    State {
        step: Step(40),
        rows_consumed: 320,
        tokens_consumed: 3000,
        validation_pending: false,
        batch_hash: "ab".to_owned(),
        data_content: "cd".to_owned(),
        program: "cloze 1".to_owned(),
        libtorch: "2".to_owned(),
        threads: 2,
        device: "cpu".to_owned(),
        report: vec![SavedMean::Norm { count: 3.5 }],
        skips: vec![Step(3)],
        guard: SavedGuard::default(),
        identity: Identity::new([("seed".to_owned(), "1".to_owned())].into()),
        files: BTreeMap::from([("main.safetensors".to_owned(), "ef".to_owned())]),
        changes: Vec::new(),
        trained_s: Some(1.5),
        beside: Beside { readings: 2, spans: 1 },
    }
    .seal()
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

/// A folder in memory with one object, as somebody may have left it.
fn folder(name: &str, bytes: &[u8]) -> Store {
    let run = Store::memory(Weather::calm());
    run.put(name, bytes).expect("memory takes all");
    run
}

#[test]
fn readings_of_a_clock_go_forward_or_are_refused() {
    fuzz::target!("hours", vec![hours::tests::seed()], |bytes: &[u8]| {
        if let Ok(hours) = Hours::open(&folder("hours.json", bytes), 1.0, 0.0, 0.0) {
            let shares = [0, 3, 5, u64::MAX].map(|step| hours.share(Step(step)));
            assert!(shares[0] >= 0.0 && shares.is_sorted(), "{shares:?}");
        }
    });
}

#[test]
fn an_extension_is_one_or_is_refused() {
    let run = Store::memory(Weather::calm());
    extended::extend(&run, 40, Span { from: Step(30), steps: 60 }).expect("memory takes all");
    let seed = run.read("extended.json").expect("just put");
    fuzz::target!("extended", vec![seed], |bytes: &[u8]| {
        if let Ok(spans) = extended::spans(&folder("extended.json", bytes)) {
            let course = Course::new(&ScheduleConfig::default(), 9, &spans);
            for step in [0, 29, 30, 61, u64::MAX] {
                assert!((0.0..=1.0).contains(&course.rate(Step(step))));
            }
        }
    });
}

#[test]
fn a_rollback_is_read_as_written_or_refused() {
    let why = Some("a".to_owned());
    let undone = Undone { number: 0, from: Step(6), to: Step(2), rows_from: 48, rows_to: 16, time: 7, why };
    fuzz::target!("undone", vec![undone.seal()], |bytes: &[u8]| {
        if let Ok(all) = Undone::all(&folder("undone/000/undone.json", bytes)) {
            assert_eq!(all[0].seal(), bytes);
        }
        if let Some(undone) = fuzz::unsealed::<Undone>(bytes) {
            let run = Store::memory(Weather::calm());
            undone.write(&run).expect("memory takes all");
            assert_eq!(Undone::all(&run).expect("as written"), [undone]);
        }
    });
}

#[test]
fn figures_are_read_as_written_or_refused() {
    let validated = Validated { step: Step(6), figures: [("loss".to_owned(), 0.5)].into() };
    fuzz::target!("figures", vec![validated.seal()], |bytes: &[u8]| {
        if let Ok(found) = Validated::unseal(bytes) {
            assert_eq!(found.seal(), bytes);
        }
    });
}
