//! SVG writer for charts: shapes, texts, axis ticks.
//!
//! Lengths and coordinates are in user units of the SVG, which are CSS pixels if the chart is not scaled. The origin is
//! the top left corner; x grows to the right and y downwards. Shapes have CSS classes; the caller provides the style
//! sheet.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use crate::html::text;

/// Width of a chart for a screen.
pub const WIDE: f64 = 960.0;
/// Width of a chart for a phone. Letters are as large as in a wide chart.
pub const NARROW: f64 = 380.0;

/// Height of a line of text.
pub const LINE: f64 = 20.0;
/// Mean width of a letter.
const LETTER: f64 = 7.0;
/// Space below the last shape.
const BOTTOM: f64 = 8.0;

/// SVG chart under construction.
pub struct SvgChart {
    /// Width of the drawn area, without margins.
    pub width: f64,
    /// Lower edge of the drawn area. The caller moves it down; the chart ends 8 units below it.
    pub y: f64,
    title: String,
    description: String,
    shapes: Vec<Markup>,
}

/// Alignment of a text at its x coordinate, as `text-anchor` in SVG.
#[derive(Clone, Copy)]
pub enum TextAnchor {
    /// The text begins at x.
    Start,
    /// The text is centered at x.
    Middle,
    /// The text ends at x.
    End,
}

/// One step of a stepped area: from the end of the step before it to `end_x`.
#[derive(Clone, Copy)]
pub struct AreaStep {
    /// Right end.
    pub end_x: f64,
    /// y of the lower edge.
    pub low_y: f64,
    /// y of the upper edge.
    pub high_y: f64,
}

impl SvgChart {
    /// Returns a chart with a title line. `description` is the text alternative for screen readers.
    pub fn new(width: f64, title: &str, description: String) -> Self {
        let mut chart = Self::without_title(width, title, description);
        chart.text((0.0, LINE - 4.0), TextAnchor::Start, "title", title);
        chart
    }

    /// Returns a chart whose title is only a label for screen readers.
    pub(crate) fn without_title(width: f64, title: &str, description: String) -> Self {
        Self { width, y: LINE, title: title.to_owned(), description, shapes: Vec::new() }
    }

    /// Returns whether the chart is for a narrow screen: less than 600 units wide.
    pub fn is_narrow(&self) -> bool {
        self.width < 600.0
    }

    /// Draws a legend of `(class, name)` pairs, next to the title if there is space, else below it.
    pub fn legend(&mut self, entries: &[(&str, &str)]) {
        let width = |text: &str| 20.0 + LETTER * text.chars().count() as f64 + 12.0;
        let whole: f64 = entries.iter().map(|(_, text)| width(text)).sum();
        let mut x = (self.width - whole).max(0.0);
        if x < LETTER * 1.3 * self.title.chars().count() as f64 + 16.0 {
            (x, self.y) = (0.0, self.y + LINE);
        }
        for (class, name) in entries {
            if x > 0.0 && x + width(name) > self.width + 12.0 {
                (x, self.y) = (0.0, self.y + LINE);
            }
            let y = self.y;
            self.shapes.push(html! {
                rect class=(class) x=(coordinate(x)) y=(coordinate(y - 14.0)) width="12" height="12" rx="2" {}
            });
            self.text((x + 18.0, y - 4.0), TextAnchor::Start, "soft", name);
            x += width(name);
        }
    }

    /// Draws a text with its baseline at y.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: TextAnchor, class: &str, content: &str) {
        let anchor = match anchor {
            TextAnchor::Start => None,
            TextAnchor::Middle => Some("middle"),
            TextAnchor::End => Some("end"),
        };
        self.shapes.push(html! {
            text class=(class) x=(coordinate(x)) y=(coordinate(y)) text-anchor=[anchor] { (text(content)) }
        });
    }

    /// Draws a rectangle with the given top left corner. A non-empty `tooltip` is shown on hover.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, tooltip: &str) {
        let [width, height] = [width, height].map(|size| coordinate(size.max(0.0)));
        self.shapes.push(html! {
            rect class=(class) x=(coordinate(x)) y=(coordinate(y)) width=(width) height=(height) {
                @if !tooltip.is_empty() { title { (text(tooltip)) } }
            }
        });
    }

    /// Draws a straight line.
    pub fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        self.polyline([(x, y), (to_x, to_y)].map(Some), class);
    }

    /// Draws straight lines from point to point. `None` leaves a gap.
    pub(crate) fn polyline(&mut self, points: impl IntoIterator<Item = Option<(f64, f64)>>, class: &str) {
        let mut path = String::new();
        let mut command = 'M';
        for point in points {
            if let Some((x, y)) = point {
                let _ = write!(path, "{command}{} {}", coordinate(x), coordinate(y));
            }
            command = if point.is_some() { 'L' } else { 'M' };
        }
        self.path(class, &path);
    }

    /// Draws a stepped area from `from_x`, filled between the lower and the upper edge of each step.
    pub fn step_area(&mut self, from_x: f64, steps: &[AreaStep], class: &str) {
        let Some(last) = steps.last() else { return };
        let mut path = upper_edge(from_x, steps);
        let _ = write!(path, "V{}", coordinate(last.low_y));
        // Returns along the lower edge.
        let begins = [from_x].into_iter().chain(steps.iter().map(|step| step.end_x));
        let lower: Vec<(f64, f64)> = begins.zip(steps.iter().map(|step| step.low_y)).collect();
        append_steps(&mut path, lower.into_iter().rev());
        path.push('Z');
        self.path(class, &path);
    }

    /// Draws the upper edge of a stepped area as a line.
    pub fn step_line(&mut self, from_x: f64, steps: &[AreaStep], class: &str) {
        if !steps.is_empty() {
            self.path(class, &upper_edge(from_x, steps));
        }
    }

    fn path(&mut self, class: &str, commands: &str) {
        self.shapes.push(html! { path class=(class) d=(commands) {} });
    }

    /// Returns an `svg` element without margins, for a page that includes the style sheet.
    pub fn to_markup(&self) -> Markup {
        self.element((0.0, 0.0), &html! {})
    }

    /// Returns an SVG file with a background, the style sheet `css`, and margins of 16 units at the sides and 8 above
    /// and below.
    pub fn to_file(&self, css: &str) -> String {
        self.to_file_with((16.0, 8.0), css)
    }

    /// Returns an SVG file with margins `(sides, above and below)`.
    pub(crate) fn to_file_with(&self, (sides, above): (f64, f64), css: &str) -> String {
        let style = html! {
            style { (PreEscaped(css)) }
            rect.ground x=(coordinate(-sides)) y=(coordinate(-above)) width="100%" height="100%" {}
        };
        self.element((sides, above), &style).into_string() + "\n"
    }

    fn element(&self, (sides, above): (f64, f64), style: &Markup) -> Markup {
        let height = self.y + BOTTOM;
        let view = [-sides, -above, self.width + 2.0 * sides, height + 2.0 * above].map(coordinate).join(" ");
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) role="img" aria-label=(text(&self.title)) class="plot" {
                desc { (text(&self.description)) }
                (style)
                @for shape in &self.shapes { (shape) }
            }
        }
    }
}

