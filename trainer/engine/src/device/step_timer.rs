//! Optional timer of the parts of a training step.
//!
//! # What
//! A step consists of parts: wait for batches, upload, encode, compute objectives, backward pass, optimizer. Code that
//! runs a part wraps it in `timed`. If no timer runs, this costs one read of a thread-local variable and one check of
//! `tracing`'s level. If a timer runs, it reads the clock at every change of the part. On a CUDA device it also records
//! an event in the stream. The event is read after the device has passed it, so nothing waits.
//!
//! # Definition
//! Times are self times: the time of a nested part is not counted for the outer part, so all parts add up to the step.
//! Parts nested in a sealed part (`SEALED`) count for the sealed part: the layers that a validation runs are not layers
//! of the step. A step lasts from one call of `step_is_over` to the next, without the validations in between.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use runtime::spans::SPANS;
use tch::Device;
use telemetry::host;
use tracing::trace_span;
use trainer_plan::Error;

use crate::device::choice;
use crate::device::native::facts;
use crate::device::native::marks::Mark;

/// Time of a step outside of all parts.
pub const OTHER: &str = "other";
/// Wait for batches.
pub const WAIT: &str = "wait";
/// Check of the rows, packing, and upload to the device.
pub(crate) const UPLOAD: &str = "upload";
/// Embedding block of an encoder.
pub(crate) const EMBEDDINGS: &str = "embeddings";
/// Attention of all layers, including its bias.
pub(crate) const ATTENTION: &str = "attention";
/// Both products of all feed-forward blocks, and the gelu between them.
pub(crate) const FEED_FORWARD: &str = "feed_forward";
/// Dropout, sum and norm after each block.
pub(crate) const NORM: &str = "norm";
/// Sampling of the generator's replacements of masked tokens.
pub(crate) const SAMPLE: &str = "sample";
/// Computation of an objective's sums.
pub(crate) const OBJECTIVE: &str = "objective";
/// Backward pass, including recomputed layers.
pub(crate) const BACKWARD: &str = "backward";
/// Sum of the gradients over all ranks, after the backward pass.
pub const ALL_REDUCE: &str = "all_reduce";
/// Exchanges of counts and decisions with the other ranks.
pub const EXCHANGE: &str = "exchange";
/// Update of the weights.
pub(crate) const OPTIMIZER: &str = "optimizer";
/// Wait of the host for the device, and read of the metrics.
pub(crate) const SYNCHRONIZE: &str = "synchronize";
/// Report of the metrics to the observers.
pub(crate) const REPORT: &str = "report";
/// Validation. It is timed, but is not part of a step.
pub const VALIDATION: &str = "validation";
/// Work of a step for a checkpoint.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// Parts whose nested parts are not timed separately.
const SEALED: [&str; 3] = [BACKWARD, VALIDATION, CHECKPOINT];

/// Maximum number of slices kept per step, and number of newest steps with slices.
const SLICES_MAX: usize = 1 << 16;
const STEPS_KEPT: usize = 8;
/// Maximum number of steps whose events are pending. The timer waits for older ones.
const PENDING_MAX: usize = 8;
/// Maximum number of steps whose durations are kept: the first ones.
const STEPS_MAX: usize = 1 << 16;
/// Maximum number of memory samples. At the limit every second sample is dropped and the interval doubles.
const LOOKS_MAX: usize = 256;

thread_local! {
    static RUNNING: RefCell<Option<Box<Timer>>> = const { RefCell::new(None) };
}

/// Times of a thread's steps, from [`begin`] to [`end`].
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    /// Seconds of each of the first 65,536 steps, without validations.
    pub steps: Vec<f64>,
    /// Number of steps.
    pub count: u64,
    /// Seconds of all steps together.
    pub total_s: f64,
    /// Seconds of all steps in which the operations with other ranks waited for slower ranks.
    pub rank_wait_s: f64,
    /// Parts, in the order of their first occurrence.
    pub parts: Vec<PartTimes>,
    /// Recent step whose duration is nearest to the median.
    pub typical: Option<StepSlices>,
    /// Memory samples, taken between steps.
    pub memory: Vec<MemoryAt>,
    /// Bytes of memory that a run keeps until its end, by owner.
    pub owners: Vec<(&'static str, u64)>,
    /// Device as named in a checkpoint (`Cuda(0)`), and the GPU name as the driver spells it.
    pub device: Option<(String, Option<String>)>,
    /// Reason why device times are missing, if events failed.
    pub failure: Option<String>,
}

