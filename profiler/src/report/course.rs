//! Charts over time: activity of each actor, rate, queue fill and memory.

use telemetry::quantities::{bytes, short};

use super::read::{List, Memory, Number, Read, Share, Timeline, Training};
use crate::statistics::percent;
use report::chart::{AreaStep, LINE, NARROW, SvgChart, TextAnchor, ticks, truncate};

/// Largest number of actors that are drawn: the first workers, and the reader.
const ACTORS: usize = 17;

/// Heights of an activity band and of a curve.
const BAND: f64 = 34.0;
const CURVE: f64 = 150.0;

/// Minimum number of items in a window of the rate.
const ITEMS_OF_WINDOW: f64 = 10.0;

/// Width of the axis labels at the left.
const LEFT: f64 = 64.0;

pub(super) const ACTIVITIES: [(&str, &str); 4] =
    [("busy", "busy"), ("starved", "starved: no input"), ("blocked", "blocked: output queue full"), ("idle", "idle")];

/// Mapping from seconds to x coordinates.
pub(super) struct Clock {
    left: f64,
    right: f64,
    seconds: f64,
}

impl Clock {
    fn covering(chart: &SvgChart, left: f64, timeline: &Timeline) -> Self {
        let seconds = timeline.at_s.0.last().map_or(0.0, |at| at.0);
        Self { left, right: chart.width, seconds: seconds.max(1e-9) }
    }

