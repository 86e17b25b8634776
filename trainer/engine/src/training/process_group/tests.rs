mod device;
mod failures;
mod processes;

use std::time::Duration;

use tch::{Device, Kind, Tensor};
use trainer_plan::launch::Launch;

use super::c10d::C10dGroup;
use super::test_ranks::{LOOPBACK, NO_LIMIT, launch, on_ranks, serve};
use super::*;

#[test]
fn one_process_keeps_the_contract() {
    assert_keeps_contract(0, &SingleProcess, Device::Cpu);
}

#[test]
fn ranks_over_c10d_keep_the_contract() {
    // The last number has three axes.
    for world_size in [1, 2, 3, 12] {
        on_ranks(world_size, NO_LIMIT, |rank, group| assert_keeps_contract(rank, group, Device::Cpu));
    }
}

/// Contract of a process group with tensors on `device`. Every rank runs it.
fn assert_keeps_contract(rank: u64, group: &dyn ProcessGroup, device: Device) {
    let share = group.share();
    let ranks = u64::from(share.ranks());
    assert_eq!(share.in_stream(0), rank);
    exchanges_keep_the_order_of_ranks(rank, ranks, group);
    rows_are_in_the_order_of_the_stream(group);
    first_stop_request_counts(rank, ranks, group);
    rank_zero_decides(rank, group);
    tensors_are_summed(rank, ranks, group, device);
    group.finish().expect("all ranks come to the end");
}

fn exchanges_keep_the_order_of_ranks(rank: u64, ranks: u64, group: &dyn ProcessGroup) {
    // Longer than a frame from rank 2 on, and the longest in the middle.
    let contents = |rank: u64| {
        vec![u8::try_from(rank).expect("few ranks"); [10, 5000, 700][usize::try_from(rank % 3).expect("small")]]
    };
    let expected: Vec<Vec<u8>> = (0..ranks).map(contents).collect();
    assert_eq!(group.gather("contents", &contents(rank)).expect("gathered"), expected);
    assert_eq!(group.gather("nothing", &[]).expect("gathered"), vec![Vec::<u8>::new(); expected.len()]);
    for length in [0, 1, 960, 961, 100_000] {
        let first = vec![7; length];
        let own = if rank == 0 { first.clone() } else { vec![1; 2000] };
        assert_eq!(group.broadcast("contents", &own).expect("sent"), first, "{length} bytes");
    }
    let count = |rank: u64, nth: u32| 0.1 * (rank + 1) as f64 + f64::from(nth);
    let mut counts: Vec<f64> = (0..1000).map(|nth| count(rank, nth)).collect();
    group.sum(&mut counts).expect("summed");
    for (nth, sum) in (0..).zip(&counts) {
        let expected = (0..ranks).fold(-0.0, |sum, rank| sum + count(rank, nth));
        assert_eq!(sum.to_bits(), expected.to_bits(), "the sum in the order of the ranks");
    }
    group.sum(&mut []).expect("nothing to sum");
    group.barrier("the barrier").expect("all ranks come");
}

/// Two digests for each micro-batch. The last ranks have one micro-batch less.
fn rows_are_in_the_order_of_the_stream(group: &dyn ProcessGroup) {
    let digest = |micro_batch: u64, row: u64| blake3::hash(&[micro_batch.to_le_bytes(), row.to_le_bytes()].concat());
    let digests = |micro_batch: u64| vec![digest(micro_batch, 0), digest(micro_batch, 1)];
    let all = 40;
    let share = group.share();
    let own: Vec<Vec<blake3::Hash>> = (0..share.of(all)).map(|own| digests(share.in_stream(own))).collect();
    let own: Vec<&[blake3::Hash]> = own.iter().map(Vec::as_slice).collect();
    let expected: Vec<blake3::Hash> = (0..all).flat_map(digests).collect();
    assert_eq!(group.rows(&own).expect("gathered"), expected);
}

fn first_stop_request_counts(rank: u64, ranks: u64, group: &dyn ProcessGroup) {
    let stop = |is_asked: bool, stop: StopRequest| group.stop(is_asked.then_some(stop)).expect("exchanged");
    assert_eq!(stop(false, StopRequest::Hangup), None);
    assert_eq!(stop(rank + 1 == ranks, StopRequest::Terminate), Some(StopRequest::Terminate));
    let each = if rank == 0 { StopRequest::Requeue } else { StopRequest::Interrupt };
    assert_eq!(stop(true, each), Some(StopRequest::Requeue));
}

fn rank_zero_decides(rank: u64, group: &dyn ProcessGroup) {
    let decided = group.decide("the decision", || {
        assert_eq!(rank, 0, "only rank 0 decides");
        Ok(vec![Some(1.5), None])
    });
    assert_eq!(decided.expect("decided"), [Some(1.5), None]);
    let refused: Result<u8, Error> = group.decide("the decision", || Err(Error::Config("no file".to_owned())));
    let error = refused.expect_err("rank 0 cannot decide").to_string();
    assert_eq!(error, if rank == 0 { "no file" } else { "the decision of rank 0: no file" });
}

#[expect(clippy::disallowed_methods, reason = "reads results")]
fn tensors_are_summed(rank: u64, ranks: u64, group: &dyn ProcessGroup, device: Device) {
    let own = i64::try_from(rank).expect("few ranks") + 1;
    let kinds = [Kind::Float, Kind::BFloat16, Kind::Double, Kind::Int64];
    let tensors = kinds.map(|kind| Tensor::full([3, 1000], own, (kind, device)));
    let pending = tensors.each_ref().map(|tensor| group.all_reduce("gradients", tensor).expect("started"));
    for pending in pending {
        pending.wait().expect("summed");
    }
    let sum = (1..=ranks).sum::<u64>() as f64;
    for tensor in &tensors {
        let [least, most] = [tensor.min(), tensor.max()].map(|it| it.double_value(&[]));
        assert_eq!((least, most), (sum, sum), "{:?}", tensor.kind());
    }
    sums_have_equal_bits(rank, group, device);
    let empty = Tensor::zeros([0], (Kind::Float, device));
    group.all_reduce("nothing", &empty).expect("started").wait().expect("nothing to sum");
}

/// Values whose sums are rounded, and whose order matters.
fn sums_have_equal_bits(rank: u64, group: &dyn ProcessGroup, device: Device) {
    for kind in [Kind::Float, Kind::BFloat16] {
        let values: Vec<f32> = (0..5000_u64).map(|at| ((at * 7919 + rank * 104_729) % 10_007) as f32 / 3.0).collect();
        let sum = Tensor::from_slice(&values).to_kind(kind);
        let sum = if device == Device::Cpu { sum } else { crate::device::tensors::upload_once(&sum, device) };
        group.all_reduce("gradients", &sum).expect("started").wait().expect("summed");
        let bits: Vec<f32> = Vec::try_from(&sum.to_kind(Kind::Float)).expect("float32");
        let own: Vec<u8> = bits.iter().flat_map(|value| value.to_le_bytes()).collect();
        let all = group.gather("sums", &own).expect("gathered");
        let differ = |other: &Vec<u8>| own.chunks(4).zip(other.chunks(4)).filter(|(one, other)| one != other).count();
        assert_eq!(all.iter().map(differ).sum::<usize>(), 0, "{kind:?}: numbers that differ between ranks");
    }
}
