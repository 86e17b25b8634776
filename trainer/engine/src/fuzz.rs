//! Fuzz target of the safetensors reader: corrupted and edited weight files.

use std::path::Path;

use tch::Tensor;

use crate::device::tensors::{self, HostTensor, HostTensors};

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
