//! Contiguous crop of a sample.
//!
//! # What
//! A row with a contiguous part of the sample.
//!
//! # Why
//! Second view of a sequence: COCO-LM's sequence contrast aligns it with the row of its main network.
//!
//! # Definition
//! Let `f = keep_fraction`. Of `n` tokens a crop keeps `l = max(1, ⌊f · n⌋)`; if `f > 1`, it is a number of tokens, and
//! `l = min(f, n)`. If `n = 0`, the crop is empty. The crop begins at one of the `n − l + 1` positions, uniformly.
//! `style = "content"`: `n` counts the content, and the crop is framed, `[CLS]` … `[SEP]`. `style = "raw"`: `n` counts
//! the whole row, frame included, and the crop may or may not contain the frame tokens. `keep_cls = true` puts a
//! `[CLS]` before a raw crop that is not the whole row, even if it begins with one. `keep_fraction = 1` equals
//! `original`, to the byte.
//!
//! Rows are as wide as the longest crop, rounded up to a multiple of 8, and at most as wide as the data's.
//!
//! # Columns
//! `input_ids`; on demand `attention_mask`, `origin`, `document`.
//!
//! # Reference
//! Meng et al., *COCO-LM*, NeurIPS 2021, section 3.2: 90 percent of the original. The released code crops
//! raw.

use schemars::JsonSchema;
use schemas::columns::INPUT_IDS;
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::{View, ViewName, ViewSource};
use crate::audit_counters::{AuditCounters, AuditedView};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Contiguous crop of the sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Crop {
    /// Share of the content that is kept; above 1, the number of tokens.
    pub keep_fraction: f64,
    /// Range of the crop.
    pub style: Style,
    /// Whether a raw crop begins with `[CLS]`.
    pub keep_cls: bool,
}

/// Range that is cropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// The content; the crop is framed.
    #[default]
    Content,
    /// The framed row.
    Raw,
}

impl Default for Crop {
    fn default() -> Self {
        Self { keep_fraction: 0.9, style: Style::Content, keep_cls: false }
    }
}

impl View for Crop {
    fn of(&self) -> Option<&ViewName> {
        None
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec()] }
    }

    fn width(&self, row_width: u32) -> u32 {
        self.tokens(row_width).next_multiple_of(8).min(row_width)
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if !(self.keep_fraction > 0.0 && self.keep_fraction.is_finite()) {
            let message =
                format!("{} keeps nothing; give a share up to 1, or a number of tokens above it", self.keep_fraction);
            problems.push(("keep_fraction", message));
        }
        if self.keep_cls && self.style == Style::Content {
            problems
                .push(("keep_cls", "a framed crop has its `[CLS]`; give `style = \"raw\"`, or leave it out".into()));
        }
        problems
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let sample = source.sample();
        let mut rng = at.rng("start");
        match self.style {
            Style::Content => {
                let (start, kept) = self.place(length(sample), &mut rng);
                row.frame(&sample.slice(start as usize..(start + kept) as usize), vocab);
            }
            Style::Raw => self.render_raw(sample, vocab, &mut rng, row),
        }
    }

    fn audit(&self, seen: &AuditedView<'_>, tally: &mut AuditCounters) {
        let (Some(tokens), Some(framed)) = (seen.tokens(), seen.framed()) else { return };
        for (row, (&tokens, &framed)) in tokens.iter().zip(framed).enumerate() {
            // An omitted row has no frame.
            let framed = u32::try_from(framed).expect("a row is short");
            if tokens != if framed == 0 { 0 } else { self.tokens(framed) as usize } {
                tally.record_violation("a crop has a wrong length", row, tokens);
            }
        }
    }
}

/// Number of tokens of the frame.
const FRAME: u32 = 2;

impl Crop {
    /// Returns the tokens of the crop of a sample with `framed` tokens including its frame.
    fn tokens(&self, framed: u32) -> u32 {
        match self.style {
            Style::Content => self.kept(framed.saturating_sub(FRAME)) + FRAME,
            Style::Raw => {
                let kept = self.kept(framed);
                kept + u32::from(self.adds_cls(kept, framed))
            }
        }
    }

