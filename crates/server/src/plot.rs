//! Curves as SVG: for papers, mails and pages that run no script.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::html::text;

/// A curve: where each point stands and what it is, with the least and the greatest of what was merged into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    /// Whose it is.
    pub(crate) name: String,
    /// x, mean, least, greatest; by x.
    pub(crate) points: Vec<(f64, f64, f64, f64)>,
}

/// Width and height of a plot, and of the room around its curves: left, top, right, bottom.
const SIZE: (f64, f64) = (720.0, 360.0);
const ROOM: (f64, f64, f64, f64) = (64.0, 36.0, 16.0, 44.0);

/// Told apart by people who see few colours, and by their dashes beyond.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f"];
const DASHES: [&str; 3] = ["", "6 3", "2 3"];

/// One plot of any number of curves over steps.
pub(crate) fn svg(title: &str, curves: &[Curve]) -> String {
    let finite = || curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1.is_finite());
    let axes = Axis::over(finite().map(|point| point.0)).zip(Axis::over(finite().map(|point| point.1)));
    let plot = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } font-family="sans-serif" font-size="12" {
            rect width="100%" height="100%" fill="#fff" {}
            text x=(ROOM.0) y="22" font-size="15" { (text(title)) }
            @if let Some((x, y)) = &axes {
                (grid(x, y))
                @for (number, curve) in curves.iter().enumerate() { (draw(number, curve, x, y)) }
            } @else {
                text x=(ROOM.0) y="60" fill="#666" { "nothing is known of it yet" }
            }
        }
    };
    plot.into_string() + "\n"
}

/// From values to places.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Round numbers around all that is shown; none where there is nothing.
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let rough = span / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let (low, mut high) = ((low / step).floor() * step, (high / step).ceil() * step);
        if high <= low {
            high = low + step;
        }
        Some(Self { low, high, step })
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        let (low, step) = (self.low, self.step);
        let last = self.high + step / 2.0;
        (0_u32..).map(move |number| low + f64::from(number) * step).take_while(move |mark| *mark < last)
    }
}

fn at(x: &Axis, y: &Axis, point: (f64, f64)) -> (f64, f64) {
    let (width, height) = (SIZE.0 - ROOM.0 - ROOM.2, SIZE.1 - ROOM.1 - ROOM.3);
    (ROOM.0 + x.share(point.0) * width, ROOM.1 + (1.0 - y.share(point.1)) * height)
}

fn grid(x: &Axis, y: &Axis) -> Markup {
    let right = SIZE.0 - ROOM.2;
    html! {
        @for value in y.marks() {
            @let (left, height) = at(x, y, (x.low, value));
            line x1=(place(left)) x2=(place(right)) y1=(place(height)) y2=(place(height)) stroke="#ddd" {}
            text x=(place(left - 6.0)) y=(place(height + 4.0)) text-anchor="end" fill="#444" { (short(value)) }
        }
        @for value in x.marks() {
            @let (left, bottom) = at(x, y, (value, y.low));
            text x=(place(left)) y=(place(bottom + 16.0)) text-anchor="middle" fill="#444" { (short(value)) }
        }
        text x=(place(right)) y=(place(SIZE.1 - 8.0)) text-anchor="end" fill="#444" { "step" }
    }
}

fn draw(number: usize, curve: &Curve, x: &Axis, y: &Axis) -> Markup {
    let colour = COLOURS[number % COLOURS.len()];
    let dash = DASHES[number / COLOURS.len() % DASHES.len()];
    let mut path = String::new();
    let mut is_down = false;
    for &(step, mean, ..) in &curve.points {
        // What is no number leaves a gap.
        if !mean.is_finite() {
            is_down = false;
            continue;
        }
        let (left, height) = at(x, y, (step, mean));
        let _ = write!(path, "{}{left:.1} {height:.1}", if is_down { "L" } else { "M" });
        is_down = true;
    }
    let height = ROOM.1 + 16.0 * (number as f64 + 1.0);
    html! {
        path d=(path) fill="none" stroke=(colour) stroke-width="1.5" stroke-dasharray=(dash) {}
        text x=(place(SIZE.0 - ROOM.2 - 4.0)) y=(place(height)) text-anchor="end" fill=(colour) { (text(&curve.name)) }
    }
}

/// A coordinate, to a tenth of a unit.
fn place(at: f64) -> String {
    format!("{at:.1}")
}

/// A number on an axis.
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
        let points =
            vec![(0.0, 3.0, 3.0, 3.0), (10.0, f64::NAN, 1.0, 1.0), (20.0, 1.0, 1.0, 1.0), (30.0, 2.0, 2.0, 2.0)];
        let curve = Curve { name: "</svg><script>alert(1)</script>\u{1b}[2J".to_owned(), points };
        let plot = svg("loss & more", &[curve]);
        assert_eq!(plot.matches("<path").count(), 1);
        assert!(plot.contains("M64.0 36.0M") && !plot.contains("<script") && !plot.contains('\u{1b}'), "{plot}");
        assert!(plot.contains("loss &amp; more"));
    }

    #[test]
    fn nothing_and_one_value_are_plots_too() {
        assert!(svg("x", &[]).contains("nothing is known"));
        let one = Curve { name: "a".to_owned(), points: vec![(5.0, 7.0, 7.0, 7.0)] };
        let plot = svg("x", &[one]);
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    }

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::over([0.13, 9.7].into_iter()).expect("values");
        assert_eq!(axis.marks().collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!([0.0, 12_000.0, 2.5e6, 0.25, 1e-5].map(short), ["0", "12k", "2.5M", "0.25", "1.0e-5"]);
    }
}
