//! Comparison of every preset and ablation on CUDA with the CPU. Without dropout the losses are equal.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::{ConfigSource, Home, presets, root};

/// Maximum difference of losses, relative to the larger one.
const FLOAT32: f64 = 1e-5;
const BFLOAT16: f64 = 1e-3;
/// Maximum relative difference between the planned and the measured memory.
const APART: f64 = 0.1;

#[test]
fn every_preset_and_ablation_learns_on_cuda_what_it_learns_on_the_cpu() {
    if !pretend_cuda::is_here(module_path!(), "every_preset_and_ablation_learns_on_cuda_what_it_learns_on_the_cpu") {
        return;
    }
    let home = Home::new();
    for name in presets() {
        let small = home.small(&name);
        if draws(&small) && pretend_cuda::Device::find() == Ok(pretend_cuda::Device::Real) {
            testkit::skip(&format!("{name} on CUDA: this device draws other random numbers than the CPU"));
            continue;
        }
        let plain = home.with_init(&name, deterministic(small));
        // Ablations start from the runs of presets on the CPU.
        let expected = home.run(&name, plain.clone()).reports();
        for precision in precisions(&name) {
            let tolerance = if precision == "f32" { FLOAT32 } else { BFLOAT16 };
            let table = on_cuda(plain.clone(), &home, &precision, &name);
            let found = home.run(&name, table).reports();
            assert_eq!(found.len(), expected.len(), "{name} in {precision}: reports");
            for (found, expected) in found.iter().zip(&expected) {
                let apart = distance(found, expected);
                assert!(apart < tolerance, "{name} in {precision} is {apart} apart:\n{found}\n{expected}");
                assert_metrics(&name, found, expected);
            }
        }
    }
}

/// Returns the precisions to test, including that of the preset.
fn precisions(name: &str) -> BTreeSet<String> {
    ["f32", "bf16", &own_precision(name)].map(str::to_owned).into()
}

fn own_precision(name: &str) -> String {
    let source = ConfigSource::read(&root().join(format!("configs/{name}.toml")), &[]);
    let table = source.unwrap_or_else(|error| panic!("{name}: {error}")).0.table;
    table["train"].get("precision").and_then(Value::as_str).unwrap_or("f32").to_owned()
}

/// Checks that the metrics other than losses are present and about equal.
fn assert_metrics(name: &str, found: &Json, expected: &Json) {
    let metrics = |report: &Json| report["metrics"].as_object().expect("metrics").clone();
    let found = metrics(found);
    let expected = metrics(expected);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
    for (metric, value) in &found {
        let [value, expected] = [value, &expected[metric]].map(|value| value.as_f64().unwrap_or(f64::NAN));
        // Three steps may have nothing that a metric counts.
        let is_equal = (value - expected).abs() < 0.02 || (value.is_nan() && expected.is_nan());
        assert!(is_equal, "{name}: `{metric}` is {value}, {expected} on the CPU");
    }
}

/// Whether an objective draws random numbers on the device.
fn draws(table: &Table) -> bool {
    let objectives = table["objectives"].as_table().expect("a table").values();
    objectives.into_iter().any(|objective| objective["kind"].as_str() == Some("token_contrastive"))
}

/// Removes dropout, limits the depth, and reports each step.
fn deterministic(mut table: Table) -> Table {
    set(&mut table, "encoder", "dropout", 0.0);
    set(&mut table, "encoder", "layers", 2);
    set(&mut table, "report", "every_steps", 1);
    table
}

fn on_cuda(mut table: Table, home: &Home, precision: &str, name: &str) -> Table {
    set(&mut table, "train", "device", "cuda");
    set(&mut table, "train", "precision", precision);
    set(&mut table, "run", "folder", home.path(&format!("{precision}/{name}")).display().to_string());
    table
}

fn set(table: &mut Table, section: &str, key: &str, value: impl Into<Value>) {
    table[section].as_table_mut().expect("a table").insert(key.to_owned(), value.into());
}

/// Returns the largest difference between the losses of two reports, relative to the larger loss.
fn distance(found: &Json, expected: &Json) -> f64 {
    let losses = |report: &Json| -> Vec<f64> {
        let terms = report["terms"].as_object().expect("terms").values();
        std::iter::once(&report["loss"]).chain(terms).map(|loss| loss.as_f64().unwrap_or(f64::NAN)).collect()
    };
    let found = losses(found);
    let expected = losses(expected);
    let pairs = found.iter().zip(&expected);
    let distances = pairs.map(|(found, expected)| (found - expected).abs() / found.abs().max(expected.abs()));
    // NaN counts as an infinite difference.
    distances.map(|distance| if distance.is_nan() { f64::INFINITY } else { distance }).fold(0.0, f64::max)
}

