//! Verdict of a measurement: the bottleneck in one sentence, with evidence.
//!
//! # Definition
//! The reader takes items in order, so a part that it does not wait for is not the bottleneck. If the reader waits,
//! the state of the workers decides. Busy workers are the bottleneck. If they are starved, their input is the
//! bottleneck. If they are blocked, both sides wait for each other and the queues are the bottleneck. If they are
//! blocked and the reader works for more of the time than it waits, the reader keeps them waiting: processors are the
//! bottleneck only if the reader lacks one. Working time is then split by its use: on a processor, ready without one,
//! or outside.

use crate::bottleneck::Bottleneck;
use crate::measure::{ActorMetrics, ITEMS_FEW, ITEMS_MIN, MeanShares, Measured};
use crate::next_bottleneck;
use crate::statistics::percent;

/// Shares of time: below the first, waiting is negligible; from the second on it is significant.
const LITTLE: f64 = 0.05;
const MUCH: f64 = 0.25;

/// Least seconds for a verdict, and the seconds from which on a few slow items are enough.
const SECONDS_MIN: f64 = 0.2;
const SECONDS_LONG: f64 = 1.0;

/// Bottleneck with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// The verdict in one sentence.
    pub sentence: String,
    /// The observations behind it.
    pub evidence: Vec<String>,
}

/// Evaluates a measurement. `reader` is the name of the reader in the text.
pub fn find_bottleneck(measured: &Measured, reader: &str) -> Verdict {
    let bottleneck = bottleneck(measured);
    let sums = MeanShares::new(measured);
    let sentence = sentence(&bottleneck, measured, &sums, reader);
    Verdict { evidence: evidence(&bottleneck, measured, &sums, reader), sentence, bottleneck }
}

/// Returns the bottleneck.
pub fn bottleneck(measured: &Measured) -> Bottleneck {
    let reader = &measured.reader;
    let workers = MeanShares::new(measured);
    let are_few = reader.items < ITEMS_FEW || (reader.items < ITEMS_MIN && measured.seconds < SECONDS_LONG);
    if are_few || measured.seconds < SECONDS_MIN || workers.at_work == 0 {
        return Bottleneck::Unknown;
    }
    if reader.starved < LITTLE {
        // The reader never waits for items.
        return if lacks_processor(reader) { Bottleneck::Cores } else { Bottleneck::Reader };
    }
    if let Some(slow) = slow_worker(measured) {
        return Bottleneck::Worker(slow);
    }
    // However many processors are in use.
    if delays_workers(reader, &workers) {
        return match () {
            () if lacks_processor(reader) => Bottleneck::Cores,
            () if reader.starved < 2.0 * LITTLE && workers.blocked > 1.0 - MUCH => Bottleneck::Reader,
            () => Bottleneck::Room,
        };
    }
    // A worker that waits for its turn or for another worker waits for the threads on the processors.
    if measured.are_all_at_work() && workers.busy < 1.0 - MUCH {
        return Bottleneck::Cores;
    }
    if workers.blocked > MUCH {
        // If the reader does almost nothing, no worker waits for its bursts. A worker that is ready without a
        // processor then delays the turn of the others.
        let waits_for_processors = reader.busy < MUCH && workers.delayed > MUCH * (workers.busy + workers.delayed);
        return if waits_for_processors { Bottleneck::Cores } else { Bottleneck::Room };
    }
    if workers.starved > workers.busy {
        return Bottleneck::Source;
    }
    if workers.queued > MUCH * workers.busy {
        return Bottleneck::Cores;
    }
    if workers.outside > 0.5 * workers.busy { Bottleneck::Outside } else { Bottleneck::Workers }
}

/// Whether workers wait for room and the reader works for more of the time than it waits.
fn delays_workers(reader: &ActorMetrics, workers: &MeanShares) -> bool {
    workers.blocked > MUCH && reader.busy > reader.starved
}

