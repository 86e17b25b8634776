//! Tiny run for tests: two layers, 60 words, batches that are functions of their index.

#[path = "../../plan/src/testing/request.rs"]
mod request;

pub(crate) use self::request::{ROWS, WORDS, checked, networks, request};

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemas::column::{Column, ColumnSpec, ElementType};
use schemas::columns::{ATTENTION_MASK, DOCUMENT, IGNORE, INPUT_IDS, LABELS, ORIGIN, POSITIVES, TARGETS};
use schemas::ordinal::BatchIndex;
use schemas::{Batch, BatchBuilder};
use tch::Device;
use trainer_plan::TrainPlan;
use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::objectives::AnyObjective;
use trainer_plan::request::TrainRequest;
use trainer_plan::requirements::columns_read;

use crate::device::ResolveDevice as _;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

/// Locks torch's random number generator. It is global, and `cargo test` runs tests on threads.
pub(crate) fn generator() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Devices for tests: the CPU, and CUDA if it is available. `CLOZE_TEST_DEVICE` selects one of the two.
pub(crate) fn devices() -> Vec<Device> {
    let choice = match std::env::var("CLOZE_TEST_DEVICE").as_deref() {
        Ok("cpu") => [Some(DeviceChoice::Cpu), None],
        Ok("cuda") => [Some(DeviceChoice::Cuda(0)), None],
        Ok(other) => panic!("CLOZE_TEST_DEVICE is `{other}`: write `cpu` or `cuda`"),
        Err(_) => [Some(DeviceChoice::Cpu), tch::Cuda::is_available().then_some(DeviceChoice::Cuda(0))],
    };
    let there = |choice: DeviceChoice| choice.resolve().expect("the device of CLOZE_TEST_DEVICE");
    choice.into_iter().flatten().map(there).collect()
}

pub(crate) const WIDTH: usize = 12;

const MASK: i32 = 4;
const FIRST_WORD: i32 = 5;

/// Plan of [`request`].
pub(crate) fn plan() -> TrainPlan {
    checked(request())
}

/// Trainer with initial weights.
pub(crate) fn trainer(request: &TrainRequest) -> Trainer {
    Trainer::new(&checked(request.clone()), Arc::new(SingleProcess)).expect("a good plan")
}

/// Index of the first batch that consists of a word of no other batch.
pub(crate) const POISON: u64 = 1 << 40;

/// Words of one row. Each word depends on the one before, so that masks can be predicted.
fn word_ids(row: u64) -> Vec<i32> {
    if row >= POISON * ROWS as u64 {
        return vec![1; WIDTH];
    }
    let step = 1 + i32::try_from(row % 3).expect("below 3");
    let start = i32::try_from(row.wrapping_mul(2_654_435_761) % 50).expect("below 50");
    (0..12).map(|at| FIRST_WORD + (start + at * step) % (60 - FIRST_WORD)).collect()
}

/// Micro-batch with all columns that the registered objectives read, and the view of `valid/mlm`. The last row is
/// padded.
pub(crate) fn batch(index: u64) -> Batch {
    build(index, true, WIDTH - 3)
}

/// Micro-batch as of [`batch`], but the last row is bad and therefore padding.
pub(crate) fn batch_with_gap(index: u64) -> Batch {
    build(index, true, 0)
}

/// Micro-batch as of [`batch`], but without predictions and alignments, and with zeros for all other supervision.
pub(crate) fn empty_batch(index: u64) -> Batch {
    build(index, false, WIDTH - 3)
}

/// Builds a micro-batch whose last row has `last` tokens.
fn build(index: u64, supervised: bool, last: usize) -> Batch {
    let objectives = AnyObjective::examples();
    let networks = networks();
    let views: BTreeSet<(String, ColumnSpec)> = objectives
        .iter()
        .flat_map(|objective| columns_read(&EncoderConfig::default(), &networks, objective).needed)
        .collect();
    let mut names: BTreeSet<String> = views.iter().map(|(view, _)| view.clone()).collect();
    names.insert(trainer_plan::requirements::VALID_MLM.to_owned());
    let mut builder = BatchBuilder::new(BatchIndex(index), ROWS);
    for name in &names {
        push_view(&mut builder, name, index, supervised, last);
        for (_, spec) in views.iter().filter(|(view, spec)| view == name && !is_standard(spec)) {
            push_other(&mut builder, name, spec, supervised);
        }
    }
    builder.finish()
}

