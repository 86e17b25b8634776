//! Optimizer: AdamW.

pub(crate) mod adamw;
