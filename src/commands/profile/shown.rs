//! A profile for people and for programs.

use profiler::bottleneck::Binding;
use profiler::measure::{ActorFigures, Measured};
use profiler::stages::{HeldBack, StageCost};
pub use profiler::statistics::{nanoseconds, percent};
use profiler::what_if::Proposal;
use serde_json::Value;
use telemetry::quantities::{bytes, short};
use telemetry::terminal::note;

use crate::cli::ConfigArgs;

/// What was measured of a half, and what is said of it.
pub struct Profile {
    /// The name of the half.
    pub target: &'static str,
    /// The verdict in one sentence.
    pub sentence: String,
    /// What binds a pipeline; none of a preparation, whose stages are one actor's.
    pub binding: Option<Binding>,
    /// The observations behind it.
    pub evidence: Vec<String>,
    /// What a change would bring, or why nobody can say; none where nobody asks.
    pub what_if: Option<Result<Vec<Proposal>, String>>,
    /// What the first of them brought, measured, as a share.
    pub checked: Option<f64>,
    /// Tokens of one item.
    pub tokens_per_item: f64,
    /// Where it does not go by items.
    pub tokens_per_s: Option<f64>,
    /// Of a preparation: what each took of the workers' work.
    pub stages: Option<[StageCost; 4]>,
    /// The name of the consumer.
    pub reader: &'static str,
    /// What is known of a trainer's steps.
    pub training: Option<Told>,
    /// Of a preparation: what holds its workers back in addition themselves.
    pub held_back: Option<HeldBack>,
    /// The measurements.
    pub measured: Measured,
}

/// The same for people and for programs.
pub struct Told {
    /// Lines for people.
    pub lines: Vec<String>,
    /// The same for programs.
    pub json: Value,
}

impl Profile {
    /// The most promising change.
    pub(super) fn proposed(&self) -> Option<&Proposal> {
        self.what_if.as_ref()?.as_ref().ok()?.first()
    }

    /// How much faster another profile is, as a share.
    pub(super) fn gain_of(&self, other: &Self) -> Option<f64> {
        Some(other.tokens_per_s()? / self.tokens_per_s()? - 1.0)
    }

    /// Runs what is proposed first, and notes what it brings.
    pub fn check(
        &mut self,
        args: &ConfigArgs,
        measure: impl FnOnce(&ConfigArgs) -> anyhow::Result<Self>,
    ) -> anyhow::Result<()> {
        let Some(Proposal { key, to, .. }) = self.proposed() else {
            note("--check: nothing was predicted, and nothing is run");
            return Ok(());
        };
        let mut changed = args.clone();
        changed.set.push(format!("{key}={to}"));
        self.checked = self.gain_of(&measure(&changed)?);
        Ok(())
    }

    /// Tokens a second, if they are known.
    pub fn tokens_per_s(&self) -> Option<f64> {
        self.tokens_per_s.or_else(|| Some(self.measured.rate?.mean * self.tokens_per_item))
    }

    /// The profile for people, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        lines.extend(self.evidence.iter().map(|line| format!("  {line}")));
        match &self.what_if {
            Some(Ok(proposals)) => {
                lines.extend(proposals.iter().map(|proposal| format!("what if: {}", proposal.words())));
            }
            Some(Err(why)) => lines.push(format!("what if: {why}")),
            None => {}
        }
        if let (Some(gain), Some(proposal)) = (self.checked, self.proposed()) {
            let (key, to, said) = (proposal.key, proposal.to, 100.0 * proposal.gain);
            lines.push(format!("checked: `{key}` {to} brought {:+.0} %, predicted were {said:+.0} %", 100.0 * gain));
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

    /// Workers, then whoever takes what they make, under its own name.
    pub(super) fn actors(&self) -> impl Iterator<Item = (String, &ActorFigures)> {
        let workers = self.measured.workers.iter().map(|worker| (worker.name.clone(), worker));
        workers.chain([(self.reader.to_owned(), &self.measured.reader)])
    }

    /// Busy nanoseconds of an actor for each token of what it made, or took; none where tokens are not counted.
    pub(super) fn ns_per_token(&self, actor: &ActorFigures) -> Option<f64> {
        let tokens = if actor.tokens > 0 { actor.tokens as f64 } else { actor.items as f64 * self.tokens_per_item };
        (tokens > 0.0).then(|| actor.busy * self.measured.seconds * 1e9 / tokens)
    }

    fn speed(&self) -> String {
        let Measured { seconds, warm_up_s, rate, .. } = &self.measured;
        let over = format!("over {seconds:.1} s, after {warm_up_s:.1} s that warm up");
        match (self.tokens_per_s, rate) {
            (Some(speed), _) => format!("{} tokens/s {over}", short(speed)),
            (None, Some(rate)) => {
                format!("{} tokens/s (± {}) {over}", short(rate.mean * self.tokens_per_item), percent(rate.spread()))
            }
            (None, None) => format!("too short for a rate: {over}"),
        }
    }
}

fn row(name: &str, actor: &ActorFigures, ns_per_token: Option<f64>) -> String {
    let ActorFigures { items, busy, starved, blocked, cpu, counted, .. } = actor;
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
    let (ns, read) = (or_dash(ns_per_token, nanoseconds), or_dash(bytes_in, bytes));
    format!("{name:<12} {:>8} {ns:>8} {read:>9} {:>9}", percent(share), or_dash(bytes_out, bytes))
}

fn or_dash<T>(figure: Option<T>, words: impl FnOnce(T) -> String) -> String {
    figure.map_or("–".to_owned(), words)
}
