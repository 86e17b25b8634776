//! Profile of measured training steps: their parts and memory, as text and as JSON.

use std::time::Instant;

use cloze::cli::ProfileTarget;
use cloze::commands::profile::shown::{Profile, ProfileOutput};
use cloze::plan::Plan;
use cloze::run::control::Control;
use profiler::measure::{MeasureWatch, Measured};
use profiler::statistics::{Estimate, mean_of, milliseconds, percent};
use profiler::verdict::find_bottleneck;
use profiler::what_if::proposals;
use schemas::RankShard;
use serde_json::{Value, json};
use telemetry::quantities::{bytes, short};
use trainer::device::step_timer::{
    self, ALL_REDUCE, EXCHANGE, MemoryAt, PartTimes, Slice, StepTimes, VALIDATION, WAIT,
};

/// Measurement in progress.
pub(crate) struct Running {
    watch: MeasureWatch,
    begun: Instant,
    steps: Vec<f64>,
}

impl Running {
    /// Starts the measurement. Must be called on the trainer's thread.
    pub(crate) fn begin(control: &Control) -> anyhow::Result<Self> {
        let worker_stats =
            control.board().worker_stats().ok_or_else(|| anyhow::anyhow!("no worker makes batches yet"))?;
        let begun = Instant::now();
        let watch = MeasureWatch::from_stats(worker_stats)?;
        step_timer::begin();
        Ok(Self { watch, begun, steps: Vec::new() })
    }

    /// Records the end of a step.
    pub(crate) fn step(&mut self) {
        self.steps.extend(step_timer::newest_step_seconds());
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Seconds of each step so far, without validations.
    pub(crate) fn steps(&self) -> &[f64] {
        &self.steps
    }

    /// Ends the measurement. Must be called on the same thread.
    pub(crate) fn end(self) -> (MeasureWatch, StepTimes) {
        (self.watch, step_timer::end().unwrap_or_default())
    }
}

/// Shape of the step of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    share: RankShard,
    rows: u64,
    micro_batch_size: u64,
    /// Width of the widest view in tokens.
    width: u64,
}

impl Shape {
    pub(crate) fn new(plan: &Plan, share: RankShard) -> Self {
        let micro_batch_size = plan.train().train.micro_batch_size;
        let rows = share.of(plan.train().micro_batches()) * micro_batch_size;
        let width = plan.load().facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
        Self { share, rows, micro_batch_size, width }
    }
}

/// Builds the profile of measured steps.
pub(crate) fn profile(shape: Shape, watch: &MeasureWatch, times: StepTimes) -> Profile {
    let measured = by_steps(watch.measured(), shape, &times.steps);
    let verdict = find_bottleneck(&measured, "trainer");
    let training = Training { shape, step: mean_of(&times.steps), times };
    let mut evidence = verdict.evidence;
    evidence.extend(training.evidence());
    let what_if = if shape.share.ranks() == 1 {
        proposals(&measured)
    } else {
        Err("the effect of other settings on several ranks is not predicted".to_owned())
    };
    Profile {
        target: ProfileTarget::Train.name(),
        sentence: training.rank_bottleneck().unwrap_or(verdict.sentence),
        against: String::new(),
        bottleneck: Some(verdict.bottleneck),
        evidence,
        what_if: Some(what_if),
        checked: None,
        tokens_per_item: (shape.micro_batch_size * shape.width) as f64,
        tokens_per_s: None,
        stages: None,
        reader: "trainer",
        held_back: None,
        training: Some(ProfileOutput { lines: training.lines(), json: training.json() }),
        measured,
    }
}

/// Replaces the rate by that of whole steps, because a time window may end within a step.
fn by_steps(measured: Measured, shape: Shape, steps: &[f64]) -> Measured {
    let items = shape.rows as f64 / shape.micro_batch_size.max(1) as f64;
    let rate = mean_of(steps).map(|step| Estimate {
        mean: items / step.mean,
        low: items / step.high,
        high: items / step.low.max(1e-9),
    });
    let windows = steps.iter().map(|step| items / step.max(1e-9)).collect();
    Measured { rate, windows, ..measured }
}

/// Division of a step of one of several ranks, in seconds. Together they are the step.
struct RankTimes {
    computation: f64,
    data_wait: f64,
    communication: f64,
    rank_wait: f64,
}

/// Measured steps and their parts.
struct Training {
    shape: Shape,
    step: Option<Estimate>,
    times: StepTimes,
}

