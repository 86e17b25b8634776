//! What binds: one sentence, and what it rests on.
//!
//! # Definition
//! The reader takes items in order, so whatever it does not wait for binds nothing. Where it waits, those who make items
//! are looked at: whether they had work and did it (they bind), had none (what comes before them binds), or had no room (who
//! waits and is waited for in turn binds nothing but the room between them). Work is then told apart by where its time went:
//! on a processor, ready for one that others had, or outside.

use crate::bottleneck::Binding;
use crate::measure::{ActorFigures, ITEMS_FEW, ITEMS_MIN, Means, Measured};
use crate::next_bottleneck;
use crate::statistics::percent;

/// Shares of time: below the first nobody waits to speak of; from the second on somebody does for a good part.
const LITTLE: f64 = 0.05;
const MUCH: f64 = 0.25;

/// Seconds that are too few to say anything by; and such that a few items will do, if each of them takes long.
const SECONDS_MIN: f64 = 0.2;
const SECONDS_LONG: f64 = 1.0;

/// A sentence with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The bottleneck.
    pub binding: Binding,
    /// The verdict in one sentence.
    pub sentence: String,
    /// The observations behind it.
    pub evidence: Vec<String>,
}

/// Judges what was measured; `reader` is what the reader is called.
pub fn judge(measured: &Measured, reader: &str) -> Verdict {
    let binding = binding(measured);
    let sums = Means::of(measured);
    let sentence = sentence(&binding, measured, &sums, reader);
    Verdict { evidence: evidence(&binding, measured, &sums, reader), sentence, binding }
}

/// What binds.
pub fn binding(measured: &Measured) -> Binding {
    let (reader, workers) = (&measured.reader, Means::of(measured));
    let are_few = reader.items < ITEMS_FEW || (reader.items < ITEMS_MIN && measured.seconds < SECONDS_LONG);
    if are_few || measured.seconds < SECONDS_MIN || workers.at_work == 0 {
        return Binding::Unknown;
    }
    if reader.starved < LITTLE {
        // It has all that it asks for. Where it hardly gets a processor, that is what it lacks.
        let lacks = reader.queued.unwrap_or(0.0);
        return if lacks > MUCH && lacks > reader.cpu.unwrap_or(1.0) { Binding::Cores } else { Binding::Reader };
    }
    if let Some(slow) = slow_worker(measured) {
        return Binding::Worker(slow);
    }
    // Who waits for its turn, or for another's work, waits for whoever has the processors.
    if measured.are_all_at_work() && workers.busy < 1.0 - MUCH {
        return Binding::Cores;
    }
    if workers.blocked > MUCH {
        // Where the reader does next to nothing it is no other's burst that anybody waits for: a worker that is ready and has no
        // processor keeps the others from their turn.
        let waits_for_processors = reader.busy < MUCH && workers.delayed > MUCH * (workers.busy + workers.delayed);
        return if waits_for_processors { Binding::Cores } else { Binding::Room };
    }
    if workers.starved > workers.busy {
        return Binding::Source;
    }
    if workers.queued > MUCH * workers.busy {
        return Binding::Cores;
    }
    if workers.outside > 0.5 * workers.busy { Binding::Outside } else { Binding::Workers }
}

/// The worker that never waits while the others wait for room: items are taken in turn, so all wait for the slowest.
fn slow_worker(measured: &Measured) -> Option<String> {
    let mut workers: Vec<&ActorFigures> = measured.at_work().collect();
    workers.sort_by(|a, b| a.blocked.total_cmp(&b.blocked));
    let (slowest, others) = workers.split_first()?;
    let least = others.first()?.blocked;
    (slowest.blocked < LITTLE && least > MUCH).then(|| slowest.name.clone())
}

