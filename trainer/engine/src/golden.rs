//! Golden test of training: twenty steps, number by number. Refactorings must not change the numbers.
//!
//! The test compares losses, gradient norms and final weights of two runs on batches of [`testing`]: all objectives
//! together, and masked language modelling with token contrast. `UPDATE_GOLDEN=1` rewrites
//! `tests/golden/training.json`. A commit that does so states the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use store::Store;
use trainer_plan::TrainPlan;
use trainer_plan::schedule::{ScheduleConfig, ScheduleKind};

use crate::testing;
use crate::training::process_group::SingleProcess;
use crate::training::step::Trainer;

const STEPS: u64 = 20;

/// Relative tolerance for differences of vector instructions over twenty steps.
const TOLERANCE: f64 = 1e-4;

/// Share of the largest number of its kind below which a number is rounding.
const FLOOR: f64 = 1e-3;

/// Numbers of a run.
#[derive(Debug, Serialize, Deserialize)]
struct Golden {
    /// Losses of each step, by term.
    losses: Vec<BTreeMap<String, f64>>,
    /// Gradient norms of each step, before clipping.
    norms: Vec<f64>,
    /// Norm of each weight, and its product with a fixed direction.
    weights: BTreeMap<String, [f64; 2]>,
}

/// Builds a plan with dropout, weight decay, warm-up and learning rate decay.
fn plan(objectives: &[&str]) -> TrainPlan {
    let mut plan = testing::request();
    plan.train.steps = STEPS;
    plan.optimizer.lr = 2e-3;
    plan.optimizer.weight_decay = 0.1;
    // Keeps weights constant if their gradient is only rounding.
    plan.optimizer.eps = 1e-5;
    plan.schedule = ScheduleConfig { kind: ScheduleKind::Linear, warmup_steps: 4, ..ScheduleConfig::default() };
    if !objectives.is_empty() {
        plan.loss.retain(|name, _| objectives.contains(&name.as_str()));
    }
    testing::checked(plan)
}

fn train(plan: &TrainPlan) -> Golden {
    let mut trainer = Trainer::new(plan, Arc::new(SingleProcess)).expect("a good plan");
    trainer.begin().expect("fresh weights");
    let mut golden = Golden { losses: Vec::new(), norms: Vec::new(), weights: BTreeMap::new() };
    for step in 0..STEPS {
        trainer.step(&[testing::batch(2 * step), testing::batch(2 * step + 1)]).expect("good batches");
        let figures = trainer.figures().expect("finite").figures;
        golden.losses.push(figures.terms);
        golden.norms.push(figures.grad_norm);
    }
    for (name, weight) in trainer.parameters().iter() {
        let values = Vec::<f32>::try_from(weight.tensor.detach().reshape([-1])).expect("float32");
        golden.weights.insert(name.to_owned(), summary(&values));
    }
    golden
}

/// The norm depends on every number; the product also depends on signs and positions.
fn summary(values: &[f32]) -> [f64; 2] {
    let norm = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    let along = values.iter().enumerate().map(|(at, &value)| f64::from(value) * (at as f64 + 1.0).sin()).sum();
    [norm, along]
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn check(what: &str, found: f64, expected: f64, floor: f64) {
    let bound = TOLERANCE * found.abs().max(expected.abs()).max(floor);
    assert!((found - expected).abs() <= bound, "{what}: {found}, was {expected}");
}

fn compare(run: &str, found: &Golden, expected: &Golden) {
    let (steps, names): (_, Vec<_>) = (found.losses.len(), found.weights.keys().collect());
    assert_eq!((steps, names), (expected.losses.len(), expected.weights.keys().collect()), "{run}: steps and weights");
    for step in 0..steps {
        let found_terms = &found.losses[step];
        let expected_terms = &expected.losses[step];
        assert!(found_terms.keys().eq(expected_terms.keys()), "{run}, step {step}: {found_terms:?}");
        for (term, &value) in found_terms {
            check(&format!("{run}, step {step}, {term}"), value, expected_terms[term], FLOOR);
        }
        check(&format!("{run}, step {step}, norm"), found.norms[step], expected.norms[step], FLOOR);
    }
    let largest = expected.weights.values().map(|[norm, _]| *norm).fold(0.0, f64::max);
    for (name, [norm, along]) in &found.weights {
        let [expected_norm, expected_along] = expected.weights[name];
        check(&format!("{run}, norm of {name}"), *norm, expected_norm, FLOOR * largest);
        // The norm of the weight is the scale of the product.
        let floor = expected_norm.max(FLOOR * largest);
        check(&format!("{run}, direction of {name}"), *along, expected_along, floor);
    }
}

#[test]
fn twenty_steps_equal_the_golden_file() {
    let _alone = testing::generator();
    let runs = [("every objective", plan(&[])), ("mlm and tc", plan(&["masked_lm", "token_contrastive"]))];
    let found: BTreeMap<String, Golden> = runs.map(|(name, plan)| (name.to_owned(), train(&plan))).into();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut json = serde_json::to_vec_pretty(&found).expect("finite numbers");
        json.push(b'\n');
        Store::folder(path()).and_then(|folder| folder.put("training.json", &json)).expect("written");
        return;
    }
    let bytes = std::fs::read(path().join("training.json")).expect("a golden file");
    let expected: BTreeMap<String, Golden> = serde_json::from_slice(&bytes).expect("as written");
    for (run, golden) in &found {
        compare(run, golden, &expected[run]);
    }
}
