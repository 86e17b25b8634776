//! HTML page of a profile: bottleneck, effect of changes, and charts of the measurement.
//!
//! The page depends only on the JSON of the profile. A stored profile therefore gives the same page, byte for byte,
//! as a new one.

mod course;
mod read;
mod step;

use maud::{Markup, html};
use report::chart::{NARROW, SvgChart, WIDE};
use report::html::Cell::{self, Number as Figure, Stack, Swatch, Text};
use report::html::{classes_legend, figures, static_page, table, text, with_code};
use serde_json::Value;
use telemetry::quantities::short;

use self::course::{ACTIVITIES, size};
use self::read::{Actor, Change, Estimated, Number, RankTimes, Read, Share, Stage, Training, WhatIf};
use self::step::class_of;
use crate::statistics::{milliseconds, nanoseconds, percent};
use crate::what_if::GAIN_MIN;

/// Style of charts, for light and dark color schemes, on pages and in files.
const CHART_CSS: &str = include_str!("report/plots.css");

/// Largest number of rows of a table.
const ROWS: usize = 256;

/// Validated profile for display.
pub struct ProfilePage(Read);

/// Chart of a given width. `None` if there is no data.
type PlotFn<'a> = Box<dyn Fn(f64) -> Option<SvgChart> + 'a>;

impl ProfilePage {
    /// Reads the JSON that `cloze profile --json` wrote.
    ///
    /// # Errors
    /// Returns [`InvalidProfile`](crate::InvalidProfile) with the invalid key.
    pub fn parse(object: &Value) -> anyhow::Result<Self> {
        read::read(object).map(Self)
    }

    /// Returns each chart with its name, as a separate SVG file.
    pub fn plots(&self) -> Vec<(&'static str, String)> {
        self.drawings().into_iter().filter_map(|(name, drawn)| Some((name, drawn(WIDE)?.to_file(CHART_CSS)))).collect()
    }

    /// Returns one self-contained HTML file.
    pub fn html(&self) -> String {
        let body = html! {
            (self.top())
            (self.changes())
            (self.overview())
            (self.actors())
            (self.over_time())
            (self.stages())
            (self.training())
            (self.machine())
        };
        let style = [include_str!("report/style.css"), CHART_CSS].concat();
        static_page(&format!("Profile: {}", self.0.verdict.sentence), &style, &body)
    }

    /// Returns all possible charts, by name.
    fn drawings(&self) -> Vec<(&'static str, PlotFn<'_>)> {
        let read = &self.0;
        let mut drawings: Vec<(&'static str, PlotFn<'_>)> = Vec::new();
        if let Some(timeline) = &read.timeline {
            drawings.push(("actors", Box::new(|width| course::actors(read, timeline, width))));
            drawings.push(("rate", Box::new(|width| course::rate(read, timeline, width))));
            drawings.push(("queues", Box::new(|width| course::queues(read, timeline, width))));
            drawings.push(("memory", Box::new(|width| course::memory(read, timeline, width))));
        }
        if let Some(owners) = &read.memory {
            let title = "Peak memory by owner";
            drawings.push(("owners", Box::new(move |width| step::owners(title, &owners.0, width))));
        }
        if let Some(training) = &read.training {
            let title = "Training memory by owner";
            drawings.push(("phases", Box::new(|width| step::phases(training, width))));
            drawings.push(("waterfall", Box::new(|width| step::waterfall(training, width))));
            drawings.push(("training-memory", Box::new(move |width| step::owners(title, &training.memory.0, width))));
            drawings.push(("training-memory-over-time", Box::new(|width| course::training_memory(training, width))));
        }
        drawings
    }

    /// Draws the available charts of these names, for wide and narrow screens.
    fn draw(&self, names: &[&str]) -> Markup {
        html! {
            @for (_, drawn) in self.drawings().into_iter().filter(|(name, _)| names.contains(name)) {
                @if let Some((wide, narrow)) = drawn(WIDE).zip(drawn(NARROW)) {
                    figure { div.wide { (wide.to_markup()) } div.narrow { (narrow.to_markup()) } }
                }
            }
        }
    }

