//! Charts of a training step: time per phase, timeline of one step, memory by owner.

use super::course::{round, size};
use super::read::{Bar, Number, Owner, Training};
use crate::statistics::{milliseconds, percent};
use report::chart::{LINE, SvgChart, TextAnchor, ticks, truncate};

/// Height of a bar, height of a waterfall row, and width of the names before them.
const BAR: f64 = 28.0;
const ROW: f64 = 20.0;
const NAMES: f64 = 130.0;
const NAMES_NARROW: f64 = 96.0;

/// Largest number of rows and bars per step.
const ROWS: usize = 24;
const BARS: usize = 4096;

/// CSS class of a phase. All objectives share one.
pub(super) fn class_of(phase: &str) -> &'static str {
    match phase {
        "wait" => "p-wait",
        "upload" => "p-upload",
        "embeddings" => "p-embeddings",
        "attention" => "p-attention",
        "feed_forward" => "p-feed",
        "norm" => "p-norm",
        "backward" => "p-backward",
        "optimizer" => "p-optimizer",
        "all_reduce" | "exchange" => "p-ranks",
        "synchronize" => "p-synchronize",
        name if name.starts_with("objective") => "p-objective",
        _ => "p-other",
    }
}

/// Draws the time of each phase: on the host and, if known, on the device.
pub(super) fn phases(training: &Training, width: f64) -> Option<SvgChart> {
    let phases = &training.phases.0;
    let host: Vec<(&str, f64)> = phases.iter().map(|phase| (phase.what.as_str(), phase.host_ms.0)).collect();
    let device: Vec<(&str, f64)> =
        phases.iter().filter_map(|phase| Some((phase.what.as_str(), phase.device_ms?.0))).collect();
    let whole = |of: &[(&str, f64)]| of.iter().map(|(_, ms)| ms.max(0.0)).sum::<f64>();
    let most = whole(&host).max(whole(&device));
    if most <= 0.0 {
        return None;
    }
    let largest = host.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(what, _)| what);
    let about = format!("Consecutive phases of a step; the longest on the host is {largest}. The table lists all.");
    let mut chart = SvgChart::new(width, "Time of a step", about);
    for (clock, parts) in [("host", &host), ("device", &device)] {
        let sum = whole(parts);
        if sum <= 0.0 {
            continue;
        }
        chart.y += LINE;
        chart.text((0.0, chart.y), TextAnchor::Start, "soft", &format!("{clock}: {}", milliseconds(sum)));
        chart.y += 6.0;
        let mut from = 0.0;
        let y = chart.y;
        for (what, ms) in parts {
            let wide = ms.max(0.0) / most * chart.width;
            let tip = format!("{what}: {} ({})", milliseconds(*ms), percent(ms.max(0.0) / sum));
            // A gap separates neighbors of the same color.
            chart.rect((from, y), (if wide > 3.0 { wide - 1.0 } else { wide }, BAR), class_of(what), &tip);
            let letters = ((wide - 10.0) / 7.5).floor();
            if letters >= what.chars().count() as f64 {
                chart.text((from + 6.0, y + BAR - 9.0), TextAnchor::Start, "on", what);
            }
            from += wide;
        }
        chart.y += BAR;
    }
    chart.y += 6.0;
    Some(chart)
}

/// Draws one step over time: one row per phase of the host, then of the device.
pub(super) fn waterfall(training: &Training, width: f64) -> Option<SvgChart> {
    let host = training.waterfall.0.as_slice();
    let device = training.device_waterfall.as_ref().map_or(&[][..], |bars| &bars.0);
    let ends = host.iter().chain(device).map(|bar| bar.to_ms.0);
    let most = ends.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let about = format!("One step of {} from left to right, with a row for each phase.", milliseconds(most));
    let mut chart = SvgChart::new(width, "One step over time", about);
    let names = if chart.is_narrow() { NAMES_NARROW } else { NAMES };
    chart.y += 6.0;
    let top = chart.y;
    let scale = (chart.width - names) / most;
    let count = if chart.is_narrow() { 3 } else { 8 };
    let workers = [("host", host), ("device", device)];
    let height: f64 =
        workers.iter().filter(|(_, bars)| !bars.is_empty()).map(|(_, bars)| LINE + rows(bars).len() as f64 * ROW).sum();
    for mark in ticks(most, count) {
        let x = names + mark * scale;
        chart.line((x, top), (x, top + height + 4.0), "grid");
        let side = if x > chart.width - 24.0 { TextAnchor::End } else { TextAnchor::Middle };
        chart.text((x, top + height + LINE), side, "soft", &format!("{} ms", round(mark)));
    }
    for (clock, bars) in workers {
        if bars.is_empty() {
            continue;
        }
        chart.y += LINE;
        chart.text((0.0, chart.y - 4.0), TextAnchor::Start, "name", clock);
        for what in rows(bars) {
            let y = chart.y;
            chart.text(
                (names - 8.0, y + ROW - 6.0),
                TextAnchor::End,
                "soft",
                &truncate(what, if chart.is_narrow() { 12 } else { 17 }),
            );
            for bar in bars.iter().take(BARS).filter(|bar| bar.what == what) {
                let from = bar.from_ms.0.max(0.0);
                let to = bar.to_ms.0;
                let tip = format!("{what}: {} to {}", milliseconds(from), milliseconds(to));
                let wide = ((to - from) * scale).max(0.75);
                chart.rect((names + from * scale, y + 2.0), (wide, ROW - 4.0), class_of(what), &tip);
            }
            chart.y += ROW;
        }
    }
    chart.y += LINE;
    Some(chart)
}

/// Returns the phases in the order of their start.
fn rows(bars: &[Bar]) -> Vec<&str> {
    let mut rows: Vec<&str> = Vec::new();
    for bar in bars.iter().take(BARS) {
        if rows.len() < ROWS && !rows.contains(&bar.what.as_str()) {
            rows.push(&bar.what);
        }
    }
    rows
}

/// Draws the memory by owner, one bar each.
pub(super) fn owners(title: &str, owners: &[Owner], width: f64) -> Option<SvgChart> {
    let most = owners.iter().map(|owner| owner.bytes.0).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let words: Vec<String> = owners.iter().take(ROWS).map(|of| format!("{} {}", of.owner, size(of.bytes.0))).collect();
    let mut chart = SvgChart::new(width, title, words.join(", "));
    let names = if chart.is_narrow() { NAMES_NARROW + 24.0 } else { NAMES + 20.0 };
    let scale = (chart.width - names - 76.0) / most;
    chart.y += 6.0;
    for Owner { owner, bytes: Number(bytes) } in owners.iter().take(ROWS) {
        let y = chart.y;
        chart.text(
            (names - 8.0, y + ROW - 6.0),
            TextAnchor::End,
            "soft",
            &truncate(owner, if chart.is_narrow() { 15 } else { 20 }),
        );
        chart.rect((names, y + 2.0), (bytes.max(0.0) * scale, ROW - 4.0), "held", "");
        chart.text((names + bytes.max(0.0) * scale + 6.0, y + ROW - 6.0), TextAnchor::Start, "", &size(*bytes));
        chart.y += ROW;
    }
    Some(chart)
}
