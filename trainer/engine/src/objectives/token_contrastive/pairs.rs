//! Anchors, their positives and the draws of their negatives.
//!
//! The host reads anchors and counts from the batch. The device draws negatives with a seed that is a function of (run,
//! step, micro-batch, objective).

use std::ops::Range;

use schemas::SpecialIds;
use schemas::columns::{ATTENTION_MASK, DOCUMENT, IGNORE, INPUT_IDS, LABELS, POSITIVES};
use tch::{Kind, Tensor};
use trainer_plan::objectives::Reduction;
use trainer_plan::objectives::token_contrastive::{Anchors, NegativeColumns, TokenContrastive};

use crate::device::tensors::as_i64;
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::staging_buffer::Staging;

/// Number of redraws of an invalid negative before it is excluded.
const REDRAWS: usize = 4;

/// Upper bound of drawn integers, which are reduced modulo the number of choices: for 4,096 choices the bias is 2⁻¹⁹.
const DRAW_MAX: i64 = 1 << 31;

/// Anchors and their candidates as flat positions `row · t + column`, int64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    /// Anchors, `[n]`.
    pub anchors_n: &'a Tensor,
    /// Positive of each anchor, `[n]`.
    pub positives_n: &'a Tensor,
    /// Negatives of each anchor, `[n, k]`.
    pub negatives_nk: &'a Tensor,
    /// True where a negative is excluded, `[n, k]`; `None` if none is.
    pub excluded_nk: Option<&'a Tensor>,
    /// Factor of each anchor's loss, `[n]`; `None` for 1.
    pub weights_n: Option<&'a Tensor>,
}

/// Anchors of a batch, on the host.
pub(super) struct AnchorPairs {
    anchors: Vec<i64>,
    positives: Vec<i64>,
    /// `Some` if each row is averaged first.
    weights: Option<Vec<f32>>,
    rows: Rows,
}

/// Rows that have tokens; rows of padding only are excluded.
struct Rows {
    width: i64,
    /// Row number within the batch.
    numbers: Vec<i64>,
    /// Number of real tokens in each row. They precede the padding.
    lengths: Vec<i64>,
}

impl AnchorPairs {
    /// Reads anchors from the columns of `batch`. With fewer than two rows with tokens there are no negatives, so no
    /// anchors.
    pub(super) fn new(batch: &HostBatch<'_>, config: &TokenContrastive, special: SpecialIds) -> Self {
        let ids = batch.column(&config.view, INPUT_IDS);
        let positives = batch.column(&config.positives, POSITIVES);
        let labels = batch.find(&config.view, LABELS);
        let rows = Rows::new(batch, &config.view);
        let is_special = |id: i32| special.iter().any(|special| id.cast_unsigned() == special);
        let chosen = |at: usize| {
            let label = labels.as_ref().map_or(IGNORE, |labels| labels.values()[at]);
            let original = if label == IGNORE { ids.values()[at] } else { label };
            let wanted = match config.anchors {
                Anchors::All => true,
                Anchors::Masked => label != IGNORE,
                Anchors::Unmasked => label == IGNORE,
            };
            wanted && (config.specials || !is_special(original))
        };
        let mut found = Self { anchors: Vec::new(), positives: Vec::new(), weights: None, rows };
        let mut weights = Vec::new();
        if found.rows.numbers.len() >= 2 {
            let width = ids.width();
            for row in 0..batch.rows() {
                let before = found.anchors.len();
                found.add_row(positives.row(row), row * width..(row + 1) * width, chosen);
                let added = found.anchors.len() - before;
                weights.extend(std::iter::repeat_n(1.0 / added as f32, added));
            }
        }
        found.weights = (config.reduction == Reduction::Sequences).then_some(weights);
        found
    }

    fn add_row(&mut self, positives: &[i16], flat: Range<usize>, chosen: impl Fn(usize) -> bool) {
        let start = as_i64(flat.start);
        for (at, &positive) in flat.zip(positives) {
            if positive >= 0 && chosen(at) {
                self.anchors.push(as_i64(at));
                self.positives.push(start + i64::from(positive));
            }
        }
    }

