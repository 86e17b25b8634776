//! Several ranks learn what one learns.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemas::RankShard;
use trainer_plan::objectives::{AnyObjective, RowSet};
use trainer_plan::schedule::ScheduleKind;

use super::*;
use crate::device::tensors::{HostTensor, HostTensors};
use crate::training::process_group::test_ranks::{AlteredGroup, NO_LIMIT, on_shared_ranks};
use crate::training::process_group::{PendingReduction, SingleProcess};
use crate::training::straggler::{StragglerWatch, gather_reports};
use crate::training::throughput::Throughput;

const WARMUP: u64 = 4;
const STEPS: u64 = WARMUP + 50;
/// Micro-batches of a step: 1, 2 and 3 ranks can share them.
const MICRO_BATCHES: u64 = 6;

/// Result of a rank.
struct Learned {
    /// First moments after the first step: a tenth of the gradient.
    first: HostTensors,
    /// Weights after the warm-up and at the end.
    weights: [HostTensors; 2],
}

/// Objectives that draw nothing from torch's generator, which threads share.
const OBJECTIVES: [&str; 7] = [
    "masked_lm",
    "sequence_contrastive",
    "teacher_contrastive",
    "replaced_token",
    "corrective_lm",
    "next_sentence",
    "token_prediction",
];

fn request() -> TrainRequest {
    let mut request = testing::request();
    request.loss.retain(|name, _| OBJECTIVES.contains(&name.as_str()));
    assert_eq!(request.loss.len(), OBJECTIVES.len());
    request.encoder.dropout = 0.0;
    request.train.global_batch_size = MICRO_BATCHES * testing::ROWS as u64;
    request.train.steps = STEPS;
    request.optimizer.lr = 1e-3;
    request.schedule.kind = ScheduleKind::Constant;
    request.schedule.warmup_steps = WARMUP;
    request
}

static DRAWING: Mutex<()> = Mutex::new(());

fn trainer(request: &TrainRequest, ranks: Arc<dyn ProcessGroup>) -> Trainer {
    // Initial weights are drawn from torch's generator, which threads share.
    let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    Trainer::new(&testing::checked(request.clone()), ranks).expect("a good plan")
}

/// Micro-batch of a stream, by its number.
type Stream = fn(u64) -> Batch;

fn learn(request: &TrainRequest, stream: Stream, ranks: Arc<dyn ProcessGroup>) -> Learned {
    let mut trainer = trainer(request, ranks);
    let share = trainer.ranks().share();
    let mut first = HostTensors::new();
    let mut warm = HostTensors::new();
    for step in 0..STEPS {
        let number = |own| trainer.plan().micro_batches() * step + share.in_stream(own);
        let batches: Vec<Batch> = (0..trainer.micro_batches()).map(|own| stream(number(own))).collect();
        trainer.step(&batches).expect("good batches");
        if step == 0 {
            first = moments(&trainer);
        }
        if step + 1 == WARMUP {
            warm = trainer.weights().expect("copied");
        }
    }
    let weights = [warm, trainer.weights().expect("copied")];
    trainer.ranks().finish().expect("all ranks end");
    Learned { first, weights }
}

fn moments(trainer: &Trainer) -> HostTensors {
    let whole = trainer.optimizer.state().filter(|(name, _)| name.starts_with("mean."));
    let copies = whole.map(|(name, tensor)| (name, HostTensor::copy_of(tensor).expect("float32")));
    let gathered = trainer.gather_moments().expect("gathered").into_iter();
    copies.chain(gathered.filter(|(name, _)| name.starts_with("mean."))).collect()
}

/// Rank 0 of some ranks. All of them have equal weights, bit for bit.
fn learn_among(world_size: u32, request: &TrainRequest, stream: Stream) -> Learned {
    let request = request.clone();
    let mut all = on_shared_ranks(world_size, NO_LIMIT, move |_, ranks| learn(&request, stream, ranks));
    let first = all.remove(0);
    for other in &all {
        let differ = |one: &HostTensors, other: &HostTensors| -> Vec<String> {
            one.keys().filter(|name| one[*name] != other[*name]).cloned().collect()
        };
        let [warm, end] = [0, 1].map(|at| differ(&first.weights[at], &other.weights[at]));
        assert!(warm.is_empty() && end.is_empty(), "{world_size} ranks: {warm:?} and {end:?} differ");
    }
    first
}

/// Euclidean norm of a list.
fn norm(tensors: impl Iterator<Item = Tensor>) -> f64 {
    let squares = tensors.map(|it| f64::try_from(&it.square().sum(Kind::Double)).expect("a number"));
    squares.sum::<f64>().sqrt()
}

fn doubles(tensors: &HostTensors) -> impl Iterator<Item = Tensor> {
    tensors.values().map(|tensor| tensor.to_tensor().expect("float32").to_kind(Kind::Double))
}

