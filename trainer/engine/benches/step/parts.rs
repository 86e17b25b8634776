//! Parts of a masked language modelling step, with the minimum time of each part's products.

use trainer::device::step_timer::{self, OTHER, StepTimes};

use crate::common::WORDS;
use crate::median;
use crate::methods::{ROWS, Setting};

/// Seconds of each part, step by step.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<(String, Vec<f64>)>,
}

impl Parts {
    /// Runs a step and records the times of its parts.
    pub(crate) fn step(&mut self, step: impl FnOnce()) {
        step_timer::begin();
        step();
        let StepTimes { parts, .. } = step_timer::end().expect("it was begun");
        for part in parts.into_iter().filter(|part| part.name != OTHER) {
            match self.parts.iter_mut().find(|(name, _)| *name == part.name) {
                Some((_, seconds)) => seconds.push(part.host_s),
                None => self.parts.push((part.name, vec![part.host_s])),
            }
        }
    }

    /// Prints a table with the time of each part, and the time of its products at `rate` operations per second.
    pub(crate) fn print(&self, setting: Setting, rate: f64) {
        println!("| part of mlm | ms | of it | GFLOP | at the rate of the largest product, ms | share of the rate |");
        println!("|---|---|---|---|---|---|");
        let median_of = |seconds: &Vec<f64>| median(seconds.clone());
        let all: f64 = self.parts.iter().map(|(_, seconds)| median_of(seconds)).sum();
        for (name, seconds) in &self.parts {
            let seconds = median_of(seconds);
            let operations = operations(name, setting);
            println!(
                "| {name} | {:.1} | {:.1} % | {:.1} | {:.1} | {} |",
                seconds * 1e3,
                100.0 * seconds / all,
                operations / 1e9,
                operations / rate * 1e3,
                if operations > 0.0 {
                    format!("{:.0} %", 100.0 * operations / rate / seconds)
                } else {
                    "–".to_owned()
                }
            );
        }
    }
}

/// Number of operations in the products of a part.
fn operations(part: &str, setting: Setting) -> f64 {
    let shape = setting.encoder(false);
    let [layers, d, f, v] = [shape.layers, shape.hidden, shape.feed_forward, WORDS].map(f64::from);
    let tokens = (ROWS * setting.width) as f64;
    let width = setting.width as f64;
    let masked = 0.15 * tokens;
    let attention = layers * tokens * (8.0 * d * d + 4.0 * d * width);
    let feed_forward = layers * tokens * 4.0 * d * f;
    let transform = 2.0 * masked * d * d;
    let scores = 2.0 * masked * d * v;
    match part {
        "attention" => attention,
        "feed_forward" => feed_forward,
        // The gradient of the scores by hidden states is computed with the scores.
        "objective mlm" => transform + 2.0 * scores,
        "backward" => 2.0 * (attention + feed_forward + transform) + scores,
        _ => 0.0,
    }
}
