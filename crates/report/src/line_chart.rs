//! Line charts as SVG files, over steps or another quantity.

use crate::chart::{SvgChart, TextAnchor, round_step};

/// Curve of a line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// `(step, value)` pairs, by step or by the other quantity. A value that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
}

/// Width and height, and the margins of the plot area: left, top, right, bottom.
const SIZE: (f64, f64) = (720.0, 360.0);
const MARGINS: (f64, f64, f64, f64) = (64.0, 36.0, 16.0, 44.0);

/// CSS classes: colors that color-blind readers can distinguish, and dashes for more curves than colors.
const COLORS: usize = 8;
const DASHES: usize = 3;

/// Returns an SVG file of 720 by 360 units with all curves over steps.
pub fn svg(title: &str, curves: &[Curve]) -> String {
    svg_over("step", title, curves)
}

/// Returns an SVG file of 720 by 360 units with all curves over a quantity of that name.
pub fn svg_over(x_name: &str, title: &str, curves: &[Curve]) -> String {
    let finite = || curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1.is_finite());
    let axes = Axis::covering(finite().map(|point| point.0)).zip(Axis::covering(finite().map(|point| point.1)));
    let mut chart = SvgChart::without_title(SIZE.0, title, format!("Curves by {x_name}."));
    chart.y = SIZE.1 - 8.0;
    chart.text((MARGINS.0, 22.0), TextAnchor::Start, "title", title);
    if let Some((x, y)) = &axes {
        draw_grid(&mut chart, x_name, x, y);
        for (number, curve) in curves.iter().enumerate() {
            draw_curve(&mut chart, number, curve, x, y);
        }
    } else {
        chart.text((MARGINS.0, 60.0), TextAnchor::Start, "empty", "no data yet");
    }
    chart.to_file_with((0.0, 0.0), include_str!("line_chart.css"))
}

/// Linear mapping from values to fractions of an axis, with round ends.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Returns an axis with round ends around all values, or `None` without values.
    fn covering(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let step = round_step(span / 5.0);
        let low = (low / step).floor() * step;
        let mut high = (high / step).ceil() * step;
        if high <= low {
            high = low + step;
        }
        Some(Self { low, high, step })
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let low = self.low;
        let step = self.step;
        let last = self.high + step / 2.0;
        (0_u32..).map(move |number| low + f64::from(number) * step).take_while(move |tick| *tick < last)
    }
}

/// Returns the coordinates of a `(step, value)` pair.
fn position(x: &Axis, y: &Axis, point: (f64, f64)) -> (f64, f64) {
    let width = SIZE.0 - MARGINS.0 - MARGINS.2;
    let height = SIZE.1 - MARGINS.1 - MARGINS.3;
    (MARGINS.0 + x.share(point.0) * width, MARGINS.1 + (1.0 - y.share(point.1)) * height)
}

fn draw_grid(chart: &mut SvgChart, x_name: &str, x: &Axis, y: &Axis) {
    let right = SIZE.0 - MARGINS.2;
    for value in y.ticks() {
        let (left, height) = position(x, y, (x.low, value));
        chart.line((left, height), (right, height), "grid");
        chart.text((left - 6.0, height + 4.0), TextAnchor::End, "tick", &short(value));
    }
    for value in x.ticks() {
        let (left, bottom) = position(x, y, (value, y.low));
        chart.text((left, bottom + 16.0), TextAnchor::Middle, "tick", &short(value));
    }
    chart.text((right, SIZE.1 - 8.0), TextAnchor::End, "tick", x_name);
}

fn draw_curve(chart: &mut SvgChart, number: usize, curve: &Curve, x: &Axis, y: &Axis) {
    let class = format!("c{} d{}", number % COLORS, number / COLORS % DASHES);
    let points = curve.points.iter().map(|point| point.1.is_finite().then(|| position(x, y, *point)));
    chart.polyline(points, &class);
    let height = MARGINS.1 + 16.0 * (number as f64 + 1.0);
    chart.text((SIZE.0 - MARGINS.2 - 4.0, height), TextAnchor::End, &class, &curve.name);
}

/// Formats a tick label, such as `12k` or `0.25`.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e9 => format!("{}G", rounded(value / 1e9)),
        _ if size >= 1e6 => format!("{}M", rounded(value / 1e6)),
        _ if size >= 1e4 => format!("{}k", rounded(value / 1e3)),
        _ if size < 1e-3 => format!("{value:.1e}"),
        _ => rounded(value),
    }
}

fn rounded(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_curves_and_no_foreign_element() {
        let points = vec![(0.0, 3.0), (10.0, f64::NAN), (20.0, 1.0), (30.0, 2.0)];
        let curve = Curve { name: "</svg><script>alert(1)</script>\u{1b}[2J".to_owned(), points };
        let plot = svg("loss & more", &[curve]);
        assert_eq!(plot.matches("<path class=\"c0 d0\"").count(), 1);
        assert!(plot.contains("M64 36M") && !plot.contains("<script") && !plot.contains('\u{1b}'), "{plot}");
        assert!(plot.contains("loss &amp; more"));
    }

    #[test]
    fn plots_with_no_or_one_value_are_valid() {
        assert!(svg("x", &[]).contains("no data yet"));
        let one = Curve { name: "a".to_owned(), points: vec![(5.0, 7.0)] };
        let plot = svg("x", &[one]);
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    }

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::covering([0.13, 9.7].into_iter()).expect("values");
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!([0.0, 12_000.0, 2.5e6, 0.25, 1e-5].map(short), ["0", "12k", "2.5M", "0.25", "1.0e-5"]);
    }
}