    fn render_raw(&self, sample: &Sample<'_>, vocab: &Vocab, rng: &mut Rng, row: &mut RowMut<'_>) {
        let tokens = length(sample) + FRAME;
        let (start, kept) = self.place(tokens, rng);
        let end = start + kept;
        let cls = [vocab.special().cls; 2];
        let sep = [vocab.special().sep];
        let before = usize::from(start == 0) + usize::from(self.adds_cls(kept, tokens));
        let after = usize::from(end == tokens);
        // Content token `i` is token `i + 1` of the row.
        let content = start.saturating_sub(1) as usize..end.min(tokens - 1).saturating_sub(1) as usize;
        row.enclose(&cls[..before], &sample.slice(content), &sep[..after], vocab);
    }

    fn adds_cls(&self, kept: u32, tokens: u32) -> bool {
        self.keep_cls && kept < tokens
    }

    /// Returns the start of the crop of `tokens`, and its length.
    fn place(&self, tokens: u32, rng: &mut Rng) -> (u32, u32) {
        let kept = self.kept(tokens);
        (rng.below(tokens - kept + 1), kept)
    }

    /// Returns the number of kept tokens. The margin corrects a product that is just below a whole number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and cut to the row's length"
    )]
    fn kept(&self, tokens: u32) -> u32 {
        let wanted =
            if self.keep_fraction > 1.0 { self.keep_fraction } else { self.keep_fraction * f64::from(tokens) + 1e-9 };
        (wanted.floor() as u32).max(1).min(tokens)
    }
}

fn length(sample: &Sample<'_>) -> u32 {
    u32::try_from(sample.input_ids.len()).expect("a sample is short")
}

#[cfg(test)]
mod tests {
    use schemas::columns::{ATTENTION_MASK, DOCUMENT, ORIGIN};
    use schemas::{Batch, Column, Element};

    use super::*;
    use crate::views::AnyView;
    use crate::views::contract::{assert_uniform, column, ids, render, samples};

    fn crop(frac: f64, style: Style, keep_cls: bool) -> Crop {
        Crop { keep_fraction: frac, style, keep_cls }
    }

    fn rows(crop: &Crop, width: usize, samples: &[Vec<u16>]) -> (Batch, Vec<Vec<i32>>) {
        let batch = render(&AnyView::Crop(crop.clone()), width, samples);
        let ids = column(&batch, INPUT_IDS);
        let mask = column(&batch, ATTENTION_MASK);
        let width = ids.len() / samples.len();
        let real = |row: usize| (row * width..(row + 1) * width).filter(|&cell| mask[cell] == 1).map(|cell| ids[cell]);
        let rows = (0..samples.len()).map(|row| real(row).collect()).collect();
        (batch, rows)
    }

    #[test]
    fn all_of_a_sample_is_the_original() {
        fn check<T: Element + std::fmt::Debug + PartialEq>(batch: &Batch, what: Column<T>, view: &Crop) {
            let original = batch.find("original", what).expect("no type clash").expect("made").values().to_vec();
            assert_eq!(column(batch, what), original, "{view:?}");
        }
        for view in [crop(1.0, Style::Content, false), crop(1.0, Style::Raw, false), crop(1.0, Style::Raw, true)] {
            for width in [64, 67] {
                assert_eq!(view.width(width), width, "{view:?}");
                let batch = render(&AnyView::Crop(view.clone()), width as usize, &samples());
                check(&batch, INPUT_IDS, &view);
                check(&batch, ATTENTION_MASK, &view);
                check(&batch, ORIGIN, &view);
                check(&batch, DOCUMENT, &view);
            }
        }
    }

