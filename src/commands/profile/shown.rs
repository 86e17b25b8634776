//! A profile for people and for programs.

use serde_json::{Value, json};

use crate::profile::VERSION;
use crate::profile::judge::percent;
use crate::profile::measure::{ActorFigures, Measured};
use crate::profile::stages::HeldBack;
use crate::profile::whatif::Proposal;
use crate::terminal::short;

/// What was measured of a half, and what is said of it.
pub(crate) struct Profile {
    pub(super) half: &'static str,
    pub(super) sentence: String,
    /// What binds, in a word for programs.
    pub(super) binding: String,
    pub(super) evidence: Vec<String>,
    /// What a change would bring, or why nobody can say; none where nobody asks.
    pub(super) what_if: Option<Result<Vec<Proposal>, String>>,
    /// What the first of them brought, measured, as a share.
    pub(super) checked: Option<f64>,
    pub(super) tokens_per_item: f64,
    /// Where it does not go by items.
    pub(super) tokens_per_s: Option<f64>,
    /// Shares of the lanes' work: reading, tokenizing, packing, writing.
    pub(super) stages: Option<[f64; 4]>,
    pub(super) reader: &'static str,
    /// What is known of a trainer's steps.
    pub(super) training: Option<Told>,
    /// Of a preparation: what holds its lanes back besides themselves.
    pub(super) held_back: Option<HeldBack>,
    pub(in crate::commands) measured: Measured,
}

/// The same for people and for programs.
pub(super) struct Told {
    pub(super) lines: Vec<String>,
    pub(super) json: Value,
}

impl Profile {
    /// The most promising change.
    pub(super) fn proposed(&self) -> Option<&Proposal> {
        self.what_if.as_ref()?.as_ref().ok()?.first()
    }

    /// How much faster another profile is, as a share.
    pub(super) fn gain_of(&self, other: &Self) -> Option<f64> {
        let speed = |it: &Self| Some(it.measured.rate?.mean * it.tokens_per_item);
        Some(speed(other)? / speed(self)? - 1.0)
    }

    /// Tokens a second, if they are known.
    #[cfg(feature = "train")]
    pub(super) fn tokens_per_s(&self) -> Option<f64> {
        self.tokens_per_s.or_else(|| Some(self.measured.rate?.mean * self.tokens_per_item))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
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
            lines.push(format!("checked: `{key}` {to} brought {:+.0} %, foretold were {said:+.0} %", 100.0 * gain));
        }
        lines.push(String::new());
        lines.push(format!(
            "{:<14} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8}",
            "actor", "items", "busy", "starved", "blocked", "processor", "outside"
        ));
        lines.extend(self.actors().map(|(name, actor)| row(&name, actor)));
        lines.push(self.speed());
        lines.extend(self.training.iter().flat_map(|training| training.lines.iter().cloned()));
        lines
    }

    /// Lanes, then whoever takes what they make, under its own name.
    fn actors(&self) -> impl Iterator<Item = (String, &ActorFigures)> {
        let lanes = self.measured.lanes.iter().map(|lane| (lane.name.clone(), lane));
        lanes.chain([(self.reader.to_owned(), &self.measured.reader)])
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

    pub(crate) fn json(&self) -> Value {
        let Measured { seconds, warm_up_s, rate, windows, queues, cores, depth, .. } = &self.measured;
        let actors: Vec<Value> = self
            .actors()
            .map(|(name, actor)| {
                let ActorFigures { items, busy, starved, blocked, cpu, queued, .. } = actor;
                json!({ "name": name, "items": items, "busy": busy, "starved": starved, "blocked": blocked,
                        "processor": cpu, "ready": queued, "outside": actor.outside() })
            })
            .collect();
        let tokens = self.tokens_per_item;
        let speed = match (self.tokens_per_s, rate) {
            (Some(speed), _) => json!({ "mean": speed, "low": null, "high": null }),
            (None, Some(rate)) => {
                json!({ "mean": rate.mean * tokens, "low": rate.low * tokens, "high": rate.high * tokens })
            }
            (None, None) => Value::Null,
        };
        let what_if = match &self.what_if {
            Some(Ok(proposals)) => proposals.iter().map(proposed).collect(),
            Some(Err(why)) => json!({ "none": why }),
            None => Value::Null,
        };
        json!({
            "version": VERSION, "half": self.half,
            "verdict": { "binding": self.binding, "sentence": self.sentence, "evidence": self.evidence },
            "what_if": what_if, "checked_gain": self.checked,
            "seconds": seconds, "warm_up_s": warm_up_s, "tokens_per_s": speed, "windows": windows,
            "actors": actors,
            "queues": { "capacity": queues.capacity, "depth": depth, "mean": queues.mean, "full": queues.full, "empty": queues.empty },
            "stages": self.stages.map(|[read, tokenize, pack, write]| {
                json!({ "read": read, "tokenize": tokenize, "pack": pack, "write": write })
            }),
            "processors": cores,
            "training": self.training.as_ref().map_or(&Value::Null, |training| &training.json),
        })
    }
}

fn proposed(proposal: &Proposal) -> Value {
    let Proposal { key, from, to, gain, within, then } = proposal;
    json!({ "key": key, "from": from, "to": to, "gain": gain, "within": within, "then": then })
}

fn row(name: &str, actor: &ActorFigures) -> String {
    let ActorFigures { items, busy, starved, blocked, cpu, .. } = actor;
    let cpu = cpu.map_or("–".to_owned(), percent);
    format!(
        "{name:<14} {items:>8} {:>8} {:>8} {:>8} {cpu:>9} {:>8}",
        percent(*busy),
        percent(*starved),
        percent(*blocked),
        percent(actor.outside())
    )
}
