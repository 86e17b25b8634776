//! Training that is measured: what its steps are made of, and whether anybody keeps them waiting.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use observe::{Clock, Event, Observer};
use pipeline::actor;
use schemas::ordinal::Step;
use serde_json::{Value, json};
use store::{Store, Weather};
use trainer::ForeignError;
use trainer::device::stopwatch::{self, Slice, StepTimes, UPLOAD, WAIT};
use trainer::training::{Alone, Host, Snapshot, State, StopRequest};

use super::shown::{Profile, Told};
use super::traced::Recording;
use super::{Options, Slow, micro_batch};
use crate::cli::ConfigArgs;
use crate::commands::train::unkept;
use crate::control::Control;
use crate::data::Purpose;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::profile::judge::{judge, percent};
use crate::profile::measure::Watch;
use crate::profile::statistics::{Estimate, mean_of};
use crate::profile::whatif::{Proposal, proposals};
use crate::terminal::{bytes, short};

/// Steps that nobody measures: the first of a process make what the others find there.
const WARM_UP: u64 = 2;

/// Steps and seconds before which the time of a step is not known, and how well it is to be known: half of its interval.
const STEPS_MIN: usize = 16;
const SECONDS_MIN: f64 = 5.0;
const ENOUGH: f64 = 0.03;

/// Trains by a plan, keeps nothing, and says where the time goes; with `--check` once more with what is proposed.
pub(super) fn checked(args: &ConfigArgs, options: &Options, recording: &mut Recording) -> anyhow::Result<Profile> {
    let mut profile = measured(args, options)?;
    recording.end(&profile.measured, ("batch-reader", profile.reader));
    match micro_batch::proposal(args) {
        Ok(Some(proposal)) => propose(&mut profile, proposal),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "what larger micro-batches would bring could not be measured"),
    }
    if let (true, Some(proposal)) = (options.check, profile.proposed()) {
        let Proposal { key, to, .. } = proposal;
        let mut changed = args.clone();
        changed.set.push(format!("{key}={to}"));
        profile.checked = profile.gain_of(&measured(&changed, options)?);
    }
    Ok(profile)
}

/// Puts a proposal among the others, the most promising first.
fn propose(profile: &mut Profile, proposal: Proposal) {
    let mut all = match profile.what_if.take() {
        Some(Ok(proposals)) => proposals,
        _ => Vec::new(),
    };
    all.push(proposal);
    all.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    profile.what_if = Some(Ok(all));
}

/// Trains by a plan once.
pub(super) fn measured(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    let slow = Slow::parse(options.slow.as_deref(), options.half)?;
    let plan = Plan::over(args, |folder: &Path| slow.find(folder), Purpose::Look)?;
    let control = Arc::new(Control::start()?);
    let found = Arc::<Mutex<Option<(Watch, StepTimes)>>>::default();
    let mut host = Measuring {
        control: Arc::clone(&control),
        until: Until {
            seconds: options.seconds,
            steps: options.batches.map(|batches| batches.div_ceil(plan.train().micro_batches())),
        },
        running: None,
        is_over: false,
        found: Arc::clone(&found),
    };
    let mut feed = unkept(&plan, &control, (slow.lanes, slow.contention));
    let training = plan.train().clone();
    let thread = actor::spawn("trainer", move || {
        let store = Store::memory(Weather::calm());
        let outcome =
            trainer::training::run(&training, Box::new(Alone), &store, &Clock::system(), &mut feed, &mut host);
        // A run that ends by itself ends what is measured.
        host.end();
        outcome
    })?;
    thread.join()??;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    match found {
        Some((watch, times)) => Ok(profile(Shape::of(&plan), &watch, times)),
        None => Err(Usage(format!(
            "the run has no more than {WARM_UP} steps, or was stopped within them: there is nothing to measure; `--set train.steps=100` has more"
        ))
        .into()),
    }
}

/// When it is enough.
struct Until {
    seconds: f64,
    steps: Option<u64>,
}

/// Hears a training and measures its steps.
struct Measuring {
    control: Arc<Control>,
    until: Until,
    running: Option<Running>,
    is_over: bool,
    found: Arc<Mutex<Option<(Watch, StepTimes)>>>,
}

/// Steps that are measured at the moment.
pub(crate) struct Running {
    watch: Watch,
    begun: Instant,
    since: Instant,
    steps: Vec<f64>,
}

