//! Numbers that must not be mixed up: an index, a count and a size are different types.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ordinal {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// A part of the corpus: the unit of preparation, committed as a whole.
    PartIndex(u32);
    /// A stored sample, counted over the shards of a split in manifest order.
    SampleIndex(u64);
    /// A row of the endless training stream (row = one rendered copy of one sample or piece of a sample).
    RowIndex(u64);
    /// A micro-batch of the stream: the unit of lanes, channel and upload.
    BatchIndex(u64);
    /// An optimizer step, counted from 0. After `n` steps the model has seen steps `0..n`.
    Step(u64);
    /// A pass over the (permuted) samples, counted from 0.
    Epoch(u64);
}