fn is_standard(spec: &ColumnSpec) -> bool {
    let known = [
        INPUT_IDS.name(),
        ATTENTION_MASK.name(),
        LABELS.name(),
        ORIGIN.name(),
        DOCUMENT.name(),
        POSITIVES.name(),
        TARGETS.name(),
    ];
    known.contains(&spec.name)
}

/// Pushes a view with every third word masked. Positives are right neighbours; each row is a document.
fn push_view(builder: &mut BatchBuilder, view: &str, index: u64, supervised: bool, last: usize) {
    let rows: Vec<Vec<i32>> = (0..ROWS as u64).map(|row| word_ids(index * ROWS as u64 + row)).collect();
    let cells =
        || rows.iter().enumerate().flat_map(|(row, ids)| ids.iter().enumerate().map(move |(at, &id)| (row, at, id)));
    let is_padding = |row: usize, at: usize| row == ROWS - 1 && at >= last;
    let is_masked = |row: usize, at: usize| supervised && (row + at).is_multiple_of(3) && !is_padding(row, at);
    let ids = cells().map(|(row, at, id)| {
        if is_padding(row, at) {
            0
        } else if is_masked(row, at) {
            MASK
        } else {
            id
        }
    });
    let labels = cells().map(|(row, at, id)| if is_masked(row, at) { id } else { IGNORE });
    let valid = cells().map(|(row, at, _)| u8::from(!is_padding(row, at)));
    let place = |at: usize| i16::try_from(at).expect("rows are narrow");
    let origin = cells().map(|(row, at, _)| if is_padding(row, at) { -1 } else { place(at) });
    let is_last = |row: usize, at: usize| at + 1 == WIDTH || is_padding(row, at + 1);
    let positives = cells().map(|(row, at, _)| if supervised && !is_last(row, at) { place(at + 1) } else { -1 });
    let document = cells().map(|(row, ..)| i32::try_from(row).expect("few rows"));
    builder.push(view, INPUT_IDS, WIDTH, ids.collect());
    builder.push(view, LABELS, WIDTH, labels.collect());
    builder.push(view, ATTENTION_MASK, WIDTH, valid.collect());
    builder.push(view, ORIGIN, WIDTH, origin.collect());
    builder.push(view, POSITIVES, WIDTH, positives.collect());
    builder.push(view, DOCUMENT, WIDTH, document.collect());
    // Classes, positions, or the bits of numbers near 0.
    let targets = cells().map(|(_, at, _)| if supervised { i32::from(at != 1) } else { IGNORE });
    builder.push(view, TARGETS, WIDTH, targets.collect());
}

/// Pushes ones and zeros for any other column.
fn push_other(builder: &mut BatchBuilder, view: &str, spec: &ColumnSpec, supervised: bool) {
    let flags = (0..ROWS * WIDTH).map(|at| u8::from(supervised && at % 4 == 0));
    match spec.element {
        // The only other columns of 32 bits hold random bits.
        ElementType::I32 => {
            let bits = |at: usize| {
                if supervised { i32::try_from(at).expect("few cells").wrapping_mul(-1_640_531_535) } else { 0 }
            };
            builder.push(view, Column::<i32>::new(spec.name), WIDTH, (0..ROWS * WIDTH).map(bits).collect());
        }
        ElementType::I16 => builder.push(view, Column::<i16>::new(spec.name), WIDTH, flags.map(i16::from).collect()),
        ElementType::U8 => builder.push(view, Column::<u8>::new(spec.name), WIDTH, flags.collect()),
    }
}
