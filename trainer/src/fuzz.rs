//! Weights and checkpoints that a disk, or somebody, has changed.

use std::collections::BTreeMap;
use std::path::Path;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use tch::Tensor;

use crate::device::tensors::{self, HostTensor, HostTensors};
use crate::plan::identity::Identity;
use crate::training::checkpoint::State;
use crate::training::guard::SavedGuard;
use crate::training::tally::SavedMean;

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