    #[test]
    fn a_crop_is_a_part_of_the_right_length_that_begins_anywhere() {
        // Row widths 64 and 40; the contract's samples have 0, 1, 2, 3, 17, 61 and 62 tokens.
        let content = |frac: f64, expected: [usize; 7]| (crop(frac, Style::Content, false), expected);
        let raw = |frac: f64, expected: [usize; 7]| (crop(frac, Style::Raw, false), expected);
        for (view, expected) in [
            content(0.9, [2, 3, 3, 4, 17, 56, 57]),
            content(0.1, [2, 3, 3, 3, 3, 8, 8]),
            content(9.0, [2, 3, 4, 5, 11, 11, 11]),
            raw(0.9, [1, 2, 3, 4, 17, 56, 57]),
            raw(9.0, [2, 3, 4, 5, 9, 9, 9]),
        ] {
            let (_, rows) = rows(&view, 64, &samples());
            for ((row, sample), expected) in rows.iter().zip(samples()).zip(expected) {
                let sample: Vec<i32> = sample.iter().map(|&id| id.into()).collect();
                let framed = [&[2], sample.as_slice(), &[3]].concat();
                let (part, whole) = match view.style {
                    Style::Content => (&row[1..row.len() - 1], &sample),
                    Style::Raw => (row.as_slice(), &framed),
                };
                assert_eq!(row.len(), expected, "{view:?}");
                assert!(part.is_empty() || whole.windows(part.len()).any(|window| window == part), "{view:?}: {row:?}");
            }
        }
    }

    #[test]
    fn starts_are_uniform_and_origins_name_them() {
        // 31 tokens keep 27, which begin at 0 to 4; of a raw row of 33, 29 stay and also begin at 0 to 4.
        for (style, count) in [(Style::Content, 5), (Style::Raw, 5)] {
            let samples = vec![ids(31, 1); 2000];
            let (batch, rows) = rows(&crop(0.9, style, false), 40, &samples);
            let origin = column(&batch, ORIGIN);
            let mut counts = vec![0.0; count];
            for (row, origin) in rows.iter().zip(origin.chunks(origin.len() / 2000)) {
                let first = origin.iter().position(|&at| at >= 0).expect("a crop has content");
                let start =
                    usize::try_from(origin[first]).expect("found") + usize::from(style == Style::Raw && first == 0);
                counts[start] += 1.0;
                for (id, &at) in row.iter().zip(origin).filter(|(_, at)| **at >= 0) {
                    assert_eq!(*id, i32::from(samples[0][usize::try_from(at).expect("filtered")]));
                }
            }
            assert_uniform(&counts, 2000.0 / counts.len() as f64);
        }
    }

    #[test]
    fn a_raw_crop_keeps_its_cls_where_asked() {
        let samples = vec![ids(31, 1); 200];
        let (_, plain) = rows(&crop(0.9, Style::Raw, false), 40, &samples);
        let (_, kept) = rows(&crop(0.9, Style::Raw, true), 40, &samples);
        for (plain, kept) in plain.iter().zip(&kept) {
            assert_eq!((kept[0], &kept[1..]), (2, plain.as_slice()), "the same crop behind it");
        }
        assert!(plain.iter().any(|row| row[0] == 2) && plain.iter().any(|row| row[0] != 2));
    }

    #[test]
    fn rows_are_as_wide_as_they_must_be() {
        let check = |view: Crop, row_width, expected| assert_eq!(view.width(row_width), expected, "{view:?}");
        check(Crop::default(), 512, 464);
        check(Crop::default(), 64, 64);
        check(crop(0.5, Style::Content, false), 128, 72);
        check(crop(0.5, Style::Raw, false), 128, 64);
        check(crop(0.5, Style::Raw, true), 128, 72);
        check(crop(100.0, Style::Content, false), 128, 104);
        check(crop(1000.0, Style::Content, false), 101, 101);
    }

    #[test]
    fn crop_that_keeps_nothing_is_refused() {
        let keys = |view: Crop| view.problems().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        for frac in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(keys(crop(frac, Style::Raw, false)), ["keep_fraction"]);
        }
        assert_eq!(keys(crop(0.5, Style::Content, true)), ["keep_cls"]);
        assert_eq!(keys(crop(64.0, Style::Raw, true)), [""; 0]);
    }
}