/// Ablations that keep scores at every position, unlike their presets.
const SCORING: [&str; 2] = ["ablations/coco-lm/all-token-lm", "ablations/taco/mlm-tp"];

/// Presets that are also tested with activation checkpointing.
const CHECKPOINTED: [&str; 3] = ["mlm-base", "electra-small", "coco-lm-base"];

/// Compares planned and measured memory of presets at full depth and small width.
#[test]
fn memory_of_a_run_equals_that_of_its_plan() {
    if !pretend_cuda::is_here(module_path!(), "memory_of_a_run_equals_that_of_its_plan") {
        return;
    }
    let home = Home::new();
    let mut wrong = Vec::new();
    let is_wanted = |name: &String| !name.starts_with("ablations") || SCORING.contains(&name.as_str());
    for name in presets().into_iter().filter(is_wanted) {
        let mut table = home.with_init(&name, home.small(&name));
        set(&mut table, "train", "device", "cuda");
        set(&mut table, "train", "micro_batch_size", 12);
        set(&mut table, "train", "steps", 1);
        set(&mut table, "schedule", "warmup_steps", 0);
        let extra = CHECKPOINTED.contains(&name.as_str()).then(|| (own_precision(&name), true));
        for (precision, checkpointed) in precisions(&name).into_iter().map(|precision| (precision, false)).chain(extra)
        {
            // Ablations start from the runs of presets in float32.
            let is_first = precision == "f32";
            let folder = if checkpointed { format!("{name}-checkpointed") } else { name.clone() };
            let mut table = if is_first { table.clone() } else { on_cuda(table.clone(), &home, &precision, &folder) };
            set(&mut table, "train", "activation_checkpointing", checkpointed);
            pretend_cuda::Counts::start();
            let run = home.run(&name, table);
            let Some(counts) = pretend_cuda::Counts::read() else {
                return testkit::skip("the memory of a run on CUDA: this device's allocator has no counts");
            };
            let plan = std::fs::read(run.folder.join("plan.json")).expect("a plan");
            let plan: Json = serde_json::from_slice(&plan).expect("JSON");
            let ratio = plan["memory_bytes"].as_f64().expect("a number") / counts.peak_bytes as f64;
            if (ratio - 1.0).abs() > APART {
                wrong.push(format!(
                    "{name} in {precision}, activation checkpointing {checkpointed}: {ratio:.2} of {}: {}",
                    counts.peak_bytes, plan["memory"]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Maximum number of kernels of a step of one micro-batch in the preset's precision. Each operator below autograd
/// counts as one, also an operator over a list of tensors.
const KERNELS: [(&str, u64); 3] = [("mlm-base", 550), ("electra-small", 1000), ("coco-lm-base", 1450)];

#[test]
fn a_step_launches_no_more_kernels_than_it_has_to() {
    if !pretend_cuda::is_here(module_path!(), "a_step_launches_no_more_kernels_than_it_has_to") {
        return;
    }
    let home = Home::new();
    for (name, max_kernels) in KERNELS {
        let precision = own_precision(name);
        let launched = |steps: i64| {
            let mut table = home.small(name);
            for (section, key, value) in
                [("train", "steps", steps), ("schedule", "warmup_steps", 0), ("validation", "every_steps", 0)]
            {
                set(&mut table, section, key, value);
            }
            // Fused attention requires head widths that are multiples of eight; other widths launch more kernels.
            set(&mut table, "encoder", "hidden", 32);
            set(&mut table, "train", "global_batch_size", 4);
            set(&mut table, "train", "micro_batch_size", 4);
            let table = on_cuda(home.with_init(name, table), &home, &precision, &format!("{name}-{steps}"));
            pretend_cuda::Counts::start();
            home.run(name, table);
            pretend_cuda::Counts::read().map(|counts| counts.kernels)
        };
        let (Some(two), Some(three)) = (launched(2), launched(3)) else {
            return testkit::skip("the kernels of a step on CUDA: this device does not count");
        };
        let step = three - two;
        assert!((max_kernels / 2..=max_kernels).contains(&step), "{name} in {precision}: {step} kernels");
    }
}
