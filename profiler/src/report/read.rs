//! Typed view of a profile's JSON. Errors name the invalid key.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::InvalidProfile;

/// Largest length of a list, and largest absolute value of a number. Sums then stay finite.
const ENTRIES_MAX: usize = 1 << 16;
const NUMBER_MAX: f64 = 1e18;

/// Finite number.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(super) struct Number(pub(super) f64);

/// Share from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Share(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_f64(NumberRange(-NUMBER_MAX, NUMBER_MAX)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Clocks of one snapshot are read in sequence, so sums are inexact.
        from.deserialize_f64(NumberRange(-0.01, 1.01)).map(|share| Self(share.clamp(0.0, 1.0)))
    }
}

/// Range of numbers.
struct NumberRange(f64, f64);

impl NumberRange {
    fn parse<E: serde::de::Error>(&self, number: f64) -> Result<f64, E> {
        if (self.0..=self.1).contains(&number) { Ok(number) } else { Err(E::custom(format!("{number} is not {self}"))) }
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 < 2.0 { f.write_str("a share from 0 to 1") } else { f.write_str("a number up to 1e18") }
    }
}

impl Visitor<'_> for NumberRange {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<f64, E> {
        self.parse(number)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<f64, E> {
        self.parse(number as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<f64, E> {
        self.parse(number as f64)
    }
}

/// List of bounded length.
#[derive(Clone, Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entries = Vec::deserialize(from)?;
        if entries.len() > ENTRIES_MAX {
            return Err(D::Error::custom(format!("{} entries are more than {ENTRIES_MAX}", entries.len())));
        }
        Ok(Self(entries))
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Read {
    pub(super) target: String,
    pub(super) verdict: Verdict,
    #[serde(default)]
    pub(super) what_if: Option<WhatIf>,
    #[serde(default)]
    pub(super) checked_gain: Option<Number>,
    #[serde(default)]
    pub(super) seconds: Option<Number>,
    #[serde(default)]
    pub(super) warm_up_s: Option<Number>,
    #[serde(default)]
    pub(super) tokens_per_s: Option<Estimated>,
    #[serde(default)]
    pub(super) items_per_s: Option<Estimated>,
    #[serde(default)]
    pub(super) actors: List<Actor>,
    #[serde(default)]
    pub(super) queues: Option<Queues>,
    #[serde(default)]
    pub(super) stage_costs: Option<List<Stage>>,
    #[serde(default)]
    pub(super) memory: Option<List<Owner>>,
    #[serde(default)]
    pub(super) timeline: Option<Timeline>,
    #[serde(default)]
    pub(super) training: Option<Training>,
    #[serde(default)]
    pub(super) processors: Option<Number>,
    #[serde(default)]
    pub(super) overhead: Option<Number>,
    #[serde(default)]
    pub(super) machine: Option<Machine>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Verdict {
    pub sentence: String,
    #[serde(default)]
    pub evidence: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WhatIf {
    Changes(List<Change>),
    Nothing { none: String },
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Change {
    pub key: String,
    pub from: Number,
    pub to: Number,
    pub(super) gain: Number,
    pub(super) within: Number,
    pub(super) then: String,
}

/// Mean with its interval, if known.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Estimated {
    pub(super) mean: Number,
    #[serde(default)]
    pub(super) low: Option<Number>,
    #[serde(default)]
    pub(super) high: Option<Number>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) items: Number,
    pub(super) busy: Share,
    pub(super) starved: Share,
    pub(super) blocked: Share,
    #[serde(default)]
    pub(super) processor: Option<Share>,
    #[serde(default)]
    pub(super) outside: Option<Share>,
    #[serde(default)]
    pub(super) ns_per_token: Option<Number>,
    #[serde(default)]
    pub(super) bytes_in: Option<Number>,
    #[serde(default)]
    pub(super) bytes_out: Option<Number>,
    #[serde(default)]
    pub(super) faults: Option<Faults>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Faults {
    pub(super) minor: Number,
    pub(super) major: Number,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Queues {
    pub(super) capacity: Number,
    pub(super) mean: Share,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Stage {
    #[serde(rename = "stage")]
    pub(super) name: String,
    pub(super) share: Share,
    pub(super) seconds: Number,
    #[serde(default)]
    pub(super) ns_per_token: Option<Number>,
    #[serde(default)]
    pub(super) bytes_in: Option<Number>,
    #[serde(default)]
    pub(super) bytes_out: Option<Number>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Owner {
    pub(super) owner: String,
    pub(super) bytes: Number,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Timeline {
    #[serde(default)]
    pub from_s: Number,
    pub at_s: List<Number>,
    pub items_per_s: List<Number>,
    pub queue: List<Share>,
    #[serde(default)]
    pub resident_bytes: List<Option<Number>>,
    #[serde(default)]
    pub queued_bytes: List<Number>,
    #[serde(default)]
    pub actors: List<ActorSeries>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ActorSeries {
    pub(super) name: String,
    pub busy: List<Share>,
    pub starved: List<Share>,
    pub blocked: List<Share>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Training {
    pub(super) device: String,
    #[serde(default)]
    pub(super) device_name: Option<String>,
    pub(super) steps: Number,
    #[serde(default)]
    pub(super) tokens_per_step: Option<Number>,
    #[serde(default)]
    pub(super) micro_batches_per_step: Option<Number>,
    #[serde(default)]
    pub(super) micro_batch_size: Option<Number>,
    pub(super) step_ms: Estimated,
    #[serde(default)]
    pub(super) ranks: Option<RankTimes>,
    #[serde(default)]
    pub(super) phases: List<Phase>,
    #[serde(default)]
    pub(super) waterfall: List<Bar>,
    #[serde(default)]
    pub(super) device_waterfall: Option<List<Bar>>,
    #[serde(default)]
    pub(super) memory: List<Owner>,
    #[serde(default)]
    pub(super) memory_over_time: List<Memory>,
}

/// Division of a step of one of several ranks.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct RankTimes {
    pub(super) count: Number,
    pub(super) computation_ms: Number,
    pub(super) data_wait_ms: Number,
    pub(super) communication_ms: Number,
    pub(super) rank_wait_ms: Number,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Phase {
    pub(super) what: String,
    pub(super) host_ms: Number,
    #[serde(default)]
    pub(super) device_ms: Option<Number>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Bar {
    pub(super) what: String,
    pub(super) from_ms: Number,
    pub(super) to_ms: Number,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Memory {
    pub(super) at_s: Number,
    #[serde(default)]
    pub(super) resident_bytes: Option<Number>,
    #[serde(default)]
    pub(super) device_bytes: Option<Number>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Machine {
    #[serde(default)]
    pub(super) program: Option<String>,
    #[serde(default)]
    pub(super) kernel: Option<String>,
    #[serde(default)]
    pub(super) processor: Option<String>,
    #[serde(default)]
    pub(super) configuration: Option<String>,
    #[serde(default)]
    pub(super) command: Option<String>,
}

/// Reads a profile and checks that its columns have equal lengths.
pub(super) fn read(object: &Value) -> anyhow::Result<Read> {
    let read: Read = serde_path_to_error::deserialize(object).map_err(|error| {
        let key = error.path().to_string();
        InvalidProfile(format!("`{key}` of the profile: {}", error.into_inner()))
    })?;
    read.timeline.as_ref().map_or(Ok(()), Timeline::check)?;
    Ok(read)
}

impl Timeline {
    fn check(&self) -> Result<(), InvalidProfile> {
        let windows = self.at_s.0.len();
        let of_actors = self.actors.0.iter().enumerate().flat_map(|(at, course)| {
            let columns = [("busy", &course.busy), ("starved", &course.starved), ("blocked", &course.blocked)];
            columns.map(|(name, column)| (format!("actors[{at}].{name}"), column.0.len()))
        });
        let memory = [("resident_bytes", self.resident_bytes.0.len()), ("queued_bytes", self.queued_bytes.0.len())];
        let own = [("items_per_s", self.items_per_s.0.len()), ("queue", self.queue.0.len())];
        let own = own.into_iter().chain(memory.into_iter().filter(|(_, len)| *len > 0));
        let all = own.map(|(name, len)| (name.to_owned(), len)).chain(of_actors);
        for (name, len) in all {
            if len != windows {
                let message =
                    format!("`timeline.{name}` of the profile: {len} windows, and `timeline.at_s` has {windows}");
                return Err(InvalidProfile(message));
            }
        }
        let starts = [self.from_s].into_iter().chain(self.at_s.0.iter().copied());
        let ends = starts.zip(&self.at_s.0).position(|(before, at)| *at < before);
        ends.map_or(Ok(()), |at| {
            Err(InvalidProfile(format!("`timeline.at_s[{at}]` of the profile: smaller than the previous entry")))
        })
    }
}