/// Euclidean norm of the difference of two lists.
fn distance(one: &HostTensors, other: &HostTensors) -> f64 {
    assert!(one.keys().eq(other.keys()));
    norm(doubles(one).zip(doubles(other)).map(|(one, other)| one - other))
}

/// Returns the differences of the first gradient, and of the weights after 50 steps past the warm-up, relative to the
/// gradient and to the update.
fn differences(one: &Learned, other: &Learned) -> [f64; 2] {
    let update = distance(&one.weights[0], &one.weights[1]);
    [
        distance(&one.first, &other.first) / norm(doubles(&one.first)),
        distance(&one.weights[1], &other.weights[1]) / update,
    ]
}

#[test]
fn ranks_learn_what_one_learns() {
    let _alone = testing::generator();
    let request = request();
    let alone = learn(&request, testing::batch, Arc::new(SingleProcess));
    for world_size in [2, 3] {
        let [gradient, weights] = differences(&alone, &learn_among(world_size, &request, testing::batch));
        assert!(gradient <= 1e-6, "{world_size} ranks: the first gradient differs by {gradient}");
        assert!(weights <= 1e-4, "{world_size} ranks: the weights differ by {weights} of the update");
    }
}

/// The sums of gradients are ordered after the backward pass and before the update.
#[test]
fn ranks_learn_what_one_learns_on_cuda() {
    if !pretend_cuda::is_here(module_path!(), "ranks_learn_what_one_learns_on_cuda") {
        return;
    }
    if pretend_cuda::Device::find() != Ok(pretend_cuda::Device::Pretend) {
        return testkit::skip("two ranks on one CUDA device: NCCL has one rank per device");
    }
    let mut request = request();
    request.train.device = trainer_plan::device::DeviceChoice::Cuda(0);
    for shard in [false, true] {
        request.optimizer.shard = shard;
        let alone = learn(&request, testing::batch, Arc::new(SingleProcess));
        let [gradient, weights] = differences(&alone, &learn_among(2, &request, testing::batch));
        assert!(gradient <= 1e-6 && weights <= 1e-4, "{gradient}, {weights}");
    }
}

/// The device ends an aborted sum without an error.
#[test]
fn moments_that_lack_a_rank_are_not_returned() {
    if !pretend_cuda::is_here(module_path!(), "moments_that_lack_a_rank_are_not_returned") {
        return;
    }
    if pretend_cuda::Device::find() != Ok(pretend_cuda::Device::Pretend) {
        return testkit::skip("two ranks on one CUDA device: NCCL has one rank per device");
    }
    let mut request = request();
    request.train.device = trainer_plan::device::DeviceChoice::Cuda(0);
    request.optimizer.shard = true;
    let first_has_ended = Arc::new(Barrier::new(2));
    let errors = on_shared_ranks(2, Some(Duration::from_secs(8)), move |rank, ranks| {
        let mut trainer = trainer(&request, ranks);
        let share = trainer.ranks().share();
        let batches: Vec<Batch> =
            (0..trainer.micro_batches()).map(|own| testing::batch(share.in_stream(own))).collect();
        trainer.step(&batches).expect("good batches");
        trainer.move_sums_to_first_rank().expect("both come");
        let error = (rank == 0).then(|| trainer.gather_moments().expect_err("rank 1 does not come").to_string());
        first_has_ended.wait();
        error
    });
    let error = errors[0].as_ref().expect("of rank 0");
    assert!(error.starts_with("rank 1 did not come to operation "), "{error}");
    assert!(error.contains(", the all-reduce of moments: "), "{error}");
}

/// One of two ranks whose sums of gradients need more memory than any machine has.
#[derive(Debug)]
struct LargeSums;

impl ProcessGroup for LargeSums {
    fn share(&self) -> RankShard {
        RankShard::new(0, 2).expect("two ranks")
    }