    /// Returns the number of anchors.
    pub(super) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// Returns the divisor of the sum of losses: the number of anchors, or, if rows are averaged first, of rows with
    /// anchors.
    pub(super) fn count(&self) -> f64 {
        match &self.weights {
            None => self.len() as f64,
            Some(weights) => weights.iter().map(|&weight| f64::from(weight)).sum::<f64>().round(),
        }
    }

    /// Packs anchors, positives, weights and rows for the objective of that name.
    pub(super) fn send(&self, objective: &str, staging: &mut Staging) {
        staging.add_list(objective, "anchors", &self.anchors);
        staging.add_list(objective, "positives", &self.positives);
        if let Some(weights) = &self.weights {
            staging.add_list(objective, "weights", weights);
        }
        self.rows.send(objective, staging);
    }

    /// Draws the negatives of every anchor on the device. The arrays packed by `send` must be on the device.
    pub(super) fn draw(&self, forward: &Forward<'_>, config: &TokenContrastive, objective: &str) -> DrawnNegatives {
        let anchors_n = forward.uploaded(objective, "anchors");
        let document_m =
            config.exclude_same_document.then(|| forward.uploaded(&config.view, DOCUMENT.spec().name).reshape([-1]));
        let drawing = Drawing { anchors_n: &anchors_n, rows: self.rows.sent(forward, objective), document_m, config };
        forward.seed(objective);
        let (negatives_nk, excluded_nk) = drawing.negatives();
        DrawnNegatives {
            positives_n: forward.uploaded(objective, "positives"),
            weights_n: self.weights.as_ref().map(|_| forward.uploaded(objective, "weights")),
            anchors_n,
            negatives_nk,
            excluded_nk,
        }
    }
}

/// Anchors and candidates on the device.
pub(super) struct DrawnNegatives {
    anchors_n: Tensor,
    positives_n: Tensor,
    weights_n: Option<Tensor>,
    negatives_nk: Tensor,
    excluded_nk: Option<Tensor>,
}

impl DrawnNegatives {
    pub(super) fn candidates(&self) -> Candidates<'_> {
        Candidates {
            anchors_n: &self.anchors_n,
            positives_n: &self.positives_n,
            negatives_nk: &self.negatives_nk,
            excluded_nk: self.excluded_nk.as_ref(),
            weights_n: self.weights_n.as_ref(),
        }
    }
}

impl Rows {
    fn new(batch: &HostBatch<'_>, view: &str) -> Self {
        let width = batch.column(view, INPUT_IDS).width();
        let mask = batch.find(view, ATTENTION_MASK);
        let length = |row: usize| {
            mask.as_ref().map_or(width, |mask| {
                let flags = mask.row(row);
                let length = flags.iter().take_while(|&&flag| flag != 0).count();
                assert!(
                    flags[length..].iter().all(|&flag| flag == 0),
                    "row {row}: tokens follow padding, but padding must come last"
                );
                length
            })
        };
        let (numbers, lengths) =
            (0..batch.rows()).map(|row| (as_i64(row), as_i64(length(row)))).filter(|&(_, length)| length > 0).unzip();
        Self { width: as_i64(width), numbers, lengths }
    }

    fn send(&self, objective: &str, staging: &mut Staging) {
        let rows = self.numbers.last().map_or(0, |last| last + 1);
        let mut ranks = vec![0_i64; usize::try_from(rows).expect("row numbers are not negative")];
        for (rank, &row) in (0..).zip(&self.numbers) {
            ranks[usize::try_from(row).expect("row numbers are not negative")] = rank;
        }
        staging.add_list(objective, "row_numbers", &self.numbers);
        staging.add_list(objective, "row_lengths", &self.lengths);
        staging.add_list(objective, "row_ranks", &ranks);
    }

    fn sent(&self, forward: &Forward<'_>, objective: &str) -> SentRows {
        SentRows {
            width: self.width,
            count: as_i64(self.numbers.len()),
            numbers_r: forward.uploaded(objective, "row_numbers"),
            lengths_r: forward.uploaded(objective, "row_lengths"),
            ranks_b: forward.uploaded(objective, "row_ranks"),
        }
    }
}

/// [`Rows`] on the device; `r` counts the rows that have tokens.
struct SentRows {
    width: i64,
    count: i64,
    numbers_r: Tensor,
    lengths_r: Tensor,
    ranks_b: Tensor,
}