/// Totals of one part over all steps.
#[derive(Clone, Debug, PartialEq)]
pub struct PartTimes {
    /// Name of the part. For an objective it includes the objective's name.
    pub name: String,
    /// Seconds on the host.
    pub host_s: f64,
    /// Seconds on the device. `None` on the CPU, where they equal the host's.
    pub device_s: Option<f64>,
    /// Number of occurrences.
    pub count: u64,
}

/// Slices of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSlices {
    /// Duration of the step.
    pub seconds: f64,
    /// Slices on the host.
    pub host: Vec<Slice>,
    /// Slices on the device, relative to its first event. `None` on the CPU.
    pub device: Option<Vec<Slice>>,
}

/// Contiguous interval of one part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Index into [`StepTimes::parts`].
    pub part: usize,
    /// Start, in seconds since the start of the step.
    pub from_s: f64,
    /// End, in seconds since the start of the step.
    pub to_s: f64,
}

/// Memory sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryAt {
    /// Seconds since the start of the timer.
    pub at_s: f64,
    /// Resident host memory of this process. `None` if the kernel does not report it.
    pub resident_bytes: Option<u64>,
    /// Peak bytes of tensors on the device, at least since the previous sample. `None` on the CPU.
    pub device_bytes: Option<u64>,
}

/// Starts the timer of this thread. Discards earlier measurements.
pub fn begin() {
    RUNNING.with_borrow_mut(|running| *running = Some(Box::new(Timer::new())));
}

/// Records a peak that a report has read, because reading resets the device's peak.
pub(super) fn reported(peak_bytes: u64) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running {
            running.reported_peak = running.reported_peak.max(Some(peak_bytes));
        }
    });
}

/// Returns the seconds of the newest step. `None` without a timer or a step, or after 65,536 steps.
#[must_use]
pub fn newest_step_seconds() -> Option<f64> {
    RUNNING.with_borrow(|running| {
        let timer = running.as_deref()?;
        timer.steps.last().copied().filter(|_| timer.count == timer.steps.len() as u64)
    })
}

/// Stops the timer and returns the times. `None` if no timer runs. Waits for the device.
#[must_use]
pub fn end() -> Option<StepTimes> {
    RUNNING.with_borrow_mut(Option::take).map(Timer::end)
}

/// Runs and times a part of a step.
pub(crate) fn timed<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    timed_for(part, "", work)
}

/// Runs and times a part of a step that belongs to `whose`, such as an objective.
pub(crate) fn timed_for<T>(part: &'static str, whose: &str, work: impl FnOnce() -> T) -> T {
    let span = if whose.is_empty() {
        trace_span!(target: SPANS, "part", what = part)
    } else {
        trace_span!(target: SPANS, "part", what = part, whose)
    };
    let _entered = span.entered();
    let _part = PartGuard::begin(part, whose);
    work()
}

/// Adds time that operations of the step waited for slower ranks. Their parts include it.
pub(crate) fn add_rank_wait(time: Duration) {
    with(|timer| {
        if !SEALED.contains(&timer.parts[timer.innermost()].what) {
            timer.rank_wait += time;
        }
    });
}

/// Ends the step. The next step starts now.
pub(crate) fn step_is_over() {
    with(Timer::step_is_over);
}