fn upper_edge(from_x: f64, steps: &[AreaStep]) -> String {
    let first = steps.first().map_or(0.0, |step| step.high_y);
    let mut path = format!("M{} {}", coordinate(from_x), coordinate(first));
    append_steps(&mut path, steps.iter().map(|step| (step.end_x, step.high_y)));
    path
}

/// Appends path commands to each `(x, y)`: vertical to y, then horizontal to x. Steps of equal height become one.
fn append_steps(path: &mut String, steps: impl Iterator<Item = (f64, f64)>) {
    let mut height = None;
    let mut across = None;
    for (x, y) in steps {
        let y = coordinate(y);
        if height.as_ref() != Some(&y) {
            if let Some(x) = across.take() {
                let _ = write!(path, "H{x}");
            }
            let _ = write!(path, "V{y}");
            height = Some(y);
        }
        across = Some(coordinate(x));
    }
    if let Some(x) = across {
        let _ = write!(path, "H{x}");
    }
}

/// Formats a coordinate to a tenth of a unit.
fn coordinate(at: f64) -> String {
    let text = format!("{at:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns at most `count + 1` ticks from 0 to `max`, at round numbers: multiples of 1, 2 or 5 times a power of ten.
pub fn ticks(max: f64, count: usize) -> Vec<f64> {
    if max.is_nan() || max <= 0.0 {
        return vec![0.0];
    }
    let step = round_step(max / count.max(1) as f64 * 0.999);
    (0..=count).map(|number| number as f64 * step).take_while(|tick| *tick <= max * 1.0001).collect()
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `min`.
pub(crate) fn round_step(min: f64) -> f64 {
    let power = 10_f64.powf(min.log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|step| *step >= min).unwrap_or(10.0 * power)
}

/// Returns the text in at most `max_letters` characters. A shortened text ends with `…`.
pub fn truncate(text: &str, max_letters: usize) -> String {
    if text.chars().count() <= max_letters {
        return text.to_owned();
    }
    text.chars().take(max_letters.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(1.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(12.3, 4), [0.0, 5.0, 10.0]);
        for invalid in [0.0, -1.0, f64::NAN] {
            assert_eq!(ticks(invalid, 4), [0.0]);
        }
        for max in [1e-9, 0.7, 99.0, 1e17] {
            assert!((2..=6).contains(&ticks(max, 5).len()), "{max}");
        }
    }

    #[test]
    fn a_stepped_area_is_closed_along_its_lower_edge() {
        let mut chart = SvgChart::new(WIDE, "x", String::new());
        let steps = [(10.0, 20.0), (20.0, 20.0), (30.0, 40.0)];
        chart.step_area(0.0, &steps.map(|(end_x, high_y)| AreaStep { end_x, low_y: 50.0, high_y }), "busy");
        assert!(chart.to_markup().into_string().contains("d=\"M0 20V20H20V40H30V50V50H0Z\""), "the path is closed");
    }

    #[test]
    fn texts_are_escaped_and_no_coordinate_is_nan() {
        let mut chart = SvgChart::new(NARROW, "</svg><script>", "a & \u{1b}[2J".to_owned());
        chart.rect((0.0, 0.0), (1.0, 1.0), "busy", "</title><img>");
        chart.legend(&[("busy", "one"), ("blocked", "a legend that takes a separate line because it is long")]);
        let svg = chart.to_file("");
        assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains('\u{1b}') && !svg.contains("NaN"));
        assert_eq!((truncate("abc", 3), truncate("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }
}
