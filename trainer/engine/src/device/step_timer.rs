//! Where the time of a training step goes, for as long as somebody wants to know.
//!
//! # What
//! A step is made of parts: it waits for batches, sends them, encodes, computes objectives, goes back, updates. Whoever runs a
//! part says so (`timed`). While nobody measures, that costs a look at a variable of the thread and one at `tracing`'s
//! level. While somebody does, the clock is read where one part ends and another begins; on a CUDA device a mark goes into
//! its stream as well, and is read when the device has come past it, so that nothing waits.
//!
//! # Definition
//! Times are self times: what a part within another takes is not counted for the outer one, so that all parts add up to the
//! step. What happens within a part that is sealed (`SEALED`) is all its own: the layers that a validation runs are no
//! layers of the step. A step lasts from one call of `step_is_over` to the next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use runtime::spans::SPANS;
use tch::Device;
use telemetry::host_memory;
use tracing::trace_span;
use trainer_plan::Error;

use crate::device::choice;
use crate::device::native::facts;
use crate::device::native::marks::Mark;

/// The time of a step that no part has.
pub const OTHER: &str = "other";
/// The wait for batches.
pub const WAIT: &str = "wait";
/// Rows are checked, packed and sent to the device.
pub(crate) const UPLOAD: &str = "upload";
/// The embedding block of an encoder.
pub(crate) const EMBEDDINGS: &str = "embeddings";
/// Attention of all layers, with the bias that is made for it.
pub(crate) const ATTENTION: &str = "attention";
/// Both products of all layers' feed-forward blocks, and the gelu between them.
pub(crate) const FEED_FORWARD: &str = "feed_forward";
/// Dropout, sum and norm behind each block.
pub(crate) const NORM: &str = "norm";
/// A generator draws what replaces the masked tokens.
pub(crate) const SAMPLE: &str = "sample";
/// An objective computes its sums.
pub(crate) const OBJECTIVE: &str = "objective";
/// From the loss to gradients, with the layers that are run again for it.
pub(crate) const BACKWARD: &str = "backward";
/// From gradients to new weights.
pub(crate) const OPTIMIZER: &str = "optimizer";
/// The host waits for the device and reads figures.
pub(crate) const SYNCHRONIZE: &str = "synchronize";
/// Figures are told to whoever listens.
pub(crate) const REPORT: &str = "report";
/// A validation.
pub(crate) const VALIDATION: &str = "validation";
/// What a step has to do for a checkpoint.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// Parts within which nothing else is told apart.
const SEALED: [&str; 3] = [BACKWARD, VALIDATION, CHECKPOINT];

/// Changes of the part that are kept of one step, and steps of which they are kept: the newest.
const SLICES_MAX: usize = 1 << 16;
const STEPS_KEPT: usize = 8;
/// Steps whose marks the device may still have before it. More are waited for.
const PENDING_MAX: usize = 8;
/// Steps whose lengths are kept: the first.
pub const STEPS_MAX: usize = 1 << 16;
/// Looks at the memory, at the most. Then every second is forgotten, and they come half as often.
const LOOKS_MAX: usize = 256;

thread_local! {
    static RUNNING: RefCell<Option<Box<Stopwatch>>> = const { RefCell::new(None) };
}

/// What the steps of a thread took, from [`begin`] to [`end`].
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    /// Seconds of each step, of the first [`STEPS_MAX`].
    pub steps: Vec<f64>,
    /// How many there were, and seconds of all of them.
    pub count: u64,
    /// Seconds of all steps together.
    pub total_s: f64,
    /// The parts, in the order in which they first came.
    pub parts: Vec<PartTimes>,
    /// The step of the newest that is nearest to the median.
    pub typical: Option<StepSlices>,
    /// Memory from step to step.
    pub memory: Vec<MemoryAt>,
    /// Bytes of what a run keeps for as long as it lasts, by owner.
    pub owners: Vec<(&'static str, u64)>,
    /// Where they were computed, as a checkpoint says it (`Cuda(0)`), and the GPU as its driver spells it.
    pub device: Option<(String, Option<String>)>,
    /// Why the device's times are not there, if marks failed.
    pub failure: Option<String>,
}

/// A part of all steps together.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTimes {
    /// What it is; of an objective with its name.
    pub name: String,
    /// Seconds of the host.
    pub host_s: f64,
    /// Seconds of the device; `None` on the CPU, where they are the host's.
    pub device_s: Option<f64>,
    /// How often it came.
    pub count: u64,
}

/// One step, part by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSlices {
    /// How long it was.
    pub seconds: f64,
    /// On the host.
    pub host: Vec<Slice>,
    /// On the device, from its own first mark; `None` on the CPU.
    pub device: Option<Vec<Slice>>,
}

/// A stretch of one part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Its number among [`StepTimes::parts`].
    pub part: usize,
    /// Seconds since the step began.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

/// How much memory there was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryAt {
    /// Seconds since it is measured.
    pub at_s: f64,
    /// Of this process, in host memory; `None` where the kernel does not say.
    pub resident_bytes: Option<u64>,
    /// The most that tensors on the device had at once, at least since the look before; `None` on the CPU.
    pub device_bytes: Option<u64>,
}