/// Whether the reader is ready without a processor for longer than it has one.
fn lacks_processor(reader: &ActorMetrics) -> bool {
    let lacks = reader.queued.unwrap_or(0.0);
    lacks > MUCH && lacks > reader.cpu.unwrap_or(1.0)
}

/// Returns the worker that never waits while the others wait for queue space. Items are taken in turn, so all wait
/// for the slowest.
fn slow_worker(measured: &Measured) -> Option<String> {
    let mut workers: Vec<&ActorMetrics> = measured.at_work().collect();
    workers.sort_by(|a, b| a.blocked.total_cmp(&b.blocked));
    let (slowest, others) = workers.split_first()?;
    let least = others.first()?.blocked;
    (slowest.blocked < LITTLE && least > MUCH).then(|| slowest.name.clone())
}

fn sentence(bottleneck: &Bottleneck, measured: &Measured, workers: &MeanShares, reader: &str) -> String {
    let taker = &measured.reader;
    let count = many(workers.at_work);
    match bottleneck {
        Bottleneck::Unknown => format!(
            "too short to say: {} items in {:.1} s; measure for longer (`--seconds`)",
            taker.items, measured.seconds
        ),
        Bottleneck::Reader => format!(
            "bottleneck: {reader} (busy {} of the time); the loader could supply {}",
            percent(taker.busy),
            times(next_bottleneck::loader(workers))
        ),
        Bottleneck::Workers => format!(
            "bottleneck: loader ({count}, busy {} of the time); the {reader} waits {}{}",
            percent(workers.busy),
            percent(taker.starved),
            if measured.are_all_at_work() { "; all processors are in use" } else { "" }
        ),
        Bottleneck::Worker(name) => format!(
            "bottleneck: worker `{name}` (the others wait for it {} of the time, since batches are taken in order)",
            percent(measured.others_blocked(name).unwrap_or(0.0))
        ),
        Bottleneck::Source => format!(
            "bottleneck: input of the workers (they wait for it {} of the time); the {reader} waits {}",
            percent(workers.starved),
            percent(taker.starved)
        ),
        Bottleneck::Outside => format!(
            "bottleneck: disk or network (the workers wait outside the processors {} of the time)",
            percent(workers.outside)
        ),
        Bottleneck::Cores if lacks_processor(taker) && (taker.starved < LITTLE || delays_workers(taker, workers)) => {
            format!(
                "bottleneck: processors (the {reader} is ready without one {} of the time, and the workers wait for it {}); other \
             threads use them",
                percent(taker.queued.unwrap_or(0.0)),
                percent(workers.blocked)
            )
        }
        Bottleneck::Cores => {
            let had = measured.processors_had();
            let all = measured.cores as f64;
            let others = if had < 0.75 * all { format!(", of which they get {had:.1}") } else { String::new() };
            format!(
                "bottleneck: processors ({} and the {reader} on {}{others}; workers are ready without one {} of the time)",
                many(measured.workers.len()),
                processors(measured.cores),
                percent(workers.delayed.max(workers.queued))
            )
        }
        Bottleneck::Room if taker.busy < MUCH => format!(
            "bottleneck: handover (the {reader} waits {} of the time and the workers {}): batches are taken in turn, and one \
             takes {:.0} µs to make; increase `train.micro_batch_size` for fewer handovers",
            percent(taker.starved),
            percent(workers.blocked),
            1e6 * measured.cost_of_item()
        ),
        Bottleneck::Room => format!(
            "bottleneck: queues (bursts: the workers wait {} and the {reader} {} of the time); \
             increase `data.prefetch_batches` {} → {}",
            percent(workers.blocked),
            percent(taker.starved),
            measured.depth,
            2 * measured.depth.max(1)
        ),
    }
}

