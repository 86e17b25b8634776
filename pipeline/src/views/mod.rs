//! Views: renderings of samples into rows; one file each, with one line here.
//!
//! A *frame* makes a row of a sample ([`original`], [`crop`], [`segments`]) or of two ([`pair`]). An *edit* changes or
//! annotates the row of another view ([`mask`], [`corrupt`], [`window`]). Both are pure functions of their address and
//! of the samples that the address names.

use schemas::columns::TOKEN_TYPES;
use schemas::{ColumnSpec, Sample, Vocab};

use crate::audit_counters::{AuditCounters, AuditedView};
use crate::rng::RowAddress;
use crate::row::{Row, RowMut};

schemas::registry! {
    /// View: rendering of a sample into a row of a batch.
    pub enum AnyView: View {
        corrupt::Corrupt,
        crop::Crop,
        labelled_example::LabelledExample,
        mask::Mask,
        original::Original,
        pair::Pair,
        segments::Segments,
        window::Window,
    }
}

/// Key of a view in `[views]`, and the first half of its columns' names.
pub type ViewName = String;

/// Default input view of edits. It need not be configured.
pub const ORIGINAL: &str = "original";

/// Rendering of a sample. The struct is its configuration; its `Default` is the usual choice of the literature.
pub trait View: Send + Sync {
    /// Returns the input view of an edit; `None` for a frame.
    fn of(&self) -> Option<&ViewName>;

    /// Returns the columns that the view adds or changes. Attention mask, origin and document come with the frame.
    fn columns(&self) -> &'static [ColumnSpec];

    /// Returns the width of its rows if the data's is `row_width`.
    fn width(&self, row_width: u32) -> u32 {
        row_width
    }

    /// Returns the number of samples per row: 1, or 2 for a frame with a partner of another document.
    fn samples(&self) -> usize {
        1
    }

    /// Returns true if the samples must record the starts of their sentences. The folder then needs `packing =
    /// "sentences"`.
    fn needs_sentences(&self) -> bool {
        false
    }

    /// Returns true if the samples must be labelled examples.
    fn needs_targets(&self) -> bool {
        false
    }

    /// Returns true if its rows may have a second segment.
    fn makes_segments(&self) -> bool {
        self.columns().contains(&TOKEN_TYPES.spec())
    }

    /// Returns the maximum distance of positives from their anchor, if the view has positives.
    fn window_reach(&self) -> Option<u16> {
        None
    }

    /// Returns the key that requires the id counts of the training split, if any.
    fn needs_counts(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if the view divides a selection among the copies of a row, which has no effect for a single copy.
    fn needs_copies(&self) -> bool {
        false
    }

    /// Returns the errors of its configuration: key and message.
    fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the warnings of its configuration, for valid but unusual settings: key and message.
    fn warnings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Writes the row. Randomness depends on `at` alone.
    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>);

    /// Counts the view's invariants and statistics in a batch, if it has any.
    fn audit(&self, _seen: &AuditedView<'_>, _tally: &mut AuditCounters) {}
}

/// Input of a view.
#[derive(Clone, Copy, Debug)]
pub enum ViewSource<'a> {
    /// Stored sample, or a piece of it: for frames.
    Sample(&'a Sample<'a>),
    /// Stored sample, and a partner of another document unless none was found: for frames of two samples.
    TwoSamples(&'a Sample<'a>, Option<&'a Sample<'a>>),
    /// Row of the input view, for edits.
    Row(Row<'a>),
}

impl<'a> ViewSource<'a> {
    /// Returns the sample, for a frame.
    ///
    /// # Panics
    /// If the source is a row: collation passes samples to frames.
    #[must_use]
    pub fn sample(self) -> &'a Sample<'a> {
        match self {
            Self::Sample(sample) | Self::TwoSamples(sample, _) => sample,
            Self::Row(_) => panic!("a frame is rendered from a sample"),
        }
    }

    /// Returns the partner of the sample, if the frame requested one and one was found.
    #[must_use]
    pub fn partner(self) -> Option<&'a Sample<'a>> {
        match self {
            Self::TwoSamples(_, partner) => partner,
            Self::Sample(_) | Self::Row(_) => None,
        }
    }

    /// Returns the row, for an edit.
    ///
    /// # Panics
    /// If the source is a sample: collation passes rows to edits.
    #[must_use]
    pub fn row(self) -> Row<'a> {
        match self {
            Self::Row(row) => row,
            Self::Sample(_) | Self::TwoSamples(..) => panic!("an edit is rendered from a row"),
        }
    }
}

mod spans;

pub use self::spans::truncated;

/// Returns the errors of shares, by key.
fn share_problems(rates: &[(&'static str, f64)]) -> Vec<(&'static str, String)> {
    let wrong = rates.iter().filter(|(_, rate)| !(0.0..=1.0).contains(rate));
    wrong.map(|(key, rate)| (*key, format!("{rate} is not a share; give a number from 0 to 1"))).collect()
}

/// Returns the warnings for the share of tokens that are masked or replaced.
fn rate_doubts(rate: f64) -> Vec<(&'static str, String)> {
    if rate == 0.0 {
        vec![("rate", "0 leaves nothing to predict but what rounding up gives".to_owned())]
    } else if rate > 0.5 {
        vec![("rate", format!("{rate} leaves less than half of the text to learn from; 0.15 to 0.4 is usual"))]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod contract;