    fn top(&self) -> Markup {
        let half = match self.0.target.as_str() {
            "loader" => "the loader",
            "prepare" => "the preparation",
            "train" => "training",
            "all" => "the loader and training",
            other => other,
        };
        let configuration = self.0.machine.as_ref().and_then(|machine| machine.configuration.as_ref());
        let evidence = &self.0.verdict.evidence.0;
        html! {
            header.top {
                p { "Profile of " (text(half)) @if let Some(name) = configuration { ", configuration " (text(name)) } }
                h1 { (with_code(&self.0.verdict.sentence)) }
            }
            @if !evidence.is_empty() { ul { @for item in evidence.iter().take(ROWS) { li { (with_code(item)) } } } }
        }
    }

    fn changes(&self) -> Markup {
        let changes = match &self.0.what_if {
            Some(WhatIf::Changes(changes)) => &changes.0,
            Some(WhatIf::Nothing { none }) => return html! { p { (with_code(&format!("What-if: {none}."))) } },
            None => return html! {},
        };
        if changes.is_empty() {
            return html! { p { "What-if: more workers or longer queues bring no gain." } };
        }
        html! {
            div.gains {
                @for (at, change) in changes.iter().take(ROWS).enumerate() {
                    @let Change { key, from, to, gain, within, then } = change;
                    div.gain {
                        p.much { span { (with_code(&gained(gain.0))) } }
                        p { (with_code(&format!("`{key}` {} → {}", short(from.0), short(to.0)))) }
                        p { "predicted within " (format!("{:.0}", (100.0 * within.0).ceil())) " %; " (text(then)) }
                        @if let Some(brought) = self.0.checked_gain.filter(|_| at == 0) {
                            p { "measured: " (format!("{:+.0}", 100.0 * brought.0)) " %" }
                        }
                    }
                }
            }
        }
    }

    fn overview(&self) -> Markup {
        let read = &self.0;
        let mut known: Vec<(&str, String)> = Vec::new();
        known.extend(read.tokens_per_s.map(|rate| ("tokens per second", estimated(&rate, short))));
        known.extend(read.seconds.map(|seconds| ("measured", format!("{:.1} s", seconds.0))));
        known.extend(read.warm_up_s.map(|seconds| ("after a warm-up of", format!("{:.1} s", seconds.0))));
        known.extend(read.processors.map(|processors| ("processors", short(processors.0))));
        let resident = read.timeline.iter().flat_map(|timeline| timeline.resident_bytes.0.iter().flatten());
        let most = resident.map(|bytes| bytes.0).reduce(f64::max);
        known.extend(most.map(|bytes| ("peak memory", size(bytes))));
        known.extend(read.overhead.map(|share| ("profiler overhead", format!("{} of a processor", percent(share.0)))));
        html! { @if !known.is_empty() { (figures(&known)) } }
    }

    fn actors(&self) -> Markup {
        let actors = &self.0.actors.0;
        if actors.is_empty() {
            return html! {};
        }
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
        html! {
            h2 { "Actors" }
            (classes_legend(&ACTIVITIES))
            div.scroll { (table(&columns, actors.iter().take(ROWS).map(row))) }
            @if actors.len() > ROWS { p { "and " (actors.len() - ROWS) " more" } }
            p {
                (with_code("Shares of the measured time. An actor is busy, starved (it waits for input), blocked (its output queue \
                 is full) or idle (it has ended, or never had an item). `outside` is busy time neither on a processor nor ready \
                 for one: disk or sleep."))
            }
        }
    }

    fn over_time(&self) -> Markup {
        let drawings = self.draw(&["actors", "rate", "queues", "memory", "owners"]);
        html! { @if !drawings.0.is_empty() { h2 { "Over time" } (drawings) } }
    }

