//! Bottleneck of a preparation. Each worker runs all stages one after another.

use std::time::Duration;

use pipeline::prepare::{PrepareSummary, Stage, Stages};

use crate::measure::{MeanShares, Measured};
use crate::statistics::percent;

/// Share of the workers' working time above which waiting for processors is the bottleneck.
const MUCH: f64 = 0.25;

/// Limit of the workers that is not contention among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageLimit {
    /// There are fewer parts than workers.
    Parts,
    /// There are fewer processors than workers that want one.
    Processors,
}

impl StageLimit {
    /// Describes the limit.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Parts => "too few parts",
            Self::Processors => "the processors are the bottleneck",
        }
    }
}

/// Returns the limit of the workers, if any. `parts` is the number of parts to prepare.
pub fn held_back(measured: &Measured, parts: u64) -> Option<StageLimit> {
    let MeanShares { busy, queued, .. } = MeanShares::new(measured);
    if parts < measured.workers.len() as u64 {
        Some(StageLimit::Parts)
    } else {
        (queued / busy.max(1e-9) > MUCH).then_some(StageLimit::Processors)
    }
}

/// Returns the verdict and its evidence. `parts` is the number of parts to prepare. `has_compressed` tells whether an
/// input file is compressed.
pub fn find_slowest(measured: &Measured, stages: &Stages, parts: u64, has_compressed: bool) -> (String, Vec<String>) {
    let shares = shares(stages);
    let slowest = stages.slowest();
    let MeanShares { busy, queued, outside, idle, .. } = MeanShares::new(measured);
    let queued = queued / busy.max(1e-9);
    let outside = outside / busy.max(1e-9);
    let held_back = held_back(measured, parts);
    let sentence = if held_back == Some(StageLimit::Parts) {
        // Only compressed files cannot be split.
        let compressed = if has_compressed { "; a compressed input file is always one part" } else { "" };
        format!(
            "bottleneck: too few parts ({parts} for {} workers); a smaller `prepare.part_bytes` makes more, in a new \
             `prepare.folder`{compressed}",
            measured.workers.len()
        )
    } else if held_back == Some(StageLimit::Processors) {
        format!(
            "bottleneck: processors ({} workers on {}; ready without a processor {} of their working time)",
            measured.workers.len(),
            measured.cores,
            percent(queued)
        )
    } else if outside > 0.5 {
        format!(
            "bottleneck: disk or network (workers wait outside {} of their working time, most of it {})",
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
        format!("bottleneck: {} ({} of the workers' working time; {})", doing(slowest), percent(share), rest.join(", "))
    };
    let idle = if idle > 0 { format!("; {idle} idle") } else { String::new() };
    let evidence = format!(
        "workers: busy {} of the time, of that on a processor {}, ready without one {}, outside {}{idle}",
        percent(busy),
        percent((1.0 - queued - outside).max(0.0)),
        percent(queued),
        percent(outside)
    );
    (sentence, vec![evidence])
}

/// Returns each stage with its share of the workers' working time.
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

/// Cost of a stage, with its input and output bytes where they are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageCost {
    /// The name of the stage.
    pub name: &'static str,
    /// Share of the workers' working time.
    pub share: f64,
    /// Seconds, summed over all workers.
    pub seconds: f64,
    /// Nanoseconds per token. `None` if there were no tokens.
    pub ns_per_token: Option<f64>,
    /// Input bytes. `None` if they are not counted.
    pub bytes_in: Option<u64>,
    /// Output bytes. `None` if they are not counted.
    pub bytes_out: Option<u64>,
}

/// Returns each stage of a preparation with its costs.
pub fn costs(summary: &PrepareSummary) -> [StageCost; 4] {
    let stages = &summary.stages;
    let text = Some(summary.text_bytes_made);
    let tokens = summary.corpus.tokens;
    // Discarded samples are not written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_on_parts_names_the_new_folder_and_compression_only_if_present() {
        let measured = Measured { workers: vec![crate::figures::ActorMetrics::default(); 2], ..Measured::default() };
        let sentence = |has_compressed| find_slowest(&measured, &Stages::default(), 1, has_compressed).0;
        assert!(sentence(false).ends_with("makes more, in a new `prepare.folder`"), "{}", sentence(false));
        assert!(sentence(true).ends_with("; a compressed input file is always one part"), "{}", sentence(true));
    }
}