impl Running {
    /// Begins on the trainer's thread.
    pub(crate) fn begin(control: &Control) -> anyhow::Result<Self> {
        let gauges = control.board().gauges().ok_or_else(|| anyhow::anyhow!("nobody makes batches yet"))?;
        let now = Instant::now();
        let watch = Watch::over(gauges)?;
        stopwatch::begin();
        Ok(Self { watch, begun: now, since: now, steps: Vec::new() })
    }

    /// One is over.
    pub(crate) fn step(&mut self) {
        self.steps.push(self.since.elapsed().as_secs_f64());
        self.since = Instant::now();
    }

    /// Seconds since it was begun.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn is_enough(&self, until: &Until) -> bool {
        let is_known = || {
            self.steps.len() >= STEPS_MIN
                && self.seconds() >= SECONDS_MIN
                && mean_of(&self.steps).is_some_and(|step| step.spread() < ENOUGH)
        };
        match until.steps {
            Some(steps) => self.steps.len() as u64 >= steps,
            None => self.seconds() >= until.seconds || is_known(),
        }
    }

    /// Ends it, on the same thread.
    pub(crate) fn end(self) -> (Watch, StepTimes) {
        (self.watch, stopwatch::end().unwrap_or_default())
    }
}

impl Measuring {
    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(running.end());
        }
    }
}

impl Observer for Measuring {
    fn observe(&mut self, _event: &Event) {}
}

impl Host for Measuring {
    fn stop(&self) -> Option<StopRequest> {
        (self.is_over || self.control.signal().is_some()).then_some(StopRequest::Interrupt)
    }

    fn begin(&mut self, _from: Option<&State>) -> Result<(), ForeignError> {
        Ok(())
    }

    fn save(&mut self, _snapshot: Snapshot) -> Result<(), ForeignError> {
        Ok(())
    }

    fn saved(&mut self) -> Result<Option<observe::training::CheckpointReport>, ForeignError> {
        Ok(None)
    }

    fn check(&mut self) -> Result<Option<observe::training::CheckpointReport>, ForeignError> {
        Ok(None)
    }

    fn next_step(&mut self, done: Step) {
        let Some(running) = &mut self.running else {
            if done.0 >= WARM_UP && !self.is_over {
                self.running = Running::begin(&self.control).ok();
            }
            return;
        };
        running.step();
        if running.is_enough(&self.until) {
            self.end();
            self.is_over = true;
        }
    }
}

/// What a step consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    rows: u64,
    rows_per_micro_batch: u64,
    /// Tokens of the widest view's rows.
    width: u64,
}

impl Shape {
    pub(crate) fn of(plan: &Plan) -> Self {
        let train = &plan.train().train;
        let width = plan.load().facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
        Self { rows: train.rows_per_step, rows_per_micro_batch: train.rows_per_micro_batch, width }
    }
}

/// What is said of steps that were measured.
pub(crate) fn profile(shape: Shape, watch: &Watch, times: StepTimes) -> Profile {
    let measured = watch.measured();
    let verdict = judge(&measured, "trainer");
    let training = Training { shape, step: mean_of(&times.steps), times };
    let mut evidence = verdict.evidence;
    evidence.extend(training.evidence());
    Profile {
        half: "train",
        sentence: verdict.sentence,
        binding: format!("{:?}", verdict.binding),
        evidence,
        what_if: Some(proposals(&measured)),
        checked: None,
        tokens_per_item: (shape.rows_per_micro_batch * shape.width) as f64,
        tokens_per_s: None,
        stages: None,
        reader: "trainer",
        held_back: None,
        training: Some(Told { lines: training.lines(), json: training.json() }),
        measured,
    }
}

/// Steps, and what they were made of.
struct Training {
    shape: Shape,
    step: Option<Estimate>,
    times: StepTimes,
}

impl Training {
    fn steps(&self) -> f64 {
        self.times.steps.len().max(1) as f64
    }

    /// Seconds of a step in the mean, measured as a whole.
    fn seconds(&self) -> f64 {
        self.times.steps.iter().sum::<f64>() / self.steps()
    }

    fn host(&self, part: &str) -> f64 {
        self.times.parts.iter().filter(|it| it.name == part).map(|it| it.host_s).sum::<f64>() / self.steps()
    }

