//! A profile on a page: what binds, what a change would bring, and what was measured, in drawings.
//!
//! The page is made of the profile's JSON alone, so that one that was kept gives the same page as one that was just
//! measured, to the byte.

mod canvas;
mod course;
pub mod html;
mod read;
mod step;

use serde_json::Value;
use telemetry::quantities::short;

use self::canvas::{Canvas, LOOKS, NARROW, WIDE};
use self::course::{ACTIVITIES, size};
use self::read::{Actor, Change, Estimated, Number, Read, Share, Stage, Training, WhatIf};
use self::step::class_of;
use crate::report::html::Cell::{self, Number as Figure, Stack, Swatch, Text};
use crate::report::html::Html;
use crate::statistics::{milliseconds, nanoseconds, percent};
use crate::what_if::GAIN_MIN;

/// Rows of a table at the most.
const ROWS: usize = 256;

/// A profile that can be shown.
pub struct Page(Read);

/// A drawing of that width, where there is something to draw.
type Drawn<'a> = Box<dyn Fn(f64) -> Option<Canvas> + 'a>;

impl Page {
    /// Of what `cloze profile --json` wrote.
    ///
    /// # Errors
    /// Where it is no such thing: [`InvalidProfile`] with the key that is wrong.
    pub fn of(object: &Value) -> anyhow::Result<Self> {
        read::read(object).map(Self)
    }

    /// Every drawing with its name, as a file of its own.
    pub fn plots(&self) -> Vec<(&'static str, String)> {
        self.drawings().into_iter().filter_map(|(name, drawn)| Some((name, drawn(WIDE)?.alone()))).collect()
    }

    /// As one file of HTML that needs nothing else.
    pub fn html(&self) -> String {
        let mut html = Html::default();
        self.top(&mut html);
        self.changes(&mut html);
        self.glance(&mut html);
        self.actors(&mut html);
        self.section(&mut html, "Over time", &["actors", "rate", "queues", "memory", "owners"]);
        self.stages(&mut html);
        self.training(&mut html);
        self.machine(&mut html);
        let looks = concat!(include_str!("report/style.css"), include_str!("report/plots.css"));
        debug_assert!(looks.ends_with(LOOKS), "drawings look alike on pages and in files");
        html.into_page(&format!("Profile: {}", self.0.verdict.sentence), looks)
    }

    /// All drawings that there may be, by name.
    fn drawings(&self) -> Vec<(&'static str, Drawn<'_>)> {
        let read = &self.0;
        let mut drawings: Vec<(&'static str, Drawn<'_>)> = Vec::new();
        if let Some(timeline) = &read.timeline {
            drawings.push(("actors", Box::new(|width| course::actors(read, timeline, width))));
            drawings.push(("rate", Box::new(|width| course::rate(read, timeline, width))));
            drawings.push(("queues", Box::new(|width| course::queues(read, timeline, width))));
            drawings.push(("memory", Box::new(|width| course::memory(read, timeline, width))));
        }
        if let Some(owners) = &read.memory {
            let title = "Memory at its most, by owner";
            drawings.push(("owners", Box::new(move |width| step::owners(title, &owners.0, width))));
        }
        if let Some(training) = &read.training {
            let title = "Memory of training by owner";
            drawings.push(("phases", Box::new(|width| step::phases(training, width))));
            drawings.push(("waterfall", Box::new(|width| step::waterfall(training, width))));
            drawings.push(("training-memory", Box::new(move |width| step::owners(title, &training.memory.0, width))));
            drawings.push(("training-memory-over-time", Box::new(|width| course::training_memory(training, width))));
        }
        drawings
    }

    /// Those of these drawings that there are.
    fn draw(&self, html: &mut Html, names: &[&str]) {
        for (_, drawn) in self.drawings().into_iter().filter(|(name, _)| names.contains(name)) {
            if let (Some(wide), Some(narrow)) = (drawn(WIDE), drawn(NARROW)) {
                html.drawing(&wide.inline(), &narrow.inline());
            }
        }
    }

    fn section(&self, html: &mut Html, heading: &str, names: &[&str]) {
        let is_any = self.drawings().iter().any(|(name, drawn)| names.contains(name) && drawn(WIDE).is_some());
        if is_any {
            html.heading(2, heading);
            self.draw(html, names);
        }
    }

