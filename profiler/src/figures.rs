//! What an actor did, from looks at it: shares of the time, and how well they are known.

use std::time::Duration;

use runtime::{ThreadCounters, ThreadSchedule};

use crate::look::{Look, Seen};
use crate::statistics::{Estimate, mean_of};

/// What an actor did while it was measured: shares of the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActorFigures {
    /// Its name.
    pub name: String,
    /// Items that it made.
    pub items: u64,
    /// These and `idle` add up to 1.
    pub busy: f64,
    /// Waiting for input.
    pub starved: f64,
    /// Waiting for room in its output queue.
    pub blocked: f64,
    /// Of the busy time: on a processor; ready, and none was free. What is left waits for something outside: a disk, a sleep.
    /// None where the kernel does not say.
    pub cpu: Option<f64>,
    /// Ready to run while every processor was taken.
    pub queued: Option<f64>,
    /// The share of all time in which its thread was ready and had no processor: at work, and on its way back from a wait.
    pub(crate) delayed: Option<f64>,
    /// What lies between mean shares of windows.
    pub intervals: Intervals,
    /// Bytes and tokens of the items that it made; 0 where nobody says.
    pub bytes: u64,
    /// Tokens of the items that it made.
    pub tokens: u64,
    /// What the kernel counted meanwhile of its thread; none where it does not.
    pub counted: Option<ThreadCounters>,
}

/// The same shares with their intervals, where there are windows enough.
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

impl ActorFigures {
    /// The share of all time in which it worked and waited for something outside.
    pub fn outside(&self) -> f64 {
        match (self.cpu, self.queued) {
            (Some(cpu), Some(queued)) => (self.busy - cpu - queued).max(0.0),
            _ => 0.0,
        }
    }

    /// The share of all time in which it had ended, or had nothing to do from the beginning.
    pub fn idle(&self) -> f64 {
        let idle = 1.0 - self.busy - self.starved - self.blocked;
        // What is left of a sum that was rounded is nothing.
        if idle < 1e-9 { 0.0 } else { idle }
    }
}

/// How full the queues were: shares of their places, and of the looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueFigures {
    /// Places of a queue.
    pub capacity: usize,
    /// The mean share of places that are taken.
    pub mean: f64,
    /// The share of samples in which a queue was full.
    pub full: f64,
    /// The share of samples in which a queue was empty.
    pub empty: f64,
    /// Of the mean.
    pub interval: Option<Estimate>,
}

/// Shares of the time between two looks.
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
    pub(super) fn between(first: &Seen, last: &Seen, seconds: f64) -> Self {
        // Who has ended and made nothing had nothing to do: the moment in which it found out is no work.
        if last.reading.items == 0 && last.reading.doing.is_none() {
            let nothing = Some(0.0);
            return Self { cpu: nothing, queued: nothing, delayed: nothing, ..Self::default() };
        }
        let seconds = seconds.max(1e-9);
        let share = |clock: fn(&Seen) -> Duration| clock(last).saturating_sub(clock(first)).as_secs_f64() / seconds;
        let [busy, starved, blocked] =
            [share(|seen| seen.reading.busy), share(|seen| seen.reading.starved), share(|seen| seen.reading.blocked)];
        // Clocks of one look are read one after another: of very short windows more than all of the time may have passed.
        let scale = (busy + starved + blocked).max(1.0);
        let [busy, starved, blocked] = [busy, starved, blocked].map(|share| share / scale);
        // Whose thread was not known at first had not finished anything.
        let first_ran = first.scheduled.or((first.reading.items == 0).then(Default::default));
        let ran = first_ran.zip(last.scheduled);
        let share_of = |of: fn(ThreadSchedule) -> Duration, most: f64| {
            ran.map(|(a, b)| (of(b).saturating_sub(of(a)).as_secs_f64() / seconds).clamp(0.0, most))
        };
        let cpu = share_of(|it| it.ran, busy);
        // On its way back from a wait a thread is ready too; of the busy time there is no more than what is left.
        let queued = share_of(|it| it.queued, busy - cpu.unwrap_or(busy));
        Self { busy, starved, blocked, cpu, queued, delayed: share_of(|it| it.queued, 1.0) }
    }
}

/// What an actor did between the first and the last of these looks, in each of which `of` finds it.
pub(super) fn figures(looks: &[Look], of: impl Fn(&Look) -> &Seen) -> ActorFigures {
    let (Some(begun), Some(over)) = (looks.first(), looks.last()) else { return ActorFigures::default() };
    let (first, last) = (of(begun), of(over));
    let all = Shares::between(first, last, over.at - begun.at);
    let Shares { busy, starved, blocked, cpu, queued, delayed } = all;
    ActorFigures {
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

/// Around the shares of `all` of the time: windows are not equally long, and of the first some are left out.
fn intervals(looks: &[Look], of: &impl Fn(&Look) -> &Seen, all: &Shares) -> Intervals {
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

fn counted(first: &Seen, last: &Seen) -> Option<ThreadCounters> {
    let last = last.counted?;
    let first = first.counted.or((first.reading.items == 0).then(Default::default))?;
    Some(ThreadCounters {
        minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
        major_faults: last.major_faults.saturating_sub(first.major_faults),
        read_bytes: first.read_bytes.or(Some(0)).zip(last.read_bytes).map(|(a, b)| b.saturating_sub(a)),
    })
}

/// How full queues were between the first and the last of these looks.
pub(super) fn queues(looks: &[Look]) -> QueueFigures {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return QueueFigures::default() };
    let looked = (last.fill.looks - first.fill.looks).max(1) as f64;
    let means: Vec<f64> = looks.windows(2).map(|pair| fill(&pair[0], &pair[1])).collect();
    QueueFigures {
        capacity: last.workers.iter().map(|worker| worker.reading.capacity).sum(),
        mean: fill(first, last),
        full: (last.fill.full - first.fill.full) as f64 / looked,
        empty: (last.fill.empty - first.fill.empty) as f64 / looked,
        interval: mean_of(&means),
    }
}

/// The mean share of their places that was taken between two looks.
pub(super) fn fill(first: &Look, last: &Look) -> f64 {
    (last.fill.share - first.fill.share) / (last.fill.looks - first.fill.looks).max(1) as f64
}
