//! Drawings of a training step: where its time goes, one of them over time, memory by owner.

use super::canvas::{Canvas, LINE, Side, cut, marks};
use super::course::{round, size};
use super::read::{Bar, Number, Owner, Training};
use crate::statistics::{milliseconds, percent};

/// Height of a bar, of a row of the waterfall, and the width of the names before them.
const BAR: f64 = 28.0;
const ROW: f64 = 20.0;
const NAMES: f64 = 130.0;
const NAMES_NARROW: f64 = 96.0;

/// Rows and bars that are drawn of one step.
const ROWS: usize = 24;
const BARS: usize = 4096;

/// The class of a phase; an objective is one of many.
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
        "synchronize" => "p-synchronize",
        name if name.starts_with("objective") => "p-objective",
        _ => "p-other",
    }
}

/// Where a step goes: on the host and, where it is known, on the device.
pub(super) fn phases(training: &Training, width: f64) -> Option<Canvas> {
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
    let about =
        format!("Phases of a step behind one another; most of the host's time goes into {largest}. The table has all.");
    let mut canvas = Canvas::new(width, "Where a step goes", about);
    for (clock, parts) in [("host", &host), ("device", &device)] {
        let sum = whole(parts);
        if sum <= 0.0 {
            continue;
        }
        canvas.y += LINE;
        canvas.text((0.0, canvas.y), Side::Right, "soft", &format!("{clock}: {}", milliseconds(sum)));
        canvas.y += 6.0;
        let (mut from, y) = (0.0, canvas.y);
        for (what, ms) in parts {
            let wide = ms.max(0.0) / most * canvas.width;
            let tip = format!("{what}: {} ({})", milliseconds(*ms), percent(ms.max(0.0) / sum));
            // A gap tells apart what has one colour.
            canvas.rect((from, y), (if wide > 3.0 { wide - 1.0 } else { wide }, BAR), class_of(what), &tip);
            let letters = ((wide - 10.0) / 7.5).floor();
            if letters >= what.chars().count() as f64 {
                canvas.text((from + 6.0, y + BAR - 9.0), Side::Right, "on", what);
            }
            from += wide;
        }
        canvas.y += BAR;
    }
    canvas.y += 6.0;
    Some(canvas)
}

/// One step over time: a row for each phase of the host, then of the device.
pub(super) fn waterfall(training: &Training, width: f64) -> Option<Canvas> {
    let host = training.waterfall.0.as_slice();
    let device = training.device_waterfall.as_ref().map_or(&[][..], |bars| &bars.0);
    let ends = host.iter().chain(device).map(|bar| bar.to_ms.0);
    let most = ends.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let about =
        format!("Bars from left to right are {} of one step: a row for each of its phases.", milliseconds(most));
    let mut canvas = Canvas::new(width, "One step over time", about);
    let names = if canvas.is_narrow() { NAMES_NARROW } else { NAMES };
    canvas.y += 6.0;
    let (top, scale) = (canvas.y, (canvas.width - names) / most);
    let count = if canvas.is_narrow() { 3 } else { 8 };
    let workers = [("host", host), ("device", device)];
    let height: f64 =
        workers.iter().filter(|(_, bars)| !bars.is_empty()).map(|(_, bars)| LINE + rows(bars).len() as f64 * ROW).sum();
    for mark in marks(most, count) {
        let x = names + mark * scale;
        canvas.line((x, top), (x, top + height + 4.0), "grid");
        let side = if x > canvas.width - 24.0 { Side::Left } else { Side::Middle };
        canvas.text((x, top + height + LINE), side, "soft", &format!("{} ms", round(mark)));
    }
    for (clock, bars) in workers {
        if bars.is_empty() {
            continue;
        }
        canvas.y += LINE;
        canvas.text((0.0, canvas.y - 4.0), Side::Right, "name", clock);
        for what in rows(bars) {
            let y = canvas.y;
            canvas.text(
                (names - 8.0, y + ROW - 6.0),
                Side::Left,
                "soft",
                &cut(what, if canvas.is_narrow() { 12 } else { 17 }),
            );
            for bar in bars.iter().take(BARS).filter(|bar| bar.what == what) {
                let (from, to) = (bar.from_ms.0.max(0.0), bar.to_ms.0);
                let tip = format!("{what}: {} to {}", milliseconds(from), milliseconds(to));
                let wide = ((to - from) * scale).max(0.75);
                canvas.rect((names + from * scale, y + 2.0), (wide, ROW - 4.0), class_of(what), &tip);
            }
            canvas.y += ROW;
        }
    }
    canvas.y += LINE;
    Some(canvas)
}

/// Phases in the order in which they begin.
fn rows(bars: &[Bar]) -> Vec<&str> {
    let mut rows: Vec<&str> = Vec::new();
    for bar in bars.iter().take(BARS) {
        if rows.len() < ROWS && !rows.contains(&bar.what.as_str()) {
            rows.push(&bar.what);
        }
    }
    rows
}

/// Memory by owner, one bar below another.
pub(super) fn owners(title: &str, owners: &[Owner], width: f64) -> Option<Canvas> {
    let most = owners.iter().map(|owner| owner.bytes.0).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let words: Vec<String> = owners.iter().take(ROWS).map(|of| format!("{} {}", of.owner, size(of.bytes.0))).collect();
    let mut canvas = Canvas::new(width, title, words.join(", "));
    let names = if canvas.is_narrow() { NAMES_NARROW + 24.0 } else { NAMES + 20.0 };
    let scale = (canvas.width - names - 76.0) / most;
    canvas.y += 6.0;
    for Owner { owner, bytes: Number(bytes) } in owners.iter().take(ROWS) {
        let y = canvas.y;
        canvas.text(
            (names - 8.0, y + ROW - 6.0),
            Side::Left,
            "soft",
            &cut(owner, if canvas.is_narrow() { 15 } else { 20 }),
        );
        canvas.rect((names, y + 2.0), (bytes.max(0.0) * scale, ROW - 4.0), "held", "");
        canvas.text((names + bytes.max(0.0) * scale + 6.0, y + ROW - 6.0), Side::Right, "", &size(*bytes));
        canvas.y += ROW;
    }
    Some(canvas)
}
