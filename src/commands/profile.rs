//! `cloze profile`: which actor do the others wait for? And what is a training step by itself?

#[cfg(feature = "train")]
mod made;
#[cfg(feature = "train")]
mod step;

use std::time::{Duration, Instant};

use observe::{Clock, Many};
use pipeline::actor::Reading;
use pipeline::load::{BatchStream, StreamOptions};
use pipeline::prepare::{self, PrepareOptions, Stage, Stages};
use schemas::{RowIndex, Share};
use serde_json::json;

use crate::cli::{ConfigArgs, Half};
use crate::config::Parsed;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::terminal::{line, short};

/// What to do with which half.
pub(crate) struct Options {
    pub(crate) half: Half,
    pub(crate) batches: u64,
    #[cfg_attr(not(feature = "train"), expect(dead_code, reason = "there is no trainer to time"))]
    pub(crate) steps: usize,
    pub(crate) step_ms: f64,
    pub(crate) slow: Option<String>,
    pub(crate) json: bool,
}

/// Runs a half against a consumer that costs nothing, or as much as was asked for, and says what it waits for.
pub(crate) fn run(args: &ConfigArgs, options: &Options) -> anyhow::Result<()> {
    let profile = match options.half {
        Half::Online => online(args, options)?,
        Half::Prepare => offline(args, options)?,
        #[cfg(feature = "train")]
        Half::Step => return step::run(args, options.steps, options.json),
    };
    if options.json {
        line(profile.json());
    } else {
        profile.lines().into_iter().for_each(line);
    }
    Ok(())
}

/// What was measured.
struct Profile {
    /// Lanes, then whoever takes what they make.
    actors: Vec<Reading>,
    /// Mean items waiting in all queues, and how many could.
    fill: (f64, usize),
    tokens: u64,
    wall: Duration,
    bottleneck: String,
}

/// `actor=ms`.
fn slow(options: &Options, actor: &str) -> anyhow::Result<Option<Duration>> {
    let Some(text) = &options.slow else { return Ok(None) };
    let parsed = text.strip_prefix(actor).and_then(|rest| rest.strip_prefix('=')).and_then(|ms| ms.parse().ok());
    match parsed {
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
        None => Err(Usage(format!("--slow {text}: this half can slow `{actor}=MILLISECONDS`")).into()),
    }
}

/// The online half against a trainer that only takes time.
fn online(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    let plan = Plan::to_look_at(args)?;
    let sleep = slow(options, "lane")?.map(|sleep| (0, sleep));
    let step = Duration::from_secs_f64(options.step_ms.max(0.0) / 1e3);
    // As in training, where lanes digest the rows as well.
    let training = StreamOptions { digests: true, lane_sleep: sleep, ..StreamOptions::default() };
    let mut stream = BatchStream::new(plan.load(), RowIndex(0), Share::ALONE, training);
    let gauges = stream.gauges();
    let width = plan.load().facts().views.iter().map(|view| view.width).max().unwrap_or(0) as u64;
    let (mut tokens, mut queued) = (0, 0);
    let began = Instant::now();
    for _ in 0..options.batches {
        let Some(batch) = stream.next() else { break };
        tokens += batch?.rows() as u64 * width;
        queued += gauges.lanes().iter().map(|lane| lane.queued.min(lane.capacity)).sum::<usize>();
        std::thread::sleep(step);
    }
    let wall = began.elapsed();
    let mut actors = gauges.lanes();
    let capacity = actors.iter().map(|lane| lane.capacity).sum();
    actors.push(Reading { name: "trainer".into(), ..gauges.reader() });
    let bottleneck = verdict(&actors, &format!("{:.0} ms per step", options.step_ms));
    Ok(Profile { actors, fill: (queued as f64 / options.batches.max(1) as f64, capacity), tokens, wall, bottleneck })
}