fn sentence(binding: &Binding, measured: &Measured, workers: &Means, reader: &str) -> String {
    let taker = &measured.reader;
    let count = many(workers.at_work);
    match binding {
        Binding::Unknown => format!(
            "too short to say: {} items in {:.1} s; measure for longer (`--seconds`)",
            taker.items, measured.seconds
        ),
        Binding::Reader => format!(
            "the {reader} binds: it is busy {}; the loader could feed {}",
            percent(taker.busy),
            times(next_bottleneck::loader(workers))
        ),
        Binding::Workers => format!(
            "the loader binds: {count} at work {} of the time; the {reader} waits {}{}",
            percent(workers.busy),
            percent(taker.starved),
            if measured.are_all_at_work() { "; no processor is left for more workers" } else { "" }
        ),
        Binding::Worker(name) => format!(
            "worker `{name}` binds: the others wait for it {} of the time, since batches are taken in order",
            percent(measured.others_blocked(name).unwrap_or(0.0))
        ),
        Binding::Source => format!(
            "what the workers read from binds: they wait for it {} of the time; the {reader} waits {}",
            percent(workers.starved),
            percent(taker.starved)
        ),
        Binding::Outside => format!(
            "the disk binds (or whatever else is not this machine's processors): the workers wait outside {} of the time",
            percent(workers.outside)
        ),
        Binding::Cores if taker.starved < LITTLE => format!(
            "processors bind: the {reader} is ready and without one {} of the time, while the workers wait for it {}; other \
             threads have them",
            percent(taker.queued.unwrap_or(0.0)),
            percent(workers.blocked)
        ),
        Binding::Cores => {
            let (had, all) = (measured.processors_had(), measured.cores as f64);
            let others = if had < 0.75 * all { format!("; they get {had:.1} of them") } else { String::new() };
            format!(
                "processors bind: {} and the {reader} for {}{others}; workers are ready without one {} of the time",
                many(measured.workers.len()),
                processors(measured.cores),
                percent(workers.delayed.max(workers.queued))
            )
        }
        Binding::Room if taker.busy < MUCH => format!(
            "handing over binds: the {reader} waits {} of the time and the workers {}, since batches are taken in turn and one \
             takes {:.0} µs to make; larger ones (`train.micro_batch_size`) are handed over less often",
            percent(taker.starved),
            percent(workers.blocked),
            1e6 * measured.cost_of_item()
        ),
        Binding::Room => format!(
            "nothing binds: each waits for the other's bursts, the workers {} and the {reader} {} of the time; more room \
             between them helps: `data.prefetch_batches` {} → {}",
            percent(workers.blocked),
            percent(taker.starved),
            measured.depth,
            2 * measured.depth.max(1)
        ),
    }
}

fn evidence(binding: &Binding, measured: &Measured, workers: &Means, reader: &str) -> Vec<String> {
    if *binding == Binding::Unknown {
        return Vec::new();
    }
    let taker = &measured.reader;
    let behind = next_bottleneck::words(binding, measured, reader);
    let idle = if workers.idle > 0 { format!("; {} had nothing to make", many(workers.idle)) } else { String::new() };
    let clocks = [
        format!(
            "{reader}: busy {}, starved {}; workers: busy {} (on a processor {}, ready for one {}, outside {}), starved {}, \
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
            "queues: {} full in the mean, without room {} and empty {} of the time",
            percent(measured.queues.mean),
            percent(measured.queues.full),
            percent(measured.queues.empty)
        ),
    ];
    clocks.into_iter().chain(behind).collect()
}

