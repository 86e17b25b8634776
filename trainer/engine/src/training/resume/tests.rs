use store::FaultConfig;
use trainer_plan::config::CheckpointConfig;

use super::*;
use crate::device::precision::MASTER;
use crate::testing;
use crate::training::checkpoint::CheckpointPolicy;

#[test]
fn a_changed_environment_gives_warnings() {
    let _alone = testing::generator();
    let mut trainer = testing::trainer(&testing::request());
    let mut snapshot = trainer.snapshot(here(), HostTensors::new()).expect("copied");
    assert_eq!(trainer.restore("x", &snapshot).expect("its own"), (vec![], vec![]));
    let state = &mut snapshot.state;
    assert!(state.program.starts_with("cloze ") && state.libtorch.starts_with("2."), "{state:?}");
    (state.program, state.libtorch, state.threads) = ("cloze 0".to_owned(), "1.0".to_owned(), 64);
    let topics = |warnings: &[Warning]| warnings.iter().map(|warning| warning.topic.clone()).collect::<Vec<_>>();
    let (warnings, _) = trainer.restore("x", &snapshot).expect("the same run");
    assert_eq!(topics(&warnings), ["program", "libtorch", "threads"]);
    assert!(warnings.iter().all(|warning| warning.message.contains("in the last bits")), "{warnings:?}");
    // On another device more than the last bits differ, and its number of threads is not compared.
    snapshot.state.device = "Cuda(0)".to_owned();
    let (warnings, _) = trainer.restore("x", &snapshot).expect("the same run");
    assert_eq!(topics(&warnings), ["program", "libtorch", "device"]);
    assert!(warnings[2].message.contains("draws other dropout"), "{warnings:?}");
    assert_eq!(warnings[2].hint.as_deref(), Some("`Cuda(0)` then, `Cpu` now"));
}

fn here() -> Position {
    Position {
        rows_consumed: 0,
        tokens_consumed: 0,
        validation_pending: false,
        batch_hash: String::new(),
        skips: Vec::new(),
        trained_s: None,
        readings: 0,
        early_stop: None,
        validated: None,
    }
}

/// State of a trainer, copied tensor by tensor while no step runs.
fn held(trainer: &Trainer) -> (HostTensors, HostTensors) {
    let (accumulators, _) = trainer.tally.save();
    let skips = [("skipped.count", &trainer.skips.count), ("skipped.first", &trainer.skips.first)];
    let skips = skips.map(|(name, tensor)| (name.to_owned(), tensor));
    let (ring, _) = trainer.guard.save();
    let all = accumulators.into_iter().chain(ring).chain(trainer.optimizer.state()).chain(skips);
    let copy = |(name, tensor): (String, &Tensor)| (name, HostTensor::copy_of(tensor).expect("a known type"));
    (trainer.weights().expect("copied"), all.map(copy).collect())
}

fn on_cuda() -> Trainer {
    let mut request = testing::request();
    request.train.device = trainer_plan::device::DeviceChoice::Cuda(0);
    testing::trainer(&request)
}

fn step(trainer: &mut Trainer, number: u64) {
    trainer.step(&[testing::batch(2 * number), testing::batch(2 * number + 1)]).expect("good batches");
}

/// Waits are counted between reports: a wait lasts until the device has finished its queue.
#[test]
fn a_checkpoint_is_of_its_step_and_no_step_waits_for_it() {
    if !pretend_cuda::is_here(module_path!(), "a_checkpoint_is_of_its_step_and_no_step_waits_for_it") {
        return;
    }
    let mut trainer = on_cuda();
    step(&mut trainer, 0);
    for number in 1..4 {
        let (main, optimizer) = held(&trainer);
        pretend_cuda::Counts::start();
        let snapshot = trainer.snapshot(here(), HostTensors::new()).expect("begun");
        step(&mut trainer, number);
        step(&mut trainer, number + 4);
        let counts = pretend_cuda::Counts::read();
        let stored = std::thread::scope(|scope| {
            let writer = std::thread::Builder::new().name("writer".to_owned());
            let write = || {
                let store = Store::in_memory(FaultConfig::none());
                let place =
                    snapshot.write(&store, &CheckpointPolicy::new(CheckpointConfig::default())).expect("written");
                (place, checkpoint::pick(&store, None).expect("it was just written").1)
            };
            writer.spawn_scoped(scope, write).expect("a thread").join().expect("no panic").1
        });
        assert_eq!((stored.main == main, stored.optimizer == optimizer), (true, true), "weights, and the rest");
        let Some((counts, after)) = counts.zip(pretend_cuda::Counts::read()) else {
            testkit::skip("waits of a checkpoint on CUDA: this device does not count");
            continue;
        };
        assert_eq!(counts.downloads, (main.len() + optimizer.len()) as u64, "one copy of each tensor: {counts:?}");
        assert_eq!((counts.waits, after.waits), (0, 1), "only the reader waits, and once: {counts:?}, {after:?}");
    }
}