    /// Seconds of a step in which the device had something to do.
    fn device(&self) -> Option<f64> {
        let parts = self.times.parts.iter().filter(|it| it.name != WAIT && it.name != stopwatch::OTHER);
        parts.map(|part| part.device_s).sum::<Option<f64>>().map(|sum| sum / self.steps())
    }

    fn evidence(&self) -> Vec<String> {
        let (step, wait) = (self.seconds(), self.host(WAIT));
        let tokens = (self.shape.rows * self.shape.width) as f64;
        let rate = |seconds: f64| short(tokens / seconds.max(1e-9));
        let mut evidence = vec![format!(
            "a step waits {} of its {}; without that it would learn from {} tokens/s instead of {}",
            percent(wait / step.max(1e-9)),
            ms(step),
            rate(step - wait),
            rate(step)
        )];
        if let Some(device) = self.device() {
            let share = device / step.max(1e-9);
            let idle = step - wait - device;
            let why = if idle > 0.1 * step { "; it waits for the host to give it work" } else { "" };
            evidence.push(format!("the device is at work {} of a step{why}", percent(share)));
        }
        evidence
    }

    fn lines(&self) -> Vec<String> {
        let step = self.seconds();
        let spread = self.step.map_or(String::new(), |step| format!(" (± {})", percent(step.spread())));
        let device = self.times.device.as_ref().map_or("?", |(device, _)| device.as_str());
        let mut lines = vec![
            String::new(),
            format!(
                "a step takes {}{spread}, in the mean of {}: {} rows of {} tokens, {} at a time, on {device}",
                ms(step),
                self.times.steps.len(),
                self.shape.rows,
                self.shape.width,
                self.shape.rows_per_micro_batch
            ),
            format!("{:<32} {:>10} {:>8} {:>10}", "part", "host", "of it", "device"),
        ];
        lines.extend(self.times.parts.iter().map(|part| {
            let (host, on_device) = (part.host_s / self.steps(), part.device_s.map(|device| device / self.steps()));
            let on_device = on_device.map_or("–".to_owned(), ms);
            format!("{:<32} {:>10} {:>8} {on_device:>10}", part.name, ms(host), percent(host / step.max(1e-9)))
        }));
        if let Some(failure) = &self.times.failure {
            lines.push(format!("the device's times are missing: {failure}"));
        }
        let owners = self.memory().into_iter().map(|(owner, size)| format!("{owner} {}", bytes(size)));
        lines.push(format!("memory: {}", owners.collect::<Vec<_>>().join(", ")));
        lines
    }

    /// Bytes by owner: what a run keeps, and the most of the rest that was seen between two steps.
    fn memory(&self) -> Vec<(&str, u64)> {
        let mut owners: Vec<(&str, u64)> = self.times.owners.clone();
        let kept: u64 = owners.iter().map(|(_, size)| size).sum();
        let most = |of: fn(&stopwatch::MemoryAt) -> Option<u64>| self.times.memory.iter().filter_map(of).max();
        let (device, resident) = (most(|at| at.device_bytes), most(|at| at.resident_bytes));
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
            .times
            .parts
            .iter()
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
            "device": device, "device_name": device_name.flatten(), "steps": self.times.steps.len(),
            "tokens_per_step": self.shape.rows * self.shape.width,
            "rows_per_micro_batch": self.shape.rows_per_micro_batch,
            "micro_batches_per_step": self.shape.rows / self.shape.rows_per_micro_batch.max(1),
            "step_ms": self.step.map(|step| json!({ "mean": 1e3 * step.mean, "low": 1e3 * step.low, "high": 1e3 * step.high })),
            "step_ms_each": self.times.steps.iter().map(|seconds| 1e3 * seconds).collect::<Vec<_>>(),
            "phases": parts, "waterfall": typical.map(|step| slices(&step.host)),
            "device_waterfall": typical.and_then(|step| step.device.as_deref()).map(slices),
            "memory": memory, "memory_over_time": over_time, "upload_ms": 1e3 * self.host(UPLOAD),
            "device_failure": self.times.failure,
        })
    }
}

fn ms(seconds: f64) -> String {
    let ms = 1e3 * seconds;
    if ms < 9.995 {
        format!("{ms:.2} ms")
    } else if ms < 99.95 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}