/// Sets the device and the owners of permanent memory, if they are not set yet.
pub(crate) fn know(device: Device, owners: impl FnOnce() -> Vec<(&'static str, u64)>) {
    with(|timer| {
        if timer.device.is_none() {
            timer.owners = owners();
            timer.device = Some(device);
            timer.mark(0);
        }
    });
}

fn with(act: impl FnOnce(&mut Timer)) {
    RUNNING.with_borrow_mut(|running| running.as_deref_mut().map(act));
}

/// Guard of a part. Dropping it ends the part.
struct PartGuard;

impl PartGuard {
    fn begin(part: &'static str, whose: &str) -> Self {
        with(|timer| timer.begin(part, whose));
        Self
    }
}

impl Drop for PartGuard {
    fn drop(&mut self) {
        with(Timer::leave);
    }
}

/// Running totals of a part.
#[derive(Debug)]
struct Part {
    what: &'static str,
    whose: String,
    host: Duration,
    device: Duration,
    count: u64,
}

#[derive(Debug)]
struct Timer {
    begun: Instant,
    device: Option<Device>,
    owners: Vec<(&'static str, u64)>,
    parts: Vec<Part>,
    /// Stack of the open parts, the innermost last. The first is [`OTHER`].
    open: Vec<usize>,
    /// Start of the current slice.
    since: Instant,
    step_begun: Instant,
    /// Time of validations since the start of the step.
    validation: Duration,
    /// Wait for slower ranks in all steps.
    rank_wait: Duration,
    slices: Vec<Slice>,
    /// Events at the changes of parts, of this step. `pending` holds those of earlier steps that the device may not
    /// have passed.
    marks: Vec<(usize, Mark)>,
    pending: VecDeque<Vec<(usize, Mark)>>,
    spare: Vec<Mark>,
    failure: Option<String>,
    steps: Vec<f64>,
    count: u64,
    total: f64,
    kept: VecDeque<StepSlices>,
    memory: Vec<MemoryAt>,
    /// Largest peak that a report has read since the last sample. Reading a peak resets it.
    reported_peak: Option<u64>,
    /// Steps between memory samples, and steps since the last sample.
    every: usize,
    steps_since_sample: usize,
}

impl Timer {
    fn new() -> Self {
        let now = Instant::now();
        let mut timer = Self {
            begun: now,
            device: None,
            owners: Vec::new(),
            parts: Vec::new(),
            open: Vec::new(),
            since: now,
            step_begun: now,
            validation: Duration::ZERO,
            rank_wait: Duration::ZERO,
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
            steps_since_sample: 0,
        };
        let other = timer.part(OTHER, "");
        timer.open.push(other);
        timer
    }

    fn part(&mut self, what: &'static str, whose: &str) -> usize {
        let known = self.parts.iter().position(|part| part.what == what && part.whose == whose);
        known.unwrap_or_else(|| {
            let host = Duration::ZERO;
            let device = Duration::ZERO;
            self.parts.push(Part { what, whose: whose.to_owned(), host, device, count: 0 });
            self.parts.len() - 1
        })
    }

    fn innermost(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }

    fn begin(&mut self, what: &'static str, whose: &str) {
        let within = self.innermost();
        if SEALED.contains(&self.parts[within].what) {
            self.open.push(within);
            return;
        }
        self.add_elapsed();
        let part = self.part(what, whose);
        self.parts[part].count += 1;
        self.open.push(part);
        self.mark(part);
    }

    fn leave(&mut self) {
        // If the timer was started within a part, that part ends without having been opened.
        let [.., outer, inner] = self.open[..] else { return };
        if outer != inner {
            self.add_elapsed();
            self.mark(outer);
        }
        self.open.pop();
    }

    /// Adds the time since the last change to the innermost part.
    fn add_elapsed(&mut self) {
        let now = Instant::now();
        let part = self.innermost();
        self.parts[part].host += now - self.since;
        if self.parts[part].what == VALIDATION {
            self.validation += now - self.since;
        }
        if self.slices.len() < SLICES_MAX {
            let into_step = |at: Instant| at.saturating_duration_since(self.step_begun).as_secs_f64();
            self.slices.push(Slice { part, from_s: into_step(self.since), to_s: into_step(now) });
        }
        self.since = now;
    }

    /// Records an event: later device work belongs to `part`.
    fn mark(&mut self, part: usize) {
        let Some(device @ Device::Cuda(_)) = self.device else { return };
        if self.marks.len() >= SLICES_MAX {
            self.failure.get_or_insert_with(|| {
                format!("a step has more than {SLICES_MAX} part changes; device times are not measured")
            });
        } else if self.failure.is_none() {
            match Mark::now(device, self.spare.pop()) {
                Ok(mark) => self.marks.push((part, mark)),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
    }

    fn step_is_over(&mut self) {
        self.add_elapsed();
        let doing = self.innermost();
        self.mark(doing);
        let validation = std::mem::take(&mut self.validation);
        let seconds = (self.since - self.step_begun).saturating_sub(validation).as_secs_f64();
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
        self.sample_memory();
        self.step_begun = self.since;
        self.mark(doing);
    }

    /// Reads the events of the steps that the device has finished. Waits for unfinished steps if `all` is set or more
    /// than [`PENDING_MAX`] are pending.
    fn read_marks(&mut self, all: bool) -> Result<(), Error> {
        while let Some(last) = self.pending.front().map(|marks| marks.last()) {
            if let Some((_, last)) = last {
                if all || self.pending.len() > PENDING_MAX {
                    last.wait()?;
                } else if !last.is_past()? {
                    return Ok(());
                }
            }
            let marks = self.pending.pop_front().expect("checked above");
            // As many steps follow it as are still pending.
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
        let mut at = Duration::ZERO;
        let mut slices = Vec::with_capacity(marks.len());
        for pair in marks.windows(2) {
            let [(part, from), (_, to)] = pair else { continue };
            let time = from.until(to)?;
            self.parts[*part].device += time;
            slices.push(Slice { part: *part, from_s: at.as_secs_f64(), to_s: (at + time).as_secs_f64() });
            at += time;
        }
        Ok(slices)
    }

    fn sample_memory(&mut self) {
        self.steps_since_sample += 1;
        if self.steps_since_sample < self.every {
            return;
        }
        self.steps_since_sample = 0;
        let peak = self.device.and_then(|device| facts::peak(device).ok().flatten());
        let device_bytes = peak.max(self.reported_peak.take());
        let at_s = self.begun.elapsed().as_secs_f64();
        self.memory.push(MemoryAt { at_s, resident_bytes: host::resident_bytes(), device_bytes });
        if self.memory.len() >= LOOKS_MAX {
            self.memory = self.memory.iter().step_by(2).copied().collect();
            self.every *= 2;
        }
    }

    fn end(mut self: Box<Self>) -> StepTimes {
        if let Err(error) = self.read_marks(true) {
            self.failure = Some(error.to_string());
        }
        // If an event failed, the device times do not add up.
        let on_device = matches!(self.device, Some(Device::Cuda(_))) && self.failure.is_none();
        let parts = self.parts.iter().map(|part| PartTimes {
            name: if part.whose.is_empty() { part.what.to_owned() } else { format!("{} {}", part.what, part.whose) },
            host_s: part.host.as_secs_f64(),
            device_s: on_device.then_some(part.device.as_secs_f64()),
            count: part.count,
        });
        StepTimes {
            parts: parts.collect(),
            typical: typical(&self.steps, self.kept, self.parts.iter().position(|part| part.what == VALIDATION)),
            steps: self.steps,
            count: self.count,
            total_s: self.total,
            rank_wait_s: self.rank_wait.as_secs_f64(),
            memory: self.memory,
            owners: self.owners,
            device: self.device.map(|device| (format!("{device:?}"), choice::name(device))),
            failure: self.failure,
        }
    }
}

/// Returns the kept step whose duration is nearest to the median of all steps, if possible one without a validation.
fn typical(steps: &[f64], kept: impl IntoIterator<Item = StepSlices>, validation: Option<usize>) -> Option<StepSlices> {
    let mut sorted = steps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2)?;
    let apart = |step: &StepSlices| (step.seconds - median).abs();
    let validates = |step: &StepSlices| step.host.iter().any(|slice| Some(slice.part) == validation);
    kept.into_iter().min_by(|a, b| validates(a).cmp(&validates(b)).then(apart(a).total_cmp(&apart(b))))
}

#[cfg(test)]
mod tests;