/// Who is busy while the others wait.
fn verdict(actors: &[Reading], step: &str) -> String {
    let share = |part: Duration, reading: &Reading| part.as_secs_f64() / reading.wall.as_secs_f64().max(1e-9);
    let (trainer, lanes) = actors.split_last().expect("there is a reader");
    let starved = share(trainer.starved, trainer);
    if starved < 0.1 {
        let blocked = lanes.iter().map(|lane| share(lane.blocked, lane)).sum::<f64>() / lanes.len().max(1) as f64;
        return format!(
            "the trainer ({step}) is the bottleneck: it waits {:.0} % of the time, the lanes wait for it {:.0} %",
            100.0 * starved,
            100.0 * blocked
        );
    }
    let busiest = lanes.iter().max_by(|a, b| share(a.busy, a).total_cmp(&share(b.busy, b))).expect("there is a lane");
    let others: Vec<f64> =
        lanes.iter().filter(|lane| lane.name != busiest.name).map(|lane| share(lane.busy, lane)).collect();
    let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
    if !others.is_empty() && mean < 0.5 * share(busiest.busy, busiest) {
        format!(
            "lane {} is the bottleneck: busy {:.0} % of the time, the other lanes {:.0} %; the trainer waits {:.0} %",
            busiest.name,
            100.0 * share(busiest.busy, busiest),
            100.0 * mean,
            100.0 * starved
        )
    } else {
        format!(
            "the lanes are the bottleneck: the trainer waits {:.0} % of the time; more lanes make more batches (`data.lanes`)",
            100.0 * starved
        )
    }
}

/// The offline half against a writer that throws samples away, or takes time.
fn offline(args: &ConfigArgs, options: &Options) -> anyhow::Result<Profile> {
    // Of several corpora the first: each goes the same way.
    let config = Parsed::read(&args.config, &args.set)?.into_corpora(None)?.swap_remove(0).prepare;
    let write_delay = slow(options, "writer")?.unwrap_or_default();
    let began = Instant::now();
    let run = PrepareOptions { null_writer: true, write_delay, ..PrepareOptions::default() };
    let summary = prepare::run(&config, run, &Clock::system(), &mut Many::default())?;
    let wall = began.elapsed();
    let mut actors = summary.lanes;
    actors.push(summary.fold);
    let capacity = actors.iter().map(|lane| lane.capacity).sum();
    let bottleneck = stage_verdict(&summary.stages);
    Ok(Profile { actors, fill: (0.0, capacity), tokens: summary.corpus.tokens, wall, bottleneck })
}

fn stage_verdict(stages: &Stages) -> String {
    let total = (stages.read + stages.tokenize + stages.pack + stages.write).as_secs_f64().max(1e-9);
    let share = |part: Duration| 100.0 * part.as_secs_f64() / total;
    let name = match stages.slowest() {
        Stage::Read => "reading",
        Stage::Tokenize => "tokenizing",
        Stage::Pack => "packing",
        Stage::Write => "writing",
    };
    format!(
        "{name} is the bottleneck of the lanes' work: read {:.0} %, tokenize {:.0} %, pack {:.0} %, write {:.0} %",
        share(stages.read),
        share(stages.tokenize),
        share(stages.pack),
        share(stages.write)
    )
}

impl Profile {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    fn json(&self) -> String {
        let actors: Vec<_> = self
            .actors
            .iter()
            .map(|actor| {
                json!({ "name": actor.name, "busy_s": actor.busy.as_secs_f64(), "starved_s": actor.starved.as_secs_f64(),
                        "blocked_s": actor.blocked.as_secs_f64(), "wall_s": actor.wall.as_secs_f64(), "items": actor.items })
            })
            .collect();
        let object = json!({
            "actors": actors, "queue_fill": self.fill.0, "queue_capacity": self.fill.1, "tokens": self.tokens,
            "wall_s": self.wall.as_secs_f64(), "tokens_per_s": self.tokens_per_second(), "bottleneck": self.bottleneck,
        });
        format!("{object:#}")
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{:<14} {:>6} {:>8} {:>8} {:>8}", "actor", "items", "busy", "starved", "blocked")];
        for actor in &self.actors {
            let share = |part: Duration| 100.0 * part.as_secs_f64() / actor.wall.as_secs_f64().max(1e-9);
            lines.push(format!(
                "{:<14} {:>6} {:>6.1} % {:>6.1} % {:>6.1} %",
                actor.name,
                actor.items,
                share(actor.busy),
                share(actor.starved),
                share(actor.blocked)
            ));
        }
        lines.push(format!("queues hold {:.1} of at most {} items", self.fill.0, self.fill.1));
        lines.push(format!("{} tokens/s over {:.1} s", short(self.tokens_per_second()), self.wall.as_secs_f64()));
        lines.push(self.bottleneck.clone());
        lines
    }
}
