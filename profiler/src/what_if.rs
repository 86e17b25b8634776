//! Prediction of the effect of a configuration change, with a model of the measured run.

use crate::bottleneck::Bottleneck;
use crate::measure::{MeanShares, Measured};
use crate::model::{Cost, Layout, Model, Simulation};
use crate::verdict::bottleneck;

/// Smallest gain that is reported.
pub const GAIN_MIN: f64 = 0.03;

/// Largest deviation of the model from the measurement for which it predicts, as a share.
const MISFIT_MAX: f64 = 0.10;

/// Largest uncertainty of the measured rate for which a prediction is made, as a share.
const NOISE_MAX: f64 = 0.2;

/// Share of the best rate that a proposal must reach. The smallest such value is proposed, since extra workers cost
/// processors.
const NEARLY: f64 = 0.98;

/// Configuration change with its predicted effect.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfChange {
    /// Configuration key.
    pub key: &'static str,
    /// Current value.
    pub from: usize,
    /// Its proposed value.
    pub to: usize,
    /// Predicted gain as a share: 0.21 is 21 % more.
    pub gain: f64,
    /// Uncertainty as a share: the larger of half the measured interval and the misfit of the model.
    pub within: f64,
    /// Bottleneck after the change.
    pub then: &'static str,
}

impl WhatIfChange {
    /// Formats the proposal as one line.
    pub fn describe(&self) -> String {
        let Self { key, from, to, gain, within, then } = self;
        let gain = match gain {
            gain if gain.abs() < GAIN_MIN => "no change".to_owned(),
            gain => format!("{:+.0} %", 100.0 * gain),
        };
        format!("`{key}` {from} → {to}: predicted {gain} (± {:.0}); {then}", (100.0 * within).ceil())
    }
}

/// Returns proposed changes, the most promising first, or the reason why no prediction is possible.
pub fn proposals(measured: &Measured) -> Result<Vec<WhatIfChange>, String> {
    let model = model_of(measured)?;
    let now = layout_of(measured);
    let rate = measured.rate.filter(|rate| rate.mean.is_finite() && rate.mean > 0.0);
    let rate = rate.ok_or("too little was measured for a prediction; measure for longer (`--seconds`)")?;
    if rate.spread() > NOISE_MAX {
        return Err(format!(
            "no prediction: the rate is known only to ± {:.0} %; measure for longer or on an idle machine",
            100.0 * rate.spread()
        ));
    }
    let misfit = model.misfit(now, rate.mean);
    if misfit.abs() > MISFIT_MAX {
        return Err(format!(
            "no prediction: the model does not fit this run (simulated rate {:+.0} % from the measured rate)",
            100.0 * misfit
        ));
    }
    let within = rate.spread().max(misfit.abs()).max(0.01);
    let base = model.play(now).rate;
    let best = |candidates: &[usize], layout: &dyn Fn(usize) -> Layout| {
        let played: Vec<(usize, Simulation)> = candidates.iter().map(|&to| (to, model.play(layout(to)))).collect();
        let most = played.iter().map(|(_, played)| played.rate).fold(0.0, f64::max);
        played.into_iter().find(|(_, played)| played.rate >= NEARLY * most)
    };
    let workers = |to| Layout { workers: to, ..now };
    let depth = |to| Layout { depth: to, ..now };
    let many: Vec<usize> = (1..=(4 * now.workers).max(2 * measured.cores).min(256)).collect();
    let deep: Vec<usize> = (0..6).map(|power| now.depth << power).collect();
    let found = [
        ("data.workers", now.workers, best(&many, &workers)),
        ("data.prefetch_batches", now.depth, best(&deep, &depth)),
    ];
    let mut proposals: Vec<WhatIfChange> = found
        .into_iter()
        .filter_map(|(key, from, best)| {
            let (to, played) = best?;
            let gain = played.rate / base - 1.0;
            // Fewer workers with the same rate are reported too: they free processors for the trainer.
            let is_worth = gain >= GAIN_MIN || (key == "data.workers" && to < from && gain > -GAIN_MIN);
            (to != from && is_worth).then(|| WhatIfChange { key, from, to, gain, within, then: consequence(&played) })
        })
        .collect();
    proposals.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(proposals)
}

/// Bottleneck of a simulated pipeline.
fn consequence(played: &Simulation) -> &'static str {
    if played.reader_busy > 0.95 {
        "the trainer becomes the bottleneck"
    } else if played.workers_blocked > 0.25 {
        "the queues between them become the bottleneck"
    } else {
        "the loader remains the bottleneck"
    }
}

fn layout_of(measured: &Measured) -> Layout {
    Layout { workers: measured.workers.len(), depth: measured.depth, cores: measured.processors() }
}

/// Builds the model from the measured costs. Time spent ready without a processor is left out: it depends on the
/// number of workers, and the model simulates it.
fn model_of(measured: &Measured) -> Result<Model, String> {
    let workers = MeanShares::new(measured);
    if matches!(bottleneck(measured), Bottleneck::Worker(_)) {
        return Err("no prediction: one worker is slower than the others, which more workers cannot fix".to_owned());
    }
    if workers.starved > 0.15 {
        return Err("no prediction: the workers wait for their input, which the model does not simulate".to_owned());
    }
    let shares = |busy: f64, cpu: f64, outside: f64| (cpu / busy.max(1e-9), outside / busy.max(1e-9));
    let of_workers = shares(workers.busy, workers.cpu, workers.outside);
    let reader = &measured.reader;
    let of_reader = shares(reader.busy, reader.cpu.unwrap_or(reader.busy), reader.outside());
    let costs = |costs: &[f32], (cpu, wait): (f64, f64)| {
        costs.iter().map(|&cost| Cost { cpu: f64::from(cost) * cpu, wait: f64::from(cost) * wait }).collect::<Vec<_>>()
    };
    // The first item of a reader includes its start.
    let model = Model {
        worker: costs(&measured.worker_costs, of_workers),
        reader: costs(measured.reader_costs.get(1..).unwrap_or_default(), of_reader),
    };
    if model.worker.is_empty() || model.reader.is_empty() {
        return Err("too little was measured for a prediction; measure for longer (`--seconds`)".to_owned());
    }
    Ok(model)
}