    fn stages(&self) -> Markup {
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
        let columns = ["stage", "", "share of working time", "time", "ns/token", "bytes in", "bytes out"];
        html! {
            @if let Some(stages) = self.0.stage_costs.as_ref().filter(|stages| !stages.0.is_empty()) {
                h2 { "Stages of the preparation" }
                div.scroll { (table(&columns, stages.0.iter().take(ROWS).map(row))) }
            }
        }
    }

    fn training(&self) -> Markup {
        let Some(training) = &self.0.training else { return html! {} };
        let Training { device, device_name, steps, tokens_per_step, micro_batches_per_step, micro_batch_size, .. } =
            training;
        let name = device_name.as_ref().map(|name| format!("{device} ({name})"));
        let mut known = vec![
            ("step time", estimated(&training.step_ms, milliseconds)),
            ("steps", short(steps.0)),
            ("device", name.unwrap_or_else(|| device.clone())),
        ];
        known.extend(tokens_per_step.map(|tokens| ("tokens per step", short(tokens.0))));
        known.extend(micro_batches_per_step.map(|count| ("micro-batches per step", short(count.0))));
        known.extend(micro_batch_size.map(|rows| ("rows per micro-batch", short(rows.0))));
        if let Some(RankTimes { count, computation_ms, data_wait_ms, communication_ms, rank_wait_ms }) = training.ranks
        {
            let ms = |time: Number| milliseconds(time.0);
            known.extend([
                ("ranks", short(count.0)),
                ("computation", ms(computation_ms)),
                ("wait for batches", ms(data_wait_ms)),
                ("exposed communication", ms(communication_ms)),
                ("wait for slower ranks", ms(rank_wait_ms)),
            ]);
        }
        html! {
            h2 { "A training step" }
            (figures(&known))
            (self.draw(&["phases"]))
            div.phases { (phases(training)) }
            (self.draw(&["waterfall", "training-memory", "training-memory-over-time"]))
        }
    }

    fn machine(&self) -> Markup {
        let Some(machine) = &self.0.machine else { return html! {} };
        let facts = [
            ("program", &machine.program),
            ("command", &machine.command),
            ("configuration", &machine.configuration),
            ("processor", &machine.processor),
            ("kernel", &machine.kernel),
        ];
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name, fact.clone()?)));
        let code = |name: &str, fact: String| if name == "command" { Cell::Code(fact) } else { Text(fact) };
        html! {
            h2 { "Machine" }
            div.facts { (table(&["", ""], known.map(|(name, fact)| vec![Text(name.to_owned()), code(name, fact)]))) }
        }
    }
}

/// Table of the phases of a step.
fn phases(training: &Training) -> Markup {
    let phases = &training.phases.0;
    let whole: f64 = phases.iter().map(|phase| phase.host_ms.0.max(0.0)).sum();
    table(
        &["phase", "host", "share of the step", "device"],
        phases.iter().take(ROWS).map(|phase| {
            vec![
                Swatch(class_of(&phase.what), phase.what.clone()),
                Figure(milliseconds(phase.host_ms.0)),
                Figure(percent(phase.host_ms.0.max(0.0) / whole.max(1e-9))),
                number(phase.device_ms, milliseconds),
            ]
        }),
    )
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

/// Formats an estimate with half of its interval.
fn estimated(of: &Estimated, words: fn(f64) -> String) -> String {
    let mean = of.mean.0;
    let half = of.low.zip(of.high).map(|(low, high)| (high.0 - low.0) / 2.0 / mean.abs().max(1e-300));
    half.map_or(words(mean), |half| format!("{} ± {}", words(mean), percent(half)))
}

fn gained(gain: f64) -> String {
    if gain.abs() < GAIN_MIN { "no change".to_owned() } else { format!("{:+.0} %", 100.0 * gain) }
}

#[cfg(test)]
mod tests;
