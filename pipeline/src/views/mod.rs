//! Every way of seeing a sample: one file, one line each.
//!
//! A *frame* makes a row of a sample ([`original`], [`crop`], [`segments`]) or of two ([`pair`]); an *edit* changes or
//! annotates the row of another view ([`mask`], [`corrupt`], [`window`]). Either is a pure function of its address and of
//! the samples that the address names.

use schemas::{ColumnSpec, Sample, Vocab};

use crate::audit_counters::{AuditCounters, Seen};
use crate::rng::RowAddress;
use crate::row::{Row, RowMut};

schemas::registry! {
    /// Every way a sample can be seen.
    pub enum AnyView: View {
        corrupt::Corrupt,
        crop::Crop,
        mask::Mask,
        original::Original,
        pair::Pair,
        segments::Segments,
        window::Window,
    }
}

/// The key of a view in `[views]`, and the first half of its columns' names.
pub type ViewName = String;

/// The frame that edits start from unless they say otherwise. It need not be configured.
pub const ORIGINAL: &str = "original";

/// One way of seeing a sample. The struct *is* its configuration; its `Default` is the usual choice of the literature.
pub trait View: Send + Sync {
    /// The view that an edit starts from; a frame has none.
    fn of(&self) -> Option<&ViewName>;

    /// What it adds to or changes of the row. Attention mask, origin and document come with the frame.
    fn columns(&self) -> &'static [ColumnSpec];

    /// The width of its rows when the data's is `row_width`.
    fn width(&self, row_width: u32) -> u32 {
        row_width
    }

    /// How many samples a row is made of: 1, or 2 if a frame asks for a partner of another document.
    fn samples(&self) -> usize {
        1
    }

    /// Whether the samples must say where their sentences begin: the folder is then one of `packing = "sentences"`.
    fn needs_sentences(&self) -> bool {
        false
    }

    /// How far from an anchor its positives lie at most, where it names any.
    fn reach(&self) -> Option<u16> {
        None
    }

    /// The key for which it has to know how often each id is in the training split, if it does.
    fn needs_counts(&self) -> Option<&'static str> {
        None
    }

    /// Whether it shares something out among the copies of a row, and so does nothing of its own for a single one.
    fn needs_copies(&self) -> bool {
        false
    }

    /// What is wrong with its configuration: key and message.
    fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What is allowed in its configuration and hardly meant: key and message.
    fn doubts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Writes the row. Randomness comes from `at` alone.
    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, at: &RowAddress<'_>, row: &mut RowMut<'_>);

    /// Counts what it finds of itself in a batch, where it promises something that can be counted.
    fn audit(&self, _seen: &Seen<'_>, _tally: &mut AuditCounters) {}
}

/// What a row is made of.
#[derive(Clone, Copy, Debug)]
pub enum ViewSource<'a> {
    /// The stored sample, or a piece of it: for frames.
    Sample(&'a Sample<'a>),
    /// The stored sample, and a partner of another document unless none was found: for frames of two samples.
    TwoSamples(&'a Sample<'a>, Option<&'a Sample<'a>>),
    /// The row of the view that the edit is of.
    Row(Row<'a>),
}

impl<'a> ViewSource<'a> {
    /// The sample, for a frame.
    ///
    /// # Panics
    /// If it is a row: collation hands frames samples.
    #[must_use]
    pub fn sample(self) -> &'a Sample<'a> {
        match self {
            Self::Sample(sample) | Self::TwoSamples(sample, _) => sample,
            Self::Row(_) => panic!("a frame is rendered from a sample"),
        }
    }

    /// The partner of the sample, if the frame asked for one and there is one.
    #[must_use]
    pub fn partner(self) -> Option<&'a Sample<'a>> {
        match self {
            Self::TwoSamples(_, partner) => partner,
            Self::Sample(_) | Self::Row(_) => None,
        }
    }

    /// The row, for an edit.
    ///
    /// # Panics
    /// If it is a sample: collation hands edits rows.
    #[must_use]
    pub fn row(self) -> Row<'a> {
        match self {
            Self::Row(row) => row,
            Self::Sample(_) | Self::TwoSamples(..) => panic!("an edit is rendered from a row"),
        }
    }
}

mod spans;

/// What is wrong with shares, by key.
fn share_problems(rates: &[(&'static str, f64)]) -> Vec<(&'static str, String)> {
    let wrong = rates.iter().filter(|(_, rate)| !(0.0..=1.0).contains(rate));
    wrong.map(|(key, rate)| (*key, format!("{rate} is not a share; give a number from 0 to 1"))).collect()
}

/// Doubts about the share of tokens that are hidden or replaced.
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
