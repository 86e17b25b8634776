//! All-reduce on CUDA devices. The simulated device has NCCL for ranks that are threads; a real one, for one rank.

use std::sync::{Arc, Barrier};

use super::*;
use crate::device::native::nccl::{NcclGroup, NcclId};

const CUDA: Device = Device::Cuda(0);

fn is_simulated() -> bool {
    pretend_cuda::Device::find() == Ok(pretend_cuda::Device::Pretend)
}

#[test]
fn devices_keep_the_contract() {
    if !pretend_cuda::is_here(module_path!(), "devices_keep_the_contract") {
        return;
    }
    for world_size in 1..=if is_simulated() { 3 } else { 1 } {
        on_ranks(world_size, NO_LIMIT, |rank, group| {
            assert_keeps_contract(rank, group, CUDA);
        });
    }
}

#[test]
fn a_sum_is_ordered_before_later_work_only_by_its_wait() {
    if !pretend_cuda::is_here(module_path!(), "a_sum_is_ordered_before_later_work_only_by_its_wait") || !is_simulated()
    {
        return;
    }
    on_ranks(1, NO_LIMIT, |_, group| {
        let tensor = Tensor::ones([1000], (Kind::Float, CUDA));
        let pending = group.all_reduce("gradients", &tensor).expect("started");
        let error = tensor.f_add(&tensor).expect_err("the sum may be under way").to_string();
        assert!(error.contains("no event or wait orders the two"), "{error}");
        pending.wait().expect("summed");
        let mean = f64::try_from((&tensor + &tensor).mean(Kind::Float)).expect("a number");
        assert!((mean - 2.0).abs() < 1e-6, "{mean}");
        group.finish().expect("the end");
    });
}

#[test]
fn a_rank_that_does_not_come_to_a_sum_of_devices_is_named() {
    if !pretend_cuda::is_here(module_path!(), "a_rank_that_does_not_come_to_a_sum_of_devices_is_named")
        || !is_simulated()
    {
        return;
    }
    let others_have_ended = Arc::new(Barrier::new(2));
    let errors = on_ranks(2, Some(Duration::from_secs(8)), move |rank, group| {
        let tensor = Tensor::ones([1000], (Kind::Float, CUDA));
        group.all_reduce("gradients", &tensor).and_then(PendingReduction::wait).expect("both come");
        if rank == 1 {
            others_have_ended.wait();
        }
        let sum = group.all_reduce("gradients", &tensor).and_then(PendingReduction::wait);
        // The device of rank 0 ends without an error, and its sum is not whole.
        assert!(sum.is_ok() || rank == 1);
        let error = sum.and_then(|()| group.barrier("the end")).expect_err("rank 1 did not come").to_string();
        if rank == 0 {
            others_have_ended.wait();
        }
        error
    });
    for error in errors {
        let expected = "rank 1 did not come to operation 4, the all-reduce of gradients: rank 1 has computed for ";
        assert!(error.starts_with(expected) && error.ends_with("the device did not end it within 4 s"), "{error}");
    }
}

/// An abort frees what a call uses: the simulated device ends the process then.
#[test]
fn an_abort_waits_for_a_call_on_another_thread() {
    if !pretend_cuda::is_here(module_path!(), "an_abort_waits_for_a_call_on_another_thread") || !is_simulated() {
        return;
    }
    let id = NcclId::new().expect("made");
    let group = Arc::new(NcclGroup::connect(&id, 0, 1, CUDA).expect("one rank"));
    let tensor = Tensor::ones([10], (Kind::Float, CUDA));
    let begins = Arc::new(Barrier::new(2));
    let abort = {
        let (group, begins) = (Arc::clone(&group), Arc::clone(&begins));
        move || {
            begins.wait();
            std::thread::sleep(Duration::from_millis(100));
            group.check().and_then(|()| group.abort())
        }
    };
    let monitor = runtime::spawn("monitor", abort).expect("a thread");
    pretend_cuda::slow_nccl_calls(500);
    begins.wait();
    // It fails if the machine is so slow that the abort comes first.
    drop(group.all_reduce(&tensor));
    pretend_cuda::slow_nccl_calls(0);
    monitor.join().expect("no panic").expect("aborted");
    let error = text(group.all_reduce(&tensor));
    assert!(error.contains("the communicator was aborted"), "{error}");
}

fn text<T: fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("it is aborted").to_string()
}

#[test]
fn a_shortage_of_memory_while_devices_connect_is_explained() {
    let unhandled = Error::Native("NCCL: ncclCommInitRank: unhandled cuda error".to_owned());
    let explained = super::super::c10d::explained(&unhandled).to_string();
    assert!(explained.contains("too little free memory of a device: `nvidia-smi`"), "{explained}");
    let network = Error::Native("NCCL: ncclCommInitRank: unhandled system error".to_owned());
    assert_eq!(super::super::c10d::explained(&network).to_string(), "NCCL: ncclCommInitRank: unhandled system error");
}
