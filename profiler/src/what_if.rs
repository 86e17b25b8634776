//! What a change would bring, by the model of the run that was measured.

use crate::bottleneck::Binding;
use crate::measure::{Means, Measured};
use crate::model::{Cost, Layout, Model, Played};
use crate::verdict::binding;

/// A gain that is worth a word.
pub const GAIN_MIN: f64 = 0.03;

/// How far the model may be from what was measured, played as it was.
const MISFIT_MAX: f64 = 0.10;

/// How badly a rate may be known, as a share, for anything to be predicted of it.
const NOISE_MAX: f64 = 0.2;

/// Of what can be had a proposal has so much: more workers than it takes are in the way.
const NEARLY: f64 = 0.98;

/// A change with what it would bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The key of the configuration.
    pub key: &'static str,
    /// Its value now.
    pub from: usize,
    /// Its proposed value.
    pub to: usize,
    /// As a share: 0.21 is 21 % more.
    pub gain: f64,
    /// How sure that is, as a share: half of the measured interval, and how far the model was from what was measured.
    pub within: f64,
    /// What binds then.
    pub then: &'static str,
}

impl Proposal {
    /// The proposal in one line.
    pub fn words(&self) -> String {
        let Self { key, from, to, gain, within, then } = self;
        let gain = match gain {
            gain if gain.abs() < GAIN_MIN => "as fast".to_owned(),
            gain => format!("{:+.0} %", 100.0 * gain),
        };
        format!("`{key}` {from} → {to}: {gain} (± {:.0}); then {then}", (100.0 * within).ceil())
    }
}

/// What could be changed, the most promising first; or why nobody can say.
pub fn proposals(measured: &Measured) -> Result<Vec<Proposal>, String> {
    let (model, now) = (model_of(measured)?, layout_of(measured));
    let rate = measured.rate.filter(|rate| rate.mean.is_finite() && rate.mean > 0.0);
    let rate = rate.ok_or("too little was measured to foretell anything")?;
    if rate.spread() > NOISE_MAX {
        return Err(format!(
            "the rate is known to ± {:.0} % only: measure for longer, or when nobody else is at work; nothing is predicted",
            100.0 * rate.spread()
        ));
    }
    let misfit = model.misfit(now, rate.mean);
    if misfit.abs() > MISFIT_MAX {
        return Err(format!(
            "the model does not fit this run (played as it is it comes to {:+.0} % of what was measured): nothing is predicted",
            100.0 * misfit
        ));
    }
    let within = rate.spread().max(misfit.abs()).max(0.01);
    let base = model.play(now).rate;
    let best = |candidates: &[usize], layout: &dyn Fn(usize) -> Layout| {
        let played: Vec<(usize, Played)> = candidates.iter().map(|&to| (to, model.play(layout(to)))).collect();
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
    let mut proposals: Vec<Proposal> = found
        .into_iter()
        .filter_map(|(key, from, best)| {
            let (to, played) = best?;
            let gain = played.rate / base - 1.0;
            // Fewer workers that do as well are worth a word too: they are in the trainer's way.
            let is_worth = gain >= GAIN_MIN || (key == "data.workers" && to < from && gain > -GAIN_MIN);
            (to != from && is_worth).then(|| Proposal { key, from, to, gain, within, then: then(&played) })
        })
        .collect();
    proposals.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(proposals)
}

/// What binds a pipeline that was played.
fn then(played: &Played) -> &'static str {
    if played.reader_busy > 0.95 {
        "the trainer binds"
    } else if played.workers_blocked > 0.25 {
        "the room between them binds"
    } else {
        "the loader still binds"
    }
}

fn layout_of(measured: &Measured) -> Layout {
    Layout { workers: measured.workers.len(), depth: measured.depth, cores: measured.processors() }
}

/// Costs as they were measured. What was spent ready without a processor comes of how many there were, and is left out: the
/// model has that by itself.
fn model_of(measured: &Measured) -> Result<Model, String> {
    let workers = Means::of(measured);
    if matches!(binding(measured), Binding::Worker(_)) {
        return Err(
            "one worker is slower than the others, which no number of them mends: nothing is predicted".to_owned()
        );
    }
    if workers.starved > 0.15 {
        return Err(
            "the workers wait for what they read from, of which the model has none: nothing is predicted".to_owned()
        );
    }
    let shares = |busy: f64, cpu: f64, outside: f64| (cpu / busy.max(1e-9), outside / busy.max(1e-9));
    let of_workers = shares(workers.busy, workers.cpu, workers.outside);
    let reader = &measured.reader;
    let of_reader = shares(reader.busy, reader.cpu.unwrap_or(reader.busy), reader.outside());
    let costs = |costs: &[f32], (cpu, wait): (f64, f64)| {
        costs.iter().map(|&cost| Cost { cpu: f64::from(cost) * cpu, wait: f64::from(cost) * wait }).collect::<Vec<_>>()
    };
    // The first item of a reader has its start in it.
    let model = Model {
        worker: costs(&measured.worker_costs, of_workers),
        reader: costs(measured.reader_costs.get(1..).unwrap_or_default(), of_reader),
    };
    if model.worker.is_empty() || model.reader.is_empty() {
        return Err("too little was measured to foretell anything".to_owned());
    }
    Ok(model)
}
