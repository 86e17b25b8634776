//! JSON object of a profile. `docs/profiling.md` documents its keys.

use std::fs::read_to_string;
use std::path::Path;

use profiler::VERSION;
use profiler::bottleneck::Bottleneck;
use profiler::measure::{ActorMetrics, Measured, Timeline};
use profiler::stages::StageCost;
use profiler::statistics::Estimate;
use profiler::what_if::WhatIfChange;
use serde_json::{Value, json};

use super::shown::Profile;
use crate::run::monitoring::PROGRAM;

impl Profile {
    /// Returns the whole object. `configuration` is the measured file.
    pub fn object(&self, configuration: &Path) -> Value {
        let Measured { seconds, warm_up_s, rate, windows, queues, cores, depth, timeline, overhead, .. } =
            &self.measured;
        let tokens = self.tokens_per_item;
        let speed = match (self.tokens_per_s, rate) {
            (Some(speed), _) => json!({ "mean": speed, "low": null, "high": null }),
            (None, Some(rate)) => {
                json!({ "mean": rate.mean * tokens, "low": rate.low * tokens, "high": rate.high * tokens })
            }
            (None, None) => Value::Null,
        };
        let worker = self
            .bottleneck
            .as_ref()
            .and_then(|bottleneck| if let Bottleneck::Worker(name) = bottleneck { Some(name) } else { None });
        json!({
            "version": VERSION, "target": self.target,
            "verdict": { "bottleneck": self.bottleneck.as_ref().map(Bottleneck::name), "worker": worker, "sentence": self.sentence, "evidence": self.evidence },
            "what_if": self.changes(), "checked_gain": self.checked,
            "seconds": seconds, "warm_up_s": warm_up_s, "tokens_per_s": speed,
            "items_per_s": rate.map(|Estimate { mean, low, high }| json!({ "mean": mean, "low": low, "high": high })),
            "windows": windows, "tokens_per_item": (tokens > 0.0).then_some(tokens),
            "actors": self.actors().map(|(name, actor)| self.actor(&name, actor)).collect::<Vec<_>>(),
            "queues": {
                "capacity": queues.capacity, "depth": depth, "mean": queues.mean, "full": queues.full,
                "empty": queues.empty, "interval": interval(queues.interval),
            },
            "stages": self.stages.map(|stages| stages.iter().map(|it| (it.name.to_owned(), json!(it.share))).collect::<Value>()),
            "stage_costs": self.stages.map(|stages| stages.iter().map(stage).collect::<Vec<_>>()),
            "memory": memory(timeline),
            "timeline": course(timeline, &self.actors().map(|(name, _)| name).collect::<Vec<_>>()),
            "processors": cores, "overhead": overhead,
            "machine": machine(configuration),
            "training": self.training.as_ref().map_or(&Value::Null, |training| &training.json),
        })
    }

    fn changes(&self) -> Value {
        match &self.what_if {
            Some(Ok(proposals)) => proposals.iter().map(proposed).collect(),
            Some(Err(why)) => json!({ "none": why }),
            None => Value::Null,
        }
    }

    fn actor(&self, name: &str, actor: &ActorMetrics) -> Value {
        let ActorMetrics { items, busy, starved, blocked, cpu, queued, intervals, counted, .. } = actor;
        json!({
            "name": name, "items": items, "busy": busy, "starved": starved, "blocked": blocked, "idle": actor.idle(),
            "processor": cpu, "ready": queued, "outside": actor.outside(),
            "intervals": {
                "busy": interval(intervals.busy), "starved": interval(intervals.starved),
                "blocked": interval(intervals.blocked), "processor": interval(intervals.cpu),
                "ready": interval(intervals.queued),
            },
            "ns_per_token": self.ns_per_token(actor),
            "bytes_in": counted.and_then(|counted| counted.read_bytes),
            "bytes_out": Some(actor.bytes).filter(|bytes| *bytes > 0),
            "faults": counted.map(|counted| json!({ "minor": counted.minor_faults, "major": counted.major_faults })),
        })
    }
}

fn proposed(proposal: &WhatIfChange) -> Value {
    let WhatIfChange { key, from, to, gain, within, then } = proposal;
    json!({ "key": key, "from": from, "to": to, "gain": gain, "within": within, "then": then })
}

/// Interval of a fraction, clamped to 0 to 1.
fn interval(of: Option<Estimate>) -> Value {
    of.map_or(Value::Null, |of| json!({ "low": of.low.clamp(0.0, 1.0), "high": of.high.clamp(0.0, 1.0) }))
}

fn stage(cost: &StageCost) -> Value {
    let StageCost { name, share, seconds, ns_per_token, bytes_in, bytes_out } = cost;
    json!({ "stage": name, "share": share, "seconds": seconds, "ns_per_token": ns_per_token, "bytes_in": bytes_in,
            "bytes_out": bytes_out })
}

/// Memory of the process by known owner, at the window with the maximum.
fn memory(timeline: &Timeline) -> Value {
    let windows = timeline.resident_bytes.iter().zip(&timeline.queued_bytes);
    let most = windows.filter_map(|(resident, queued)| Some(((*resident)?, *queued))).max();
    most.map_or(Value::Null, |(resident, queued)| {
        json!([
            { "owner": "items in queues", "bytes": queued.min(resident) },
            { "owner": "everything else", "bytes": resident.saturating_sub(queued) },
        ])
    })
}

/// Columns with one value per window, rounded to the resolution of a plot.
fn course(timeline: &Timeline, names: &[String]) -> Value {
    let cut = |values: &[f64], digits: i32| -> Vec<f64> {
        let unit = 10_f64.powi(digits);
        values.iter().map(|value| (value * unit).round() / unit).collect()
    };
    let actors: Vec<Value> = names
        .iter()
        .zip(&timeline.actors)
        .map(|(name, course)| {
            json!({ "name": name, "busy": cut(&course.busy, 4), "starved": cut(&course.starved, 4),
                    "blocked": cut(&course.blocked, 4) })
        })
        .collect();
    json!({
        "from_s": cut(&[timeline.from_s], 4)[0], "at_s": cut(&timeline.at_s, 4),
        "items_per_s": cut(&timeline.items_per_s, 2), "queue": cut(&timeline.queue, 4),
        "resident_bytes": timeline.resident_bytes, "queued_bytes": timeline.queued_bytes, "actors": actors,
    })
}

/// Machine and command of the measurement.
fn machine(configuration: &Path) -> Value {
    let kernel = read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| format!("Linux {}", text.trim()));
    let processor = read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
        Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
    });
    let command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let name = configuration.file_name().map(|name| name.to_string_lossy().into_owned());
    json!({ "program": PROGRAM, "kernel": kernel, "processor": processor, "configuration": name,
            "command": command.join(" ") })
}
