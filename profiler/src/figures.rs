//! Metrics of an actor, from snapshots: shares of its time and their confidence intervals.

use std::time::Duration;

use runtime::{ThreadCounters, ThreadSchedule};

use crate::look::{StatsSample, StatsSnapshot};
use crate::statistics::{Estimate, mean_of};

/// Metrics of an actor during the measurement. Shares are shares of the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActorMetrics {
    /// Name of the actor.
    pub name: String,
    /// Items that it produced.
    pub items: u64,
    /// Share of time at work. The shares `busy`, `starved`, `blocked` and `idle` add up to 1.
    pub busy: f64,
    /// Waiting for input.
    pub starved: f64,
    /// Waiting for room in its output queue.
    pub blocked: f64,
    /// On a processor, as part of the busy time. The rest of `busy` after `cpu` and `queued` is waiting outside: disk
    /// or sleep. `None` where the kernel does not report it.
    pub cpu: Option<f64>,
    /// Ready to run without a processor, as part of the busy time.
    pub queued: Option<f64>,
    /// Share of all time in which its thread was ready without a processor: at work or when it returned from a wait.
    pub(crate) delayed: Option<f64>,
    /// Confidence intervals, from the windows.
    pub intervals: Intervals,
    /// Bytes of the items that it produced. 0 if they are not reported.
    pub bytes: u64,
    /// Tokens of the items that it produced. 0 if they are not reported.
    pub tokens: u64,
    /// Kernel counters of its thread during the measurement. `None` where the kernel does not report them.
    pub counted: Option<ThreadCounters>,
}

/// Confidence intervals of the shares, if there are enough windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Intervals {
    /// At work.
    pub busy: Option<Estimate>,
    /// Waiting for input.
    pub starved: Option<Estimate>,
    /// Waiting for room in its output queue.
    pub blocked: Option<Estimate>,
    /// On a processor.
    pub cpu: Option<Estimate>,
    /// Ready to run while every processor was taken.
    pub queued: Option<Estimate>,
}

impl ActorMetrics {
    /// Returns the share of all time in which it worked and waited for a disk, a network or a sleep.
    pub fn outside(&self) -> f64 {
        match (self.cpu, self.queued) {
            (Some(cpu), Some(queued)) => (self.busy - cpu - queued).max(0.0),
            _ => 0.0,
        }
    }

    /// Returns the share of all time after its end, or without any work from the start.
    pub fn idle(&self) -> f64 {
        let idle = 1.0 - self.busy - self.starved - self.blocked;
        // The rest of a rounded sum counts as 0.
        if idle < 1e-9 { 0.0 } else { idle }
    }
}

/// Fill of the queues: shares of their capacity and of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueMetrics {
    /// Capacity of a queue.
    pub capacity: usize,
    /// Mean share of the capacity that is used.
    pub mean: f64,
    /// Share of samples in which a queue was full.
    pub full: f64,
    /// Share of samples in which a queue was empty.
    pub empty: f64,
    /// Confidence interval of the mean.
    pub interval: Option<Estimate>,
}

/// Shares of the time between two snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shares {
    pub(super) busy: f64,
    pub(super) starved: f64,
    pub(super) blocked: f64,
    cpu: Option<f64>,
    queued: Option<f64>,
    delayed: Option<f64>,
}

impl Shares {
    pub(super) fn between(first: &StatsSample, last: &StatsSample, seconds: f64) -> Self {
        // An actor that ended without an item had no work: the time in which it detects that is not work.
        if last.reading.items == 0 && last.reading.doing.is_none() {
            let nothing = Some(0.0);
            return Self { cpu: nothing, queued: nothing, delayed: nothing, ..Self::default() };
        }
        let seconds = seconds.max(1e-9);
        let share =
            |clock: fn(&StatsSample) -> Duration| clock(last).saturating_sub(clock(first)).as_secs_f64() / seconds;
        let [busy, starved, blocked] =
            [share(|seen| seen.reading.busy), share(|seen| seen.reading.starved), share(|seen| seen.reading.blocked)];
        // Clocks of one snapshot are read in sequence. In very short windows their sum can exceed the elapsed time.
        let scale = (busy + starved + blocked).max(1.0);
        let [busy, starved, blocked] = [busy, starved, blocked].map(|share| share / scale);
        // A thread that was unknown at first had not finished an item, so its clocks start at 0.
        let first_ran = first.scheduled.or((first.reading.items == 0).then(Default::default));
        let ran = first_ran.zip(last.scheduled);
        let share_of = |of: fn(ThreadSchedule) -> Duration, most: f64| {
            ran.map(|(a, b)| (of(b).saturating_sub(of(a)).as_secs_f64() / seconds).clamp(0.0, most))
        };
        let cpu = share_of(|it| it.ran, busy);
        // A thread is also ready when it returns from a wait. Of the busy time, `queued` is at most the rest after
        // `cpu`.
        let queued = share_of(|it| it.queued, busy - cpu.unwrap_or(busy));
        Self { busy, starved, blocked, cpu, queued, delayed: share_of(|it| it.queued, 1.0) }
    }
}

