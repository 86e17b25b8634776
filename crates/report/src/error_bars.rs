//! Charts of means with their standard deviations, one row each.

use crate::axis::{Axis, short};
use crate::chart::{LINE, SvgChart, TextAnchor, truncate};

/// Style of the chart, for pages.
pub const CSS: &str = include_str!("error_bars.css");

/// Row of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorBar {
    /// Label of the row.
    pub name: String,
    /// Value that is marked: a mean or a median.
    pub value: f64,
    /// Standard deviation, drawn to both sides; `None` for a single value.
    pub deviation: Option<f64>,
    /// Values of the runs.
    pub points: Vec<f64>,
    /// Number of the group. Rows of a group have one color.
    pub group: usize,
}

/// Number of colors. Further groups repeat them.
const COLORS: usize = 8;
/// Share of the width for labels.
const LABELS: f64 = 0.36;
/// Width of a letter of a label.
const LETTER: f64 = 6.6;
const ROW: f64 = 26.0;

/// Returns a chart of `width` units. Rows without a finite value are left out.
pub fn chart(width: f64, title: &str, bars: &[ErrorBar]) -> SvgChart {
    let bars: Vec<&ErrorBar> = bars.iter().filter(|bar| bar.value.is_finite()).collect();
    let description = "Values of several runs, with mean and standard deviation.".to_owned();
    let mut chart = SvgChart::new(width, title, description);
    let ends = |bar: &&ErrorBar| {
        let deviation = bar.deviation.filter(|it| it.is_finite()).unwrap_or(0.0);
        let points = bar.points.iter().copied().filter(|point| point.is_finite());
        points.chain([bar.value - deviation, bar.value + deviation]).collect::<Vec<_>>()
    };
    let Some(axis) = Axis::covering(bars.iter().flat_map(ends)) else {
        chart.y += LINE;
        chart.text((0.0, chart.y), TextAnchor::Start, "empty", "no data yet");
        return chart;
    };
    let left = width * LABELS;
    let x = |value: f64| left + axis.share(value) * (width - left - 24.0);
    let top = chart.y + 8.0;
    let bottom = top + ROW * bars.len() as f64;
    for tick in axis.ticks() {
        chart.line((x(tick), top), (x(tick), bottom), "grid");
        chart.text((x(tick), bottom + 16.0), TextAnchor::Middle, "soft", &short(tick));
    }
    for (row, bar) in bars.iter().enumerate() {
        draw(&mut chart, bar, top + ROW * (row as f64 + 0.5), left, &x);
    }
    chart.y = bottom + LINE;
    chart
}

fn draw(chart: &mut SvgChart, bar: &ErrorBar, y: f64, left: f64, x: &impl Fn(f64) -> f64) {
    let class = format!("e{}", bar.group % COLORS);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of letters")]
    let letters = (left / LETTER) as usize;
    chart.text((0.0, y + 4.0), TextAnchor::Start, "label", &truncate(&bar.name, letters));
    let tooltip = match bar.deviation.filter(|it| it.is_finite()) {
        Some(deviation) => format!("{}: {:.4} ± {deviation:.4}", bar.name, bar.value),
        None => format!("{}: {:.4}", bar.name, bar.value),
    };
    for point in bar.points.iter().filter(|point| point.is_finite()) {
        chart.rect((x(*point) - 0.75, y - 4.0), (1.5, 8.0), &format!("{class} run"), "");
    }
    if let Some(deviation) = bar.deviation.filter(|it| it.is_finite()) {
        let [from, to] = [bar.value - deviation, bar.value + deviation].map(x);
        chart.rect((from, y - 0.75), (to - from, 1.5), &class, "");
        for end in [from, to] {
            chart.rect((end - 0.75, y - 6.0), (1.5, 12.0), &class, "");
        }
    }
    chart.rect((x(bar.value) - 4.0, y - 4.0), (8.0, 8.0), &class, &tooltip);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::WIDE;

    fn bar(name: &str, value: f64, deviation: Option<f64>) -> ErrorBar {
        ErrorBar { name: name.to_owned(), value, deviation, points: vec![value - 0.1, value + 0.1], group: 0 }
    }

    #[test]
    fn a_row_has_its_runs_its_deviation_and_its_value() {
        let svg = chart(WIDE, "cola", &[bar("a", 0.5, Some(0.1))]).to_file(CSS);
        assert_eq!(svg.matches("class=\"e0 run\"").count(), 2);
        assert_eq!(svg.matches("class=\"e0\"").count(), 4, "a line, its ends and the value");
        assert!(svg.contains("<title>a: 0.5000 ± 0.1000</title>"), "{svg}");
        let single = chart(WIDE, "cola", &[bar("a", 0.5, None)]).to_file(CSS);
        assert_eq!(single.matches("class=\"e0\"").count(), 1);
    }

    #[test]
    fn values_that_are_not_finite_are_left_out_and_texts_are_escaped() {
        let hostile = bar("</svg><script>", 0.2, Some(f64::NAN));
        let svg = chart(WIDE, "<b>", &[hostile, bar("b", f64::NAN, None)]).to_file(CSS);
        assert!(!svg.contains("NaN") && !svg.contains("<script") && !svg.contains("<b>"), "{svg}");
        assert!(chart(WIDE, "cola", &[bar("b", f64::NAN, None)]).to_file(CSS).contains("no data yet"));
    }
}