    fn top(&self, html: &mut Html) {
        let half = match self.0.half.as_str() {
            "online" => "the online half",
            "prepare" => "the preparation",
            "train" => "training",
            "all" => "the loader and training",
            other => other,
        };
        let machine = self.0.machine.as_ref();
        let by = machine.and_then(|machine| machine.configuration.as_ref()).map(|name| format!(", by {name}"));
        html.enter("header", "top");
        html.say(format!("Profile of {half}{}", by.unwrap_or_default()));
        html.marked("h1", &self.0.verdict.sentence);
        html.leave("header");
        html.list(&self.0.verdict.evidence.0[..self.0.verdict.evidence.0.len().min(ROWS)]);
    }

    fn changes(&self, html: &mut Html) {
        let changes = match &self.0.what_if {
            Some(WhatIf::Changes(changes)) => &changes.0,
            Some(WhatIf::Nothing { none }) => return html.marked("p", &format!("What if: {none}.")),
            None => return,
        };
        if changes.is_empty() {
            return html.say("What if: more lanes or more room would bring nothing.");
        }
        html.enter("div", "gains");
        for (at, change) in changes.iter().take(ROWS).enumerate() {
            let Change { key, from, to, gain, within, then } = change;
            html.enter("div", "gain");
            html.enter("p", "much");
            html.marked("span", &gained(gain.0));
            html.leave("p");
            html.marked("p", &format!("`{key}` {} → {}", short(from.0), short(to.0)));
            html.say(format!("foretold within {:.0} %; then {then}", (100.0 * within.0).ceil()));
            if let Some(brought) = self.0.checked_gain.filter(|_| at == 0) {
                html.say(format!("checked: it brought {:+.0} %", 100.0 * brought.0));
            }
            html.leave("div");
        }
        html.leave("div");
    }

    fn glance(&self, html: &mut Html) {
        let read = &self.0;
        let mut figures: Vec<(&str, String)> = Vec::new();
        figures.extend(read.tokens_per_s.map(|rate| ("tokens a second", estimated(&rate, short))));
        figures.extend(read.seconds.map(|seconds| ("measured", format!("{:.1} s", seconds.0))));
        figures.extend(read.warm_up_s.map(|seconds| ("after a warm-up of", format!("{:.1} s", seconds.0))));
        figures.extend(read.processors.map(|processors| ("processors", short(processors.0))));
        let resident = read.timeline.iter().flat_map(|timeline| timeline.resident_bytes.0.iter().flatten());
        let most = resident.map(|bytes| bytes.0).reduce(f64::max);
        figures.extend(most.map(|bytes| ("memory at most", size(bytes))));
        figures.extend(read.looking.map(|share| ("cost of measuring", format!("{} of a processor", percent(share.0)))));
        if !figures.is_empty() {
            html.figures(&figures);
        }
    }

    fn actors(&self, html: &mut Html) {
        let actors = &self.0.actors.0;
        if actors.is_empty() {
            return;
        }
        html.heading(2, "Actors");
        html.keys(&ACTIVITIES);
        html.enter("div", "scroll");
        let columns = [
            "actor",
            "",
            "busy",
            "starved",
            "blocked",
            "idle",
            "processor",
            "outside",
            "items",
            "ns/token",
            "faults",
            "in",
            "out",
        ];
        html.table(&columns, actors.iter().take(ROWS).map(row));
        html.leave("div");
        if actors.len() > ROWS {
            html.say(format!("and {} more", actors.len() - ROWS));
        }
        html.say(
            "Shares are of the time that was measured. An actor is busy, starved (it waits for input), blocked (it waits for \
             room) or idle (it has ended, or never had an item). What is busy and neither on a processor nor ready for one is \
             outside: at a disk, asleep.",
        );
    }

    fn stages(&self, html: &mut Html) {
        let Some(stages) = self.0.stage_costs.as_ref().filter(|stages| !stages.0.is_empty()) else { return };
        html.heading(2, "Stages of the preparation");
        html.enter("div", "scroll");
        let row = |stage: &Stage| {
            let Stage { name, share, seconds, ns_per_token, bytes_in, bytes_out } = stage;
            vec![
                Text(name.clone()),
                Stack(vec![("busy", share.0), ("idle", 1.0 - share.0)]),
                Figure(percent(share.0)),
                Figure(format!("{:.2} s", seconds.0)),
                number(*ns_per_token, nanoseconds),
                number(*bytes_in, size),
                number(*bytes_out, size),
            ]
        };
        let columns = ["stage", "", "of the lanes' work", "time", "ns/token", "bytes in", "bytes out"];
        html.table(&columns, stages.0.iter().take(ROWS).map(row));
        html.leave("div");
    }

