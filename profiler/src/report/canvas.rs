//! What drawings are made of: places, shapes, texts.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use server::html::text;

/// What shapes look like, on light ground and on dark.
pub(super) const LOOKS: &str = include_str!("plots.css");

/// Widths that a drawing is made for: a screen, a phone. Letters are as large on both.
pub(super) const WIDE: f64 = 960.0;
pub(super) const NARROW: f64 = 380.0;

/// Height of a line, and the width that a letter has in the mean.
pub(super) const LINE: f64 = 20.0;
const LETTER: f64 = 7.0;

/// A drawing under construction, in SVG.
pub(super) struct Canvas {
    pub(super) width: f64,
    /// Down to where it is drawn on.
    pub(super) y: f64,
    title: String,
    about: String,
    shapes: Vec<Markup>,
}

/// To which side of its place a text lies.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Right,
    Middle,
    Left,
}

impl Canvas {
    /// An empty one under that title; `about` says what can be seen, to who cannot see it.
    pub(super) fn new(width: f64, title: &str, about: String) -> Self {
        let mut canvas = Self { width, y: LINE, title: title.to_owned(), about, shapes: Vec::new() };
        canvas.text((0.0, LINE - 4.0), Side::Right, "title", title);
        canvas
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.width < 600.0
    }

    /// Which class is what, behind the title where there is room for it, else below.
    pub(super) fn legend(&mut self, entries: &[(&str, &str)]) {
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
                rect class=(class) x=(place(x)) y=(place(y - 14.0)) width="12" height="12" rx="2" {}
            });
            self.text((x + 18.0, y - 4.0), Side::Right, "soft", name);
            x += width(name);
        }
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), side: Side, class: &str, words: &str) {
        let anchor = match side {
            Side::Right => None,
            Side::Middle => Some("middle"),
            Side::Left => Some("end"),
        };
        self.shapes.push(html! {
            text class=(class) x=(place(x)) y=(place(y)) text-anchor=[anchor] { (text(words)) }
        });
    }

    /// A rectangle; `tip` is shown to who points at it.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, tip: &str) {
        let [width, height] = [width, height].map(|size| place(size.max(0.0)));
        self.shapes.push(html! {
            rect class=(class) x=(place(x)) y=(place(y)) width=(width) height=(height) {
                @if !tip.is_empty() { title { (text(tip)) } }
            }
        });
    }

    pub(super) fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), class: &str) {
        let [x, y, to_x, to_y] = [x, y, to_x, to_y].map(place);
        self.path(class, &format!("M{x} {y}L{to_x} {to_y}"));
    }

    /// A stair over places `(x, low, high)`, each of which begins where the one before ends; filled between low and high.
    pub(super) fn stairs(&mut self, from: f64, steps: &[(f64, f64, f64)], class: &str) {
        let Some(last) = steps.last() else { return };
        let mut path = format!("M{} {}", place(from), place(steps[0].2));
        stair(&mut path, steps.iter().map(|(x, _, high)| (*x, *high)));
        let _ = write!(path, "V{}", place(last.1));
        // Back along the lower edge.
        let begins = [from].into_iter().chain(steps.iter().map(|(x, ..)| *x));
        let lower: Vec<(f64, f64)> = begins.zip(steps.iter().map(|(_, low, _)| *low)).collect();
        stair(&mut path, lower.into_iter().rev());
        path.push('Z');
        self.path(class, &path);
    }

    /// The upper edge of such a stair as a line.
    pub(super) fn edge(&mut self, from: f64, steps: &[(f64, f64, f64)], class: &str) {
        let Some(first) = steps.first() else { return };
        let mut path = format!("M{} {}", place(from), place(first.2));
        stair(&mut path, steps.iter().map(|(x, _, high)| (*x, *high)));
        self.path(class, &path);
    }

    fn path(&mut self, class: &str, places: &str) {
        self.shapes.push(html! { path class=(class) d=(places) {} });
    }

    /// The drawing for a page whose style has [`LOOKS`]: it goes to the edges.
    pub(super) fn inline(&self) -> Markup {
        self.framed(0.0, 0.0, &html! {})
    }

    /// The drawing as its own file, with room around it.
    pub(super) fn alone(&self) -> String {
        let looks = html! {
            style { (PreEscaped(LOOKS)) }
            rect.ground x="-16" y="-8" width="100%" height="100%" {}
        };
        self.framed(16.0, 8.0, &looks).into_string() + "\n"
    }

    fn framed(&self, margin: f64, above: f64, looks: &Markup) -> Markup {
        let height = self.y + 8.0;
        let view = [-margin, -above, self.width + 2.0 * margin, height + 2.0 * above].map(place).join(" ");
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) role="img" aria-label=(text(&self.title)) class="plot" {
                desc { (text(&self.about)) }
                (looks)
                @for shape in &self.shapes { (shape) }
            }
        }
    }
}

/// Across and then to the next height, for each place; heights that stay are left out.
fn stair(path: &mut String, steps: impl Iterator<Item = (f64, f64)>) {
    let (mut height, mut across) = (None, None);
    for (x, y) in steps {
        let y = place(y);
        if height.as_ref() != Some(&y) {
            if let Some(x) = across.take() {
                let _ = write!(path, "H{x}");
            }
            let _ = write!(path, "V{y}");
            height = Some(y);
        }
        across = Some(place(x));
    }
    if let Some(x) = across {
        let _ = write!(path, "H{x}");
    }
}

/// A tenth of a unit is less than anybody sees.
fn place(at: f64) -> String {
    let text = format!("{at:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Round numbers from 0 to `most` or a little less: no more than so many.
pub(super) fn marks(most: f64, count: usize) -> Vec<f64> {
    if most.is_nan() || most <= 0.0 {
        return vec![0.0];
    }
    let rough = most / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|of| of * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    (0..=count).map(|number| number as f64 * step).take_while(|mark| *mark <= most * 1.0001).collect()
}

/// So many letters at the most; what is cut says so.
pub(super) fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(marks(1.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(marks(12.3, 4), [0.0, 5.0, 10.0]);
        for strange in [0.0, -1.0, f64::NAN] {
            assert_eq!(marks(strange, 4), [0.0]);
        }
        for most in [1e-9, 0.7, 99.0, 1e17] {
            assert!((2..=6).contains(&marks(most, 5).len()), "{most}");
        }
    }

    #[test]
    fn a_stair_goes_there_and_back() {
        let mut canvas = Canvas::new(WIDE, "x", String::new());
        canvas.stairs(0.0, &[(10.0, 50.0, 20.0), (20.0, 50.0, 20.0), (30.0, 50.0, 40.0)], "busy");
        assert!(canvas.inline().into_string().contains("d=\"M0 20V20H20V40H30V50V50H0Z\""), "as drawn by hand");
    }

    #[test]
    fn no_text_ends_an_element_and_nothing_is_no_number() {
        let mut canvas = Canvas::new(NARROW, "</svg><script>", "a & \u{1b}[2J".to_owned());
        canvas.rect((0.0, 0.0), (1.0, 1.0), "busy", "</title><img>");
        canvas.legend(&[("busy", "one"), ("blocked", "a legend that takes its own line, for so long is it")]);
        let svg = canvas.alone();
        assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains('\u{1b}') && !svg.contains("NaN"));
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    }
}
