//! Numbers that must not be mixed up: an index, a count and a size are different types.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! ordinal {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The ordinal that follows this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

ordinal! {
    /// A part of the corpus: the unit of preparation. A folder never uses a number for two parts.
    PartId(u32);
    /// A state of a prepared folder: what was prepared first, then what each addition or removal made of it.
    DatasetVersion(u32);
    /// A row of the endless training stream (row = one rendered copy of one sample or piece of a sample).
    RowIndex(u64);
    /// A micro-batch of the stream: the unit of workers, channel and upload.
    BatchIndex(u64);
    /// An optimizer step, counted from 0. After `n` steps the model has seen steps `0..n`.
    Step(u64);
    /// Pass over the (permuted) samples, counted from 0.
    Epoch(u64);
}

/// A stored sample, forever: the part that it is of, and its row among the samples of its split there.
///
/// All that is drawn for a sample is drawn at this address, so that adding, remaking or dropping other parts changes
/// nothing for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleAddress {
    /// The part.
    pub part: PartId,
    /// The row.
    pub row: u32,
}

impl SampleAddress {
    /// As one number: the part above, the row below.
    #[must_use]
    pub fn packed(self) -> u64 {
        u64::from(self.part.0) << 32 | u64::from(self.row)
    }

    /// The address that `number` is, or whatever is counted instead of samples.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    pub fn numbered(number: u64) -> Self {
        Self { part: PartId((number >> 32) as u32), row: number as u32 }
    }
}

impl fmt::Display for SampleAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.part, self.row)
    }
}
