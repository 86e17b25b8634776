//! Ordinal types: an index, a count and a size are different types, so that they cannot be mixed up.

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
            /// Returns the next ordinal.
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
    /// Part of the corpus: the unit of preparation. A folder never uses a number for two parts.
    PartId(u32);
    /// State of a prepared folder: the first preparation, then the result of each addition or removal.
    DatasetVersion(u32);
    /// Row of the endless training stream (row = one rendered copy of one sample or piece of a sample).
    RowIndex(u64);
    /// Micro-batch of the stream: the unit of workers, channel and upload.
    BatchIndex(u64);
    /// Optimizer step, counted from 0. After `n` steps the model has trained on steps `0..n`.
    Step(u64);
    /// Pass over the (permuted) samples, counted from 0.
    Epoch(u64);
}

/// Permanent address of a stored sample: its part, and its row among the part's samples of that split.
///
/// All random draws for a sample use this address, so that adding, rebuilding or dropping other parts does not change
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleAddress {
    /// Part of the sample.
    pub part: PartId,
    /// Row within the part.
    pub row: u32,
}

impl SampleAddress {
    /// Returns the address as one number: the part in the high bits, the row in the low bits.
    #[must_use]
    pub fn packed(self) -> u64 {
        u64::from(self.part.0) << 32 | u64::from(self.row)
    }

    /// Returns the address of `number`; also numbers other counted items.
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