/// Returns the metrics of an actor between the first and the last snapshot. `of` selects the actor.
pub(super) fn figures(looks: &[StatsSnapshot], of: impl Fn(&StatsSnapshot) -> &StatsSample) -> ActorMetrics {
    let (Some(begun), Some(over)) = (looks.first(), looks.last()) else { return ActorMetrics::default() };
    let first = of(begun);
    let last = of(over);
    let all = Shares::between(first, last, over.at - begun.at);
    let Shares { busy, starved, blocked, cpu, queued, delayed } = all;
    ActorMetrics {
        name: last.reading.name.clone(),
        items: last.reading.items - first.reading.items,
        busy,
        starved,
        blocked,
        cpu,
        queued,
        delayed,
        intervals: intervals(looks, &of, &all),
        bytes: last.reading.bytes.saturating_sub(first.reading.bytes),
        tokens: last.reading.tokens.saturating_sub(first.reading.tokens),
        counted: counted(first, last),
    }
}

/// Returns the intervals around the shares `all`. Windows differ in length, and some at the start are dropped.
fn intervals(looks: &[StatsSnapshot], of: &impl Fn(&StatsSnapshot) -> &StatsSample, all: &Shares) -> Intervals {
    let windows = looks.windows(2);
    let windows: Vec<Shares> =
        windows.map(|pair| Shares::between(of(&pair[0]), of(&pair[1]), pair[1].at - pair[0].at)).collect();
    let around = |mean: f64, windows: &[f64]| {
        let half = mean_of(windows).map(|it| (it.high - it.low) / 2.0)?;
        Some(Estimate { mean, low: (mean - half).max(0.0), high: (mean + half).min(1.0) })
    };
    let always = |share: fn(&Shares) -> f64| around(share(all), &windows.iter().map(share).collect::<Vec<_>>());
    let sometimes = |share: fn(&Shares) -> Option<f64>| {
        around(share(all)?, &windows.iter().map(share).collect::<Option<Vec<_>>>()?)
    };
    Intervals {
        busy: always(|window| window.busy),
        starved: always(|window| window.starved),
        blocked: always(|window| window.blocked),
        cpu: sometimes(|window| window.cpu),
        queued: sometimes(|window| window.queued),
    }
}

fn counted(first: &StatsSample, last: &StatsSample) -> Option<ThreadCounters> {
    let last = last.counted?;
    let first = first.counted.or((first.reading.items == 0).then(Default::default))?;
    Some(ThreadCounters {
        minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
        major_faults: last.major_faults.saturating_sub(first.major_faults),
        read_bytes: first.read_bytes.or(Some(0)).zip(last.read_bytes).map(|(a, b)| b.saturating_sub(a)),
    })
}

/// Returns the fill of the queues between the first and the last snapshot.
pub(super) fn queues(looks: &[StatsSnapshot]) -> QueueMetrics {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return QueueMetrics::default() };
    let looked = (last.fill.looks - first.fill.looks).max(1) as f64;
    let means: Vec<f64> = looks.windows(2).map(|pair| fill(&pair[0], &pair[1])).collect();
    QueueMetrics {
        capacity: last.workers.iter().map(|worker| worker.reading.capacity).sum(),
        mean: fill(first, last),
        full: (last.fill.full - first.fill.full) as f64 / looked,
        empty: (last.fill.empty - first.fill.empty) as f64 / looked,
        interval: mean_of(&means),
    }
}

/// Returns the mean share of the queue capacity that was used between two snapshots.
pub(super) fn fill(first: &StatsSnapshot, last: &StatsSnapshot) -> f64 {
    (last.fill.share - first.fill.share) / (last.fill.looks - first.fill.looks).max(1) as f64
}