    pub(super) fn x(&self, at: f64) -> f64 {
        self.left + (at / self.seconds).clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Draws the time axis below the chart.
    fn axis(&self, chart: &mut SvgChart) {
        let y = chart.y;
        chart.line((self.left, y), (self.right, y), "axis");
        for mark in ticks(self.seconds, if chart.is_narrow() { 4 } else { 9 }) {
            let x = self.x(mark);
            // The last label ends at the right edge.
            let side = if x > self.right - 16.0 { TextAnchor::End } else { TextAnchor::Middle };
            chart.line((x, y), (x, y + 4.0), "axis");
            chart.text((x, y + LINE), side, "soft", &time(mark));
        }
        chart.y += LINE;
    }

    /// Shades the warm-up, which does not count.
    fn warm_up(&self, chart: &mut SvgChart, until: f64, height: f64) {
        let x = self.x(until);
        let top = chart.y;
        if x - self.left < 8.0 {
            return;
        }
        // This rectangle is drawn last, so that it dims the curve.
        chart.rect((self.left, top), (x - self.left, height), "warm", &format!("warm-up: {}", time(until)));
        chart.line((x, top - 14.0), (x, top + height), "axis");
        let side = if x - self.left > 56.0 { TextAnchor::End } else { TextAnchor::Start };
        let gap = if x - self.left > 56.0 { -6.0 } else { 6.0 };
        chart.text((x + gap, top - 4.0), side, "soft", "warm-up");
    }
}

/// Formats a duration.
fn time(seconds: f64) -> String {
    if seconds >= 600.0 {
        return format!("{} min", round(seconds / 60.0));
    }
    format!("{} s", round(seconds))
}

pub(super) fn round(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws the activity of each actor per window, as stacked bands.
pub(super) fn actors(read: &Read, timeline: &Timeline, width: f64) -> Option<SvgChart> {
    let courses = &timeline.actors.0;
    if courses.is_empty() || timeline.at_s.0.is_empty() {
        return None;
    }
    let about = "A band for each actor: from bottom to top the shares of each window in which it was busy, starved, \
                 blocked and idle. The table of actors has their means.";
    let mut chart = SvgChart::new(width, "Activity of each actor", about.to_owned());
    chart.legend(&ACTIVITIES);
    let clock = Clock::covering(&chart, LEFT, timeline);
    let first = chart.y + LINE;
    // The reader is the last actor.
    let (shown, hidden) =
        if courses.len() > ACTORS { (ACTORS - 1, courses.len() - ACTORS) } else { (courses.len(), 0) };
    for course in courses.iter().take(shown).chain(courses.last().filter(|_| hidden > 0)) {
        let means = [("busy", &course.busy.0), ("starved", &course.starved.0), ("blocked", &course.blocked.0)];
        chart.y += LINE;
        chart.text(
            (LEFT, chart.y),
            TextAnchor::Start,
            "name",
            &truncate(&course.name, if chart.is_narrow() { 11 } else { 24 }),
        );
        if let Some(actor) = read.actors.0.iter().find(|actor| actor.name == course.name) {
            let words = [("busy", actor.busy), ("starved", actor.starved), ("blocked", actor.blocked)];
            let words: Vec<String> = words.iter().map(|(word, share)| format!("{word} {}", percent(share.0))).collect();
            let labels = if chart.is_narrow() { &words[..1] } else { &words };
            chart.text((chart.width, chart.y), TextAnchor::End, "soft", &labels.join(" · "));
        }
        chart.y += 6.0;
        band(&mut chart, &clock, timeline, means);
        chart.y += BAND + 2.0;
    }
    if hidden > 0 {
        chart.y += LINE;
        chart.text((LEFT, chart.y), TextAnchor::Start, "soft", &format!("and {hidden} more workers, in the table"));
        chart.y += 4.0;
    }
    let warm = clock.x(read.warm_up_s.map_or(0.0, |at| at.0));
    if warm > LEFT + 8.0 {
        let foot = chart.y;
        chart.line((warm, first), (warm, foot), "mark");
    }
    clock.axis(&mut chart);
    Some(chart)
}

fn band(chart: &mut SvgChart, clock: &Clock, timeline: &Timeline, parts: [(&str, &Vec<Share>); 3]) {
    let top = chart.y;
    let begin = clock.x(timeline.from_s.0);
    chart.rect((clock.left, top), (clock.right - clock.left, BAND), "idle", "");
    let mut feet = vec![0.0; timeline.at_s.0.len()];
    for (class, shares) in parts {
        let steps: Vec<AreaStep> = timeline
            .at_s
            .0
            .iter()
            .zip(feet.iter_mut().zip(shares))
            .map(|(at, (foot, share))| {
                let low = *foot;
                *foot = (*foot + share.0).min(1.0);
                AreaStep { end_x: clock.x(at.0), low_y: top + BAND * (1.0 - low), high_y: top + BAND * (1.0 - *foot) }
            })
            .collect();
        // An empty area needs no shape.
        if shares.iter().any(|share| share.0 > 0.0) {
            chart.step_area(begin, &steps, class);
        }
    }
}

/// Curve with a y axis from 0: title, values, number format and class.
struct Curve<'a> {
    title: &'a str,
    about: String,
    legend: Vec<(&'a str, &'a str)>,
    most: f64,
    /// Axis labels are round multiples of this.
    unit: f64,
    words: fn(f64) -> String,
    areas: Vec<(&'a str, Vec<f64>)>,
    /// Mean with its interval, drawn after the warm-up.
    mean: Option<(f64, Option<(f64, f64)>)>,
}

impl Curve<'_> {
    fn draw(&self, read: Option<&Read>, timeline: &Timeline, width: f64) -> SvgChart {
        let mut chart = SvgChart::new(width, self.title, self.about.clone());
        chart.legend(&self.legend);
        chart.y += LINE;
        let clock = Clock::covering(&chart, LEFT, timeline);
        let warm_up = read.and_then(|read| read.warm_up_s).map_or(0.0, |at| at.0);
        let top = chart.y;
        let most = if self.most > 0.0 { self.most } else { 1.0 };
        let y = |value: f64| top + CURVE * (1.0 - (value / most).clamp(0.0, 1.0));
        for mark in ticks(most / self.unit, 4).into_iter().map(|mark| mark * self.unit) {
            chart.line((clock.left, y(mark)), (clock.right, y(mark)), "grid");
            chart.text((clock.left - 8.0, y(mark) + 4.0), TextAnchor::End, "soft", &(self.words)(mark));
        }
        for (class, values) in &self.areas {
            let steps: Vec<AreaStep> = timeline
                .at_s
                .0
                .iter()
                .zip(values)
                .map(|(at, value)| AreaStep { end_x: clock.x(at.0), low_y: top + CURVE, high_y: y(*value) })
                .collect();
            let begin = clock.x(timeline.from_s.0);
            chart.step_area(begin, &steps, class);
            chart.step_line(begin, &steps, &format!("{class}-edge"));
        }
        if let Some((mean, interval)) = self.mean {
            let begin = clock.x(warm_up);
            if let Some((low, high)) = interval {
                chart.rect((begin, y(high)), (clock.right - begin, y(low) - y(high)), "sure", "95 % interval");
            }
            chart.line((begin, y(mean)), (clock.right, y(mean)), "mark");
        }
        clock.warm_up(&mut chart, warm_up, CURVE);
        chart.y += CURVE;
        clock.axis(&mut chart);
        chart
    }
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn numbers(of: &[Number]) -> Vec<f64> {
    of.iter().map(|number| number.0.max(0.0)).collect()
}

/// Draws the items per second, with their mean after the warm-up.
pub(super) fn rate(read: &Read, timeline: &Timeline, width: f64) -> Option<SvgChart> {
    let rates = smoothed(timeline);
    let first = rates.first()?;
    let last = rates.last()?;
    let mean = read.items_per_s;
    let about = format!(
        "Items per second in windows of at least {ITEMS_OF_WINDOW} items: {} in the first, {} in the last{}.",
        short(*first),
        short(*last),
        mean.map(|mean| format!(", mean {} after the warm-up", short(mean.mean.0))).unwrap_or_default()
    );
    let title = if read.target == "prepare" { "Parts per second" } else { "Batches per second" };
    let mean = mean.map(|mean| (mean.mean.0, mean.low.zip(mean.high).map(|(low, high)| (low.0, high.0))));
    let legend = vec![("rate", "in windows of 10 items"), ("sure", "mean, 95 % interval")];
    let legend = if width > NARROW && mean.is_some() { legend } else { Vec::new() };
    let curve = Curve {
        title,
        about,
        legend,
        most: 1.1 * most(&rates),
        unit: 1.0,
        words: figure,
        areas: vec![("rate", rates)],
        mean,
    };
    Some(curve.draw(Some(read), timeline, width))
}

/// Returns the items per second of each window, as the mean of a span of windows with [`ITEMS_OF_WINDOW`] items. A
/// window that is shorter than a step has one item or none.
pub(super) fn smoothed(timeline: &Timeline) -> Vec<f64> {
    let mut spans: Vec<RateSpan> = Vec::new();
    let mut open = RateSpan::default();
    let mut from = timeline.from_s.0;
    for (at, rate) in timeline.at_s.0.iter().zip(numbers(&timeline.items_per_s.0)) {
        let seconds = (at.0 - from).max(0.0);
        from = at.0;
        open = open.joined(&RateSpan { windows: 1, seconds, items: rate * seconds });
        // Rates are rounded in a profile.
        if open.items >= ITEMS_OF_WINDOW - 0.5 {
            spans.push(std::mem::take(&mut open));
        }
    }
    // The last windows join the span before them.
    open = spans.pop().unwrap_or_default().joined(&open);
    spans.push(open);
    spans.iter().flat_map(|span| vec![span.items / span.seconds.max(1e-9); span.windows]).collect()
}

/// Consecutive windows that share a mean rate.
#[derive(Default)]
struct RateSpan {
    windows: usize,
    seconds: f64,
    items: f64,
}

impl RateSpan {
    fn joined(self, next: &Self) -> Self {
        Self {
            windows: self.windows + next.windows,
            seconds: self.seconds + next.seconds,
            items: self.items + next.items,
        }
    }
}

fn figure(value: f64) -> String {
    if value < 10.0 { round(value) } else { short(value) }
}

/// Draws the fill of the queues.
pub(super) fn queues(read: &Read, timeline: &Timeline, width: f64) -> Option<SvgChart> {
    let shares: Vec<f64> = timeline.queue.0.iter().map(|share| share.0).collect();
    let queues = read.queues.as_ref().filter(|queues| !shares.is_empty() && queues.capacity.0 > 0.0)?;
    let about = format!(
        "Fill of the {} places between the workers and the reader in each window; mean {}.",
        short(queues.capacity.0),
        percent(queues.mean.0)
    );
    let title = format!("Queue fill, of {} places", short(queues.capacity.0));
    let mean = Some((queues.mean.0, None));
    let curve = Curve {
        title: &title,
        about,
        legend: Vec::new(),
        most: 1.0,
        unit: 1.0,
        words: whole,
        areas: vec![("queue", shares)],
        mean,
    };
    Some(curve.draw(Some(read), timeline, width))
}

fn whole(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Draws the resident memory of the process, and the part in queues.
pub(super) fn memory(read: &Read, timeline: &Timeline, width: f64) -> Option<SvgChart> {
    let mut last = None;
    // A missing value repeats the previous one.
    let resident: Vec<f64> = timeline
        .resident_bytes
        .0
        .iter()
        .map(|now| {
            last = now.or(last);
            last.map_or(0.0, |number: Number| number.0.max(0.0))
        })
        .collect();
    last?;
    let queued = numbers(&timeline.queued_bytes.0);
    let top = most(&resident).max(most(&queued));
    let about = format!(
        "Resident bytes of the process, at most {}; at most {} of them in queues.",
        size(top),
        size(most(&queued))
    );
    let legend = vec![("resident", "process"), ("held", "in queues")];
    let areas = vec![("resident", resident), ("held", queued)];
    let areas = areas.into_iter().filter(|(_, values)| !values.is_empty()).collect();
    let curve = Curve {
        title: "Host memory",
        about,
        legend,
        most: 1.1 * top,
        unit: unit(top),
        words: round_size,
        areas,
        mean: None,
    };
    Some(curve.draw(Some(read), timeline, width))
}

/// Formats a round axis label.
fn round_size(value: f64) -> String {
    size(value).replace(".0 ", " ")
}

/// Returns the binary unit for this number of bytes.
fn unit(bytes: f64) -> f64 {
    [1024.0_f64.powi(3), 1024.0_f64.powi(2), 1024.0].into_iter().find(|unit| bytes >= *unit).unwrap_or(1.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes are counts below 1e18")]
pub(super) fn size(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}

/// Draws the memory of training over time: of the host, and of the device if it has its own.
pub(super) fn training_memory(training: &Training, width: f64) -> Option<SvgChart> {
    let moments = &training.memory_over_time.0;
    let known = |of: fn(&Memory) -> Option<Number>| -> Option<Vec<f64>> {
        let values: Vec<f64> = moments.iter().map(|it| of(it).map_or(0.0, |bytes| bytes.0.max(0.0))).collect();
        (most(&values) > 0.0).then_some(values)
    };
    let host = known(|it| it.resident_bytes);
    let device = known(|it| it.device_bytes);
    let top = host.iter().chain(&device).map(|values| most(values)).reduce(f64::max)?;
    let mut times: Vec<Number> = moments.iter().map(|moment| moment.at_s).collect();
    // A hand-edited profile may be out of order, and x coordinates must ascend.
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let timeline = Timeline { at_s: List(times), ..Timeline::default() };
    let words = device.as_ref().map(|device| format!(", {} on the device", size(most(device)))).unwrap_or_default();
    let about = format!("At most {} on the host{words}.", size(host.as_ref().map_or(0.0, |host| most(host))));
    let legend = vec![("rate", "host"), ("device", "device")];
    let legend = if device.is_some() { legend } else { Vec::new() };
    let areas = [("rate", host), ("device", device)];
    let mut areas: Vec<(&str, Vec<f64>)> = areas.into_iter().filter_map(|(of, values)| Some((of, values?))).collect();
    // The smaller area is drawn last, in front of the larger one.
    areas.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    let curve = Curve {
        title: "Training memory",
        about,
        legend,
        most: 1.1 * top,
        unit: unit(top),
        words: round_size,
        areas,
        mean: None,
    };
    Some(curve.draw(None, &timeline, width))
}