/// How many trainers of that speed it could feed.
fn times(could: f64) -> String {
    if could < 10.0 { format!("{} of it", percent(could)) } else { format!("{could:.0} of its kind") }
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
    use crate::measure::QueueFigures;

    /// busy, starved, blocked, on a processor, ready without one.
    type Shares = [f64; 5];

    fn actor(name: &str, items: u64, [busy, starved, blocked, cpu, queued]: Shares) -> ActorFigures {
        let name = name.to_owned();
        let (cpu, queued) = (Some(cpu), Some(queued));
        ActorFigures { name, items, busy, starved, blocked, cpu, queued, delayed: queued, ..ActorFigures::default() }
    }

    fn measured(workers: &[Shares], reader: Shares) -> Measured {
        let workers =
            workers.iter().enumerate().map(|(at, shares)| actor(&format!("batch-{at}"), 500, *shares)).collect();
        Measured {
            seconds: 5.0,
            workers,
            reader: actor("batch-reader", 1000, reader),
            queues: QueueFigures { capacity: 4, ..QueueFigures::default() },
            cores: 2,
            depth: 2,
            ..Measured::default()
        }
    }

    /// What was planted, with the clocks that it shows, and what has to be said of it. `make profile-cases` plants them in
    /// the program.
    #[test]
    fn what_was_planted_is_named() {
        let works = [0.98, 0.0, 0.02, 0.95, 0.03];
        let waits_for_room = [0.02, 0.0, 0.98, 0.02, 0.0];
        let idle = [0.0, 0.0, 0.0, 0.0, 0.0];
        let cases: [(&str, Measured, Binding); 18] = [
            (
                "a trainer that costs nothing, next to workers that hardly get a processor",
                measured(&[[0.45, 0.0, 0.55, 0.45, 0.45]; 2], [0.05, 0.95, 0.0, 0.05, 0.0]),
                Binding::Cores,
            ),
            ("a slow trainer", measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.01, 0.0]), Binding::Reader),
            ("a trainer on processors", measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.97, 0.02]), Binding::Reader),
            ("slow workers", measured(&[works; 2], [0.3, 0.7, 0.0, 0.3, 0.0]), Binding::Workers),
            ("one worker", measured(&[works], [0.1, 0.9, 0.0, 0.1, 0.0]), Binding::Workers),
            (
                "one slow worker",
                measured(&[[1.0, 0.0, 0.0, 0.9, 0.0], [0.04, 0.0, 0.96, 0.04, 0.0]], [0.0, 1.0, 0.0, 0.0, 0.0]),
                Binding::Worker("batch-0".to_owned()),
            ),
            (
                "workers that sleep",
                measured(&[[1.0, 0.0, 0.0, 0.02, 0.01]; 2], [0.5, 0.5, 0.0, 0.0, 0.0]),
                Binding::Outside,
            ),
            ("a slow disk", measured(&[[1.0, 0.0, 0.0, 0.2, 0.02]], [0.0, 1.0, 0.0, 0.0, 0.0]), Binding::Outside),
            (
                "bursts",
                measured(&[[0.81, 0.0, 0.19, 0.01, 0.0], [0.01, 0.0, 0.99, 0.01, 0.0]], [0.73, 0.27, 0.0, 0.0, 0.0]),
                Binding::Room,
            ),
            (
                "queues that are too short",
                measured(&[[0.5, 0.0, 0.5, 0.4, 0.0]; 2], [0.8, 0.2, 0.0, 0.8, 0.0]),
                Binding::Room,
            ),
            (
                "more workers than processors",
                measured(&[[0.97, 0.0, 0.03, 0.24, 0.73]; 8], [0.02, 0.98, 0.0, 0.01, 0.01]),
                Binding::Cores,
            ),
            (
                "others have them",
                measured(&[[0.99, 0.0, 0.01, 0.47, 0.53]; 2], [0.1, 0.9, 0.0, 0.0, 0.0]),
                Binding::Cores,
            ),
            (
                "workers that wait for their turn, on processors that are all at work",
                measured(&[[0.31, 0.05, 0.64, 0.23, 0.08]; 8], [0.11, 0.89, 0.0, 0.06, 0.0]),
                Binding::Cores,
            ),
            (
                "parts that come late",
                measured(&[[0.1, 0.9, 0.0, 0.1, 0.0]; 2], [0.1, 0.9, 0.0, 0.1, 0.0]),
                Binding::Source,
            ),
            (
                "a trainer that gets no processor",
                measured(&[waits_for_room; 2], [0.99, 0.01, 0.0, 0.3, 0.69]),
                Binding::Cores,
            ),
            (
                "an idle worker",
                {
                    let mut measured = measured(&[works, idle], [0.3, 0.7, 0.0, 0.3, 0.0]);
                    measured.workers[1].items = 0;
                    measured
                },
                Binding::Workers,
            ),
            (
                "workers that decode for one another",
                measured(&[[0.2, 0.8, 0.0, 0.19, 0.0]; 4], [0.2, 0.8, 0.0, 0.2, 0.0]),
                Binding::Source,
            ),
            (
                "a short run",
                Measured { seconds: 0.05, ..measured(&[works; 2], [0.3, 0.7, 0.0, 0.3, 0.0]) },
                Binding::Unknown,
            ),
        ];
        for (planted, measured, binding) in cases {
            let verdict = judge(&measured, "trainer");
            assert_eq!(verdict.binding, binding, "{planted}: {}", verdict.sentence);
            assert!(!verdict.sentence.contains("NaN") && verdict.evidence.len() != 1, "{planted}: {verdict:?}");
        }
    }

    /// By hand: whoever is busy half of the time could do twice as much.
    #[test]
    fn what_would_bind_next_is_named() {
        let cases = [
            // Workers that are blocked half of the time; on processors the workers have 0.4 of two.
            (
                "a slow trainer",
                measured(&[[0.5, 0.0, 0.5, 0.2, 0.0]; 2], [1.0, 0.0, 0.0, 0.0, 0.0]),
                "the loader, which could feed 200 % of this",
            ),
            // Workers that could make 20 times as much, of which two processors make 1.25.
            (
                "few processors",
                measured(&[[0.05, 0.0, 0.95, 0.05, 0.0]; 2], [1.0, 0.0, 0.0, 1.5, 0.0]),
                "the processors, which suffice for 125 % of this",
            ),
            (
                "a fast trainer",
                measured(&[[1.0, 0.0, 0.0, 0.1, 0.0]; 2], [0.4, 0.6, 0.0, 0.1, 0.0]),
                "the trainer, which could take 250 % of this",
            ),
            (
                "no trainer",
                measured(&[[0.98, 0.0, 0.02, 0.9, 0.0]], [0.03, 0.97, 0.0, 0.03, 0.0]),
                "the processors, which suffice for 215 % of this",
            ),
            (
                "one slow worker",
                measured(&[[1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.0, 0.8, 0.0, 0.0]], [0.05, 0.95, 0.0, 0.0, 0.0]),
                "the other workers, which could make 500 % of this",
            ),
            (
                "a trainer without a processor",
                measured(&[[0.97, 0.0, 0.03, 0.24, 0.73]; 8], [0.02, 0.98, 0.0, 0.01, 0.01]),
                "the trainer, which could take 50 times this",
            ),
            (
                "bursts",
                measured(&[[0.6, 0.0, 0.4, 0.0, 0.0]; 2], [0.8, 0.2, 0.0, 0.0, 0.0]),
                "the trainer, which could take 125 % of this",
            ),
        ];
        for (planted, measured, behind) in cases {
            let evidence = judge(&measured, "trainer").evidence;
            assert_eq!(evidence.last(), Some(&format!("behind it: {behind}")), "{planted}: {evidence:?}");
        }
        let short = Measured { seconds: 0.05, ..measured(&[[1.0, 0.0, 0.0, 0.0, 0.0]], [0.0, 1.0, 0.0, 0.0, 0.0]) };
        assert_eq!(judge(&short, "trainer").evidence, Vec::<String>::new());
    }

    #[test]
    fn a_verdict_contradicts_no_clock() {
        // U2: workers that are blocked 83 % of the time were said to be the bottleneck.
        let blocked = measured(&[[0.17, 0.0, 0.83, 0.17, 0.0]; 4], [0.15, 0.85, 0.0, 0.15, 0.0]);
        assert_eq!(judge(&blocked, "trainer").binding, Binding::Room);
        let few = Measured { reader: actor("batch-reader", 3, [0.1, 0.9, 0.0, 0.1, 0.0]), ..blocked };
        assert!(judge(&few, "trainer").sentence.starts_with("too short to say: 3 items"));
        assert_eq!(judge(&Measured::default(), "trainer").binding, Binding::Unknown);
    }

    #[test]
    fn what_could_be_fed_is_said_in_words_that_are_read() {
        let fed = |blocked: f64| {
            let workers = [[1.0 - blocked, 0.0, blocked, 0.1, 0.0]; 2];
            judge(&measured(&workers, [1.0, 0.0, 0.0, 0.0, 0.0]), "trainer").sentence
        };
        assert!(fed(0.5).contains("could feed 200 % of it"), "{}", fed(0.5));
        assert!(fed(0.99).contains("could feed 100 of its kind"), "{}", fed(0.99));
    }
}
