//! Most of a sample, in one piece.
//!
//! **What.** A row of a contiguous part of the sample.
//!
//! **Why.** The second view of a sequence: COCO-LM's sequence contrast pulls it to the row that its main network reads.
//!
//! **Definition.** Of `n` tokens a crop keeps `l = max(1, ⌊frac · n⌋)`, or `min(frac, n)` where `frac > 1` is a number of
//! tokens (none of none); it begins at a uniform place of the `n − l + 1`. `style = "content"`: `n` counts the content,
//! and the crop is framed, `[CLS]` … `[SEP]`. `style = "raw"`: `n` counts the whole row, frame included, and the crop is
//! what is left of it, with or without its ends; `keep_cls = true` puts a `[CLS]` before a crop that is not the whole
//! row, even if it begins with one. `frac = 1` is `original`, to the byte.
//!
//! Rows are as wide as the longest crop, rounded up to a multiple of 8, and no wider than the data's.
//!
//! **Columns.** `input_ids`; on demand `attention_mask`, `origin`, `document`.
//!
//! **Reference.** Meng et al., *COCO-LM*, NeurIPS 2021, section 3.2: 90 percent of the original. The released code crops
//! raw.

use schemas::columns::INPUT_IDS;
use schemas::{ColumnSpec, Sample, Vocab};
use serde::{Deserialize, Serialize};

use super::{Source, View, ViewName};
use crate::rng::{Rng, RowAddress};
use crate::row::RowMut;

/// Cuts a part out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crop {
    /// Share that is kept, or above 1 the number of tokens.
    pub frac: f64,
    /// What is cropped.
    pub style: Style,
    /// Whether a raw crop gets a `[CLS]` in front.
    pub keep_cls: bool,
}

/// What is cropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        Self { frac: 0.9, style: Style::Content, keep_cls: false }
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
        let tokens = match self.style {
            Style::Content => self.kept(row_width.saturating_sub(FRAME)) + FRAME,
            Style::Raw => {
                let kept = self.kept(row_width);
                kept + u32::from(self.adds_cls(kept, row_width))
            }
        };
        tokens.next_multiple_of(8).min(row_width)
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if !(self.frac > 0.0 && self.frac.is_finite()) {
            let message = format!("{} keeps nothing; give a share up to 1, or a number of tokens above it", self.frac);
            problems.push(("frac", message));
        }
        if self.keep_cls && self.style == Style::Content {
            problems.push(("keep_cls", "a framed crop has its `[CLS]`; give `style = \"raw\"`, or leave it out".into()));
        }
        problems
    }

    fn render(&self, source: Source<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
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
}

/// Tokens of the frame.
const FRAME: u32 = 2;

impl Crop {
    fn render_raw(&self, sample: &Sample<'_>, vocab: &Vocab, rng: &mut Rng, row: &mut RowMut<'_>) {
        let tokens = length(sample) + FRAME;
        let (start, kept) = self.place(tokens, rng);
        let end = start + kept;
        let (cls, sep) = ([vocab.special().cls; 2], [vocab.special().sep]);
        let before = usize::from(start == 0) + usize::from(self.adds_cls(kept, tokens));
        let after = usize::from(end == tokens);
        // Content token `i` is token `i + 1` of the row.
        let content = start.saturating_sub(1) as usize..end.min(tokens - 1).saturating_sub(1) as usize;
        row.enclose(&cls[..before], &sample.slice(content), &sep[..after], vocab);
    }

    fn adds_cls(&self, kept: u32, tokens: u32) -> bool {
        self.keep_cls && kept < tokens
    }

    /// Where the crop of `tokens` begins, and its length.
    fn place(&self, tokens: u32, rng: &mut Rng) -> (u32, u32) {
        let kept = self.kept(tokens);
        (rng.below(tokens - kept + 1), kept)
    }

    /// How many of `tokens` are kept. The margin keeps a whole number whole where the product falls just below it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and cut to the row's length")]
    fn kept(&self, tokens: u32) -> u32 {
        let wanted = if self.frac > 1.0 { self.frac } else { self.frac * f64::from(tokens) + 1e-9 };
        (wanted.floor() as u32).max(1).min(tokens)
    }
}

fn length(sample: &Sample<'_>) -> u32 {
    u32::try_from(sample.input_ids.len()).expect("a sample is short")
}