/// Begins to measure the steps of this thread. What was measured before is forgotten.
pub fn begin() {
    RUNNING.with_borrow_mut(|running| *running = Some(Box::new(Stopwatch::new())));
}

/// Somebody has read the device's peak, which is forgotten by that.
pub(super) fn reported(peak_bytes: u64) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running {
            running.reported_peak = running.reported_peak.max(Some(peak_bytes));
        }
    });
}

/// Ends it; `None` if nobody has begun. Waits for the device.
#[must_use]
pub fn end() -> Option<StepTimes> {
    RUNNING.with_borrow_mut(Option::take).map(Stopwatch::end)
}

/// Runs a part of a step.
pub(crate) fn timed<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    timed_for(part, "", work)
}

/// Runs a part of a step that is somebody's.
pub(crate) fn timed_for<T>(part: &'static str, whose: &str, work: impl FnOnce() -> T) -> T {
    let span = if whose.is_empty() {
        trace_span!(target: SPANS, "part", what = part)
    } else {
        trace_span!(target: SPANS, "part", what = part, whose)
    };
    let _entered = span.entered();
    let _within = Within::enter(part, whose);
    work()
}

/// The step is over: the next begins with whatever this thread does now.
pub(crate) fn step_is_over() {
    with(Stopwatch::step_is_over);
}

