//! Nearby positive for every token.
//!
//! # What
//! For each token of a row, the column of one other token nearby.
//!
//! # Why
//! TACO aligns the global part of nearby tokens: these are its positives.
//!
//! # Definition
//! Offsets `−m..=m` without 0, `m = max_offset`, uniformly. `edge = "window"`: only offsets that stay among the row's
//! real tokens. `edge = "anywhere"`: an offset outside them is replaced by a uniform position of the row other than the
//! anchor. Anchors and positives are any real tokens, including special ones. Padding, and the only token of a row,
//! have none (−1).
//!
//! # Columns
//! `positives`.
//!
//! # Reference
//! Fu et al., *Contextual Representation Learning beyond Masked Language Modeling* (TACO), ACL 2022,
//! section 3.2. Its window W = 5 is `max_offset = 2`; its released code treats borders as `"anywhere"`.

use schemars::JsonSchema;
use schemas::columns::POSITIVES;
use schemas::{ColumnSpec, Vocab};
use serde::{Deserialize, Serialize};

use super::{ORIGINAL, View, ViewName, ViewSource};
use crate::audit_counters::{AuditCounters, AuditedView, ViewLaw};
use crate::rng::{Rng, RowAddress, digit, draws_per_word};
use crate::row::RowMut;

/// Draws a nearby positive for every token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Window {
    /// View whose tokens are paired.
    pub of: ViewName,
    /// Maximum distance.
    pub max_offset: u16,
    /// Rule for offsets outside the row.
    pub edge: Edge,
}

/// Rule for offsets outside the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// Draw among the offsets that stay inside.
    #[default]
    Window,
    /// Draw among all offsets; replace one outside the row by any other position of the row.
    Anywhere,
}

impl Default for Window {
    fn default() -> Self {
        Self { of: ORIGINAL.to_owned(), max_offset: 2, edge: Edge::Window }
    }
}

impl View for Window {
    fn of(&self) -> Option<&ViewName> {
        Some(&self.of)
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[POSITIVES.spec()] }
    }

    fn window_reach(&self) -> Option<u16> {
        Some(self.max_offset)
    }

    fn problems(&self) -> Vec<(&'static str, String)> {
        let valid = 1..=OFFSET_MAX;
        let message = || format!("{} is not a distance; give a number from 1 to {OFFSET_MAX}", self.max_offset);
        if valid.contains(&self.max_offset) { Vec::new() } else { vec![("max_offset", message())] }
    }

    fn render(&self, source: ViewSource<'_>, _: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>) {
        let Some(positives) = row.cells.get(POSITIVES) else { return };
        let (positives, padding) = positives.split_at_mut(source.row().tokens);
        padding.fill(-1);
        if positives.len() < 2 {
            positives.fill(-1);
            return;
        }
        let reach = usize::from(self.max_offset);
        let border = reach.min(positives.len());
        let inner = border..positives.len().saturating_sub(reach).max(border);
        let head = 0..inner.start;
        let tail = inner.end..positives.len();
        self.draw_inner(&mut positives[inner.clone()], inner.start, &mut at.rng("offsets"));
        let mut rng = at.rng("border");
        let tokens = positives.len();
        for anchor in head.chain(tail) {
            positives[anchor] = self.draw_border(anchor, tokens, &mut rng);
        }
    }

    fn audit(&self, seen: &AuditedView<'_>, tally: &mut AuditCounters) {
        let (Some(positives), Some(tokens)) = (seen.column(POSITIVES), seen.tokens()) else { return };
        for (row, &tokens) in tokens.iter().enumerate() {
            let (positives, padding) = positives.row(row).split_at(tokens);
            self.audit_row(row, positives, padding, tally);
        }
    }
}

/// Upper limit: no row is wider.
const OFFSET_MAX: u16 = 1 << 14;

/// Number of words that the SIMD code processes in parallel.
const LANES: usize = 32;