/// The writer thread may end before it has written, and before the device has copied.
#[test]
fn an_unwritten_checkpoint_frees_its_memory() {
    if !pretend_cuda::is_here(module_path!(), "an_unwritten_checkpoint_frees_its_memory") {
        return;
    }
    let mut trainer = on_cuda();
    step(&mut trainer, 0);
    let pinned_bytes = || {
        native::synchronize(Device::Cuda(0)).expect("it is there");
        pretend_cuda::Counts::read().map(|counts| counts.pinned_bytes)
    };
    let before = pinned_bytes();
    for number in 1..4 {
        let snapshot = trainer.snapshot(here(), HostTensors::new()).expect("begun");
        assert!(before.is_none() || pinned_bytes() > before, "a snapshot has its own memory");
        drop(snapshot);
        step(&mut trainer, number);
    }
    assert_eq!(pinned_bytes(), before);
    // The trainer may be dropped first.
    let (main, _) = held(&trainer);
    let snapshot = trainer.snapshot(here(), HostTensors::new()).expect("begun");
    drop(trainer);
    let _other = on_cuda();
    assert!(snapshot.main == main, "copies in flight outlive their sources");
    let defects = pretend_cuda::Counts::read().map_or(0, |counts| counts.defects);
    assert_eq!(defects, 0, "memory in use is not reused");
}

/// A device without free memory, first with and then without pinned memory on the host.
#[test]
fn a_checkpoint_is_made_without_memory_of_the_device_and_without_pinned_memory() {
    let name = "a_checkpoint_is_made_without_memory_of_the_device_and_without_pinned_memory";
    if !pretend_cuda::is_here(module_path!(), name) {
        return;
    }
    let mut trainer = on_cuda();
    step(&mut trainer, 0);
    let (main, optimizer) = held(&trainer);
    let Some(counts) = pretend_cuda::Counts::read() else {
        return testkit::skip("checkpoints without memory on CUDA: this device cannot be made smaller");
    };
    for pinned in [u64::MAX, counts.pinned_bytes] {
        pretend_cuda::limit(counts.bytes, pinned);
        let position = Position { rows_consumed: 8, ..here() };
        let snapshot = trainer.snapshot(position, HostTensors::new()).expect("it needs no device memory");
        pretend_cuda::limit(u64::MAX, u64::MAX);
        step(&mut trainer, 1);
        assert!(snapshot.main == main && snapshot.optimizer == optimizer, "{pinned} bytes to pin");
        trainer.restore("x", &snapshot).expect("its own");
    }
    assert!(trainer.lacks_pinned, "the second snapshot had no pinned memory");
}

#[test]
fn a_tensor_may_begin_in_one_block_and_end_in_another() {
    if !pretend_cuda::is_here(module_path!(), "a_tensor_may_begin_in_one_block_and_end_in_another") {
        return;
    }
    let device = Device::Cuda(0);
    let tensors = [0, 1, 16, 17, 100, 0, 64].map(|count| Tensor::arange(count, (MASTER, device)) + count as f64);
    let all: Vec<&Tensor> = tensors.iter().collect();
    let (changing, resting) = all.split_at(3);
    for block in [64, 128, 1 << 20] {
        let (copies, places) = Copies::begin(Sources { changing, resting }, device, block).expect("begun");
        for (tensor, place) in tensors.iter().zip(&places) {
            let expected: Vec<u8> =
                Vec::<f32>::try_from(tensor).expect("float32").into_iter().flat_map(f32::to_ne_bytes).collect();
            assert_eq!(copies.pieces(place).expect("arrived").concat(), expected, "{place:?} in blocks of {block}");
        }
    }
}

#[test]
fn start_weights_with_nan_are_refused_by_name() {
    let _alone = testing::generator();
    let trainer = testing::trainer(&testing::request());
    let mut saved = trainer.weights().expect("copied");
    trainer.load_into(Path::new("model"), &saved, |_| true).expect("its own");
    let (name, weight) =
        saved.iter().next_back().map(|(name, weight)| (name.clone(), weight.clone())).expect("weights");
    let nan = weight.to_tensor().expect("on the CPU") * f64::NAN;
    saved.insert(name.clone(), HostTensor::copy_of(&nan).expect("a known type"));
    let error = trainer.load_into(Path::new("model"), &saved, |_| true).expect_err("NaN").to_string();
    assert!(error.contains("model") && error.contains(&format!("`{name}` has NaN")), "{error}");
}

/// As every other problem of such a folder: the command must change, exit code 2.
#[test]
fn damaged_start_weights_are_an_error_of_the_configuration() {
    let _alone = testing::generator();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let weights = testing::trainer(&testing::request()).weights().expect("copied");
    let mut whole = Vec::new();
    tensors::write(&weights, &mut whole).expect("memory takes all");
    let (name, _) = weights.iter().next().expect("weights");
    let mut nan = weights.clone();
    nan.insert(
        name.clone(),
        HostTensor::copy_of(&(weights[name].to_tensor().expect("floats") * f64::NAN)).expect("floats"),
    );
    let mut with_nan = Vec::new();
    tensors::write(&nan, &mut with_nan).expect("memory takes all");
    let mut request = testing::request();
    request.train.init_from = Some(folder.path().to_owned());
    let store = Store::folder(folder.path()).expect("there");
    for (bytes, problem) in [(&whole[..whole.len() - 1], "no safetensors file"), (&with_nan[..], "has NaN")] {
        store.put("main.safetensors", bytes).expect("written");
        let error = testing::trainer(&request).begin().expect_err("damaged");
        assert!(error.is_usage() && error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn weights_are_grouped_by_head_and_network() {
    let parts =
        ["heads.rtd.dense.weight", "generator.encoder.layers.0.norm.bias", "heads.rtd", "generator"].map(part_of);
    assert_eq!(parts, ["heads.rtd", "generator", "heads.rtd", "generator"]);
}