/// Says where the steps are computed, and what the run keeps, if that is not known yet.
pub(crate) fn know(device: Device, owners: impl FnOnce() -> Vec<(&'static str, u64)>) {
    with(|watch| {
        if watch.device.is_none() {
            watch.owners = owners();
            watch.device = Some(device);
            watch.mark(0);
        }
    });
}

fn with(act: impl FnOnce(&mut Stopwatch)) {
    RUNNING.with_borrow_mut(|running| running.as_deref_mut().map(act));
}

/// Within a part, until it is dropped.
struct Within;

impl Within {
    fn enter(part: &'static str, whose: &str) -> Self {
        with(|watch| watch.enter(part, whose));
        Self
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        with(Stopwatch::leave);
    }
}

/// A part so far.
#[derive(Debug)]
struct Part {
    what: &'static str,
    whose: String,
    host: Duration,
    device: Duration,
    count: u64,
}

#[derive(Debug)]
struct Stopwatch {
    begun: Instant,
    device: Option<Device>,
    owners: Vec<(&'static str, u64)>,
    parts: Vec<Part>,
    /// The parts that this thread is within, the innermost last; the first is [`OTHER`].
    open: Vec<usize>,
    /// Since when it does what it does.
    since: Instant,
    step_begun: Instant,
    slices: Vec<Slice>,
    /// Where the device comes to another part, in this step and in those that it may not have done yet.
    marks: Vec<(usize, Mark)>,
    pending: VecDeque<Vec<(usize, Mark)>>,
    spare: Vec<Mark>,
    failure: Option<String>,
    steps: Vec<f64>,
    count: u64,
    total: f64,
    kept: VecDeque<StepSlices>,
    memory: Vec<MemoryAt>,
    /// The most that a report has read since the last look: reading it made the device start over.
    reported_peak: Option<u64>,
    /// Steps from one look at the memory to the next, and steps since the last.
    every: usize,
    unseen: usize,
}

impl Stopwatch {
    fn new() -> Self {
        let now = Instant::now();
        let mut watch = Self {
            begun: now,
            device: None,
            owners: Vec::new(),
            parts: Vec::new(),
            open: Vec::new(),
            since: now,
            step_begun: now,
            slices: Vec::new(),
            marks: Vec::new(),
            pending: VecDeque::new(),
            spare: Vec::new(),
            failure: None,
            steps: Vec::new(),
            count: 0,
            total: 0.0,
            kept: VecDeque::new(),
            memory: Vec::new(),
            reported_peak: None,
            every: 1,
            unseen: 0,
        };
        let other = watch.part(OTHER, "");
        watch.open.push(other);
        watch
    }

    fn part(&mut self, what: &'static str, whose: &str) -> usize {
        let known = self.parts.iter().position(|part| part.what == what && part.whose == whose);
        known.unwrap_or_else(|| {
            let (host, device) = (Duration::ZERO, Duration::ZERO);
            self.parts.push(Part { what, whose: whose.to_owned(), host, device, count: 0 });
            self.parts.len() - 1
        })
    }

    fn innermost(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }

    fn enter(&mut self, what: &'static str, whose: &str) {
        let within = self.innermost();
        if SEALED.contains(&self.parts[within].what) {
            self.open.push(within);
            return;
        }
        self.charge();
        let part = self.part(what, whose);
        self.parts[part].count += 1;
        self.open.push(part);
        self.mark(part);
    }

    fn leave(&mut self) {
        // Whoever began to measure within a part leaves it nevertheless.
        let [.., outer, inner] = self.open[..] else { return };
        if outer != inner {
            self.charge();
            self.mark(outer);
        }
        self.open.pop();
    }

    /// What was done until now is counted for the part that did it.
    fn charge(&mut self) {
        let (now, part) = (Instant::now(), self.innermost());
        self.parts[part].host += now - self.since;
        if self.slices.len() < SLICES_MAX {
            let into_step = |at: Instant| at.saturating_duration_since(self.step_begun).as_secs_f64();
            self.slices.push(Slice { part, from_s: into_step(self.since), to_s: into_step(now) });
        }
        self.since = now;
    }

    /// What the device is given from now on is that part's.
    fn mark(&mut self, part: usize) {
        let Some(device @ Device::Cuda(_)) = self.device else { return };
        if self.marks.len() >= SLICES_MAX {
            self.failure.get_or_insert_with(|| format!("a step has more than {SLICES_MAX} changes of its part"));
        } else if self.failure.is_none() {
            match Mark::now(device, self.spare.pop()) {
                Ok(mark) => self.marks.push((part, mark)),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
    }

    fn step_is_over(&mut self) {
        self.charge();
        let doing = self.innermost();
        self.mark(doing);
        let seconds = (self.since - self.step_begun).as_secs_f64();
        self.count += 1;
        self.total += seconds;
        if self.steps.len() < STEPS_MAX {
            self.steps.push(seconds);
        }
        self.kept.push_back(StepSlices { seconds, host: std::mem::take(&mut self.slices), device: None });
        if self.kept.len() > STEPS_KEPT {
            self.kept.pop_front();
        }
        self.pending.push_back(std::mem::take(&mut self.marks));
        if let Err(error) = self.read_marks(false) {
            self.failure = Some(error.to_string());
        }
        self.look_at_memory();
        self.step_begun = self.since;
        self.mark(doing);
    }

    /// Reads the marks of the steps that the device has done; of those that it has not done if there are too many, or all
    /// are wanted.
    fn read_marks(&mut self, all: bool) -> Result<(), Error> {
        while let Some(last) = self.pending.front().map(|marks| marks.last()) {
            if let Some((_, last)) = last {
                if all || self.pending.len() > PENDING_MAX {
                    last.wait()?;
                } else if !last.is_past()? {
                    return Ok(());
                }
            }
            let marks = self.pending.pop_front().expect("it was just looked at");
            // As many steps are behind it as still wait.
            let at = self.kept.len().checked_sub(self.pending.len() + 1);
            let slices = self.device_slices(&marks)?;
            if let (Some(step), false) = (at.and_then(|at| self.kept.get_mut(at)), marks.is_empty()) {
                step.device = Some(slices);
            }
            self.spare.extend(marks.into_iter().map(|(_, mark)| mark));
        }
        Ok(())
    }

    fn device_slices(&mut self, marks: &[(usize, Mark)]) -> Result<Vec<Slice>, Error> {
        let (mut at, mut slices) = (Duration::ZERO, Vec::with_capacity(marks.len()));
        for pair in marks.windows(2) {
            let [(part, from), (_, to)] = pair else { continue };
            let time = from.until(to)?;
            self.parts[*part].device += time;
            slices.push(Slice { part: *part, from_s: at.as_secs_f64(), to_s: (at + time).as_secs_f64() });
            at += time;
        }
        Ok(slices)
    }

    fn look_at_memory(&mut self) {
        self.unseen += 1;
        if self.unseen < self.every {
            return;
        }
        self.unseen = 0;
        let peak = self.device.and_then(|device| facts::peak(device).ok().flatten());
        let device_bytes = peak.max(self.reported_peak.take());
        let at_s = self.begun.elapsed().as_secs_f64();
        self.memory.push(MemoryAt { at_s, resident_bytes: host_memory::resident_bytes(), device_bytes });
        if self.memory.len() >= LOOKS_MAX {
            self.memory = self.memory.iter().step_by(2).copied().collect();
            self.every *= 2;
        }
    }

    fn end(mut self: Box<Self>) -> StepTimes {
        if let Err(error) = self.read_marks(true) {
            self.failure = Some(error.to_string());
        }
        // Where marks failed the device's times would not add up.
        let on_device = matches!(self.device, Some(Device::Cuda(_))) && self.failure.is_none();
        let parts = self.parts.iter().map(|part| PartTimes {
            name: if part.whose.is_empty() { part.what.to_owned() } else { format!("{} {}", part.what, part.whose) },
            host_s: part.host.as_secs_f64(),
            device_s: on_device.then_some(part.device.as_secs_f64()),
            count: part.count,
        });
        StepTimes {
            parts: parts.collect(),
            typical: typical(&self.steps, self.kept),
            steps: self.steps,
            count: self.count,
            total_s: self.total,
            memory: self.memory,
            owners: self.owners,
            device: self.device.map(|device| (format!("{device:?}"), choice::name(device))),
            failure: self.failure,
        }
    }
}

/// The step that is nearest to the median of all.
fn typical(steps: &[f64], kept: impl IntoIterator<Item = StepSlices>) -> Option<StepSlices> {
    let mut sorted = steps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2)?;
    let apart = |step: &StepSlices| (step.seconds - median).abs();
    kept.into_iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
}

#[cfg(test)]
mod tests;