impl Window {
    /// Counts one row: the positives of its tokens and of its padding.
    fn audit_row(&self, row: usize, positives: &[i16], padding: &[i16], tally: &mut AuditCounters) {
        let tokens = to_i16(positives.len());
        let reach = self.max_offset.cast_signed();
        let mut right = 0_u32;
        let mut inner = 0_u32;
        for (anchor, &positive) in (0..).zip(positives) {
            let is_inner = anchor >= reach && anchor + reach < tokens;
            let is_near = (positive - anchor).abs() <= reach || (self.edge == Edge::Anywhere && !is_inner);
            let is_right = (0..tokens).contains(&positive) && positive != anchor && is_near;
            if !(is_right || (tokens == 1 && positive == -1)) {
                tally.record_violation(
                    "a positive is not another token within the window",
                    row,
                    anchor.cast_unsigned().into(),
                );
            }
            inner += u32::from(is_inner);
            right += u32::from(is_inner && positive > anchor);
        }
        if let Some(at) = padding.iter().position(|&positive| positive != -1) {
            tally.record_violation("padding has a positive", row, positives.len() + at);
        }
        let found = f64::from(right);
        let of = f64::from(inner);
        tally.count("positives to the right", ViewLaw::events(found, 0.5, of, 1.0));
    }

    /// Draws for anchors whose whole window is inside. Uses the same words as [`Rng::split`], in an order that
    /// vectorizes: [`LANES`] of them in parallel, first one number from each, then the next from each.
    fn draw_inner(&self, positives: &mut [i16], first: usize, rng: &mut Rng) {
        let choices = 2 * u32::from(self.max_offset);
        let chunk_len = draws_per_word(choices) as usize * LANES;
        let mut words = [0; LANES];
        for (first, chunk) in (first..).step_by(chunk_len).zip(positives.chunks_mut(chunk_len)) {
            rng.fill(&mut words);
            for (base, slots) in (to_i16(first)..).step_by(LANES).zip(chunk.chunks_mut(LANES)) {
                self.draw_each(slots, &mut words, base, choices);
            }
        }
    }

    /// Draws one number from each word. If the number of choices is a power of two, as usual, the product is a shift,
    /// with half the instructions.
    fn draw_each(&self, positives: &mut [i16], words: &mut [u32; LANES], base: i16, choices: u32) {
        if choices.is_power_of_two() {
            let bits = choices.trailing_zeros();
            self.write_each(positives, words, base, |word| (word >> (u32::BITS - bits), word << bits));
        } else {
            self.write_each(positives, words, base, |word| digit(word, choices));
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "offsets are below 2^15; a checked cast would not vectorize")]
    fn write_each(
        &self,
        positives: &mut [i16],
        words: &mut [u32; LANES],
        base: i16,
        digit: impl Fn(u32) -> (u32, u32),
    ) {
        let reach = self.max_offset.cast_signed();
        for ((slot, word), lane) in positives.iter_mut().zip(words).zip(0_i16..) {
            let (number, rest) = digit(*word);
            *word = rest;
            let number = (number as u16).cast_signed();
            // 0, 1, …, 2m − 1 become −m, …, −1, 1, …, m.
            *slot = (base + lane + number - reach) + i16::from(number >= reach);
        }
    }

    fn draw_border(&self, anchor: usize, tokens: usize, rng: &mut Rng) -> i16 {
        let reach = usize::from(self.max_offset);
        let low = anchor.saturating_sub(reach);
        let high = (anchor + reach).min(tokens - 1);
        let drawn = match self.edge {
            Edge::Window => other(low, high, anchor, rng),
            Edge::Anywhere => {
                // The anchor is shifted to `reach`, so that positions are not negative.
                let moved = other(0, 2 * reach, reach, rng) + anchor;
                if moved >= reach && moved - reach < tokens { moved - reach } else { other(0, tokens - 1, anchor, rng) }
            }
        };
        to_i16(drawn)
    }
}

/// Returns a uniform position of `low..=high` other than `anchor`, which is in that range.
fn other(low: usize, high: usize, anchor: usize, rng: &mut Rng) -> usize {
    let drawn = low + rng.below(u32::try_from(high - low).expect("a row is short")) as usize;
    drawn + usize::from(drawn >= anchor)
}

fn to_i16(position: usize) -> i16 {
    i16::try_from(position).expect("the plan refuses rows of 2^15 tokens and more")
}