impl Training {
    fn steps(&self) -> f64 {
        self.times.count.max(1) as f64
    }

    /// Mean seconds of a whole step.
    fn seconds(&self) -> f64 {
        self.times.total_s / self.steps()
    }

    /// Parts of a step. A validation is none.
    fn parts(&self) -> impl Iterator<Item = &PartTimes> {
        self.times.parts.iter().filter(|part| part.name != VALIDATION)
    }

    fn validation(&self) -> Option<&PartTimes> {
        self.times.parts.iter().find(|part| part.name == VALIDATION)
    }

    fn host(&self, part: &str) -> f64 {
        self.times.parts.iter().filter(|it| it.name == part).map(|it| it.host_s).sum::<f64>() / self.steps()
    }

    /// Divides the step of one of several ranks. The parts of communication are measured on the device, if it has a
    /// clock.
    fn rank_times(&self) -> Option<RankTimes> {
        if self.shape.share.ranks() == 1 {
            return None;
        }
        let time = |name: &str| {
            let parts = self.parts().filter(|part| part.name == name);
            parts.map(|part| part.device_s.unwrap_or(part.host_s)).sum::<f64>() / self.steps()
        };
        let [all_reduce, exchange, data_wait] = [ALL_REDUCE, EXCHANGE, WAIT].map(time);
        let exposed = all_reduce + exchange;
        // A sum on a device does not hold the host up, so the host's waits are those of exchanges.
        let has_device_clock = self.parts().any(|part| part.device_s.is_some());
        let longest = if has_device_clock { exchange } else { exposed };
        let rank_wait = (self.times.rank_wait_s / self.steps()).min(longest);
        let computation = (self.seconds() - data_wait - exposed).max(0.0);
        Some(RankTimes { computation, data_wait, communication: exposed - rank_wait, rank_wait })
    }

    /// Returns the bottleneck if it is communication or another rank.
    fn rank_bottleneck(&self) -> Option<String> {
        let RankTimes { computation, data_wait, communication, rank_wait } = self.rank_times()?;
        let share = |seconds: f64| percent(seconds / self.seconds().max(1e-9));
        if rank_wait > computation.max(data_wait).max(communication) {
            let share = share(rank_wait);
            return Some(format!(
                "bottleneck: a slower rank, for which rank 0 waits {share} of the time; profile that rank's host"
            ));
        }
        (communication > computation.max(data_wait)).then(|| {
            let share = share(communication);
            format!("bottleneck: communication between the ranks, {share} of the time that no computation hides")
        })
    }

    fn evidence(&self) -> Vec<String> {
        let step = self.seconds();
        let wait = self.host(WAIT);
        let tokens = (self.shape.rows * self.shape.width) as f64;
        let rate = |seconds: f64| short(tokens / seconds.max(1e-9));
        if self.shape.share.ranks() > 1 {
            // Without its waits, this rank would wait for others.
            return vec![format!("a step waits for batches {} of its {}", percent(wait / step.max(1e-9)), ms(step))];
        }
        vec![format!(
            "a step waits for batches {} of its {}; without the wait, the rate would be {} tokens/s instead of {}",
            percent(wait / step.max(1e-9)),
            ms(step),
            rate(step - wait),
            rate(step)
        )]
    }

    fn lines(&self) -> Vec<String> {
        let step = self.seconds();
        let spread = self.step.map_or(String::new(), |step| format!(" (± {})", percent(step.spread())));
        let device = self.times.device.as_ref().map_or("?", |(device, _)| device.as_str());
        let mut lines = vec![
            String::new(),
            format!(
                "a step takes {}{spread}, mean of {}: {} rows of {} tokens, {} per micro-batch, on {device}",
                ms(step),
                self.times.count,
                self.shape.rows,
                self.shape.width,
                self.shape.micro_batch_size
            ),
            format!("{:<32} {:>10} {:>8} {:>10}", "part", "host", "share", "device"),
        ];
        lines.extend(self.parts().map(|part| {
            let host = part.host_s / self.steps();
            let on_device = part.device_s.map(|device| device / self.steps());
            let on_device = on_device.map_or("–".to_owned(), ms);
            format!("{:<32} {:>10} {:>8} {on_device:>10}", part.name, ms(host), percent(host / step.max(1e-9)))
        }));
        lines.extend(self.rank_times().map(|times| {
            let share = |seconds: f64| percent(seconds / step.max(1e-9));
            format!(
                "rank {} of {}: computation {}, wait for batches {}, exposed communication {}, wait for slower ranks {}",
                self.shape.share.rank(),
                self.shape.share.ranks(),
                share(times.computation),
                share(times.data_wait),
                share(times.communication),
                share(times.rank_wait)
            )
        }));
        lines.extend(self.validation().map(|validation| {
            format!("validations: {}, {} together, not part of the steps", validation.count, ms(validation.host_s))
        }));
        if let Some(failure) = &self.times.failure {
            lines.push(format!("device times are missing: {failure}"));
        }
        let owners = self.memory().into_iter().map(|(owner, size)| format!("{owner} {}", bytes(size)));
        lines.push(format!("memory: {}", owners.collect::<Vec<_>>().join(", ")));
        lines
    }

