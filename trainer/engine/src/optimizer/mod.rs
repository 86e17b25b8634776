//! From gradients to new weights: AdamW.

pub(crate) mod adamw;
