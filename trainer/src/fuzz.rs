//! Weights and checkpoints that a disk, or somebody, has changed.

use std::collections::BTreeMap;
use std::path::Path;

use schemas::ordinal::Step;
use tch::Tensor;

use crate::checkpoint::{State, VERSION};
use crate::identity::Identity;
use crate::tensors::{self, HostTensor, HostTensors};

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
        version: VERSION,
        step: Step(40),
        rows_consumed: 320,
        validation_pending: false,
        batch_hash: "ab".to_owned(),
        data_content: "cd".to_owned(),
        threads: 2,
        device: "cpu".to_owned(),
        report_counts: [("term/mlm".to_owned(), 3.5)].into(),
        identity: Identity::new([("seed".to_owned(), "1".to_owned())].into()),
        files: BTreeMap::from([("main.safetensors".to_owned(), "ef".to_owned())]),
    }
    .to_json()
}

#[test]
fn a_checkpoint_state_is_read_as_written_or_refused() {
    fuzz::target!("state", vec![state()], |bytes: &[u8]| {
        if let Ok(state) = State::from_json(bytes) {
            assert_eq!(state.to_json(), bytes);
        }
        // Its checksum turns nearly everything away: what lies behind it is tried without.
        let content =
            serde_json::from_slice::<serde_json::Value>(bytes).ok().and_then(|file| file.get("state").cloned());
        if let Some(state) = content.and_then(|content| serde_json::from_value::<State>(content).ok()) {
            let sealed = state.to_json();
            match State::from_json(&sealed) {
                Ok(read) => assert_eq!(read, state),
                Err(error) => assert_ne!(state.version, VERSION, "{error}"),
            }
        }
    });
}