    /// Returns bytes by owner: permanent memory of the run, and the peak of the rest, sampled between steps.
    fn memory(&self) -> Vec<(&str, u64)> {
        let mut owners: Vec<(&str, u64)> = self.times.owners.clone();
        let kept: u64 = owners.iter().map(|(_, size)| size).sum();
        let most = |of: fn(&MemoryAt) -> Option<u64>| self.times.memory.iter().filter_map(of).max();
        let device = most(|at| at.device_bytes);
        let resident = most(|at| at.resident_bytes);
        match (device, resident) {
            (Some(device), resident) => {
                owners.push(("other tensors", device.saturating_sub(kept)));
                owners.extend(resident.map(|resident| ("host", resident)));
            }
            (None, Some(resident)) => owners.push(("the rest of the process", resident.saturating_sub(kept))),
            (None, None) => {}
        }
        owners
    }

    fn json(&self) -> Value {
        let per_step = |seconds: f64| 1e3 * seconds / self.steps();
        let parts: Vec<Value> = self
            .parts()
            .map(|part| {
                json!({ "what": part.name, "host_ms": per_step(part.host_s), "device_ms": part.device_s.map(per_step),
                        "count": part.count as f64 / self.steps() })
            })
            .collect();
        let slices = |slices: &[Slice]| -> Vec<Value> {
            let named = slices.iter().filter_map(|slice| Some((self.times.parts.get(slice.part)?, slice)));
            named
                .map(|(part, slice)| {
                    json!({ "what": part.name, "from_ms": 1e3 * slice.from_s, "to_ms": 1e3 * slice.to_s })
                })
                .collect()
        };
        let typical = self.times.typical.as_ref();
        let memory: Vec<Value> =
            self.memory().into_iter().map(|(owner, size)| json!({ "owner": owner, "bytes": size })).collect();
        let over_time: Vec<Value> = self
            .times
            .memory
            .iter()
            .map(|at| json!({ "at_s": at.at_s, "resident_bytes": at.resident_bytes, "device_bytes": at.device_bytes }))
            .collect();
        let (device, device_name) = self.times.device.clone().unzip();
        json!({
            "device": device, "device_name": device_name.flatten(), "steps": self.times.count,
            "tokens_per_step": self.shape.rows * self.shape.width,
            "micro_batch_size": self.shape.micro_batch_size,
            "micro_batches_per_step": self.shape.rows / self.shape.micro_batch_size.max(1),
            "step_ms": {
                "mean": 1e3 * self.seconds(), "low": self.step.map(|step| 1e3 * step.low),
                "high": self.step.map(|step| 1e3 * step.high),
            },
            "step_ms_each": self.times.steps.iter().map(|seconds| 1e3 * seconds).collect::<Vec<_>>(),
            "ranks": self.rank_times().map(|times| {
                json!({
                    "count": self.shape.share.ranks(), "computation_ms": 1e3 * times.computation,
                    "data_wait_ms": 1e3 * times.data_wait, "communication_ms": 1e3 * times.communication,
                    "rank_wait_ms": 1e3 * times.rank_wait,
                })
            }),
            "phases": parts, "waterfall": typical.map(|step| slices(&step.host)),
            "device_waterfall": typical.and_then(|step| step.device.as_deref()).map(slices),
            "memory": memory, "memory_over_time": over_time,
            "validations": self.validation().map(|it| json!({ "count": it.count, "seconds": it.host_s })),
            "device_failure": self.times.failure,
        })
    }
}

fn ms(seconds: f64) -> String {
    milliseconds(1e3 * seconds)
}