fn evidence(bottleneck: &Bottleneck, measured: &Measured, workers: &MeanShares, reader: &str) -> Vec<String> {
    if *bottleneck == Bottleneck::Unknown {
        return Vec::new();
    }
    let taker = &measured.reader;
    let next = next_bottleneck::describe(bottleneck, measured, reader);
    let idle = if workers.idle > 0 { format!("; {} idle", many(workers.idle)) } else { String::new() };
    let clocks = [
        format!(
            "{reader}: busy {}, starved {}; workers: busy {} (on a processor {}, ready without one {}, outside {}), starved {}, \
             blocked {}{idle}",
            percent(taker.busy),
            percent(taker.starved),
            percent(workers.busy),
            percent(workers.cpu),
            percent(workers.queued),
            percent(workers.outside),
            percent(workers.starved),
            percent(workers.blocked)
        ),
        format!(
            "queues: mean fill {}, full {} and empty {} of the time",
            percent(measured.queues.mean),
            percent(measured.queues.full),
            percent(measured.queues.empty)
        ),
    ];
    clocks.into_iter().chain(next).collect()
}

/// Formats the rate that the loader could supply, relative to the current one.
fn times(could: f64) -> String {
    if could < 10.0 { format!("{} of this rate", percent(could)) } else { format!("{could:.0} times this rate") }
}