    fn training(&self, html: &mut Html) {
        let Some(training) = &self.0.training else { return };
        html.heading(2, "A training step");
        let Training {
            device, device_name, steps, tokens_per_step, micro_batches_per_step, rows_per_micro_batch, ..
        } = training;
        let name = device_name.as_ref().map(|name| format!("{device} ({name})"));
        let mut figures = vec![
            ("a step", estimated(&training.step_ms, milliseconds)),
            ("steps", short(steps.0)),
            ("device", name.unwrap_or_else(|| device.clone())),
        ];
        figures.extend(tokens_per_step.map(|tokens| ("tokens in a step", short(tokens.0))));
        figures.extend(micro_batches_per_step.map(|count| ("micro-batches in a step", short(count.0))));
        figures.extend(rows_per_micro_batch.map(|rows| ("rows in a micro-batch", short(rows.0))));
        html.figures(&figures);
        self.draw(html, &["phases"]);
        phases(html, training);
        self.draw(html, &["waterfall", "training-memory", "training-memory-over-time"]);
    }

    fn machine(&self, html: &mut Html) {
        let Some(machine) = &self.0.machine else { return };
        html.heading(2, "Machine");
        let facts = [
            ("program", &machine.program),
            ("command", &machine.command),
            ("configuration", &machine.configuration),
            ("processor", &machine.processor),
            ("kernel", &machine.kernel),
        ];
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name, fact.clone()?)));
        let code = |name: &str, fact: String| if name == "command" { Cell::Code(fact) } else { Text(fact) };
        html.enter("div", "facts");
        html.table(&["", ""], known.map(|(name, fact)| vec![Text(name.to_owned()), code(name, fact)]));
        html.leave("div");
    }
}

/// Phases of a step with their figures.
fn phases(html: &mut Html, training: &Training) {
    let phases = &training.phases.0;
    let whole: f64 = phases.iter().map(|phase| phase.host_ms.0.max(0.0)).sum();
    html.enter("div", "phases");
    html.table(
        &["phase", "host", "of the step", "device"],
        phases.iter().take(ROWS).map(|phase| {
            vec![
                Swatch(class_of(&phase.what), phase.what.clone()),
                Figure(milliseconds(phase.host_ms.0)),
                Figure(percent(phase.host_ms.0.max(0.0) / whole.max(1e-9))),
                number(phase.device_ms, milliseconds),
            ]
        }),
    );
    html.leave("div");
}

fn row(actor: &Actor) -> Vec<Cell> {
    let Actor { name, items, busy, starved, blocked, processor, outside, ns_per_token, bytes_in, bytes_out, faults } =
        actor;
    let idle = (1.0 - busy.0 - starved.0 - blocked.0).max(0.0);
    let share = |share: &Option<Share>| Figure(share.map_or("–".to_owned(), |share| percent(share.0)));
    vec![
        Text(name.clone()),
        Stack(vec![("busy", busy.0), ("starved", starved.0), ("blocked", blocked.0), ("idle", idle)]),
        Figure(percent(busy.0)),
        Figure(percent(starved.0)),
        Figure(percent(blocked.0)),
        Figure(percent(idle)),
        share(processor),
        share(outside),
        Figure(short(items.0)),
        number(*ns_per_token, nanoseconds),
        number(faults.map(|faults| Number(faults.minor.0 + faults.major.0)), short),
        number(*bytes_in, size),
        number(*bytes_out, size),
    ]
}

fn number(of: Option<Number>, words: impl FnOnce(f64) -> String) -> Cell {
    Figure(of.map_or("–".to_owned(), |number| words(number.0)))
}

/// With half of its interval.
fn estimated(of: &Estimated, words: fn(f64) -> String) -> String {
    let mean = of.mean.0;
    let half = of.low.zip(of.high).map(|(low, high)| (high.0 - low.0) / 2.0 / mean.abs().max(1e-300));
    half.map_or(words(mean), |half| format!("{} ± {}", words(mean), percent(half)))
}

fn gained(gain: f64) -> String {
    if gain.abs() < GAIN_MIN { "as fast".to_owned() } else { format!("{:+.0} %", 100.0 * gain) }
}

#[cfg(test)]
mod tests;
