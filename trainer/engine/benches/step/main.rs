//! Benchmark of one optimizer step of every method, relative to plain masked language modelling with the same encoder
//! and to the machine's rate of matrix products.
//!
//! `cargo bench -p cloze-trainer --bench step`. Methods take turns step by step, with one product of each of the step's
//! shapes after each round, so that load on the machine slows all of them. Reported times are medians. Environment
//! variables:
//!
//! - `CLOZE_SHAPE`: `small` (4 × 512, 8 rows of 128, the default) or `base` (12 × 768, 8 rows of 512);
//! - `CLOZE_TOKENS`: width of the rows;
//! - `CLOZE_METHODS`: names of methods, separated by commas (default: all);
//! - `CLOZE_THREADS`: libtorch's threads (0 for all cores);
//! - `CLOZE_STEPS`: steps of each method;
//! - `CLOZE_DEVICE`: `cpu` or `cuda`;
//! - `CLOZE_PRECISION`: value of `train.precision`.
#![allow(clippy::print_stdout, reason = "its output is its result")]

#[path = "../common/mod.rs"]
mod common;
mod methods;
mod parts;
mod yardstick;

use std::sync::Arc;
use std::time::Instant;

use schemas::Batch;
use trainer::device::synchronize;
use trainer::training::{SingleProcess, Trainer};
use trainer_plan::TrainPlan;
use trainer_plan::precision::Precision;

use crate::common::WORDS;
use crate::methods::{METHODS, Method, ROWS, Setting, batch, plan};
use crate::parts::Parts;
use crate::yardstick::ReferenceProducts;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<usize> {
    variable(name).map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: `{value}` is not a number")))
}

fn setting() -> Setting {
    let base = variable("CLOZE_SHAPE").is_some_and(|name| name == "base");
    let cuda = variable("CLOZE_DEVICE").is_some_and(|name| name == "cuda");
    let precision = match variable("CLOZE_PRECISION").as_deref() {
        Some("f32") => Precision::F32,
        Some("bf16") => Precision::Bf16,
        Some("bf16_hidden") => Precision::Bf16Hidden,
        Some(other) => panic!("CLOZE_PRECISION: `{other}` is not one of f32, bf16, bf16_hidden"),
        None if cuda => Precision::Bf16,
        None => Precision::F32,
    };
    let width = number("CLOZE_TOKENS").unwrap_or(if base { 512 } else { 128 });
    Setting { base, width, cuda, precision, threads: number("CLOZE_THREADS").unwrap_or(0) }
}

/// Returns the requested methods. The baselines are always included if they are needed.
fn chosen() -> Vec<&'static Method> {
    let names = variable("CLOZE_METHODS");
    let is_requested =
        |method: &Method| names.as_ref().is_none_or(|names| names.split(',').any(|name| name == method.name));
    let plain =
        |at: usize| METHODS[at..].iter().any(|method| is_requested(method) && method.relative == METHODS[at].relative);
    METHODS
        .iter()
        .enumerate()
        .filter(|(at, method)| is_requested(method) || *at == 0 || *at == 1 && plain(1))
        .map(|(_, method)| method)
        .collect()
}

pub(crate) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn main() {
    let setting = setting();
    let steps = number("CLOZE_STEPS").unwrap_or(12);
    let encoder = setting.encoder(false);
    let width = setting.width;
    println!(
        "{} layers × {}, {ROWS} rows of {width}, {WORDS} ids, {:?}, {steps} steps each",
        encoder.layers, encoder.hidden, setting.precision
    );
    let batches: Vec<Batch> = (0..steps + 2).map(|index| batch(index as u64, width)).collect();
    let methods = chosen();
    let plans: Vec<TrainPlan> = methods.iter().map(|method| plan(method, setting)).collect();
    let mut trainers: Vec<Trainer> =
        plans.iter().map(|plan| Trainer::new(plan, Arc::new(SingleProcess)).expect("a good plan")).collect();
    let mut seconds = vec![Vec::new(); methods.len()];
    let mut yardstick = (!setting.cuda).then(|| ReferenceProducts::new(setting));
    let mut parts = Parts::default();
    for (index, batch) in batches.iter().enumerate() {
        for (at, (trainer, seconds)) in trainers.iter_mut().zip(&mut seconds).enumerate() {
            let begun = Instant::now();
            let mut step = || {
                trainer.step(std::slice::from_ref(batch)).expect("good batches");
                synchronize(trainer.device()).expect("the device answers");
            };
            // The first two steps create the optimizer's state and warm caches.
            if index >= 2 && at == 0 {
                parts.step(step);
            } else {
                step();
            }
            if index >= 2 {
                seconds.push(begun.elapsed().as_secs_f64());
            }
        }
        if let Some(yardstick) = yardstick.as_mut().filter(|_| index >= 2) {
            yardstick.measure();
        }
    }
    let medians: Vec<f64> = seconds.into_iter().map(median).collect();
    print(&methods, &plans, &medians, width);
    if let Some(yardstick) = yardstick {
        print_rates(&yardstick, &plans[0], medians[0], width);
        parts.print(setting, yardstick.rate());
    }
}

/// Prints every method relative to the plain one with the same encoder.
fn print(methods: &[&Method], plans: &[TrainPlan], medians: &[f64], width: usize) {
    println!("| method | ms/step | µs/token | × plain | FLOP × plain | quotient | estimated memory |");
    println!("|---|---|---|---|---|---|---|");
    for (method, (plan, seconds)) in methods.iter().zip(plans.iter().zip(medians)) {
        let plain = medians[usize::from(method.relative)];
        let ratio = seconds / plain;
        let flops = plan.flops_ratio();
        println!(
            "| {} | {:.1} | {:.2} | {ratio:.2} | {flops:.2} | {:.2} | {:.0} MB |",
            method.name,
            seconds * 1e3,
            seconds * 1e6 / (ROWS * width) as f64,
            ratio / flops,
            plan.memory().total() / 1e6
        );
    }
}

/// Prints the share of the machine's rate of products that a plain step reaches.
fn print_rates(yardstick: &ReferenceProducts, plan: &TrainPlan, seconds: f64, width: usize) {
    let needed = plan.flops_per_token() * (ROWS * width) as f64;
    let (rate, (operations, alone)) = (yardstick.rate(), yardstick.all());
    println!(
        "the largest product of a layer: {:.1} GFLOP/s; all products of a step alone: {:.1} GFLOP in {:.1} ms, {:.1} GFLOP/s",
        rate / 1e9,
        operations / 1e9,
        alone * 1e3,
        operations / alone / 1e9
    );
    println!(
        "mlm needs {:.1} GFLOP and takes {:.1} ms: {:.1} GFLOP/s, {:.1} % of the largest product's rate; its products alone would be {:.1} % of it",
        needed / 1e9,
        seconds * 1e3,
        needed / seconds / 1e9,
        100.0 * needed / seconds / rate,
        100.0 * alone / seconds
    );
}