    fn gather(&self, _: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![own.to_vec(); 2])
    }

    fn broadcast(&self, _: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(own.to_vec())
    }

    fn all_reduce(&self, _: &'static str, _: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        // An operator of `tch` panics if it fails.
        drop(Tensor::zeros([1 << 50], (Kind::Uint8, Device::Cpu)));
        Ok(Box::new(SingleProcess))
    }

    fn abort(&self, _: &str) {}

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The sum starts on a thread of libtorch, in the middle of the backward pass.
#[test]
fn a_shortage_of_memory_in_a_bucket_of_gradients_is_an_error_of_its_own() {
    let _alone = testing::generator();
    let request = request();
    let mut trainer = trainer(&request, Arc::new(LargeSums));
    let batches: Vec<Batch> = (0..trainer.micro_batches()).map(testing::batch).collect();
    let plan = trainer.plan().clone();
    let outcome = crate::training::oom_error::wrap(&plan, || trainer.step(&batches));
    let Err(Error::Memory { shortage, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(shortage.contains("can't allocate memory"), "{shortage}");
}

#[test]
fn shared_moments_change_no_bit() {
    let _alone = testing::generator();
    let mut request = request();
    let whole = learn_among(3, &request, testing::batch);
    request.optimizer.shard = true;
    let shared = learn_among(3, &request, testing::batch);
    assert!(whole.weights == shared.weights && whole.first == shared.first);
}

#[test]
fn sums_in_bfloat16_are_close() {
    let _alone = testing::generator();
    let mut request = request();
    let exact = learn_among(2, &request, testing::batch);
    request.train.bf16_all_reduce = true;
    let [gradient, _] = differences(&exact, &learn_among(2, &request, testing::batch));
    assert!(gradient > 1e-5 && gradient < 1e-2, "{gradient}");
}

fn double(counts: &mut [f64]) {
    for count in counts {
        *count *= 2.0;
    }
}

#[test]
fn a_wrong_count_on_one_rank_is_seen() {
    let _alone = testing::generator();
    let request = request();
    let alone = learn(&request, testing::batch, Arc::new(SingleProcess));
    let wrong = request.clone();
    let mut all = on_shared_ranks(2, NO_LIMIT, move |rank, group| {
        let alter_sums: fn(&mut [f64]) = if rank == 1 { double } else { |_| () };
        learn(&wrong, testing::batch, Arc::new(AlteredGroup { alter_sums, ..AlteredGroup::new(group) }))
    });
    let [gradient, weights] = differences(&alone, &all.swap_remove(0));
    assert!(gradient > 1e-3 && weights > 1e-2, "{gradient}, {weights}");
}

/// Rows one by one. One of four has no tokens.
fn single_rows(number: u64) -> Batch {
    let rows = testing::ROWS as u64;
    testing::batch_with_gap(number / rows).slice(usize::try_from(number % rows).expect("few"), 1)
}

/// The negatives are those of one batch of all rows, for any number of micro-batches and ranks.
#[test]
fn negatives_of_the_global_batch_are_those_of_one_micro_batch() {
    let _alone = testing::generator();
    let mut request = request();
    request.loss.retain(|name, _| ["masked_lm", "sequence_contrastive"].contains(&name.as_str()));
    request.train.global_batch_size = testing::ROWS as u64;
    let whole = learn(&request, testing::batch_with_gap, Arc::new(SingleProcess));
    request.train.micro_batch_size = 1;
    // Validations would contrast the rows of a micro-batch.
    request.validation.every_steps = 0;
    let Some(AnyObjective::SequenceContrastive(objective)) = request.objectives.get_mut("sequence_contrastive") else {
        panic!("the request has the objective");
    };
    objective.negatives_from = RowSet::GlobalBatch;
    for world_size in [1, 2, 4] {
        let parts = match world_size {
            1 => learn(&request, single_rows, Arc::new(SingleProcess)),
            _ => learn_among(world_size, &request, single_rows),
        };
        let [gradient, weights] = differences(&whole, &parts);
        assert!(gradient <= 1e-6 && weights <= 1e-4, "{world_size} ranks: {gradient}, {weights}");
    }
}

/// Delays of a rank in each step.
#[derive(Clone, Copy, Default)]
struct Delays {
    data: Duration,
    computation: Duration,
}

/// Messages about the second report of two ranks, of which `slow` has delays.
fn straggler_messages(slow: u64, delays: Delays) -> Vec<String> {
    let request = request();
    on_shared_ranks(2, NO_LIMIT, move |rank, group| {
        let Delays { data, computation } = if rank == slow { delays } else { Delays::default() };
        let ranks = Arc::new(AlteredGroup { delay: computation, ..AlteredGroup::new(group) });
        let mut trainer = trainer(&request, ranks);
        let mut watch = StragglerWatch::default();
        let mut pace = Throughput::start(None, trainer.ranks().waited());
        let mut message = None;
        for step in 0..6 {
            let batches: Vec<Batch> = (0..trainer.micro_batches())
                .map(|own| testing::batch(MICRO_BATCHES * step + trainer.ranks().share().in_stream(own)))
                .collect();
            std::thread::sleep(data);
            pace.wait(data);
            let begun = Instant::now();
            trainer.step(&batches).expect("good batches");
            pace.step(1, begun.elapsed());
            if step % 3 == 2 {
                let reports = gather_reports(&pace, trainer.ranks()).expect("gathered");
                pace.report(1, trainer.ranks().waited());
                message = watch.check(&reports).map(|warning| warning.message);
            }
        }
        trainer.ranks().finish().expect("all ranks end");
        message.expect("one rank is slow")
    })
}

#[test]
fn the_rank_that_the_others_wait_for_is_named_with_its_cause() {
    let _alone = testing::generator();
    let delay = Duration::from_millis(200);
    for slow in [0, 1] {
        for (delays, does) in [
            (Delays { data: delay, ..Delays::default() }, "waits for batches"),
            (Delays { computation: delay, ..Delays::default() }, "computes"),
        ] {
            for message in straggler_messages(slow, delays) {
                assert!(message.starts_with(&format!("rank {slow} on ")) && message.ends_with(does), "{message}");
            }
        }
    }
}
