//! What binds a preparation: its workers do everything, one stage after another.

use std::time::Duration;

use pipeline::prepare::{PrepareSummary, Stage, Stages};

use crate::measure::{Means, Measured};
use crate::statistics::percent;

/// Of the workers' work: from here on it is the others that are the matter.
const MUCH: f64 = 0.25;

/// What holds workers back that is no matter between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// There are fewer parts than workers.
    Parts,
    /// There are fewer processors than workers that want one.
    Processors,
}

impl HeldBack {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Parts => "too few parts bind",
            Self::Processors => "processors bind",
        }
    }
}

/// What holds the workers back, if anything does. `parts` is what there was to make.
pub fn held_back(measured: &Measured, parts: u64) -> Option<HeldBack> {
    let Means { busy, queued, .. } = Means::of(measured);
    if parts < measured.workers.len() as u64 {
        Some(HeldBack::Parts)
    } else {
        (queued / busy.max(1e-9) > MUCH).then_some(HeldBack::Processors)
    }
}

/// The sentence, and what it rests on. `parts` is what there was to make.
pub fn judge(measured: &Measured, stages: &Stages, parts: u64) -> (String, Vec<String>) {
    let (shares, slowest) = (shares(stages), stages.slowest());
    let Means { busy, queued, outside, idle, .. } = Means::of(measured);
    let (queued, outside) = (queued / busy.max(1e-9), outside / busy.max(1e-9));
    let held_back = held_back(measured, parts);
    let sentence = if held_back == Some(HeldBack::Parts) {
        format!(
            "too few parts bind: {parts} for {} workers; `prepare.part_bytes` makes smaller ones, and one compressed file is \
             one part",
            measured.workers.len()
        )
    } else if held_back == Some(HeldBack::Processors) {
        format!(
            "processors bind: {} workers for {}; they are ready without one {} of their working time",
            measured.workers.len(),
            measured.cores,
            percent(queued)
        )
    } else if outside > 0.5 {
        format!(
            "the disk binds (or what stands for it): workers wait outside {} of their working time, most of it {}",
            percent(outside),
            doing(slowest)
        )
    } else {
        let rest: Vec<String> = shares
            .iter()
            .filter(|(stage, _)| *stage != slowest)
            .map(|(stage, share)| format!("{} {}", doing(*stage), percent(*share)))
            .collect();
        let share = shares.iter().find(|(stage, _)| *stage == slowest).map_or(0.0, |(_, share)| *share);
        format!("{} binds: {} of the workers' work ({})", doing(slowest), percent(share), rest.join(", "))
    };
    let idle = if idle > 0 { format!("; {idle} had nothing to make") } else { String::new() };
    let evidence = format!(
        "workers at work: busy {} of the time, of that on a processor {}, ready for one {}, outside {}{idle}",
        percent(busy),
        percent((1.0 - queued - outside).max(0.0)),
        percent(queued),
        percent(outside)
    );
    (sentence, vec![evidence])
}

/// Each stage with its share of the workers' work.
pub(crate) fn shares(stages: &Stages) -> [(Stage, f64); 4] {
    let total = (stages.read + stages.tokenize + stages.pack + stages.write).as_secs_f64().max(1e-9);
    let share = |part: Duration| part.as_secs_f64() / total;
    [
        (Stage::Read, share(stages.read)),
        (Stage::Tokenize, share(stages.tokenize)),
        (Stage::Pack, share(stages.pack)),
        (Stage::Write, share(stages.write)),
    ]
}

/// What a stage took, and what went into it and came out, as far as that is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageCost {
    /// The name of the stage.
    pub name: &'static str,
    /// Of the workers' work.
    pub share: f64,
    /// Seconds of all workers together.
    pub seconds: f64,
    /// None where there were no tokens.
    pub ns_per_token: Option<f64>,
    /// Bytes that went in; none where they are not counted.
    pub bytes_in: Option<u64>,
    /// Bytes that came out; none where they are not counted.
    pub bytes_out: Option<u64>,
}

/// Each stage of a preparation with its costs.
pub fn costs(summary: &PrepareSummary) -> [StageCost; 4] {
    let stages = &summary.stages;
    let (text, tokens) = (Some(summary.text_bytes_made), summary.corpus.tokens);
    // Samples that are thrown away are written nowhere.
    let written = Some(summary.shard_bytes).filter(|bytes| *bytes > 0);
    let bytes = [(Some(summary.bytes_read), text), (text, None), (None, None), (None, written)];
    let times = [stages.read, stages.tokenize, stages.pack, stages.write].map(|time| time.as_secs_f64());
    let shares = shares(stages);
    std::array::from_fn(|at| StageCost {
        name: ["read", "tokenize", "pack", "write"][at],
        share: shares[at].1,
        seconds: times[at],
        ns_per_token: (tokens > 0).then(|| times[at] * 1e9 / tokens as f64),
        bytes_in: bytes[at].0,
        bytes_out: bytes[at].1,
    })
}

fn doing(stage: Stage) -> &'static str {
    match stage {
        Stage::Read => "reading",
        Stage::Tokenize => "tokenizing",
        Stage::Pack => "packing",
        Stage::Write => "writing",
    }
}