/// Inputs of a draw.
struct Drawing<'a> {
    anchors_n: &'a Tensor,
    rows: SentRows,
    document_m: Option<Tensor>,
    config: &'a TokenContrastive,
}

impl Drawing<'_> {
    /// Draws flat positions `[n, k]` and a mask of the invalid ones. The mask is `None` if no draw can be invalid.
    fn negatives(&self) -> (Tensor, Option<Tensor>) {
        let (mut negatives_nk, mut invalid_nk) = self.draw_once();
        if let Some(invalid_nk) = invalid_nk.as_mut() {
            for _ in 0..REDRAWS {
                let (redrawn_nk, redrawn_invalid_nk) = self.draw_once();
                negatives_nk = redrawn_nk.where_self(invalid_nk, &negatives_nk);
                *invalid_nk =
                    invalid_nk.logical_and(&redrawn_invalid_nk.expect("every draw returns a mask or none does"));
            }
        }
        (negatives_nk, invalid_nk)
    }

    fn draw_once(&self) -> (Tensor, Option<Tensor>) {
        let rows = &self.rows;
        let row_n = self.anchors_n.floor_divide_scalar(rows.width);
        // Uniform over the other rows: the shift skips the anchor's own row.
        let own_n1 = rows.ranks_b.index_select(0, &row_n).unsqueeze(1);
        let drawn_nk = self.integers().remainder(rows.count - 1);
        let rank_nk = &drawn_nk + drawn_nk.ge_tensor(&own_n1).to_kind(Kind::Int64);
        let gather = |values_r: &Tensor| values_r.index_select(0, &rank_nk.view([-1])).view_as(&rank_nk);
        let length_nk = gather(&rows.lengths_r);
        let (column_nk, outside_nk) = match self.config.negative_columns {
            NegativeColumns::Uniform => (self.integers().remainder_tensor(&length_nk), None),
            NegativeColumns::Matched => self.matched(&length_nk),
        };
        let flat_nk = gather(&rows.numbers_r) * rows.width + column_nk;
        let same_nk = self.document_m.as_ref().map(|document_m| same_document(document_m, self.anchors_n, &flat_nk));
        let invalid_nk = match (outside_nk, same_nk) {
            (Some(outside_nk), Some(same_nk)) => Some(outside_nk.logical_or(&same_nk)),
            (one, other) => one.or(other),
        };
        (flat_nk, invalid_nk)
    }

    /// Draws columns at most `max_offset` from the anchor's column and never equal to it, like positives. The mask
    /// marks rows that are too short.
    fn matched(&self, length_nk: &Tensor) -> (Tensor, Option<Tensor>) {
        let reach = i64::from(self.config.max_offset);
        let drawn_nk = self.integers().remainder(2 * reach);
        // Maps 0 … 2r − 1 to −r … −1, 1 … r.
        let offset_nk = &drawn_nk - reach + drawn_nk.ge(reach).to_kind(Kind::Int64);
        let own_n1 = self.anchors_n.remainder(self.rows.width).unsqueeze(1);
        let outside = |column_nk: &Tensor| column_nk.lt(0).logical_or(&column_nk.ge_tensor(length_nk));
        let column_nk = &own_n1 + &offset_nk;
        let column_nk = (&own_n1 - &offset_nk).where_self(&outside(&column_nk), &column_nk);
        let outside_nk = outside(&column_nk);
        (column_nk.masked_fill(&outside_nk, 0), Some(outside_nk))
    }

    fn integers(&self) -> Tensor {
        let anchors = self.anchors_n.size()[0];
        let negatives = i64::from(self.config.negatives);
        let draws = if self.config.shared_negatives { 1 } else { anchors };
        let drawn = Tensor::randint(DRAW_MAX, [draws, negatives], (Kind::Int64, self.anchors_n.device()));
        drawn.expand([anchors, negatives], false)
    }
}

/// Returns whether two positions lie in the same document. Frame tokens lie in none.
fn same_document(document_m: &Tensor, anchors_n: &Tensor, flat_nk: &Tensor) -> Tensor {
    let own_n1 = document_m.index_select(0, anchors_n).unsqueeze(1);
    let other_nk = document_m.index_select(0, &flat_nk.view([-1])).view_as(flat_nk);
    other_nk.eq_tensor(&own_n1).logical_and(&own_n1.ge(0))
}

#[cfg(test)]
mod tests;