fn many(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

fn processors(cores: usize) -> String {
    if cores == 1 { "1 processor".to_owned() } else { format!("{cores} processors") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::QueueMetrics;

    /// Shares busy, starved, blocked, on a processor, ready without one.
    type Shares = [f64; 5];

    fn actor(name: &str, items: u64, [busy, starved, blocked, cpu, queued]: Shares) -> ActorMetrics {
        let name = name.to_owned();
        let cpu = Some(cpu);
        let queued = Some(queued);
        ActorMetrics { name, items, busy, starved, blocked, cpu, queued, delayed: queued, ..ActorMetrics::default() }
    }

    fn measured(workers: &[Shares], reader: Shares) -> Measured {
        let workers =
            workers.iter().enumerate().map(|(at, shares)| actor(&format!("batch-{at}"), 500, *shares)).collect();
        Measured {
            seconds: 5.0,
            workers,
            reader: actor("batch-reader", 1000, reader),
            queues: QueueMetrics { capacity: 4, ..QueueMetrics::default() },
            cores: 2,
            depth: 2,
            ..Measured::default()
        }
    }

    /// Planted bottlenecks with the clocks that they cause, and the expected verdict. `make profile-cases` plants
    /// them in the program.
    fn check(cases: Vec<(&str, Measured, Bottleneck)>) {
        for (planted, measured, bottleneck) in cases {
            let verdict = find_bottleneck(&measured, "trainer");
            assert_eq!(verdict.bottleneck, bottleneck, "{planted}: {}", verdict.sentence);
            assert!(!verdict.sentence.contains("NaN") && verdict.evidence.len() != 1, "{planted}: {verdict:?}");
        }
    }

    #[test]
    fn injected_bottlenecks_are_named() {
        let works = [0.98, 0.0, 0.02, 0.95, 0.03];
        let waits_for_room = [0.02, 0.0, 0.98, 0.02, 0.0];
        check(vec![
            (
                "a trainer that costs nothing, next to workers that hardly get a processor",
                measured(&[[0.45, 0.0, 0.55, 0.45, 0.45]; 2], [0.05, 0.95, 0.0, 0.05, 0.0]),
                Bottleneck::Cores,
            ),
            ("a slow trainer", measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.01, 0.0]), Bottleneck::Reader),
            (
                "a trainer on processors",
                measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.97, 0.02]),
                Bottleneck::Reader,
            ),
            (
                "a trainer on processors that are all in use, and workers that wait for it",
                measured(&[[0.2, 0.0, 0.8, 0.2, 0.0]; 4], [0.93, 0.07, 0.0, 1.1, 0.0]),
                Bottleneck::Reader,
            ),
            (
                "queues that are too short, on processors that are all in use",
                measured(&[[0.5, 0.0, 0.5, 0.5, 0.0]; 2], [0.8, 0.2, 0.0, 0.8, 0.0]),
                Bottleneck::Room,
            ),
            (
                "workers that often lack a processor, and wait for a trainer for most of the time",
                measured(&[[0.2, 0.0, 0.8, 0.1, 0.1]; 8], [0.9, 0.1, 0.0, 0.9, 0.0]),
                Bottleneck::Room,
            ),
            (
                "a trainer that lacks a processor, and workers that wait for it",
                measured(&[[0.4, 0.0, 0.6, 0.4, 0.0]; 4], [0.9, 0.1, 0.0, 0.3, 0.6]),
                Bottleneck::Cores,
            ),
            ("slow workers", measured(&[works; 2], [0.3, 0.7, 0.0, 0.3, 0.0]), Bottleneck::Workers),
            ("one worker", measured(&[works], [0.1, 0.9, 0.0, 0.1, 0.0]), Bottleneck::Workers),
            (
                "one slow worker",
                measured(&[[1.0, 0.0, 0.0, 0.9, 0.0], [0.04, 0.0, 0.96, 0.04, 0.0]], [0.0, 1.0, 0.0, 0.0, 0.0]),
                Bottleneck::Worker("batch-0".to_owned()),
            ),
            (
                "workers that sleep",
                measured(&[[1.0, 0.0, 0.0, 0.02, 0.01]; 2], [0.5, 0.5, 0.0, 0.0, 0.0]),
                Bottleneck::Outside,
            ),
        ]);
    }

    #[test]
    fn further_injected_bottlenecks_are_named() {
        let works = [0.98, 0.0, 0.02, 0.95, 0.03];
        let waits_for_room = [0.02, 0.0, 0.98, 0.02, 0.0];
        let idle = [0.0, 0.0, 0.0, 0.0, 0.0];
        check(vec![
            ("a slow disk", measured(&[[1.0, 0.0, 0.0, 0.2, 0.02]], [0.0, 1.0, 0.0, 0.0, 0.0]), Bottleneck::Outside),
            (
                "bursts",
                measured(&[[0.81, 0.0, 0.19, 0.01, 0.0], [0.01, 0.0, 0.99, 0.01, 0.0]], [0.73, 0.27, 0.0, 0.0, 0.0]),
                Bottleneck::Room,
            ),
            (
                "queues that are too short",
                measured(&[[0.5, 0.0, 0.5, 0.4, 0.0]; 2], [0.8, 0.2, 0.0, 0.8, 0.0]),
                Bottleneck::Room,
            ),
            (
                "more workers than processors",
                measured(&[[0.97, 0.0, 0.03, 0.24, 0.73]; 8], [0.02, 0.98, 0.0, 0.01, 0.01]),
                Bottleneck::Cores,
            ),
            (
                "others have them",
                measured(&[[0.99, 0.0, 0.01, 0.47, 0.53]; 2], [0.1, 0.9, 0.0, 0.0, 0.0]),
                Bottleneck::Cores,
            ),
            (
                "workers that wait for their turn, on processors that are all at work",
                measured(&[[0.31, 0.05, 0.64, 0.23, 0.08]; 8], [0.11, 0.89, 0.0, 0.06, 0.0]),
                Bottleneck::Cores,
            ),
            (
                "parts that come late",
                measured(&[[0.1, 0.9, 0.0, 0.1, 0.0]; 2], [0.1, 0.9, 0.0, 0.1, 0.0]),
                Bottleneck::Source,
            ),
            (
                "a trainer that gets no processor",
                measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.3, 0.69]),
                Bottleneck::Cores,
            ),
            (
                "an idle worker",
                {
                    let mut measured = measured(&[works, idle], [0.3, 0.7, 0.0, 0.3, 0.0]);
                    measured.workers[1].items = 0;
                    measured
                },
                Bottleneck::Workers,
            ),
            (
                "workers that decode for one another",
                measured(&[[0.2, 0.8, 0.0, 0.19, 0.0]; 4], [0.2, 0.8, 0.0, 0.2, 0.0]),
                Bottleneck::Source,
            ),
            (
                "a short run",
                Measured { seconds: 0.05, ..measured(&[works; 2], [0.3, 0.7, 0.0, 0.3, 0.0]) },
                Bottleneck::Unknown,
            ),
        ]);
    }

    /// By hand: a part that is busy half of the time could process twice as much.
    #[test]
    fn next_bottleneck_is_named() {
        let cases = [
            // Workers that are blocked half of the time. The workers use 0.4 of two processors.
            (
                "a slow trainer",
                measured(&[[0.5, 0.0, 0.5, 0.2, 0.0]; 2], [1.0, 0.0, 0.0, 0.0, 0.0]),
                "the loader, which could supply 200 % of this rate",
            ),
            // Workers that could produce 20 times as much, while two processors suffice for 1.25.
            (
                "few processors",
                measured(&[[0.05, 0.0, 0.95, 0.05, 0.0]; 2], [1.0, 0.0, 0.0, 1.5, 0.0]),
                "the processors, which suffice for 125 % of this rate",
            ),
            (
                "a fast trainer",
                measured(&[[1.0, 0.0, 0.0, 0.1, 0.0]; 2], [0.4, 0.6, 0.0, 0.1, 0.0]),
                "the trainer, which could take 250 % of this rate",
            ),
            (
                "no trainer",
                measured(&[[0.98, 0.0, 0.02, 0.9, 0.0]], [0.03, 0.97, 0.0, 0.03, 0.0]),
                "the processors, which suffice for 215 % of this rate",
            ),
            (
                "one slow worker",
                measured(&[[1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.0, 0.8, 0.0, 0.0]], [0.05, 0.95, 0.0, 0.0, 0.0]),
                "the other workers, which could produce 500 % of this rate",
            ),
            (
                "a trainer without a processor",
                measured(&[[0.97, 0.0, 0.03, 0.24, 0.73]; 8], [0.02, 0.98, 0.0, 0.01, 0.01]),
                "the trainer, which could take 50 times this rate",
            ),
            (
                "bursts",
                measured(&[[0.6, 0.0, 0.4, 0.0, 0.0]; 2], [0.8, 0.2, 0.0, 0.0, 0.0]),
                "the trainer, which could take 125 % of this rate",
            ),
        ];
        for (planted, measured, next) in cases {
            let evidence = find_bottleneck(&measured, "trainer").evidence;
            assert_eq!(evidence.last(), Some(&format!("next bottleneck: {next}")), "{planted}: {evidence:?}");
        }
        let short = Measured { seconds: 0.05, ..measured(&[[1.0, 0.0, 0.0, 0.0, 0.0]], [0.0, 1.0, 0.0, 0.0, 0.0]) };
        assert_eq!(find_bottleneck(&short, "trainer").evidence, Vec::<String>::new());
    }

    #[test]
    fn verdict_agrees_with_the_clocks() {
        // U2: an earlier version named workers as the bottleneck that were blocked 83 % of the time.
        let blocked = measured(&[[0.17, 0.0, 0.83, 0.17, 0.0]; 4], [0.15, 0.85, 0.0, 0.15, 0.0]);
        assert_eq!(find_bottleneck(&blocked, "trainer").bottleneck, Bottleneck::Room);
        let few = Measured { reader: actor("batch-reader", 3, [0.1, 0.9, 0.0, 0.1, 0.0]), ..blocked };
        assert!(find_bottleneck(&few, "trainer").sentence.starts_with("too short to say: 3 items"));
        assert_eq!(find_bottleneck(&Measured::default(), "trainer").bottleneck, Bottleneck::Unknown);
    }

    #[test]
    fn headroom_of_the_loader_is_readable() {
        let fed = |blocked: f64| {
            let workers = [[1.0 - blocked, 0.0, blocked, 0.1, 0.0]; 2];
            find_bottleneck(&measured(&workers, [1.0, 0.0, 0.0, 0.0, 0.0]), "trainer").sentence
        };
        assert!(fed(0.5).contains("could supply 200 % of this rate"), "{}", fed(0.5));
        assert!(fed(0.99).contains("could supply 100 times this rate"), "{}", fed(0.99));
    }
}
