//! Profile of one target, as lines and as JSON.

use profiler::bottleneck::Bottleneck;
use profiler::measure::{ActorMetrics, Measured};
use profiler::stages::{StageCost, StageLimit};
pub use profiler::statistics::{nanoseconds, percent};
use profiler::what_if::WhatIfChange;
use serde_json::Value;
use telemetry::quantities::{bytes, short};
use telemetry::terminal::note;

use crate::cli::ConfigArgs;

/// Measurements of a target and the conclusions from them.
pub struct Profile {
    /// Name of the target.
    pub target: &'static str,
    /// Conclusion in one sentence.
    pub sentence: String,
    /// Consumer of the items; empty if that needs no words.
    pub against: String,
    /// Bottleneck of a pipeline. None for a preparation, whose stages belong to one actor.
    pub bottleneck: Option<Bottleneck>,
    /// Observations that support the conclusion.
    pub evidence: Vec<String>,
    /// Predicted gains, or the reason why there is no prediction. None if no prediction was requested.
    pub what_if: Option<Result<Vec<WhatIfChange>, String>>,
    /// Measured gain of the first proposal, as a fraction.
    pub checked: Option<f64>,
    /// Tokens per item.
    pub tokens_per_item: f64,
    /// Token rate of a target that does not count items.
    pub tokens_per_s: Option<f64>,
    /// For a preparation: cost of each stage of the workers.
    pub stages: Option<[StageCost; 4]>,
    /// Name of the consumer.
    pub reader: &'static str,
    /// Times of a trainer's steps.
    pub training: Option<ProfileOutput>,
    /// For a preparation: limits of its workers from outside.
    pub held_back: Option<StageLimit>,
    /// The measurements.
    pub measured: Measured,
}

/// Times as lines and as JSON.
pub struct ProfileOutput {
    /// Lines of text.
    pub lines: Vec<String>,
    /// JSON value.
    pub json: Value,
}

impl Profile {
    /// Proposal with the largest gain.
    pub(super) fn proposed(&self) -> Option<&WhatIfChange> {
        self.what_if.as_ref()?.as_ref().ok()?.first()
    }

    /// Relative speed-up of another profile, as a fraction.
    pub(super) fn gain_of(&self, other: &Self) -> Option<f64> {
        Some(other.tokens_per_s()? / self.tokens_per_s()? - 1.0)
    }

    /// Measures the first proposal and records its gain.
    pub fn check(
        &mut self,
        args: &ConfigArgs,
        measure: impl FnOnce(&ConfigArgs) -> anyhow::Result<Self>,
    ) -> anyhow::Result<()> {
        let Some(WhatIfChange { key, to, .. }) = self.proposed() else {
            note("--check: no prediction, so nothing is measured");
            return Ok(());
        };
        let mut changed = args.clone();
        changed.set.push(format!("{key}={to}"));
        self.checked = self.gain_of(&measure(&changed)?);
        Ok(())
    }

    /// Tokens per second, if known.
    pub fn tokens_per_s(&self) -> Option<f64> {
        self.tokens_per_s.or_else(|| Some(self.measured.rate?.mean * self.tokens_per_item))
    }

    /// Lines of text of the profile.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        lines.extend((!self.against.is_empty()).then(|| format!("  {}", self.against)));
        lines.extend(self.evidence.iter().map(|line| format!("  {line}")));
        match &self.what_if {
            Some(Ok(proposals)) => {
                lines.extend(proposals.iter().map(|proposal| format!("what-if: {}", proposal.describe())));
            }
            Some(Err(why)) => lines.push(format!("what-if: {why}")),
            None => {}
        }
        if let (Some(gain), Some(proposal)) = (self.checked, self.proposed()) {
            let key = proposal.key;
            let to = proposal.to;
            let predicted = 100.0 * proposal.gain;
            lines.push(format!("checked: `{key}` {to} measured {:+.0} %, predicted {predicted:+.0} %", 100.0 * gain));
        }
        lines.push(String::new());
        lines.push(format!(
            "{:<12} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>8} {:>7} {:>9} {:>9}",
            "actor",
            "items",
            "busy",
            "starved",
            "blocked",
            "idle",
            "processor",
            "outside",
            "ns/token",
            "faults",
            "in",
            "out"
        ));
        lines.extend(self.actors().map(|(name, actor)| row(&name, actor, self.ns_per_token(actor))));
        if let Some(stages) = &self.stages {
            lines.push(String::new());
            lines.push(format!("{:<12} {:>8} {:>8} {:>9} {:>9}", "stage", "share", "ns/token", "in", "out"));
            lines.extend(stages.iter().map(stage));
        }
        lines.push(self.speed());
        lines.extend(self.training.iter().flat_map(|training| training.lines.iter().cloned()));
        lines
    }

    /// Workers, then the consumer under its own name.
    pub(super) fn actors(&self) -> impl Iterator<Item = (String, &ActorMetrics)> {
        let workers = self.measured.workers.iter().map(|worker| (worker.name.clone(), worker));
        workers.chain([(self.reader.to_owned(), &self.measured.reader)])
    }

    /// Busy nanoseconds of an actor per token produced or consumed. None if tokens are not counted.
    pub(super) fn ns_per_token(&self, actor: &ActorMetrics) -> Option<f64> {
        let tokens = if actor.tokens > 0 { actor.tokens as f64 } else { actor.items as f64 * self.tokens_per_item };
        (tokens > 0.0).then(|| actor.busy * self.measured.seconds * 1e9 / tokens)
    }

    fn speed(&self) -> String {
        let Measured { seconds, warm_up_s, rate, .. } = &self.measured;
        let over = format!("over {seconds:.1} s, after {warm_up_s:.1} s of warm-up");
        match (self.tokens_per_s, rate) {
            (Some(speed), _) => format!("{} tokens/s {over}", short(speed)),
            (None, Some(rate)) => {
                format!("{} tokens/s (± {}) {over}", short(rate.mean * self.tokens_per_item), percent(rate.spread()))
            }
            (None, None) => format!("too short for a rate: {over}"),
        }
    }
}

fn row(name: &str, actor: &ActorMetrics, ns_per_token: Option<f64>) -> String {
    let ActorMetrics { items, busy, starved, blocked, cpu, counted, .. } = actor;
    let faults = counted.map(|counted| counted.minor_faults + counted.major_faults);
    let read = counted.and_then(|counted| counted.read_bytes);
    let made = Some(actor.bytes).filter(|bytes| *bytes > 0);
    format!(
        "{name:<12} {items:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>8} {:>7} {:>9} {:>9}",
        percent(*busy),
        percent(*starved),
        percent(*blocked),
        percent(actor.idle()),
        or_dash(*cpu, percent),
        percent(actor.outside()),
        or_dash(ns_per_token, nanoseconds),
        or_dash(faults, |faults| short(faults as f64)),
        or_dash(read, bytes),
        or_dash(made, bytes)
    )
}

fn stage(stage: &StageCost) -> String {
    let StageCost { name, share, ns_per_token, bytes_in, bytes_out, .. } = *stage;
    let ns = or_dash(ns_per_token, nanoseconds);
    let read = or_dash(bytes_in, bytes);
    format!("{name:<12} {:>8} {ns:>8} {read:>9} {:>9}", percent(share), or_dash(bytes_out, bytes))
}

fn or_dash<T>(figure: Option<T>, words: impl FnOnce(T) -> String) -> String {
    figure.map_or("–".to_owned(), words)
}
