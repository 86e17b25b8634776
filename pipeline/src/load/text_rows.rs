//! Rows of any text, rendered by the views of a plan.

use schemas::manifest::Frame;
use schemas::{Batch, BatchIndex, Epoch, Sample, SampleAddress, TokenIds};

use super::LoadPlan;
use crate::collate::{Item, collate};
use crate::{Error, Result};

impl LoadPlan {
    /// Renders rows of ids, without frames, as a batch of the views of the plan. Rows that are too long are truncated.
    /// Masks are drawn by `seed` and the number of the row, from `first` on.
    ///
    /// # Errors
    /// [`Error::Config`] if a view needs more than the ids of a row.
    pub fn text_batch(&self, rows: &[&[u32]], first: u64, seed: u64) -> Result<Batch> {
        let needs_more = |name: &str, what: &str| {
            Err(Error::Config(format!("the view `{name}` of this run needs {what}, which rows of a text do not have")))
        };
        for view in &self.views {
            if view.view.samples() > 1 {
                return needs_more(&view.name, "pairs of documents");
            }
            if view.view.needs_targets() {
                return needs_more(&view.name, "labelled examples");
            }
        }
        // A view of two segments inserts a third frame token.
        let has_segments = self.views.iter().any(|view| view.view.needs_sentences());
        let frame = if has_segments { 3 } else { 2 };
        let width = self.views.iter().map(|view| view.width).min().unwrap_or(frame) - frame;
        let mut items = Vec::with_capacity(rows.len());
        for (row, number) in rows.iter().zip(first..) {
            items.push(Item {
                sample: Sample {
                    input_ids: TokenIds::U32(&row[..row.len().min(width)]),
                    document_starts: &[0],
                    documents: &[0],
                    sentence_starts: &[0],
                    targets: &[],
                    frame: Frame::ClsSep,
                    source: 0,
                    offset: 0,
                },
                partner: None,
                index: SampleAddress::numbered(number),
                seed,
                epoch: Epoch(0),
                copy: 0,
                copies: self.copies,
                pieces: 1,
            });
        }
        Ok(collate(&self.views, &self.vocab, BatchIndex(first), &items))
    }
}
